//! Halting of every token by itself.

use super::{COST, SEES, THRESHOLD};
use crate::feature::{Feature, nothing_more};
use crate::schema::{Schema, word};

/// The feature.
pub(super) const TOKEN: Feature = Feature {
    schema: Schema {
        slot: "halt",
        variant: "token",
        doc: "Every token has its own halting probability; the result mixes its states (Universal Transformer).",
        fields: &[
            word(
                "sees",
                SEES,
                "state",
                "what the halting head reads: the state, or the state and the proposed next one",
            ),
            word(
                "keys",
                &["mixture", "state"],
                "mixture",
                "what attention reads: the mixture so far, or the last state",
            ),
            THRESHOLD,
            COST,
        ],
        children: &[],
    },
    check: nothing_more,
};
