//! A depth recurrence under construction: the values that a step hands on to the next one, and what says who goes on.

use super::builder::{Halted, Loss, Lower};
use crate::define::LoopStep;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{Pointwise, Scalar};
use crate::ir::types::{Elem, Type};

/// The loop: its body, and the carried values with their starts.
#[derive(Clone, Debug)]
pub(crate) struct CarriedValues {
    pub(crate) region: RegionId,
    inits: Vec<Value>,
    params: Vec<Value>,
}

impl CarriedValues {
    /// A loop that carries nothing yet.
    pub(crate) fn new(l: &mut Lower<'_>) -> Self {
        Self { region: l.graph().add_region(), inits: vec![], params: vec![] }
    }

    /// The value inside the body of one that starts as `init`.
    pub(crate) fn add(&mut self, l: &mut Lower<'_>, init: Value, hint: &str) -> Value {
        let ty = l.graph().ty(init).clone();
        let param = l.graph().add_param(self.region, ty, hint);
        self.inits.push(init);
        self.params.push(param);
        param
    }

    /// How many values are carried.
    pub(crate) fn len(&self) -> usize {
        self.inits.len()
    }

    /// The step of the body, counted from 0. It is the last parameter of the region, behind carried values that are still
    /// to come.
    pub(crate) fn step(&self, l: &mut Lower<'_>) -> Value {
        l.graph().add_param(self.region, Type::Tensor(Elem::Index, vec![]), "step")
    }

    /// Carries the ponder costs and depths of recurrences inside the body along as sums, which belong to whole rows: a row that
    /// leaves keeps its sums, also where positions halt one by one. Gives the place of each cost among the carried values,
    /// right before that of its depth, and its weight.
    pub(crate) fn sum(
        &mut self,
        l: &mut Lower<'_>,
        halted: &[Halted],
        like: Value,
        yields: &mut Vec<Value>,
    ) -> Result<Vec<(usize, Option<f64>)>, InvalidNode> {
        let mut sums = vec![];
        for one in halted {
            let zero = l.full(like, 0.0, 1)?;
            sums.push((self.len(), one.weight));
            for (value, hint) in [(one.ponder_cost, "ponder_cost"), (one.depth, "depth")] {
                let sum = self.add(l, zero, hint);
                let (next, _) = l.inside(self.region, |l| l.map(Pointwise::Add, &[sum, value]))?;
                yields.push(next);
            }
        }
        Ok(sums)
    }

    /// Ends the body and emits the loop; gives the carried values after it.
    pub(crate) fn close(
        self,
        l: &mut Lower<'_>,
        bound: Attrs,
        step: Value,
        yields: &[Value],
    ) -> Result<Vec<Value>, InvalidNode> {
        // Values that the body itself has handed on came in between: parameters stand in the order of the starts.
        for value in self.params.iter().copied().chain([step]) {
            l.graph().move_param_last(self.region, value);
        }
        l.inside(self.region, |l| l.emit(Op::Yield, yields, Attrs::new()))?;
        let types = self.inits.iter().map(|v| l.graph().ty(*v).clone()).collect();
        let (operands, attrs, body) = (self.inits, bound, Some(self.region));
        let out = l.emit_loop(NewNode { op: Op::Recur, operands, attrs, types, body, label: String::new() })?;
        for (value, param) in out.iter().zip(&self.params) {
            let hint = l.graph().hint(*param).to_owned();
            l.graph().set_hint(*value, &hint);
        }
        Ok(out)
    }
}

/// Additions of equations and definitions to the body of a recurrence.
#[derive(Clone, Debug)]
pub(crate) struct BodyAdditions {
    /// The body.
    region: RegionId,
    /// Where the loop itself stands: starts are made there.
    pub(crate) around: RegionId,
    /// The state outside: what starts are shaped like.
    pub(crate) like: Value,
    /// The step of the body.
    pub(crate) step: Value,
    /// Values handed on: start, value inside, value of the next step.
    handed: Vec<(Value, Value, Option<Value>)>,
    /// Conditions of `go`: 1 where a unit takes the step, else 0; a unit is a row, or a position of a row.
    pub(crate) go: Vec<Value>,
    /// Conditions of `until`: 1 where the step is the unit's last one, else 0.
    pub(crate) until: Vec<Value>,
    /// Whether a step sees whole rows, and no parts of them.
    pub(crate) whole: bool,
    /// What a step adds to the loss.
    pub(crate) losses: Vec<Loss>,
    /// Whether values of earlier steps are read: those of a position that has left would be missing.
    pub(crate) remembers: bool,
    /// Whether positions leave by a rule of the recurrence itself.
    pub(crate) by_position: bool,
    /// The number of steps.
    bound: Attrs,
    /// Steps that another loop has taken before, if that is known, and whether others follow in another one.
    before: Option<usize>,
    followed: bool,
}

