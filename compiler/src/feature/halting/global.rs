//! Halting of a whole row.

use super::{BIAS, COST, KEYS, Keys, Rule, SEES, THRESHOLD, Transition, Units, head, mass_is_left};
use crate::feature::{Feature, Lowering};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::{Lower, need};
use crate::schema::by_sees;
use crate::spec::Block;

/// The feature.
pub(super) fn global() -> Feature {
    Feature {
        fields: vec![
            SEES,
            by_sees(
                "mean",
                &["past", "all"],
                ("past", "all"),
                "`all`: the row halts as a whole, by the mean of its states; `past`: every token halts by the \
                mean up to it",
            ),
            KEYS,
            THRESHOLD,
            COST,
            BIAS,
        ],
        ..Feature::row(
            "halt",
            "global",
            "Halting probabilities from the mean of the states: one per row, or one per token from the mean up to \
        that token.",
            "Ray Chowdhury and Caragea 2024, Algorithm 3, Eq. 13 to 17, arXiv:2402.00976; ponder cost: Graves 2016 (adaptive computation time), arXiv:1603.08983; halting process: Banino et al. 2021 (PonderNet), arXiv:2107.05407",
            Lowering::Halt(rule),
        )
    }
}

/// A row is one unit. Where its mean would look ahead, every position is a unit with the mean so far.
fn rule(_: &Lower<'_>, block: &Block) -> Result<Option<Rule>, InvalidNode> {
    Ok(Some(Rule {
        units: if of_past(block) { Units::Position } else { Units::Row },
        keys: Keys::of(block),
        probability,
        go: mass_is_left,
        cost: need(block.float("cost"), block, "cost")?,
    }))
}

/// Whether a mean stops at its position.
fn of_past(block: &Block) -> bool {
    block.word("mean") == Some("past")
}

/// `p_l = head([mean H_l; mean H'_{l+1}])`, or `head(mean H_l)`.
fn probability(l: &mut Lower<'_>, block: &Block, step: &Transition) -> Result<Value, InvalidNode> {
    let mean = if of_past(block) { Op::CumulativeMean } else { Op::Mean };
    head(l, block, step, |l, state| l.one(mean, &[state], Attrs::new()))
}
