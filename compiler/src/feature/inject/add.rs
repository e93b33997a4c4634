//! The input is added in every step.

use crate::feature::{Feature, nothing_more};
use crate::schema::Schema;

/// The feature.
pub(super) const ADD: Feature = Feature {
    schema: Schema {
        slot: "inject",
        variant: "add",
        doc: "The input of the recurrence is added to the state before every step.",
        fields: &[],
        children: &[],
    },
    check: nothing_more,
};
