//! From a node to a kernel: the one exhaustive match over the op table.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::types::Elem;
use rtc_compiler::plan::{Plan, Step};

use crate::choice::{along_rows, counts};
use crate::loops;
use crate::machine::Machine;
use crate::machine::requirements::equally_long;
use crate::machine::requirements::given_input;
use crate::machine::requirements::known_labels;
use crate::machine::requirements::too_few_positions;
use crate::machine::value::Val;
use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::rows::BatchView;
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element, List};
use rtc_kernel::{
    Precision, Write, channels, elementwise, embedding, linear, loss, matrix, pool, position, product, softmax,
    top::{self, Over},
    truth, unit,
};

impl<T: Element> Executor<T> {
    /// Runs one step and puts its results into the table.
    pub(super) fn execute(&mut self, plan: &Plan, step: &Step, view: &BatchView) -> Result<(), ExecutionFault> {
        let node = plan.graph.node(step.node);
        let c = NodeContext { plan, step, node, view };
        if self.extend_along(&c)? {
            return Ok(());
        }
        match node.op {
            Op::Param => {}
            Op::Input => self.input(&c)?,
            Op::Full => self.produce(&c, |_, c, y| y.fill(T::from_f64(c.get(attribute::VALUE)))),
            Op::True => self.put_truth(&c, self.arena.filled(view.extent(c.ty(node.results[0])), 1)),
            Op::StepNumber => {
                let step = T::from_f64(f64::from(self.memory.index(c.operand(0))[0]));
                self.produce(&c, |_, _, y| y.fill(step));
            }
            Op::DepthOf => {
                let depths = loops::depths(self, plan, step.node, view)?;
                self.produce(&c, |_, _, y| {
                    y.iter_mut().zip(&*depths).for_each(|(y, depth)| *y = T::from_f64(*depth as f64));
                });
            }

            Op::Embed => self.produce(&c, |e, c, y| {
                let width = c.width(1);
                embedding::gather(e.memory.real(c.operand(1)), e.memory.index(c.operand(0)), width, y);
            }),
            Op::AddPosition => self.add_position(&c)?,
            Op::Positions => {
                let axis = c.axis(0);
                self.produce(&c, |_, _, y| position::positions(&axis.offsets, axis.before, y));
            }
            Op::Sinusoid => self.produce(&c, |e, c, y| {
                position::sinusoid(e.memory.real(c.operand(0)), position::Waves::of(&c.node.attrs), y);
            }),
            Op::SinusoidGrad => self.produce(&c, |e, c, dn| {
                let [dy, n] = [0, 1].map(|n| e.memory.real(c.operand(n)));
                position::sinusoid_grad(dy, n, position::Waves::of(&c.node.attrs), dn);
            }),
            Op::Frame => self.produce(&c, |e, c, y| {
                let m = &e.memory;
                embedding::frame(
                    m.real(c.operand(0)),
                    &c.axis(0).offsets,
                    m.real(c.operand(1)),
                    m.real(c.operand(2)),
                    y,
                );
            }),
            Op::Prefix => self.produce(&c, |e, c, y| {
                let m = &e.memory;
                embedding::prefix(m.real(c.operand(0)), &c.axis(0).offsets, m.real(c.operand(1)), c.last(0), y);
            }),
            Op::Unprefix => {
                self.pooled(&c, |x, offsets, d, y| embedding::unprefix(x, offsets, c.get(attribute::COUNT), d, y));
            }
            Op::PrefixGrad => self.pooled(&c, embedding::prefix_grad),
            Op::Transpose => {
                let count = c.get(attribute::COUNT);
                equally_long(&c.axis(0), count)?;
                self.produce(&c, |e, c, y| embedding::transpose(e.memory.real(c.operand(0)), count, c.last(0), y));
            }
            Op::TransposeBack => {
                let count = c.last(0);
                equally_long(&c.axis(1), count)?;
                let width = c.width(0) / count;
                self.produce(&c, |e, c, y| embedding::transpose(e.memory.real(c.operand(0)), width, count, y));
            }
            Op::PadRagged => self.produce(&c, |e, c, y| {
                let m = &e.memory;
                let (from, to) = (c.axis(0), c.view.axis(c.get(attribute::AXIS)));
                embedding::pad_ragged(m.real(c.operand(0)), &from.offsets, m.real(c.operand(1)), &to.offsets, y);
            }),
            Op::BroadcastBatch => {
                self.produce(&c, |e, c, y| embedding::broadcast_batch(e.memory.real(c.operand(0)), c.view.rows(), y))
            }
            Op::Mean => self.pooled(&c, |x, offsets, d, y| pool::mean(x, offsets, d, y)),
            Op::Sum => self.pooled(&c, |x, offsets, d, y| pool::sum(x, offsets, d, y)),
            Op::BroadcastRows => {
                let (axis, width) = (c.axis(1), c.width(0));
                let kernel = if c.get(attribute::SHARED) { pool::share_rows } else { pool::broadcast_rows };
                self.produce(&c, |e, c, y| kernel(e.memory.real(c.operand(0)), &axis.offsets, width, y));
            }
            Op::RunningSum => {
                self.pooled(&c, |x, offsets, d, y| pool::running_sum(x, offsets, d, c.get(attribute::SIDE), y));
            }
            Op::Position => {
                self.pooled(&c, |x, offsets, d, y| pool::take_position(x, offsets, d, c.get(attribute::AT), y));
            }
            Op::Shift => self.pooled(&c, |x, offsets, d, y| {
                pool::shift(x, offsets, d, c.get(attribute::SIDE), c.get(attribute::LAG), y);
            }),
            Op::Softmax => self.pooled(&c, |x, offsets, _, y| softmax::softmax_along(x, offsets, y)),
            Op::SoftmaxGrad => {
                let axis = c.axis(0);
                self.produce(&c, |e, c, dx| {
                    let m = &e.memory;
                    softmax::softmax_along_grad(m.real(c.operand(0)), m.real(c.operand(1)), &axis.offsets, dx);
                });
            }
            Op::Top => self.top(&c)?,
            Op::Max => {
                let mut place = self.arena.take(view.extent(c.ty(node.results[0])));
                self.pooled(&c, |x, offsets, d, y| pool::max_pool(x, offsets, d, y, &mut place));
            }
            Op::Squeeze | Op::Unsqueeze | Op::Split | Op::Merge | Op::Detach => {
                debug_assert!(node.op.has(Flag::Alias));
                let same = self.value(c.operand(0));
                self.memory.set(node.results[0], same);
            }
            Op::Pair => self.produce(&c, |e, c, y| channels::pair(e.memory.real(c.operand(0)), c.last(0), y)),

            Op::Linear
            | Op::LayerNorm
            | Op::RmsNorm
            | Op::Affine
            | Op::Map
            | Op::Dropout
            | Op::Normal
            | Op::Uniform
            | Op::Rotate
            | Op::Reduce
            | Op::ReduceMaxGrad
            | Op::BroadcastChannels
            | Op::Concat
            | Op::Slice
            | Op::Pad
            | Op::LinearGradInput
            | Op::ColumnSum
            | Op::LayerNormGrad
            | Op::RmsNormGrad => unreachable!("steps that work unit by unit are in groups"),
            Op::Select => self.select(&c),
            Op::MaskUnit => self.produce(&c, |e, c, y| {
                let groups = c.groups(0, c.ty(c.operand(1)));
                let when = c.get(attribute::WHEN);
                unit::mask_unit(e.memory.real(c.operand(0)), e.memory.truth(c.operand(1)), when, groups.view(), y);
            }),
            Op::MulUnit => self.produce(&c, |e, c, y| {
                let groups = c.groups(0, c.ty(c.operand(1)));
                unit::mul_unit(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), groups.view(), y);
            }),
            Op::DotUnit => self.produce(&c, |e, c, y| {
                let groups = c.groups(0, c.ty(c.node.results[0]));
                unit::dot_unit(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), groups.view(), y);
            }),
            Op::AddScaled => self.add_scaled(&c),
            Op::Attention => {
                self.attention(&c)?;
                self.record_attention(&c)?;
            }
            Op::GeometricAttention => self.geometric_attention(&c),
            Op::TopKeys => self.top_keys(&c),
            Op::Scan => self.scan(&c),
            Op::Neighbours => self.neighbours(&c),
            Op::Matmul => self.produce(&c, |e, c, y| {
                let transposed = c.node.find(attribute::TRANSPOSED);
                let [a, b] = [0, 1].map(|n| e.memory.real(c.operand(n)));
                matrix::multiply(a, b, transposed, c.matrices(), y);
            }),
            Op::SlotGet => self.slot_get(&c),
            Op::SlotSet => self.put_slot(&c),

