//! Groups of steps that work unit by unit: one meeting of the threads for all of them, block of units by block of units.
//!
//! Blocks are cut by the sizes of the values alone. Sums over units are made per block and added up in the order of the
//! blocks, so the results do not depend on the number of threads.
#![allow(unsafe_code, reason = "blocks of units write disjoint ranges of the values of their group")]

use rtc_compiler::ir::attribute::{self, Draws, Origin, Reduction};
use std::collections::BTreeMap;
use std::ops::Range;

use rtc_compiler::ir::graph::{Graph, MAIN, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::pointwise::{MOST, results};
use rtc_compiler::ir::types::{BATCH, Dim};
use rtc_compiler::plan::group::{Group, units};
use rtc_compiler::plan::{Plan, RegionPlan};

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::rows::BatchView;
use crate::storage::{Buffer, Element};
use rtc_base::rng::Key;
use rtc_kernel::draw::{DistributionForm, NumberDistribution};
use rtc_kernel::dropout::{Keep, dropout, tied_dropout};
use rtc_kernel::parallel::{block, each};
use rtc_kernel::pointwise::MapProgram;
use rtc_kernel::position::{Direction, Rotation, RotationTable, rotate};
use rtc_kernel::product::{Orientation, Packed, product};
use rtc_kernel::{Precision, Real, Write, channels, linear, norm, softmax};

/// A step, with everything found that it needs.
#[derive(Debug)]
pub(super) struct StepTask<T> {
    kernel: StepKernel<T>,
    inputs: [Lane<T>; MOST],
    outputs: [Lane<T>; MOST],
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
enum Lane<T> {
    /// The op has no such operand or result.
    Absent,
    /// All units, one after the other.
    Array(*mut T, usize),
    /// The units of the block, from here on in the scratch (in numbers per unit).
    Scratch(usize, usize),
    /// One sum per block.
    Sum(*mut T, usize),
}

/// The work of a step on a block. Pointers are to operands that every unit needs whole.
#[derive(Debug)]
enum StepKernel<T> {
    Affine { gain: *const [T], bias: Option<*const [T]> },
    Linear { w: *const Packed<T>, bias: Option<*const [T]> },
    Narrow { w: *const [T], bias: Option<*const [T]> },
    GradInput { w: *const Packed<T> },
    LayerNorm { gain: *const [T], bias: Option<*const [T]>, eps: f64 },
    LayerNormGrad { gain: *const [T], eps: f64 },
    RmsNorm { width: usize, gain: Option<*const [T]>, eps: f64 },
    RmsNormGrad { width: usize, gain: Option<*const [T]>, eps: f64 },
    ColumnSum,
    Map(*const MapProgram),
    Softmax,
    SoftmaxGrad,
    Reduce(Reduction),
    ReduceMaxGrad,
    Broadcast,
    Concat,
    Slice(usize),
    Pad(usize),
    Dropout { keep: Keep<T>, key: Key, tied: bool },
    Draw { form: DistributionForm, key: Key, by_row: bool },
    Rotate { table: *const RotationTable<T>, heads: usize, direction: Direction, from_row: bool },
}

/// A result that is a sum over the units.
#[derive(Debug)]
pub(super) struct Partial<T: Element> {
    sums: Buffer<T>,
    value: Value,
    into: Option<usize>,
}

/// A weight in the order of its product, with the version of the parameters it was made from.
#[derive(Debug, Default)]
pub(super) struct Pack<T: Real> {
    pub(super) packed: Packed<T>,
    version: Option<u64>,
}

/// Inputs that tasks of all threads read.
struct GroupInputs<'a, T> {
    tasks: &'a [StepTask<T>],
    rows: UnitRows<'a>,
    ids: &'a [u64],
    size: usize,
    units: usize,
    /// Numbers that a map may need beside the scratch of the group.
    registers: usize,
}

// SAFETY: the pointers stand for values in the table and for parameters, which nobody changes while the group runs, and for
// results, of which every task writes only the units of its own block.
unsafe impl<T: Sync> Sync for GroupInputs<'_, T> {}

/// The rows to which the units belong.
#[derive(Clone, Copy)]
enum UnitRows<'a> {
    Ragged { offsets: &'a [usize], origin: &'a [usize], before: usize, places: Option<&'a [usize]> },
    Even(usize),
}

impl<T> StepKernel<T> {
    /// Numbers of scratch that the kernel itself needs.
    fn registers(&self) -> usize {
        match self {
            // SAFETY: the executor keeps the programs of its plan.
            Self::Map(program) => unsafe { (**program).scratch() },
            _ => 0,
        }
    }
}

/// The programs of the maps of a graph.
pub(super) fn programs(graph: &Graph) -> BTreeMap<NodeId, MapProgram> {
    let maps = graph.walk(MAIN).into_iter().filter(|id| graph.node(*id).op == Op::Map);
    let program =
        |id: NodeId| (id, MapProgram::new(&results(&graph.node(id).attrs).expect("the shape rule has read them")));
    maps.map(program).collect()
}

impl UnitRows<'_> {
    /// Calls `f(row, index within the row of the first unit, units)` for the part of every row inside `range`.
    fn each(self, range: Range<usize>, mut f: impl FnMut(usize, usize, Range<usize>)) {
        let mut start = range.start;
        let mut row = match self {
            Self::Ragged { offsets, .. } => offsets.partition_point(|&offset| offset <= start) - 1,
            Self::Even(per) => start / per,
        };
        while start < range.end {
            let (first, last) = match self {
                Self::Ragged { offsets, .. } => (offsets[row], offsets[row + 1]),
                Self::Even(per) => (row * per, (row + 1) * per),
            };
            let end = last.min(range.end);
            if end > start {
                f(row, start - first, start..end);
                start = end;
            }
            row += 1;
        }
    }

    fn origin(self, row: usize) -> usize {
        match self {
            Self::Ragged { origin, .. } => origin[row],
            Self::Even(_) => 0,
        }
    }

    /// The positions of `count` units of a row from the first one on, where they do not follow one another.
    fn places(&self, row: usize, first: usize, count: usize) -> Option<&[usize]> {
        match self {
            Self::Ragged { offsets, places, .. } => {
                let start = offsets[row] + first;
                places.map(|places| &places[start..start + count])
            }
            Self::Even(_) => None,
        }
    }

    /// Positions before those that are here.
    fn before(self) -> usize {
        match self {
            Self::Ragged { before, .. } => before,
            Self::Even(_) => 0,
        }
    }
}

