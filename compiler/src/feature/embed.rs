//! Token embedding.

use super::{Feature, Slot, nothing_more};
use crate::schema::{Bounds, DROPOUT, Default, Derived, POSITIVE, SIZE, Schema, float, int, word};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "embed", doc: "How tokens become vectors.", features: &[EMBED], planned: &[] };

const EMBED: Feature = Feature {
    schema: Schema {
        slot: "embed",
        variant: "",
        doc: "A learned vector per token, not scaled, without positions.",
        fields: &[
            int("width", Default::Required, SIZE, "channels of every state of the model"),
            word(
                "tokens",
                &["none", "start_end"],
                "none",
                "`start_end` puts a learned START before and a learned END after every row",
            ),
            float("init", Default::Float(0.02), INIT, "standard deviation of the token vectors at the start"),
            float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout on the token vectors"),
        ],
        children: &[],
    },
    check: nothing_more,
};

const INIT: Bounds = Bounds { high: 1000.0, ..POSITIVE };
