//! Steps that work unit by unit: chains, products, norms, channels, rotations.

use rtc_compiler::ir::attribute::{self, Draws, Origin, Reduction};
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Attr;
use rtc_compiler::plan::group::{Group, units};
use rtc_compiler::plan::{Plan, Step};

use super::active_rows::ActiveRows;
use super::device::{DeviceMatrix, KernelArgument, MatrixProduct};
use super::dispatch::DeviceNodeContext;
use super::embed::grown;
use super::exec::DeviceExecutor;
use super::fusion::KernelChain;
use super::memory::{DeviceArray, WARP, address, blocks, flag, int, whole};
use super::narrow::named;
use super::value::DeviceValue;
use rtc_exec::storage::Element;
use rtc_kernel::draw::NumberDistribution;
use rtc_kernel::position::Rotation;

/// The grid of blocks into which a sum over rows is cut.
struct SumGrid {
    /// Columns of a block.
    across: usize,
    grid: [u32; 3],
    threads: u32,
}

impl SumGrid {
    /// Blocks that are enough for a device. More columns of a block read longer pieces of a row, and leave fewer blocks.
    const BLOCKS: usize = 128;
    /// Numbers of a sector, the least that a device reads.
    const SECTOR: usize = 8;
    /// Threads of a block at most, as the kernels have room for.
    const THREADS: usize = 1024;

    fn of(rows: usize, d: usize) -> Self {
        let mut across = d.next_power_of_two().min(WARP as usize);
        while across > Self::SECTOR && d.div_ceil(across) < Self::BLOCKS {
            across /= 2;
        }
        let threads = (across * rows.next_power_of_two()).clamp(WARP as usize, Self::THREADS);
        Self { across, grid: [blocks(d, across), 1, 1], threads: threads as u32 }
    }

    fn sizes(&self, rows: usize, d: usize) -> [KernelArgument; 3] {
        [int(d), whole(rows), int(self.across)]
    }
}

impl<T: Element> DeviceExecutor<T> {
    /// Some steps in one kernel.
    pub(super) fn run_chain(&mut self, plan: &Plan, chain: &KernelChain, group: &Group, place: &ActiveRows) {
        let count = place.view.extent(plan.graph.ty(chain.like));
        let inputs: Vec<DeviceArray> = chain.inputs.iter().map(|v| self.stored(*v)).collect();
        let mut args: Vec<KernelArgument> = inputs.iter().map(DeviceArray::arg).collect();
        let mut kept: Vec<bool> = inputs.iter().map(DeviceArray::is_narrow).collect();
        // Operands stay alive while the kernel is started: the table holds them.
        for output in &chain.outputs {
            let y = self.bundles.room::<T>(*output, count, self.narrow[output.index()], &self.pool);
            args.push(y.arg());
            kept.push(y.is_narrow());
            self.set(*output, DeviceValue::Real(y));
        }
        if chain.any_width {
            args.push(whole(kept.iter().rev().fold(0, |bits, narrow| 2 * bits + usize::from(*narrow))));
        }
        if !chain.streams.is_empty() {
            args.push(place.ids(&self.pool).arg());
            args.extend(place.units(&group.units, &self.pool).args());
            let keys: Vec<u64> = chain.streams.iter().map(|stream| place.view.key.at(*stream).value()).collect();
            args.push(self.pool.upload(&keys).arg());
        }
        args.push(whole(count));
        self.pool.each(&chain.kernel.name, count, &args);
    }

