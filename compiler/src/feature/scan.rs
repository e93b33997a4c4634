//! Scans: linear recurrences along the row, computed as a convolution of every channel with a long kernel of its own.

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};

/// The keyword; its variants are definitions of the library.
pub(super) fn slot() -> Slot {
    let doc = "A linear recurrence along the row: a convolution of every channel with a long kernel of its own.";
    Slot { check, ..Slot::open("scan", doc, &["x"]) }
}

/// Modes are pairs of numbers, and what is said of a second direction needs one.
fn check(site: &Site<'_>, problems: &mut Problems) {
    if site.block.variant != "s4d" {
        return;
    }
    if let Some(state) = site.block.int("state").filter(|n| n % 2 == 1) {
        let message = format!("a state of {state} numbers does not divide into pairs");
        let help = format!("use `state: {}`: modes are complex numbers", state + 1);
        problems.report(Diagnostic::new(Kind::Indivisible, site.place("state"), message).help(help));
    }
    for (field, default) in [("join", "concat"), ("backward", "trained")] {
        let says_more = site.block.word(field).is_some_and(|word| word != default);
        if says_more && site.block.word("direction") == Some("forward") {
            let message =
                format!("`{field}` says what to do with a second direction, and `direction: forward` has none");
            problems.report(
                Diagnostic::new(Kind::ExclusiveFields, site.place(field), message)
                    .note(site.place("direction"), "the direction is given here")
                    .help(format!("take out `{field}`, or use `direction: both`")),
            );
        }
    }
}
