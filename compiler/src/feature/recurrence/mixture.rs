//! The mixture of states: the output of a recurrence with halting.
//!
//! With `p_l` the probability of stopping at `H_l`, a unit carries
//!
//! ```text
//! t_l           = prod_{k<l} (1 - p_k)     survival: the probability of not having stopped before H_l
//! q_l           = sum_{k<l} t_k p_k H_k    what the states so far put into the output
//! ponder_cost_l = sum_{k<l} t_k            expected number of steps
//! steps_l       = l                        steps taken
//! ```
//!
//! and gives `q_K + t_K H_K` after its last step K: what is left of the mass goes to the last state. The step that the
//! rule refuses leaves no trace, so that a unit that stops at once gives `H_0` and costs nothing.

use crate::feature::halting::{HaltingRule, HaltingUnits};
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::lower::{CarriedValues, Halted, Lower};

/// The carried values inside the body, in the order of the loop.
pub(super) struct HaltingMixture<'a> {
    rule: HaltingRule<'a>,
    h: Value,
    q: Value,
    t: Value,
    ponder_cost: Value,
    steps: Value,
    /// True for units that have not stopped, where units are positions. A row that stopped leaves the loop instead.
    live: Option<Value>,
}

/// The results of a step.
pub(super) struct StepResults {
    /// The values to carry on.
    pub(super) yields: Vec<Value>,
    /// Whether any unit of the row goes on.
    pub(super) go: Option<Value>,
    /// True for the units that go on, where these are positions.
    pub(super) live: Option<Value>,
}

impl<'a> HaltingMixture<'a> {
    /// Adds the carried values to a loop whose state `h` starts as `state`.
    pub(super) fn start(
        l: &mut Lower<'_>,
        rule: HaltingRule<'a>,
        carried: &mut CarriedValues,
        (h, state): (Value, Value),
    ) -> Result<Self, InvalidNode> {
        let rank = l.graph().ty(state).dims().len();
        let units = match rule.units {
            HaltingUnits::Row => 1,
            HaltingUnits::Position => 2,
        };
        let blend = l.full(state, 0.0, rank)?;
        let ones = l.full(state, 1.0, units)?;
        let zeros = l.full(state, 0.0, units)?;
        let q = carried.add(l, blend, "q");
        let t = carried.add(l, ones, "t");
        let ponder_cost = carried.add(l, zeros, "ponder_cost");
        let steps = carried.add(l, zeros, "steps");
        let live = match rule.units {
            HaltingUnits::Row => None,
            HaltingUnits::Position => {
                let all = l.one(Op::True, &[state], Attrs::of(attribute::RANK, units))?;
                Some(carried.add(l, all, "live"))
            }
        };
        Ok(Self { rule, h, q, t, ponder_cost, steps, live })
    }

    /// Whether positions halt one by one.
    pub(super) fn by_position(&self) -> bool {
        self.live.is_some()
    }

    /// Keys and values of self-attention where they are not the state.
    pub(super) fn keys(&self, l: &mut Lower<'_>) -> Result<Option<Value>, InvalidNode> {
        if !self.rule.mixture_keys {
            return Ok(None);
        }
        l.scoped("halt", |l| l.one(Op::AddScaled, &[self.q, self.h, self.t], Attrs::new())).map(Some)
    }

    /// One step with the proposed state `next`.
    pub(super) fn step(
        &self,
        l: &mut Lower<'_>,
        next: Value,
        step: Value,
        cap: Option<&str>,
    ) -> Result<StepResults, InvalidNode> {
        let Self { h, q, t, ponder_cost, steps, .. } = *self;
        let p = self.rule.probability(l, h, next)?;
        let alpha = l.map(Pointwise::Mul, &[t, p])?;
        let survival = l.map(Pointwise::Sub, &[t, alpha])?;
        let blend = l.one(Op::AddScaled, &[q, h, alpha], Attrs::new())?;
        let paid = l.map(Pointwise::Add, &[ponder_cost, t])?;
        let count = l.shifted(steps, 1.0)?;
        let attrs = Attrs::of(attribute::THRESHOLD, self.rule.threshold).with_some(attribute::CAP, cap);
        let go = l.one(Op::HaltTest, &[survival, step], attrs)?;
        let mut yields = vec![next, blend, survival, paid, count];
        let Some(live) = self.live else { return Ok(StepResults { yields, go: Some(go), live: None }) };
        // A unit that stopped stays so, whatever the rule says of later steps.
        let go = l.one(Op::And, &[live, go], Attrs::new())?;
        for (new, old) in yields.iter_mut().zip([h, q, t, ponder_cost, steps]) {
            *new = l.one(Op::Select, &[go, *new, old], Attrs::new())?;
        }
        yields.push(go);
        let any = l.one(Op::Any, &[go], Attrs::new())?;
        Ok(StepResults { yields, go: Some(any), live: Some(go) })
    }

    /// `q_K + t_K H_K` from the carried values after the loop. Ponder cost and depth of a row are means over its positions
    /// where those are the units.
    pub(super) fn settle(&self, l: &mut Lower<'_>, out: &[Value]) -> Result<Value, InvalidNode> {
        let &[h, q, t, mut ponder_cost, mut depth, ..] = out else {
            return Err(InvalidNode("a halting recurrence lost its carried values".to_owned()));
        };
        if self.rule.units == HaltingUnits::Position {
            ponder_cost = l.one(Op::Mean, &[ponder_cost], Attrs::new())?;
            depth = l.one(Op::Mean, &[depth], Attrs::new())?;
        }
        l.halted.push(Halted { ponder_cost, depth, weight: Some(self.rule.cost) });
        l.one(Op::AddScaled, &[q, h, t], Attrs::new())
    }
}
