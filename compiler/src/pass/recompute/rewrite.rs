//! Puts clones of forward nodes into the backward run.

use std::collections::{BTreeMap, BTreeSet};

use super::choice::recipe;
use super::frames::{Frame, Frames, reads, saved};
use crate::ir::graph::{Graph, MAIN, NewNode, NodeId, Value};
use crate::ir::loops;

/// Computes the values `again` anew where the backward run reads them. What a clone reads and the tape does not hold yet
/// is put onto the tape; what nothing reads any more is left for `dce`.
pub(super) fn rewrite(graph: &mut Graph, frames: &Frames, again: &BTreeSet<Value>) {
    for &frame in &frames.inner_first {
        let nodes: Vec<NodeId> = graph.nodes(frame.backward).to_vec();
        let mut cloner = Cloner { graph, frame, again, made: BTreeMap::new() };
        for node in nodes {
            if frame.forward != MAIN || frames.is_backward(node) {
                cloner.visit(node);
            }
        }
    }
}

struct Cloner<'g> {
    graph: &'g mut Graph,
    frame: Frame,
    again: &'g BTreeSet<Value>,
    /// Clones by the forward value that they repeat.
    made: BTreeMap<Value, Value>,
}

impl Cloner<'_> {
    /// Gives a backward node, and all inside it, clones for what is computed again.
    fn visit(&mut self, node: NodeId) {
        let sources = if self.frame.forward == MAIN { BTreeMap::new() } else { saved(self.graph, self.frame) };
        let mut renamed = BTreeMap::new();
        for read in reads(self.graph, node) {
            let source = if self.frame.forward == MAIN { Some(read) } else { sources.get(&read).copied() };
            if let Some(source) = source.filter(|v| self.again.contains(v) && self.owns(*v)) {
                let clone = self.clone_of(source, node);
                renamed.insert(read, clone);
            }
        }
        if !renamed.is_empty() {
            rename(self.graph, node, &renamed);
        }
    }

    fn owns(&self, value: Value) -> bool {
        self.graph.scope(value) == self.frame.forward
    }

    /// The value computed again, in front of `anchor` unless an earlier reader had it computed.
    fn clone_of(&mut self, value: Value, anchor: NodeId) -> Value {
        if let Some(made) = self.made.get(&value) {
            return *made;
        }
        let recipe = recipe(self.graph, value).expect("only a value with a recipe is computed again");
        let operands = recipe.operands.iter().map(|v| self.seen_from_backward(*v, anchor)).collect();
        let label = self.graph.node(recipe.node).label.clone();
        let new = NewNode { op: recipe.op, operands, attrs: recipe.attrs, types: vec![], body: None, label };
        let node = self.graph.insert_before(anchor, new).expect("a clone takes what its original took");
        let clone = self.graph.node(node).results[recipe.result];
        let hint = self.graph.hint(value).to_owned();
        self.graph.set_hint(clone, &hint);
        self.made.insert(value, clone);
        clone
    }

    /// A forward value as the backward body sees it.
    fn seen_from_backward(&mut self, value: Value, anchor: NodeId) -> Value {
        if self.owns(value) && self.again.contains(&value) {
            return self.clone_of(value, anchor);
        }
        kept(self.graph, value, self.frame)
    }
}

/// A forward value as a backward body sees it when it is kept: itself where it is visible, else a parameter from the tape
/// of the loop that computed it.
fn kept(graph: &mut Graph, value: Value, frame: Frame) -> Value {
    let unwind = graph.owner(frame.backward).filter(|_| frame.forward != MAIN);
    let Some(unwind) = unwind else { return value };
    if graph.encloses(graph.scope(value), graph.node(unwind).region) {
        return value;
    }
    if graph.scope(value) != frame.forward {
        let forward = graph.parent(frame.forward).expect("a loop lies in a region");
        return kept(graph, value, Frame { forward, backward: graph.node(unwind).region });
    }
    let save = loops::save(graph, frame.forward).expect("a frame has a tape");
    let parts = loops::layout(graph, unwind);
    let mut list = graph.node(save).operands.clone();
    if let Some(place) = list.iter().position(|v| *v == value) {
        return graph.params(frame.backward)[parts.carried + parts.sliced + place];
    }
    list.push(value);
    graph.set_operands(save, list);
    let (ty, hint) = (graph.ty(value).clone(), graph.hint(value).to_owned());
    graph.add_param(frame.backward, ty, &hint)
}

fn rename(graph: &mut Graph, node: NodeId, names: &BTreeMap<Value, Value>) {
    let inner = graph.node(node).body.map_or(vec![], |body| graph.walk(body));
    for id in std::iter::once(node).chain(inner) {
        let operands: Vec<Value> = graph.node(id).operands.clone();
        if operands.iter().any(|v| names.contains_key(v)) {
            graph.set_operands(id, operands.iter().map(|v| names.get(v).copied().unwrap_or(*v)).collect());
        }
    }
}
