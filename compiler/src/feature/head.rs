//! From the readout to class scores, or to a number.

use super::feedforward::activation;
use super::{Feature, Lowering, Slot};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::ACTIVATIONS;
use crate::ir::types::{CLASSES, Dim};
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{DROPOUT, Default, Derived, Objective, SIZE, float, int, word};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "head",
    doc: "From the readout to class scores, or to the number that a task asks for.",
    features: &[CLASSIFIER, LINEAR],
    planned: &["pair", "siamese", "per_position"],
};

const CLASSIFIER: Feature = Feature {
    slot: "head",
    variant: "classifier",
    doc: "A two-layer network; for tasks on pairs it reads both vectors, their product and their difference.",
    source: "Ray Chowdhury and Caragea 2023 (recursion in recursion), arXiv:2311.04449; pairs: Conneau et al. 2017, arXiv:1705.02364",
    fields: &[
        int("hidden", Default::Derived(Derived::Width), SIZE, "width between the two layers"),
        word("activation", &ACTIVATIONS, "relu", "the function between the two layers"),
        float("dropout", Default::Absent, DROPOUT, "dropout before each of the two layers; none if left out"),
    ],
    ..Feature::plain(Lowering::Head(lower))
};

const LINEAR: Feature = Feature {
    slot: "head",
    variant: "linear",
    doc: "One linear map; for tasks on pairs it reads both vectors, their product and their difference.",
    source: "pairs: Conneau et al. 2017, arXiv:1705.02364",
    ..Feature::plain(Lowering::Head(|l, _, read| {
        let x = features(l, read)?;
        scores(l, x)
    }))
};

/// `W_2 drop(act(W_1 drop(x) + b_1)) + b_2`.
fn lower(l: &mut Lower<'_>, block: &Block, read: Value) -> Result<Value, InvalidNode> {
    let dropout = block.float("dropout").unwrap_or(0.0);
    let x = features(l, read)?;
    let x = l.dropout(x, dropout)?;
    let hidden = need(block.int("hidden"), block, "hidden")?;
    let x = l.linear(x, "hidden", Dim::Fixed(hidden), &LinearInit::FanIn)?;
    let x = l.map(activation(block), &[x])?;
    let x = l.dropout(x, dropout)?;
    scores(l, x)
}

/// What is classified: the vector that was read out, for pairs `[u; v; u v; |u - v|]`.
fn features(l: &mut Lower<'_>, read: Value) -> Result<Value, InvalidNode> {
    match l.binding().objective {
        Objective::Pair => l.one(Op::Pair, &[read], Attrs::new()),
        Objective::Classify | Objective::Each | Objective::Number | Objective::Several => Ok(read),
    }
}

/// The outputs that the task takes.
fn scores(l: &mut Lower<'_>, x: Value) -> Result<Value, InvalidNode> {
    let outputs = l.binding().outputs().map_or_else(|| Dim::sym(CLASSES), Dim::Fixed);
    l.linear(x, "output", outputs, &LinearInit::FanIn)
}
