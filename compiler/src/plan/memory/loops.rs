//! Loops. Steps that see the same rows and lengths take the same memory, so three of them are walked, and those in between
//! hold what the second one left behind.

use std::rc::Rc;

use super::pool::{Amount, Block};
use super::rows::Seen;
use super::walk::{Env, SizedValue, TapeEntry, Walk};
use crate::ir::cost::turns;
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, NodeId, RegionId, Value};
use crate::ir::loops::{self, Cut};
use crate::ir::number::Number as _;
use crate::ir::schedule::{Axes, Chunk, Chunks, Depth, Depths, Levels, Schedule, Widths};
use crate::ir::types::{BATCH, Dim, Type};
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
                let left = pools.map(|(pool, before)| pool.take_bytes(pool.held().minus(before).times(&more)));
                if let Some(last) = tape.last_mut() {
                    last.more.extend(left);
                }
            }
        }
    }

    /// Runs a loop through its turns.
    fn forward(&mut self, node: &Node, env: &Env, groups: &[Group], mut kind: impl Forward) {
        let Some(body) = node.body else { return };
        let (taped, saves) = (self.is_taped(node), self.plan.regions[body.index()].saves.len());
        let (mut tape, mut captures) = (vec![], SavedCaptures::new(body, env));
        for group in groups {
            kind.begin(self, group);
            captures.narrow(self, &group.rows, &group.env);
            let kept = self.turn(&group.env, env, Seen::of(node, group, env), saves);
            self.repeat(group, &mut tape, |walk, tape| {
                let lists = walk.pool.take_bytes(kept.clone());
                let params = kind.params(walk, group);
                let out = walk.body(body, params, &group.env);
                if taped {
                    let (env, rows) = (group.env.clone(), group.rows.clone());
                    tape.push(TapeEntry { env, rows, saved: out.saved, more: vec![lists] });
                }
                kind.carry(out.yields);
            });
            kind.end(self, group);
        }
        captures.restore(self);
        self.finish(node, kind.done(), tape);
    }

    pub(super) fn recur(&mut self, id: NodeId, env: &Env) {
        let node = self.plan.graph.node(id);
        let Some(body) = node.body else { return };
        let own = &self.plan.regions[body.index()];
        let rule = Depth::of(&self.plan.graph, id);
        let of_row = |axis: &str, row: usize| env.axis(axis).get(row).map_or(0.0, |length| *length as f64);
        let row_steps = |row: usize| {
            let length = |axis: &str| of_row(axis, row);
            let mean = self.load.depth.map(|mean| meant(mean, row));
            [rule.bound(&length), rule.steps(&length, mean.as_ref())].map(|steps| steps as usize)
        };
        let (bounds, ends): (Vec<usize>, Vec<usize>) = (0..env.rows).map(row_steps).map(|[a, b]| (a, b)).unzip();
        let mut groups = groups(Depths::new(&ends[..], 0), node, env);
        if let ([group], Some(sizes)) = (&mut groups[..], &env.symbols) {
            group.formula = turns(&self.plan.graph, id, sizes).first().map(|turns| turns.steps.clone());
        }
        let values: Vec<SizedValue> = node.operands.iter().map(|v| self.value(*v, env)).collect();
        let mut recur = Recur {
            body,
            env,
            // At an early exit the rows that reject the step leave, and the others need their values from before it no more.
            keeps: own.yields.len() > node.operands.len() && own.early_exit.is_none_or(|steps| steps == 0),
            types: self.types(&node.operands),
            done: values.clone(),
            values,
            ends: &ends,
            bounds: &bounds,
            taken: 0,
            all: true,
        };
        recur.reject(self, &(0..env.rows).collect::<Vec<_>>(), env);
        self.forward(node, env, &groups, recur);
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
        let carried = loops::layout(&self.plan.graph, id).carried;
        let types = self.types(&node.operands);
        let state: Vec<SizedValue> = node.operands[..carried].iter().map(|v| self.value(*v, env)).collect();
        let outputs = self.given(&node.results[carried..]);
        let outputs = self.blocks(&outputs, env);
        let whole = env.axis(Axes::of(node).over).into_owned();
        let longest = whole.iter().copied().max().unwrap_or(0);
        let even = whole.iter().all(|length| *length == longest);
        let mut groups = groups(Chunks::new(Widths::of(node), whole, longest), node, env);
        if let Some(sizes) = env.symbols.as_ref().filter(|_| even) {
            // Even rows have full chunks and a last one; where there is but one, it is the last.
            for (group, turns) in groups.iter_mut().rev().zip(turns(&self.plan.graph, id, sizes).into_iter().rev()) {
                group.formula = Some(turns.steps);
                group.env.symbols = Some(Rc::new(turns.sizes));
            }
        }
        let slices = slices(node, &types[carried..]);
        self.forward(node, env, &groups, Chunked { env, types: &types[..carried], slices, state, outputs, all: true });
    }

    pub(super) fn fold(&mut self, id: NodeId, env: &Env) {
        let node = self.plan.graph.node(id);
        let (Some(body), Some(cut)) = (node.body, Cut::of(node)) else { return };
        let results = self.blocks(&self.given(&node.results), env);
        let nodes = self.value(node.operands[0], env);
        let axes = Axes::of(node);
        let lengths = env.axis(axes.over).into_owned();
        let count = lengths.iter().sum();
        let mut groups = groups(Levels::new(cut, lengths, 0), node, env);
        symbols_of_levels(&mut groups, cut, axes, env);
        let ty = self.plan.graph.ty(self.plan.graph.params(body)[0]).clone();
        self.forward(node, env, &groups, Fold { axis: axes.chunk, ty, nodes: Some(nodes), count, results });
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

    /// Whether what the turns of a loop save is read by a backward run.
    pub(super) fn is_taped(&self, node: &Node) -> bool {
        node.results.last().is_some_and(|v| *self.plan.graph.ty(*v) == Type::Tape)
    }

    /// Types of results besides a tape.
    pub(super) fn given(&self, results: &[Value]) -> Vec<Type> {
        self.types(results).into_iter().filter(|ty| *ty != Type::Tape).collect()
    }
}

