//! The memory that is carried from chunk to chunk.

use super::{Feature, Lowering, Slot};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Dim};
use crate::lower::{Lower, need};
use crate::schema::{Bounds, Default, POSITIVE, SIZE, float, int, word};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) fn slot() -> Slot {
    Slot::new("memory", "The state that a chunk-wise recurrence carries from chunk to chunk.", vec![memory()])
}

fn memory() -> Feature {
    Feature {
        fields: vec![
            int("slots", Default::Required, SIZE, "number of slots"),
            word(
                "init",
                &["zeros", "normal"],
                "zeros",
                "how the slots start; zeros make all slots equal but for dropout",
            ),
            float("std", Default::Float(0.02), STD, "standard deviation of `init: normal`"),
        ],
        ..Feature::row(
            "memory",
            "",
            "Slots as wide as the model; every row starts with the same trainable slots.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794",
            Lowering::Memory(lower),
        )
    }
}

const STD: Bounds = Bounds { high: 1000.0, ..POSITIVE };

/// `M^0`: one trainable array, the same for all rows.
fn lower(l: &mut Lower<'_>, block: &Block, like: Value) -> Result<Value, InvalidNode> {
    let slots = Dim::Fixed(need(block.int("slots"), block, "slots")?);
    let init = match block.word("init") {
        Some("normal") => Attr::call("normal", [need(block.float("std"), block, "std")?.into()]),
        _ => "zeros".into(),
    };
    let width = Dim::Fixed(l.width);
    let start = l.param("slots", [slots, width], init)?;
    l.one(Op::BroadcastBatch, &[start, like], Attrs::new())
}
