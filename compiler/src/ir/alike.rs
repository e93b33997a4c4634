//! Which nodes of two graphs are the same, whatever they are called. Names of parameters, slots and random streams do not count.
//!
//! **The whole.** What a graph computes lies on the ways back from its results: from a node to its operands, from a parameter
//! of a region to the loop, from a loop to what its body yields. [`whole`] walks these ways in both graphs at once. If every
//! step leads to nodes of one kind, and none to two partners, the graphs compute the same, and nodes that met are the same.
//! A way names its node, so nothing is ever to be guessed, and the work grows linearly with the graph.
//!
//! **Parts.** Where graphs differ, names that both have stand for the same thing, and [`parts`] pairs nodes
//! - to which the same leads, from the inputs on,
//! - which lead to the same, up to the results,
//! - which stand in the same place beside a pair, as an operand of it or as its only such reader: so pairs spread over
//!   nodes that differ, as an attention with more heads.
//!
//! Each is done only where no other node would fit as well. Depth recurrences are seen through: what a body reads of a carried
//! value is its start, and what it yields is the result, as if it ran once. So layers are the same in a loop and without one.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use super::attr::quote;
use super::attribute;
use super::graph::{Graph, MAIN, Node, NodeId, Value, ValueOrigin};
use super::loops;
use super::ops::{Flag, Op};

/// Nodes of two graphs that are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct MatchedNodes {
    to_right: BTreeMap<NodeId, NodeId>,
    to_left: BTreeMap<NodeId, NodeId>,
}

impl MatchedNodes {
    /// The pairs, by the left node.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.to_right.iter().map(|(left, right)| (*left, *right))
    }

    fn add(&mut self, left: NodeId, right: NodeId) {
        self.to_right.insert(left, right);
        self.to_left.insert(right, left);
    }

    fn are_free(&self, left: NodeId, right: NodeId) -> bool {
        !self.to_right.contains_key(&left) && !self.to_left.contains_key(&right)
    }

    fn are_one(&self, left: NodeId, right: NodeId) -> bool {
        self.to_right.get(&left) == Some(&right)
    }
}

/// Op, attributes and result types. Streams are numbered along the whole model, so that a change in one place shifts them
/// in others; they do not count. A parameter has the name that is given, if any.
pub(super) fn describe(graph: &Graph, id: NodeId, name: Option<&str>) -> String {
    let node = graph.node(id);
    let text = |(key, value): (&'static str, String)| match name {
        _ if key == attribute::STREAM.row.name => None,
        Some(name) if node.op == Op::Param && key == attribute::NAME.row.name => {
            Some(format!("{key}: {}", quote(name)))
        }
        None if node.op == Op::Param && key == attribute::NAME.row.name => None,
        _ => Some(format!("{key}: {value}")),
    };
    let attrs: Vec<String> = node.attrs.texts().filter_map(text).collect();
    let types: Vec<String> = node.results.iter().map(|v| graph.ty(*v).to_string()).collect();
    let attrs = if attrs.is_empty() { String::new() } else { format!(" {{{}}}", attrs.join(", ")) };
    let types = if types.is_empty() { String::new() } else { format!(" : {}", types.join(", ")) };
    format!("{}{attrs}{types}", node.op)
}

/// A way from a node to another: what it is, its number among those of its kind, and where it leads.
type NodeEdge = (u8, usize, NodeId);

/// The ways from a node to what it is made of: the operands, and the end of its body.
fn ways(graph: &Graph, id: NodeId) -> Vec<NodeEdge> {
    let node = graph.node(id);
    let end = node.body.and_then(|body| graph.terminator(body)).map(|end| (2, 0, end));
    node.operands.iter().map(|value| way(graph, *value)).chain(end).collect()
}

/// The way to a value: the result of a node, or a parameter of the body of one.
fn way(graph: &Graph, value: Value) -> NodeEdge {
    match graph.def(value) {
        ValueOrigin::Result(from, n) => (0, n, from),
        ValueOrigin::Param(region, n) => {
            (1, n, graph.owner(region).expect("a verified graph uses parameters of bodies only"))
        }
    }
}

