//! Loops. Steps that see the same rows and lengths take the same memory, so three of them are walked, and those in between
//! hold what the second one left behind.

use crate::ir::attribute::{self, Bound};
use std::rc::Rc;

use super::pool::{Amount, Block};
use super::walk::{Env, SizedValue, TapeEntry, Walk};
use crate::expr::{Env as Names, Expr, Value as Number, eval};
use crate::ir::cost::{cap, turns};
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, NodeId, RegionId, Value};
use crate::ir::loops::{self, Cut};
use crate::ir::number::Number as _;
use crate::ir::schedule::Widths;
use crate::ir::types::Type;
use crate::plan::Step;

/// Steps of a group that are walked.
const WALKED: usize = 3;

/// Consecutive steps that are alike.
pub(super) struct Group {
    /// The rows that take part, of those that entered the loop.
    pub(super) rows: Vec<usize>,
    pub(super) env: Env,
    pub(super) times: usize,
    /// The same in symbols.
    pub(super) formula: Option<Formula>,
}

/// The values that a body captures, as they stood before it saw only some of their rows.
pub(super) struct SavedCaptures {
    body: RegionId,
    full: Vec<(Value, SizedValue)>,
    /// The rows that the body sees.
    present: Vec<usize>,
}

impl SavedCaptures {
    pub(super) fn new(body: RegionId, env: &Env) -> Self {
        Self { body, full: vec![], present: (0..env.rows).collect() }
    }

    /// Narrows what the body captures to these rows, which are those of `here`.
    pub(super) fn narrow(&mut self, walk: &mut Walk<'_>, rows: &[usize], here: &Env) {
        if self.present == rows {
            return;
        }
        self.restore(walk);
        self.present = rows.to_vec();
        let plan = walk.plan;
        for &value in &plan.regions[self.body.index()].captures {
            let ty = plan.graph.ty(value);
            if let Some(held @ SizedValue::Block(_)) = walk.values[value.index()].clone().filter(|_| ty.is_batched()) {
                let part = walk.block(ty, here);
                walk.set(value, part);
                self.full.push((value, held));
            }
        }
    }

    pub(super) fn restore(&mut self, walk: &mut Walk<'_>) {
        for (value, held) in self.full.drain(..) {
            walk.set(value, held);
        }
    }
}

