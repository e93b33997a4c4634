//! The gated recurrent unit.

use super::{block, wide};
use crate::feature::lowering::Cell;
use crate::feature::{Feature, Lowering};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::Pointwise;
use crate::lower::Lower;
use crate::spec::Block;

/// The feature.
pub(super) const GRU: Feature = Feature {
    slot: "cell",
    variant: "gru",
    doc: "Gated recurrent unit with the reset gate after the product; a baseline.",
    source: "Cho et al. 2014, arXiv:1406.1078",
    ..Feature::plain(Lowering::Cell(Cell { memories: 0, step }))
};

/// `z h + (1 - z) n` with `r, z = sigmoid(W x + U h)`, `n = tanh(W_n x + r U_n h)`, biases in both products.
fn step(l: &mut Lower<'_>, _: &Block, left: &[Value], right: Value) -> Result<Vec<Value>, InvalidNode> {
    let h = left[0];
    let x = wide(l, right, "input", 3)?;
    let u = wide(l, h, "state", 3)?;
    let (of_x, of_u) = (block(l, x, 0, 2)?, block(l, u, 0, 2)?);
    let gates = l.map(Pointwise::Add, &[of_x, of_u])?;
    let (reset, keep) = (block(l, gates, 0, 1)?, block(l, gates, 1, 1)?);
    let reset = l.map(Pointwise::Sigmoid, &[reset])?;
    let (of_x, of_u) = (block(l, x, 2, 1)?, block(l, u, 2, 1)?);
    let of_u = l.map(Pointwise::Mul, &[reset, of_u])?;
    let new = l.map(Pointwise::Add, &[of_x, of_u])?;
    let new = l.map(Pointwise::Tanh, &[new])?;
    let keep = l.map(Pointwise::Sigmoid, &[keep])?;
    Ok(vec![l.map(Pointwise::Lerp, &[keep, h, new])?])
}
