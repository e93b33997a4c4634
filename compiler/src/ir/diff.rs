//! The difference between two graphs, slot by slot.
//!
//! Names do not count: nodes that are the same (see `alike`) may stand in slots, and parameters may have names, that differ, and
//! are listed as renamed. Graphs of which every node has a partner compute the same, and have no other difference.
//!
//! Else slots are compared, those of the left graph under the names of the right one. A slot is the label of its nodes. Its
//! contents are compared as a multiset of descriptions: op, attributes (with them parameter names; not streams) and result
//! types. Its wiring is compared by structure: a node counts as its description with the nodes of the same slot that it
//! reads. What a slot reads from other slots is compared too, unless the other slot is different itself: then the new source
//! is a consequence, not a difference.
//!
//! Graphs are compared as they are; run the same passes on both before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sha2::{Digest, Sha256};

use super::alike::{self, MatchedNodes, describe, parameter};
use super::cost::{self, Sizes};
use super::graph::{Graph, MAIN, NodeId, Value, ValueOrigin};
use super::ops::Op;
use super::types::Dim;

/// The differences of two graphs. Empty when they compute the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Slots that differ, by their name in the right graph, where they are in both; the empty name stands for nodes of no slot.
    pub slots: BTreeMap<String, SlotDifference>,
    /// What merely has another name.
    pub renamed: Renamed,
}

/// What is the same under two names, that in the left graph first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// Slots.
    pub slots: BTreeSet<(String, String)>,
    /// Parameters.
    pub parameters: BTreeSet<(String, String)>,
}

impl Renamed {
    /// True when everything has one name.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.parameters.is_empty()
    }

    /// The slots that no parameter names with them: where `a.weight` is called `b.weight`, a is called b.
    pub fn other_slots(&self) -> impl Iterator<Item = &(String, String)> {
        let told = |(left, right): &(String, String)| {
            let (left, right) = (format!("{left}."), format!("{right}."));
            let mut inside = self
                .parameters
                .range((left.clone(), String::new())..)
                .map_while(|(a, b)| Some((a.strip_prefix(&left)?, b)));
            inside.any(|(rest, b)| b.strip_prefix(&right) == Some(rest))
        };
        self.slots.iter().filter(move |slot| !told(slot))
    }

    /// What a slot of the left graph is called in the right one.
    fn slot<'s>(&'s self, name: &'s str) -> &'s str {
        renamed(&self.slots, name)
    }

    fn parameter<'s>(&'s self, name: &'s str) -> &'s str {
        renamed(&self.parameters, name)
    }
}

