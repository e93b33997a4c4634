//! Copies of the same layers, one after the other, as a loop over a list of modules.

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;

use rtc_compiler::ir::graph::{Graph, NodeId, Value};
use rtc_compiler::ir::ops::Flag;

use super::parts::ModuleParameters;

/// The nodes that are written as one statement.
#[derive(Clone, Debug)]
pub(super) enum TorchStatement {
    /// A node.
    Node(NodeId),
    /// Copies of the same nodes.
    Layers(LayerCopies),
}

/// Copies of the same nodes with parameters of their own, each on what the one before has made.
#[derive(Clone, Debug)]
pub(super) struct LayerCopies {
    /// The slot of the copies, as `stack`: the parameters of copy n are those below `stack.n`.
    pub(super) slot: String,
    /// The nodes of every copy.
    copies: Vec<Vec<NodeId>>,
    /// What goes from copy to copy: the value before the first one, and where a copy makes the next one (node and result).
    carried: Vec<(Value, (usize, usize))>,
}

impl LayerCopies {
    /// The copy that stands for all: the second one, which reads what the first one has made.
    pub(super) fn pattern(&self) -> &[NodeId] {
        &self.copies[1]
    }

    /// The slot of the parameters of [`Self::pattern`].
    pub(super) fn pattern_slot(&self) -> String {
        format!("{}.1", self.slot)
    }

    /// The values before the first copy.
    pub(super) fn starts(&self) -> Vec<Value> {
        self.carried.iter().map(|(start, _)| *start).collect()
    }

    /// What copy `n` hands on.
    pub(super) fn made_by(&self, n: usize, graph: &Graph) -> Vec<Value> {
        self.carried.iter().map(|(_, (node, result))| graph.node(self.copies[n][*node]).results[*result]).collect()
    }

    /// What the last copy makes.
    pub(super) fn results(&self, graph: &Graph) -> Vec<Value> {
        self.made_by(self.copies.len() - 1, graph)
    }
}

/// The nodes of a region in order, copies together. `below` is the slot around, whose own number counts no copies.
pub(super) fn items(graph: &Graph, parts: &ModuleParameters, nodes: &[NodeId], below: &str) -> Vec<TorchStatement> {
    let mut found = vec![];
    let mut at = 0;
    while at < nodes.len() {
        match layers(graph, parts, &nodes[at..], below) {
            Some(layers) => {
                at += layers.copies.iter().map(Vec::len).sum::<usize>();
                found.push(TorchStatement::Layers(layers));
            }
            None => {
                found.push(TorchStatement::Node(nodes[at]));
                at += 1;
            }
        }
    }
    found
}

/// The slot of a label up to its first number behind `below`, and that number.
fn numbered<'l>(label: &'l str, below: &str) -> Option<(&'l str, usize)> {
    let skip = if below.is_empty() {
        0
    } else {
        label.strip_prefix(below)?.strip_prefix('.')?;
        below.len() + 1
    };
    let mut at = skip;
    for word in label[skip..].split('.') {
        if let (Ok(number), true) = (word.parse(), at > skip) {
            return Some((&label[..at - 1], number));
        }
        at += word.len() + 1;
    }
    None
}

/// Copies that begin with the first of these nodes.
fn layers(graph: &Graph, parts: &ModuleParameters, nodes: &[NodeId], below: &str) -> Option<LayerCopies> {
    let of = |id: &NodeId| numbered(&graph.node(*id).label, below);
    let (slot, 0) = of(nodes.first()?)? else { return None };
    let mut copies: Vec<Vec<NodeId>> = vec![];
    for id in nodes {
        match of(id) {
            Some((own, n)) if own == slot && n == copies.len() => copies.push(vec![*id]),
            Some((own, n)) if own == slot && n + 1 == copies.len() => copies.last_mut()?.push(*id),
            _ => break,
        }
    }
    let is_list = parts.is_list(slot, copies.len());
    if copies.len() < 2 || !is_list || copies.iter().flatten().any(|id| graph.node(*id).op.has(Flag::Loop)) {
        return None;
    }
    let carried = carried(graph, parts, slot, &copies)?;
    let layers = LayerCopies { slot: slot.to_owned(), copies, carried };
    layers.hides_the_rest(graph).then_some(layers)
}

impl LayerCopies {
    /// Whether no value inside the copies has a reader outside.
    fn hides_the_rest(&self, graph: &Graph) -> bool {
        let results = self.results(graph);
        let inside: Vec<NodeId> = self.copies.iter().flatten().copied().collect();
        let made = inside.iter().flat_map(|id| &graph.node(*id).results);
        let mut hidden = made.filter(|value| !results.contains(value));
        hidden.all(|value| graph.users(*value).iter().all(|user| inside.contains(user)))
    }
}

/// What goes from copy to copy, if all copies are the same but for their parameters.
fn carried(
    graph: &Graph,
    parts: &ModuleParameters,
    slot: &str,
    copies: &[Vec<NodeId>],
) -> Option<Vec<(Value, (usize, usize))>> {
    if copies.iter().any(|copy| copy.len() != copies[0].len()) {
        return None;
    }
    let places: Vec<BTreeMap<Value, (usize, usize)>> = copies.iter().map(|copy| places(graph, copy)).collect();
    let mut found: Vec<(Value, (usize, usize))> = vec![];
    for n in 0..copies[0].len() {
        let nodes: Vec<_> = copies.iter().map(|copy| graph.node(copy[n])).collect();
        let attrs = |k: usize| {
            let mut attrs = nodes[k].attrs.clone();
            attrs.remove(attribute::STREAM);
            attrs
        };
        let alike = |k: usize| {
            nodes[k].op == nodes[0].op && attrs(k) == attrs(0) && nodes[k].operands.len() == nodes[0].operands.len()
        };
        if !(1..copies.len()).all(alike) {
            return None;
        }
        for at in 0..nodes[0].operands.len() {
            let operands: Vec<Value> = nodes.iter().map(|node| node.operands[at]).collect();
            if let Some(name) = parts.name(operands[0]) {
                let own = name.strip_prefix(&format!("{slot}.0."));
                let same = |(k, value): (usize, &Value)| match own {
                    Some(rest) => parts.name(*value) == Some(&format!("{slot}.{k}.{rest}")),
                    None => *value == operands[0],
                };
                if !operands.iter().enumerate().all(same) {
                    return None;
                }
                continue;
            }
            if let Some(place) = places[0].get(&operands[0]) {
                if !operands.iter().enumerate().all(|(k, value)| places[k].get(value) == Some(place)) {
                    return None;
                }
                continue;
            }
            match places[0].get(&operands[1]) {
                // Something from outside.
                None if operands.iter().all(|value| *value == operands[0]) => {}
                None => return None,
                Some(place) => {
                    let before = |k: usize| places[k - 1].get(&operands[k]) == Some(place);
                    if !(1..copies.len()).all(before) {
                        return None;
                    }
                    match found.iter().find(|(start, own)| *start == operands[0] || own == place) {
                        Some(known) if *known == (operands[0], *place) => {}
                        Some(_) => return None,
                        None => found.push((operands[0], *place)),
                    }
                }
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Which node and which result of it every value of a copy is.
fn places(graph: &Graph, copy: &[NodeId]) -> BTreeMap<Value, (usize, usize)> {
    let of = |(n, id): (usize, &NodeId)| {
        let results = graph.node(*id).results.iter().enumerate();
        results.map(move |(k, value)| (*value, (n, k))).collect::<Vec<_>>()
    };
    copy.iter().enumerate().flat_map(of).collect()
}
