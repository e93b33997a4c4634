//! Long short-term memory.

use super::{block, wide};
use crate::feature::lowering::Cell;
use crate::feature::{Feature, Lowering};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::Pointwise;
use crate::lower::Lower;
use crate::spec::Block;

/// The feature.
pub(super) const LSTM: Feature = Feature {
    slot: "cell",
    variant: "lstm",
    doc: "Long short-term memory with a forget gate; only in a chain, which carries its memory. A baseline.",
    source: "Hochreiter and Schmidhuber 1997, Neural Computation 9(8); forget gate: Gers et al. 2000, Neural Computation 12(10)",
    ..Feature::plain(Lowering::Cell(Cell { memories: 1, step }))
};

/// `c' = sigmoid(f) c + sigmoid(i) tanh(n)` and `h' = sigmoid(o) tanh(c')` with `[i; f; o; n] = W x + U h`, biases in both.
fn step(l: &mut Lower<'_>, _: &Block, left: &[Value], right: Value) -> Result<Vec<Value>, InvalidNode> {
    let &[h, c] = left else { return Err(InvalidNode("an lstm needs its memory".to_owned())) };
    let x = wide(l, right, "input", 4)?;
    let u = wide(l, h, "state", 4)?;
    let y = l.map(Pointwise::Add, &[x, u])?;
    let gates = block(l, y, 0, 3)?;
    let gates = l.map(Pointwise::Sigmoid, &[gates])?;
    let (input, forget, output) = (block(l, gates, 0, 1)?, block(l, gates, 1, 1)?, block(l, gates, 2, 1)?);
    let new = block(l, y, 3, 1)?;
    let new = l.map(Pointwise::Tanh, &[new])?;
    let kept = l.map(Pointwise::Mul, &[forget, c])?;
    let new = l.map(Pointwise::Mul, &[input, new])?;
    let c = l.map(Pointwise::Add, &[kept, new])?;
    let shown = l.map(Pointwise::Tanh, &[c])?;
    Ok(vec![l.map(Pointwise::Mul, &[output, shown])?, c])
}