/// The other name of what one graph calls `name`.
fn renamed<'s>(names: &'s BTreeSet<(String, String)>, name: &'s str) -> &'s str {
    let first = names.range((name.to_owned(), String::new())..).next();
    first.filter(|(left, _)| left == name).map_or(name, |(_, right)| right)
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
    /// True when the graphs compute the same, whatever the names.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Slots that differ and are not `slot` or inside it, in neither graph: what `--only slot` objects to.
    pub fn outside(&self, slot: &str) -> Vec<&str> {
        let inside = |name: &str| name.split('.').any(|part| part == slot) || name == slot;
        let before = |name: &str| self.renamed.slots.iter().any(|(left, right)| right == name && inside(left));
        self.slots.keys().map(String::as_str).filter(|name| !inside(name) && !before(name)).collect()
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
    if let Some(pairs) = alike::whole(left, right) {
        return Difference { slots: BTreeMap::new(), renamed: all_renamed(left, right, &pairs) };
    }
    let renamed = surely_renamed(left, right, &alike::parts(left, right));
    let none = Renamed::default();
    let (left, right) = (GraphSlots::of(left, sizes, &renamed), GraphSlots::of(right, sizes, &none));
    let names: BTreeSet<&String> = left.slots.keys().chain(right.slots.keys()).collect();
    let mut out = Difference { slots: BTreeMap::new(), renamed: renamed.clone() };
    let empty = SlotContents::default();
    let pair = |name: &String| (left.slots.get(name).unwrap_or(&empty), right.slots.get(name).unwrap_or(&empty));
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

/// The labels of two nodes, and the names of two parameters.
fn called<'g>(left: &'g Graph, right: &'g Graph, (a, b): (NodeId, NodeId)) -> [Option<(&'g str, &'g str)>; 2] {
    let (a, b) = (left.node(a), right.node(b));
    [Some((a.label.as_str(), b.label.as_str())), parameter(a).zip(parameter(b))]
}

fn owned((left, right): (&str, &str)) -> (String, String) {
    (left.to_owned(), right.to_owned())
}

/// Every name that differs between nodes that are the same.
fn all_renamed(left: &Graph, right: &Graph, pairs: &MatchedNodes) -> Renamed {
    let mut renamed = Renamed::default();
    for pair in pairs.iter() {
        let [slots, parameters] = called(left, right, pair).map(|names| names.filter(|(a, b)| a != b).map(owned));
        renamed.slots.extend(slots);
        renamed.parameters.extend(parameters);
    }
    renamed
}

/// The names that differ beyond doubt. A slot that only one graph has is called like another one of which the same holds if nodes of
/// neither are the same as nodes of a third, and at least half of the nodes of each have a partner in the other.
fn surely_renamed(left: &Graph, right: &Graph, pairs: &MatchedNodes) -> Renamed {
    let (of_left, of_right) = (labels(left), labels(right));
    let (mut renamed, mut shared) = (Renamed::default(), BTreeMap::<(&str, &str), usize>::new());
    for pair in pairs.iter().filter(|pair| alike::are_equal(left, right, *pair)) {
        let [slots, parameters] = called(left, right, pair);
        *shared.entry(slots.unwrap_or_default()).or_default() += 1;
        renamed.parameters.extend(parameters.filter(|(a, b)| a != b).map(owned));
    }
    for (&(a, b), &count) in &shared {
        let alone = shared.keys().all(|(x, y)| (*x == a) == (*y == b));
        let new = !of_right.contains_key(a) && !of_left.contains_key(b);
        if alone && new && 2 * count >= of_left[a].max(of_right[b]) {
            renamed.slots.insert(owned((a, b)));
        }
    }
    renamed
}

/// The slots of a graph with the numbers of their nodes.
fn labels(graph: &Graph) -> BTreeMap<&str, usize> {
    let mut labels = BTreeMap::new();
    graph.walk(MAIN).into_iter().for_each(|id| *labels.entry(graph.node(id).label.as_str()).or_default() += 1);
    labels
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
struct SlotContents {
    contents: Multiset,
    structure: Multiset,
    /// Reads from other slots, with the slot that is read.
    reads: Vec<(String, String)>,
    parameters: f64,
    flops: f64,
}

impl SlotContents {
    fn reads_without(&self, changed: &BTreeSet<String>) -> Multiset {
        let mut out = Multiset::new();
        for (_, text) in self.reads.iter().filter(|(slot, _)| !changed.contains(slot)) {
            *out.entry(text.clone()).or_default() += 1;
        }
        out
    }
}

struct GraphSlots<'n> {
    slots: BTreeMap<String, SlotContents>,
    renamed: &'n Renamed,
}

impl<'n> GraphSlots<'n> {
    fn of(graph: &Graph, sizes: &Sizes, renamed: &'n Renamed) -> Self {
        let mut out = Self { slots: BTreeMap::new(), renamed };
        let mut hashes = BTreeMap::new();
        for id in graph.walk(MAIN) {
            out.add(graph, id, &mut hashes, sizes);
        }
        out.costs(graph, MAIN, 1.0, sizes);
        out
    }

    fn add(&mut self, graph: &Graph, id: NodeId, hashes: &mut BTreeMap<NodeId, String>, sizes: &Sizes) {
        let node = graph.node(id);
        let what = describe(graph, id, parameter(node).map(|name| self.renamed.parameter(name)));
        let slot = self.slots.entry(self.renamed.slot(&node.label).to_owned()).or_default();
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
                let from = self.renamed.slot(&graph.node(place).label);
                slot.reads.push((from.to_owned(), format!("{} {n} <- {from}: {source} {index}", node.hint())));
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
            self.slots.entry(self.renamed.slot(&node.label).to_owned()).or_default().flops += times * own;
            if let Some(body) = node.body {
                for turns in cost::turns(graph, id, sizes) {
                    self.costs(graph, body, times * turns.steps, &turns.sizes);
                }
            }
        }
    }
}

/// The node that a value comes from (for a region parameter the loop), what it is of it, and its number there.
fn origin(graph: &Graph, value: Value) -> (NodeId, String, usize) {
    match graph.def(value) {
        ValueOrigin::Result(node, n) => (node, graph.node(node).hint().to_owned(), n),
        ValueOrigin::Param(region, n) => {
            let owner = graph.owner(region).expect("a verified graph uses parameters of bodies only");
            (owner, format!("{} parameter", graph.node(owner).op), n)
        }
    }
}
