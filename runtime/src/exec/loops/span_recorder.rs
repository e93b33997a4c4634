//! The recorder of a fold: which positions each of its nodes joins, and the vectors of every level.

use std::ops::Range;

use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::schedule::Chunk;

use crate::exec::machine::{Machine, ValOf};
use crate::exec::rows::{BatchView, row_of};
use crate::exec::{Owners, StateTrace};
use crate::kernel::Real;

/// For every row that entered, the positions of each of its nodes.
pub(super) struct SpanRecorder(Vec<Vec<Range<usize>>>);

impl SpanRecorder {
    /// Before the first level: every node is a position.
    pub(super) fn leaves(lengths: &[usize]) -> Self {
        Self(lengths.iter().map(|length| (0..*length).map(|at| at..at + 1).collect()).collect())
    }

    /// A level joins the nodes of each of these chunks, which name those of a row from left to right.
    pub(super) fn join(&mut self, chunks: &[Chunk]) {
        let mut next: Vec<Vec<Range<usize>>> = vec![vec![]; self.0.len()];
        for chunk in chunks {
            let nodes = &self.0[chunk.row][chunk.start..chunk.start + chunk.length];
            next[chunk.row].extend(nodes.first().zip(nodes.last()).map(|(first, last)| first.start..last.end));
        }
        self.0 = next;
    }

    /// Records the vectors that a level gave, `width` numbers each; `rows` names the row of every one.
    pub(super) fn record<M: Machine>(
        &self,
        m: &mut M,
        node: &Node,
        view: &BatchView,
        step: usize,
        (rows, nodes, width): (&[usize], &ValOf<M>, usize),
    ) {
        let nodes = m.numbers(nodes);
        let mut vectors = nodes.chunks(width);
        let of_row = |rows: &[usize]| StateTrace {
            label: node.label.clone(),
            step,
            row: row_of(view.ids[rows[0]]) as usize,
            owners: Owners::Parts(self.0[rows[0]].clone()),
            width,
            states: vectors.by_ref().take(rows.len()).flatten().map(|x| x.to_f64() as f32).collect(),
        };
        let all: Vec<StateTrace> = rows.chunk_by(|a, b| a == b).map(of_row).collect();
        m.records().states.iter_mut().for_each(|list| list.extend(all.iter().cloned()));
    }
}
