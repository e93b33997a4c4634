//! The difference between two graphs, slot by slot.
//!
//! A slot is the label of its nodes. Its contents are compared as a multiset of descriptions: op, attributes (with them
//! parameter names; not streams) and result types. Its wiring is compared by structure: a node counts as its description with the
//! nodes of the same slot that it reads. Names of values do not count. What a slot reads from other slots is
//! compared too, unless the other slot is different itself: then the new source is a consequence, not a difference.
//!
//! Graphs are compared as they are; run the same passes on both before.

use super::attribute;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sha2::{Digest, Sha256};

use super::cost::{self, Sizes};
use super::graph::{Def, Graph, MAIN, NodeId, Value};
use super::ops::Op;
use super::types::Dim;

/// The differences of two graphs. Empty when they are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Slots that differ, by name; the empty name stands for nodes of no slot.
    pub slots: BTreeMap<String, SlotDifference>,
}

/// How a slot differs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotDifference {
    /// Descriptions of nodes that only the left graph has, sorted.
    pub left: Vec<String>,
    /// Descriptions of nodes that only the right graph has, sorted.
    pub right: Vec<String>,
    /// True when the nodes are the same and read each other differently.
    pub rewired: bool,
    /// Values read from other slots by the left graph only: `scale 0 <- depthwise: recur 1`.
    pub reads_left: Vec<String>,
    /// Values read from other slots by the right graph only.
    pub reads_right: Vec<String>,
    /// Trainable numbers, left and right, for the given sizes.
    pub parameters: (f64, f64),
    /// Floating-point operations, left and right, for the given sizes.
    pub flops: (f64, f64),
}

impl Difference {
    /// True when the graphs are equal.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Slots that differ and are not `slot` or inside it: what `--only slot` objects to.
    pub fn outside(&self, slot: &str) -> Vec<&str> {
        let inside = |name: &str| name.split('.').any(|part| part == slot) || name == slot;
        self.slots.keys().map(String::as_str).filter(|name| !inside(name)).collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, slot) in &self.slots {
            writeln!(f, "{}", if name.is_empty() { "(results of the model)" } else { name })?;
            for (sign, lines) in [('-', &slot.left), ('+', &slot.right)] {
                lines.iter().try_for_each(|line| writeln!(f, "  {sign} {line}"))?;
            }
            if slot.rewired {
                writeln!(f, "  wired differently")?;
            }
            for (sign, lines) in [('-', &slot.reads_left), ('+', &slot.reads_right)] {
                lines.iter().try_for_each(|line| writeln!(f, "  {sign} reads {line}"))?;
            }
            for (what, (left, right)) in [("parameters", slot.parameters), ("flops", slot.flops)] {
                if left != right {
                    writeln!(f, "  {what}: {left} -> {right}")?;
                }
            }
        }
        Ok(())
    }
}

/// Compares two graphs. `sizes` gives the length for FLOPs, and the sizes of `vocab` and `classes` for parameters.
pub fn diff(left: &Graph, right: &Graph, sizes: &Sizes) -> Difference {
    let (left, right) = (Slots::of(left, sizes), Slots::of(right, sizes));
    let names: BTreeSet<&String> = left.slots.keys().chain(right.slots.keys()).collect();
    let mut out = Difference::default();
    let none = Slot::default();
    let pair = |name: &String| (left.slots.get(name).unwrap_or(&none), right.slots.get(name).unwrap_or(&none));
    for name in &names {
        let (a, b) = pair(name);
        let (only_left, only_right) = multiset_difference(&a.contents, &b.contents);
        let rewired = only_left.is_empty() && only_right.is_empty() && a.structure != b.structure;
        if rewired || !only_left.is_empty() || !only_right.is_empty() {
            let (parameters, flops) = ((a.parameters, b.parameters), (a.flops, b.flops));
            let slot =
                SlotDifference { left: only_left, right: only_right, rewired, parameters, flops, ..Default::default() };
            out.slots.insert((*name).clone(), slot);
        }
    }
    let changed: BTreeSet<String> = out.slots.keys().cloned().collect();
    for name in names {
        let (a, b) = pair(name);
        let (lost, new) = (a.reads_without(&changed), b.reads_without(&changed));
        let (lost, new) = multiset_difference(&lost, &new);
        // A read that only disappears or only appears went to or came from a slot that differs.
        if lost.is_empty() || new.is_empty() {
            continue;
        }
        let slot = out.slots.entry(name.clone()).or_insert_with(|| SlotDifference {
            parameters: (a.parameters, b.parameters),
            flops: (a.flops, b.flops),
            ..Default::default()
        });
        (slot.reads_left, slot.reads_right) = (lost, new);
    }
    out
}

type Multiset = BTreeMap<String, usize>;

