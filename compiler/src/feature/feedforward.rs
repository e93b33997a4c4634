//! The two-layer network on every token.

use super::{Feature, Slot, nothing_more};
use crate::schema::{DROPOUT, Default, Derived, SIZE, Schema, float, int, word};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "feedforward", doc: "What is done to every token by itself.", features: &[FEEDFORWARD], planned: &[] };

const FEEDFORWARD: Feature = Feature {
    schema: Schema {
        slot: "feedforward",
        variant: "",
        doc: "Pre-norm two-layer network on every token, with a residual connection.",
        fields: &[
            int("hidden", Default::Required, SIZE, "width between the two layers"),
            word(
                "activation",
                &["gelu", "relu"],
                "gelu",
                "the function between the two layers; `gelu` is the exact one",
            ),
            word(
                "init",
                &["xavier", "fan_in"],
                "xavier",
                "how the weights start: Xavier-uniform, or uniform in 1/sqrt(inputs)",
            ),
            float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout after each of the two layers"),
        ],
        children: &[],
    },
    check: nothing_more,
};
