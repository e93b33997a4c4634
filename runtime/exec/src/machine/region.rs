//! The walk over a region: its steps in order, those of a group together; and what a run begins with.

use rtc_compiler::ir::attribute;
use std::ops::Range;
use std::sync::Arc;

use rtc_compiler::ir::graph::{MAIN, Node, NodeId, RegionId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::pointwise;
use rtc_compiler::ir::types::{Attr, Elem, LENGTH};
use rtc_compiler::plan::Plan;

use crate::axes::set_axis;
use crate::machine::requirements::check_batch;
use crate::machine::resume::given_depths;
use crate::machine::value::Val;
use crate::machine::{Active, ActiveOf, Machine, NumberOf, ValOf};
use crate::rows::{Axis, BatchView, GIVEN, row_of};
use crate::settings::ExecutionFault;
use crate::storage::List;
use rtc_base::batch::{Batch, Given, Labels};
use rtc_base::rng::Key;
use rtc_kernel::Real;

/// Executes a region; what it yields and saves stays in the table.
pub fn run_region<M: Machine>(m: &mut M, region: RegionId, here: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let plan = m.common().plan.clone();
    let own = &plan.regions[region.index()];
    forget(m, &own.unused);
    run_steps(m, &plan, region, 0..own.steps.len(), here)
}

/// Executes some steps of a region, in order.
pub fn run_steps<M: Machine>(
    m: &mut M,
    plan: &Plan,
    region: RegionId,
    range: Range<usize>,
    here: &ActiveOf<M>,
) -> Result<(), ExecutionFault> {
    let own = &plan.regions[region.index()];
    let mut next = range.start;
    while next < range.end {
        let group = own.groups.binary_search_by_key(&next, |group| group.steps.start).ok();
        let together = group.map_or(next..next + 1, |n| own.groups[n].steps.clone());
        next = together.end;
        let steps = &own.steps[together];
        if !m.is_left_out(steps) {
            match group {
                Some(n) => m.run_group(plan, region, n, here),
                None => m.run_step(plan, &steps[0], here)?,
            }
            m.keep_once(plan, steps);
        }
        if let Some(counted) = &mut m.records().counted {
            counted.add(plan, steps, here.view());
        }
        for step in steps {
            if m.common().check_finite {
                require_finite(m, plan, step.node, here.view())?;
            }
            forget(m, &step.frees);
        }
    }
    Ok(())
}

pub fn forget<'v, M: Machine>(m: &mut M, values: impl IntoIterator<Item = &'v Value>) {
    values.into_iter().for_each(|value| *m.slot(*value) = None);
}

fn require_finite<M: Machine>(m: &mut M, plan: &Plan, node: NodeId, view: &BatchView) -> Result<(), ExecutionFault> {
    let node = plan.graph.node(node);
    for (n, value) in node.results.iter().enumerate() {
        let Some(val) = m.slot(*value).clone().filter(|val| matches!(val, Val::Real(_))) else { continue };
        let Some(at) = m.numbers(&val).iter().position(|x| !Real::is_finite(*x)) else { continue };
        let (ty, fault) = (plan.graph.ty(*value), ExecutionFault::NonFinite(made(plan, node, n)));
        let bounds = ty.is_batched().then(|| view.bounds(ty));
        let row = bounds.and_then(|bounds| (0..view.rows()).find(|row| bounds.row(*row).contains(&at)));
        return Err(row.map_or(fault.clone(), |row| fault.within(named_row(view, row))));
    }
    Ok(())
}

/// What makes a result of a node, where it stands, and the name that the spec gives it.
fn made(plan: &Plan, node: &Node, result: usize) -> String {
    let exprs = pointwise::results(&node.attrs).ok().filter(|_| node.op == Op::Map);
    let what = exprs.map_or_else(|| node.op.to_string(), |exprs| Attr::from(&exprs[result]).to_string());
    let name = plan.graph.hint(node.results[result]);
    let named = if name == node.hint() { String::new() } else { format!(", which gives `{name}`") };
    format!("`{what}` of {}{named}", place(node))
}

