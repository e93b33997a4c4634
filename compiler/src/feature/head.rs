//! From the readout to class scores.

use super::{Feature, Slot, nothing_more};
use crate::schema::{Default, Derived, SIZE, Schema, int, word};

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "head",
    doc: "How class scores are computed from what is read out.",
    features: &[CLASSIFIER],
    planned: &["pair", "siamese", "per_position"],
};

const CLASSIFIER: Feature = Feature {
    schema: Schema {
        slot: "head",
        variant: "classifier",
        doc: "A two-layer network; for tasks on pairs it reads both vectors, their product and their difference.",
        fields: &[
            int("hidden", Default::Derived(Derived::Width), SIZE, "width between the two layers"),
            word("activation", &["relu", "gelu"], "relu", "the function between the two layers"),
        ],
        children: &[],
    },
    check: nothing_more,
};
