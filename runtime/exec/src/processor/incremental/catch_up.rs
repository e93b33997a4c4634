//! Halting recurrences over new positions alone.
//!
//! New positions take as many steps as they need. A position that went before and has halted earlier keeps its state, but the
//! new ones look at its keys in every step that they take; so it takes those steps with them that it has not taken yet. No
//! position takes a step twice, and later steps have been taken by fewer positions.

use rtc_compiler::ir::attribute;
use std::ops::Range;

use rtc_compiler::ir::graph::{NodeId, RegionId, Value};
use rtc_compiler::ir::types::{Elem, Type};
use rtc_compiler::plan::Plan;

use crate::machine::Machine;
use crate::machine::region::run_region;
use crate::machine::value::Val;
use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::incremental::NodeCache;
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use crate::storage::{Element, List, Plain};
use rtc_kernel::truth;

use crate::loops::{decided, enter, finish, named_step, tape_of};

/// What a recurrence has made of the positions so far.
#[derive(Clone, Debug)]
pub(crate) struct Settled<T: Element> {
    /// For every step: how many positions have taken it.
    taken: Vec<usize>,
    /// The carried values of all positions where they have halted.
    carried: Vec<PositionNumbers<T>>,
    /// The values of all positions that the body reads from outside.
    captured: Vec<(Value, PositionNumbers<T>)>,
}

/// The numbers of a value at all positions.
#[derive(Clone, Debug)]
enum PositionNumbers<T> {
    Real(Vec<T>),
    Bool(Vec<u8>),
    /// The value has no positions.
    None,
}

impl<T: Element> PositionNumbers<T> {
    /// Replaces what stands from position `first` of `count` positions on, and adds the others.
    fn put(&mut self, val: &Val<T>, first: usize, count: usize) {
        fn put<E: Plain>(all: &mut Vec<E>, new: &[E], first: usize, count: usize) {
            all.truncate(new.len() / (count - first) * first);
            all.extend_from_slice(new);
        }
        match (self, val) {
            (Self::Real(all), Val::Real(new)) => put(all, new, first, count),
            (Self::Bool(all), Val::Truth(new)) => put(all, new, first, count),
            _ => {}
        }
    }

    /// Those of no positions yet.
    fn of(ty: &Type) -> Self {
        match ty.elem().filter(|_| ty.ragged().is_some()) {
            Some(Elem::Real) => Self::Real(vec![]),
            Some(Elem::Bool) => Self::Bool(vec![]),
            _ => Self::None,
        }
    }

    /// `val` behind the numbers of some positions before it.
    fn before(&self, range: Range<usize>, count: usize, val: &Val<T>) -> Val<T> {
        fn joined<E: Plain>(all: &[E], range: Range<usize>, count: usize, new: &List<E>) -> List<E> {
            let width = all.len() / count.max(1);
            let mut out = new.allocator().copy(&all[range.start * width..range.end * width]);
            out.extend_from_slice(new);
            out
        }
        match (self, val) {
            (Self::Real(all), Val::Real(new)) => Val::real(joined(all, range, count, new)),
            (Self::Bool(all), Val::Truth(new)) => Val::truth(joined(all, range, count, new)),
            _ => val.clone(),
        }
    }
}

/// The part of a value of `count` positions from position `from` on.
fn last<T: Element>(val: &Val<T>, from: usize, count: usize) -> Val<T> {
    fn part<E: Plain>(all: &List<E>, from: usize, count: usize) -> List<E> {
        all.allocator().copy(&all[all.len() / count * from..])
    }
    match val {
        Val::Real(all) => Val::real(part(all, from, count)),
        Val::Truth(all) => Val::truth(part(all, from, count)),
        other => other.clone(),
    }
}

impl<T: Element> Executor<T> {
    /// `recur` of new positions on the ragged axis `axis`, until all of them have halted.
    pub(crate) fn extend_halting(&mut self, c: &NodeContext<'_>, axis: &str) -> Result<(), ExecutionFault> {
        let (plan, id, node) = (self.plan.clone(), c.step.node, c.node);
        let body = node.body.expect("the verifier gives every loop a body");
        let own = &plan.regions[body.index()];
        let whole = c.view.axis(axis).clone();
        let (new, count) = (whole.before, whole.before + whole.total());
        let mut settled = match self.kept(id) {
            Some(NodeCache::Settled(settled)) => settled,
            _ => self.unsettled(&plan, id, body),
        };
        let given = self.arena.list(settled.captured.iter().map(|(value, _)| self.value(*value)));
        for ((_, all), val) in settled.captured.iter_mut().zip(&given) {
            all.put(val, new, count);
        }
        let mut values = crate::loops::values(self, &node.operands);
        let (mut here, mut first) = (c.view.clone(), new);
        for step in 0..settled.taken.len() {
            let from = settled.taken[step];
            if from < first {
                for (val, all) in values.iter_mut().zip(&settled.carried) {
                    *val = all.before(from..first, new, val);
                }
                for ((value, all), val) in settled.captured.iter().zip(&given) {
                    self.memory.set(*value, all.before(from..new, count, val));
                }
                first = from;
                let lengths = Axis::of_lengths([count - first], &self.arena);
                let origin = self.arena.copy(&whole.origin);
                self.set_axis(&mut here, axis, Axis { origin, before: first, ..lengths });
            }
            here.key = c.view.key.at(step as u64);
            values.push(Val::index(self.arena.list([u32::try_from(step).unwrap_or(u32::MAX)])));
            enter(self, &plan, body, values);
            self.inside(id, step, |e| run_region(e, body, &here))?;
            settled.taken[step] = count;
            let (carried, go) = own.yields.split_at(node.operands.len());
            values = crate::loops::values(self, carried);
            let go = truth::any(self.memory.truth(go[0]));
            decided(node, &here, [go]).map_err(|fault| fault.within(named_step(node, step)))?;
            let goes_on = go == truth::TRUE;
            self.forget_yields(&plan, body);
            if !goes_on {
                break;
            }
        }
        for (all, val) in settled.carried.iter_mut().zip(&values) {
            all.put(val, first, count);
        }
        for ((value, _), val) in settled.captured.iter().zip(given) {
            self.memory.set(*value, val);
        }
        let done =
            self.arena.list(values.iter().zip(&node.operands).map(|(val, of)| match plan.graph.ty(*of).ragged() {
                Some(_) => last(val, new - first, count - first),
                None => val.clone(),
            }));
        self.keep(id, NodeCache::Settled(settled));
        finish(self, node, done, tape_of::<Self>(body, self.arena.list([])));
        Ok(())
    }

    /// Before the first position.
    fn unsettled(&self, plan: &Plan, id: NodeId, body: RegionId) -> Settled<T> {
        let node = plan.graph.node(id);
        let of = |v: &Value| PositionNumbers::of(plan.graph.ty(*v));
        // What only a complete chunk reads may not be there.
        let here = |v: &&Value| plan.graph.ty(**v).ragged().is_some() && self.memory.values[v.index()].is_some();
        let captured = plan.regions[body.index()].captures.iter().filter(here);
        Settled {
            taken: vec![0; node.get(attribute::BOUND).steps().unwrap_or(0)],
            carried: node.operands.iter().map(of).collect(),
            captured: captured.map(|v| (*v, of(v))).collect(),
        }
    }
}
