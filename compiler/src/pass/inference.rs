//! Turns dropout and the noise of searches off: the graph of evaluation and prediction. `fold` then removes the nodes.

use crate::ir::attribute::{self, Draws, Key, Kind, Noise};
use crate::ir::graph::{Graph, MAIN, NodeId};
use crate::ir::ops::Op;

/// Sets every dropout probability to 0, and lets searches choose the best; true when one did not. What a search still draws, it
/// draws alike for all rows, so that no row depends on its place in the batch.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for id in graph.walk(MAIN) {
        changed |= match graph.node(id).op {
            Op::Dropout => set(graph, id, attribute::P, 0.0),
            Op::Attention if graph.node(id).has(attribute::DROPOUT) => set(graph, id, attribute::DROPOUT, 0.0),
            Op::Beam => set(graph, id, attribute::NOISE, Noise::None) | set(graph, id, attribute::DRAWS, Draws::Level),
            _ => false,
        };
    }
    changed
}

/// Sets an attribute; true when it was another one.
fn set<K, T: Copy + PartialEq>(graph: &mut Graph, id: NodeId, key: Key<K>, value: T) -> bool
where
    K: for<'a> Kind<Of<'a> = T>,
{
    let changed = graph.node(id).find(key) != Some(value);
    if changed {
        graph.set_attr(id, key, value);
    }
    changed
}
