//! The memory that a chunk-wise recurrence carries from chunk to chunk, and its update after each.

use super::{Feature, Lowering, Site, Slot, recurrence};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Dim};
use crate::lower::{Lower, need};
use crate::schema::{Bounds, COPIES, Children, Default, POSITIVE, SIZE, float, int, word};
use crate::spec::Block;

/// The keyword of the memory and its only form.
pub(super) fn slot() -> Slot {
    let init = "how the slots start; zeros make all slots equal but for dropout";
    let std = Bounds { high: 1000.0, ..POSITIVE };
    let memory = Feature {
        fields: vec![
            int("slots", Default::Required, SIZE, "number of slots"),
            word("init", &["zeros", "normal"], "zeros", init),
            float("std", Default::Float(0.02), std, "standard deviation of `init: normal`").beside("init", &["normal"]),
        ],
        ..Feature::row(
            "memory",
            "",
            "Slots as wide as the model; every row starts with the same trainable slots.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794",
            Lowering::Setting,
        )
    };
    Slot::new("memory", "The state that a chunk-wise recurrence carries from chunk to chunk.", vec![memory])
}

/// The keyword of the update and its variants. Each layer: `a = m + MHA(LN m, LN chunk)`, then `a + FF(LN a)`.
pub(super) fn update() -> Slot {
    let copies = "number of copies of the layers, each with its own weights";
    let memory = Feature {
        fields: vec![int("layers", Default::Int(1), COPIES, copies)],
        children: const { &[Children::any(&["attend", "feedforward"])] },
        check,
        ..Feature::row(
            "update",
            "memory",
            "After every chunk these layers update the slots; `attend chunk` reads the result of the chunk.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Algorithm 4, arXiv:2402.00976",
            Lowering::Setting,
        )
    };
    Slot::new("update", "How the memory changes after every chunk.", vec![memory])
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    recurrence::has_layers(site, problems);
    for layer in site.layers().filter(|l| l.slot == "attend" && l.variant != "chunk") {
        let message = format!("`{}` can't stand in `update memory`", layer.title());
        let diagnostic = Diagnostic::new(Kind::MisplacedStatement, layer.span, message);
        problems.report(diagnostic.label("the slots attend to the chunk: `attend chunk`"));
    }
}

/// `M^0`, `f32[batch, slots, width]` for rows like those of a value: one trainable array, the same for all rows.
pub(super) fn start(l: &mut Lower<'_>, block: &Block, like: Value) -> Result<Value, InvalidNode> {
    let slots = Dim::Fixed(need(block.int("slots"), block, "slots")?);
    let init = match block.word("init") {
        Some("normal") => Attr::call("normal", [need(block.float("std"), block, "std")?.into()]),
        _ => "zeros".into(),
    };
    let width = Dim::Fixed(l.width);
    let start = l.param("slots", [slots, width], init)?;
    l.one(Op::BroadcastBatch, &[start, like], Attrs::new())
}
