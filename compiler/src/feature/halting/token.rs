//! Halting of every token by itself.

use super::{COST, Keys, Rule, SEES, THRESHOLD, Transition, Units, head, mass_is_left};
use crate::feature::{Feature, Lowering, nothing_more};
use crate::ir::graph::{Misfit, Value};
use crate::lower::{Lower, need};
use crate::schema::{Schema, word};
use crate::spec::Block;

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
    lower: Lowering::Halt(rule),
};

fn rule(_: &Lower<'_>, block: &Block) -> Result<Option<Rule>, Misfit> {
    Ok(Some(Rule {
        units: Units::Position,
        keys: if block.word("keys") == Some("mixture") { Keys::Mixture } else { Keys::State },
        probability,
        go: mass_is_left,
        cost: need(block.float("cost"), block, "cost")?,
    }))
}

/// `p_l[t] = head([H_l[t]; H'_{l+1}[t]])`, or `head(H_l[t])`.
fn probability(l: &mut Lower<'_>, block: &Block, step: &Transition) -> Result<Value, Misfit> {
    head(l, block, step, |_, state| Ok(state))
}