    /// A step of a group by itself.
    pub(super) fn by_unit(&mut self, plan: &Plan, step: &Step, group: &Group, place: &ActiveRows) {
        let c = DeviceNodeContext::new(plan, step, place);
        let rows = place.view.units(&group.units);
        let channels = |v: Value| units(plan.graph.ty(v)).1;
        let [x, result] = [c.operand(0), c.node.results[0]];
        match c.node.op {
            Op::Linear | Op::LinearGradInput => {
                let product = self.product(&c, rows);
                self.pool.multiply::<T>(product);
            }
            Op::LayerNorm => {
                let ([own], narrow) = self.kept(&c, [0], 0);
                let y = self.fresh_kept(&c, 0, narrow);
                let args = [
                    own.arg(),
                    self.real(c.operand(1)).arg(),
                    self.given(&c, 2),
                    y.arg(),
                    KernelArgument::Real(c.get(attribute::EPS)),
                    int(channels(x)),
                    whole(rows),
                ];
                self.pool.each_warp(&named("layer_norm", narrow), rows, &args);
                self.put(&c, 0, y);
            }
            Op::LayerNormGrad => self.layer_norm_grad(&c, rows, channels(x)),
            Op::RmsNorm => {
                let ([own], narrow) = self.kept(&c, [0], 0);
                let (y, parts) = (self.fresh_kept(&c, 0, narrow), c.get(attribute::PARTS));
                let (eps, width) = (KernelArgument::Real(c.get(attribute::EPS)), int(channels(x) / parts));
                let args = [own.arg(), self.given(&c, 1), y.arg(), eps, width, whole(rows * parts)];
                self.pool.each_warp(&named("rms_norm", narrow), rows * parts, &args);
                self.put(&c, 0, y);
            }
            Op::RmsNormGrad => {
                let parts = c.get(attribute::PARTS);
                self.rms_norm_grad(&c, rows * parts, channels(x) / parts);
            }
            Op::Softmax | Op::SoftmaxGrad => self.softmax(&c, KernelArgument::Address(0), channels(x), rows),
            Op::Reduce => {
                let (y, d) = (self.fresh(&c, 0), channels(x));
                let by = c.get(attribute::BY);
                let args = [self.real(x).arg(), y.arg(), int(d)];
                match by {
                    Reduction::Max => {
                        self.pool.each("largest_channel", rows, &[&args[..], &[whole(rows)]].concat());
                    }
                    Reduction::Sum | Reduction::Mean => {
                        let mean = flag(by == Reduction::Mean);
                        self.pool.each_warp("channel_sum", rows, &[&args[..], &[mean, whole(rows)]].concat());
                    }
                }
                self.put(&c, 0, y);
            }
            Op::ReduceMaxGrad => {
                let (dx, d) = (self.fresh(&c, 0), int(channels(result)));
                let args = [self.real(x).arg(), self.real(c.operand(1)).arg(), dx.arg(), d, whole(rows)];
                self.pool.each("largest_channel_grad", rows, &args);
                self.put(&c, 0, dx);
            }
            Op::BroadcastChannels => {
                self.produce(&c, "broadcast_channels", &self.first::<1>(&c), &[int(channels(result))]);
            }
            Op::ColumnSum => {
                let (y, add) = self.target(&c, 0);
                self.sum_all_rows(&[(self.stored(x), y, add)], rows, channels(x));
            }
            Op::Concat => {
                let (m, n) = (channels(x), channels(c.operand(1)));
                self.produce(&c, "concat", &self.first::<2>(&c), &[int(m), int(n)]);
            }
            Op::Slice | Op::Pad => {
                let kernel = if c.node.op == Op::Slice { "slice" } else { "pad" };
                let sizes = [int(channels(x)), int(c.get(attribute::START)), int(channels(result))];
                self.produce(&c, kernel, &self.first::<1>(&c), &sizes);
            }
            Op::Rotate => self.rotate(&c, group, channels(x)),
            Op::Normal | Op::Uniform => self.draw(&c, group, channels(x)),
            other => unreachable!("`{other}` works unit by unit and needs a kernel here"),
        }
    }

    /// The address of an operand that may be left out.
    fn given(&self, c: &DeviceNodeContext<'_>, n: usize) -> KernelArgument {
        address(c.node.operands.get(n).map(|v| self.real(*v)).as_ref())
    }

