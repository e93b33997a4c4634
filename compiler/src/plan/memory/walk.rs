//! The walk over a plan with sizes in place of numbers.

use crate::ir::attribute;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::pool::{BlockPool, ByteAmount, PooledBlock};
use super::{BatchShape, MemoryTarget, product};
use crate::ir::cost::{Extent, Sizes};
use crate::ir::formula::Formula;
use crate::ir::graph::{MAIN, Node, RegionId, Value};
use crate::ir::number::Number;
use crate::ir::ops::{Flag, Op};
use crate::ir::types::{BATCH, Dim, Elem, LENGTH, PAIRS, Type, unframed};
use crate::plan::group::{Group, units as units_of};
use crate::plan::{Plan, Step};

/// A value of the graph. Clones share the buffer.
#[derive(Clone, Debug)]
pub(super) enum SizedValue {
    Block(Rc<PooledBlock>),
    Tape(Rc<Vec<Rc<TapeEntry>>>),
}

/// A step on a tape.
#[derive(Debug)]
pub(super) struct TapeEntry {
    /// The batch as the step saw it.
    pub(super) env: BatchSizes,
    /// The rows that took part, of those that entered the loop.
    pub(super) rows: Vec<usize>,
    pub(super) saved: Vec<SizedValue>,
    /// What else is held: lists of chunks, and what further steps like this one hold.
    pub(super) more: Vec<PooledBlock>,
}

/// Rows and the lengths of their ragged axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BatchSizes {
    pub(super) rows: usize,
    axes: Vec<(String, Vec<usize>)>,
    /// The same in symbols, for even rows, where formulas are kept.
    pub(super) symbols: Option<Rc<Sizes<Formula>>>,
}

impl BatchSizes {
    fn new(lengths: &[usize], formulas: bool) -> Self {
        let axes = vec![(LENGTH.to_owned(), lengths.to_vec())];
        Self { rows: lengths.len(), axes, symbols: formulas.then(|| Rc::new(Sizes::symbols())) }
    }

    /// Lengths of the rows on an axis.
    pub(super) fn axis(&self, name: &str) -> Cow<'_, [usize]> {
        let (base, more) = unframed(name);
        let lengths = self.axes.iter().find(|(n, _)| n == base).map_or(&[][..], |(_, lengths)| lengths);
        match more {
            0 => Cow::Borrowed(lengths),
            _ => lengths.iter().map(|n| n.saturating_add(more)).collect(),
        }
    }

    pub(super) fn set_axis(&mut self, name: &str, lengths: Vec<usize>) {
        self.axes.retain(|(n, _)| n != name);
        self.axes.push((name.to_owned(), lengths));
    }

    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let part = |lengths: &[usize]| rows.iter().filter_map(|r| lengths.get(*r).copied()).collect();
        let axes = self.axes.iter().map(|(n, a)| (n.clone(), part(a))).collect();
        Self { rows: rows.len(), axes, symbols: self.symbols.clone() }
    }

    /// The chunks of these rows, or some of them: what symbols say of a row stays, of as many rows as these are.
    pub(super) fn part(&self, rows: &[usize]) -> Self {
        let mut part = self.select(rows);
        if let Some(sizes) = part.symbols.take() {
            let share = Formula::of((rows.len() as f64).per(&(self.rows as f64)));
            let batch = sizes.dim(&Dim::sym(BATCH)).times(&share);
            part.symbols = Some(Rc::new(sizes.with(BATCH, batch)));
        }
        part
    }

    /// The size of an axis in symbols becomes the mean of what it is here.
    pub(super) fn even_out(&mut self, axis: &str) {
        let lengths = self.axis(axis);
        let mean = (lengths.iter().sum::<usize>() as f64).per(&(lengths.len() as f64));
        self.symbols = self.symbols.take().map(|sizes| Rc::new(sizes.with(axis, Formula::of(mean))));
    }

    /// The names of the axes.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(name, _)| name.as_str())
    }

    /// Size of a tensor in numbers of four bytes.
    pub(super) fn numbers(&self, ty: &Type) -> ByteAmount {
        let dims = ty.dims();
        let total = |axis: &str| self.axis(axis).iter().fold(0, |sum: u64, n| sum.saturating_add(*n as u64));
        let (units, rest) = match dims {
            [Dim::Sym(b), Dim::Sym(axis), rest @ ..] if b == BATCH => (total(axis), rest),
            [Dim::Sym(b), rest @ ..] if b == BATCH => (self.rows as u64, rest),
            [Dim::Sym(b), rest @ ..] if b == PAIRS => (self.rows as u64 / 2, rest),
            rest => (1, rest),
        };
        let inner = product(rest.iter().map(|d| d.fixed().unwrap_or(1) as u64));
        let count = units.saturating_mul(inner);
        let (number, part) = if ty.elem() == Some(Elem::Bool) { (count.div_ceil(4), 0.25) } else { (count, 1.0) };
        let formula = self.symbols.as_ref().map(|sizes| sizes.elements(ty).times(&Formula::of(part)));
        ByteAmount { number, formula }
    }
}

