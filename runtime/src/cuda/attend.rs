//! Attention on a device: what the kernels are told.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::graph::Value;

use super::device::Arg;
use super::dispatch::Call;
use super::exec::Executor;
use super::memory::{Array, WARP, address, blocks, int};
use super::place::Ragged;
use crate::exec::Fault;
use crate::exec::mask::{Rule, mark};
use crate::exec::storage::Element;
use crate::kernel::attention::MaskRow;
use crate::kernel::dropout::Keep;

/// Channels that a warp adds up.
const SLICE: usize = 128;

/// An attention with everything that its kernels read.
struct Attention {
    args: Vec<Arg>,
    queries: Ragged,
    keys: Ragged,
    heads: usize,
    /// Channels of a head: of queries and keys, of values.
    widths: [usize; 2],
    rows: usize,
    /// What the arguments point to.
    _kept: Vec<Array>,
}

/// Which keys are hidden.
enum Mask {
    None,
    Causal,
    Dense(Array, Array),
}

impl<T: Element> Executor<T> {
    fn describe(&mut self, c: &Call<'_>, step: Option<Value>) -> Result<Attention, Fault> {
        let heads = c.int("heads");
        let (keep, key) = (Keep::<T>::new(c.float("dropout")), c.env.key.at(c.int("stream") as u64));
        let dropped = c.float("dropout") > 0.0;
        let step = step.map_or(0, |v| i64::from(self.index(v).host[0]));
        let exprs = self.exprs.clone();
        let (queries, keys) = (c.ty(c.operand(0)), c.ty(c.operand(1)));
        let (queries, keys) = (c.place.axis_of(queries, &self.pool), c.place.axis_of(keys, &self.pool));
        let mask = match exprs.get(&c.step.node) {
            Some(Err(message)) => return Err(Fault::Batch(message.clone())),
            Some(Ok(Rule { expr: Some(expr), .. })) => self.dense(c, expr, step, heads),
            _ if c.word("mask") == "causal" => Mask::Causal,
            _ => Mask::None,
        };
        let (threshold, factor) = if dropped { (keep.threshold(), keep.factor().to_f64()) } else { (0, 1.0) };
        Ok(self.attend(c, heads, (queries, keys), mask, None, (threshold, factor, key.value())))
    }

    fn attend(
        &mut self,
        c: &Call<'_>,
        heads: usize,
        (queries, keys): (Ragged, Ragged),
        mask: Mask,
        bias: Option<&Array>,
        (threshold, factor, key): (u32, f64, u64),
    ) -> Attention {
        let widths = [c.last(0) / heads.max(1), c.last(2) / heads.max(1)];
        let ids = c.place.ids(&self.pool);
        let [q, k, v] = [0, 1, 2].map(|n| self.real(c.operand(n)).arg());
        let (kind, dense, starts) = match mask {
            Mask::None => (0, None, None),
            Mask::Causal => (1, None, None),
            Mask::Dense(flags, starts) => (2, Some(flags), Some(starts)),
        };
        let args = vec![
            q,
            k,
            v,
            address(bias),
            int(bias.map_or(1, |bias| bias.len().div_ceil(2))),
            queries.offsets.arg(),
            keys.offsets.arg(),
            int(heads),
            int(widths[0]),
            int(widths[1]),
            Arg::Real(1.0 / (widths[0] as f64).sqrt()),
            Arg::Int(kind),
            address(dense.as_ref()),
            address(starts.as_ref()),
            Arg::Int(threshold as i32),
            Arg::Real(factor),
            self.pool.upload(&[key]).arg(),
            ids.arg(),
        ];
        let kept = dense.into_iter().chain(starts).chain([ids]).collect();
        Attention { args, queries, keys, heads, widths, rows: c.env.rows(), _kept: kept }
    }

    /// The flags of a mask that is an expression, which the host works out: `[head, query, key]` of every row.
    fn dense(&self, c: &Call<'_>, expr: &Expr, step: i64, heads: usize) -> Mask {
        let (queries, keys) = (c.axis(0), c.axis(1));
        let (mut flags, mut starts, mut seen) = (vec![], vec![], vec![]);
        for row in 0..c.env.rows() {
            starts.push(u32::try_from(flags.len()).unwrap_or(u32::MAX));
            for head in 0..heads {
                for query in 0..queries.len(row) {
                    seen.clear();
                    seen.resize(keys.len(row), true);
                    mark(expr, step, MaskRow { row, head, query, queries: queries.len(row), first: 0 }, &mut seen);
                    flags.extend(seen.iter().map(|seen| u8::from(*seen)));
                }
            }
        }
        Mask::Dense(self.pool.upload(&flags), self.pool.upload(&starts))
    }

