//! From the readout to class scores.

use super::{Feature, Lowering, Slot, nothing_more};
use crate::ir::graph::{Misfit, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attrs, CLASSES, Dim};
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{Default, Derived, Objective, SIZE, Schema, int, word};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "head",
    doc: "How class scores are computed from what is read out.",
    features: &[CLASSIFIER],
    planned: &["pair", "siamese", "per_position"],
};

const CLASSIFIER: Feature = Feature {
    schema: Schema {
        slot: "head",
        variant: "classifier",
        doc: "A two-layer network; for tasks on pairs it reads both vectors, their product and their difference.",
        fields: &[
            int("hidden", Default::Derived(Derived::Width), SIZE, "width between the two layers"),
            word("activation", &["relu", "gelu"], "relu", "the function between the two layers"),
        ],
        children: &[],
    },
    check: nothing_more,
    lower: Lowering::Head(lower),
};

/// `W_2 act(W_1 x + b_1) + b_2`; for pairs `x = [u; v; u v; |u - v|]`. Two classes take one output.
fn lower(l: &mut Lower<'_>, block: &Block, read: Value) -> Result<Value, Misfit> {
    let x = match l.binding().objective {
        Objective::Pair => l.one(Op::Pair, &[read], Attrs::new())?,
        Objective::Classify | Objective::Each => read,
    };
    let hidden = need(block.int("hidden"), block, "hidden")?;
    let x = l.linear(x, "hidden", Dim::Fixed(hidden), &LinearInit::FanIn)?;
    let act = if block.word("activation") == Some("gelu") { Op::Gelu } else { Op::Relu };
    let x = l.one(act, &[x], Attrs::new())?;
    let outputs = match l.binding().classes {
        None => Dim::sym(CLASSES),
        Some(2) => Dim::Fixed(1),
        Some(n) => Dim::Fixed(n),
    };
    l.linear(x, "output", outputs, &LinearInit::FanIn)
}
