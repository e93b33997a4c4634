//! Chunk-wise recurrence: the row is cut into chunks, read from left to right, with a memory of slots between them.

use super::{gate_has_feedforward, has_layers};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Site};
use crate::schema::{Children, Default, LAYERS, SIZE, Schema, int, word};
use crate::spec::Block;

/// The feature.
pub(super) const CHUNKWISE: Feature = Feature {
    schema: Schema {
        slot: "recur",
        variant: "chunkwise",
        doc: "Cuts the row into chunks and runs its layers on one after the other with the same weights; a memory of \
              slots is read inside a chunk and updated after it (Temporal Latent Bottleneck).",
        fields: &[
            int("size", Default::Absent, SIZE, "tokens of a chunk; either this or `chunks`"),
            int("chunks", Default::Absent, SIZE, "number of chunks; either this or `size`"),
            word(
                "cut",
                &["position", "balanced"],
                "position",
                "`position`: every chunk is full but the last; `balanced`: chunks as equal as possible, for the width \
                 of the padded batch, as the published code does",
            ),
            word(
                "positions",
                &["local", "global"],
                "local",
                "`local`: positions start at 0 in every chunk; `global`: they run through the row",
            ),
        ],
        children: &[
            Children::one(&["memory"]),
            Children::or(&["gate"], "none"),
            Children::any(LAYERS),
            Children::optional(&["update"]),
        ],
    },
    check,
};

fn check(site: &Site<'_>, problems: &mut Problems) {
    has_layers(site, problems);
    gate_has_feedforward(site, problems);
    one_length(site, problems);
    not_nested(site, problems);
    if let Some(memory) = site.block.child("memory") {
        memory_is_read(site, memory, problems);
        slots_can_differ(site, memory, problems);
    }
}

/// Either the size or the number of chunks is given.
fn one_length(site: &Site<'_>, problems: &mut Problems) {
    match (site.block.int("size"), site.block.int("chunks")) {
        (Some(_), Some(_)) => problems.report(
            Diagnostic::new(Kind::ExclusiveFields, site.place("chunks"), "`size` and `chunks` exclude each other")
                .note(site.place("size"), "the size is given here")
                .help("keep one; a variant takes the other out with `remove chunkwise.size`"),
        ),
        (None, None) => problems.report(
            Diagnostic::new(Kind::MissingField, site.block.span, "`recur chunkwise` needs `size` or `chunks`")
                .help("`size: 20` for chunks of 20 tokens, `chunks: 5` for 5 chunks of any length"),
        ),
        _ => {}
    }
}

/// Chunks of chunks have no meaning: the inner memory would not know which chunk it belongs to.
fn not_nested(site: &Site<'_>, problems: &mut Problems) {
    if let Some(outer) = site.ancestors.iter().find(|b| b.slot == "recur" && b.variant == "chunkwise") {
        problems.report(
            Diagnostic::new(Kind::MisplacedStatement, site.block.span, "`recur chunkwise` can't stand in another one")
                .note(outer.span, "the outer one"),
        );
    }
}

/// Whether the memory reaches the result: through `attend memory` or the readout.
fn memory_is_read(site: &Site<'_>, memory: &Block, problems: &mut Problems) {
    let read_out = site.ancestors.first().and_then(|root| root.child("readout")).is_some_and(|r| r.variant == "memory");
    if !read_out && !site.block.any(&|b| b.slot == "attend" && b.variant == "memory") {
        problems.report(
            Diagnostic::new(Kind::DeadMemory, memory.span, "nothing reads the memory")
                .label("gets no gradient")
                .help("add `attend memory { heads: ... }` to the layers of the chunk"),
        );
    }
}

/// Equal slots stay equal unless dropout falls on them differently.
fn slots_can_differ(site: &Site<'_>, memory: &Block, problems: &mut Problems) {
    let several = memory.int("slots").is_some_and(|n| n > 1);
    let acts_on_slots = |b: &Block| b.slot == "attend" && matches!(b.variant, "memory" | "chunk");
    let update = site.block.child("update");
    let noisy = |b: &Block| b.float("dropout").is_none_or(|p| p > 0.0);
    let noise = site.block.any(&|b| acts_on_slots(b) && noisy(b))
        || update.is_some_and(|u| u.any(&|b| b.slot == "feedforward" && noisy(b)));
    if several && memory.word("init") == Some("zeros") && !noise {
        problems.report(
            Diagnostic::new(Kind::IdenticalSlots, memory.span, "all slots of the memory stay equal for ever")
                .label("they start from zeros, and no dropout tells them apart")
                .help("use `init: normal`, or dropout"),
        );
    }
}
