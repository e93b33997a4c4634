//! The scorers of two neighbours in a search.

use super::lowering::Score;
use super::{Feature, Lowering, Slot};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{Default, SIZE, int};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "score",
    doc: "The score of merging two neighbours in a search.",
    features: &[MLP, PARENT],
    planned: &[],
};

const MLP: Feature = Feature {
    slot: "score",
    variant: "mlp",
    doc: "A two-layer network on the first channels of the two nodes; the cell merges only chosen pairs.",
    source: "Ray Chowdhury and Caragea 2023 (efficient beam tree), arXiv:2307.10779",
    fields: &[int(
        "slice",
        Default::Int(64),
        SIZE,
        "channels read of each node, and the width of the network; all channels if there are fewer",
    )],
    ..Feature::plain(Lowering::Score(Score { of_parent: false, function: mlp }))
};

const PARENT: Feature = Feature {
    slot: "score",
    variant: "parent",
    doc: "A linear map of the merged node: the cell merges all pairs before one is chosen.",
    source: "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999",
    ..Feature::plain(Lowering::Score(Score { of_parent: true, function: |l, _, parent| number(l, parent, "linear") }))
};

/// `w_2 GELU(W_1 [l; r] + b_1) + b_2` on the first channels `l` and `r` of the two nodes of a pair.
fn mlp(l: &mut Lower<'_>, block: &Block, pair: Value) -> Result<Value, InvalidNode> {
    let slice = need(block.int("slice"), block, "slice")?.min(l.width);
    let mut end = |at: At| {
        let node = l.one(Op::Position, &[pair], Attrs::of(attribute::AT, at))?;
        if slice < l.width { l.channels(node, 0, slice) } else { Ok(node) }
    };
    let (left, right) = (end(At::First)?, end(At::Last)?);
    let both = l.one(Op::Concat, &[left, right], Attrs::new())?;
    let x = l.linear(both, "hidden", Dim::Fixed(slice), &LinearInit::FanIn)?;
    let x = l.map(Pointwise::Gelu, &[x])?;
    number(l, x, "output")
}

/// One number from a vector.
fn number(l: &mut Lower<'_>, x: Value, name: &str) -> Result<Value, InvalidNode> {
    let y = l.linear(x, name, Dim::Fixed(1), &LinearInit::FanIn)?;
    l.one(Op::Squeeze, &[y], Attrs::new())
}
