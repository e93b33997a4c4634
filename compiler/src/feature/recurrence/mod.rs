//! Recurrences that keep the sequence: over depth, or over chunks.

mod chunkwise;
mod depthwise;
mod mixture;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new(
        "recur",
        "Runs the same layers repeatedly: on their own output, or on the next chunk of the row.",
        vec![depthwise::depthwise(), chunkwise::chunkwise()],
    )
}

/// A statement that repeats layers needs one.
pub(super) fn has_layers(site: &Site<'_>, problems: &mut Problems) {
    if site.layers().next().is_none() {
        let name = site.block.title();
        problems.report(
            Diagnostic::new(Kind::EmptyRecurrence, site.block.span, format!("`{name}` has no layer"))
                .label("nothing to repeat")
                .help("add `attend`, `feedforward`, `scan`, `mega`, `stack` or `recur`"),
        );
    }
}

/// A gate combines the result of a closing feedforward with the input of the recurrence.
pub(super) fn gate_has_feedforward(site: &Site<'_>, problems: &mut Problems) {
    let Some(gate) = site.block.child("gate").filter(|g| g.variant != "none") else { return };
    let Some(last) = site.layers().last().filter(|last| last.slot != "feedforward") else { return };
    let title = site.block.title();
    problems.report(
        Diagnostic::new(
            Kind::GateWithoutFeedforward,
            gate.span,
            format!("the gate of `{title}` needs a `feedforward` as the last layer"),
        )
        .note(last.span, "the last layer")
        .help("the gate is computed from the normed input of the closing feedforward"),
    );
}
