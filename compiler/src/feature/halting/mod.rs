//! When a depth-wise recurrence stops.

mod global;
mod none;
mod token;

use super::Slot;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Attrs, Dim};
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{Bounds, Default, Field, INSIDE_UNIT, POSITIVE, float, word};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "halt",
    doc: "When a depth-wise recurrence stops, row by row or token by token.",
    features: &[none::NONE, token::TOKEN, global::GLOBAL],
    planned: &["confidence", "act", "ponder", "converged", "q_head", "routed"],
};

const SEES: Field = word(
    "sees",
    &["state", "transition"],
    "transition",
    "what the halting head reads: the state, or the state and the proposed next one",
);

const KEYS: Field = word(
    "keys",
    &["state", "mixture"],
    "state",
    "what self-attention reads: the last state, or the mixture of states that would be the output now",
);

const THRESHOLD: Field = float(
    "threshold",
    Default::Float(0.999),
    INSIDE_UNIT,
    "halting mass from which on no further step is taken; the step that reaches it is rejected",
);

const COST: Field = float("cost", Default::Float(0.1), POSITIVE, "weight in the loss of the expected number of steps");

const BIAS: Field = float(
    "bias",
    Default::Absent,
    Bounds::closed(-20.0, 20.0),
    "where the bias of the halting head starts: below 0 a model begins with many steps, as -3 stops with 5 % in each; small and random \
     if left out",
);

/// When the units of a depth recurrence stop. The recurrence keeps their survival, mixture and costs.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// What stops by itself.
    pub(crate) units: Units,
    /// What self-attention reads.
    pub(crate) keys: Keys,
    /// The probability `p_l` of every unit to stop at `H_l`, given that it got there.
    pub(crate) probability: fn(&mut Lower<'_>, &Block, &Transition) -> Result<Value, InvalidNode>,
    /// True for every unit that takes this step; a step that is not taken leaves no trace.
    pub(crate) go: fn(&mut Lower<'_>, &Block, &Test<'_>) -> Result<Value, InvalidNode>,
    /// Weight in the loss of the expected number of steps.
    pub(crate) cost: f64,
}

/// What stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// A whole row.
    Row,
    /// A position of a row. Those that stopped keep their state, which others still attend to.
    Position,
}

/// Keys and values of self-attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The state `H_l`.
    State,
    /// The output that a unit would have if it stopped now.
    Mixture,
}

impl Keys {
    /// The choice of a block.
    fn of(block: &Block) -> Self {
        if block.word("keys") == Some("mixture") { Self::Mixture } else { Self::State }
    }
}

/// One proposed step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    /// The state `H_l`.
    pub(crate) from: Value,
    /// The proposed `H'_{l+1}`.
    pub(crate) to: Value,
}

/// What a test of going on can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test<'a> {
    /// The probability, unit by unit, of not having stopped up to and including this step.
    pub(crate) survival: Value,
    /// The number of the step, from 0.
    pub(crate) step: Value,
    /// The axis whose length (of each row) bounds the number of steps.
    pub(crate) cap: Option<&'a str>,
}

/// The halting head: Linear, GELU, Linear, sigmoid, without norm and dropout. It sees the state, or state and proposed
/// state, each through `view`.
fn head(
    l: &mut Lower<'_>,
    block: &Block,
    step: &Transition,
    view: impl Fn(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Result<Value, InvalidNode> {
    let mut x = view(l, step.from)?;
    if block.word("sees") == Some("transition") {
        let to = view(l, step.to)?;
        x = l.one(Op::Concat, &[x, to], Attrs::new())?;
    }
    let width = Dim::Fixed(l.width);
    let x = l.linear(x, "hidden", width, &LinearInit::FanIn)?;
    let x = l.map(Pointwise::Gelu, &[x])?;
    let init = block.float(BIAS.name).map_or(LinearInit::FanIn, LinearInit::FanInFrom);
    let x = l.linear(x, "output", Dim::Fixed(1), &init)?;
    let x = l.one(Op::Squeeze, &[x], Attrs::new())?;
    l.map(Pointwise::Sigmoid, &[x])
}

/// `A_l < threshold` with the halting mass `A_l = sum_{k <= l} alpha_k`, which is 1 minus the survival.
fn mass_is_left(l: &mut Lower<'_>, block: &Block, test: &Test<'_>) -> Result<Value, InvalidNode> {
    let threshold = need(block.float("threshold"), block, "threshold")?;
    let mut attrs = Attrs::from([("threshold", threshold.into())]);
    attrs.extend(test.cap.map(|axis| ("cap", Attr::Text(axis.to_owned()))));
    l.one(Op::HaltTest, &[test.survival, test.step], attrs)
}
