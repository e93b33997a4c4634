//! Cost rules: floating-point operations of one node for given sizes. Multiply and add count as two.

use std::collections::BTreeMap;

use super::graph::{Graph, NodeId, RegionId};
use super::ops::Op;
use super::types::{Attr, Dim, Type};

/// Sizes of the symbolic axes for which a cost is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Size of each symbolic axis.
    pub axes: BTreeMap<String, f64>,
    /// Steps of a depth recurrence with halting, at most its bound; `None` for the bound itself.
    pub depth: Option<f64>,
}

/// What a cost rule sees of a node.
#[derive(Debug)]
pub struct Costed<'a> {
    /// Types of the operands.
    pub operands: Vec<&'a Type>,
    /// Types of the results.
    pub results: Vec<&'a Type>,
    /// The sizes asked for.
    pub sizes: &'a Sizes,
}

/// Floating-point operations of one run of a node.
pub type CostRule = fn(&Costed<'_>) -> f64;

impl Sizes {
    /// One row of `length` tokens; recurrences run to their bound.
    pub fn row(length: usize) -> Self {
        Self::rows(1.0, length as f64)
    }

    /// `rows` rows of `length` tokens each; recurrences run to their bound.
    pub fn rows(rows: f64, length: f64) -> Self {
        let axes = [
            ("batch", rows),
            ("batch/2", rows / 2.0),
            ("length", length),
            ("length+2", length + 2.0),
            ("vocab", 1.0),
            ("classes", 1.0),
        ];
        Self { axes: axes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(), depth: None }
    }

    fn dim(&self, dim: &Dim) -> f64 {
        match dim {
            Dim::Fixed(n) => *n as f64,
            Dim::Sym(s) => self.axes.get(s).copied().unwrap_or(1.0),
        }
    }

    /// Number of elements of a tensor type.
    pub fn elements(&self, ty: &Type) -> f64 {
        ty.dims().iter().map(|d| self.dim(d)).product()
    }
}

impl Costed<'_> {
    fn largest(&self) -> f64 {
        self.operands.iter().chain(&self.results).map(|t| self.sizes.elements(t)).fold(0.0, f64::max)
    }
}

/// Moves data or does nothing.
pub fn free(_: &Costed<'_>) -> f64 {
    0.0
}

/// The body is costed on its own.
pub fn region(_: &Costed<'_>) -> f64 {
    0.0
}

/// One operation per element.
pub fn elementwise(c: &Costed<'_>) -> f64 {
    c.largest()
}

/// One addition per element.
pub fn reduction(c: &Costed<'_>) -> f64 {
    c.largest()
}

/// About ten operations per element.
pub fn transcendental(c: &Costed<'_>) -> f64 {
    10.0 * c.largest()
}

/// Eight operations per element.
pub fn norm(c: &Costed<'_>) -> f64 {
    8.0 * c.largest()
}

/// Two operations per element of the first operand and per column of the weight.
pub fn linear(c: &Costed<'_>) -> f64 {
    let x = c.operands[0];
    let last = x.dims().last().map_or(1.0, |d| c.sizes.dim(d));
    2.0 * c.sizes.elements(x) / last * c.sizes.elements(c.operands[1])
}

/// As the product that it differentiates.
pub fn linear_weight(c: &Costed<'_>) -> f64 {
    let dy = c.operands[0];
    let last = dy.dims().last().map_or(1.0, |d| c.sizes.dim(d));
    2.0 * c.sizes.elements(dy) / last * c.sizes.elements(c.operands[2])
}

/// Scores and mixture: four operations per query, key and channel.
pub fn attention(c: &Costed<'_>) -> f64 {
    let keys = c.operands[1].dims().get(1).map_or(1.0, |d| c.sizes.dim(d));
    4.0 * c.sizes.elements(c.operands[0]) * keys
}

/// Scores again, and four products.
pub fn attention_grad(c: &Costed<'_>) -> f64 {
    2.5 * attention(c)
}

/// Two transforms of twice the length per row and channel, and the numbers of the kernels, four operations per mode.
pub fn scan(c: &Costed<'_>) -> f64 {
    let x = c.operands[0];
    let length = x.dims().get(1).map_or(1.0, |d| c.sizes.dim(d));
    let numbers = length * c.sizes.elements(c.operands[2]);
    10.0 * (2.0 * length).max(2.0).log2() * c.sizes.elements(x) + 4.0 * numbers
}

/// Three transforms in place of two, and the kernels made once and differentiated twice.
pub fn scan_grad(c: &Costed<'_>) -> f64 {
    let x = c.operands[0];
    let length = x.dims().get(1).map_or(1.0, |d| c.sizes.dim(d));
    scan(c)
        + 5.0 * (2.0 * length).max(2.0).log2() * c.sizes.elements(x)
        + 8.0 * length * c.sizes.elements(c.operands[2])
}

/// Floating-point operations of a region for the given sizes.
pub fn region_cost(graph: &Graph, region: RegionId, sizes: &Sizes) -> f64 {
    graph.nodes(region).iter().map(|n| node_cost(graph, *n, sizes)).sum()
}

fn node_cost(graph: &Graph, id: NodeId, sizes: &Sizes) -> f64 {
    let node = graph.node(id);
    let own = (node.op.def().cost)(&Costed {
        operands: node.operands.iter().map(|v| graph.ty(*v)).collect(),
        results: node.results.iter().map(|v| graph.ty(*v)).collect(),
        sizes,
    });
    let Some(body) = node.body else { return own };
    let (steps, inner) = loop_sizes(node, sizes);
    own + steps * region_cost(graph, body, &inner)
}

/// How often a loop runs its body, and the sizes inside.
pub fn loop_sizes(node: &super::graph::Node, sizes: &Sizes) -> (f64, Sizes) {
    let mut inner = sizes.clone();
    let int = |name: &str| node.attrs.get(name).and_then(Attr::int).map(|v| v as f64);
    let axis = |name: &str| node.attrs.get(name).and_then(Attr::text);
    match (node.op, axis("over"), axis("axis")) {
        (Op::Chunks | Op::Unwind, Some(over), Some(axis)) => {
            let length = sizes.axes.get(over).copied().unwrap_or(1.0);
            let count = match (int("count"), int("size")) {
                (Some(count), _) => count,
                (None, Some(size)) => (length / size).ceil(),
                (None, None) => 1.0,
            };
            inner.axes.insert(axis.to_owned(), length / count.max(1.0));
            (count, inner)
        }
        _ => {
            let bound = int("bound").unwrap_or(1.0);
            (sizes.depth.map_or(bound, |d| d.min(bound)), inner)
        }
    }
}