/// What is known of a recurrence whose body is complete.
pub(crate) struct Ended {
    /// Whether a row takes the step, if anything says so.
    pub(crate) go: Option<Value>,
    /// Sums of losses over the steps: the places among the carried values, and whether labels are in them.
    pub(crate) losses: Vec<(usize, bool)>,
}

impl BodyAdditions {
    /// Nothing yet, for the body of a loop of so many steps that is emitted where the context is now.
    pub(crate) fn new(l: &Lower<'_>, carried: &CarriedValues, like: Value, step: Value, bound: &Attrs) -> Self {
        Self {
            region: carried.region,
            around: l.region(),
            whole: l.sees_whole_rows(),
            like,
            step,
            handed: vec![],
            go: vec![],
            until: vec![],
            losses: vec![],
            remembers: false,
            by_position: false,
            bound: bound.clone(),
            before: Some(0),
            followed: false,
        }
    }

    /// The same for a part of the steps: so many came before, if that is known, or others follow.
    pub(crate) fn part(self, before: Option<usize>, followed: bool) -> Self {
        Self { before, followed, ..self }
    }

    /// The step that is being taken.
    pub(crate) fn number(&self) -> LoopStep {
        let bound = self.bound.find(attribute::BOUND).and_then(|bound| bound.steps());
        let most = bound.zip(self.before).map(|(steps, before)| steps + before);
        LoopStep { value: self.step, before: self.before, most, like: self.like }
    }

    /// 1 for rows whose last step this is, unless they halt before, else 0.
    pub(crate) fn is_last(&self, l: &mut Lower<'_>) -> Result<Value, InvalidNode> {
        if self.followed {
            return l.full(self.like, 0.0, 1);
        }
        let depth = l.one(Op::DepthOf, &[self.like], self.bound.clone())?;
        let number = l.one(Op::StepNumber, &[self.step, self.like], Attrs::new())?;
        let almost = Scalar::Call(Pointwise::Sub, vec![Scalar::Operand(0), Scalar::Number(1.5)]);
        l.formula(&Scalar::Call(Pointwise::Less, vec![almost, Scalar::Operand(1)]), &[depth, number])
    }

    /// One more value that is handed on: its number, and the value inside.
    pub(crate) fn hand(&mut self, l: &mut Lower<'_>, start: Value, hint: &str) -> (usize, Value) {
        let ty = l.graph().ty(start).clone();
        let inside = l.graph().add_param(self.region, ty, hint);
        self.handed.push((start, inside, None));
        (self.handed.len() - 1, inside)
    }

    /// What the step makes of a value that is handed on.
    pub(crate) fn set(&mut self, n: usize, next: Value) {
        if let Some(handed) = self.handed.get_mut(n) {
            handed.2 = Some(next);
        }
    }

    /// Counts the steps that every unit takes, where units may leave; gives the place among the carried values. It comes before
    /// [`Self::finish`], by which those that refuse a step keep their count.
    pub(crate) fn count(
        &self,
        l: &mut Lower<'_>,
        carried: &mut CarriedValues,
        yields: &mut Vec<Value>,
    ) -> Result<Option<usize>, InvalidNode> {
        let Some(rank) = self.go.iter().chain(&self.until).map(|condition| l.rank(*condition)).max() else {
            return Ok(None);
        };
        let zeros = l.full(self.like, 0.0, rank)?;
        let taken = carried.add(l, zeros, TAKEN);
        yields.push(self.inside(l, |_, l| l.shifted(taken, 1.0))?);
        Ok(Some(carried.len() - 1))
    }

    /// Adds all of it to the loop. `live` is true for the positions that
    /// take part, where the loop itself knows that; the others keep what they had.
    ///
    /// A step that a unit refuses leaves no trace in it. One that it takes as its last is known as such at the beginning of
    /// the next, before anything is computed.
    pub(crate) fn finish(
        self,
        l: &mut Lower<'_>,
        carried: &mut CarriedValues,
        yields: &mut Vec<Value>,
        live: Option<Value>,
    ) -> Result<Ended, InvalidNode> {
        let losses = self.sum(l, carried, yields)?;
        let first = carried.len() - losses.len();
        let go = self.decide(l, carried, yields, (first, live))?;
        Ok(Ended { go, losses })
    }