            Op::HaltTest => self.halt_test(&c),
            Op::And => {
                let (a, b) = (self.memory.truth(c.operand(0)), self.memory.truth(c.operand(1)));
                let both = self.arena.list(a.iter().zip(b).map(|(a, b)| truth::both(*a, *b)));
                self.put_truth(&c, both);
            }
            Op::Any => {
                let bounds = view.bounds(c.ty(c.operand(0)));
                let x = self.memory.truth(c.operand(0));
                let any = self.arena.list((0..view.rows()).map(|r| truth::any(&x[bounds.row(r)])));
                self.put_truth(&c, any);
            }

            Op::LongerThanOne => {
                let axis = c.axis(0);
                let longer = self.arena.list((0..view.rows()).map(|r| u8::from(axis.len(r) > 1)));
                self.put_truth(&c, longer);
            }

            Op::CrossEntropyEach if c.is_binary(0) => self.of_labels(&c, loss::binary_cross_entropy_each),
            Op::CrossEntropyEach => {
                self.check_labels(&c, 0)?;
                self.of_labels(&c, |logits, labels, y| {
                    loss::cross_entropy_each(c.get(attribute::PROBABILITIES), logits, labels, y);
                });
            }
            Op::Right => self.of_labels(&c, loss::right),
            Op::Average => self.produce(&c, |e, c, y| {
                let weights = c.node.operands.get(1).map(|weights| e.memory.real(*weights));
                y[0] = T::from_f64(loss::weighted_sum(e.memory.real(c.operand(0)), weights).mean());
            }),

