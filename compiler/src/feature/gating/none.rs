//! No gate.

use crate::feature::{Feature, Lowering};

/// The feature.
pub(super) const NONE: Feature = Feature {
    slot: "gate",
    variant: "none",
    doc: "The result of the layers is the next state.",
    source: "Ray Chowdhury and Caragea 2024 (GUT - Gate), arXiv:2402.00976",
    ..Feature::plain(Lowering::Gate(|_, _, mix| Ok(mix.result)))
};
