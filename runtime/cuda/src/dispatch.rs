//! From a node to a kernel of the device: the one exhaustive match over the op table.

use rtc_compiler::ir::attribute::{self, At, Layout, Probabilities, Side};
use std::ops::Deref;

use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::types::{Dim, Elem, Type};
use rtc_compiler::plan::{Plan, Step};

use super::active_rows::{ActiveRows, AxisName};
use super::device::{KernelArgument, MatrixProduct};
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, DevicePool, address, flag, int, whole};
use super::narrow::named;
use super::value::DeviceValue;
use rtc_exec::choice::{along_rows, counts};
use rtc_exec::machine::Machine;
use rtc_exec::machine::requirements::{given_input, known_labels};
use rtc_exec::storage::Element;
use rtc_exec::{ExecutionFault, loops, node_context};

/// The context of a node while it runs.
#[derive(Clone, Copy)]
pub(super) struct DeviceNodeContext<'a> {
    host: node_context::NodeContext<'a>,
    pub(super) place: &'a ActiveRows,
}

impl<'a> DeviceNodeContext<'a> {
    pub(super) fn new(plan: &'a Plan, step: &'a Step, place: &'a ActiveRows) -> Self {
        let node = plan.graph.node(step.node);
        Self { host: node_context::NodeContext { plan, step, node, view: &place.view }, place }
    }
}

impl<'a> Deref for DeviceNodeContext<'a> {
    type Target = node_context::NodeContext<'a>;

    fn deref(&self) -> &node_context::NodeContext<'a> {
        &self.host
    }
}

