//! No halting: every row takes all steps.

use crate::feature::{Feature, Lowering};

/// The feature.
pub(super) fn none() -> Feature {
    Feature::row(
        "halt",
        "none",
        "Every row takes all steps; the result is the last state.",
        "Ray Chowdhury and Caragea 2024 (UT - Halt), arXiv:2402.00976",
        Lowering::Halt(|_, _| Ok(None)),
    )
}