/// What a kind of loop does besides running its body.
trait Forward {
    /// Before the turns of a group.
    fn begin(&mut self, _: &mut Walk<'_>, _: &Group) {}

    /// What the body of a turn gets.
    fn params(&mut self, walk: &mut Walk<'_>, group: &Group) -> Vec<SizedValue>;

    /// Takes what the body gives.
    fn carry(&mut self, yields: Vec<SizedValue>);

    /// After the turns of a group.
    fn end(&mut self, _: &mut Walk<'_>, _: &Group) {}

    /// The results.
    fn done(self) -> Vec<SizedValue>;
}

/// A depth recurrence.
struct Recur<'a> {
    body: RegionId,
    env: &'a Env,
    keeps: bool,
    types: Vec<Type>,
    values: Vec<SizedValue>,
    /// What rows that leave are written over.
    done: Vec<SizedValue>,
    /// The steps that rows take, and those that they may take.
    ends: &'a [usize],
    bounds: &'a [usize],
    taken: usize,
    /// Whether no row has left before the others.
    all: bool,
}

impl Recur<'_> {
    /// Rows that stop before the bound have tried the step after their last one.
    fn reject(&mut self, walk: &mut Walk<'_>, from: &[usize], here: &Env) {
        let taken = self.taken;
        let rejects = |row: &&usize| self.ends[**row] == taken && taken < self.bounds[**row];
        let leaving: Vec<usize> = from.iter().filter(rejects).copied().collect();
        if leaving.is_empty() {
            return;
        }
        let out = walk.tried(self.body, &self.values, here, self.env);
        // Rows that leave together are handed over as they are.
        let part = match leaving.len() == from.len() {
            true => self.values.clone(),
            false => walk.blocks(&self.types, &self.env.select(&leaving)),
        };
        if leaving.len() == self.env.rows {
            self.done.clone_from(&part);
        } else {
            walk.own(&mut self.done, &self.types, self.env);
        }
        drop((out, part));
    }
}

impl Forward for Recur<'_> {
    fn begin(&mut self, walk: &mut Walk<'_>, group: &Group) {
        self.all = group.rows.len() == self.env.rows;
        if !self.all {
            walk.own(&mut self.done, &self.types, self.env);
            self.values = walk.blocks(&self.types, &group.env);
        }
    }