/// Every node with its partner, if the graphs compute the same. What leads to no result, as a parameter that nothing reads, must be
/// there in both as well; it has no partner. Graphs with effects are not compared.
pub(super) fn whole(left: &Graph, right: &Graph) -> Option<MatchedNodes> {
    let mut pairs = MatchedNodes::default();
    let mut open = vec![(left.terminator(MAIN)?, right.terminator(MAIN)?)];
    while let Some((a, b)) = open.pop() {
        if pairs.are_one(a, b) {
            continue;
        }
        if !pairs.are_free(a, b) || describe(left, a, None) != describe(right, b, None) {
            return None;
        }
        pairs.add(a, b);
        let (from_a, from_b) = (ways(left, a), ways(right, b));
        if from_a.len() != from_b.len() {
            return None;
        }
        for (one, other) in from_a.into_iter().zip(from_b) {
            if (one.0, one.1) != (other.0, other.1) {
                return None;
            }
            open.push((one.2, other.2));
        }
    }
    let rest = |graph: &Graph, met: &BTreeMap<NodeId, NodeId>| -> Option<Vec<String>> {
        let ids = graph.walk(MAIN).into_iter().filter(|id| !met.contains_key(id));
        let one = |id| (!graph.node(id).op.has(Flag::Effect)).then(|| describe(graph, id, None));
        let mut rest = ids.map(one).collect::<Option<Vec<_>>>()?;
        rest.sort();
        Some(rest)
    };
    (rest(left, &pairs.to_right)? == rest(right, &pairs.to_left)?).then_some(pairs)
}

/// A graph with what its nodes are.
struct ComparedGraph<'g> {
    graph: &'g Graph,
    nodes: Vec<NodeId>,
    /// What a node is, with its name where both graphs have that name.
    kinds: BTreeMap<NodeId, (Op, String, u64)>,
    /// The nodes that read a node: which of its values, and as which operand.
    readers: BTreeMap<NodeId, Vec<(usize, usize, NodeId)>>,
}

/// The names of slots and parameters in a graph.
fn names(graph: &Graph) -> BTreeSet<&str> {
    let ids = graph.walk(MAIN).into_iter().map(|id| graph.node(id));
    ids.flat_map(|node| [Some(node.label.as_str()), parameter(node)]).flatten().collect()
}