impl<T: Element> DeviceExecutor<T> {
    /// Runs one step and puts its results into the table.
    pub(super) fn execute(&mut self, plan: &Plan, step: &Step, place: &ActiveRows) -> Result<(), ExecutionFault> {
        let c = DeviceNodeContext::new(plan, step, place);
        let node = c.node;
        self.begin_step();
        match node.op {
            Op::Param | Op::Yield | Op::Save | Op::Return => {}
            Op::Input => self.input(&c)?,
            Op::Full => self.produce(&c, "fill", &[], &[KernelArgument::Real(c.get(attribute::VALUE))]),
            Op::True => {
                let y = self.pool.take::<u8>(place.view.extent(c.ty(node.results[0])));
                self.pool.each("fill_truth", y.len(), &[y.arg(), KernelArgument::Int(1), whole(y.len())]);
                self.set(node.results[0], DeviceValue::Truth(y));
            }
            Op::StepNumber => {
                let step = f64::from(self.index(c.operand(0)).host[0]);
                self.produce(&c, "fill", &[], &[KernelArgument::Real(step)]);
            }
            Op::DepthOf => {
                let depths = loops::depths(self, plan, step.node, &place.view)?;
                let depths = self.arena.list(depths.iter().map(|depth| T::from_f64(*depth as f64)));
                let depths = self.upload(depths);
                self.set(node.results[0], depths);
            }
            Op::Squeeze | Op::Unsqueeze | Op::Split | Op::Merge | Op::Detach => {
                debug_assert!(node.op.has(Flag::Alias));
                let same = self.handle(c.operand(0));
                self.set(node.results[0], same);
            }

            // What a weight has for a step is a part of it.
            Op::Embed if c.ty(c.operand(0)).dims().is_empty() => {
                let step = self.index(c.operand(0)).host[0] as usize;
                let len = numbers(&c);
                let part = self.real(c.operand(1)).part::<T>(step * len, len);
                self.put(&c, 0, part);
            }
            Op::EmbedGrad if c.ty(c.operand(0)).dims().is_empty() => self.add_at_step(&c),
            Op::Embed => {
                let ids = self.index(c.operand(0)).array(&self.pool).arg();
                let (table, narrow) = (self.real(c.operand(1)).arg(), self.narrow[node.results[0].index()]);
                let y = self.fresh_kept(&c, 0, narrow);
                self.pool.each(
                    &named("embed", narrow),
                    y.len(),
                    &[ids, table, y.arg(), int(c.last(1)), whole(y.len())],
                );
                self.put(&c, 0, y);
            }
            Op::EmbedGrad => self.embed_grad(&c),
            Op::AddPosition => self.add_position(&c)?,
            Op::AddPositionGrad => self.add_position_grad(&c),
            Op::Positions => {
                let axis = place.axis_of(c.ty(c.operand(0)), &self.pool);
                self.produce(&c, "positions", &[], &[axis.row_of.arg(), axis.offsets.arg()]);
            }
            Op::Sinusoid => {
                let waves = waves(&c, c.ty(node.results[0]));
                self.produce(&c, "sinusoid", &self.first::<1>(&c), &waves);
            }
            Op::SinusoidGrad => {
                let waves = waves(&c, c.ty(c.operand(0)));
                self.produce(&c, "sinusoid_grad", &self.first::<2>(&c), &waves);
            }
            Op::Frame => self.frame(&c),
            Op::FrameGrad => self.frame_grad(&c),
            Op::Prefix => self.prefix(&c),
            Op::Unprefix => self.unprefix(&c),
            Op::PrefixGrad => {
                let axis = place.axis_of(c.ty(c.operand(0)), &self.pool);
                let sizes = [axis.offsets.arg(), int(c.last(0)), int(c.last(0) * c.get(attribute::COUNT))];
                self.produce(&c, "prefix_grad", &self.first::<1>(&c), &sizes);
            }
            Op::Transpose => {
                let count = c.get(attribute::COUNT);
                self.transpose(&c, (0, count), (count, c.last(0)))?;
            }
            Op::TransposeBack => {
                let count = c.last(0);
                let width = c.width(0) / count;
                self.transpose(&c, (1, count), (width, count))?;
            }
            Op::PadRagged => self.pad_ragged(&c),
            Op::PadRaggedGrad => self.pad_ragged_grad(&c),
            Op::BroadcastBatch => {
                let x = self.real(c.operand(0));
                self.produce(&c, "repeat", &[x.arg()], &[whole(x.len())]);
            }
            Op::Pair => {
                let d = c.last(0);
                let pairs = numbers(&c) / (4 * d).max(1);
                self.produce_by(&c, "pair", pairs * d, &self.first::<1>(&c), &[int(d), whole(pairs)]);
            }
            Op::PairGrad => {
                let d = c.last(1);
                let pairs = numbers(&c) / (2 * d).max(1);
                let [dy, x] = self.first(&c);
                self.produce_by(&c, "pair_grad", pairs * d, &[x, dy], &[int(d), whole(pairs)]);
            }

            Op::Mean => self.pooled(&c, "pool", &[flag(true)]),
            Op::Sum => self.pooled(&c, "pool", &[flag(false)]),
            Op::Position => self.pooled(&c, "position", &[back(&c)]),
            Op::Max => self.pooled(&c, "max_pool", &[]),
            Op::Shift => {
                let axis = place.axis_of(c.ty(c.operand(0)), &self.pool);
                let behind = flag(c.get(attribute::SIDE) == Side::Right);
                let (d, lag) = (int(channels(&c, c.operand(0))), whole(c.get(attribute::LAG)));
                let sizes = [axis.row_of.arg(), axis.offsets.arg(), d, lag, behind];
                self.produce(&c, "shift", &self.first::<1>(&c), &sizes);
            }
            Op::Top => self.top(&c)?,
            Op::Softmax | Op::SoftmaxGrad => {
                let axis = place.axis_of(c.ty(c.operand(0)), &self.pool);
                self.softmax(&c, axis.offsets.arg(), 1, place.view.rows());
            }
            Op::RunningSum => {
                let (axis, d) = (place.axis_of(c.ty(c.operand(0)), &self.pool), channels(&c, c.operand(0)));
                let count = c.view.rows() * d;
                let back = flag(c.get(attribute::SIDE) == Side::Right);
                let sizes = [axis.offsets.arg(), int(d), back, whole(count)];
                self.produce_by(&c, "running_sum", count, &self.first::<1>(&c), &sizes);
            }
            Op::BroadcastRows => {
                let axis = place.axis_of(c.ty(c.operand(1)), &self.pool);
                let shared = flag(c.get(attribute::SHARED));
                let sizes = [axis.row_of.arg(), axis.offsets.arg(), int(c.width(0)), shared];
                self.produce(&c, "broadcast_rows", &self.first::<1>(&c), &sizes);
            }
            Op::PositionGrad => self.position_grad(&c),
            Op::MaxGrad => self.max_grad(&c),

            Op::Select => self.select(&c),
            Op::MaskUnit => {
                let [row_of, _, width] = self.groups(&c, 0, c.ty(c.operand(1)));
                let when = flag(c.get(attribute::WHEN));
                let (x, condition) = (self.real(c.operand(0)).arg(), self.truth(c.operand(1)).arg());
                self.produce(&c, "mask_unit", &[x, condition, when], &[row_of, width]);
            }
            Op::MulUnit => {
                let [row_of, _, width] = self.groups(&c, 0, c.ty(c.operand(1)));
                self.produce(&c, "mul_unit", &self.first::<2>(&c), &[row_of, width]);
            }
            Op::AddScaled => {
                let [row_of, _, width] = self.groups(&c, 0, c.ty(c.operand(2)));
                self.produce(&c, "add_scaled", &self.first::<3>(&c), &[row_of, width]);
            }
            Op::DotUnit => self.dot_unit(&c),

            Op::Attention => self.attention(&c)?,
            Op::AttentionGrad => self.attention_grad(&c)?,
            Op::GeometricAttention => self.geometric_attention(&c),
            Op::TopKeys => self.top_keys(&c),
            Op::GeometricAttentionGrad => self.geometric_attention_grad(&c),
            Op::Scan => self.scan(&c),
            Op::Neighbours => self.neighbours(&c),
            Op::NeighboursGrad => self.neighbours_grad(&c),
            Op::Matmul => {
                let ([rows, inner, columns], side) = (c.matrices(), node.find(attribute::TRANSPOSED));
                let (of_row, of_sum) = if side == Some(Side::Left) { (1, rows) } else { (inner, 1) };
                let (from_sum, from_column) = if side == Some(Side::Right) { (1, inner) } else { (columns, 1) };
                let sizes = [rows, inner, columns, of_row, of_sum, from_sum, from_column].map(int);
                self.produce(&c, "matmul", &self.first::<2>(&c), &sizes);
            }
            Op::SlotGet => self.slot_get(&c),
            Op::SlotSet => self.put_slot(&c),
            Op::ScanGrad => self.scan_grad(&c),

            Op::HaltTest => self.halt_test(&c),
            Op::And => {
                let [a, b] = [0, 1].map(|n| self.truth(c.operand(n)));
                let y = self.pool.take::<u8>(a.len());
                self.pool.each("both", y.len(), &[a.arg(), b.arg(), y.arg(), whole(y.len())]);
                self.set(node.results[0], DeviceValue::Truth(y));
            }
            Op::Any => {
                let units = place.units(c.ty(c.operand(0)).dims(), &self.pool);
                let offsets = address(units.axis.as_ref().map(|axis| &axis.offsets));
                let x = self.truth(c.operand(0)).arg();
                self.per_row(&c, "any", &[x], &[offsets, int(units.per)]);
            }
            Op::LongerThanOne => {
                let axis = place.axis_of(c.ty(c.operand(0)), &self.pool);
                self.per_row(&c, "longer_than_one", &[], &[axis.offsets.arg()]);
            }

            Op::CrossEntropyEach if c.is_binary(0) => {
                self.of_labels(&c, "binary_cross_entropy_each", DevicePool::each, &[]);
            }
            Op::CrossEntropyEachGrad if c.is_binary(1) => {
                self.of_labels_grad(&c, "binary_cross_entropy_each_grad", DevicePool::each, &[]);
            }
            Op::CrossEntropyEach => {
                let kind = self.classes(&c, 0)?;
                self.of_labels(&c, "cross_entropy_each", DevicePool::each_warp, &kind);
            }
            Op::CrossEntropyEachGrad => {
                let kind = self.classes(&c, 1)?;
                self.of_labels_grad(&c, "cross_entropy_each_grad", DevicePool::each_warp, &kind);
            }
            Op::Right => {
                let classes = self.real(c.operand(0)).len() / numbers(&c).max(1);
                self.of_labels(&c, "right", DevicePool::each_warp, &[int(classes)]);
            }
            Op::Average => self.average(&c),
            Op::AverageGrad => match c.node.operands.get(2).map(|weights| self.real(*weights)) {
                Some(weights) => {
                    let total = self.total(Some(&weights), weights.len());
                    let upstream = self.real(c.operand(0)).arg();
                    self.produce(&c, "weighted_average_grad", &[upstream, weights.arg(), total.arg()], &[]);
                }
                None => self.produce(&c, "average_grad", &self.first::<1>(&c), &[]),
            },

            Op::Recur | Op::Chunks | Op::Fold | Op::Beam | Op::Part | Op::Unwind => loops::run(self, step, place)?,

            Op::LinearGradWeight => self.weight_grad(&c),
            Op::SumBatch => {
                let (x, (y, add)) = (self.real(c.operand(0)), self.target(&c, 0));
                self.sum_rows(&x, &y, x.len() / y.len().max(1), y.len(), add);
            }
            Op::Accumulate => {
                let name = c.get(attribute::PARAM);
                if let Some(n) = plan.parameters.iter().position(|p| p.name == name) {
                    self.pool.add(&self.real(c.operand(0)), &self.gradient(n));
                }
            }

            Op::Linear | Op::LayerNorm | Op::RmsNorm | Op::Affine | Op::Map | Op::Dropout | Op::Rotate => in_group(),
            Op::Concat | Op::Slice | Op::Pad | Op::LinearGradInput | Op::ColumnSum => in_group(),
            Op::LayerNormGrad | Op::RmsNormGrad | Op::Reduce | Op::ReduceMaxGrad | Op::BroadcastChannels => in_group(),
            Op::Normal | Op::Uniform => in_group(),
        }
        Ok(())
    }