fn rows_of<'e>(view: &'e BatchView, units: &[Dim]) -> UnitRows<'e> {
    match units {
        [Dim::Sym(b), Dim::Sym(axis)] if b == BATCH => {
            let axis = view.axis(axis);
            let places = axis.chosen.as_ref().map(|chosen| chosen.places.as_slice());
            UnitRows::Ragged { offsets: &axis.offsets, origin: &axis.origin, before: axis.before, places }
        }
        [Dim::Sym(_), rest @ ..] => UnitRows::Even(rest.iter().filter_map(Dim::fixed).product()),
        _ => UnitRows::Even(1),
    }
}

impl<T: Element> Executor<T> {
    /// Runs the steps of a group and puts their results into the table.
    pub(super) fn group(&mut self, plan: &Plan, own: &RegionPlan, group: &Group, view: &BatchView) {
        let steps = &own.steps[group.steps.clone()];
        let units = view.units(&group.units);
        let mut tasks = std::mem::take(&mut self.tasks);
        let mut partials = std::mem::take(&mut self.partials);
        let mut work = 0;
        for step in steps {
            let c = NodeContext { plan, step, node: plan.graph.node(step.node), view };
            self.prepare(&c);
            work += units * self.unit_work(&c);
        }
        let size = group.block(units);
        let blocks = units.div_ceil(size);
        for step in steps {
            let c = NodeContext { plan, step, node: plan.graph.node(step.node), view };
            let task = self.task(&c, group, blocks, &mut partials);
            tasks.push(task);
        }
        let registers = tasks.iter().map(|task| task.kernel.registers()).max().unwrap_or(0);
        let shared =
            GroupInputs { tasks: &tasks, rows: rows_of(view, &group.units), ids: &view.ids, size, units, registers };
        each(blocks, work, |n| shared.run(n, group.scratch));
        tasks.clear();
        for partial in partials.drain(..) {
            self.add_up(partial);
        }
        (self.tasks, self.partials) = (tasks, partials);
    }

    /// Packs weights and grows tables, so that they stay where they are while the tasks are made.
    fn prepare(&mut self, c: &NodeContext<'_>) {
        match c.node.op {
            Op::Linear if c.out(0) > linear::NARROW => {
                self.pack(c.operand(1), Orientation::Transposed, c.last(1), self.settings.precision);
            }
            Op::LinearGradInput => self.pack(c.operand(1), Orientation::Straight, c.last(1), self.settings.precision),
            Op::Rotate => {
                let axis = c.axis(0);
                let origin = |row: usize| if c.get(attribute::ORIGIN) == Origin::Row { axis.origin[row] } else { 0 };
                let longest = (0..c.view.rows()).map(|row| origin(row) + axis.reach(row)).max().unwrap_or(0);
                let rotation = Rotation::of(&c.node.attrs, c.last(0) / c.get(attribute::HEADS));
                self.tables.upto(rotation, c.node.find(attribute::ANGLE), longest);
            }
            _ => {}
        }
    }

