//! Halting of every token by itself.

use super::{BIAS, COST, KEYS, Keys, Rule, SEES, THRESHOLD, Transition, Units, head, mass_is_left};
use crate::feature::{Feature, Lowering};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, need};
use crate::spec::Block;

/// The feature.
pub(super) fn token() -> Feature {
    Feature {
        fields: vec![SEES, KEYS, THRESHOLD, COST, BIAS],
        ..Feature::row(
            "halt",
            "token",
            "Every token has its own halting probability; the result is the mixture of its states, weighted by them \
        (Universal Transformer).",
            "Graves 2016 (adaptive computation time), arXiv:1603.08983; Dehghani et al. 2019, Section 2.2, arXiv:1807.03819; halting process: Banino et al. 2021 (PonderNet), arXiv:2107.05407; as computed here: Ray Chowdhury and Caragea 2024, Algorithm 1, Eq. 5 to 8, arXiv:2402.00976",
            Lowering::Halt(rule),
        )
    }
}

fn rule(_: &Lower<'_>, block: &Block) -> Result<Option<Rule>, InvalidNode> {
    Ok(Some(Rule {
        units: Units::Position,
        keys: Keys::of(block),
        probability,
        go: mass_is_left,
        cost: need(block.float("cost"), block, "cost")?,
    }))
}

/// `p_l[t] = head([H_l[t]; H'_{l+1}[t]])`, or `head(H_l[t])`.
fn probability(l: &mut Lower<'_>, block: &Block, step: &Transition) -> Result<Value, InvalidNode> {
    head(l, block, step, |_, state| Ok(state))
}
