//! Identity of a graph.
//!
//! Two graphs have one hash exactly when they compute the same in the same way: same ops in the same order, same
//! attributes, types, wiring and parameter names. The model's name, the hints of values and the slots do not count.

use sha2::{Digest, Sha256};

use super::attribute;
use super::document::{GraphDocument, NodeDoc};
use super::graph::{Graph, MAIN};
use super::ops::Op;
use super::text;

/// SHA-256 of the canonical text, in hexadecimal.
pub fn hash(graph: &Graph) -> String {
    hexadecimal(&canonical(graph))
}

/// The same for graphs up to the names of their parameters, which are numbered in print order instead: a model whose bindings are
/// renamed keeps this hash. It computes the same, but draws other starts, since the name of a parameter chooses its draws.
pub fn structure(graph: &Graph) -> String {
    let mut unnamed = graph.clone();
    let parameters = graph.walk(MAIN).into_iter().filter(|id| graph.node(*id).op == Op::Param);
    for (n, id) in parameters.enumerate() {
        unnamed.set_attr(id, attribute::NAME, &n.to_string());
    }
    hexadecimal(&canonical(&unnamed))
}

fn hexadecimal(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
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