    /// A parameter is packed once per version; any other matrix each time.
    pub(super) fn pack(&mut self, w: Value, orientation: Orientation, width: usize, precision: Precision) {
        let version = self.memory.is_parameter(w).then_some(self.version);
        let pack = self.packs.entry((w, orientation)).or_default();
        if version.is_none() || pack.version != version {
            pack.packed.pack(self.memory.real(w), width, orientation, precision);
            pack.version = version;
        }
    }

    /// The cost of one unit, in simple operations on one number; a fused multiply-add of a product is about a quarter of one.
    fn unit_work(&self, c: &NodeContext<'_>) -> usize {
        let widest = c.node.operands.iter().chain(&c.node.results).map(|v| units(c.ty(*v)).1).max().unwrap_or(1);
        match c.node.op {
            Op::Linear | Op::LinearGradInput => c.last(0) * units(c.ty(c.node.results[0])).1 / 4,
            // What a table counts as ten operations are about four simple ones.
            Op::Map => (0.4 * self.programs[&c.step.node].cost()).ceil() as usize * widest,
            Op::Dropout | Op::LayerNormGrad | Op::RmsNormGrad | Op::Softmax => 4 * widest,
            Op::Normal | Op::Uniform => 20 * widest,
            _ => widest,
        }
    }

    fn task(
        &mut self,
        c: &NodeContext<'_>,
        group: &Group,
        blocks: usize,
        partials: &mut Vec<Partial<T>>,
    ) -> StepTask<T> {
        let own = c.node.op.def().by_unit.expect("only such steps are in groups");
        let mut inputs = [const { Lane::Absent }; MOST];
        for (n, &value) in c.node.operands.iter().enumerate().filter(|(n, _)| !own.whole.contains(n)) {
            let width = units(c.ty(value)).1;
            inputs[n] = inner(group, value).map_or_else(
                || Lane::Array(self.memory.real(value).as_ptr().cast_mut(), width),
                |at| Lane::Scratch(at, width),
            );
        }
        let kernel = self.kernel(c);
        let mut outputs = [const { Lane::Absent }; MOST];
        for (n, &value) in c.node.results.iter().enumerate() {
            let width = units(c.ty(value)).1;
            outputs[n] = if own.sums.contains(&n) {
                let mut sums = self.arena.take(blocks * width);
                let start = sums.as_mut_slice().as_mut_ptr();
                partials.push(Partial { sums, value, into: c.step.accumulates_into[n] });
                Lane::Sum(start, width)
            } else if let Some(at) = inner(group, value) {
                Lane::Scratch(at, width)
            } else {
                let mut out = self.fresh(c, n);
                let start = out.as_mut_slice().as_mut_ptr();
                self.put(c, n, out);
                Lane::Array(start, width)
            };
        }
        StepTask { kernel, inputs, outputs }
    }