/// Where a node stands in the spec.
pub fn place(node: &Node) -> &str {
    if node.label.is_empty() { "the model" } else { &node.label }
}

/// A row as people count it.
pub fn named_row(view: &BatchView, row: usize) -> String {
    format!("row {} of the batch", row_of(view.ids[row]) + 1)
}

/// The rows of a batch, with their lengths and the depths that come with them.
pub fn whole_batch<M: Machine>(
    m: &M,
    batch: &Batch,
    key: Key,
    depth: Option<usize>,
) -> Result<BatchView, ExecutionFault> {
    let common = m.common();
    check_batch(common.plan, batch)?;
    let depths = given_depths(common.exprs, depth, batch, common.arena)?;
    let mut view = BatchView::new(batch.rows(), key, batch.width, common.arena);
    let lengths = (0..batch.rows()).map(|row| batch.row(row).len());
    set_axis(common.axes, &mut view, LENGTH, Axis::of_lengths(lengths, common.arena));
    if let Some(depths) = depths {
        set_axis(common.axes, &mut view, GIVEN, depths);
    }
    Ok(view)
}

/// The name of an input: one that every batch has, or that of a value that comes with the examples.
#[derive(Clone, Debug)]
pub enum InputName {
    Own(&'static str),
    Given(Arc<str>),
}

impl InputName {
    pub fn text(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::Given(name) => name,
        }
    }
}

/// What a batch gives, by the names of `input` nodes.
pub fn inputs<M: Machine>(m: &M, batch: &Batch) -> List<(InputName, ValOf<M>)> {
    let arena = m.common().arena;
    let reals = |numbers: &[f32]| m.upload(arena.list(numbers.iter().map(|x| NumberOf::<M>::from_f64(f64::from(*x)))));
    let labels = match &batch.labels {
        Labels::Number(numbers) => reals(numbers),
        labels => m.ids(arena.copy(labels.classes())),
    };
    let tokens = m.ids(arena.copy(&batch.tokens));
    let mut inputs = arena.list([(InputName::Own("tokens"), tokens), (InputName::Own("labels"), labels)]);
    if let Labels::Each { weight, .. } = &batch.labels {
        inputs.push((InputName::Own("weights"), reals(weight)));
    }
    inputs.extend(given_inputs(m, &batch.given));
    inputs
}

/// Of the values that come with rows those that the model takes.
pub fn given_inputs<M: Machine>(m: &M, given: &[Given]) -> impl Iterator<Item = (InputName, ValOf<M>)> {
    let arena = m.common().arena;
    given.iter().filter_map(move |given| {
        let node = given_node(m.common().plan, &given.name)?;
        let numbers = match m.common().plan.graph.ty(node.results[0]).elem() {
            Some(Elem::Index) => m.ids(arena.list(given.numbers.iter().map(|x| *x as u32))),
            _ => m.upload(arena.list(given.numbers.iter().map(|x| NumberOf::<M>::from_f64(*x)))),
        };
        Some((InputName::Given(given.name.clone()), numbers))
    })
}

/// The input of a graph that takes the value of this name from the examples.
pub(super) fn given_node<'p>(plan: &'p Plan, name: &str) -> Option<&'p Node> {
    let mut inputs = plan.graph.nodes(MAIN).iter().map(|id| plan.graph.node(*id)).filter(|node| node.op == Op::Input);
    inputs.find(|node| node.get(attribute::NAME) == name)
}

/// Where the parameters lie in the flat array, by the values of their nodes, from where they lie by their index.
pub fn ranges_by_value(plan: &Plan, by_index: &[Range<usize>]) -> Vec<Option<Range<usize>>> {
    let mut ranges = vec![None; plan.graph.value_count()];
    for node in plan.graph.nodes(MAIN).iter().map(|id| plan.graph.node(*id)).filter(|node| node.op == Op::Param) {
        let index = plan.parameters.iter().position(|p| node.find(attribute::NAME) == Some(p.name.as_str()));
        ranges[node.results[0].index()] = index.map(|n| by_index[n].clone());
    }
    ranges
}
