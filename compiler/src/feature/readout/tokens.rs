//! Readouts of token states. They differ only in which states they take.

use super::fits_task;
use crate::feature::Feature;
use crate::schema::Schema;

const fn of_tokens(variant: &'static str, doc: &'static str) -> Feature {
    Feature { schema: Schema { slot: "readout", variant, doc, fields: &[], children: &[] }, check: fits_task }
}

/// The mean state.
pub(super) const MEAN: Feature = of_tokens("mean", "The mean of the states of the row, START and END included.");
/// The last state.
pub(super) const END: Feature = of_tokens("end", "The state of END, or of the last token without `tokens: start_end`.");
/// The first state.
pub(super) const FIRST: Feature =
    of_tokens("first", "The state of START, or of the first token without `tokens: start_end`.");
/// The largest value of each channel.
pub(super) const MAX: Feature = of_tokens("max", "The largest value of every channel over the row.");
/// Every state.
pub(super) const EACH: Feature =
    of_tokens("each", "Every token's state by itself, for tasks with an answer per token.");
