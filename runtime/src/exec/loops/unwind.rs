//! The backward run of a loop.

use std::rc::Rc;

use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::types::{Attr, Type};

use super::{State, put_slices};
use crate::exec::rows::Env;
use crate::exec::storage::{Buffer, Element};
use crate::exec::value::Val;
use crate::exec::{Executor, Fault};
use crate::kernel::elementwise;

impl<T: Element> Executor<T> {
    /// `unwind`: runs the backward body over the taped steps, last to first.
    pub(in crate::exec) fn unwind(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let Val::Tape(tape) = self.value(node.operands[0]) else { unreachable!("the verifier checks the tape") };
        let carried = Self::int(node, "carried").unwrap_or(0);
        let outputs = Self::int(node, "outputs").unwrap_or(0);
        let slices = Self::int(node, "slices").unwrap_or(0);
        let operand_types = self.types(&node.operands);
        let result_types = self.types(&node.results);
        let axis = node.attrs.get("axis").and_then(Attr::text).unwrap_or_default().to_owned();
        let mut state = State {
            values: node.operands[1..=carried].iter().map(|v| self.value(*v)).collect(),
            types: operand_types[1..=carried].to_vec(),
        };
        let seeds: Vec<Val<T>> = node.operands[1 + carried..].iter().map(|v| self.value(*v)).collect();
        debug_assert_eq!(seeds.len(), outputs);
        let mut sums: Vec<Buffer<T>> = result_types[carried..].iter().map(|ty| self.zeroed(env.extent(ty))).collect();
        let everyone: Vec<usize> = (0..env.rows()).collect();
        let (mut full, mut present) = (vec![], &everyone[..]);
        for step in tape.steps.iter().rev() {
            let all = step.rows.is_none();
            let rows: &[usize] = step.rows.as_deref().map_or(&everyone, |r| r);
            if rows != present {
                self.put_back(std::mem::take(&mut full));
                full = if all { vec![] } else { self.cut_captures(body, env, rows) };
                present = rows;
            }
            let mut params = self.rows_of(&mut state, env, rows, all);
            for (seed, ty) in seeds.iter().zip(&operand_types[1 + carried..]) {
                params.push(self.slice_out(seed, ty, env, rows, &step.starts, step.env.axis(&axis)));
            }
            params.extend(step.saved.iter().cloned());
            let mut yields = self.body(body, params, &step.env)?.yields;
            let mut rest = yields.split_off(carried);
            let contributions = rest.split_off(slices);
            self.rows_back(&mut state, yields, env, rows, all);
            for (n, slice) in rest.iter().enumerate() {
                let bounds = env.bounds(&result_types[carried + n]);
                put_slices(slice, sums[n].as_mut_slice(), &bounds, rows, &step.starts, step.env.axis(&axis));
            }
            for (n, part) in contributions.iter().enumerate() {
                let ty = &result_types[carried + slices + n];
                self.add_rows(sums[slices + n].as_mut_slice(), part, ty, env, rows, all);
            }
        }
        self.put_back(full);
        state.values.extend(sums.into_iter().map(|b| Val::Real(Rc::new(b))));
        for (result, val) in node.results.iter().zip(state.values) {
            self.memory.set(*result, val);
        }
        Ok(())
    }

    fn zeroed(&self, len: usize) -> Buffer<T> {
        let mut buffer = self.pool.take(len);
        buffer.as_mut_slice().fill(T::ZERO);
        buffer
    }

    /// Adds the rows of `part` to the given rows of `sum`.
    fn add_rows(&self, sum: &mut [T], part: &Val<T>, ty: &Type, env: &Env, rows: &[usize], all: bool) {
        let Val::Real(part) = part else { return };
        if all || !ty.is_batched() {
            elementwise::add_assign(sum, part.as_slice());
            return;
        }
        let bounds = env.bounds(ty);
        let mut at = 0;
        for &row in rows {
            let range = bounds.row(row);
            let len = range.len();
            elementwise::add_assign(&mut sum[range], &part.as_slice()[at..at + len]);
            at += len;
        }
    }
}
