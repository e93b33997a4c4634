//! Loops over new positions alone: every step of a recurrence has a past of its own, and so has the chunk that is not complete yet.

use rtc_compiler::ir::attribute;
use std::ops::Range;

use rtc_compiler::ir::graph::{Node, RegionId};
use rtc_compiler::ir::types::{Dim, Type};
use rtc_compiler::plan::Plan;

use crate::loops::{enter, finish, tape_of};
use crate::machine::Machine;
use crate::machine::region::run_region;
use crate::machine::value::Val;
use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::incremental::NodeCache;
use crate::rows::{Axis, BatchView};
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element, List};

/// The chunk that new positions come into.
#[derive(Clone, Debug)]
pub(crate) struct OpenChunk<T: Element> {
    /// How many chunks are complete.
    number: usize,
    /// Positions that it has so far.
    filled: usize,
    /// What the complete chunks hand on.
    carried: Vec<Val<T>>,
    /// Its part of every sequence.
    sequences: Vec<Vec<T>>,
}

impl<T: Element> Executor<T> {
    /// `recur` of new positions.
    pub(crate) fn extend_recur(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let (plan, id, node) = (self.plan.clone(), c.step.node, c.node);
        let body = node.body.expect("the verifier gives every loop a body");
        let halts = plan.regions[body.index()].yields.len() > node.operands.len();
        if let Some(axis) = node.operands.iter().find_map(|v| plan.graph.ty(*v).ragged()).filter(|_| halts) {
            return self.extend_halting(c, axis);
        }
        let mut values = crate::loops::values(self, &node.operands);
        let mut here = c.view.clone();
        for step in 0..node.get(attribute::BOUND).steps().unwrap_or(0) {
            here.key = c.view.key.at(step as u64);
            values.push(Val::index(self.arena.list([u32::try_from(step).unwrap_or(u32::MAX)])));
            enter(self, &plan, body, values);
            self.inside(id, step, |e| run_region(e, body, &here))?;
            values = crate::loops::values(self, &plan.regions[body.index()].yields[..node.operands.len()]);
            self.forget_yields(&plan, body);
        }
        finish(self, node, values, tape_of::<Self>(body, self.arena.list([])));
        Ok(())
    }

    /// `chunks` of new positions. A chunk that they complete runs whole, once, for what it hands on.
    pub(crate) fn extend_chunks(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let (plan, id, node, view) = (self.plan.clone(), c.step.node, c.node, c.view);
        let body = node.body.expect("the verifier gives every loop a body");
        let (carried, size) = (node.get(attribute::CARRIED), node.find(attribute::SIZE).unwrap_or(1));
        let count = view.axis(node.get(attribute::OVER)).total();
        let mut chunk = match self.kept(id) {
            Some(NodeCache::Chunk(chunk)) => chunk,
            _ => self.first_chunk(node, carried),
        };
        let given = node.results[carried..].iter().take_while(|v| *plan.graph.ty(**v) != Type::Tape);
        let buffer = |v| self.arena.take(view.extent(plan.graph.ty(v)));
        let mut outputs: List<Buffer<T>> = self.arena.list(given.map(|v| buffer(*v)));
        let mut from = 0;
        while from < count {
            let new = from..count.min(from + size - chunk.filled);
            let complete = chunk.filled + new.len() == size;
            let before = if complete { 0 } else { chunk.filled };
            let params = self.take_in(node, &mut chunk, new.clone(), before);
            let here = self.chunk_view(node, &chunk, before, view);
            enter(self, &plan, body, params);
            match complete {
                true => self.wholly(|e| run_region(e, body, &here))?,
                false => self.inside(id, 0, |e| run_region(e, body, &here))?,
            }
            let yields = &plan.regions[body.index()].yields;
            for (output, value) in outputs.iter_mut().zip(&yields[carried..]) {
                let (values, width) = (self.memory.real(*value), output.len() / count);
                let last = &values[values.len() - new.len() * width..];
                output[new.start * width..new.end * width].copy_from_slice(last);
            }
            if complete {
                let handed_on = crate::loops::values(self, &yields[..carried]).into_iter().collect();
                chunk = OpenChunk { number: chunk.number + 1, filled: 0, carried: handed_on, ..chunk };
                chunk.sequences.iter_mut().for_each(Vec::clear);
                self.forget_inside(id);
            }
            self.forget_yields(&plan, body);
            from = new.end;
        }
        let done = self.arena.list(chunk.carried.iter().cloned().chain(outputs.into_iter().map(Val::real)));
        self.keep(id, NodeCache::Chunk(chunk));
        finish(self, node, done, tape_of::<Self>(body, self.arena.list([])));
        Ok(())
    }

    fn first_chunk(&self, node: &Node, carried: usize) -> OpenChunk<T> {
        let (start, sequences) = node.operands.split_at(carried);
        let carried = start.iter().map(|v| self.value(*v)).collect();
        OpenChunk { number: 0, filled: 0, carried, sequences: sequences.iter().map(|_| vec![]).collect() }
    }

    /// Adds some new positions to the chunk, and gives what its body gets: what is carried, then every sequence from position
    /// `before` of the chunk on.
    fn take_in(&self, node: &Node, chunk: &mut OpenChunk<T>, new: Range<usize>, before: usize) -> List<Val<T>> {
        let mut params = self.arena.list(chunk.carried.iter().cloned());
        chunk.filled += new.len();
        for (sequence, of) in chunk.sequences.iter_mut().zip(&node.operands[params.len()..]) {
            let values = self.memory.real(*of);
            let width = self.plan.graph.ty(*of).dims()[2..].iter().filter_map(Dim::fixed).product::<usize>();
            sequence.extend_from_slice(&values[new.start * width..new.end * width]);
            params.push(Val::real(self.arena.copy(&sequence[before * width..])));
        }
        params
    }

    /// The chunk as its body sees it, from position `before` on.
    fn chunk_view(&self, node: &Node, chunk: &OpenChunk<T>, before: usize, view: &BatchView) -> BatchView {
        let start =
            view.axis(node.get(attribute::OVER)).origin[0] + chunk.number * node.find(attribute::SIZE).unwrap_or(1);
        let lengths = Axis::of_lengths([chunk.filled - before], &self.arena);
        let mut here = view.clone();
        self.set_axis(
            &mut here,
            node.get(attribute::AXIS),
            Axis { origin: self.arena.list([start]), before, ..lengths },
        );
        here.key = view.key.at(chunk.number as u64);
        here
    }

    /// Forgets what a body hands out, as far as it was computed.
    pub(super) fn forget_yields(&mut self, plan: &Plan, body: RegionId) {
        for value in plan.regions[body.index()].yields.iter().filter(|v| plan.graph.scope(**v) == body) {
            self.memory.values[value.index()] = None;
        }
    }
}
