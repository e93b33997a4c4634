//! When a depth-wise recurrence stops.

mod global;
mod none;
mod token;

use super::Slot;
use crate::schema::{Default, Field, INSIDE_UNIT, POSITIVE, float};

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "halt",
    doc: "When a depth-wise recurrence stops, row by row or token by token.",
    features: &[none::NONE, token::TOKEN, global::GLOBAL],
    planned: &["confidence", "act", "ponder", "converged", "q_head", "routed"],
};

/// The choices of what the halting head reads.
const SEES: &[&str] = &["state", "transition"];

const THRESHOLD: Field = float(
    "threshold",
    Default::Float(0.999),
    INSIDE_UNIT,
    "halting mass from which on no further step is taken; the step that reaches it is rejected",
);

const COST: Field = float("cost", Default::Float(0.1), POSITIVE, "weight in the loss of the expected number of steps");