    /// A new array for the n-th result.
    pub(super) fn fresh(&self, c: &DeviceNodeContext<'_>, n: usize) -> DeviceArray {
        self.fresh_kept(c, n, false)
    }

    pub(super) fn put(&mut self, c: &DeviceNodeContext<'_>, n: usize, array: DeviceArray) {
        self.set(c.node.results[n], DeviceValue::Real(array));
    }

    /// Puts all results.
    pub(super) fn put_all<const N: usize>(&mut self, c: &DeviceNodeContext<'_>, arrays: [DeviceArray; N]) {
        arrays.into_iter().enumerate().for_each(|(n, array)| self.put(c, n, array));
    }

    /// Where the n-th result goes, and whether it is added to what is there: the gradient of a parameter, or an array of its own.
    pub(super) fn target(&mut self, c: &DeviceNodeContext<'_>, n: usize) -> (DeviceArray, bool) {
        self.target_kept(c, n, false)
    }

    /// The same; an array of its own is in 16 bits if it is narrow.
    pub(super) fn target_kept(&mut self, c: &DeviceNodeContext<'_>, n: usize, narrow: bool) -> (DeviceArray, bool) {
        match c.step.accumulates_into[n] {
            Some(parameter) => (self.gradient(parameter), true),
            None => {
                let out = self.fresh_kept(c, n, narrow);
                self.put(c, n, out.clone());
                (out, false)
            }
        }
    }