    /// Steps of a group whose products, or sums over rows, are one.
    pub(super) fn bundle(&mut self, plan: &Plan, steps: &[Step], own: &[usize], group: &Group, place: &ActiveRows) {
        let rows = place.view.units(&group.units);
        let steps: Vec<_> = own.iter().map(|step| DeviceNodeContext::new(plan, &steps[*step], place)).collect();
        if steps[0].node.op != Op::ColumnSum {
            let products: Vec<MatrixProduct> = steps.iter().map(|c| self.product(c, rows)).collect();
            return self.pool.multiply_all::<T>(&products);
        }
        let d = units(steps[0].ty(steps[0].operand(0))).1;
        let sum = |c: &DeviceNodeContext<'_>| {
            let (y, add) = self.target(c, 0);
            (self.stored(c.operand(0)), y, add)
        };
        let sums: Vec<_> = steps.iter().map(sum).collect();
        self.sum_all_rows(&sums, rows, d);
    }

    /// The product of a linear map, or of one of its gradients; its result has a place now.
    pub(super) fn product(&mut self, c: &DeviceNodeContext<'_>, rows: usize) -> MatrixProduct {
        let width = |v: Value| units(c.ty(v)).1;
        let [inner, outer] = [width(c.operand(0)), width(c.node.results[0])];
        let weighted = c.node.op != Op::LinearGradWeight;
        let kept = match weighted {
            true => self.narrow_weight(c.operand(1)).filter(|_| self.stored(c.operand(0)).is_narrow()),
            false => Some(self.stored(c.operand(1))).filter(|x| x.is_narrow() && self.stored(c.operand(0)).is_narrow()),
        };
        let narrow = kept.is_some();
        let left = if narrow { self.stored(c.operand(0)) } else { self.real(c.operand(0)) };
        let right = kept.unwrap_or_else(|| self.real(c.operand(1)));
        // Gradients of weights are sums over all rows, in single precision.
        let narrow_result = narrow && weighted && self.narrow[c.node.results[0].index()];
        let (y, add) = self.target_kept(c, 0, narrow_result);
        let (a, b, sizes) = match c.node.op {
            Op::Linear => (
                DeviceMatrix::straight(left.at(), inner),
                DeviceMatrix::turned(right.at(), inner),
                [rows, outer, inner],
            ),
            Op::LinearGradInput => (
                DeviceMatrix::straight(left.at(), inner),
                DeviceMatrix::straight(right.at(), outer),
                [rows, outer, inner],
            ),
            _ => (
                DeviceMatrix::turned(left.at(), inner),
                DeviceMatrix::straight(right.at(), outer),
                [inner, outer, rows],
            ),
        };
        let bias = c.node.operands.get(2).filter(|_| c.node.op == Op::Linear).map(|bias| {
            let own = if narrow_result { self.narrow_weight(*bias) } else { None };
            own.unwrap_or_else(|| self.real(*bias)).at()
        });
        let product = MatrixProduct::new(a.kept(narrow), b.kept(narrow), y.at(), sizes).biased(bias).adding(add);
        MatrixProduct { narrow: narrow_result, ..product }
    }

    fn layer_norm_grad(&mut self, c: &DeviceNodeContext<'_>, rows: usize, d: usize) {
        let ([x, dy], narrow) = self.kept(c, [0, 2], 0);
        let (gain, dx) = (self.real(c.operand(1)), self.fresh_kept(c, 0, narrow));
        let (means, scales) = (self.pool.take::<T>(rows), self.pool.take::<T>(rows));
        let (eps, size) = (KernelArgument::Real(c.get(attribute::EPS)), int(d));
        let args = [x.arg(), gain.arg(), dy.arg(), dx.arg(), means.arg(), scales.arg(), eps, size, whole(rows)];
        self.pool.each_warp(&named("layer_norm_grad", narrow), rows, &args);
        self.put(c, 0, dx);
        self.norm_columns(c, [&x, &dy], Some(&means), &scales, rows, d);
    }

    fn rms_norm_grad(&mut self, c: &DeviceNodeContext<'_>, rows: usize, d: usize) {
        let ([x, dy], narrow) = self.kept(c, [0, 1], 0);
        let (dx, scales) = (self.fresh_kept(c, 0, narrow), self.pool.take::<T>(rows));
        let (eps, size) = (KernelArgument::Real(c.get(attribute::EPS)), int(d));
        let args = [x.arg(), self.given(c, 2), dy.arg(), dx.arg(), scales.arg(), eps, size, whole(rows)];
        self.pool.each_warp(&named("rms_norm_grad", narrow), rows, &args);
        self.put(c, 0, dx);
        if c.node.results.len() > 1 {
            self.norm_columns(c, [&x, &dy], None, &scales, rows, d);
        }
    }

    /// The gradients of the gain and, where there is such a result, of the bias of a norm. Without means it has none taken off.
    fn norm_columns(
        &mut self,
        c: &DeviceNodeContext<'_>,
        [x, dy]: [&DeviceArray; 2],
        means: Option<&DeviceArray>,
        scales: &DeviceArray,
        rows: usize,
        d: usize,
    ) {
        let [gains, biases] = [1, 2].map(|n| (n < c.node.results.len()).then(|| self.target(c, n)));
        let sum = |of: &Option<(DeviceArray, bool)>| {
            [address(of.as_ref().map(|(y, _)| y)), flag(of.as_ref().is_some_and(|(_, add)| *add))]
        };
        let cut = SumGrid::of(rows, d);
        let given = [x.arg(), dy.arg(), address(means), scales.arg()];
        let args = [&given[..], &sum(&gains), &sum(&biases), &cut.sizes(rows, d)].concat();
        self.pool.start(&named("norm_columns", x.is_narrow()), cut.grid, cut.threads, &args);
    }

    /// `y (+)=` the sum over the rows of `x[rows, d]`.
    pub(super) fn sum_rows(&self, x: &DeviceArray, y: &DeviceArray, rows: usize, d: usize, add: bool) {
        self.sum_all_rows(&[(x.clone(), y.clone(), add)], rows, d);
    }

    /// The same of several arrays, as one where they are kept alike and equally far apart.
    fn sum_all_rows(&self, sums: &[(DeviceArray, DeviceArray, bool)], rows: usize, d: usize) {
        let place = |(x, y, add): &(DeviceArray, DeviceArray, bool)| (x.is_narrow(), x.at(), y.at(), *add);
        let mut rest = sums;
        while let [first, ..] = rest {
            let (narrow, x, y, add) = place(first);
            let apart =
                rest.get(1).map_or((0, 0), |(next, to, _)| (next.at().wrapping_sub(x), to.at().wrapping_sub(y)));
            let nth = |n: u64| (narrow, x.wrapping_add(n * apart.0), y.wrapping_add(n * apart.1), add);
            let count = rest.iter().zip(0..).take_while(|(sum, n)| place(sum) == nth(*n)).count();
            let numbers = |bytes: u64, of: &DeviceArray| KernelArgument::Whole(bytes as i64 / of.size::<T>() as i64);
            let apart = [numbers(apart.0, &first.0), numbers(apart.1, &first.1)];
            let (cut, given) = (
                SumGrid::of(rows, d),
                [KernelArgument::Address(x), apart[0], KernelArgument::Address(y), apart[1], flag(add)],
            );
            let grid = [cut.grid[0], 1, count as u32];
            let args = [&given[..], &cut.sizes(rows, d)].concat();
            self.pool.start(&named("columns", narrow), grid, cut.threads, &args);
            rest = &rest[count..];
        }
    }

    fn rotate(&mut self, c: &DeviceNodeContext<'_>, group: &Group, width: usize) {
        let e = width / c.get(attribute::HEADS);
        let rotation = Rotation::of(&c.node.attrs, e);
        let at = c.place.units(&group.units, &self.pool);
        let from_row = c.get(attribute::ORIGIN) == Origin::Row;
        let longest = match &at.axis {
            Some(axis) => {
                let rtc_compiler::ir::types::Dim::Sym(name) = &group.units[1] else { unreachable!("a ragged axis") };
                let host = c.place.view.axis(name);
                let origin = |row: usize| if from_row { host.origin[row] } else { 0 };
                (0..c.place.view.rows()).map(|row| origin(row) + host.reach(row)).fold(axis.longest, usize::max)
            }
            None => at.per,
        };
        let (cosines, sines) = self.rotation(rotation, c.node.find(attribute::ANGLE), longest);
        let origin = at.axis.as_ref().filter(|_| from_row).map(|axis| &axis.origin);
        let places = at.axis.as_ref().and_then(|axis| axis.places.as_ref());
        let ([x], narrow) = self.kept(c, [0], 0);
        let y = self.fresh_kept(c, 0, narrow);
        let turn = if c.get(attribute::TRANSPOSE) { -1.0 } else { 1.0 };
        let [row_of, offsets, per] = at.args();
        let origin = address(origin);
        let mut args = vec![x.arg(), y.arg(), cosines.arg(), sines.arg(), KernelArgument::Real(turn)];
        args.extend([int(e), int(rotation.part), int(rotation.across())]);
        args.extend([row_of, offsets, origin, address(places), per, int(width), whole(y.len())]);
        self.pool.each(&named("rotate", narrow), y.len(), &args);
        self.put(c, 0, y);
    }

    fn draw(&mut self, c: &DeviceNodeContext<'_>, group: &Group, width: usize) {
        let (y, form) = (self.fresh(c, 0), NumberDistribution::of(c.node).form());
        let key = self.pool.upload(&[c.view.key.at(c.get(attribute::STREAM) as u64).value()]);
        let numbers = self.pool.upload(&form.numbers());
        let ids = match c.get(attribute::DRAWS) {
            Draws::Row => c.place.ids(&self.pool).arg(),
            Draws::Level => KernelArgument::Address(0),
        };
        let [row_of, offsets, per] = c.place.units(&group.units, &self.pool).args();
        let mut args = vec![key.arg(), numbers.arg(), flag(form.is_normal()), ids, row_of, offsets, per];
        args.extend([int(width), y.arg(), whole(y.len())]);
        self.pool.each("draw", y.len(), &args);
        self.put(c, 0, y);
    }

    /// Cosines and sines for so many positions. Tables grow to powers of two, and seldom.
    fn rotation(&mut self, rotation: Rotation, changed: Option<&Attr>, positions: usize) -> (DeviceArray, DeviceArray) {
        grown(&mut self.rotations, rotation, positions, |count| {
            let (cosines, sines) = self.tables.upto(rotation, changed, count).numbers();
            (self.pool.keep(cosines), self.pool.keep(sines))
        })
    }
}
