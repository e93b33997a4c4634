//! Turns dropout and the noise of searches off, puts numbers in the places of draws that name one, and lets what is still drawn be the same
//! for every row: the graph of evaluation and prediction. `fold` then removes the nodes of dropout.

use crate::ir::attribute::{self, AttributeKey, AttributeKind, Attrs, Draws, Noise, StepBound};
use crate::ir::graph::{Graph, MAIN, NewNode, Node, NodeId};
use crate::ir::ops::Op;
use crate::ir::schedule::recur::without_draws;

/// Sets every dropout probability to 0, and lets searches choose the best; true when one did not. What a search still draws, and what
/// `normal` and `uniform` draw, is alike for all rows, so that no row depends on its place in the batch. A number of steps is not drawn:
/// it is the one that stands for the draw.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for id in graph.walk(MAIN) {
        changed |= match graph.node(id).op {
            Op::Dropout => set(graph, id, attribute::P, 0.0),
            Op::Attention if graph.node(id).has(attribute::DROPOUT) => set(graph, id, attribute::DROPOUT, 0.0),
            Op::Normal | Op::Uniform if graph.node(id).has(attribute::EVALUATION) => stand_in(graph, id),
            Op::Normal | Op::Uniform => set(graph, id, attribute::DRAWS, Draws::Level),
            Op::Beam => set(graph, id, attribute::NOISE, Noise::None) | set(graph, id, attribute::DRAWS, Draws::Level),
            Op::Recur | Op::DepthOf => settle(graph, id),
            _ => false,
        };
    }
    changed
}

/// Puts a number in the place of a draw.
fn stand_in(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id).clone();
    let (Some(value), [drawn]) = (node.find(attribute::EVALUATION), &node.results[..]) else { return false };
    let attrs = Attrs::of(attribute::VALUE, value).with(attribute::RANK, graph.ty(*drawn).dims().len());
    let Node { operands, label, .. } = node.clone();
    let new = NewNode { op: Op::Full, operands, attrs, types: vec![], body: None, label };
    let Ok(full) = graph.insert_before(id, new) else { return false };
    let full = graph.node(full).results[0];
    graph.replace_uses(*drawn, full);
    graph.remove(id);
    true
}

/// Puts the numbers that stand for draws into a bound; true where there were some.
fn settle(graph: &mut Graph, id: NodeId) -> bool {
    let settled = graph.node(id).find(attribute::BOUND).and_then(without_draws);
    if let Some(bound) = &settled {
        graph.set_attr(id, attribute::BOUND, StepBound::Rule(bound));
    }
    settled.is_some()
}

/// Sets an attribute; true when it was another one.
fn set<K, T: Copy + PartialEq>(graph: &mut Graph, id: NodeId, key: AttributeKey<K>, value: T) -> bool
where
    K: for<'a> AttributeKind<Of<'a> = T>,
{
    let changed = graph.node(id).find(key) != Some(value);
    if changed {
        graph.set_attr(id, key, value);
    }
    changed
}