    /// A kernel with a thread per number of its one result: operands, the result, sizes, the count.
    pub(super) fn produce(
        &mut self,
        c: &DeviceNodeContext<'_>,
        kernel: &str,
        operands: &[KernelArgument],
        sizes: &[KernelArgument],
    ) {
        let count = numbers(c);
        self.produce_by(c, kernel, count, operands, &[sizes, &[whole(count)]].concat());
    }

    /// A kernel with so many threads and one result: operands, the result, sizes.
    fn produce_by(
        &mut self,
        c: &DeviceNodeContext<'_>,
        kernel: &str,
        threads: usize,
        operands: &[KernelArgument],
        sizes: &[KernelArgument],
    ) {
        let y = self.fresh(c, 0);
        self.pool.each(kernel, threads, &[operands, &[y.arg()], sizes].concat());
        self.put(c, 0, y);
    }

    /// The addresses of the first operands, which are real.
    pub(super) fn first<const N: usize>(&self, c: &DeviceNodeContext<'_>) -> [KernelArgument; N] {
        std::array::from_fn(|n| self.real(c.operand(n)).arg())
    }

    /// A kernel with a thread per row and a truth value as its result.
    pub(super) fn per_row(
        &mut self,
        c: &DeviceNodeContext<'_>,
        kernel: &str,
        operands: &[KernelArgument],
        sizes: &[KernelArgument],
    ) {
        let y = self.pool.take::<u8>(c.view.rows());
        let args = [operands, &[y.arg()], sizes, &[whole(y.len())]].concat();
        self.pool.each(kernel, y.len(), &args);
        self.set(c.node.results[0], DeviceValue::Truth(y));
    }

