//! Readout of the final memory.

use super::{fits_task, needs_sequence};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::{Lower, need};
use crate::schema::word;
use crate::spec::Block;

/// The feature.
pub(super) fn memory() -> Feature {
    Feature {
        fields: vec![word("pool", &["mean", "last"], "mean", "the mean of the slots, or the last slot alone")],
        check,
        ..Feature::row(
            "readout",
            "memory",
            "The normed memory slots after the last chunk, of the last chunk-wise recurrence.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, arXiv:2402.00976",
            Lowering::Readout(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    needs_sequence(site, problems);
    let Some(root) = site.parent() else { return };
    let Some(recurrence) = root.children.iter().rev().find(|b| b.slot == "recur" && b.variant == "chunkwise") else {
        problems.report(
            Diagnostic::new(Kind::ReadoutNeedsMemory, site.block.span, "there is no memory to read out")
                .label("needs a `recur chunkwise` directly in the model"),
        );
        return;
    };
    if recurrence.child("update").is_none() {
        problems.report(
            Diagnostic::new(Kind::ReadoutNeedsUpdate, site.block.span, "the memory that is read out never changes")
                .note(recurrence.span, "has no `update memory`")
                .help("add `update memory { attend chunk { heads: ... } }` to the recurrence"),
        );
    }
}

/// The mean of `LN M^T` over the slots, or its last slot: the only norm after a recurrence.
fn lower(l: &mut Lower<'_>, block: &Block, _: Value) -> Result<Value, InvalidNode> {
    let memory = need(l.memory, block, "memory")?;
    let normed = l.norm(memory, "norm")?;
    match block.word("pool") {
        Some("last") => l.one(Op::Position, &[normed], Attrs::of(attribute::AT, At::Last)),
        _ => l.one(Op::Mean, &[normed], Attrs::new()),
    }
}
