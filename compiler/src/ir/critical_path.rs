//! Sequential depth: how many layers must run one after the other.
//!
//! A layer is a statement of the spec that multiplies matrices or attends (`attend`, `feedforward`, a gate, the head). The
//! sequential depth of a graph is the largest number of layers on a path along which each value needs the one before.
//! What runs beside the path adds nothing, however many rows, positions and heads it has; neither does the decision whether
//! a row goes on. A recurrence counts its body as often as it runs it.

use super::attribute::Role;
use std::collections::{BTreeMap, BTreeSet};

use super::cost::{Sizes, sequence, turns};
use super::graph::{Graph, MAIN, NodeId, RegionId, Value};
use super::loops::{self, LoopLayout};
use super::number::Number;
use super::ops::Op;

/// The longest path to a value.
#[derive(Clone, Debug, PartialEq)]
struct LongestPath<N> {
    layers: N,
    /// The layers in which such a path may end; a value that a loop hands on is at the end of none.
    last: BTreeSet<String>,
}

impl<N: Number + PartialEq> LongestPath<N> {
    fn new(layers: N) -> Self {
        Self { layers, last: BTreeSet::new() }
    }

    fn join(self, other: &Self) -> Self {
        if self.layers == other.layers {
            let last = self.last.union(&other.last).cloned().collect();
            return Self { last, ..self };
        }
        if self.layers.larger(&other.layers) == self.layers { self } else { other.clone() }
    }

    /// The path with the layer at its end.
    fn through(self, layer: String) -> Self {
        let more = if self.last.contains(&layer) { 0.0 } else { 1.0 };
        Self { layers: self.layers.plus(&N::of(more)), last: BTreeSet::from([layer]) }
    }
}

type Paths<N> = BTreeMap<Value, LongestPath<N>>;

/// The sequential depth of a forward graph for even rows of these sizes.
pub fn sequential_depth<N: Number + PartialEq>(graph: &Graph, sizes: &Sizes<N>) -> N {
    let mut paths = Paths::new();
    region(graph, MAIN, sizes, &mut paths);
    let results = graph.terminator(MAIN).map_or(&[][..], |end| &graph.node(end).operands);
    joined(results, &paths).layers
}

fn joined<N: Number + PartialEq>(values: &[Value], paths: &Paths<N>) -> LongestPath<N> {
    let known = values.iter().filter_map(|v| paths.get(v));
    known.fold(LongestPath::new(N::of(0.0)), |path, other| path.join(other))
}

/// The layer that a node is the work of.
fn layer(graph: &Graph, id: NodeId) -> Option<String> {
    let node = graph.node(id);
    match node.op {
        // The label of a product ends in the name of its weight.
        Op::Linear => Some(node.label.rsplit_once('.').map_or(&*node.label, |(layer, _)| layer).to_owned()),
        Op::Attention => Some(node.label.clone()),
        _ => None,
    }
}

fn region<N: Number + PartialEq>(graph: &Graph, region_id: RegionId, sizes: &Sizes<N>, paths: &mut Paths<N>) {
    for &id in graph.nodes(region_id) {
        let node = graph.node(id);
        if let Some(body) = node.body {
            turn(graph, id, body, sizes, paths);
            continue;
        }
        let path = joined(&node.operands, paths);
        let path = match layer(graph, id) {
            Some(layer) => path.through(layer),
            None => path,
        };
        paths.extend(node.results.iter().map(|v| (*v, path.clone())));
    }
}

/// Steps of a loop that are walked; those after them add what the last of these added.
const WALKED: usize = 3;

/// The path to what the pairs that a part scores are made of: what the same step has joined.
fn parents<N: Number + PartialEq>(graph: &Graph, part: NodeId, paths: &Paths<N>) -> LongestPath<N> {
    let node = graph.node(part);
    let joined = loops::part(graph, node.region, Role::Join).filter(|joined| *joined != part);
    let parent = joined.and_then(|joined| paths.get(graph.node(joined).results.first()?));
    parent.map_or(LongestPath::new(N::of(0.0)), |path| LongestPath::new(path.layers.clone()))
}

/// Runs a loop: paths to the carried values grow from step to step, evenly from the second step on.
fn turn<N: Number + PartialEq>(graph: &Graph, id: NodeId, body: RegionId, sizes: &Sizes<N>, paths: &mut Paths<N>) {
    let node = graph.node(id);
    let LoopLayout { carried, sliced, .. } = loops::layout(graph, id);
    let (params, yields) = (graph.params(body), loops::yielded(graph, id));
    let all = turns(graph, id, sizes);
    let inner = all.first().map_or(sizes, |turns| &turns.sizes);
    let steps = sequence(graph, id, sizes);
    for (param, operand) in params.iter().zip(&node.operands).take(carried + sliced) {
        let path = joined(&[*operand], paths);
        let path = if node.op == Op::Part { path.join(&parents(graph, id, paths)) } else { path };
        paths.insert(*param, LongestPath::new(path.layers));
    }
    let mut seen: Vec<Vec<N>> = vec![];
    for _ in 0..WALKED {
        region(graph, body, inner, paths);
        seen.push(yields.iter().map(|v| joined(&[*v], paths).layers).collect());
        for (param, value) in params.iter().zip(yields).take(carried) {
            // The next pair is chosen by the scores.
            let path = if node.op == Op::Beam { joined(yields, paths) } else { joined(&[*value], paths) };
            paths.insert(*param, LongestPath::new(path.layers));
        }
    }
    for (n, result) in node.results.iter().enumerate().take(yields.len()) {
        let [first, before, last] = [0, 1, 2].map(|step| &seen[step][n]);
        let growth = last.minus(before);
        // Few loops need a step until they grow evenly; they are longer by what it misses.
        let even = before.minus(first) == growth;
        let (from, walked) = if even { (first, 1.0) } else { (before, 2.0) };
        let rest = steps.minus(&N::of(walked));
        paths.insert(*result, LongestPath::new(from.plus(&rest.times(&growth))));
    }
}