    /// From rows of positions to one vector per row.
    fn pooled(&mut self, c: &DeviceNodeContext<'_>, kernel: &str, more: &[KernelArgument]) {
        let (axis, d) = (c.place.axis_of(c.ty(c.operand(0)), &self.pool), channels(c, c.operand(0)));
        self.produce(c, kernel, &self.first::<1>(c), &[&[axis.offsets.arg(), int(d)], more].concat());
    }

    fn position_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let (axis, d) = (c.place.axis_of(c.ty(c.operand(1)), &self.pool), channels(c, c.operand(1)));
        let sizes = [axis.row_of.arg(), axis.offsets.arg(), int(d), back(c)];
        self.produce(c, "position_grad", &self.first::<1>(c), &sizes);
    }

    fn max_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let (axis, d) = (c.place.axis_of(c.ty(c.operand(1)), &self.pool), channels(c, c.operand(1)));
        let ([dy, x], count) = (self.first(c), c.view.rows() * d);
        self.produce_by(c, "max_pool_grad", count, &[x, dy], &[axis.offsets.arg(), int(d), whole(count)]);
    }

    /// How the numbers of operand `x` belong to units: `row_of, offsets, width`.
    fn groups(&self, c: &DeviceNodeContext<'_>, x: usize, units: &Type) -> [KernelArgument; 3] {
        let (dims, unit) = (c.ty(c.operand(x)).dims(), units.dims());
        let width = |dims: &[Dim]| whole(dims.iter().filter_map(Dim::fixed).product::<usize>());
        match dims.get(unit.len()) {
            Some(Dim::Sym(axis)) if unit.len() == 1 => {
                let axis = c.place.axis(&AxisName::Ragged(axis.as_str().into()), &self.pool);
                [axis.row_of.arg(), axis.offsets.arg(), width(&dims[unit.len() + 1..])]
            }
            _ => [KernelArgument::Address(0), KernelArgument::Address(0), width(&dims[unit.len()..])],
        }
    }

    /// The most numbers of operand `x` that belong to one unit.
    fn longest_unit(&self, c: &DeviceNodeContext<'_>, x: usize, units: &Type) -> usize {
        let within = &c.ty(c.operand(x)).dims()[units.dims().len()..];
        let length = |dim: &Dim| match dim {
            Dim::Sym(axis) => c.place.axis(&AxisName::Ragged(axis.as_str().into()), &self.pool).longest,
            fixed => fixed.fixed().unwrap_or(1),
        };
        within.iter().map(length).product()
    }

    fn select(&mut self, c: &DeviceNodeContext<'_>) {
        let condition = self.truth(c.operand(0)).arg();
        if c.ty(c.operand(1)).elem() == Some(Elem::Real) {
            let [row_of, _, width] = self.groups(c, 1, c.ty(c.operand(0)));
            let [a, b] = [1, 2].map(|n| self.real(c.operand(n)).arg());
            return self.produce(c, "select", &[condition, a, b], &[row_of, width]);
        }
        let [a, b] = [1, 2].map(|n| self.truth(c.operand(n)));
        let y = self.pool.take::<u8>(a.len());
        self.pool.each("select_truth", y.len(), &[condition, a.arg(), b.arg(), y.arg(), whole(y.len())]);
        self.set(c.node.results[0], DeviceValue::Truth(y));
    }

    /// Softmax or its gradient over the numbers of every unit, `width` of them where there are no offsets.
    pub(super) fn softmax(&mut self, c: &DeviceNodeContext<'_>, offsets: KernelArgument, width: usize, units: usize) {
        let y = self.fresh(c, 0);
        let operands: Vec<KernelArgument> = c.node.operands.iter().map(|v| self.real(*v).arg()).collect();
        let args = [&operands[..], &[y.arg(), offsets, whole(width), whole(units)]].concat();
        self.pool.each_warp(c.node.op.def().name, units, &args);
        self.put(c, 0, y);
    }

    fn top(&mut self, c: &DeviceNodeContext<'_>) -> Result<(), ExecutionFault> {
        let step = c.node.operands.last().filter(|v| c.ty(**v).elem() == Some(Elem::Index));
        let step = step.map_or(0, |step| self.index(*step).host[0]);
        let (ty, x) = (c.ty(c.operand(0)), self.real(c.operand(0)));
        let host = ty.ragged().filter(|_| along_rows(ty)).map(|axis| c.view.axis(axis).clone());
        let counts = counts(self.exprs.get(&c.step.node), c.node, host.as_deref(), step, c.view.arena())?;
        let counts: Vec<u32> = counts.iter().map(|n| u32::try_from((*n).max(1)).unwrap_or(u32::MAX)).collect();
        let by_row = flag(counts.len() > 1);
        let counts = self.pool.upload(&counts);
        let axis = host.is_some().then(|| c.place.axis_of(ty, &self.pool));
        let real = |v: &&Value| c.ty(**v).is_real();
        let among = c.node.operands.get(1).filter(real).map(|v| self.real(*v));
        let y = self.fresh(c, 0);
        let [row_of, offsets] = [axis.as_ref().map(|a| &a.row_of), axis.as_ref().map(|a| &a.offsets)].map(address);
        let args = [x.arg(), address(among.as_ref()), y.arg(), row_of, offsets, whole(c.last(0)), counts.arg(), by_row];
        self.pool.each("top", y.len(), &[&args[..], &[whole(y.len())]].concat());
        self.put(c, 0, y);
        Ok(())
    }

    /// Long units, as the states of a row, are summed in pieces, so that a few of them keep all processors busy.
    fn dot_unit(&mut self, c: &DeviceNodeContext<'_>) {
        /// Numbers that a warp sums at most.
        const PIECE: usize = 1 << 10;
        let (y, units) = (self.fresh(c, 0), c.ty(c.node.results[0]));
        let [_, offsets, width] = self.groups(c, 0, units);
        let pieces = self.longest_unit(c, 0, units).div_ceil(PIECE).max(1);
        let sums = if pieces == 1 { y.clone() } else { self.pool.take::<T>(y.len() * pieces) };
        let [a, b] = self.first(c);
        let args = [a, b, sums.arg(), offsets, width, whole(pieces), whole(PIECE), whole(sums.len())];
        self.pool.each_warp("dot_unit", sums.len(), &args);
        if pieces > 1 {
            let args = [sums.arg(), y.arg(), int(pieces), flag(false), whole(y.len())];
            self.pool.each_warp("channel_sum", y.len(), &args);
        }
        self.put(c, 0, y);
    }

    fn input(&mut self, c: &DeviceNodeContext<'_>) -> Result<(), ExecutionFault> {
        let name = c.get(attribute::NAME);
        let len = |val: &DeviceValue<T>| match val {
            DeviceValue::Real(x) => x.len(),
            DeviceValue::Index(ids) => ids.host.len(),
            DeviceValue::Truth(_) | DeviceValue::Tape(_) => 0,
        };
        let val = given_input(&self.inputs, name, numbers(c), len)?;
        self.set(c.node.results[0], val);
        Ok(())
    }

    fn halt_test(&mut self, c: &DeviceNodeContext<'_>) {
        let t = self.real(c.operand(0));
        let units = c.place.units(c.ty(c.operand(0)).dims(), &self.pool);
        let cap = c.node.find(attribute::CAP);
        let cap = cap.map(|axis| c.place.axis(&AxisName::Ragged(axis.into()), &self.pool));
        let step = self.index(c.operand(1)).host[0] as usize;
        let go = self.pool.take::<u8>(t.len());
        let [row_of, _, per] = units.args();
        let cap = address(cap.as_ref().map(|axis| &axis.offsets));
        let threshold = KernelArgument::Real(c.get(attribute::THRESHOLD));
        self.pool.each(
            "halt_test",
            go.len(),
            &[t.arg(), go.arg(), row_of, per, cap, whole(step), threshold, whole(go.len())],
        );
        self.set(c.node.results[0], DeviceValue::Truth(go));
    }

    fn ratio(&mut self, c: &DeviceNodeContext<'_>, sum: &DeviceArray, total: &DeviceArray) {
        let y = self.fresh(c, 0);
        self.pool.each("ratio", 1, &[sum.arg(), total.arg(), y.arg()]);
        self.put(c, 0, y);
    }

    /// The sum of the weights of some items.
    fn total(&self, weights: Option<&DeviceArray>, items: usize) -> DeviceArray {
        weights.map_or_else(|| self.pool.upload(&[items as f64]), |weights| self.pool.sum(weights, false))
    }

    fn average(&mut self, c: &DeviceNodeContext<'_>) {
        let x = self.real(c.operand(0));
        let (sum, total) = match c.node.operands.get(1).map(|weights| self.real(*weights)) {
            Some(weights) => {
                let weighed = self.pool.take::<f64>(x.len());
                self.pool.each("weigh", x.len(), &[x.arg(), weights.arg(), weighed.arg(), whole(x.len())]);
                (self.pool.sum_doubles(&weighed), self.total(Some(&weights), x.len()))
            }
            None => (self.pool.sum(&x, false), self.pool.upload(&[x.len() as f64])),
        };
        self.ratio(c, &sum, &total);
    }

    /// What kernels of classes are told of the logits, operand `n`: how they make probabilities, and how many there are of a unit. Refuses
    /// labels without a logit.
    fn classes(&self, c: &DeviceNodeContext<'_>, n: usize) -> Result<[KernelArgument; 2], ExecutionFault> {
        known_labels(&self.index(c.operand(n + 1)).host, c.last(n))?;
        Ok([flag(c.get(attribute::PROBABILITIES) == Probabilities::Stablemax), int(c.last(n))])
    }

    /// A number for every label, by a kernel with a thread or a warp for each.
    fn of_labels(&mut self, c: &DeviceNodeContext<'_>, kernel: &str, start: KernelStart, sizes: &[KernelArgument]) {
        let (count, labels) = (numbers(c), self.index(c.operand(1)).array(&self.pool).arg());
        let y = self.fresh(c, 0);
        let given = [self.real(c.operand(0)).arg(), labels, y.arg()];
        start(&self.pool, kernel, count, &[&given[..], sizes, &[whole(count)]].concat());
        self.put(c, 0, y);
    }

    /// The gradient of such an op, with operands `dy`, logits and labels.
    fn of_labels_grad(
        &mut self,
        c: &DeviceNodeContext<'_>,
        kernel: &str,
        start: KernelStart,
        sizes: &[KernelArgument],
    ) {
        let labels = self.index(c.operand(2));
        let (count, labels) = (labels.host.len(), labels.array(&self.pool).arg());
        let ([dy, logits], d) = (self.first(c), self.fresh(c, 0));
        start(&self.pool, kernel, count, &[&[dy, logits, labels, d.arg()][..], sizes, &[whole(count)]].concat());
        self.put(c, 0, d);
    }

    /// The gradient of a weight for one of its steps.
    fn add_at_step(&mut self, c: &DeviceNodeContext<'_>) {
        let (step, dy) = (self.index(c.operand(0)).host[0] as usize, self.real(c.operand(1)));
        let (y, add) = self.target(c, 0);
        if !add {
            self.pool.device().clear(y.at(), y.len() * size_of::<T>());
        }
        self.pool.add(&dy, &y.part::<T>(step * dy.len(), dy.len()));
    }

    fn weight_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let own = match self.bundles.outside.get(&c.step.node) {
            Some(steps) => steps.iter().map(|(region, n)| &c.plan.regions[*region].steps[*n]).collect(),
            None => vec![c.step],
        };
        let rows = self.stored(c.operand(0)).len() / c.last(0).max(1);
        let product = |step: &Step| self.product(&DeviceNodeContext::new(c.plan, step, c.place), rows);
        let products: Vec<MatrixProduct> = own.into_iter().map(product).collect();
        self.pool.multiply_all::<T>(&products);
    }
}

