//! Gates: the combination of the result of a step with its input.

mod mlp;
mod none;

use super::Slot;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "gate",
    doc: "How much of a step's result replaces its input.",
    features: &[none::NONE, mlp::MLP],
    planned: &["gru", "scalar"],
};