/// The name of a parameter.
pub(super) fn parameter(node: &Node) -> Option<&str> {
    if node.op == Op::Param { node.find(attribute::NAME) } else { None }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl<'g> ComparedGraph<'g> {
    fn new(graph: &'g Graph, common: &BTreeSet<&str>) -> Self {
        let nodes = graph.walk(MAIN);
        let kind = |id: NodeId| {
            let node = graph.node(id);
            let name = parameter(node).unwrap_or(&node.label);
            let name = if common.contains(name) { name } else { "" };
            (node.op, name.to_owned(), hash(describe(graph, id, None)))
        };
        let kinds = nodes.iter().map(|id| (*id, kind(*id))).collect();
        let mut readers: BTreeMap<NodeId, Vec<(usize, usize, NodeId)>> = BTreeMap::new();
        for &id in &nodes {
            for (place, (kind, n, from)) in ways_through(graph, id).into_iter().enumerate() {
                let results = graph.node(from).results.len();
                readers.entry(from).or_default().push((n + results * usize::from(kind), place, id));
            }
        }
        Self { graph, nodes, kinds, readers }
    }

    /// What leads to every node, as a number.
    fn above(&self) -> BTreeMap<NodeId, u64> {
        let mut above: BTreeMap<NodeId, u64> = BTreeMap::new();
        for &id in &self.nodes {
            let through = |(kind, n, from): NodeEdge| {
                // The results of a loop come from its body, too.
                let end = self.graph.node(from).body.filter(|_| kind == 0).and_then(|body| self.graph.terminator(body));
                (kind, n, above.get(&from), end.map(|end| above.get(&end)))
            };
            let from: Vec<_> = ways_through(self.graph, id).into_iter().map(through).collect();
            let own = hash((&self.kinds[&id], from));
            above.insert(id, own);
        }
        above
    }

    /// What every node leads to, as a number.
    fn below(&self) -> BTreeMap<NodeId, u64> {
        let mut below: BTreeMap<NodeId, u64> = BTreeMap::new();
        for &id in self.nodes.iter().rev() {
            let mut to: Vec<_> = self.readers(id).iter().map(|(n, place, by)| (n, place, below.get(by))).collect();
            to.sort_unstable();
            let own = hash((&self.kinds[&id], to));
            below.insert(id, own);
        }
        below
    }

    /// The readers of a node; of the end of a body those of its loop.
    fn readers(&self, id: NodeId) -> &[(usize, usize, NodeId)] {
        let node = self.graph.node(id);
        let owner = self.graph.owner(node.region).filter(|_| node.op == Op::Yield);
        self.readers.get(&owner.unwrap_or(id)).map_or(&[], Vec::as_slice)
    }
}

/// The ways from a node to its operands, through depth recurrences, which have none themselves.
fn ways_through(graph: &Graph, id: NodeId) -> Vec<NodeEdge> {
    let node = graph.node(id);
    let owner = graph.owner(node.region).filter(|_| node.op == Op::Yield);
    if owner.map_or(node, |owner| graph.node(owner)).op == Op::Recur {
        return vec![];
    }
    node.operands.iter().map(|value| way(graph, source(graph, *value))).collect()
}

/// Where a value comes from, through depth recurrences as if each took one step: it ends, since a start stands before its loop.
fn source(graph: &Graph, value: Value) -> Value {
    let (kind, n, from) = way(graph, value);
    let node = graph.node(from);
    let carried = if kind == 0 { loops::yielded(graph, from) } else { &node.operands };
    let through = carried.get(n).filter(|_| node.op == Op::Recur && n < node.operands.len());
    through.map_or(value, |value| source(graph, *value))
}

/// Nodes of two graphs that differ which are the same for all that is known, see the head of the module.
pub(super) fn parts(left: &Graph, right: &Graph) -> MatchedNodes {
    let common: BTreeSet<&str> = names(left).intersection(&names(right)).copied().collect();
    let (left, right) = (ComparedGraph::new(left, &common), ComparedGraph::new(right, &common));
    let mut pairs = MatchedNodes::default();
    for of in [ComparedGraph::above, ComparedGraph::below] {
        let (of_left, of_right) = (sorted(&of(&left)), sorted(&of(&right)));
        for (number, ids) in &of_left {
            if let ([a], Some([b])) = (&ids[..], of_right.get(number).map(Vec::as_slice))
                && pairs.are_free(*a, *b)
            {
                pairs.add(*a, *b);
            }
        }
    }
    spread(&mut pairs, &left, &right);
    pairs
}

/// The nodes by their numbers.
fn sorted(numbers: &BTreeMap<NodeId, u64>) -> BTreeMap<u64, Vec<NodeId>> {
    let mut nodes: BTreeMap<u64, Vec<NodeId>> = BTreeMap::new();
    numbers.iter().for_each(|(id, number)| nodes.entry(*number).or_default().push(*id));
    nodes
}

/// Pairs what stands in the same place beside a pair, until nothing is left that fits.
fn spread(pairs: &mut MatchedNodes, left: &ComparedGraph<'_>, right: &ComparedGraph<'_>) {
    let mut open: Vec<(NodeId, NodeId)> = pairs.iter().collect();
    while let Some((a, b)) = open.pop() {
        let mut found = vec![];
        let (from_a, from_b) = (ways_through(left.graph, a), ways_through(right.graph, b));
        let same = from_a.iter().zip(&from_b).filter(|(x, y)| (x.0, x.1) == (y.0, y.1));
        found.extend(same.map(|(x, y)| (x.2, y.2)));
        let (to_a, to_b) = (left.unpaired(a, &pairs.to_right), right.unpaired(b, &pairs.to_left));
        for (place, readers) in &to_a {
            if let ([x], Some([y])) = (&readers[..], to_b.get(place).map(Vec::as_slice)) {
                found.push((*x, *y));
            }
        }
        for (x, y) in found {
            if pairs.are_free(x, y) && fit(&left.kinds[&x], &right.kinds[&y]) {
                pairs.add(x, y);
                open.push((x, y));
            }
        }
    }
}

/// Whether nodes in the same place beside a pair are one that was changed. A parameter that was changed is another.
fn fit(x: &(Op, String, u64), y: &(Op, String, u64)) -> bool {
    x == y || ((x.0, &x.1) == (y.0, &y.1) && x.0 != Op::Param)
}

impl ComparedGraph<'_> {
    /// The readers of a node that have no partner, by op, name, the value that they read, and as which operand.
    fn unpaired(
        &self,
        id: NodeId,
        paired: &BTreeMap<NodeId, NodeId>,
    ) -> BTreeMap<(Op, &str, usize, usize), Vec<NodeId>> {
        let mut readers: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
        for (n, place, by) in self.readers(id).iter().filter(|(.., by)| !paired.contains_key(by)) {
            let (op, name, _) = &self.kinds[by];
            readers.entry((*op, name.as_str(), *n, *place)).or_default().push(*by);
        }
        readers
    }
}

/// Whether nodes that are paired are equal in all but their names.
pub(super) fn are_equal(left: &Graph, right: &Graph, (a, b): (NodeId, NodeId)) -> bool {
    describe(left, a, None) == describe(right, b, None)
}
