//! What of the final states goes to the head.

mod each;
mod memory;
mod tokens;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::schema::Objective;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "readout",
    doc: "What of the final states goes to the head.",
    features: &[tokens::MEAN, tokens::END, tokens::FIRST, tokens::MAX, each::EACH, memory::MEMORY],
    planned: &["root"],
};

/// A task with an answer per token needs `each`, any other one vector per row.
fn fits_task(site: &Site<'_>, problems: &mut Problems) {
    let Some(objective) = site.catalog.objective else { return };
    let per_token = site.block.variant == "each";
    if per_token == (objective == Objective::Each) {
        return;
    }
    let title = site.block.title();
    let task = site.catalog.task.as_deref().map_or_else(|| "the task".to_owned(), |t| format!("the task `{t}`"));
    let wants = match objective {
        Objective::Classify => "one class per row",
        Objective::Pair => "one class per pair of rows",
        Objective::Each => "one class per token",
    };
    let help = if per_token { "use `readout mean`, `end`, `first` or `max`" } else { "use `readout each`" };
    problems.report(
        Diagnostic::new(Kind::ObjectiveMismatch, site.block.span, format!("`{title}` does not fit {task}"))
            .label(format!("the task asks for {wants}"))
            .help(help),
    );
}
