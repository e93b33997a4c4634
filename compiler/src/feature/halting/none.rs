//! No halting: every row takes all steps.

use crate::feature::{Feature, Lowering};

/// The feature.
pub(super) const NONE: Feature = Feature {
    slot: "halt",
    variant: "none",
    doc: "Every row takes all steps; the result is the last state.",
    source: "Ray Chowdhury and Caragea 2024 (UT - Halt), arXiv:2402.00976",
    ..Feature::plain(Lowering::Halt(|_, _| Ok(None)))
};
