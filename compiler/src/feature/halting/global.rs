//! Halting of a whole row.

use super::{COST, Keys, Rule, SEES, THRESHOLD, Transition, Units, head, mass_is_left};
use crate::feature::{Feature, Lowering, nothing_more};
use crate::ir::graph::{Misfit, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attrs;
use crate::lower::{Lower, need};
use crate::schema::{Schema, word};
use crate::spec::Block;

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
    lower: Lowering::Halt(rule),
};

/// A row is one unit. In a causal model its mean would look ahead, so that every position is a unit with the mean so far.
fn rule(l: &Lower<'_>, block: &Block) -> Result<Option<Rule>, Misfit> {
    Ok(Some(Rule {
        units: if l.causal() { Units::Position } else { Units::Row },
        keys: Keys::State,
        probability,
        go: mass_is_left,
        cost: need(block.float("cost"), block, "cost")?,
    }))
}

/// `p_l = head([mean H_l; mean H'_{l+1}])`, or `head(mean H_l)`.
fn probability(l: &mut Lower<'_>, block: &Block, step: &Transition) -> Result<Value, Misfit> {
    let mean = if l.causal() { Op::CumulativeMean } else { Op::Mean };
    head(l, block, step, |l, state| l.one(mean, &[state], Attrs::new()))
}
