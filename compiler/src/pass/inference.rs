//! Turns dropout and the noise of searches off: the graph of evaluation and prediction. `fold` then removes the nodes.

use crate::ir::graph::{Graph, MAIN, NodeId};
use crate::ir::ops::Op;
use crate::ir::types::Attr;

/// Sets every dropout probability to 0, and lets searches choose the best; true when one did not. What a search still draws, it
/// draws alike for all rows, so that no row depends on its place in the batch.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for id in graph.walk(MAIN) {
        let name = match graph.node(id).op {
            Op::Dropout => "p",
            Op::Attention => "dropout",
            Op::Beam => {
                changed |= set(graph, id, "noise", "none") | set(graph, id, "draws", "level");
                continue;
            }
            _ => continue,
        };
        if graph.node(id).attrs.get(name).and_then(Attr::float).is_some_and(|p| p != 0.0) {
            graph.set_attr(id, name, Attr::Float(0.0));
            changed = true;
        }
    }
    changed
}

/// Sets a word; true when it was another one.
fn set(graph: &mut Graph, id: NodeId, name: &'static str, word: &str) -> bool {
    let changed = graph.node(id).attrs.get(name).and_then(Attr::text) != Some(word);
    if changed {
        graph.set_attr(id, name, Attr::from(word));
    }
    changed
}
