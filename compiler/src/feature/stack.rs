//! Copies with their own weights.

use super::{Feature, Slot, recurrence};
use crate::schema::{COPIES, Children, Default, LAYERS, Schema, int};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "stack", doc: "Layers with weights of their own.", features: &[STACK], planned: &[] };

const STACK: Feature = Feature {
    schema: Schema {
        slot: "stack",
        variant: "",
        doc: "`stack 4 { ... }`: the layers inside, 4 times in a row, each copy with weights of its own.",
        fields: &[int("copies", Default::Required, COPIES, "number of copies; written behind the keyword")],
        children: &[Children::any(LAYERS)],
    },
    check: recurrence::has_layers,
};
