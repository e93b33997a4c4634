//! Loops. Steps that see the same rows and lengths take the same memory, so three of them are walked, and those in between
//! hold what the second one left behind.

use std::rc::Rc;

use super::pool::{ByteAmount, PooledBlock};
use super::rows::TurnView;
use super::walk::{BatchSizes, MemoryWalk, SizedValue, TapeEntry};
use crate::ir::attribute::{self, Chunking};
use crate::ir::cost::turns;
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, NodeId, RegionId, Value};
use crate::ir::loops::{self, Cut};
use crate::ir::number::Number as _;
use crate::ir::schedule::{Axes, Chunk, Chunks, DepthSteps, Levels, LoopSchedule, RowDepth, Widths};
use crate::ir::types::{BATCH, Dim, Type};
use crate::plan::Step;

/// Steps of a group that are walked.
const WALKED: usize = 3;

/// Consecutive steps that are alike.
pub(super) struct EqualSteps {
    /// The rows that take part, of those that entered the loop.
    pub(super) rows: Vec<usize>,
    pub(super) env: BatchSizes,
    pub(super) times: usize,
    /// The same in symbols.
    pub(super) formula: Option<Formula>,
}

/// The values that a body captures, as they stood before it saw only some of their rows.
pub(super) struct SizedCaptures {
    body: RegionId,
    full: Vec<(Value, SizedValue)>,
    /// The rows that the body sees.
    present: Vec<usize>,
}

impl SizedCaptures {
    pub(super) fn new(body: RegionId, env: &BatchSizes) -> Self {
        Self { body, full: vec![], present: (0..env.rows).collect() }
    }

    /// Narrows what the body captures to these rows, which are those of `here`.
    pub(super) fn narrow(&mut self, walk: &mut MemoryWalk<'_>, rows: &[usize], here: &BatchSizes) {
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

    pub(super) fn restore(&mut self, walk: &mut MemoryWalk<'_>) {
        for (value, held) in self.full.drain(..) {
            walk.set(value, held);
        }
    }
}

/// A loop that runs forwards.
struct ForwardLoop<'a> {
    node: &'a Node,
    body: RegionId,
    /// How many values are carried.
    carried: usize,
    /// The rows that entered.
    env: &'a BatchSizes,
    tape: Vec<TapeEntry>,
    captures: SizedCaptures,
}

impl<'a> ForwardLoop<'a> {
    fn new(node: &'a Node, carried: usize, env: &'a BatchSizes) -> Option<Self> {
        let body = node.body?;
        Some(Self { node, body, carried, env, tape: vec![], captures: SizedCaptures::new(body, env) })
    }
}