fn multiset_difference(a: &Multiset, b: &Multiset) -> (Vec<String>, Vec<String>) {
    let more = |a: &Multiset, b: &Multiset| {
        let extra = |(text, n): (&String, &usize)| {
            let times = n.saturating_sub(b.get(text).copied().unwrap_or(0));
            std::iter::repeat_n(text.clone(), times).collect::<Vec<_>>()
        };
        a.iter().flat_map(extra).collect::<Vec<_>>()
    };
    (more(a, b), more(b, a))
}

#[derive(Default)]
struct Slot {
    contents: Multiset,
    structure: Multiset,
    /// Reads from other slots, with the slot that is read.
    reads: Vec<(String, String)>,
    parameters: f64,
    flops: f64,
}

impl Slot {
    fn reads_without(&self, changed: &BTreeSet<String>) -> Multiset {
        let mut out = Multiset::new();
        for (_, text) in self.reads.iter().filter(|(slot, _)| !changed.contains(slot)) {
            *out.entry(text.clone()).or_default() += 1;
        }
        out
    }
}

struct Slots {
    slots: BTreeMap<String, Slot>,
}

impl Slots {
    fn of(graph: &Graph, sizes: &Sizes) -> Self {
        let mut out = Self { slots: BTreeMap::new() };
        let mut hashes = BTreeMap::new();
        for id in graph.walk(MAIN) {
            out.add(graph, id, &mut hashes, sizes);
        }
        out.costs(graph, MAIN, 1.0, sizes);
        out
    }

    fn add(&mut self, graph: &Graph, id: NodeId, hashes: &mut BTreeMap<NodeId, String>, sizes: &Sizes) {
        let node = graph.node(id);
        let what = describe(graph, id);
        let slot = self.slots.entry(node.label.clone()).or_default();
        let mut shape = what.clone();
        for (n, value) in node.operands.iter().enumerate() {
            let (place, source, index) = origin(graph, *value);
            let inside = graph.node(place).label == node.label;
            // A region parameter is named by its loop, which is hashed already; other nodes by their own structure.
            match hashes.get(&place) {
                Some(hash) if inside => shape += &format!(" {source}{index}:{hash}"),
                _ => shape += &format!(" {}", graph.ty(*value)),
            }
            if !inside {
                let from = &graph.node(place).label;
                slot.reads.push((from.clone(), format!("{} {n} <- {from}: {source} {index}", node.hint())));
            }
        }
        let hash: String = Sha256::digest(&shape).iter().take(12).map(|b| format!("{b:02x}")).collect();
        *slot.contents.entry(what).or_default() += 1;
        *slot.structure.entry(hash.clone()).or_default() += 1;
        hashes.insert(id, hash);
        if node.op == Op::Param {
            let elements = graph.ty(node.results[0]).dims().iter().map(|d| match d {
                Dim::Fixed(n) => *n as f64,
                Dim::Sym(name) => sizes.axes.get(name).copied().unwrap_or(1.0),
            });
            slot.parameters += elements.product::<f64>();
        }
    }

    fn costs(&mut self, graph: &Graph, region: super::graph::RegionId, times: f64, sizes: &Sizes) {
        for &id in graph.nodes(region) {
            let node = graph.node(id);
            let own: f64 = cost::node_cost(graph, id, sizes);
            self.slots.entry(node.label.clone()).or_default().flops += times * own;
            if let Some(body) = node.body {
                for turns in cost::turns(graph, id, sizes) {
                    self.costs(graph, body, times * turns.steps, &turns.sizes);
                }
            }
        }
    }
}

/// Op, attributes and result types. Streams are numbered along the whole model, so that a change in one slot shifts them
/// in others; they do not count.
fn describe(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let attrs = node.attrs.texts().filter(|(name, _)| *name != attribute::STREAM.row.name);
    let attrs: Vec<String> = attrs.map(|(name, value)| format!("{name}: {value}")).collect();
    let types: Vec<String> = node.results.iter().map(|v| graph.ty(*v).to_string()).collect();
    let attrs = if attrs.is_empty() { String::new() } else { format!(" {{{}}}", attrs.join(", ")) };
    let types = if types.is_empty() { String::new() } else { format!(" : {}", types.join(", ")) };
    format!("{}{attrs}{types}", node.op)
}

/// The node that a value comes from (for a region parameter the loop), what it is of it, and its number there.
fn origin(graph: &Graph, value: Value) -> (NodeId, String, usize) {
    match graph.def(value) {
        Def::Result(node, n) => (node, graph.node(node).hint().to_owned(), n),
        Def::Param(region, n) => {
            let owner = graph.owner(region).expect("a verified graph uses parameters of bodies only");
            (owner, format!("{} parameter", graph.node(owner).op), n)
        }
    }
}