/// Starts a kernel: with a thread for each of some things, or with a warp.
type KernelStart = fn(&DevicePool, &str, usize, &[KernelArgument]);

/// The numbers of the first result.
fn numbers(c: &DeviceNodeContext<'_>) -> usize {
    c.view.extent(c.ty(c.node.results[0]))
}

/// How many numbers each position of a value has.
pub(super) fn channels(c: &DeviceNodeContext<'_>, value: Value) -> usize {
    c.ty(value).dims().iter().skip(2).filter_map(Dim::fixed).product()
}

/// What the kernels of sines and cosines are told: their layout, the base, and how many channels there are.
fn waves(c: &DeviceNodeContext<'_>, channels: &Type) -> [KernelArgument; 3] {
    let half = flag(c.get(attribute::LAYOUT) == Layout::Half);
    [half, KernelArgument::Real(c.get(attribute::BASE)), int(channels.dims().last().and_then(Dim::fixed).unwrap_or(1))]
}

/// How far before the end of a row the position is that `at` names; 0 for the first one.
fn back(c: &DeviceNodeContext<'_>) -> KernelArgument {
    int(match c.get(attribute::AT) {
        At::First => 0,
        At::Last => 1,
        At::BeforeLast => 2,
    })
}

fn in_group() {
    unreachable!("steps that work unit by unit are in groups")
}

