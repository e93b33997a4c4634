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
use super::memory::{Array, MOST_BLOCKS, address, blocks, flag, int, whole};
use super::value::Val;
use crate::exec::storage::Element;
use crate::kernel::draw::Distribution;
use crate::kernel::position::Rotation;

/// Rows of one block of a sum over rows.
const SUM_ROWS: usize = 128;

impl<T: Element> Executor<T> {
    /// Some steps in one kernel.
    pub(super) fn run_chain(&mut self, plan: &Plan, chain: &Chain, group: &Group, place: &ActiveRows) {
        let count = place.view.extent(plan.graph.ty(chain.like));
        let mut args: Vec<Arg> = chain.inputs.iter().map(|v| self.real(*v).arg()).collect();
        // Operands stay alive while the kernel is started: the table holds them.
        for output in &chain.outputs {
            let y = self.pool.take::<T>(count);
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
            Op::Linear => self.linear(plan, step, group, place, true),
            Op::LinearGradInput => {
                let (n, k) = (channels(x), channels(result));
                let y = self.fresh(&c, 0);
                let b = Matrix { at: self.real(c.operand(1)).at(), rows: k, columns: 1 };
                let a = Matrix { at: self.real(x).at(), rows: n, columns: 1 };
                self.pool.multiply::<T>(Product { a, b, y: y.at(), m: rows, n: k, k: n, add: false });
                self.put(&c, 0, y);
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

    /// A linear map; `biased` unless the reader of the result adds the bias.
    pub(super) fn linear(&mut self, plan: &Plan, step: &Step, group: &Group, place: &ActiveRows, biased: bool) {
        let c = &NodeContext::new(plan, step, place);
        let rows = place.view.units(&group.units);
        let y = self.fresh(c, 0);
        let (k, n) = (units(c.ty(c.operand(0))).1, units(c.ty(c.node.results[0])).1);
        let bias = c.node.operands.get(2).filter(|_| biased);
        if let Some(bias) = bias {
            let args = [self.real(*bias).arg(), y.arg(), whole(n), whole(y.len())];
            self.pool.each("repeat", y.len(), &args);
        }
        let a = Matrix { at: self.real(c.operand(0)).at(), rows: k, columns: 1 };
        let b = Matrix { at: self.real(c.operand(1)).at(), rows: 1, columns: k };
        self.pool.multiply::<T>(Product { a, b, y: y.at(), m: rows, n, k, add: bias.is_some() });
        self.put(c, 0, y);
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
        let per = rows_per_block(rows);
        let count = rows.div_ceil(per);
        let sums: Vec<Array> = c.node.results[1..].iter().map(|_| self.pool.take::<T>(count * d)).collect();
        let (gains, biases) = (sums[0].arg(), address(sums.get(1)));
        let (size, means) = (int(d), address(means));
        let args = [x.arg(), dy.arg(), means, scales.arg(), gains, biases, size, whole(rows), int(per)];
        self.pool.launch("norm_columns", [self.pool.thread_blocks(d), count as u32, 1], &args);
        for (n, sums) in sums.iter().enumerate() {
            let (y, add) = self.target(c, n + 1);
            self.sum_rows(sums, &y, count, d, add);
        }
    }

    /// `y (+)=` the sum over the rows of `x[rows, d]`: over blocks of rows, then over the blocks.
    pub(super) fn sum_rows(&self, x: &Array, y: &Array, rows: usize, d: usize, add: bool) {
        let across = self.pool.thread_blocks(d);
        let start = |x: &Array, y: &Array, rows: usize, per: usize, add: bool| {
            let args = [x.arg(), y.arg(), int(d), whole(rows), int(per), flag(add)];
            self.pool.launch("columns", [across, blocks(rows, per).max(1), 1], &args);
        };
        let per = rows_per_block(rows);
        if rows <= 2 * per {
            return start(x, y, rows, rows.max(1), add);
        }
        let count = rows.div_ceil(per);
        let partial = self.pool.take::<T>(count * d);
        start(x, &partial, rows, per, false);
        start(&partial, y, count, count, add);
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

/// Rows of one block of a sum over many rows.
pub(super) fn rows_per_block(rows: usize) -> usize {
    SUM_ROWS.max(rows.div_ceil(MOST_BLOCKS))
}
