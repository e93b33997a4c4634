//! Which positions the nodes of a fold have joined, while somebody watches.

use std::ops::Range;

use rtc_compiler::ir::graph::Node;

use super::fold::{Chunks, Levels};
use crate::exec::rows::{Env, row_of};
use crate::exec::storage::Element;
use crate::exec::value::Val;
use crate::exec::{Owners, Stepped};

/// For every row that entered, the positions of each of its nodes.
pub(crate) struct Joined(Vec<Vec<Range<usize>>>);

impl Joined {
    /// Before the first level: every node is a position.
    pub(crate) fn leaves(levels: &Levels) -> Self {
        Self(levels.left.iter().map(|left| (0..*left).map(|at| at..at + 1).collect()).collect())
    }

    /// A level joins the nodes of each of these chunks, which name those of a row from left to right.
    pub(crate) fn join(&mut self, chunks: &Chunks) {
        let mut next: Vec<Vec<Range<usize>>> = vec![vec![]; self.0.len()];
        for ((row, start), length) in chunks.rows.iter().zip(&chunks.starts).zip(&chunks.lengths) {
            let nodes = &self.0[*row][*start..*start + *length];
            next[*row].extend(nodes.first().zip(nodes.last()).map(|(first, last)| first.start..last.end));
        }
        self.0 = next;
    }

    /// The vectors that a level gave, `width` numbers each; `rows` names the row of every one.
    pub(crate) fn stepped<T: Element>(
        &self,
        node: &Node,
        env: &Env,
        step: usize,
        (rows, nodes, width): (&[usize], &Val<T>, usize),
    ) -> Vec<Stepped> {
        let Val::Real(nodes) = nodes else { return vec![] };
        let mut vectors = nodes.chunks(width);
        let of_row = |rows: &[usize]| Stepped {
            label: node.label.clone(),
            step,
            row: row_of(env.ids[rows[0]]) as usize,
            owners: Owners::Parts(self.0[rows[0]].clone()),
            width,
            states: vectors.by_ref().take(rows.len()).flatten().map(|x| x.to_f64() as f32).collect(),
        };
        rows.chunk_by(|a, b| a == b).map(of_row).collect()
    }
}