impl<T: Element> DeviceExecutor<T> {
    /// Some operands as they are kept if all of them, and the n-th result, are kept in 16 bits; else as they are computed with.
    pub(super) fn kept<const N: usize>(
        &self,
        c: &DeviceNodeContext<'_>,
        operands: [usize; N],
        result: usize,
    ) -> ([DeviceArray; N], bool) {
        let narrow = self.narrow[c.node.results[result].index()];
        let narrow = narrow && operands.iter().all(|n| self.stored(c.operand(*n)).is_narrow());
        (operands.map(|n| if narrow { self.stored(c.operand(n)) } else { self.real(c.operand(n)) }), narrow)
    }

    /// A new array for the n-th result, in 16 bits if it is narrow.
    pub(super) fn fresh_kept(&self, c: &DeviceNodeContext<'_>, n: usize, narrow: bool) -> DeviceArray {
        let value = c.node.results[n];
        self.bundles.room::<T>(value, c.view.extent(c.ty(value)), narrow, &self.pool)
    }

    /// Makes the copy of the weights in 16 bits that products of narrow values read.
    pub(super) fn narrow_weights(&self) {
        if let Some(weights) = &self.narrow_weights {
            self.pool.narrow(&self.parameters, weights);
        }
    }

    /// A weight in 16 bits, if it is a parameter and there are such.
    pub(super) fn narrow_weight(&self, value: Value) -> Option<DeviceArray> {
        let range = self.ranges[value.index()].as_ref()?;
        Some(self.narrow_weights.as_ref()?.part::<T>(range.start, range.len()))
    }
}
