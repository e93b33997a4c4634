//! Halting rules of a depth-wise recurrence.

mod global;
mod none;
mod token;

use super::Slot;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower, need};
use crate::schema::{Bounds, Default, Field, INSIDE_UNIT, POSITIVE, float, word};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new(
        "halt",
        "When a depth-wise recurrence stops, for every row or every token.",
        vec![none::none(), token::token(), global::global()],
    )
}

const SEES: Field = word(
    "sees",
    &["state", "transition"],
    "transition",
    "input of the halting head: the state, or the state and the proposed next one",
);

const KEYS: Field = word(
    "keys",
    &["state", "mixture"],
    "state",
    "keys and values of self-attention: the last state, or the mixture of states so far",
);

const THRESHOLD: Field = float(
    "threshold",
    Default::Float(0.999),
    INSIDE_UNIT,
    "halting mass at which a unit halts; the step that reaches it is rejected",
);

const COST: Field =
    float("cost", Default::Float(0.1), POSITIVE, "ponder cost: weight of the expected number of steps in the loss");

const BIAS: Field = float(
    "bias",
    Default::Absent,
    Bounds::closed(-20.0, 20.0),
    "initial bias of the halting head: a negative one starts with many steps (-3 halts with 5 % in each step); \
        small and random if left out",
);

/// When the units of a depth-wise recurrence halt. The recurrence carries their survival, mixture and ponder cost.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The unit of halting.
    pub(crate) units: Units,
    /// Keys and values of self-attention.
    pub(crate) keys: Keys,
    /// The conditional probability `p_l` of every unit to halt at `H_l`.
    pub(crate) probability: fn(&mut Lower<'_>, &Block, &Transition) -> Result<Value, InvalidNode>,
    /// True for every unit that takes this step; a rejected step has no effect.
    pub(crate) go: fn(&mut Lower<'_>, &Block, &Test<'_>) -> Result<Value, InvalidNode>,
    /// Ponder cost: weight of the expected number of steps in the loss.
    pub(crate) cost: f64,
}

/// The unit of halting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// A whole row.
    Row,
    /// A position of a row. A halted position keeps its state, to which other positions attend.
    Position,
}

/// Keys and values of self-attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The state `H_l`.
    State,
    /// The mixture of states so far: the output if the unit halted now.
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

/// The inputs of a halting test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test<'a> {
    /// The survival of every unit: the probability not to have halted up to and including this step.
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
    let init = block.float("bias").map_or(LinearInit::FanIn, LinearInit::FanInFrom);
    let x = l.linear(x, "output", Dim::Fixed(1), &init)?;
    let x = l.one(Op::Squeeze, &[x], Attrs::new())?;
    l.map(Pointwise::Sigmoid, &[x])
}

/// `A_l < threshold` with the halting mass `A_l = sum_{k <= l} alpha_k`, which is 1 minus the survival.
fn mass_is_left(l: &mut Lower<'_>, block: &Block, test: &Test<'_>) -> Result<Value, InvalidNode> {
    let threshold = need(block.float("threshold"), block, "threshold")?;
    let attrs = Attrs::of(attribute::THRESHOLD, threshold).with_some(attribute::CAP, test.cap);
    l.one(Op::HaltTest, &[test.survival, test.step], attrs)
}
