//! The backward run of a loop.

use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::plan::Step;

use super::{Part, State, int, put_slices, word};
use crate::exec::rows::Env;
use crate::exec::storage::{Buffer, Element, List};
use crate::exec::value::{Tape, TapeStep, Val};
use crate::exec::{Executor, Fault};
use crate::kernel::elementwise;

impl<T: Element> Executor<T> {
    /// `unwind`: runs the backward body over the taped steps, last to first. What a step saved goes as soon as its
    /// backward run is over.
    pub(in crate::exec) fn unwind(&mut self, step: &Step, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let [carried, outputs, slices] = ["carried", "outputs", "slices"].map(|name| int(node, name).unwrap_or(0));
        let axis = word(node, "axis");
        let mut tape = self.taped(step, node.operands[0]);
        let (before, after) = node.operands[1..].split_at(carried);
        let mut state = State { values: self.values(before), of: before };
        let seeds = self.values(after);
        debug_assert_eq!(seeds.len(), outputs);
        let results = &node.results[carried..];
        let zeroed = |of: &Value| arena.filled(env.extent(plan.graph.ty(*of)), T::ZERO);
        let mut sums: List<Buffer<T>> = arena.list(results.iter().map(zeroed));
        let everyone = arena.list(0..env.rows());
        let (mut full, mut present) = (arena.list([]), arena.copy(&everyone));
        while let Some(TapeStep { env: here, rows, starts, saved }) = tape.pop() {
            let part = Part { rows: rows.as_deref().unwrap_or(&everyone), starts: &starts, all: rows.is_none() };
            if *part.rows != *present {
                self.put_back(full);
                full = if part.all { arena.list([]) } else { self.cut_captures(&plan, body, env, part.rows) };
                present = arena.copy(part.rows);
            }
            let mut params = self.rows_of(&mut state, env, part);
            for (seed, of) in seeds.iter().zip(after) {
                params.push(self.slice_out(seed, *of, env, part, here.axis(axis)));
            }
            params.extend(saved);
            let mut yields = self.body(&plan, body, params, &here)?.yields;
            for (n, val) in yields.drain(carried..).enumerate() {
                if n < slices {
                    let bounds = env.bounds(plan.graph.ty(results[n]));
                    put_slices(&val, &mut sums[n], &bounds, part, here.axis(axis));
                } else {
                    self.add_rows(&mut sums[n], &val, results[n], env, part);
                }
            }
            self.rows_back(&mut state, yields, env, part);
        }
        self.put_back(full);
        state.values.extend(sums.into_iter().map(Val::real));
        for (result, val) in node.results.iter().zip(state.values) {
            self.memory.set(*result, val);
        }
        Ok(())
    }

    /// The steps of a tape: its own ones where the tape is used for the last time, else handles to them.
    pub(super) fn taped(&mut self, step: &Step, tape: Value) -> List<TapeStep<T>> {
        let slot = &mut self.memory.values[tape.index()];
        let val = if step.frees.contains(&tape) { slot.take() } else { slot.clone() };
        let Some(Val::Tape(tape)) = val else { unreachable!("the verifier checks the tape") };
        Tape::into_steps(tape)
    }

    /// Adds the rows of `part` to the same rows of `sum`, which has the type of `of`.
    pub(super) fn add_rows(&self, sum: &mut [T], val: &Val<T>, of: Value, env: &Env, part: Part<'_>) {
        let (Val::Real(val), ty) = (val, self.ty(of)) else { return };
        if part.all || !ty.is_batched() {
            elementwise::add_assign(sum, val);
            return;
        }
        let bounds = env.bounds(ty);
        let mut at = 0;
        for &row in part.rows {
            let range = bounds.row(row);
            let len = range.len();
            elementwise::add_assign(&mut sum[range], &val[at..at + len]);
            at += len;
        }
    }
}