    fn kernel(&self, c: &NodeContext<'_>) -> StepKernel<T> {
        let whole = |n: usize| std::ptr::from_ref(self.memory.real(c.operand(n)));
        let packed = |orientation| std::ptr::from_ref(&self.packs[&(c.operand(1), orientation)].packed);
        let given = |n: usize| c.node.operands.get(n).map(|_| whole(n));
        let bias = || given(2);
        let part = || c.last(0) / c.get(attribute::PARTS);
        match c.node.op {
            Op::Linear if c.out(0) > linear::NARROW => {
                StepKernel::Linear { w: packed(Orientation::Transposed), bias: bias() }
            }
            Op::Linear => StepKernel::Narrow { w: whole(1), bias: bias() },
            Op::LinearGradInput => StepKernel::GradInput { w: packed(Orientation::Straight) },
            Op::LayerNorm => StepKernel::LayerNorm { gain: whole(1), bias: bias(), eps: c.get(attribute::EPS) },
            Op::LayerNormGrad => StepKernel::LayerNormGrad { gain: whole(1), eps: c.get(attribute::EPS) },
            Op::RmsNorm => StepKernel::RmsNorm { width: part(), gain: given(1), eps: c.get(attribute::EPS) },
            Op::RmsNormGrad => StepKernel::RmsNormGrad { width: part(), gain: given(2), eps: c.get(attribute::EPS) },
            Op::ColumnSum => StepKernel::ColumnSum,
            Op::Affine => StepKernel::Affine { gain: whole(1), bias: bias() },
            Op::Map => StepKernel::Map(&raw const self.programs[&c.step.node]),
            Op::Softmax => StepKernel::Softmax,
            Op::SoftmaxGrad => StepKernel::SoftmaxGrad,
            Op::Reduce => StepKernel::Reduce(c.get(attribute::BY)),
            Op::ReduceMaxGrad => StepKernel::ReduceMaxGrad,
            Op::BroadcastChannels => StepKernel::Broadcast,
            Op::Concat => StepKernel::Concat,
            Op::Slice => StepKernel::Slice(c.get(attribute::START)),
            Op::Pad => StepKernel::Pad(c.get(attribute::START)),
            Op::Dropout => StepKernel::Dropout {
                keep: Keep::new(c.get(attribute::P)),
                key: c.view.key.at(c.get(attribute::STREAM) as u64),
                tied: c.get(attribute::TIED),
            },
            Op::Normal | Op::Uniform => StepKernel::Draw {
                form: NumberDistribution::of(c.node).form(),
                key: c.view.key.at(c.get(attribute::STREAM) as u64),
                by_row: c.get(attribute::DRAWS) == Draws::Row,
            },
            Op::Rotate => {
                let transposed = c.get(attribute::TRANSPOSE);
                StepKernel::Rotate {
                    table: self.tables.get(Rotation::of(&c.node.attrs, c.last(0) / c.get(attribute::HEADS))),
                    heads: c.get(attribute::HEADS),
                    direction: if transposed { Direction::Transposed } else { Direction::Forward },
                    from_row: c.get(attribute::ORIGIN) == Origin::Row,
                }
            }
            other => unreachable!("`{other}` has roles in a group and needs a kernel here"),
        }
    }

    /// Adds up the sums of the blocks into the gradient they belong to, or into a result.
    fn add_up(&mut self, partial: Partial<T>) {
        let sums = partial.sums.as_slice();
        let width = units(self.plan.graph.ty(partial.value)).1;
        if let Some(param) = partial.into {
            let range = self.by_index[param].clone();
            linear::add_rows(sums, &mut self.gradients[range]);
            return;
        }
        let mut out = self.arena.take(width);
        out.as_mut_slice().fill(T::ZERO);
        linear::add_rows(sums, out.as_mut_slice());
        self.memory.set_real(partial.value, out);
    }
}

fn inner(group: &Group, value: Value) -> Option<usize> {
    group.inner.iter().find(|i| i.value == value).map(|i| i.offset)
}

