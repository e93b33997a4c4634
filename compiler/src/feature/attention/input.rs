//! Attention to the embedded input.

use super::{ATTENTION_DROPOUT, BIAS, HEAD_WIDTH, HEADS, MASK, across};
use crate::feature::{Feature, Lowering, nothing_more};
use crate::schema::Schema;

/// The feature.
pub(super) const INPUT: Feature = Feature {
    schema: Schema {
        slot: "attend",
        variant: "input",
        doc: "Tokens attend to the embedded input of the model, whatever the states have become.",
        fields: &[HEADS, HEAD_WIDTH, MASK, BIAS, ATTENTION_DROPOUT],
        children: &[],
    },
    check: nothing_more,
    // The input has the row's positions, so an answer per token must not look ahead in it.
    lower: Lowering::Layer(|l, block, place| {
        let mask = if l.causal() { "causal" } else { "all" };
        across(l, block, place, place.input, mask)
    }),
};
