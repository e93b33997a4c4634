//! Steps that work unit by unit: chains, products, norms, channels, rotations.

use rtc_compiler::ir::attribute::{self, Draws, Origin, Reduction};
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::group::{Group, units};
use rtc_compiler::plan::{Plan, Step};

use super::active_rows::ActiveRows;
use super::device::{Arg, Matrix, Product};
use super::dispatch::NodeContext;
use super::embed::grown;
use super::exec::Executor;
use super::fusion::Chain;
use super::memory::{Array, WARP, address, blocks, flag, int, whole};
use super::value::Val;
use crate::exec::storage::Element;
use crate::kernel::draw::Distribution;
use crate::kernel::position::Rotation;

/// How a sum over rows is cut into blocks.
struct Cut {
    /// Columns of a block.
    across: usize,
    grid: [u32; 3],
    threads: u32,
}

impl Cut {
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

    fn sizes(&self, rows: usize, d: usize) -> [Arg; 3] {
        [int(d), whole(rows), int(self.across)]
    }
}

impl<T: Element> Executor<T> {
    /// Some steps in one kernel.
    pub(super) fn run_chain(&mut self, plan: &Plan, chain: &Chain, group: &Group, place: &ActiveRows) {
        let count = place.view.extent(plan.graph.ty(chain.like));
        let mut args: Vec<Arg> = chain.inputs.iter().map(|v| self.real(*v).arg()).collect();
        // Operands stay alive while the kernel is started: the table holds them.
        for output in &chain.outputs {
            let y = self.bundles.room::<T>(*output, count, &self.pool);
            args.push(y.arg());
            self.set(*output, Val::Real(y));
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
        let c = NodeContext::new(plan, step, place);
        let rows = place.view.units(&group.units);
        let channels = |v: Value| units(plan.graph.ty(v)).1;
        let [x, result] = [c.operand(0), c.node.results[0]];
        match c.node.op {
            Op::Linear | Op::LinearGradInput => {
                let product = self.product(&c, rows);
                self.pool.multiply::<T>(product);
            }
            Op::LayerNorm => {
                let y = self.fresh(&c, 0);
                let args = [
                    self.real(x).arg(),
                    self.real(c.operand(1)).arg(),
                    self.given(&c, 2),
                    y.arg(),
                    Arg::Real(c.get(attribute::EPS)),
                    int(channels(x)),
                    whole(rows),
                ];
                self.pool.each_warp("layer_norm", rows, &args);
                self.put(&c, 0, y);
            }
            Op::LayerNormGrad => self.layer_norm_grad(&c, rows, channels(x)),
            Op::RmsNorm => {
                let (y, parts) = (self.fresh(&c, 0), c.get(attribute::PARTS));
                let (eps, width) = (Arg::Real(c.get(attribute::EPS)), int(channels(x) / parts));
                let args = [self.real(x).arg(), self.given(&c, 1), y.arg(), eps, width, whole(rows * parts)];
                self.pool.each_warp("rms_norm", rows * parts, &args);
                self.put(&c, 0, y);
            }
            Op::RmsNormGrad => {
                let parts = c.get(attribute::PARTS);
                self.rms_norm_grad(&c, rows * parts, channels(x) / parts);
            }
            Op::Softmax | Op::SoftmaxGrad => self.softmax(&c, Arg::Address(0), channels(x), rows),
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
                self.sum_rows(&self.real(x), &y, rows, channels(x), add);
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
    fn given(&self, c: &NodeContext<'_>, n: usize) -> Arg {
        address(c.node.operands.get(n).map(|v| self.real(*v)).as_ref())
    }

    /// Steps of a group whose products, or sums over rows, are one.
    pub(super) fn bundle(&mut self, plan: &Plan, steps: &[Step], own: &[usize], group: &Group, place: &ActiveRows) {
        let rows = place.view.units(&group.units);
        let steps: Vec<_> = own.iter().map(|step| NodeContext::new(plan, &steps[*step], place)).collect();
        if steps[0].node.op != Op::ColumnSum {
            let products: Vec<Product> = steps.iter().map(|c| self.product(c, rows)).collect();
            return self.pool.multiply_all::<T>(&products);
        }
        let d = units(steps[0].ty(steps[0].operand(0))).1;
        let sum = |c: &NodeContext<'_>| {
            let (y, add) = self.target(c, 0);
            (self.real(c.operand(0)).at(), y.at(), add)
        };
        let sums: Vec<_> = steps.iter().map(sum).collect();
        self.sum_all_rows(&sums, rows, d);
    }

    /// The product of a linear map, or of one of its gradients; its result has a place now.
    pub(super) fn product(&mut self, c: &NodeContext<'_>, rows: usize) -> Product {
        let at = |n: usize| self.real(c.operand(n)).at();
        let width = |v: Value| units(c.ty(v)).1;
        let [inner, outer] = [width(c.operand(0)), width(c.node.results[0])];
        let (product, (y, add)) = match c.node.op {
            Op::Linear => {
                let bias = c.node.operands.get(2).map(|_| at(2));
                let (a, b) = (Matrix::straight(at(0), inner), Matrix::turned(at(1), inner));
                (Product::new(a, b, 0, [rows, outer, inner]).biased(bias), self.target(c, 0))
            }
            Op::LinearGradInput => {
                let (a, b) = (Matrix::straight(at(0), inner), Matrix::straight(at(1), outer));
                (Product::new(a, b, 0, [rows, outer, inner]), self.target(c, 0))
            }
            _ => {
                let (a, b) = (Matrix::turned(at(0), inner), Matrix::straight(at(1), outer));
                (Product::new(a, b, 0, [inner, outer, rows]), self.target(c, 0))
            }
        };
        Product { y: y.at(), ..product }.adding(add)
    }

    fn layer_norm_grad(&mut self, c: &NodeContext<'_>, rows: usize, d: usize) {
        let [x, gain, dy] = [0, 1, 2].map(|n| self.real(c.operand(n)));
        let dx = self.fresh(c, 0);
        let (means, scales) = (self.pool.take::<T>(rows), self.pool.take::<T>(rows));
        let (eps, size) = (Arg::Real(c.get(attribute::EPS)), int(d));
        let args = [x.arg(), gain.arg(), dy.arg(), dx.arg(), means.arg(), scales.arg(), eps, size, whole(rows)];
        self.pool.each_warp("layer_norm_grad", rows, &args);
        self.put(c, 0, dx);
        self.norm_columns(c, [&x, &dy], Some(&means), &scales, rows, d);
    }

    fn rms_norm_grad(&mut self, c: &NodeContext<'_>, rows: usize, d: usize) {
        let [x, dy] = [0, 1].map(|n| self.real(c.operand(n)));
        let (dx, scales) = (self.fresh(c, 0), self.pool.take::<T>(rows));
        let (eps, size) = (Arg::Real(c.get(attribute::EPS)), int(d));
        let args = [x.arg(), self.given(c, 2), dy.arg(), dx.arg(), scales.arg(), eps, size, whole(rows)];
        self.pool.each_warp("rms_norm_grad", rows, &args);
        self.put(c, 0, dx);
        if c.node.results.len() > 1 {
            self.norm_columns(c, [&x, &dy], None, &scales, rows, d);
        }
    }

    /// The gradients of the gain and, where there is such a result, of the bias of a norm. Without means it has none taken off.
    fn norm_columns(
        &mut self,
        c: &NodeContext<'_>,
        [x, dy]: [&Array; 2],
        means: Option<&Array>,
        scales: &Array,
        rows: usize,
        d: usize,
    ) {
        let [gains, biases] = [1, 2].map(|n| (n < c.node.results.len()).then(|| self.target(c, n)));
        let sum = |of: &Option<(Array, bool)>| {
            [address(of.as_ref().map(|(y, _)| y)), flag(of.as_ref().is_some_and(|(_, add)| *add))]
        };
        let cut = Cut::of(rows, d);
        let given = [x.arg(), dy.arg(), address(means), scales.arg()];
        let args = [&given[..], &sum(&gains), &sum(&biases), &cut.sizes(rows, d)].concat();
        self.pool.start("norm_columns", cut.grid, cut.threads, &args);
    }

    /// `y (+)=` the sum over the rows of `x[rows, d]`.
    pub(super) fn sum_rows(&self, x: &Array, y: &Array, rows: usize, d: usize, add: bool) {
        self.sum_all_rows(&[(x.at(), y.at(), add)], rows, d);
    }

    /// The same of several arrays, as one where they are equally far apart.
    fn sum_all_rows(&self, sums: &[(u64, u64, bool)], rows: usize, d: usize) {
        let mut rest = sums;
        while let [(x, y, add), ..] = rest {
            let apart = rest.get(1).map_or((0, 0), |next| (next.0.wrapping_sub(*x), next.1.wrapping_sub(*y)));
            let nth = |n: u64| (x.wrapping_add(n * apart.0), y.wrapping_add(n * apart.1), *add);
            let count = rest.iter().zip(0..).take_while(|(sum, n)| **sum == nth(*n)).count();
            let [x_apart, y_apart] = [apart.0, apart.1].map(|bytes| Arg::Whole(bytes as i64 / size_of::<T>() as i64));
            let (cut, given) = (Cut::of(rows, d), [Arg::Address(*x), x_apart, Arg::Address(*y), y_apart, flag(*add)]);
            let grid = [cut.grid[0], 1, count as u32];
            self.pool.start("columns", grid, cut.threads, &[&given[..], &cut.sizes(rows, d)].concat());
            rest = &rest[count..];
        }
    }

    fn rotate(&mut self, c: &NodeContext<'_>, group: &Group, width: usize) {
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
        let (cosines, sines) = self.rotation(rotation, longest);
        let origin = at.axis.as_ref().filter(|_| from_row).map(|axis| &axis.origin);
        let places = at.axis.as_ref().and_then(|axis| axis.places.as_ref());
        let y = self.fresh(c, 0);
        let turn = if c.get(attribute::TRANSPOSE) { -1.0 } else { 1.0 };
        let [row_of, offsets, per] = at.args();
        let origin = address(origin);
        let mut args = vec![self.real(c.operand(0)).arg(), y.arg(), cosines.arg(), sines.arg(), Arg::Real(turn)];
        args.extend([int(e), int(rotation.part), int(rotation.across())]);
        args.extend([row_of, offsets, origin, address(places), per, int(width), whole(y.len())]);
        self.pool.each("rotate", y.len(), &args);
        self.put(c, 0, y);
    }

    fn draw(&mut self, c: &NodeContext<'_>, group: &Group, width: usize) {
        let (y, form) = (self.fresh(c, 0), Distribution::of(c.node).form());
        let key = self.pool.upload(&[c.view.key.at(c.get(attribute::STREAM) as u64).value()]);
        let numbers = self.pool.upload(&form.numbers());
        let ids = match c.get(attribute::DRAWS) {
            Draws::Row => c.place.ids(&self.pool).arg(),
            Draws::Level => Arg::Address(0),
        };
        let [row_of, offsets, per] = c.place.units(&group.units, &self.pool).args();
        let mut args = vec![key.arg(), numbers.arg(), flag(form.is_normal()), ids, row_of, offsets, per];
        args.extend([int(width), y.arg(), whole(y.len())]);
        self.pool.each("draw", y.len(), &args);
        self.put(c, 0, y);
    }

    /// Cosines and sines for so many positions. Tables grow to powers of two, and seldom.
    fn rotation(&mut self, rotation: Rotation, positions: usize) -> (Array, Array) {
        grown(&mut self.rotations, rotation, positions, |count| {
            let (cosines, sines) = self.tables.upto(rotation, count).numbers();
            (self.pool.keep(cosines), self.pool.keep(sines))
        })
    }
}