impl Walk<'_> {
    /// Runs `step` for a group, and leaves behind what all its steps leave behind.
    pub(super) fn repeat(
        &mut self,
        group: &Group,
        tape: &mut Vec<TapeEntry>,
        mut step: impl FnMut(&mut Self, &mut Vec<TapeEntry>),
    ) {
        for n in 0..group.times.min(WALKED) {
            let before = [&self.pool, &self.lists].map(|pool| pool.held());
            step(self, tape);
            // The steps in between come before the last one, which needs room beside what they hold.
            if n + 2 == WALKED && group.times > WALKED {
                let formula = group.formula.as_ref().map(|times| times.minus(&Formula::of(WALKED as f64)));
                let more = Amount { number: (group.times - WALKED) as u64, formula };
                let pools = [&self.pool, &self.lists].into_iter().zip(&before);
                let left =
                    pools.map(|(pool, before)| pool.take_bytes(pool.held().minus(before).times(&more))).collect();
                if let Some(last) = tape.last_mut() {
                    last.more = left;
                }
            }
        }
    }

    pub(super) fn recur(&mut self, id: NodeId, env: &Env) {
        let node = self.plan.graph.node(id);
        let Some(body) = node.body else { return };
        let own = &self.plan.regions[body.index()];
        // At an early exit the rows that reject the step leave, and the others need their values from before it no more.
        let keeps = own.yields.len() > node.operands.len() && own.early_exit.is_none_or(|steps| steps == 0);
        let types = self.types(&node.operands);
        let ends = self.ends(id, env);
        let mut values: Vec<SizedValue> = node.operands.iter().map(|v| self.value(*v, env)).collect();
        // What rows that leave are written over.
        let mut done = values.clone();
        let (mut tape, mut captures) = (vec![], SavedCaptures::new(body, env));
        let last = self.bounds(id, env);
        let rejects = |walk: &mut Self,
                       values: &[SizedValue],
                       (from, here): (&[usize], &Env),
                       taken: usize,
                       done: &mut [SizedValue]| {
            // Rows that stop before the bound have tried the step after their last one.
            let leaving: Vec<usize> = from.iter().copied().filter(|r| ends[*r] == taken && taken < last[*r]).collect();
            if !leaving.is_empty() {
                let out = walk.tried(body, values, here, env);
                // Rows that leave together are handed over as they are.
                let part = match leaving.len() == from.len() {
                    true => values.to_vec(),
                    false => walk.blocks(&types, &env.select(&leaving)),
                };
                if leaving.len() == env.rows {
                    done.clone_from_slice(&part);
                } else {
                    walk.own(done, &types, env);
                }
                drop((out, part));
            }
        };
        let everyone: Vec<usize> = (0..env.rows).collect();
        rejects(self, &values, (&everyone, env), 0, &mut done);
        let mut taken = 0;
        for group in self.depths(id, env) {
            if group.rows.len() < env.rows {
                self.own(&mut done, &types, env);
                values = self.blocks(&types, &group.env);
            }
            captures.narrow(self, &group.rows, &group.env);
            self.repeat(&group, &mut tape, |walk, tape| {
                let mut params = if keeps { values.clone() } else { std::mem::take(&mut values) };
                params.extend(walk.plan.graph.params(body).last().map(|step| walk.value(*step, env)));
                let mut out = walk.body(body, params, &group.env);
                out.yields.truncate(types.len());
                let (here, rows) = (group.env.clone(), group.rows.clone());
                tape.push(TapeEntry { env: here, rows, saved: out.saved, more: vec![] });
                values = out.yields;
            });
            taken += group.times;
            rejects(self, &values, (&group.rows, &group.env), taken, &mut done);
        }
        captures.restore(self);
        let all = tape.last().is_none_or(|last| last.rows.len() == env.rows);
        self.finish(node, if all { values } else { done }, tape);
    }

    /// Runs the body as far as a step runs that all rows reject; gives what is left when they leave.
    fn tried(&mut self, body: RegionId, values: &[SizedValue], here: &Env, env: &Env) -> Vec<SizedValue> {
        let mut params = values.to_vec();
        params.extend(self.plan.graph.params(body).last().map(|step| self.value(*step, env)));
        match self.plan.regions[body.index()].early_exit {
            Some(early_exit) => {
                self.upto(body, early_exit, params, here);
                vec![]
            }
            None => {
                let out = self.body(body, params, here);
                out.yields.into_iter().chain(out.saved).collect()
            }
        }
    }

    pub(super) fn chunks(&mut self, id: NodeId, env: &Env) {
        let node = self.plan.graph.node(id);
        let Some(body) = node.body else { return };
        let carried = loops::layout(&self.plan.graph, self.owner(body)).carried;
        let types = self.types(&node.operands);
        let mut state: Vec<SizedValue> = node.operands[..carried].iter().map(|v| self.value(*v, env)).collect();
        let outputs = self.types(&node.results[carried..]);
        let outputs = outputs.iter().filter(|t| **t != Type::Tape).cloned().collect::<Vec<_>>();
        let outputs = self.blocks(&outputs, env);
        let (mut tape, mut captures) = (vec![], SavedCaptures::new(body, env));
        for group in self.widths(id, env) {
            let all = group.rows.len() == env.rows;
            captures.narrow(self, &group.rows, &group.env);
            self.repeat(&group, &mut tape, |walk, tape| {
                let own = &types[..carried];
                let mut params = if all { std::mem::take(&mut state) } else { walk.blocks(own, &group.env) };
                params.extend(walk.blocks(&slices(node, &types[carried..]), &group.env));
                let mut out = walk.body(body, params, &group.env);
                let (here, rows) = (group.env.clone(), group.rows.clone());
                tape.push(TapeEntry { env: here, rows, saved: out.saved, more: vec![] });
                out.yields.truncate(carried);
                if all {
                    state = out.yields;
                }
            });
        }
        captures.restore(self);
        state.extend(outputs);
        self.finish(node, state, tape);
    }

    /// The backward run of a loop over its tape.
    pub(super) fn backward(&mut self, at: &Step, node: &Node, env: &Env) {
        let (Some(body), Some(mut tape)) = (node.body, self.taped(at, node.operands[0])) else { return };
        let carried = loops::layout(&self.plan.graph, self.owner(body)).carried;
        let is_fold = Cut::of(node).is_some();
        let types = self.types(&node.operands[1..]);
        let (before, after) = types.split_at(carried);
        let after = slices(node, after);
        let mut state: Vec<SizedValue> = node.operands[1..=carried].iter().map(|v| self.value(*v, env)).collect();
        let sums = self.blocks(&self.types(&node.results[carried..]), env);
        let mut captures = SavedCaptures::new(body, env);
        // What a level of a fold gives has the rows of the level below; its last level begins with results.
        let mut is_first = true;
        while let Some(step) = tape.pop() {
            let whole = if is_fold { !is_first } else { step.rows.len() == env.rows };
            is_first = false;
            captures.narrow(self, &step.rows, &step.env);
            let mut params = if whole { std::mem::take(&mut state) } else { self.blocks(before, &step.env) };
            params.extend(self.blocks(&after, &step.env));
            let here = step.env.clone();
            let (saved, lists) = used_up(step);
            params.extend(saved);
            let mut out = self.body(body, params, &here);
            drop(lists);
            out.yields.truncate(carried);
            if whole || is_fold {
                state = out.yields;
            }
        }
        captures.restore(self);
        for (result, held) in node.results.iter().zip(state.into_iter().chain(sums)) {
            self.set(*result, held);
        }
    }

    /// The steps of a tape, its own ones at its last use: those go as they are run.
    pub(super) fn taped(&mut self, at: &Step, tape: Value) -> Option<Vec<Rc<TapeEntry>>> {
        let slot = &mut self.values[tape.index()];
        let held = if at.frees.contains(&tape) { slot.take() } else { slot.clone() };
        match held {
            Some(SizedValue::Tape(tape)) => Some(Rc::unwrap_or_clone(tape)),
            _ => None,
        }
    }

    /// Room to write over these values: those without other handles stay where they are.
    fn own(&mut self, values: &mut [SizedValue], types: &[Type], env: &Env) {
        for (value, ty) in values.iter_mut().zip(types) {
            if !matches!(value, SizedValue::Block(block) if Rc::strong_count(block) == 1) {
                *value = self.block(ty, env);
            }
        }
    }

    pub(super) fn finish(&mut self, node: &Node, values: Vec<SizedValue>, tape: Vec<TapeEntry>) {
        for (result, held) in node.results.iter().zip(values) {
            self.set(*result, held);
        }
        if let Some(last) = node.results.last().filter(|v| *self.plan.graph.ty(**v) == Type::Tape) {
            self.set(*last, SizedValue::Tape(Rc::new(tape.into_iter().map(Rc::new).collect())));
        }
    }

    pub(super) fn owner(&self, body: RegionId) -> NodeId {
        self.plan.graph.owner(body).expect("a body belongs to a loop")
    }

    /// The steps of a depth recurrence: rows leave at their ends.
    fn depths(&self, id: NodeId, env: &Env) -> Vec<Group> {
        let own = self.ends(id, env);
        let mut ends = own.clone();
        ends.sort_unstable();
        ends.dedup();
        let mut from = 0;
        let mut groups: Vec<Group> = vec![];
        for end in ends.into_iter().filter(|end| *end > 0) {
            let rows: Vec<usize> = (0..env.rows).filter(|r| own[*r] >= end).collect();
            let formula = env.symbols.as_ref().map(|_| Formula::of((end - from) as f64));
            groups.push(Group { env: env.part(&rows), rows, times: end - from, formula });
            from = end;
        }
        if let ([group], Some(sizes)) = (&mut groups[..], &env.symbols) {
            group.formula = turns(&self.plan.graph, id, sizes).first().map(|turns| turns.steps.clone());
        }
        groups
    }

    /// The steps of a chunk recurrence: every row by its own chunks.
    fn widths(&self, id: NodeId, env: &Env) -> Vec<Group> {
        let mut groups = widths(self.plan.graph.node(id), env);
        let Some(sizes) = &env.symbols else { return groups };
        let over = self.plan.graph.node(id).get(attribute::OVER);
        if env.axis(over).windows(2).any(|pair| pair[0] != pair[1]) {
            return groups;
        }
        // Even rows have full chunks and a last one; where there is but one, it is the last.
        for (group, turns) in groups.iter_mut().rev().zip(turns(&self.plan.graph, id, sizes).into_iter().rev()) {
            group.formula = Some(turns.steps);
            group.env.symbols = Some(Rc::new(turns.sizes));
        }
        groups
    }

    /// The steps that every row takes: at most its bound, where it halts its cap, and the mean depth.
    ///
    /// Under a mean depth that is no whole number some rows take a step more than the others.
    fn ends(&self, id: NodeId, env: &Env) -> Vec<usize> {
        let (graph, bounds) = (&self.plan.graph, self.bounds(id, env));
        if loops::layout(graph, id).go == 0 {
            return bounds;
        }
        let lengths = cap(graph, graph.node(id)).map(|axis| env.axis(axis));
        let capped = |row: usize| lengths.as_ref().and_then(|lengths| lengths.get(row)).map_or(usize::MAX, |n| n + 1);
        let upto = |mean: f64, n: usize| (mean * n as f64).round() as usize;
        let meant =
            |row: usize| self.load.depth.map_or(usize::MAX, |mean| upto(mean, row + 1).saturating_sub(upto(mean, row)));
        bounds.iter().enumerate().map(|(row, bound)| (*bound).min(capped(row)).min(meant(row))).collect()
    }

    /// The bound of every row. A bound that has no value counts as 0: the executor refuses it.
    fn bounds(&self, id: NodeId, env: &Env) -> Vec<usize> {
        let node = self.plan.graph.node(id);
        let whole = |n: i64| usize::try_from(n).unwrap_or(0);
        let rule = match node.find(attribute::BOUND) {
            Some(Bound::Steps(steps)) => return vec![steps; env.rows],
            bound => bound.and_then(Bound::rule),
        };
        let expr = rule.and_then(|rule| Expr::try_from(rule).ok());
        let axis = node.operands.iter().find_map(|v| self.plan.graph.ty(*v).ragged().map(str::to_owned));
        let lengths = env.axis(axis.as_deref().unwrap_or_default());
        let of = |row: usize| {
            let length = lengths.get(row).map_or(0, |n| i64::try_from(*n).unwrap_or(i64::MAX));
            match expr.as_ref().map(|e| eval(e, &Names { length, ..Names::default() })) {
                Some(Ok(Number::Int(n))) => whole(n),
                _ => 0,
            }
        };
        (0..env.rows).map(of).collect()
    }
}