    /// Carries the sums of losses along, one for each kind of answers.
    fn sum(
        &self,
        l: &mut Lower<'_>,
        carried: &mut CarriedValues,
        yields: &mut Vec<Value>,
    ) -> Result<Vec<(usize, bool)>, InvalidNode> {
        let mut sums = vec![];
        for (rank, labels) in [(1, false), (1, true), (2, false), (2, true)] {
            let own: Vec<Value> = self.losses.iter().filter(|x| x.labels == labels).map(|x| x.value).collect();
            let own: Vec<Value> = own.into_iter().filter(|value| l.rank(*value) == rank).collect();
            if own.is_empty() {
                continue;
            }
            let zero = l.full(self.like, 0.0, rank)?;
            sums.push((carried.len(), labels));
            let mut sum = carried.add(l, zero, "loss");
            for value in own {
                sum = self.inside(l, |_, l| l.map(Pointwise::Add, &[sum, value]))?;
            }
            yields.push(sum);
        }
        Ok(sums)
    }

    /// Whether a row takes the step; what positions that have stopped keep. Of the carried values, those from `first` on are not
    /// yet kept where `live` is false.
    fn decide(
        &self,
        l: &mut Lower<'_>,
        carried: &mut CarriedValues,
        yields: &mut Vec<Value>,
        (first, live): (usize, Option<Value>),
    ) -> Result<Option<Value>, InvalidNode> {
        for (start, inside, next) in &self.handed {
            carried.inits.push(*start);
            carried.params.push(*inside);
            yields.push(next.unwrap_or(*inside));
        }
        if self.go.is_empty() && self.until.is_empty() {
            if let Some(live) = live {
                self.keep(l, carried, yields, first..carried.len(), live)?;
            }
            return Ok(None);
        }
        let positions = |l: &Lower<'_>, value: &Value| l.rank(*value) == 2;
        if live.is_none() && !self.go.iter().chain(&self.until).any(|value| positions(l, value)) {
            return self.rows(l, carried, yields).map(Some);
        }
        let all = l.one(Op::True, &[self.like], Attrs::of(attribute::RANK, 2_usize))?;
        let param = carried.add(l, all, "live");
        let (flag, next) = self.inside(l, |s, l| {
            let mut flag = param;
            for holds in
                live.into_iter().map(Ok).chain(s.go.iter().map(|c| s.holds_at_positions(l, *c)).collect::<Vec<_>>())
            {
                flag = l.one(Op::And, &[flag, holds?], Attrs::new())?;
            }
            let mut next = flag;
            for condition in &s.until {
                let open = s.opposite(l, *condition)?;
                let holds = s.holds_at_positions(l, open)?;
                next = l.one(Op::And, &[next, holds], Attrs::new())?;
            }
            Ok((flag, next))
        })?;
        let all = 0..yields.len();
        self.keep(l, carried, yields, all, flag)?;
        yields.push(next);
        self.inside(l, |_, l| l.one(Op::Any, &[flag], Attrs::new())).map(Some)
    }

    /// Where rows as a whole go on or leave.
    fn rows(
        &self,
        l: &mut Lower<'_>,
        carried: &mut CarriedValues,
        yields: &mut Vec<Value>,
    ) -> Result<Value, InvalidNode> {
        let mut flags = vec![];
        if !self.until.is_empty() {
            let ones = l.full(self.like, 1.0, 1)?;
            let more = carried.add(l, ones, "more");
            let next = self.inside(l, |s, l| {
                let mut open = vec![];
                for condition in &s.until {
                    open.push(s.opposite(l, *condition)?);
                }
                open.into_iter().map(Ok).reduce(|a, b| l.map(Pointwise::Mul, &[a?, b?])).unwrap_or(Ok(more))
            })?;
            yields.push(next);
            flags.push(more);
        }
        flags.extend(&self.go);
        self.inside(l, |s, l| {
            let mut flag = None;
            for condition in flags {
                let holds = s.holds(l, condition)?;
                flag = Some(match flag {
                    Some(flag) => l.one(Op::And, &[flag, holds], Attrs::new())?,
                    None => holds,
                });
            }
            flag.ok_or_else(|| InvalidNode("nothing says which rows go on".to_owned()))
        })
    }

