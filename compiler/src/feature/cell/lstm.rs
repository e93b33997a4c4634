//! Long short-term memory.

use super::{block, tanh, wide};
use crate::feature::lowering::Cell;
use crate::feature::{Feature, Lowering, nothing_more};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attrs;
use crate::lower::Lower;
use crate::schema::Schema;
use crate::spec::Block;

/// The feature.
pub(super) const LSTM: Feature = Feature {
    schema: Schema {
        slot: "cell",
        variant: "lstm",
        doc: "Long short-term memory with a forget gate; only in a chain, which carries its memory. A baseline.",
        source: "Hochreiter and Schmidhuber 1997, Neural Computation 9(8); forget gate: Gers et al. 2000, Neural Computation 12(10)",
        fields: &[],
        children: &[],
    },
    check: nothing_more,
    lower: Lowering::Cell(Cell { memories: 1, step }),
};

/// `c' = sigmoid(f) c + sigmoid(i) tanh(n)` and `h' = sigmoid(o) tanh(c')` with `[i; f; o; n] = W x + U h`, biases in both.
fn step(l: &mut Lower<'_>, _: &Block, left: &[Value], right: Value) -> Result<Vec<Value>, InvalidNode> {
    let &[h, c] = left else { return Err(InvalidNode("an lstm needs its memory".to_owned())) };
    let x = wide(l, right, "input", 4)?;
    let u = wide(l, h, "state", 4)?;
    let y = l.one(Op::Add, &[x, u], Attrs::new())?;
    let gates = block(l, y, 0, 3)?;
    let gates = l.one(Op::Sigmoid, &[gates], Attrs::new())?;
    let (input, forget, output) = (block(l, gates, 0, 1)?, block(l, gates, 1, 1)?, block(l, gates, 2, 1)?);
    let new = block(l, y, 3, 1)?;
    let new = tanh(l, new)?;
    let kept = l.one(Op::Mul, &[forget, c], Attrs::new())?;
    let new = l.one(Op::Mul, &[input, new], Attrs::new())?;
    let c = l.one(Op::Add, &[kept, new], Attrs::new())?;
    let shown = tanh(l, c)?;
    Ok(vec![l.one(Op::Mul, &[output, shown], Attrs::new())?, c])
}
