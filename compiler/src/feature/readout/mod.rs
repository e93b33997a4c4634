//! Readouts: the part of the final states that the head reads.

mod each;
mod memory;
mod root;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::schema::Objective;

/// The keyword and its variants. Those of the library read one vector of the states.
pub(super) fn slot() -> Slot {
    let features = vec![each::each(), memory::memory(), root::root()];
    Slot { takes: &["x"], check, ..Slot::new("readout", "Which of the final states go to the head.", features) }
}

/// What a definition makes of the states is one vector of a sequence.
fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    needs_sequence(site, problems);
}

/// A task with an answer per token needs `each`, any other one vector per row.
fn fits_task(site: &Site<'_>, problems: &mut Problems) {
    let Some(objective) = site.catalog.objective else { return };
    let per_token = site.block.variant == "each";
    if per_token == (objective == Objective::Each) {
        return;
    }
    let title = site.block.title();
    let task = site.task();
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
    problems.report(
        Diagnostic::new(Kind::ObjectiveMismatch, site.block.span, format!("`{title}` does not fit {task}"))
            .label(format!("the task asks for {wants}"))
            .help(help),
    );
}

/// A fold leaves one vector and no sequence to read out.
fn needs_sequence(site: &Site<'_>, problems: &mut Problems) {
    let Some(fold) = site.parent().and_then(|root| root.child("recurse")) else { return };
    let title = site.block.title();
    problems.report(
        Diagnostic::new(Kind::NoSequence, site.block.span, format!("`{title}` has no sequence to read"))
            .note(fold.span, "it became one vector here")
            .help("use `readout root`"),
    );
}