    fn params(&mut self, walk: &mut Walk<'_>, _: &Group) -> Vec<SizedValue> {
        let mut params = if self.keeps { self.values.clone() } else { std::mem::take(&mut self.values) };
        params.extend(walk.plan.graph.params(self.body).last().map(|step| walk.value(*step, self.env)));
        params
    }

    fn carry(&mut self, mut yields: Vec<SizedValue>) {
        yields.truncate(self.types.len());
        self.values = yields;
    }

    fn end(&mut self, walk: &mut Walk<'_>, group: &Group) {
        self.taken += group.times;
        self.reject(walk, &group.rows, &group.env);
    }

    fn done(self) -> Vec<SizedValue> {
        if self.all { self.values } else { self.done }
    }
}

/// A chunk recurrence.
struct Chunked<'a> {
    env: &'a Env,
    /// Types of the carried values.
    types: &'a [Type],
    /// Types of the slices that a chunk gets.
    slices: Vec<Type>,
    state: Vec<SizedValue>,
    outputs: Vec<SizedValue>,
    /// Whether all rows take the turn.
    all: bool,
}

impl Forward for Chunked<'_> {
    fn params(&mut self, walk: &mut Walk<'_>, group: &Group) -> Vec<SizedValue> {
        self.all = group.rows.len() == self.env.rows;
        let mut params = if self.all { std::mem::take(&mut self.state) } else { walk.blocks(self.types, &group.env) };
        params.extend(walk.blocks(&self.slices, &group.env));
        params
    }

    fn carry(&mut self, mut yields: Vec<SizedValue>) {
        yields.truncate(self.types.len());
        if self.all {
            self.state = yields;
        }
    }

    fn done(mut self) -> Vec<SizedValue> {
        self.state.extend(self.outputs);
        self.state
    }
}

/// A balanced fold.
struct Fold<'a> {
    /// The axis of the chunks.
    axis: &'a str,
    /// The type of the nodes of a level.
    ty: Type,
    nodes: Option<SizedValue>,
    /// How many nodes there are.
    count: usize,
    results: Vec<SizedValue>,
}

impl Forward for Fold<'_> {
    /// Where rows have left, the nodes of the others close up.
    fn begin(&mut self, walk: &mut Walk<'_>, group: &Group) {
        if group.env.axis(self.axis).iter().sum::<usize>() < self.count {
            self.nodes = Some(walk.block(&self.ty, &group.env));
        }
        self.count = group.rows.len();
    }

    fn params(&mut self, _: &mut Walk<'_>, _: &Group) -> Vec<SizedValue> {
        self.nodes.take().into_iter().collect()
    }

    fn carry(&mut self, yields: Vec<SizedValue>) {
        self.nodes = yields.into_iter().next();
    }

    fn done(self) -> Vec<SizedValue> {
        self.results
    }
}

/// The steps that a row takes under a mean depth: where that is no whole number, some rows take a step more than the others.
fn meant(mean: f64, row: usize) -> f64 {
    let upto = |rows: usize| (mean * rows as f64).round();
    upto(row + 1) - upto(row)
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

/// The turns of a schedule over the rows of `env`, those that are alike together.
fn groups(mut schedule: impl Schedule, node: &Node, env: &Env) -> Vec<Group> {
    let (axes, mut groups) = (Axes::of(node), vec![]);
    let lengths: [(&str, fn(&Chunk) -> usize); 2] =
        [(axes.filled, |chunk| chunk.filled), (axes.chunk, |chunk| chunk.length)];
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
        groups.push(Group { rows, env: here, times, formula });
        schedule.advance(times);
    }
}

/// Gives the levels of a fold over even rows their sizes in symbols.
fn symbols_of_levels(groups: &mut [Group], cut: Cut, axes: Axes<'_>, env: &Env) {
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