/// A walk through the training step of one batch.
pub(super) struct MemoryWalk<'p> {
    pub(super) plan: &'p Plan,
    pub(super) values: Vec<Option<SizedValue>>,
    pub(super) pool: Rc<BlockPool>,
    /// What the lists of searches take, which lie elsewhere.
    pub(super) lists: Rc<BlockPool>,
    pub(super) load: &'p BatchShape,
    /// Whether amounts have formulas, which holds for even rows.
    formulas: bool,
    /// Values that live in the scratch of a group.
    inner: BTreeSet<Value>,
    pub(super) target: MemoryTarget,
    /// Names of axes with STARTs and ENDs around them.
    pub(super) framed: BTreeSet<&'p str>,
}

/// The most bytes that a walk held.
pub(super) struct Peak {
    /// Of values and what belongs to them.
    pub(super) values: ByteAmount,
    /// Of the lists of searches, without a formula.
    pub(super) lists: ByteAmount,
}

/// The result of one run of a body.
pub(super) struct SizedResult {
    pub(super) yields: Vec<SizedValue>,
    pub(super) saved: Vec<SizedValue>,
}

impl<'p> MemoryWalk<'p> {
    pub(super) fn new(plan: &'p Plan, load: &'p BatchShape, target: MemoryTarget, formulas: bool) -> Self {
        let values = vec![None; plan.graph.value_count()];
        let nodes = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id));
        let axes = nodes.flat_map(|node| &node.results).filter_map(|value| plan.graph.ty(*value).ragged());
        Self {
            plan,
            values,
            pool: BlockPool::new(target, formulas),
            lists: BlockPool::new(MemoryTarget::Processor, false),
            load,
            formulas,
            inner: BTreeSet::new(),
            target,
            framed: axes.filter(|axis| unframed(axis).1 > 0).collect(),
        }
    }

    /// The most bytes that are held at one time.
    pub(super) fn most(mut self) -> Peak {
        let env = BatchSizes::new(&self.load.lengths, self.formulas);
        self.region(MAIN, &env);
        Peak { values: self.pool.most(), lists: self.lists.most() }
    }

    pub(super) fn block(&self, ty: &Type, env: &BatchSizes) -> SizedValue {
        SizedValue::Block(Rc::new(self.pool.take_shared(env.numbers(ty))))
    }

    pub(super) fn blocks(&self, types: &[Type], env: &BatchSizes) -> Vec<SizedValue> {
        types.iter().map(|ty| self.block(ty, env)).collect()
    }

    pub(super) fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.plan.graph.ty(*v).clone()).collect()
    }

    /// A handle to a value; parameters are copied, as in the executor.
    pub(super) fn value(&self, value: Value, env: &BatchSizes) -> SizedValue {
        self.values[value.index()].clone().unwrap_or_else(|| self.block(self.plan.graph.ty(value), env))
    }

    pub(super) fn set(&mut self, value: Value, held: SizedValue) {
        self.values[value.index()] = Some(held);
    }

    pub(super) fn body(&mut self, body: RegionId, params: Vec<SizedValue>, env: &BatchSizes) -> SizedResult {
        let plan = self.plan;
        self.enter(body, params);
        self.region(body, env);
        let own = &plan.regions[body.index()];
        let held = |values: &[Value]| values.iter().map(|v| self.value(*v, env)).collect::<Vec<_>>();
        let (yields, saved) = (held(&own.yields), held(&own.saves));
        for value in own.yields.iter().chain(&own.saves) {
            if plan.graph.scope(*value) == body {
                self.values[value.index()] = None;
            }
        }
        SizedResult { yields, saved }
    }

    fn enter(&mut self, body: RegionId, params: Vec<SizedValue>) {
        for (&param, held) in self.plan.graph.params(body).iter().zip(params) {
            self.set(param, held);
        }
    }

    /// Runs the first steps of a body, and forgets what they made.
    pub(super) fn upto(&mut self, body: RegionId, steps: usize, params: Vec<SizedValue>, env: &BatchSizes) {
        let plan = self.plan;
        self.enter(body, params);
        self.steps(body, steps, env);
        let made =
            plan.regions[body.index()].steps[..steps].iter().flat_map(|step| &plan.graph.node(step.node).results);
        for value in plan.graph.params(body).iter().chain(made) {
            self.values[value.index()] = None;
        }
    }

    fn region(&mut self, region: RegionId, env: &BatchSizes) {
        self.steps(region, self.plan.regions[region.index()].steps.len(), env);
    }

    /// The first steps of a region.
    fn steps(&mut self, region: RegionId, count: usize, env: &BatchSizes) {
        let plan = self.plan;
        let own = &plan.regions[region.index()];
        for value in &own.unused {
            self.values[value.index()] = None;
        }
        if self.target == MemoryTarget::Processor {
            self.inner.extend(own.groups.iter().flat_map(|g| g.inner.iter().map(|i| i.value)));
        }
        let mut next = 0;
        while next < count {
            let group = own.groups.binary_search_by_key(&next, |group| group.steps.start).ok().map(|n| &own.groups[n]);
            let steps = group.map_or(next..next + 1, |group| group.steps.clone());
            next = steps.end;
            let steps = &own.steps[steps];
            let sums = group.map(|group| self.sums(group, steps, env));
            steps.iter().for_each(|step| self.step(step, env));
            drop(sums);
            let inner = group.iter().flat_map(|group| group.inner.iter().map(|inner| &inner.value));
            for value in steps.iter().flat_map(|step| &step.frees).chain(inner) {
                self.values[value.index()] = None;
            }
        }
    }

    /// What the blocks of a group sum up, block by block, until it is added.
    fn sums(&self, group: &Group, steps: &[Step], env: &BatchSizes) -> Vec<PooledBlock> {
        let units = env.numbers(&Type::real(group.units.clone()));
        let blocks = units.number.div_ceil(group.block(units.number as usize) as u64);
        let share = Formula::of((blocks as f64).per(&(units.number as f64)));
        let blocks = ByteAmount { number: blocks, formula: units.formula.map(|units| units.times(&share)) };
        let nodes = steps.iter().map(|step| self.plan.graph.node(step.node));
        let sums = nodes.flat_map(|node| {
            let roles = node.op.def().by_unit.map_or(&[][..], |roles| roles.sums);
            roles.iter().filter_map(move |n| node.results.get(*n))
        });
        let width = |sum: &Value| units_of(self.plan.graph.ty(*sum)).1;
        let width = |sum: &Value| ByteAmount::of(width(sum) as u64, blocks.formula.is_some());
        sums.map(|sum| self.pool.take(blocks.clone().times(&width(sum)))).collect()
    }

    pub(super) fn step(&mut self, step: &Step, env: &BatchSizes) {
        let node = self.plan.graph.node(step.node);
        match node.op {
            Op::Param | Op::Accumulate => {}
            Op::Recur => self.recur(step.node, env),
            Op::Chunks => self.chunks(step.node, env),
            Op::Fold => self.fold(step.node, env),
            Op::Beam => self.beam(step.node, env),
            Op::Part => self.part(node, env),
            Op::Unwind if node.has(attribute::BEAMS) => self.beam_backward(step, node, env),
            Op::Unwind if node.has(attribute::ROLE) => self.part_backward(step, node, env),
            Op::Unwind => self.backward(step, node, env),
            op if op.has(Flag::Alias) => {
                let same = self.value(node.operands[0], env);
                self.set(node.results[0], same);
            }
            _ => self.results(node, step, env),
        }
    }

    /// New buffers for the results, except for one that takes the place of a dying operand, and for those that are added
    /// to gradients.
    fn results(&mut self, node: &Node, step: &Step, env: &BatchSizes) {
        // A kernel of a device writes to memory of its own.
        let in_place = step.in_place.filter(|_| self.target == MemoryTarget::Processor);
        let dying = in_place.and_then(|n| self.take_unique(node.operands[n]));
        if let Some(buffer) = dying {
            self.set(node.results[0], buffer);
            return;
        }
        if let [Some(_)] = step.accumulates_into[..] {
            // A single result is added straight into its gradient.
            return;
        }
        let types = self.types(&node.results);
        let kept =
            node.results.iter().zip(&step.accumulates_into).zip(&types).filter(|((v, _), _)| !self.inner.contains(v));
        let _held = self.distances(node, env);
        // All exist at once before those that are added to gradients are gone again.
        let made: Vec<_> = kept.map(|((v, into), ty)| (*v, *into, self.block(ty, env))).collect();
        for (value, into, block) in made {
            if into.is_none() {
                self.set(value, block);
            }
        }
    }

    fn take_unique(&mut self, value: Value) -> Option<SizedValue> {
        let held = self.values[value.index()].take();
        match held {
            Some(SizedValue::Block(block)) if Rc::strong_count(&block) == 1 => Some(SizedValue::Block(block)),
            shared => {
                self.values[value.index()] = shared;
                None
            }
        }
    }
}