impl<T: Real> GroupInputs<'_, T> {
    fn run(&self, n: usize, scratch: usize) {
        let inner = scratch * self.size;
        T::with_scratch(inner + self.registers, |scratch| {
            let (scratch, registers) = scratch.split_at_mut(inner);
            let scratch = scratch.as_mut_ptr();
            for task in self.tasks {
                // SAFETY: this is the only task for block `n`, and the scratch belongs to this thread.
                unsafe { self.step(task, n, scratch, registers) };
            }
        });
    }

    /// Address and length of the numbers of block `n` in a lane.
    ///
    /// # Safety
    /// The lane is one of this group's, and the scratch as long as the group asks for.
    unsafe fn lane(&self, lane: Lane<T>, n: usize, scratch: *mut T) -> (*mut T, usize) {
        let range = block(n, self.size, self.units);
        // SAFETY: an array has `width` numbers per unit, the scratch `size` units per lane, and a sum one vector per block.
        unsafe {
            match lane {
                Lane::Absent => (std::ptr::dangling_mut(), 0),
                Lane::Array(start, width) => (start.add(range.start * width), range.len() * width),
                Lane::Scratch(at, width) => (scratch.add(at * self.size), range.len() * width),
                Lane::Sum(start, width) => (start.add(n * width), width),
            }
        }
    }

    /// One step on block `n`.
    ///
    /// # Safety
    /// Only one call may run for a block at a time, with a scratch of its own.
    unsafe fn step(&self, task: &StepTask<T>, n: usize, scratch: *mut T, registers: &mut [T]) {
        // SAFETY: the caller's promise; operands are not written while the step runs, and the plan puts results elsewhere.
        unsafe {
            let inputs = task.inputs.map(|lane| {
                let (start, len) = self.lane(lane, n, scratch);
                std::slice::from_raw_parts(start.cast_const(), len)
            });
            let mut outputs = task.outputs.map(|lane| {
                let (start, len) = self.lane(lane, n, scratch);
                let numbers = std::slice::from_raw_parts_mut(start, len);
                if matches!(lane, Lane::Sum(..)) {
                    numbers.fill(T::ZERO);
                }
                numbers
            });
            let count = block(n, self.size, self.units).len();
            if let StepKernel::Map(program) = &task.kernel {
                return (**program).run(&inputs, &mut outputs, registers);
            }
            let [a, b, c, ..] = inputs;
            let [y, y1, y2, ..] = outputs;
            match &task.kernel {
                StepKernel::Map(_) => unreachable!("maps have returned"),
                StepKernel::Linear { w, bias } => linear::linear(a, &**w, bias.map(|b| &*b), y),
                StepKernel::Affine { gain, bias } => channels::affine(a, &**gain, bias.map(|b| &*b), y),
                StepKernel::Narrow { w, bias } => linear::narrow(a, &**w, a.len() / count, bias.map(|b| &*b), y),
                StepKernel::GradInput { w } => product(a, &**w, y, Write::Replace),
                StepKernel::LayerNorm { gain, bias, eps } => norm::layer_norm(a, &**gain, bias.map(|b| &*b), *eps, y),
                StepKernel::LayerNormGrad { gain, eps } => norm::layer_norm_grad(a, &**gain, c, *eps, y, y1, y2),
                StepKernel::RmsNorm { width, gain, eps } => norm::rms_norm(a, *width, gain.map(|g| &*g), *eps, y),
                StepKernel::RmsNormGrad { width, gain, eps } => {
                    norm::rms_norm_grad(a, b, *width, gain.map(|g| &*g), *eps, y, y1);
                }
                StepKernel::ColumnSum => linear::add_rows(a, y),
                StepKernel::Softmax => softmax::softmax(a, a.len() / count, y),
                StepKernel::SoftmaxGrad => softmax::softmax_grad(a, b, a.len() / count, y),
                StepKernel::Reduce(by) => channels::reduce(a, a.len() / count, *by, y),
                StepKernel::ReduceMaxGrad => channels::reduce_max_grad(a, b, b.len() / count, y),
                StepKernel::Broadcast => channels::broadcast(a, y.len() / count, y),
                StepKernel::Concat => channels::concat(a, b, a.len() / count, b.len() / count, y),
                StepKernel::Slice(start) => channels::slice(a, a.len() / count, *start, y.len() / count, y),
                StepKernel::Pad(start) => channels::pad(a, a.len() / count, *start, y.len() / count, y),
                StepKernel::Dropout { keep, key, tied } => self.by_row(n, a, y, |row, first, x, y| {
                    let (width, key) = (a.len() / count, key.at(self.ids[row]));
                    match tied {
                        true => tied_dropout(x, *keep, key, width, y),
                        false => dropout(x, *keep, key, first * width, y),
                    }
                }),
                StepKernel::Draw { form, key, by_row } => self.by_row(n, a, y, |row, first, _, y| {
                    let key = if *by_row { key.at(self.ids[row]) } else { *key };
                    form.fill(key, (self.rows.before() + first) * (a.len() / count), y);
                }),
                StepKernel::Rotate { table, heads, direction, from_row } => {
                    let width = a.len() / count;
                    let e = width / heads;
                    self.by_row(n, a, y, |row, first, x, y| {
                        let origin = if *from_row { self.rows.origin(row) } else { 0 };
                        let turn = |x: &[T], place, y: &mut [T]| {
                            rotate(x, &**table, *heads, e, origin + place, *direction, y);
                        };
                        match self.rows.places(row, first, x.len() / width) {
                            Some(places) => {
                                for ((x, y), place) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(places)
                                {
                                    turn(x, *place, y);
                                }
                            }
                            None => turn(x, self.rows.before() + first, y),
                        }
                    });
                }
            }
        }
    }

    /// Calls `f(row, first unit within the row, x, y)` for the part of every row in block `n`.
    fn by_row(&self, n: usize, x: &[T], y: &mut [T], mut f: impl FnMut(usize, usize, &[T], &mut [T])) {
        let range = block(n, self.size, self.units);
        let width = x.len() / range.len();
        self.rows.each(range.clone(), |row, first, units| {
            let at = (units.start - range.start) * width..(units.end - range.start) * width;
            f(row, first, &x[at.clone()], &mut y[at]);
        });
    }
}

impl NodeContext<'_> {
    /// Channels of a result.
    fn out(&self, n: usize) -> usize {
        units(self.ty(self.node.results[n])).1
    }
}
