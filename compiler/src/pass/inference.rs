//! Turns dropout off: the graph of evaluation and prediction. `fold` then removes the nodes.

use crate::ir::graph::{Graph, MAIN};
use crate::ir::ops::Op;
use crate::ir::types::Attr;

/// Sets every dropout probability to 0; true when one was not.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for id in graph.walk(MAIN) {
        let name = match graph.node(id).op {
            Op::Dropout => "p",
            Op::Attention => "dropout",
            _ => continue,
        };
        if graph.node(id).attrs.get(name).and_then(Attr::float).is_some_and(|p| p != 0.0) {
            graph.set_attr(id, name, Attr::Float(0.0));
            changed = true;
        }
    }
    changed
}
