//! A gate from a two-layer network.

use crate::feature::{Feature, nothing_more};
use crate::schema::{DROPOUT, Default, Derived, SIZE, Schema, float, int, word};

/// The feature.
pub(super) const MLP: Feature = Feature {
    schema: Schema {
        slot: "gate",
        variant: "mlp",
        doc: "`g * result + (1 - g) * input`, channel by channel, with g the sigmoid of a two-layer network on the \
              normed input of the closing feedforward.",
        fields: &[
            int("hidden", Default::Required, SIZE, "width between the two layers"),
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
