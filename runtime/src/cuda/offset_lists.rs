//! Masks and biases that are expressions, as an attention on a device takes them: the distances that are seen, listed by the host,
//! and a number for each, which the device works out.

use std::collections::BTreeMap;

use rtc_compiler::expr::{Value as Number, Var, eval};
use rtc_compiler::ir::attribute::{self, Mask};
use rtc_compiler::ir::graph::NodeId;
use rtc_compiler::plan::Plan;

use super::attend::Ruled;
use super::device::{Arg, Target};
use super::dispatch::NodeContext;
use super::exec::Executor;
use super::memory::{Array, int, whole};
use crate::exec::Fault;
use crate::exec::attention::apart;
use crate::exec::mask::Rule;
use crate::exec::storage::Element;

/// Distances between queries and keys that are seen.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// Rising, as 32-bit integers.
    pub(super) distances: Array,
    /// Whether there are others between them.
    pub(super) gaps: bool,
    /// A number for each head and distance, where there is a bias.
    pub(super) values: Option<Array>,
}

/// What the distances that a node sees depend on: the step, where the mask reads it, and how many queries and keys there are at
/// most, by the next power of two.
pub(super) type Seen = (NodeId, i64, [usize; 2]);

impl<T: Element> Executor<T> {
    /// The mask and the bias of an attention, where they are expressions; `longest` are its queries and keys at most.
    pub(super) fn ruled(
        &mut self,
        c: &NodeContext<'_>,
        step: i64,
        longest: [usize; 2],
    ) -> Result<Option<Ruled>, Fault> {
        let exprs = self.exprs.clone();
        let Some(rule) = exprs.get(&c.step.node) else { return Ok(None) };
        let rule = rule.as_ref().map_err(|message| Fault::Batch(message.clone()))?;
        let name = self.rules.get(&c.step.node).cloned();
        let (first, count) = rule.bias.as_ref().map_or((0, 0), |bias| (bias.first, bias.sizes.len()));
        let tables = c.node.operands[first..first + count].to_vec();
        let mut given = vec![Arg::Whole(step)];
        given.extend(tables.iter().map(|v| self.real(*v).arg()));
        let list = rule.by_distance.then(|| {
            let (distances, gaps) = self.distances(c, rule, step, longest);
            let values = name.as_ref().filter(|_| rule.bias.is_some()).map(|name| {
                let (heads, count) = (c.get(attribute::HEADS), distances.len());
                let values = self.pool.take::<T>(heads * count);
                let args = [distances.arg(), int(count), int(heads), values.arg(), whole(count)];
                self.pool.each(&format!("values_{name}"), count, &[&given[..], &args].concat());
                values
            });
            List { distances, gaps, values }
        });
        Ok(Some(Ruled { name, given, tables, list, stops: rule.stop.is_some() }))
    }

    /// The distances that a mask shows: those of a power of two of positions, so that batches of other lengths find them made.
    fn distances(&mut self, c: &NodeContext<'_>, rule: &Rule, step: i64, longest: [usize; 2]) -> (Array, bool) {
        let reads_step = rule.expr.as_ref().is_some_and(|expr| expr.uses(Var::Step));
        let sizes = longest.map(usize::next_power_of_two);
        let seen = (c.step.node, if reads_step { step } else { 0 }, sizes);
        if let Some(known) = self.lists.get(&seen) {
            return known.clone();
        }
        let causal = c.get(attribute::MASK) == Mask::Causal;
        let sees = |distance: &isize| match &rule.expr {
            Some(expr) => eval(expr, &apart(*distance, step, 0)) == Ok(Number::Bool(true)),
            None => !causal || *distance >= 0,
        };
        let [queries, keys] = sizes.map(|size| size as isize);
        // The device reads them as signed numbers.
        let list: Vec<u32> = (1 - keys..queries).filter(sees).map(|distance| distance as i32 as u32).collect();
        let gaps = list.windows(2).any(|pair| pair[1] != pair[0].wrapping_add(1));
        let list = (self.pool.keep(&list), gaps);
        self.lists.insert(seen, list.clone());
        list
    }
}

/// What the names of the kernels of expressions end with, by node.
pub(super) fn names(plan: &Plan, target: Target) -> BTreeMap<NodeId, String> {
    super::mask_codegen::written(plan, target).into_iter().map(|(id, written)| (id, written.name)).collect()
}