            Op::Recur | Op::Chunks | Op::Fold | Op::Beam | Op::Part | Op::Unwind => loops::run(self, step, view)?,
            Op::Yield | Op::Save | Op::Return => {}

            Op::LinearGradWeight => {
                let precision = if c.last(0) > linear::NARROW { self.settings.precision } else { Precision::F32 };
                self.reduce(&c, |e, c, y, write| {
                    let (dy, x) = (e.real(c.operand(0)), e.real(c.operand(1)));
                    let (n, k) = (c.last(0), c.last(1));
                    product::outer(x, dy, y, dy.len() / n, k, n, write, precision);
                });
            }
            Op::AttentionGrad => self.attention_grad(&c)?,
            Op::GeometricAttentionGrad => self.geometric_attention_grad(&c),
            Op::ScanGrad => self.scan_grad(&c),
            Op::NeighboursGrad => self.neighbours_grad(&c),
            Op::EmbedGrad => self.reduce(&c, |e, c, y, write| {
                if write == Write::Replace {
                    y.fill(T::ZERO);
                }
                embedding::scatter_add(e.real(c.operand(1)), e.index(c.operand(0)), c.width(2), y);
            }),
            Op::AddPositionGrad => self.reduce(&c, |e, c, y, write| {
                if write == Write::Replace {
                    y.fill(T::ZERO);
                }
                embedding::add_position_grad(e.real(c.operand(0)), &c.axis(0).offsets, c.last(0), y);
            }),
            Op::FrameGrad => self.frame_grad(&c),
            Op::PadRaggedGrad => self.pad_ragged_grad(&c),
            Op::SumBatch => self.reduce(&c, |e, c, y, write| {
                let (dy, n) = (e.real(c.operand(0)), y.len());
                linear::column_sum(dy, y, dy.len() / n, n, write);
            }),
            Op::PositionGrad => {
                self.pooled_grad(&c, |_, dy, offsets, d, dx| {
                    pool::take_position_grad(dy, offsets, d, c.get(attribute::AT), dx)
                });
            }
            Op::MaxGrad => self.pooled_grad(&c, |x, dy, offsets, d, dx| {
                let (mut largest, mut place) = (view.arena().take(dy.len()), view.arena().take(dy.len()));
                pool::max_pool(x, offsets, d, &mut largest, &mut place);
                pool::max_pool_grad(dy, &place, offsets, d, dx);
            }),
            Op::PairGrad => self.produce(&c, |e, c, y| {
                channels::pair_grad(e.memory.real(c.operand(1)), e.memory.real(c.operand(0)), c.last(1), y);
            }),
            Op::CrossEntropyEachGrad if c.is_binary(1) => {
                self.of_labels_grad(&c, loss::binary_cross_entropy_each_grad);
            }
            Op::CrossEntropyEachGrad => {
                self.check_labels(&c, 1)?;
                self.of_labels_grad(&c, |logits, labels, dy, y| {
                    loss::cross_entropy_each_grad(c.get(attribute::PROBABILITIES), logits, labels, dy, y);
                });
            }
            Op::AverageGrad => self.produce(&c, |e, c, y| {
                let weights = c.node.operands.get(2).map(|weights| e.memory.real(*weights));
                loss::weighted_mean_grad(weights, e.memory.real(c.operand(0))[0].to_f64(), y);
            }),
            Op::Accumulate => self.accumulate(&c),
        }
        Ok(())
    }

    /// A new buffer for the n-th result.
    pub(super) fn fresh(&self, c: &NodeContext<'_>, n: usize) -> Buffer<T> {
        self.arena.take(c.view.extent(c.ty(c.node.results[n])))
    }

    pub(super) fn put(&mut self, c: &NodeContext<'_>, n: usize, buffer: Buffer<T>) {
        self.memory.set(c.node.results[n], Val::real(buffer));
    }

    fn put_truth(&mut self, c: &NodeContext<'_>, truth: Buffer<u8>) {
        self.memory.set(c.node.results[0], Val::truth(truth));
    }

    /// An op with one real result.
    pub(super) fn produce(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&Self, &NodeContext<'_>, &mut [T])) {
        let mut out = self.fresh(c, 0);
        f(self, c, out.as_mut_slice());
        self.put(c, 0, out);
    }

    /// An op over the second axis of its operand.
    fn pooled(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&[T], &[usize], usize, &mut [T])) {
        let (axis, width) = (c.axis(0), c.inner(0));
        self.produce(c, |e, c, y| f(e.memory.real(c.operand(0)), &axis.offsets, width, y));
    }

    /// The gradient of such an op, with operands `dy` and `x`.
    fn pooled_grad(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&[T], &[T], &[usize], usize, &mut [T])) {
        let (axis, width) = (c.axis(1), c.inner(1));
        self.produce(c, |e, c, y| {
            let m = &e.memory;
            f(m.real(c.operand(1)), m.real(c.operand(0)), &axis.offsets, width, y);
        });
    }

    /// An op whose result may be added straight into the gradient of a parameter.
    fn reduce(
        &mut self,
        c: &NodeContext<'_>,
        f: impl FnOnce(&crate::processor::ValueMemory<T>, &NodeContext<'_>, &mut [T], Write),
    ) {
        match c.step.accumulates_into[0] {
            Some(param) => {
                let range = self.by_index[param].clone();
                f(&self.memory, c, &mut self.gradients[range], Write::Add);
            }
            None => {
                let mut out = self.fresh(c, 0);
                f(&self.memory, c, out.as_mut_slice(), Write::Replace);
                self.put(c, 0, out);
            }
        }
    }

    fn input(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let name = c.get(attribute::NAME);
        let len = |val: &Val<T>| match val {
            Val::Real(x) => x.len(),
            Val::Index(x) => x.len(),
            Val::Truth(_) | Val::Tape(_) => 0,
        };
        let val = given_input(&self.inputs, name, c.view.extent(c.ty(c.node.results[0])), len)?;
        self.memory.set(c.node.results[0], val);
        Ok(())
    }

    fn select(&mut self, c: &NodeContext<'_>) {
        let units = c.ty(c.operand(0));
        if c.ty(c.operand(1)).elem() == Some(Elem::Real) {
            let groups = c.groups(1, units);
            self.produce(c, |e, c, y| {
                let m = &e.memory;
                unit::select(m.truth(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)), groups.view(), y);
            });
        } else {
            let m = &self.memory;
            let (a, b) = (m.truth(c.operand(1)), m.truth(c.operand(2)));
            let out = m.truth(c.operand(0)).iter().zip(a.iter().zip(b)).map(|(c, (a, b))| truth::select(*c, *a, *b));
            let out = self.arena.list(out);
            self.put_truth(c, out);
        }
    }

    /// Works in place of its first operand where the plan says so and there is no other handle to the operand.
    fn add_scaled(&mut self, c: &NodeContext<'_>) {
        let groups = c.groups(0, c.ty(c.operand(2)));
        match c.step.in_place.and_then(|n| self.memory.take_unique(c.operand(n))) {
            Some(mut y) => {
                let (h, s) = (self.memory.real(c.operand(1)), self.memory.real(c.operand(2)));
                unit::add_scaled_assign(&mut y, h, s, groups.view());
                self.put(c, 0, y);
            }
            None => self.produce(c, |e, c, y| {
                let (h, s) = (e.memory.real(c.operand(1)), e.memory.real(c.operand(2)));
                unit::add_scaled(e.memory.real(c.operand(0)), h, s, groups.view(), y);
            }),
        }
    }

    fn halt_test(&mut self, c: &NodeContext<'_>) {
        let ty = c.ty(c.operand(0));
        let bounds = c.view.bounds(ty);
        let threshold = T::from_f64(c.get(attribute::THRESHOLD));
        let step = self.memory.index(c.operand(1))[0] as usize;
        let cap = c.node.find(attribute::CAP).map(|axis| c.view.axis(axis).clone());
        let t = self.memory.real(c.operand(0));
        let mut go = List::with_capacity_in(t.len(), self.arena.clone());
        for row in 0..c.view.rows() {
            let open = cap.as_ref().is_none_or(|axis| step <= axis.len(row));
            let test = |t: &T| if open { truth::goes_on(*t, threshold) } else { truth::FALSE };
            go.extend(t[bounds.row(row)].iter().map(test));
        }
        self.put_truth(c, go);
    }

    fn top(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let step = c.node.operands.last().filter(|v| c.ty(**v).elem() == Some(Elem::Index));
        let step = step.map_or(0, |step| self.memory.index(*step)[0]);
        let (axis, along) = (c.axis(0), along_rows(c.ty(c.operand(0))));
        let counts = counts(self.exprs.get(&c.step.node), c.node, along.then_some(&*axis), step, c.view.arena())?;
        self.produce(c, |e, c, y| {
            let over = if along { Over::Positions(&axis.offsets) } else { Over::Channels(c.last(0)) };
            let real = |v: &Value| c.ty(*v).is_real();
            let among = c.node.operands.get(1).filter(|v| real(v)).map(|v| e.memory.real(*v));
            top::top(e.memory.real(c.operand(0)), among, over, &counts, y);
        });
        Ok(())
    }

    /// Refuses labels without a logit; `n` is the operand with the logits, before the one with the labels.
    fn check_labels(&self, c: &NodeContext<'_>, n: usize) -> Result<(), ExecutionFault> {
        known_labels(self.memory.index(c.operand(n + 1)), c.last(n))
    }

    /// A number for every label.
    fn of_labels(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&[T], &[u32], &mut [T])) {
        self.produce(c, |e, c, y| f(e.memory.real(c.operand(0)), e.memory.index(c.operand(1)), y));
    }

    /// The gradient of such an op, with operands `dy`, logits and labels.
    fn of_labels_grad(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&[T], &[u32], &[T], &mut [T])) {
        self.produce(c, |e, c, y| {
            let m = &e.memory;
            f(m.real(c.operand(1)), m.index(c.operand(2)), m.real(c.operand(0)), y);
        });
    }

    /// An op with several real results.
    pub(super) fn produce_all<const N: usize>(&mut self, c: &NodeContext<'_>, f: impl FnOnce(&Self, [&mut [T]; N])) {
        let mut out: [Buffer<T>; N] = std::array::from_fn(|n| self.fresh(c, n));
        f(self, out.each_mut().map(|buffer| buffer.as_mut_slice()));
        for (n, buffer) in out.into_iter().enumerate() {
            self.put_or_add(c, n, buffer);
        }
    }

    /// The n-th result: added to its parameter's gradient where the plan says so, else put into the table.
    pub(super) fn put_or_add(&mut self, c: &NodeContext<'_>, n: usize, buffer: Buffer<T>) {
        match c.step.accumulates_into[n] {
            Some(param) => {
                let range = self.by_index[param].clone();
                elementwise::add_assign(&mut self.gradients[range], buffer.as_slice());
            }
            None => self.put(c, n, buffer),
        }
    }

    /// Codes of positions: learned ones, as far as their table reaches, or sines and cosines.
    fn add_position(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let axis = c.axis(0);
        let longest = axis.before + (0..c.view.rows()).map(|row| axis.len(row)).max().unwrap_or(0);
        let width = c.last(0);
        let learned = c.node.operands.get(1).copied();
        match learned {
            Some(table) => too_few_positions(longest, c.ty(table))?,
            None => self.waves.extend_to(width, longest),
        }
        self.produce(c, |e, c, y| {
            let table = learned.map_or_else(|| e.waves.of(width), |table| e.memory.real(table));
            let here = &table[axis.before * width..];
            embedding::add_position(e.memory.real(c.operand(0)), &axis.offsets, here, width, y);
        });
        Ok(())
    }

    fn frame_grad(&mut self, c: &NodeContext<'_>) {
        self.produce_all(c, |e, [dx, dstart, dend]| {
            dstart.fill(T::ZERO);
            dend.fill(T::ZERO);
            embedding::frame_grad(e.memory.real(c.operand(0)), &c.axis(1).offsets, dx, dstart, dend);
        });
    }

    fn pad_ragged_grad(&mut self, c: &NodeContext<'_>) {
        let (to, from) = (c.axis(0), c.axis(1));
        self.produce_all(c, |e, [dx, dpad]| {
            dpad.fill(T::ZERO);
            embedding::pad_ragged_grad(e.memory.real(c.operand(0)), &from.offsets, &to.offsets, dx, dpad);
        });
    }

    fn accumulate(&mut self, c: &NodeContext<'_>) {
        let name = c.get(attribute::PARAM);
        if let Some(n) = c.plan.parameters.iter().position(|p| p.name == name) {
            let range = self.by_index[n].clone();
            elementwise::add_assign(&mut self.gradients[range], self.memory.real(c.operand(0)));
        }
    }
}
