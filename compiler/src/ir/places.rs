//! Positions of the queries and keys of an attention in their rows: masks, biases and scores count there, also if only some positions
//! are at hand, or if a position has several keys.

use super::attribute::{self, Chunking};
use super::graph::{Graph, MAIN, Node};
use super::ops::Op;

/// How the number of a query or a key becomes its position in the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairPlaces {
    /// It is the position.
    #[default]
    Own,
    /// Queries, or queries and keys, were chosen of the positions of a row.
    Chosen,
    /// Every position has a key for each step of a recurrence, side by side.
    Slots,
}

impl PairPlaces {
    /// The places of an attention or of its gradient. With slots and only a mask without values they are [`Self::Own`]: there the executors
    /// ask the mask by position.
    pub fn of(graph: &Graph, node: &Node) -> Self {
        if !matches!(node.op, Op::Attention | Op::AttentionGrad) {
            return Self::Own;
        }
        let biased = node.attrs.score().is_ok_and(|score| score.of_pairs().is_some());
        let [queries, keys] = [0, 1].map(|n| graph.ty(node.operands[n]));
        if keys.dims().len() > 3 {
            return if biased || node.get(attribute::READS) > 0 { Self::Slots } else { Self::Own };
        }
        let asks = biased || node.get(attribute::MASK).rule().is_some() || node.has(attribute::STOP);
        let is_chosen = |axis: Option<&str>| axis.is_some_and(|axis| is_chosen(graph, axis));
        if asks && (is_chosen(queries.ragged()) || is_chosen(keys.ragged())) { Self::Chosen } else { Self::Own }
    }
}

/// Whether an axis has the positions that a choice has left.
pub fn is_chosen(graph: &Graph, axis: &str) -> bool {
    graph.walk(MAIN).into_iter().any(|id| chooses(graph.node(id), axis))
}

/// Whether a node makes this axis, of the positions that a choice has left.
pub fn chooses(node: &Node, axis: &str) -> bool {
    node.op == Op::Chunks && node.get(attribute::CUT) == Chunking::Chosen && node.find(attribute::AXIS) == Some(axis)
}
