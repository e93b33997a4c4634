//! Halting of a whole row.

use super::{COST, SEES, THRESHOLD};
use crate::feature::{Feature, nothing_more};
use crate::schema::{Schema, word};

/// The feature.
pub(super) const GLOBAL: Feature = Feature {
    schema: Schema {
        slot: "halt",
        variant: "global",
        doc: "One halting probability per row, from the mean of its states; in causal models from the mean so far.",
        fields: &[
            word(
                "sees",
                SEES,
                "transition",
                "what the halting head reads: the state, or the state and the proposed next one",
            ),
            THRESHOLD,
            COST,
        ],
        children: &[],
    },
    check: nothing_more,
};
