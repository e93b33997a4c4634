//! No gate.

use crate::feature::{Feature, Lowering, nothing_more};

/// The feature.
pub(super) const NONE: Feature = Feature {
    slot: "gate",
    variant: "none",
    doc: "The result of the layers is the next state.",
    source: "Ray Chowdhury and Caragea 2024 (GUT - Gate), arXiv:2402.00976",
    fields: &[],
    children: &[],
    check: nothing_more,
    lower: Lowering::Gate(|_, _, mix| Ok(mix.result)),
};