/// What a step of a tape saved, and what else it held.
pub(super) fn used_up(step: Rc<TapeEntry>) -> (Vec<SizedValue>, Vec<Block>) {
    match Rc::try_unwrap(step) {
        Ok(step) => (step.saved, step.more),
        Err(shared) => (shared.saved.clone(), vec![]),
    }
}

/// Types of what a body receives slice by slice: the chunk's axis in place of the whole one.
fn slices(node: &Node, types: &[Type]) -> Vec<Type> {
    let axis = node.find(attribute::AXIS).unwrap_or_default();
    let cut = |ty: &Type| match ty {
        Type::Tensor(elem, dims) if dims.len() > 1 => {
            let mut dims = dims.clone();
            dims[1] = crate::ir::types::Dim::sym(axis);
            Type::Tensor(*elem, dims)
        }
        other => other.clone(),
    };
    types.iter().map(cut).collect()
}

/// The steps of a chunk recurrence: every row by its own chunks.
fn widths(node: &Node, env: &Env) -> Vec<Group> {
    let axis = node.get(attribute::AXIS);
    let (rule, whole) = (Widths::of(node), env.axis(node.get(attribute::OVER)));
    let longest = whole.iter().copied().max().unwrap_or(0);
    let widths: Vec<usize> = whole.iter().map(|n| rule.width(*n, longest)).collect();
    let counts: Vec<usize> = whole.iter().zip(&widths).map(|(n, w)| n.div_ceil(*w)).collect();
    // Between these steps no row ends and no row's last, shorter chunk comes.
    let mut marks: Vec<usize> = counts.iter().flat_map(|n| [n.saturating_sub(1), *n]).chain([0]).collect();
    marks.sort_unstable();
    marks.dedup();
    let group = |pair: &[usize]| {
        let rows: Vec<usize> = (0..whole.len()).filter(|r| counts[*r] > pair[0]).collect();
        let part = |r: &usize| widths[*r].min(whole[*r] - pair[0] * widths[*r]);
        let mut here = env.part(&rows);
        here.set_axis(axis, rows.iter().map(part).collect());
        here.even_out(axis);
        let times = pair[1] - pair[0];
        Group { rows, formula: here.symbols.as_ref().map(|_| Formula::of(times as f64)), env: here, times }
    };
    marks.windows(2).map(group).collect()
}
