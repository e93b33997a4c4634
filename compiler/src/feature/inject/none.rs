//! The input enters once.

use crate::feature::{Feature, Lowering};

/// The feature.
pub(super) const NONE: Feature = Feature {
    slot: "inject",
    variant: "none",
    doc: "The input is the first state and does not enter again.",
    source: "Fan et al. 2024 (FOP-Loop-Adaptive-WO), arXiv:2409.15647",
    ..Feature::plain(Lowering::Inject(|_, _, state, _| Ok(state)))
};
