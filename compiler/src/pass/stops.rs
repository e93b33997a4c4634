//! Attention forgets where its gradients stop: the keys and values that take them are read by nothing once the gradients are there, or
//! where none are needed.

use crate::ir::attribute;
use crate::ir::graph::{Graph, MAIN};
use crate::ir::ops::Op;

/// Drops `stop` and its operands from every attention; true when there was one.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for id in graph.walk(MAIN) {
        let node = graph.node(id);
        if node.op == Op::Attention && node.has(attribute::STOP) {
            let operands = node.operands[..node.behind().talking.end].to_vec();
            graph.set_operands(id, operands);
            graph.remove_attr(id, attribute::STOP);
            changed = true;
        }
    }
    changed
}
