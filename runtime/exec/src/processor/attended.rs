//! Attention weights, from the kernel itself: for values that are 1 for one key and 0 for all others, its output is the weight of this key.
//!
//! So masks, biases, caps, shared keys and heads that talk are those of the run, whatever the order in which the kernel adds.

use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::types::Dim;
use rtc_kernel::attention::{Attention, Scores, attention_with, talking};

use crate::machine::record::{AttendedAxis, AttentionMap};
use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::attention::{DistanceSpan, Known, talking as mixed};
use crate::processor::history::slots;
use crate::rows::{Axis, row_of};
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element};

impl<T: Element> Executor<T> {
    /// Records the weights of an `attention` that has just run, where they are asked for. Keys with slots have no map.
    pub(super) fn record_attention(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        if self.records.attention.is_none() || slots(c).is_some() {
            return Ok(());
        }
        let (queries, keys) = (c.axis(0), c.axis(1));
        let all = self.weights(c, &queries, &keys)?;
        let numbers = |value: Value, axis: &Axis, row: usize| {
            let x = self.memory.real(value);
            let width = x.len() / axis.total().max(1);
            let own = &x[axis.offsets[row] * width..axis.offsets[row + 1] * width];
            own.iter().map(|x| x.to_f64()).collect::<Vec<f64>>()
        };
        let named = |n: usize, axis: &Axis, row: usize| match c.ty(c.operand(n)).dims().get(1) {
            Some(Dim::Sym(name)) => {
                let all = axis.offsets[row]..axis.offsets[row + 1];
                let places = all.map(|at| axis.origin[row] + axis.place(at, row)).collect();
                AttendedAxis::Positions { axis: name.clone(), places }
            }
            _ => AttendedAxis::Slots(axis.len(row)),
        };
        let known = self.records.attention.iter().flatten();
        let run = known.rev().find(|map| map.result == c.node.results[0]).map_or(0, |map| map.run + 1);
        let maps: Vec<AttentionMap> = all
            .into_iter()
            .enumerate()
            .map(|(row, weights)| AttentionMap {
                label: c.node.label.clone(),
                result: c.node.results[0],
                run,
                row: row_of(c.view.ids[row]) as usize,
                queries: named(0, &queries, row),
                keys: named(1, &keys, row),
                weights,
                values: numbers(c.operand(2), &keys, row),
                output: numbers(c.node.results[0], &queries, row),
            })
            .collect();
        if let Some(found) = &mut self.records.attention {
            found.extend(maps);
        }
        Ok(())
    }

    /// The weights of every row, `[heads, queries, keys]`.
    fn weights(&mut self, c: &NodeContext<'_>, queries: &Axis, keys: &Axis) -> Result<Vec<Vec<f64>>, ExecutionFault> {
        let span = DistanceSpan::longest(c);
        let codes = self.codes(c, span);
        let rows = 0..c.view.rows();
        let longest = rows.clone().map(|row| keys.len(row)).max().unwrap_or(0);
        let mut found = vec![];
        self.with_attention(c, 3, span, Known::nothing(&mut None), |m, spec, bias, scored| {
            let [q, k] = [0, 1].map(|n| m.real(c.operand(n)));
            let scaled = scored.and_then(|scored| scored.queries(c, q));
            let q = scaled.as_ref().map_or(q, Buffer::as_slice);
            let scores = Scores { bias: *bias, relative: codes.as_ref().map(|codes| codes.relative(m)) };
            let Attention { heads, key_heads, value_width: width, .. } = *spec;
            found.extend(rows.clone().map(|row| vec![0.0; heads * queries.len(row) * keys.len(row)]));
            let mut values = vec![T::ZERO; keys.total() * key_heads * width];
            let mut out = vec![T::ZERO; queries.total() * heads * width];
            // A head has as many numbers as keys are asked for at once.
            for first in (0..longest).step_by(width) {
                let asked = |row: usize| first..keys.len(row).min(first + width);
                values.fill(T::ZERO);
                for row in rows.clone() {
                    for (key, head) in asked(row).flat_map(|key| (0..key_heads).map(move |head| (key, head))) {
                        values[((keys.offsets[row] + key) * key_heads + head) * width + key - first] = T::ONE;
                    }
                }
                let inputs = [q, k, &values[..]];
                match mixed(c, m) {
                    Some(mixed) => {
                        talking::attention(spec, &scores, &mixed, inputs, &queries.offsets, &keys.offsets, &mut out);
                    }
                    None => attention_with(spec, &scores, inputs, &queries.offsets, &keys.offsets, &mut out),
                }
                for row in rows.clone() {
                    let (across, up) = (keys.len(row), queries.len(row));
                    for (head, query) in (0..heads).flat_map(|head| (0..up).map(move |query| (head, query))) {
                        let from = ((queries.offsets[row] + query) * heads + head) * width;
                        for key in asked(row) {
                            found[row][(head * up + query) * across + key] = out[from + key - first].to_f64();
                        }
                    }
                }
            }
        })?;
        Ok(found)
    }
}
