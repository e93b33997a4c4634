//! The simple recurrent network.

use super::wide;
use crate::feature::lowering::Cell;
use crate::feature::{Feature, Lowering};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::Pointwise;
use crate::lower::Lower;
use crate::spec::Block;

/// The feature.
pub(super) const ELMAN: Feature = Feature {
    slot: "cell",
    variant: "elman",
    doc: "One layer with tanh; a baseline.",
    source: "Elman 1990, Cognitive Science 14(2)",
    ..Feature::plain(Lowering::Cell(Cell { memories: 0, step }))
};

/// `tanh(W x + U h)`, biases in both products.
fn step(l: &mut Lower<'_>, _: &Block, left: &[Value], right: Value) -> Result<Vec<Value>, InvalidNode> {
    let x = wide(l, right, "input", 1)?;
    let u = wide(l, left[0], "state", 1)?;
    let sum = l.map(Pointwise::Add, &[x, u])?;
    Ok(vec![l.map(Pointwise::Tanh, &[sum])?])
}
