//! Readouts: the part of the final states that the head reads.

use super::{Feature, Lowering, Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::{Lower, need};
use crate::schema::{Objective, word};
use crate::spec::Block;

/// The keyword and its variants. Those of the library read one vector of the states.
pub(super) fn slot() -> Slot {
    let each = Feature {
        fields: vec![word(
            "sees",
            &["past", "all"],
            "past",
            "`past`: an answer depends only on the tokens up to its own; the defaults of masks and means follow, \
            and the compiler proves it. `all`: on any token",
        )],
        check: check_each,
        ..Feature::row(
            "readout",
            "each",
            "The state of every token, for tasks with an answer per token.",
            "rtc",
            Lowering::Readout(|_, _, states| Ok(states)),
        )
    };
    let memory = Feature {
        fields: vec![word("pool", &["mean", "last"], "mean", "the mean of the slots, or the last slot alone")],
        check: check_memory,
        ..Feature::row(
            "readout",
            "memory",
            "The normed memory slots after the last chunk, of the last chunk-wise recurrence.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, arXiv:2402.00976",
            Lowering::Readout(memory),
        )
    };
    let root = Feature {
        check: check_root,
        ..Feature::row(
            "readout",
            "root",
            "The root vector of the `recurse` at the end of the model.",
            "rtc",
            Lowering::Readout(|_, _, state| Ok(state)),
        )
    };
    let slot = Slot::new("readout", "Which of the final states go to the head.", vec![each, memory, root]);
    Slot { takes: &["x"], check, ..slot }
}

/// What a definition makes of the states is one vector of a sequence.
fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    // A fold leaves one vector and no sequence to read out.
    let Some(fold) = site.parent().and_then(|root| root.child("recurse")) else { return };
    let message = format!("`{}` has no sequence to read", site.block.title());
    problems.report(
        Diagnostic::new(Kind::NoSequence, site.block.span, message)
            .note(fold.span, "it became one vector here")
            .help("use `readout root`"),
    );
}

/// A task with an answer per token needs `each`, any other one vector per row.
fn fits_task(site: &Site<'_>, problems: &mut Problems) {
    let Some(objective) = site.catalog.objective else { return };
    let per_token = site.block.variant == "each";
    if per_token == (objective == Objective::Each) {
        return;
    }
    let wants = match objective {
        Objective::Classify => "one class per row",
        Objective::Pair => "one class per pair of rows",
        Objective::Each => "one class per token",
        Objective::Number => "one number per row",
        Objective::Several => "any of some labels per row",
    };
    let help = match &*site.block.variant {
        "each" => "use `readout mean`, `end`, `first` or `max`",
        "root" => "a fold has no answer for every token: take the `recurse` out, and use `readout each`",
        _ => "use `readout each`",
    };
    let message = format!("`{}` does not fit {}", site.block.title(), site.task());
    let diagnostic = Diagnostic::new(Kind::ObjectiveMismatch, site.block.span, message);
    problems.report(diagnostic.label(format!("the task asks for {wants}")).help(help));
}

/// START and END are positions without an answer, and later tokens that are asked for may not be seen.
fn check_each(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    let embed = site.parent().and_then(|root| root.child("embed"));
    if let Some(embed) = embed.filter(|embed| embed.word("tokens") == Some("start_end")) {
        problems.report(
            Diagnostic::new(Kind::FramedAnswers, site.block.span, "`readout each` has no answer for START and END")
                .note(embed.span, "puts START and END around every row")
                .help("use `embed.tokens: none`"),
        );
    }
    if site.catalog.next_token && site.block.word("sees") == Some("all") {
        let message = format!("{} asks for later tokens, which this model may see", site.task());
        problems.report(
            Diagnostic::new(Kind::NeedsPast, site.place("sees"), message)
                .label("the answers can be read off the input")
                .help("use `readout each { sees: past }`"),
        );
    }
}

fn check_memory(site: &Site<'_>, problems: &mut Problems) {
    check(site, problems);
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

fn check_root(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    if site.parent().is_some_and(|root| root.child("recurse").is_none()) {
        problems.report(
            Diagnostic::new(Kind::ReadoutNeedsRecurse, site.block.span, "there is no root to read out")
                .label("needs a `recurse` as the last layer of the model")
                .help("add `recurse balanced { ... }`, or use `readout mean`, `end`, `first` or `max`"),
        );
    }
}

/// The mean of `LN M^T` over the slots, or its last slot: the only norm after a recurrence.
fn memory(l: &mut Lower<'_>, block: &Block, _: Value) -> Result<Value, InvalidNode> {
    let memory = need(l.memory, block, "memory")?;
    let normed = l.norm(memory, "norm")?;
    match block.word("pool") {
        Some("last") => l.one(Op::Position, &[normed], Attrs::of(attribute::AT, At::Last)),
        _ => l.one(Op::Mean, &[normed], Attrs::new()),
    }
}
