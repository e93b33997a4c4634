//! Recurrences that keep the sequence: over depth, or over chunks.

mod chunkwise;
mod depthwise;
mod looped;
mod mixture;

pub(super) use looped::slot as looped;

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

/// A gate may read values that the layer before it shows: the normed input of a closing feed-forward.
pub(super) fn gate_reads_shown(site: &Site<'_>, problems: &mut Problems) {
    let Some(gate) = site.block.child("gate") else { return };
    let Some(last) = site.layers().last() else { return };
    for name in gate.feature.values.iter().skip(2).filter(|name| last.feature.shows().all(|shown| shown != **name)) {
        let title = site.block.title();
        let message = match &**name {
            "normed" => format!("the gate of `{title}` needs a `feedforward` as the last layer"),
            name => format!("the gate of `{title}` reads `{name}`, which its last layer does not show"),
        };
        let help = match &**name {
            "normed" => "the gate is computed from the normed input of the closing feedforward".to_owned(),
            name => format!("a definition shows a value to what stands behind it: `show {name} = ...`"),
        };
        let diagnostic = Diagnostic::new(Kind::GateWithoutFeedforward, gate.span, message);
        problems.report(diagnostic.note(last.span, "the last layer").help(help));
    }
}
