//! The recorder of a beam search: which nodes were joined, and so the tree of every beam.

use std::ops::Range;

use rtc_compiler::ir::graph::Node;

use crate::machine::record::Beam;
use crate::machine::record::ParseTrees;
use rtc_kernel::beam::{Blends, Pairs, Search};

/// The origin of a node.
#[derive(Clone, Copy, Debug)]
enum NodeOrigin {
    /// Of these two.
    Joined(u32, u32),
    /// As a mean, most of all of this one.
    Mixed(u32),
}

/// The record of a search that runs: the origins of the nodes behind the leaves, in the order of the table of nodes.
#[derive(Debug)]
pub(super) struct TreeRecorder {
    leaves: usize,
    origins: Vec<NodeOrigin>,
}

impl TreeRecorder {
    pub(super) fn new(leaves: usize) -> Self {
        Self { leaves, origins: vec![] }
    }

    /// Notes what is appended to the table.
    pub(super) fn joined(&mut self, pairs: Pairs<'_>) {
        self.origins.extend(pairs.left.iter().zip(pairs.right).map(|(left, right)| NodeOrigin::Joined(*left, *right)));
    }

    /// The same of means.
    pub(super) fn mixed(&mut self, blends: Blends<'_>) {
        for k in 0..blends.len() {
            let most = blends.of(k).iter().max_by(|a, b| a.share.total_cmp(&b.share));
            self.origins.extend(most.map(|term| NodeOrigin::Mixed(term.node)));
        }
    }

    /// The record of a row of a finished search, from its leaves and the weights of its beams.
    pub(super) fn of_row(
        &self,
        node: &Node,
        (row, leaves): (usize, Range<usize>),
        search: &Search,
        weights: &[f64],
    ) -> ParseTrees {
        let beam = |(beam, weight): (usize, &f64)| Beam {
            score: Some(search.scores(row)[beam]),
            weight: *weight,
            count: 1,
            spans: self.spans(search.root(row, beam), leaves.start),
        };
        let mut beams: Vec<Beam> = weights.iter().enumerate().map(beam).collect();
        beams.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        ParseTrees { label: node.label.clone(), row, length: leaves.len(), beams }
    }

    /// The spans of all joined nodes below a root, those of a node behind those of its children.
    fn spans(&self, root: u32, first: usize) -> Vec<(usize, usize)> {
        let mut spans = vec![];
        // What was looked at is put back behind its children, with their number of leaves in `done` by then.
        let mut open = vec![(root as usize, false)];
        let mut done: Vec<(usize, usize)> = vec![];
        while let Some((node, seen)) = open.pop() {
            match node.checked_sub(self.leaves).map(|n| self.origins[n]) {
                None => done.push((node - first, 1)),
                Some(NodeOrigin::Mixed(most)) => open.push((most as usize, false)),
                Some(NodeOrigin::Joined(left, right)) if !seen => {
                    open.extend([(node, true), (right as usize, false), (left as usize, false)]);
                }
                Some(NodeOrigin::Joined(..)) => {
                    let (right, left) = (done.pop().unwrap_or_default(), done.pop().unwrap_or_default());
                    let span = (left.0, left.1 + right.1);
                    spans.push(span);
                    done.push(span);
                }
            }
        }
        spans
    }
}
