//! Identity of a graph.
//!
//! Two graphs have one hash exactly when they compute the same in the same way: same ops in the same order, same
//! attributes, types, wiring and parameter names. The model's name, the hints of values and the slots do not count.

use sha2::{Digest, Sha256};

use super::document::{GraphDocument, NodeDoc};
use super::graph::{Graph, MAIN};
use super::text;

/// SHA-256 of the canonical text, in hexadecimal.
pub fn hash(graph: &Graph) -> String {
    let digest = Sha256::digest(canonical(graph));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text form with values numbered in print order, and without model name and slots.
pub fn canonical(graph: &Graph) -> String {
    let mut plain = graph.clone();
    plain.name.clear();
    for node in graph.walk(MAIN) {
        let node = graph.node(node);
        let params = node.body.map_or(&[][..], |b| graph.params(b));
        for value in node.results.iter().chain(params) {
            plain.set_hint(*value, "v");
        }
    }
    let mut document = GraphDocument::from(&plain);
    unlabel(&mut document.nodes);
    text::write(&document)
}

fn unlabel(nodes: &mut [NodeDoc]) {
    for node in nodes {
        node.label.clear();
        if let Some(body) = &mut node.body {
            unlabel(&mut body.nodes);
        }
    }
}