    /// Starts a kernel with a warp for each of at most `longest` things of every head of every row.
    fn start_attention(&self, kernel: &str, a: &Attention, longest: usize, width: usize, more: &[&Array]) {
        let threads = self.pool.device().threads();
        let args: Vec<Arg> = a.args.iter().copied().chain(more.iter().map(|x| x.arg())).collect();
        let grid = [(a.rows * a.heads) as u32, blocks(longest, (threads / WARP) as usize), blocks(width, SLICE).max(1)];
        self.pool.start(kernel, grid, threads, &args);
    }

    pub(super) fn attention(&mut self, c: &Call<'_>) -> Result<(), Fault> {
        let a = self.describe(c, c.node.operands.get(3).copied())?;
        self.forward(c, &a);
        Ok(())
    }

    fn forward(&mut self, c: &Call<'_>, a: &Attention) {
        let y = self.fresh(c, 0);
        self.start_attention("attention", a, a.queries.longest, a.widths[1], &[&y]);
        self.put(c, 0, y);
    }

    pub(super) fn attention_grad(&mut self, c: &Call<'_>) -> Result<(), Fault> {
        let a = self.describe(c, c.node.operands.get(4).copied())?;
        let dy = self.real(c.operand(3));
        self.backward(c, &a, &dy);
        Ok(())
    }

    /// Gradients of queries, keys and values; gives what the gradient of the distances needs.
    fn backward(&mut self, c: &Call<'_>, a: &Attention, dy: &Array) -> Array {
        let [dq, dk, dv] = [0, 1, 2].map(|n| self.fresh(c, n));
        let [e, ev] = a.widths;
        let stats = self.pool.take::<T>(3 * dq.len() / e.max(1));
        self.start_attention("attention_grad_queries", a, a.queries.longest, e, &[dy, &dq, &stats]);
        self.start_attention("attention_grad_keys", a, a.keys.longest, e.max(ev), &[dy, &stats, &dk, &dv]);
        for (n, grad) in [dq, dk, dv].into_iter().enumerate() {
            self.put_or_add(c, n, grad);
        }
        stats
    }

    /// The n-th result: added to its parameter's gradient where the plan says so, else put into the table.
    pub(super) fn put_or_add(&mut self, c: &Call<'_>, n: usize, grad: Array) {
        match c.step.into[n] {
            Some(parameter) => self.pool.add(&grad, &self.gradient(parameter)),
            None => self.put(c, n, grad),
        }
    }

    fn describe_offsets(&mut self, c: &Call<'_>) -> Attention {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let mask = if c.word("mask") == "causal" { Mask::Causal } else { Mask::None };
        let bias = self.real(c.operand(3));
        self.attend(c, 1, (axis.clone(), axis), mask, Some(&bias), (0, 1.0, 0))
    }

    pub(super) fn offset_attention(&mut self, c: &Call<'_>) {
        let a = self.describe_offsets(c);
        self.forward(c, &a);
    }

    pub(super) fn offset_attention_grad(&mut self, c: &Call<'_>) {
        let a = self.describe_offsets(c);
        let dy = self.real(c.operand(4));
        let stats = self.backward(c, &a, &dy);
        let sums = self.pool.take::<T>(2 * a.queries.row_of.len());
        let distances = (2 * a.queries.longest).saturating_sub(1);
        self.start_attention("attention_grad_distances", &a, distances, 1, &[&dy, &stats, &sums]);
        let (d_bias, add) = self.target(c, 3);
        let reach = d_bias.len().div_ceil(2);
        let (rows, add) = (super::memory::whole(a.rows), super::memory::flag(add));
        let args = [sums.arg(), a.queries.offsets.arg(), d_bias.arg(), int(reach), rows, add];
        self.pool.each("attention_distances", d_bias.len(), &args);
    }
}
