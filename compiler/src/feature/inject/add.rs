//! The input is added in every step.

use crate::feature::{Feature, Lowering};
use crate::ir::pointwise::Pointwise;

/// The feature.
pub(super) const ADD: Feature = Feature {
    slot: "inject",
    variant: "add",
    doc: "The input of the recurrence is added to the state before every step.",
    source: "Fan et al. 2024 (looped Transformers), arXiv:2409.15647",
    // The layers of step t get `h_t + x`.
    ..Feature::plain(Lowering::Inject(|l, _, state, input| l.map(Pointwise::Add, &[state, input])))
};
