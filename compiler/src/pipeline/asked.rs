//! What a model takes from the examples besides their tokens and labels: the values of `given(..)`.

use super::each_step::{CARRIED, size};
use crate::ir::attribute;
use crate::ir::graph::{Graph, INPUTS, MAIN, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Dim, Elem};

/// A value that comes with the examples, under the name of its equation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalInput {
    /// The name.
    pub name: String,
    /// How many things the model knows, where the numbers are numbers of things.
    pub things: Option<usize>,
    /// How many positions besides its tokens a row has in it, nothing where it is one value for the row.
    pub around: Option<usize>,
    /// The sizes of one value: none where it is a number.
    pub dims: Vec<usize>,
}

impl ExternalInput {
    /// How many numbers one value has: that of a row, or that of a position.
    pub fn width(&self) -> usize {
        self.dims.iter().product()
    }

    /// How many of them a row of so many tokens has.
    pub fn values(&self, tokens: usize) -> usize {
        self.around.map_or(1, |around| tokens + around)
    }
}

/// The values that a graph takes from the examples, in the order of their names.
pub fn asked(graph: &Graph) -> Vec<ExternalInput> {
    let inputs = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Input);
    let mut found: Vec<ExternalInput> = inputs
        .filter(|node| {
            let name = node.get(attribute::NAME);
            !INPUTS.contains(&name) && !name.starts_with(CARRIED)
        })
        .map(|node| {
            let (value, ty) = (node.results[0], graph.ty(node.results[0]));
            let (around, _) = size(ty);
            let inner = if around.is_some() { 2 } else { 1 };
            let dims = ty.dims().iter().skip(inner).filter_map(Dim::fixed).collect();
            let things = (ty.elem() == Some(Elem::Index)).then(|| things(graph, value));
            ExternalInput { name: node.get(attribute::NAME).to_owned(), things, around, dims }
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// How many things all tables know that are read at these numbers.
pub fn things(graph: &Graph, ids: Value) -> usize {
    let nodes = graph.walk(MAIN).into_iter().map(|id| graph.node(id));
    let tables = nodes.filter(|node| node.op == Op::Embed && node.operands[0] == ids);
    let sizes = tables.filter_map(|node| graph.ty(node.operands[1]).dims()[0].fixed());
    sizes.min().unwrap_or(u32::MAX as usize)
}
