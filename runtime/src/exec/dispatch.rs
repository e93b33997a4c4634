//! From a node to a kernel: the one exhaustive match over the op table.

use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{Attr, Elem};
use rtc_compiler::plan::{Plan, Step};

use super::call::Call;
use super::mask::mark;
use super::rows::Env;
use super::storage::{Buffer, Element, List};
use super::value::Val;
use super::{Executor, Fault};
use crate::kernel::attention::{Attention, MaskKind, ProbabilityDropout, attention, attention_grad};
use crate::kernel::gate::{Gated, GatedGrad};
use crate::kernel::linear::Act;
use crate::kernel::{self, Write, channels, elementwise, embedding, linear, loss, norm, pool, position, unit};

impl<T: Element> Executor<T> {
    /// Runs one step and puts its results into the table.
    pub(super) fn execute(&mut self, plan: &Plan, step: &Step, env: &Env) -> Result<(), Fault> {
        let node = plan.graph.node(step.node);
        let c = Call { plan, step, node, env };
        match node.op {
            Op::Param => {}
            Op::Input => self.input(&c)?,
            Op::Full => self.produce(&c, |_, c, y| y.fill(T::from_f64(c.float("value")))),
            Op::True => self.put_truth(&c, self.arena.filled(env.extent(c.ty(node.results[0])), 1)),

            Op::Embed => self.produce(&c, |e, c, y| {
                let width = c.last(1);
                embedding::gather(e.memory.real(c.operand(1)), e.memory.index(c.operand(0)), width, y);
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
            Op::Expand => self.produce(&c, |e, c, y| embedding::expand(e.memory.real(c.operand(0)), c.env.rows(), y)),
            Op::Mean => self.pooled(&c, |x, offsets, d, y| pool::mean(x, offsets, d, y)),
            Op::CumulativeMean => self.pooled(&c, |x, offsets, d, y| pool::cumulative_mean(x, offsets, d, y)),
            Op::Position => {
                let at = if c.word("at") == "first" { pool::End::First } else { pool::End::Last };
                self.pooled(&c, |x, offsets, d, y| pool::take_position(x, offsets, d, at, y));
            }
            Op::Max => {
                let mut place = self.arena.take(env.extent(c.ty(node.results[0])));
                self.pooled(&c, |x, offsets, d, y| pool::max_pool(x, offsets, d, y, &mut place));
            }
            Op::Concat => self.produce(&c, |e, c, y| {
                let (a, b) = (e.memory.real(c.operand(0)), e.memory.real(c.operand(1)));
                channels::concat(a, b, c.last(0), c.last(1), y);
            }),
            Op::Slice => self.produce(&c, |e, c, y| {
                channels::slice(e.memory.real(c.operand(0)), c.last(0), c.int("start"), c.int("width"), y);
            }),
            Op::Pad => self.produce(&c, |e, c, y| {
                channels::pad(e.memory.real(c.operand(0)), c.last(0), c.int("start"), c.int("width"), y);
            }),
            Op::Squeeze | Op::Unsqueeze => {
                let same = self.value(c.operand(0));
                self.memory.set(node.results[0], same);
            }
            Op::Pair => self.produce(&c, |e, c, y| channels::pair(e.memory.real(c.operand(0)), c.last(0), y)),

            Op::Linear => self.produce(&c, |e, c, y| {
                let (m, k, n) = e.product(c, c.operand(0), c.operand(1));
                let bias = c.node.operands.get(2).map(|b| e.memory.real(*b));
                linear::linear(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), bias, y, m, k, n);
            }),
            Op::LinearAct => self.linear_act(&c),
            Op::LayerNorm => self.produce(&c, |e, c, y| {
                let m = &e.memory;
                let (x, gain, bias) = (m.real(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)));
                norm::layer_norm(x, gain, bias, c.float("eps"), y);
            }),
            Op::Gelu => self.unary(&c, elementwise::gelu),
            Op::Relu => self.unary(&c, elementwise::relu),
            Op::Sigmoid => self.unary(&c, elementwise::sigmoid),
            Op::Add => self.binary(&c, elementwise::add, elementwise::add_assign),
            Op::Mul => self.binary(&c, elementwise::mul, elementwise::mul_assign),
            Op::Sub => self.binary(&c, elementwise::sub, |y, b| elementwise::axpy(y, T::from_f64(-1.0), b)),
            Op::Div => self.produce(&c, |e, c, y| {
                elementwise::div(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), y);
            }),
            Op::Scale => {
                let by = T::from_f64(c.float("by"));
                let scale =
                    |e: &Self, c: &Call<'_>, y: &mut [T]| elementwise::scale(e.memory.real(c.operand(0)), by, y);
                self.change(&c, scale, |_, _, y| elementwise::scale_assign(y, by));
            }
            Op::Offset => self.produce(&c, |e, c, y| {
                elementwise::add_scalar(e.memory.real(c.operand(0)), T::from_f64(c.float("by")), y);
            }),
            Op::Lerp => self.ternary(&c, kernel::gate::lerp),
            Op::Gate => self.ternary(&c, kernel::gate::gate),
            Op::Select => self.select(&c),
            Op::Keep => self.produce(&c, |e, c, y| {
                let groups = c.groups(0, c.ty(c.operand(1)));
                let when = c.word("when") == "true";
                unit::keep(e.memory.real(c.operand(0)), e.memory.truth(c.operand(1)), when, groups.view(), y);
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
            Op::Dropout => self.dropout(&c),
            Op::Rotate => self.rotate(&c),
            Op::Attention => self.attention(&c)?,

            Op::HaltTest => self.halt_test(&c),
            Op::And => {
                let (a, b) = (self.memory.truth(c.operand(0)), self.memory.truth(c.operand(1)));
                let both = self.arena.list(a.iter().zip(b).map(|(a, b)| a & b));
                self.put_truth(&c, both);
            }
            Op::Any => {
                let bounds = env.bounds(c.ty(c.operand(0)));
                let x = self.memory.truth(c.operand(0));
                let any = self.arena.list((0..env.rows()).map(|r| u8::from(x[bounds.row(r)].contains(&1))));
                self.put_truth(&c, any);
            }

            Op::CrossEntropy => self.loss(&c, loss::cross_entropy),
            Op::BinaryCrossEntropy => self.loss(&c, loss::binary_cross_entropy),
            Op::Average => self.produce(&c, |e, c, y| {
                let x = e.memory.real(c.operand(0));
                let sum: f64 = x.iter().map(|v| v.to_f64()).sum();
                y[0] = T::from_f64(sum / x.len().max(1) as f64);
            }),

            Op::Recur => self.recur(node, env)?,
            Op::Chunks => self.chunks(node, env)?,
            Op::Unwind => self.unwind(step, node, env)?,
            Op::Yield | Op::Save | Op::Return => {}

            Op::LinearGradInput => self.produce(&c, |e, c, y| {
                let (m, n, k) = e.product_back(c, c.operand(0), c.operand(1));
                let (dy, w) = (e.memory.real(c.operand(0)), e.memory.real(c.operand(1)));
                linear::linear_grad_input(dy, w, y, m, k, n, Write::Replace);
            }),
            Op::LinearGradWeight => self.reduce(&c, |e, c, y, write| {
                let (dy, x) = (e.real(c.operand(0)), e.real(c.operand(1)));
                let (n, k) = (c.last(0), c.last(1));
                linear::linear_grad_weight(x, dy, y, dy.len() / n, k, n, write);
            }),
            Op::ColumnSum => self.reduce(&c, |e, c, y, write| {
                let (dy, n) = (e.real(c.operand(0)), c.last(0));
                linear::column_sum(dy, y, dy.len() / n, n, write);
            }),
            Op::LayerNormGrad => self.layer_norm_grad(&c),
            Op::GeluGrad => self.produce(&c, |e, c, y| {
                elementwise::gelu_grad(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), y);
            }),
            Op::ReluGrad => self.produce(&c, |e, c, y| {
                elementwise::relu_grad(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), y);
            }),
            Op::SigmoidGrad => self.produce(&c, |e, c, y| {
                elementwise::sigmoid_grad(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), y);
            }),
            Op::LerpGrad => self.gated_grad(&c, |g, dy, out| kernel::gate::lerp_grad(g, dy, out)),
            Op::GateGrad => self.gated_grad(&c, |g, dy, out| kernel::gate::gate_grad(g, dy, out)),
            Op::AttentionGrad => self.attention_grad(&c)?,
            Op::EmbedGrad => self.reduce(&c, |e, c, y, write| {
                if write == Write::Replace {
                    y.fill(T::ZERO);
                }
                embedding::scatter_add(e.real(c.operand(1)), e.index(c.operand(0)), c.last(1), y);
            }),
            Op::FrameGrad => self.frame_grad(&c),
            Op::SumBatch => self.reduce(&c, |e, c, y, write| {
                let (dy, n) = (e.real(c.operand(0)), y.len());
                linear::column_sum(dy, y, dy.len() / n, n, write);
            }),
            Op::MeanGrad => self.pooled_grad(&c, |_, dy, offsets, d, dx| pool::mean_grad(dy, offsets, d, dx)),
            Op::CumulativeMeanGrad => {
                self.pooled(&c, |dy, offsets, d, dx| pool::cumulative_mean_grad(dy, offsets, d, dx));
            }
            Op::PositionGrad => {
                let at = if c.word("at") == "first" { pool::End::First } else { pool::End::Last };
                self.pooled_grad(&c, |_, dy, offsets, d, dx| pool::take_position_grad(dy, offsets, d, at, dx));
            }
            Op::MaxGrad => self.pooled_grad(&c, |x, dy, offsets, d, dx| {
                let (mut largest, mut place) = (env.arena().take(dy.len()), env.arena().take(dy.len()));
                pool::max_pool(x, offsets, d, &mut largest, &mut place);
                pool::max_pool_grad(dy, &place, offsets, d, dx);
            }),
            Op::PairGrad => self.produce(&c, |e, c, y| {
                channels::pair_grad(e.memory.real(c.operand(1)), e.memory.real(c.operand(0)), c.last(1), y);
            }),
            Op::CrossEntropyGrad => self.loss_grad(&c, loss::cross_entropy_grad),
            Op::BinaryCrossEntropyGrad => self.loss_grad(&c, loss::binary_cross_entropy_grad),
            Op::AverageGrad => self.produce(&c, |e, c, y| {
                let share = e.memory.real(c.operand(0))[0].to_f64() / y.len().max(1) as f64;
                y.fill(T::from_f64(share));
            }),
            Op::Accumulate => self.accumulate(&c),
        }
        Ok(())
    }

    /// A new buffer for the n-th result.
    fn fresh(&self, c: &Call<'_>, n: usize) -> Buffer<T> {
        self.arena.take(c.env.extent(c.ty(c.node.results[n])))
    }

    fn put(&mut self, c: &Call<'_>, n: usize, buffer: Buffer<T>) {
        self.memory.set(c.node.results[n], Val::real(buffer));
    }

    fn put_truth(&mut self, c: &Call<'_>, truth: Buffer<u8>) {
        self.memory.set(c.node.results[0], Val::truth(truth));
    }

    /// An op with one real result.
    fn produce(&mut self, c: &Call<'_>, f: impl FnOnce(&Self, &Call<'_>, &mut [T])) {
        let mut out = self.fresh(c, 0);
        f(self, c, out.as_mut_slice());
        self.put(c, 0, out);
    }

    fn unary(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &mut [T])) {
        self.produce(c, |e, c, y| f(e.memory.real(c.operand(0)), y));
    }

    /// An op on two operands that can work in place of a dying one; where that can be the second, the op commutes.
    fn binary(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[T], &mut [T]), assign: impl FnOnce(&mut [T], &[T])) {
        match self.dying(c) {
            Some((n, mut buffer)) => {
                assign(buffer.as_mut_slice(), self.memory.real(c.operand(1 - n)));
                self.put(c, 0, buffer);
            }
            None => self.produce(c, |e, c, y| f(e.memory.real(c.operand(0)), e.memory.real(c.operand(1)), y)),
        }
    }

    /// An op that can work in place of its first operand where that one dies; `assign` turns it into the result.
    fn change(
        &mut self,
        c: &Call<'_>,
        f: impl FnOnce(&Self, &Call<'_>, &mut [T]),
        assign: impl FnOnce(&Self, &Call<'_>, &mut [T]),
    ) {
        match self.dying(c) {
            Some((_, mut buffer)) => {
                assign(self, c, buffer.as_mut_slice());
                self.put(c, 0, buffer);
            }
            None => self.produce(c, f),
        }
    }

    /// The operand in whose place the plan puts the result, with its buffer, if nobody else holds that.
    fn dying(&mut self, c: &Call<'_>) -> Option<(usize, Buffer<T>)> {
        let n = c.step.in_place?;
        Some((n, self.memory.take_unique(c.operand(n))?))
    }

    fn ternary(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[T], &[T], &mut [T])) {
        self.produce(c, |e, c, y| {
            let m = &e.memory;
            f(m.real(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)), y);
        });
    }

    /// An op over the second axis of its operand.
    fn pooled(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[usize], usize, &mut [T])) {
        let (axis, width) = (c.axis(0), if c.ty(c.operand(0)).dims().len() > 2 { c.last(0) } else { 1 });
        self.produce(c, |e, c, y| f(e.memory.real(c.operand(0)), &axis.offsets, width, y));
    }

    /// The gradient of such an op, with operands `dy` and `x`.
    fn pooled_grad(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[T], &[usize], usize, &mut [T])) {
        let (axis, width) = (c.axis(1), if c.ty(c.operand(1)).dims().len() > 2 { c.last(1) } else { 1 });
        self.produce(c, |e, c, y| {
            let m = &e.memory;
            f(m.real(c.operand(1)), m.real(c.operand(0)), &axis.offsets, width, y);
        });
    }

    /// An op whose result may be added straight into the gradient of a parameter.
    fn reduce(&mut self, c: &Call<'_>, f: impl FnOnce(&super::Memory<T>, &Call<'_>, &mut [T], Write)) {
        match c.step.into[0] {
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

    fn input(&mut self, c: &Call<'_>) -> Result<(), Fault> {
        let name = c.word("name");
        let val = self.inputs.iter().find(|(n, _)| *n == name).map(|(_, val)| val.clone());
        let val = val.ok_or_else(|| Fault::Batch(format!("the batch has no `{name}`")))?;
        let len = match &val {
            Val::Real(x) => x.as_slice().len(),
            Val::Index(x) => x.len(),
            Val::Bool(_) | Val::Tape(_) => 0,
        };
        let expected = c.env.extent(c.ty(c.node.results[0]));
        if len != expected {
            return Err(Fault::Batch(format!("the batch has {len} `{name}`, the model takes {expected}")));
        }
        self.memory.set(c.node.results[0], val);
        Ok(())
    }

    /// Rows, inputs and outputs of `x w^T`.
    fn product(&self, c: &Call<'_>, x: Value, w: Value) -> (usize, usize, usize) {
        let dims = c.ty(w).dims();
        let (n, k) = (dims[0].fixed().unwrap_or(1), dims[1].fixed().unwrap_or(1));
        (self.memory.real(x).len() / k, k, n)
    }

    /// Rows, outputs and inputs of `dy w`.
    fn product_back(&self, c: &Call<'_>, dy: Value, w: Value) -> (usize, usize, usize) {
        let dims = c.ty(w).dims();
        let (n, k) = (dims[0].fixed().unwrap_or(1), dims[1].fixed().unwrap_or(1));
        (self.memory.real(dy).len() / n, n, k)
    }

    fn linear_act(&mut self, c: &Call<'_>) {
        let act = match c.word("act") {
            "gelu" => Act::Gelu,
            "relu" => Act::Relu,
            _ => Act::None,
        };
        let (mut pre, mut y) = (self.fresh(c, 0), self.fresh(c, 1));
        let (m, k, n) = self.product(c, c.operand(0), c.operand(1));
        let (x, w, bias) =
            (self.memory.real(c.operand(0)), self.memory.real(c.operand(1)), self.memory.real(c.operand(2)));
        linear::linear_act(x, w, Some(bias), act, pre.as_mut_slice(), y.as_mut_slice(), m, k, n);
        self.put(c, 0, pre);
        self.put(c, 1, y);
    }

    fn select(&mut self, c: &Call<'_>) {
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
            let out =
                m.truth(c.operand(0)).iter().zip(a.iter().zip(b)).map(|(c, (a, b))| if *c != 0 { *a } else { *b });
            let out = self.arena.list(out);
            self.put_truth(c, out);
        }
    }

    fn dropout(&mut self, c: &Call<'_>) {
        let elements = c.env.bounds(c.ty(c.operand(0))).elements(c.env.rows(), &self.arena);
        let keys = c.env.row_keys(c.int("stream") as u64);
        let p = c.float("p");
        self.change(
            c,
            |e, c, y| kernel::dropout::dropout(e.memory.real(c.operand(0)), &elements, &keys, p, y),
            |_, _, y| kernel::dropout::dropout_assign(y, &elements, &keys, p),
        );
    }

    fn add_scaled(&mut self, c: &Call<'_>) {
        let groups = c.groups(0, c.ty(c.operand(2)));
        self.change(
            c,
            |e, c, y| {
                let (h, s) = (e.memory.real(c.operand(1)), e.memory.real(c.operand(2)));
                unit::add_scaled(e.memory.real(c.operand(0)), h, s, groups.view(), y);
            },
            |e, c, y| {
                let (h, s) = (e.memory.real(c.operand(1)), e.memory.real(c.operand(2)));
                unit::add_scaled_assign(y, h, s, groups.view());
            },
        );
    }

    fn rotate(&mut self, c: &Call<'_>) {
        let kind = match c.word("kind") {
            "xpos_query" => position::PositionKind::XposQuery,
            "xpos_key" => position::PositionKind::XposKey,
            _ => position::PositionKind::Rope,
        };
        let transposed = c.word("transpose") == "true";
        let direction = if transposed { position::Direction::Transposed } else { position::Direction::Forward };
        let (axis, heads) = (c.axis(0), c.int("heads"));
        let origin = (c.word("origin") == "row").then_some(axis.origin.as_slice());
        let mut out = self.fresh(c, 0);
        let (x, y, tables) = (self.memory.real(c.operand(0)), out.as_mut_slice(), &mut self.tables);
        position::xpos(x, &axis.offsets, origin, heads, c.last(0) / heads, kind, direction, tables, y);
        self.put(c, 0, out);
    }

    /// Runs `f` with the attention that the node describes.
    fn with_attention(
        &mut self,
        c: &Call<'_>,
        step: Option<Value>,
        f: impl FnOnce(&mut Self, &Attention<'_>),
    ) -> Result<(), Fault> {
        let heads = c.int("heads");
        let head_width = c.last(0) / heads;
        let step = step.map_or(0, |v| i64::from(self.memory.index(v)[0]));
        let exprs = self.exprs.clone();
        let expr =
            exprs.get(&c.step.node).map(|read| read.as_ref().map_err(|e| Fault::Batch(e.clone()))).transpose()?;
        let marked = expr.map(|expr| move |at, seen: &mut [bool]| mark(expr, step, at, seen));
        let mask = match &marked {
            Some(marked) => MaskKind::Dense(marked),
            None if c.word("mask") == "causal" => MaskKind::Causal,
            None => MaskKind::All,
        };
        let p = c.float("dropout");
        let keys = if p > 0.0 { c.env.row_keys(c.int("stream") as u64) } else { self.arena.list([]) };
        let dropout = (p > 0.0).then_some(ProbabilityDropout { p, row_keys: &keys });
        let scale = 1.0 / (head_width as f64).sqrt();
        f(self, &Attention { heads, head_width, scale, mask, dropout });
        Ok(())
    }

    fn attention(&mut self, c: &Call<'_>) -> Result<(), Fault> {
        let (queries, keys) = (c.axis(0), c.axis(1));
        self.with_attention(c, c.node.operands.get(3).copied(), |e, spec| {
            e.produce(c, |e, c, y| {
                let m = &e.memory;
                let (q, k, v) = (m.real(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)));
                attention(spec, q, k, v, &queries.offsets, &keys.offsets, y);
            });
        })
    }

    fn attention_grad(&mut self, c: &Call<'_>) -> Result<(), Fault> {
        let (queries, keys) = (c.axis(0), c.axis(1));
        self.with_attention(c, c.node.operands.get(4).copied(), |e, spec| {
            let (mut dq, mut dk, mut dv) = (e.fresh(c, 0), e.fresh(c, 1), e.fresh(c, 2));
            let m = &e.memory;
            let (q, k, v) = (m.real(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)));
            let dy = m.real(c.operand(3));
            let out = (dq.as_mut_slice(), dk.as_mut_slice(), dv.as_mut_slice());
            attention_grad(spec, q, k, v, dy, &queries.offsets, &keys.offsets, out.0, out.1, out.2);
            e.put(c, 0, dq);
            e.put(c, 1, dk);
            e.put(c, 2, dv);
        })
    }

    fn halt_test(&mut self, c: &Call<'_>) {
        let ty = c.ty(c.operand(0));
        let bounds = c.env.bounds(ty);
        let threshold = T::from_f64(c.float("threshold"));
        let step = self.memory.index(c.operand(1))[0] as usize;
        let cap = c.node.attrs.get("cap").and_then(Attr::text).map(|axis| c.env.axis(axis).clone());
        let t = self.memory.real(c.operand(0));
        let mut go = List::with_capacity_in(t.len(), self.arena.clone());
        for row in 0..c.env.rows() {
            let open = cap.as_ref().is_none_or(|axis| step <= axis.len(row));
            go.extend(t[bounds.row(row)].iter().map(|t| u8::from(open && T::ONE - *t < threshold)));
        }
        self.put_truth(c, go);
    }

    fn loss(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[u32], Option<&[T]>) -> loss::LossSum) {
        self.produce(c, |e, c, y| {
            let weights = c.node.operands.get(2).map(|w| e.memory.real(*w));
            y[0] = T::from_f64(f(e.memory.real(c.operand(0)), e.memory.index(c.operand(1)), weights).mean());
        });
    }

    fn loss_grad(&mut self, c: &Call<'_>, f: impl FnOnce(&[T], &[u32], Option<&[T]>, f64, f64, &mut [T])) {
        self.produce(c, |e, c, y| {
            let m = &e.memory;
            let weights = c.node.operands.get(3).map(|w| m.real(*w));
            let labels = m.index(c.operand(2));
            let total = loss::weight_sum(weights, labels.len());
            f(m.real(c.operand(1)), labels, weights, total, m.real(c.operand(0))[0].to_f64(), y);
        });
    }

    fn layer_norm_grad(&mut self, c: &Call<'_>) {
        let mut dx = self.fresh(c, 0);
        // Sums of both parameters go through scratch of the gain's size: one of them may be bound for an accumulator, the
        // other not.
        let (mut dgain, mut dbias) = (self.fresh(c, 1), self.fresh(c, 2));
        let m = &self.memory;
        let (x, gain, dy) = (m.real(c.operand(0)), m.real(c.operand(1)), m.real(c.operand(2)));
        let parts = (dx.as_mut_slice(), dgain.as_mut_slice(), dbias.as_mut_slice());
        norm::layer_norm_grad(x, gain, dy, c.float("eps"), parts.0, parts.1, parts.2);
        self.put_or_add(c, 0, dx);
        self.put_or_add(c, 1, dgain);
        self.put_or_add(c, 2, dbias);
    }

    /// The n-th result: added to its parameter's gradient where the plan says so, else put into the table.
    fn put_or_add(&mut self, c: &Call<'_>, n: usize, buffer: Buffer<T>) {
        match c.step.into[n] {
            Some(param) => {
                let range = self.by_index[param].clone();
                elementwise::add_assign(&mut self.gradients[range], buffer.as_slice());
            }
            None => self.put(c, n, buffer),
        }
    }

    fn gated_grad(&mut self, c: &Call<'_>, f: impl FnOnce(Gated<'_, T>, &[T], GatedGrad<'_, T>)) {
        let (mut dg, mut du, mut dh) = (self.fresh(c, 0), self.fresh(c, 1), self.fresh(c, 2));
        let m = &self.memory;
        let inputs = Gated { gate: m.real(c.operand(0)), update: m.real(c.operand(1)), state: m.real(c.operand(2)) };
        let grads = GatedGrad { gate: dg.as_mut_slice(), update: du.as_mut_slice(), state: dh.as_mut_slice() };
        f(inputs, m.real(c.operand(3)), grads);
        self.put(c, 0, dg);
        self.put(c, 1, du);
        self.put(c, 2, dh);
    }

    fn frame_grad(&mut self, c: &Call<'_>) {
        let axis = c.axis(1);
        let (mut dx, mut dstart, mut dend) = (self.fresh(c, 0), self.fresh(c, 1), self.fresh(c, 2));
        let dy = self.memory.real(c.operand(0));
        let out = (dx.as_mut_slice(), dstart.as_mut_slice(), dend.as_mut_slice());
        out.1.fill(T::ZERO);
        out.2.fill(T::ZERO);
        embedding::frame_grad(dy, &axis.offsets, out.0, out.1, out.2);
        self.put_or_add(c, 0, dx);
        self.put_or_add(c, 1, dstart);
        self.put_or_add(c, 2, dend);
    }

    fn accumulate(&mut self, c: &Call<'_>) {
        let name = c.word("param");
        if let Some(n) = c.plan.parameters.iter().position(|p| p.name == name) {
            let range = self.by_index[n].clone();
            elementwise::add_assign(&mut self.gradients[range], self.memory.real(c.operand(0)));
        }
    }
}
