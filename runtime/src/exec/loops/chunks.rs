//! The chunk recurrence.

use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::types::Type;

use super::{Part, State, int, put_slices, word};
use crate::exec::rows::{Axis, Env};
use crate::exec::storage::{Buffer, Element, List};
use crate::exec::value::{TapeStep, Val};
use crate::exec::{Executor, Fault};

impl<T: Element> Executor<T> {
    /// `chunks`: every row runs through its chunks from left to right.
    pub(in crate::exec) fn chunks(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let carried = int(node, "carried").unwrap_or(0);
        let axis = self.axis_name(word(node, "axis"));
        let whole = env.axis(word(node, "over")).clone();
        let widths = chunk_widths(node, &whole, env);
        let mut state = State { values: self.values(&node.operands[..carried]), of: &node.operands[..carried] };
        let sequences = self.values(&node.operands[carried..]);
        let given = node.results[carried..].iter().take_while(|v| *self.plan.graph.ty(**v) != Type::Tape);
        let mut outputs: List<Buffer<T>> = arena.list(given.map(|v| arena.take(env.extent(self.plan.graph.ty(*v)))));
        let mut tape = arena.list([]);
        let mut full = arena.list([]);
        let mut present = env.rows();
        let steps = (0..env.rows()).map(|r| whole.len(r).div_ceil(widths[r])).max().unwrap_or(0);
        for t in 0..steps {
            let rows = arena.list((0..env.rows()).filter(|r| t * widths[*r] < whole.len(*r)));
            let starts = arena.list(rows.iter().map(|r| t * widths[*r]));
            let part = Part { rows: &rows, starts: &starts, all: rows.len() == env.rows() };
            if rows.len() < present {
                self.put_back(full);
                full = self.cut_captures(&plan, body, env, &rows);
                present = rows.len();
            }
            let mut here = if part.all { env.clone() } else { env.select(&rows) };
            self.set_axis(&mut here, &axis, chunk_axis(part, &widths, &whole, env));
            here.key = env.key.at(t as u64);
            let mut params = self.rows_of(&mut state, env, part);
            for (sequence, of) in sequences.iter().zip(&node.operands[carried..]) {
                params.push(self.slice_out(sequence, *of, env, part, here.axis(&axis)));
            }
            let mut out = self.body(&plan, body, params, &here)?;
            for (n, output) in out.yields.drain(carried..).enumerate() {
                let bounds = env.bounds(plan.graph.ty(node.results[carried + n]));
                put_slices(&output, &mut outputs[n], &bounds, part, here.axis(&axis));
            }
            self.rows_back(&mut state, out.yields, env, part);
            if self.is_taped(node) {
                let taken = (!part.all).then(|| arena.share(arena.copy(&rows)));
                tape.push(TapeStep { env: here, rows: taken, starts, saved: out.saved });
            }
        }
        self.put_back(full);
        if let Some(counted) = &mut self.counted {
            counted.steps += steps as u64;
        }
        state.values.extend(outputs.into_iter().map(Val::real));
        self.finish(node, body, state.values, tape);
        Ok(())
    }
}

/// The positions of the chunks of the rows that take part.
pub(crate) fn chunk_axis(part: Part<'_>, widths: &[usize], whole: &Axis, env: &Env) -> Axis {
    let chunks = part.rows.iter().zip(part.starts);
    let lengths = chunks.clone().map(|(r, start)| widths[*r].min(whole.len(*r) - start));
    let origin = env.arena().list(chunks.map(|(r, start)| whole.origin[*r] + start));
    Axis { origin, ..Axis::of_lengths(lengths, env.arena()) }
}

/// The chunk width of every row.
///
/// `cut: position` cuts each row by itself: into pieces of `size`, or into `count` pieces of equal width. `cut: balanced` is
/// the papers' code: the padded width of the batch decides for all rows, and pieces are of equal width.
pub(crate) fn chunk_widths(node: &Node, whole: &Axis, env: &Env) -> List<usize> {
    let balanced = word(node, "cut") == "balanced";
    let width = |length: usize| match (int(node, "count"), int(node, "size")) {
        (Some(count), _) => length.div_ceil(count.max(1)),
        (None, Some(size)) if balanced => length.div_ceil(length.div_ceil(size.max(1)).max(1)),
        (None, size) => size.unwrap_or(1),
    };
    let length = |row: usize| if balanced { env.width.max(whole.len(row)) } else { whole.len(row) };
    env.arena().list((0..env.rows()).map(|row| width(length(row)).max(1)))
}
