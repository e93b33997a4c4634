//! The model itself.

use super::{Feature, Slot, nothing_more};
use crate::schema::{Children, DROPOUT, Default, LAYERS, Schema, float};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "model", doc: "The whole model: from tokens to class scores.", features: &[MODEL], planned: &[] };

const MODEL: Feature = Feature {
    schema: Schema {
        slot: "model",
        variant: "",
        doc: "Embeds the tokens, runs its layers in order, reads out one vector (or one per token) and classifies it.",
        fields: &[
            float("dropout", Default::Float(0.0), DROPOUT, "probability of dropping a value, where not said otherwise"),
            float("attention_dropout", Default::Float(0.0), DROPOUT, "the same for attention weights"),
        ],
        children: &[
            Children::one(&["embed"]),
            Children::any(LAYERS),
            Children::one(&["readout"]),
            Children::or(&["head"], "classifier"),
        ],
    },
    check: nothing_more,
};
