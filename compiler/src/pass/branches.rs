//! Nodes that only a branch of a choice reads. Where the branch is not taken, their numbers may be infinite or NaN; their cotangent is 0, and
//! so must be every gradient that comes of it.
//!
//! Maps see to that themselves: see [`pointwise`]. All other ops multiply the cotangent with their operands or results, so the backward run
//! hands them those numbers with 0 in the place of what is not finite. A number that is not finite where the branch is taken reaches the
//! loss, and ends the run there.
//!
//! Halting is a choice, too, so that most nodes of many models stand in a branch: only numbers that come of a node that `overflows` are
//! treated so, in the bodies of loops as outside of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{Graph, MAIN, Node, NodeId, Value};
use crate::ir::loops::{layout, yielded};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, Scalar};

/// What stands in branches, and which values need not be finite.
#[derive(Debug)]
pub struct Branches {
    /// What a result depends on whatever any choice takes.
    outside: BTreeSet<Value>,
    unbounded: BTreeSet<Value>,
}

impl Branches {
    /// The branches of a forward graph.
    pub fn of(graph: &Graph) -> Self {
        let flows = flows(graph);
        let results: Vec<Value> = graph.terminator(MAIN).map_or(vec![], |end| graph.node(end).operands.clone());
        let always = flows.iter().filter(|flow| !takes(graph.node(flow.node)));
        let outside = reached(results, always.map(|flow| (flow.to, flow.from)));
        let overflowing = graph.walk(MAIN).into_iter().map(|id| graph.node(id)).filter(|node| overflows(node));
        let real = |value: &Value| graph.ty(*value).is_real();
        let unbounded = reached(
            overflowing.flat_map(|node| node.results.clone()).filter(real).collect(),
            flows.iter().filter(|flow| real(&flow.to)).map(|flow| (flow.from, flow.to)),
        );
        Self { outside, unbounded }
    }

    /// Whether the gradient rule of a node must not see a value as it is.
    pub(super) fn hide(&self, node: &Node, value: Value) -> bool {
        node.op != Op::Map && self.holds(node) && (self.unbounded.contains(&value) || overflows(node))
    }

    /// Whether a node stands in a branch and may have numbers there that are not finite.
    pub fn holds(&self, node: &Node) -> bool {
        let mut values = node.operands.iter().chain(&node.results);
        node.results.iter().all(|result| !self.outside.contains(result))
            && values.any(|value| self.unbounded.contains(value))
    }
}

/// The map that puts 0 in the place of what is not finite in `value`, and of all that a `result` which is not finite was made of.
pub(super) fn finite(value: Value, result: Option<Value>) -> (Vec<Value>, Attrs) {
    use Pointwise::{Add, ChainMul, Finite, Mul};
    let call = |func, args: &[Scalar]| Scalar::Call(func, args.to_vec());
    let Some(result) = result else { return pointwise::map(&[Finite.of_operands()], &[value]) };
    let (number, zero) = (Scalar::Number, call(Mul, &[Scalar::Number(0.0), Scalar::Operand(1)]));
    let is_finite = call(Finite, &[call(Add, &[number(1.0), zero])]);
    pointwise::map(&[call(Finite, &[call(ChainMul, &[is_finite, Scalar::Operand(0)])])], &[value, result])
}

/// A value that another one depends on by a node.
struct Flow {
    from: Value,
    to: Value,
    node: NodeId,
}

/// What depends on what, through the bodies of loops and from step to step.
fn flows(graph: &Graph) -> Vec<Flow> {
    let mut flows = vec![];
    for id in graph.walk(MAIN) {
        let node = graph.node(id);
        let mut all = |from: &[Value], to: &[Value]| {
            flows.extend(from.iter().flat_map(|from| to.iter().map(|to| Flow { from: *from, to: *to, node: id })));
        };
        let Some(body) = node.body else {
            all(&node.operands, &node.results);
            continue;
        };
        let (params, yields) = (graph.params(body), yielded(graph, id));
        if !matches!(node.op, Op::Recur | Op::Chunks) {
            all(&node.operands, params);
            all(yields, params);
            all(yields, &node.results);
            continue;
        }
        let one =
            |values: &[Value], n: usize| values.get(n..=n).map_or_else(|| node.results.clone(), <[Value]>::to_vec);
        let carried = layout(graph, id).carried;
        for (n, operand) in node.operands.iter().enumerate() {
            all(&[*operand], &one(params, n));
        }
        for (n, value) in yields.iter().enumerate() {
            all(&[*value], &one(&node.results, n));
            if n < carried {
                all(&[*value], &one(params, n));
            }
        }
    }
    flows
}

/// All values that one comes to by these steps.
fn reached(starts: Vec<Value>, steps: impl Iterator<Item = (Value, Value)>) -> BTreeSet<Value> {
    let mut behind: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    steps.for_each(|(from, to)| behind.entry(from).or_default().push(to));
    let (mut found, mut open) = (BTreeSet::new(), starts);
    while let Some(value) = open.pop() {
        if found.insert(value) {
            open.extend(behind.get(&value).into_iter().flatten());
        }
    }
    found
}

/// Whether a map has a function of this kind.
fn has(node: &Node, kind: fn(Pointwise) -> bool) -> bool {
    let exprs = if node.op == Op::Map { pointwise::results(&node.attrs).unwrap_or_default() } else { vec![] };
    exprs.iter().any(|expr| expr.has(kind))
}

/// Whether a result of a node may not depend on one of its operands at all.
fn takes(node: &Node) -> bool {
    matches!(node.op, Op::Select | Op::MaskUnit) || has(node, Pointwise::chooses)
}

/// A factor of at least this makes numbers overflow whose size is usual.
const LARGE: f64 = 1e10;

/// Whether a node makes numbers that are not finite of numbers of usual size.
fn overflows(node: &Node) -> bool {
    let exprs = if node.op == Op::Map { pointwise::results(&node.attrs).unwrap_or_default() } else { vec![] };
    let large = exprs.iter().any(|expr| expr.numbers().into_iter().any(|number| number.abs() >= LARGE));
    large || node.find(attribute::EPS) == Some(0.0) || has(node, Pointwise::overflows)
}
