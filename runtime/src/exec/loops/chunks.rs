//! The chunk recurrence.

use std::rc::Rc;

use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::types::{Attr, Type};

use super::{State, put_slices};
use crate::exec::rows::{Axis, Env};
use crate::exec::storage::{Buffer, Element};
use crate::exec::value::{TapeStep, Val};
use crate::exec::{Executor, Fault};

impl<T: Element> Executor<T> {
    /// `chunks`: every row runs through its chunks from left to right.
    pub(in crate::exec) fn chunks(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let carried = Self::int(node, "carried").unwrap_or(0);
        let over = node.attrs.get("over").and_then(Attr::text).unwrap_or_default().to_owned();
        let axis = node.attrs.get("axis").and_then(Attr::text).unwrap_or_default().to_owned();
        let whole = env.axis(&over).clone();
        let widths = chunk_widths(node, &whole, env.width);
        let types = self.types(&node.operands);
        let result_types = self.types(&node.results);
        let mut state =
            State { values: node.operands[..carried].iter().map(|v| self.value(*v)).collect(), types: types.clone() };
        let sequences: Vec<Val<T>> = node.operands[carried..].iter().map(|v| self.value(*v)).collect();
        let outputs = result_types[carried..].iter().take_while(|t| **t != Type::Tape);
        let mut outputs: Vec<Buffer<T>> = outputs.map(|ty| self.pool.take(env.extent(ty))).collect();
        let saved_types = self.saved_types(body);
        let mut tape = vec![];
        let mut full = vec![];
        let mut present = env.rows();
        let steps = (0..env.rows()).map(|r| whole.len(r).div_ceil(widths[r])).max().unwrap_or(0);
        for t in 0..steps {
            let rows: Vec<usize> = (0..env.rows()).filter(|r| t * widths[*r] < whole.len(*r)).collect();
            let all = rows.len() == env.rows();
            let mut here = if all { env.clone() } else { env.select(&rows) };
            if rows.len() < present {
                self.put_back(std::mem::take(&mut full));
                full = self.cut_captures(body, env, &rows);
                present = rows.len();
            }
            let starts: Vec<usize> = rows.iter().map(|r| t * widths[*r]).collect();
            let counts: Vec<usize> = rows.iter().zip(&starts).map(|(r, s)| widths[*r].min(whole.len(*r) - s)).collect();
            let mut part = Axis::of_lengths(counts);
            part.origin = rows.iter().zip(&starts).map(|(r, s)| whole.origin[*r] + s).collect();
            here.set_axis(&axis, part);
            here.key = env.key.at(t as u64);
            let mut params = self.rows_of(&mut state, env, &rows, all);
            for (sequence, ty) in sequences.iter().zip(&types[carried..]) {
                params.push(self.slice_out(sequence, ty, env, &rows, &starts, here.axis(&axis)));
            }
            let out = self.body(body, params, &here)?;
            tape.push(TapeStep {
                env: here.clone(),
                rows: (!all).then(|| Rc::new(rows.clone())),
                starts: starts.clone(),
                saved: out.saved,
                types: saved_types.clone(),
            });
            let mut yields = out.yields;
            for (n, output) in yields.split_off(carried).into_iter().enumerate() {
                let bounds = env.bounds(&result_types[carried + n]);
                put_slices(&output, outputs[n].as_mut_slice(), &bounds, &rows, &starts, here.axis(&axis));
            }
            self.rows_back(&mut state, yields, env, &rows, all);
        }
        self.put_back(full);
        state.values.extend(outputs.into_iter().map(|b| Val::Real(Rc::new(b))));
        self.finish(node, env, state, tape);
        Ok(())
    }
}

/// The chunk width of every row.
///
/// `cut: position` cuts each row by itself: into pieces of `size`, or into `count` pieces of equal width. `cut: balanced` is
/// the papers' code: the padded width of the batch decides for all rows, and pieces are of equal width.
fn chunk_widths(node: &Node, whole: &Axis, padded: usize) -> Vec<usize> {
    let int = |name: &str| node.attrs.get(name).and_then(Attr::int).and_then(|v| usize::try_from(v).ok());
    let rows = whole.origin.len();
    let balanced = node.attrs.get("cut").and_then(Attr::text) == Some("balanced");
    let width = |length: usize| match (int("count"), int("size")) {
        (Some(count), _) => length.div_ceil(count.max(1)),
        (None, Some(size)) if balanced => length.div_ceil(length.div_ceil(size.max(1)).max(1)),
        (None, size) => size.unwrap_or(1),
    };
    let length = |row: usize| if balanced { padded.max(whole.len(row)) } else { whole.len(row) };
    (0..rows).map(|row| width(length(row)).max(1)).collect()
}
