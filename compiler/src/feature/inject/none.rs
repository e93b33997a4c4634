//! The input enters once.

use crate::feature::{Feature, nothing_more};
use crate::schema::Schema;

/// The feature.
pub(super) const NONE: Feature = Feature {
    schema: Schema {
        slot: "inject",
        variant: "none",
        doc: "The input is the first state and does not enter again.",
        fields: &[],
        children: &[],
    },
    check: nothing_more,
};