    /// Lets positions where `flag` is false keep those carried values that they have one of.
    fn keep(
        &self,
        l: &mut Lower<'_>,
        carried: &CarriedValues,
        yields: &mut [Value],
        which: std::ops::Range<usize>,
        flag: Value,
    ) -> Result<(), InvalidNode> {
        let axis = l.graph().ty(flag).dims().get(1).cloned();
        for n in which {
            let (new, old) = (yields[n], carried.params[n]);
            if new != old && l.graph().ty(old).dims().get(1).cloned() == axis && l.rank(old) > 1 {
                yields[n] = self.inside(l, |_, l| l.one(Op::Select, &[flag, new, old], Attrs::new()))?;
            }
        }
        Ok(())
    }

    fn inside<R>(
        &self,
        l: &mut Lower<'_>,
        body: impl FnOnce(&Self, &mut Lower<'_>) -> Result<R, InvalidNode>,
    ) -> Result<R, InvalidNode> {
        l.inside(self.region, |l| body(self, l)).map(|(result, _)| result)
    }

    /// `1 - condition`
    fn opposite(&self, l: &mut Lower<'_>, condition: Value) -> Result<Value, InvalidNode> {
        l.formula(&Scalar::Call(Pointwise::Sub, vec![Scalar::Number(1.0), Scalar::Operand(0)]), &[condition])
    }

    /// True where a condition is 1: a unit whose survival is 1 goes on, and one whose survival is 0 does not.
    fn holds(&self, l: &mut Lower<'_>, condition: Value) -> Result<Value, InvalidNode> {
        l.one(Op::HaltTest, &[condition, self.step], Attrs::of(attribute::THRESHOLD, 0.5))
    }

    fn holds_at_positions(&self, l: &mut Lower<'_>, condition: Value) -> Result<Value, InvalidNode> {
        let condition = match l.rank(condition) {
            1 => l.one(Op::BroadcastRows, &[condition, self.like], Attrs::new())?,
            _ => condition,
        };
        self.holds(l, condition)
    }
}

/// Adds the sums of losses over the steps of a loop, now among its results, to what stands around it.
pub(crate) fn pay(l: &mut Lower<'_>, losses: &[(usize, bool)], out: &[Value]) {
    let paid = losses.iter().map(|(at, labels)| Loss { value: out[*at], labels: *labels });
    match &mut l.steps {
        Some(steps) => steps.losses.extend(paid),
        None => l.losses.extend(paid),
    }
}

/// A value of the step behind those of the steps before, each in a slot of its own.
pub(crate) fn remember(l: &mut Lower<'_>, value: Value, hint: &str) -> Result<Value, InvalidNode> {
    let lost = || InvalidNode("there are no steps to remember".to_owned());
    let mut steps = l.steps.take().ok_or_else(lost)?;
    let count = steps.number().most.ok_or_else(lost)?;
    let (width, rank) = (l.last(value)?, l.rank(value));
    let region = l.at_region(steps.around);
    // The slots are made before the first step, of anything that is as wide.
    let own = l.last(steps.like)?;
    let like = match (own.fixed(), width.fixed()) {
        (Some(own), Some(width)) if own > width => l.channels(steps.like, 0, width)?,
        (Some(own), Some(width)) if own < width => {
            l.one(Op::Pad, &[steps.like], Attrs::of(attribute::START, 0).with(attribute::WIDTH, width))?
        }
        _ => steps.like,
    };
    let attrs = Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, rank).with(attribute::COUNT, count);
    let empty = l.one(Op::Full, &[like], attrs)?;
    l.at_region(region);
    steps.remembers = true;
    let (n, inside) = steps.hand(l, empty, hint);
    let filled = l.one(Op::SlotSet, &[inside, value, steps.step], Attrs::new())?;
    steps.set(n, filled);
    l.steps = Some(steps);
    Ok(filled)
}
/// What counted steps are called.
const TAKEN: &str = "steps_taken";

/// Leaves the steps that a loop has counted to what reports them: of a row whose positions leave, their mean.
pub(crate) fn report(l: &mut Lower<'_>, counted: Option<usize>, out: &[Value]) -> Result<(), InvalidNode> {
    let Some(at) = counted else { return Ok(()) };
    let depth = if l.rank(out[at]) > 1 { l.one(Op::Mean, &[out[at]], Attrs::new())? } else { out[at] };
    l.halted.push(Halted { ponder_cost: depth, depth, weight: None });
    Ok(())
}
