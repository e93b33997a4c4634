//! Injections: the input of a recurrence enters each of its steps.

mod add;
mod none;

use super::Slot;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "inject",
    doc: "How the input of a recurrence enters its later steps.",
    features: &[none::NONE, add::ADD],
    planned: &["concat", "gated", "diagonal"],
};