impl MemoryWalk<'_> {
    /// Runs `step` for a group, and leaves behind what all its steps leave behind.
    pub(super) fn repeat(
        &mut self,
        group: &EqualSteps,
        tape: &mut Vec<TapeEntry>,
        mut step: impl FnMut(&mut Self, &mut Vec<TapeEntry>),
    ) {
        for n in 0..group.times.min(WALKED) {
            let before = [&self.pool, &self.lists].map(|pool| pool.held());
            step(self, tape);
            // The steps in between come before the last one, which needs room beside what they hold.
            if n + 2 == WALKED && group.times > WALKED {
                let formula = group.formula.as_ref().map(|times| times.minus(&Formula::of(WALKED as f64)));
                let more = ByteAmount { number: (group.times - WALKED) as u64, formula };
                let pools = [&self.pool, &self.lists].into_iter().zip(&before);
                let left = pools.map(|(pool, before)| pool.take_bytes(pool.held().minus(before).times(&more)));
                if let Some(last) = tape.last_mut() {
                    last.more.extend(left);
                }
            }
        }
    }

    /// Runs the turns of a group: `params` makes what the body gets of the carried values, which are then those that it yields.
    fn turns(
        &mut self,
        at: &mut ForwardLoop<'_>,
        group: &EqualSteps,
        values: &mut Vec<SizedValue>,
        params: impl Fn(&mut Self, &mut Vec<SizedValue>) -> Vec<SizedValue>,
    ) {
        let (body, carried, taped) = (at.body, at.carried, self.is_taped(at.node));
        at.captures.narrow(self, &group.rows, &group.env);
        let saves = self.plan.regions[body.index()].saves.len();
        let kept = self.turn(&group.env, at.env, TurnView::of(at.node, group, at.env), saves);
        self.repeat(group, &mut at.tape, |walk, tape| {
            let lists = walk.pool.take_bytes(kept.clone());
            let params = params(walk, values);
            let mut out = walk.body(body, params, &group.env);
            if taped {
                let (env, rows) = (group.env.clone(), group.rows.clone());
                tape.push(TapeEntry { env, rows, saved: out.saved, more: vec![lists] });
            }
            out.yields.truncate(carried);
            *values = out.yields;
        });
    }

    fn end(&mut self, mut at: ForwardLoop<'_>, values: Vec<SizedValue>) {
        at.captures.restore(self);
        self.finish(at.node, values, at.tape);
    }

    pub(super) fn recur(&mut self, id: NodeId, env: &BatchSizes) {
        let node = self.plan.graph.node(id);
        let Some(mut at) = ForwardLoop::new(node, node.operands.len(), env) else { return };
        let (body, own) = (at.body, &self.plan.regions[at.body.index()]);
        // At an early exit the rows that reject the step leave, and the others need their values from before it no more.
        let keeps = own.yields.len() > node.operands.len() && own.early_exit.is_none_or(|steps| steps == 0);
        let types = self.types(&node.operands);
        let rule = RowDepth::of(&self.plan.graph, id);
        let row_steps = |row: usize| {
            let length = |axis: &str| env.axis(axis).get(row).map_or(0.0, |length| *length as f64);
            let mean = self.load.depth.map(|mean| meant(mean, row));
            let (bound, steps) = rule.most(&length, mean.as_ref());
            (bound as usize, steps as usize)
        };
        let (bounds, ends): (Vec<usize>, Vec<usize>) = (0..env.rows).map(row_steps).unzip();
        let mut groups = groups(DepthSteps::new(&ends[..], 0), node, env);
        if let ([group], Some(sizes)) = (&mut groups[..], &env.symbols) {
            group.formula = match rule.is_drawn() {
                true => Some(Formula::of(group.times as f64)),
                false => turns(&self.plan.graph, id, sizes).first().map(|turns| turns.steps.clone()),
            };
        }
        let mut values: Vec<SizedValue> = node.operands.iter().map(|v| self.value(*v, env)).collect();
        // What rows that leave are written over.
        let mut done = values.clone();
        let reject = |walk: &mut Self,
                      values: &[SizedValue],
                      done: &mut Vec<SizedValue>,
                      from: &[usize],
                      here: &BatchSizes,
                      taken: usize| {
            // Rows that stop before the bound have tried the step after their last one.
            let rejects = |row: &&usize| ends[**row] == taken && taken < bounds[**row];
            let leaving: Vec<usize> = from.iter().filter(rejects).copied().collect();
            if leaving.is_empty() {
                return;
            }
            let out = walk.tried(body, values, here, env);
            // Rows that leave together are handed over as they are.
            let part = match leaving.len() == from.len() {
                true => values.to_vec(),
                false => walk.blocks(&types, &env.select(&leaving)),
            };
            match leaving.len() == env.rows {
                true => done.clone_from(&part),
                false => walk.own(done, &types, env),
            }
            drop((out, part));
        };
        let everyone: Vec<usize> = (0..env.rows).collect();
        reject(self, &values, &mut done, &everyone, env, 0);
        let mut taken = 0;
        for group in &groups {
            if group.rows.len() < env.rows {
                self.own(&mut done, &types, env);
                values = self.blocks(&types, &group.env);
            }
            self.turns(&mut at, group, &mut values, |walk, values| {
                let mut params = if keeps { values.clone() } else { std::mem::take(values) };
                params.extend(walk.plan.graph.params(body).last().map(|step| walk.value(*step, env)));
                params
            });
            taken += group.times;
            reject(self, &values, &mut done, &group.rows, &group.env, taken);
        }
        let all = groups.last().is_none_or(|last| last.rows.len() == env.rows);
        self.end(at, if all { values } else { done });
    }

    /// Runs the body as far as a step runs that all rows reject; gives what is left when they leave.
    fn tried(&mut self, body: RegionId, values: &[SizedValue], here: &BatchSizes, env: &BatchSizes) -> Vec<SizedValue> {
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

    pub(super) fn chunks(&mut self, id: NodeId, env: &BatchSizes) {
        let node = self.plan.graph.node(id);
        let carried = loops::layout(&self.plan.graph, id).carried;
        let Some(mut at) = ForwardLoop::new(node, carried, env) else { return };
        let types = self.types(&node.operands);
        let (types, slices) = (&types[..carried], slices(node, &types[carried..]));
        let mut state: Vec<SizedValue> = node.operands[..carried].iter().map(|v| self.value(*v, env)).collect();
        let outputs = self.blocks(&self.given(&node.results[carried..]), env);
        let whole = env.axis(Axes::of(node).over).into_owned();
        let longest = whole.iter().copied().max().unwrap_or(0);
        let even = whole.iter().all(|length| *length == longest);
        let mut groups = groups(Chunks::new(Widths::of(node), whole, longest), node, env);
        if node.get(attribute::CUT) == Chunking::Chosen {
            // Memory must suffice where all positions are chosen.
            for group in &mut groups {
                let sizes = group.env.symbols.as_ref().zip(env.symbols.as_ref());
                let axes = Axes::of(node);
                let whole = sizes.map(|(here, sizes)| here.with(axes.chunk, sizes.dim(&Dim::sym(axes.over))));
                group.env.symbols = whole.map(Rc::new);
            }
        } else if let Some(sizes) = env.symbols.as_ref().filter(|_| even) {
            // Even rows have full chunks and a last one; where there is but one, it is the last.
            for (group, turns) in groups.iter_mut().rev().zip(turns(&self.plan.graph, id, sizes).into_iter().rev()) {
                group.formula = Some(turns.steps);
                group.env.symbols = Some(Rc::new(turns.sizes));
            }
        }
        for group in &groups {
            let (all, mut part) = (group.rows.len() == env.rows, vec![]);
            self.turns(&mut at, group, if all { &mut state } else { &mut part }, |walk, values| {
                let mut params = std::mem::take(values);
                if !all {
                    params = walk.blocks(types, &group.env);
                }
                params.extend(walk.blocks(&slices, &group.env));
                params
            });
        }
        state.extend(outputs);
        self.end(at, state);
    }

    pub(super) fn fold(&mut self, id: NodeId, env: &BatchSizes) {
        let node = self.plan.graph.node(id);
        let (Some(mut at), Some(cut)) = (ForwardLoop::new(node, 1, env), Cut::of(node)) else { return };
        let results = self.blocks(&self.given(&node.results), env);
        let (mut nodes, axes) = (vec![self.value(node.operands[0], env)], Axes::of(node));
        let lengths = env.axis(axes.over).into_owned();
        let mut count = lengths.iter().sum();
        let mut groups = groups(Levels::new(cut, lengths, 0), node, env);
        symbols_of_levels(&mut groups, cut, axes, env);
        let ty = self.plan.graph.ty(self.plan.graph.params(at.body)[0]).clone();
        for group in &groups {
            // Where rows have left, the nodes of the others close up.
            if group.env.axis(axes.chunk).iter().sum::<usize>() < count {
                nodes = vec![self.block(&ty, &group.env)];
            }
            count = group.rows.len();
            self.turns(&mut at, group, &mut nodes, |_, nodes| std::mem::take(nodes));
        }
        drop(nodes);
        self.end(at, results);
    }

    /// The backward run of a loop over its tape.
    pub(super) fn backward(&mut self, at: &Step, node: &Node, env: &BatchSizes) {
        let (Some(body), Some(mut tape)) = (node.body, self.taped(at, node.operands[0])) else { return };
        let carried = loops::layout(&self.plan.graph, self.owner(body)).carried;
        let is_fold = Cut::of(node).is_some();
        let types = self.types(&node.operands[1..]);
        let (before, after) = types.split_at(carried);
        let after = slices(node, after);
        let mut state: Vec<SizedValue> = node.operands[1..=carried].iter().map(|v| self.value(*v, env)).collect();
        let sums = self.blocks(&self.types(&node.results[carried..]), env);
        let mut captures = SizedCaptures::new(body, env);
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
    fn own(&mut self, values: &mut [SizedValue], types: &[Type], env: &BatchSizes) {
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

    /// Whether what the turns of a loop save is read by a backward run.
    pub(super) fn is_taped(&self, node: &Node) -> bool {
        node.results.last().is_some_and(|v| *self.plan.graph.ty(*v) == Type::Tape)
    }

    /// Types of results besides a tape.
    pub(super) fn given(&self, results: &[Value]) -> Vec<Type> {
        self.types(results).into_iter().filter(|ty| *ty != Type::Tape).collect()
    }
}

/// The steps that a row takes under a mean depth: where that is no whole number, some rows take a step more than the others.
fn meant(mean: f64, row: usize) -> f64 {
    let upto = |rows: usize| (mean * rows as f64).round();
    upto(row + 1) - upto(row)
}

/// What a step of a tape saved, and what else it held.
pub(super) fn used_up(step: Rc<TapeEntry>) -> (Vec<SizedValue>, Vec<PooledBlock>) {
    match Rc::try_unwrap(step) {
        Ok(step) => (step.saved, step.more),
        Err(shared) => (shared.saved.clone(), vec![]),
    }
}

/// Types of what a body receives slice by slice: the chunk's axis in place of the whole one.
fn slices(node: &Node, types: &[Type]) -> Vec<Type> {
    let axis = Axes::of(node).chunk;
    let cut = |ty: &Type| match ty {
        Type::Tensor(elem, dims) if dims.len() > 1 => {
            let mut dims = dims.clone();
            dims[1] = Dim::sym(axis);
            Type::Tensor(*elem, dims)
        }
        other => other.clone(),
    };
    types.iter().map(cut).collect()
}

/// A length of a chunk.
type LengthOf = fn(&Chunk) -> usize;

/// The turns of a schedule over the rows of `env`, those that are alike together.
fn groups(mut schedule: impl LoopSchedule, node: &Node, env: &BatchSizes) -> Vec<EqualSteps> {
    let (axes, mut groups) = (Axes::of(node), vec![]);
    let lengths: [(&str, LengthOf); 2] = [(axes.filled, |chunk| chunk.filled), (axes.chunk, |chunk| chunk.length)];
    loop {
        let times = schedule.alike();
        if times == 0 {
            return groups;
        }
        let chunks: Vec<Chunk> = schedule.chunks().collect();
        let rows: Vec<usize> = chunks.iter().map(|chunk| chunk.row).collect();
        let mut here = env.part(&rows);
        for (axis, length) in lengths.into_iter().filter(|(axis, _)| !axis.is_empty()) {
            here.set_axis(axis, chunks.iter().map(length).collect());
            here.even_out(axis);
        }
        let formula = here.symbols.as_ref().map(|_| Formula::of(times as f64));
        groups.push(EqualSteps { rows, env: here, times, formula });
        schedule.advance(times);
    }
}

/// Gives the levels of a fold over even rows their sizes in symbols.
fn symbols_of_levels(groups: &mut [EqualSteps], cut: Cut, axes: Axes<'_>, env: &BatchSizes) {
    let lengths = env.axis(axes.over);
    let even = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    let Some(sizes) = env.symbols.as_ref().filter(|_| even) else { return };
    let (arity, mut length) = (Formula::of(cut.arity as f64), sizes.dim(&Dim::sym(axes.over)));
    for group in groups {
        let last = group.rows.first() != group.rows.get(1);
        let chunks = if last { Formula::of(1.0) } else { length.pieces(&arity) };
        let width = std::mem::replace(&mut length, chunks.clone()).per(&chunks);
        let batch = sizes.dim(&Dim::sym(BATCH)).times(&chunks);
        let sizes = sizes.with(BATCH, batch).with(axes.filled, arity.clone()).with(axes.chunk, width);
        group.env.symbols = Some(Rc::new(sizes));
    }
}
