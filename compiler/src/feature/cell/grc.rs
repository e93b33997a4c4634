//! The gated recursive cell.

use super::{block, wide};
use crate::feature::lowering::Cell;
use crate::feature::{Feature, Lowering};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{DROPOUT, Default, Derived, SIZE, float, int};
use crate::spec::Block;

/// The feature.
pub(super) const GRC: Feature = Feature {
    slot: "cell",
    variant: "grc",
    doc: "Gated recursive cell: left, right and a new vector, each with its own gate, summed and normed.",
    source: "Shen et al. 2019 (ordered memory), arXiv:1910.13466; Ray Chowdhury and Caragea 2023, Appendix J, arXiv:2311.04449",
    fields: &[
        int("hidden", Default::Derived(Derived::FourWidths), SIZE, "width between its two layers"),
        float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout between its two layers"),
        float("input_dropout", Default::Float(0.0), DROPOUT, "dropout on the two vectors before its layers"),
    ],
    ..Feature::plain(Lowering::Cell(Cell { memories: 0, step }))
};

/// `LN(sigmoid(a) l + sigmoid(b) r + sigmoid(c) n)` with `[a; b; c; n] = W_2 drop(GELU(W_1 drop([l; r]) + b_1)) + b_2`.
fn step(l: &mut Lower<'_>, cell: &Block, left: &[Value], right: Value) -> Result<Vec<Value>, InvalidNode> {
    let hidden = Dim::Fixed(need(cell.int("hidden"), cell, "hidden")?);
    let left = left[0];
    let both = l.one(Op::Concat, &[left, right], Attrs::new())?;
    let both = l.dropout(both, need(cell.float("input_dropout"), cell, "input_dropout")?)?;
    let z = l.linear(both, "up", hidden, &LinearInit::FanIn)?;
    let z = l.map(Pointwise::Gelu, &[z])?;
    let z = l.dropout(z, need(cell.float("dropout"), cell, "dropout")?)?;
    let y = wide(l, z, "down", 4)?;
    let gates = block(l, y, 0, 3)?;
    let gates = l.map(Pointwise::Sigmoid, &[gates])?;
    let new = block(l, y, 3, 1)?;
    let mut sum = None;
    for (n, part) in [left, right, new].into_iter().enumerate() {
        let gate = block(l, gates, n, 1)?;
        let part = l.map(Pointwise::Mul, &[gate, part])?;
        sum = Some(match sum {
            Some(sum) => l.map(Pointwise::Add, &[sum, part])?,
            None => part,
        });
    }
    let sum = need(sum, cell, "parts")?;
    Ok(vec![l.norm(sum, "norm")?])
}
