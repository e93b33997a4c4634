//! The memory that is carried from chunk to chunk.

use super::{Feature, Slot, nothing_more};
use crate::schema::{Bounds, Default, POSITIVE, SIZE, Schema, float, int, word};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "memory", doc: "What a chunk-wise recurrence carries.", features: &[MEMORY], planned: &[] };

const MEMORY: Feature = Feature {
    schema: Schema {
        slot: "memory",
        variant: "",
        doc: "Trainable slots as wide as the model, shared by all rows at the start of each.",
        fields: &[
            int("slots", Default::Required, SIZE, "number of slots"),
            word(
                "init",
                &["zeros", "normal"],
                "zeros",
                "how the slots start; from zeros only dropout tells them apart",
            ),
            float("std", Default::Float(0.02), STD, "standard deviation of `init: normal`"),
        ],
        children: &[],
    },
    check: nothing_more,
};

const STD: Bounds = Bounds { high: 1000.0, ..POSITIVE };
