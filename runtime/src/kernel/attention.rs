//! Multi-head attention over packed rows: forward, and backward with the probabilities recomputed.
//!
//! Every (row, head) is one task. The scores of a block of queries against all keys of the row stay in cache; with the
//! keys transposed once, all products run over contiguous vectors.

use super::Real;
use super::dropout::Keep;
use super::parallel::{LANES, Parts, each_with, fold_lanes, lane_sum, vectorised};
use super::tile::{Left, Panel, product};
use crate::rng::Key;

/// Scores of one block of queries, in elements: half of a second-level cache for forward and backward together.
const SCORES: usize = 1 << 15;

/// Where a row of a dense mask stands.
#[derive(Clone, Copy, Debug)]
pub struct MaskRow {
    /// The row of the batch.
    pub row: usize,
    /// The head.
    pub head: usize,
    /// The query's position in the row.
    pub query: usize,
    /// Number of queries of the row.
    pub queries: usize,
}

/// Which keys a query sees.
#[derive(Clone, Copy)]
pub enum MaskKind<'a> {
    /// All of its row.
    All,
    /// Those up to its own position.
    Causal,
    /// Those that the rule leaves true: it gets one flag per key of the row, all true. Where none is left, the output
    /// and all gradients of the query are 0.
    Dense(&'a (dyn Fn(MaskRow, &mut [bool]) + Sync)),
}

/// Dropout on the attention probabilities: query `i` of head `h` draws from `row_keys[row].at(h).at(i)`, key by key.
#[derive(Clone, Copy, Debug)]
pub struct ProbabilityDropout<'a> {
    /// The probability of dropping.
    pub p: f64,
    /// One key per row.
    pub row_keys: &'a [Key],
}

/// What an attention computes: `softmax(scale q k^T) v` per row and head.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Width of one head.
    pub head_width: usize,
    /// Factor on the scores; positive.
    pub scale: f64,
    /// Which keys a query sees.
    pub mask: MaskKind<'a>,
    /// Dropout on the probabilities.
    pub dropout: Option<ProbabilityDropout<'a>>,
}

/// `out[tq, heads e] = softmax(scale q k^T) v` with `q[tq, heads e]` and `k, v[tk, heads e]`, row by row.
pub fn attention<T: Real>(
    spec: &Attention,
    q: &[T],
    k: &[T],
    v: &[T],
    q_offsets: &[usize],
    k_offsets: &[usize],
    out: &mut [T],
) {
    let shape = Shape::new(spec, q, k, v, q_offsets, k_offsets);
    debug_assert_eq!(out.len(), q.len());
    let out = Parts::new(out);
    shape.each_head(2, |scratch, place| {
        let Some((nq, nk)) = place.extent(&shape) else {
            return;
        };
        vectorised(
            #[inline(always)]
            || {
                // SAFETY: the (row, head) pairs own disjoint strided parts of `out`, all inside it.
                unsafe { forward_head(&shape, scratch, place, nq, nk, q, k, v, &out) }
            },
        );
    });
}

/// Gradients of [`attention`] for the upstream gradient `dout`; overwrites `dq`, `dk` and `dv`.
pub fn attention_grad<T: Real>(
    spec: &Attention,
    q: &[T],
    k: &[T],
    v: &[T],
    dout: &[T],
    q_offsets: &[usize],
    k_offsets: &[usize],
    dq: &mut [T],
    dk: &mut [T],
    dv: &mut [T],
) {
    let shape = Shape::new(spec, q, k, v, q_offsets, k_offsets);
    debug_assert!(dout.len() == q.len() && dq.len() == q.len() && dk.len() == k.len() && dv.len() == v.len());
    let grads = [Parts::new(dq), Parts::new(dk), Parts::new(dv)];
    shape.each_head(5, |scratch, place| {
        let Some((nq, nk)) = place.extent(&shape) else {
            return;
        };
        vectorised(
            #[inline(always)]
            || {
                // SAFETY: the (row, head) pairs own disjoint strided parts of the gradients, all inside them.
                unsafe { backward_head(&shape, scratch, place, nq, nk, [q, k, v], dout, &grads) }
            },
        );
    });
}

/// The sizes shared by all tasks of one call.
struct Shape<'a> {
    spec: &'a Attention<'a>,
    q_offsets: &'a [usize],
    k_offsets: &'a [usize],
    /// Elements from one position to the next: all heads.
    stride: usize,
    /// Width of a head, filled up to whole vectors.
    padded: usize,
}

/// One task: a row and a head.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    head: usize,
}

impl Place {
    /// Queries and keys of the row; nothing where there are neither.
    fn extent(self, shape: &Shape) -> Option<(usize, usize)> {
        let length = |offsets: &[usize]| offsets[self.row + 1] - offsets[self.row];
        let (nq, nk) = (length(shape.q_offsets), length(shape.k_offsets));
        (nq > 0 || nk > 0).then_some((nq, nk))
    }
}

/// Reused buffers of one thread.
#[derive(Default)]
struct Scratch<T> {
    /// Keys of the head, transposed: `[e, keys]`.
    keys: Vec<T>,
    /// Values of the head, transposed.
    values: Vec<T>,
    /// Scores, then probabilities, of a block of queries.
    scores: Vec<T>,
    /// Their gradients.
    grads: Vec<T>,
    /// Copies of q, k, v and dout with the head width filled up to whole vectors.
    operands: [Vec<T>; 4],
    /// Results with the head width filled up.
    results: [Vec<T>; 3],
    /// Flags of a dense mask.
    allowed: Vec<bool>,
    /// Dropout factors of one query.
    factors: Vec<T>,
}

impl<'a> Shape<'a> {
    fn new<T>(
        spec: &'a Attention<'a>,
        q: &[T],
        k: &[T],
        v: &[T],
        q_offsets: &'a [usize],
        k_offsets: &'a [usize],
    ) -> Self {
        let stride = spec.heads * spec.head_width;
        debug_assert_eq!(q_offsets.len(), k_offsets.len());
        debug_assert!(q_offsets.last().is_some_and(|&end| end * stride == q.len()));
        debug_assert!(k_offsets.last().is_some_and(|&end| end * stride == k.len() && v.len() == k.len()));
        debug_assert!(spec.dropout.is_none_or(|dropout| dropout.row_keys.len() + 1 == q_offsets.len()));
        Self { spec, q_offsets, k_offsets, stride, padded: spec.head_width.next_multiple_of(LANES) }
    }

    /// Runs `task` for every row and head; `products` products of scores' size are the cost.
    fn each_head<T: Real>(&self, products: usize, task: impl Fn(&mut Scratch<T>, Place) + Sync + Send) {
        let rows = self.q_offsets.len() - 1;
        let heads = self.spec.heads;
        let pairs: usize =
            self.q_offsets.windows(2).zip(self.k_offsets.windows(2)).map(|(q, k)| (q[1] - q[0]) * (k[1] - k[0])).sum();
        let work = pairs * heads * (products * self.padded / 4 + 4);
        each_with(rows * heads, work, Scratch::default, |scratch, i| {
            task(scratch, Place { row: i / heads, head: i % heads });
        });
    }

    /// Queries of one block for rows with `padded_keys` keys.
    fn block_queries(&self, padded_keys: usize) -> usize {
        (SCORES / padded_keys / 8 * 8).clamp(8, 64)
    }

    /// Keys that any query below `query_end` may see, of `keys`.
    fn visible(&self, query_end: usize, keys: usize) -> usize {
        if matches!(self.spec.mask, MaskKind::Causal) { keys.min(query_end) } else { keys }
    }

    /// Index of the first element of the head in the query (or key) arrays.
    fn query_start(&self, place: Place) -> usize {
        self.q_offsets[place.row] * self.stride + place.head * self.spec.head_width
    }

    fn key_start(&self, place: Place) -> usize {
        self.k_offsets[place.row] * self.stride + place.head * self.spec.head_width
    }

    /// The head of `rows` positions from `start` on with whole vectors per row: in place where the width allows.
    #[inline(always)]
    fn operand<T: Real>(&self, x: &[T], start: usize, rows: usize, copy: &mut Vec<T>) -> Panel<T> {
        let width = self.spec.head_width;
        if width == self.padded {
            return Panel { start: x[start..].as_ptr(), row: self.stride };
        }
        zeroed(copy, rows * self.padded);
        for (row, out) in copy.chunks_exact_mut(self.padded).enumerate() {
            let at = start + row * self.stride;
            out[..width].copy_from_slice(&x[at..at + width]);
        }
        Panel { start: copy.as_ptr(), row: self.padded }
    }

    /// Where the head's `rows` results from `start` on are summed up, zeroed: in place where the width allows.
    #[inline(always)]
    unsafe fn result<T: Real>(&self, out: &Parts<T>, start: usize, rows: usize, copy: &mut Vec<T>) -> (*mut T, usize) {
        if self.spec.head_width != self.padded {
            zeroed(copy, rows * self.padded);
            return (copy.as_mut_ptr(), self.padded);
        }
        for row in 0..rows {
            let at = start + row * self.stride;
            // SAFETY: the task owns these parts of `out`.
            unsafe { out.part(at..at + self.padded) }.fill(T::ZERO);
        }
        // SAFETY: `start` is inside `out`, which has at least one row there, or at its end.
        (unsafe { out.at(start) }, self.stride)
    }

    /// Copies results that were summed elsewhere to where they belong.
    #[inline(always)]
    unsafe fn deliver<T: Real>(&self, out: &Parts<T>, start: usize, copy: &[T]) {
        let width = self.spec.head_width;
        if width == self.padded {
            return;
        }
        for (row, values) in copy.chunks_exact(self.padded).enumerate() {
            let at = start + row * self.stride;
            // SAFETY: the task owns these parts of `out`.
            unsafe { out.part(at..at + width) }.copy_from_slice(&values[..width]);
        }
    }

    /// `out[e, padded keys]` = the head of x, transposed, the fill zero.
    #[inline(always)]
    fn transpose<T: Real>(&self, x: &[T], start: usize, rows: usize, padded_rows: usize, out: &mut Vec<T>) {
        zeroed(out, self.spec.head_width * padded_rows);
        for row in 0..rows {
            let at = start + row * self.stride;
            for (c, &value) in x[at..at + self.spec.head_width].iter().enumerate() {
                out[c * padded_rows + row] = value;
            }
        }
    }

    /// Sets the scores that query `query` must not use to minus infinity, the fill behind the last key included.
    #[inline(always)]
    fn hide<T: Real>(&self, place: Place, query: usize, nq: usize, nk: usize, allowed: &mut Vec<bool>, scores: &mut [T]) {
        let seen = match self.spec.mask {
            MaskKind::All | MaskKind::Dense(_) => nk,
            MaskKind::Causal => nk.min(query + 1),
        };
        scores[seen..].fill(T::NEG_INFINITY);
        if let MaskKind::Dense(rule) = self.spec.mask {
            allowed.clear();
            allowed.resize(nk, true);
            rule(MaskRow { row: place.row, head: place.head, query, queries: nq }, allowed);
            for (score, &allowed) in scores.iter_mut().zip(allowed.iter()) {
                *score = if allowed { *score } else { T::NEG_INFINITY };
            }
        }
    }

    /// The dropout factors of one query into `factors`; false without dropout.
    #[inline(always)]
    fn draw<T: Real>(&self, place: Place, query: usize, keys: usize, factors: &mut Vec<T>) -> bool {
        let Some(dropout) = self.spec.dropout else {
            return false;
        };
        factors.resize(keys, T::ZERO);
        let key = dropout.row_keys[place.row].at(place.head as u64).at(query as u64);
        Keep::new(dropout.p).factors(key, 0, factors);
        true
    }
}

/// Makes `buffer` hold `len` zeros.
#[inline(always)]
fn zeroed<T: Real>(buffer: &mut Vec<T>, len: usize) {
    buffer.clear();
    buffer.resize(len, T::ZERO);
}

/// Turns scores into `exp(scale (score - max))` and returns 1 / sum (0 where all scores are minus infinity).
#[inline(always)]
fn exponentials<T: Real>(scores: &mut [T], scale: T) -> T {
    let (blocks, _) = scores.as_chunks_mut::<LANES>();
    let mut largest = [T::NEG_INFINITY; LANES];
    for scores in blocks.iter() {
        for l in 0..LANES {
            largest[l] = scores[l].or_larger(largest[l]);
        }
    }
    let largest = fold_lanes(largest, #[inline(always)] |a, b| a.or_larger(b));
    if largest == T::NEG_INFINITY {
        blocks.as_flattened_mut().fill(T::ZERO);
        return T::ZERO;
    }
    let mut sums = [T::ZERO; LANES];
    for scores in blocks.iter_mut() {
        for l in 0..LANES {
            scores[l] = ((scores[l] - largest) * scale).exp();
            sums[l] += scores[l];
        }
    }
    T::ONE / fold_lanes(sums, #[inline(always)] |a, b| a + b)
}

#[inline(always)]
unsafe fn forward_head<T: Real>(
    shape: &Shape,
    scratch: &mut Scratch<T>,
    place: Place,
    nq: usize,
    nk: usize,
    q: &[T],
    k: &[T],
    v: &[T],
    out: &Parts<T>,
) {
    let (q_start, k_start) = (shape.query_start(place), shape.key_start(place));
    let width = nk.next_multiple_of(LANES);
    let scale = T::from_f64(shape.spec.scale);
    let [result, ..] = &mut scratch.results;
    // SAFETY: the caller's promise about `out`.
    let (sums, sums_row) = unsafe { shape.result(out, q_start, nq, result) };
    if nk > 0 {
        shape.transpose(k, k_start, nk, width, &mut scratch.keys);
        let values = shape.operand(v, k_start, nk, &mut scratch.operands[2]);
        let rows = shape.block_queries(width);
        for first in (0..nq).step_by(rows) {
            let count = rows.min(nq - first);
            let keys = shape.visible(first + count, nk);
            let columns = keys.next_multiple_of(LANES);
            zeroed(&mut scratch.scores, count * width);
            let scores = scratch.scores.as_mut_ptr();
            let queries = Left { start: q[q_start + first * shape.stride..].as_ptr(), row: shape.stride, inner: 1 };
            let right = Panel { start: scratch.keys.as_ptr(), row: width };
            // SAFETY: count x width scores, e x width transposed keys, count queries of e numbers.
            unsafe { product(scores, width, queries, right, count, shape.spec.head_width, columns) };
            for (i, row) in scratch.scores.chunks_exact_mut(width).enumerate() {
                let row = &mut row[..columns];
                shape.hide(place, first + i, nq, keys, &mut scratch.allowed, row);
                let inverse = exponentials(row, scale);
                let dropped = shape.draw(place, first + i, columns, &mut scratch.factors);
                for (c, p) in row.iter_mut().enumerate() {
                    *p = if dropped { *p * inverse * scratch.factors[c] } else { *p * inverse };
                }
            }
            let left = Left { start: scratch.scores.as_ptr(), row: width, inner: 1 };
            // SAFETY: count rows of results from `first` on; the visible keys have values of whole vectors.
            unsafe { product(sums.add(first * sums_row), sums_row, left, values, count, keys, shape.padded) };
        }
    }
    // SAFETY: the caller's promise about `out`.
    unsafe { shape.deliver(out, q_start, &scratch.results[0]) };
}

/// With P the probabilities, F the dropout factors, D = F (dout v^T): dv = (P F)^T dout,
/// dS = scale P (D - sum(P D)), dq = dS k, dk = dS^T q.
#[inline(always)]
unsafe fn backward_head<T: Real>(
    shape: &Shape,
    scratch: &mut Scratch<T>,
    place: Place,
    nq: usize,
    nk: usize,
    [q, k, v]: [&[T]; 3],
    dout: &[T],
    grads: &[Parts<T>; 3],
) {
    let (q_start, k_start) = (shape.query_start(place), shape.key_start(place));
    let (e, stride) = (shape.spec.head_width, shape.stride);
    let width = nk.next_multiple_of(LANES);
    let scale = T::from_f64(shape.spec.scale);
    let [dq, dk, dv] = &mut scratch.results;
    // SAFETY: the caller's promise about the gradients.
    let ((dq, dq_row), (dk, dk_row), (dv, dv_row)) = unsafe {
        (
            shape.result(&grads[0], q_start, nq, dq),
            shape.result(&grads[1], k_start, nk, dk),
            shape.result(&grads[2], k_start, nk, dv),
        )
    };
    if nk > 0 && nq > 0 {
        shape.transpose(k, k_start, nk, width, &mut scratch.keys);
        shape.transpose(v, k_start, nk, width, &mut scratch.values);
        let [q_copy, k_copy, _, dout_copy] = &mut scratch.operands;
        let q_panel = shape.operand(q, q_start, nq, q_copy);
        let k_panel = shape.operand(k, k_start, nk, k_copy);
        let dout_panel = shape.operand(dout, q_start, nq, dout_copy);
        let rows = shape.block_queries(width);
        for first in (0..nq).step_by(rows) {
            let count = rows.min(nq - first);
            let keys = shape.visible(first + count, nk);
            let columns = keys.next_multiple_of(LANES);
            zeroed(&mut scratch.scores, count * width);
            zeroed(&mut scratch.grads, count * width);
            let block = |x: &[T]| Left { start: x[q_start + first * stride..].as_ptr(), row: stride, inner: 1 };
            // SAFETY: as in the forward pass.
            unsafe {
                let panel = |x: &[T]| Panel { start: x.as_ptr(), row: width };
                product(scratch.scores.as_mut_ptr(), width, block(q), panel(&scratch.keys), count, e, columns);
                product(scratch.grads.as_mut_ptr(), width, block(dout), panel(&scratch.values), count, e, columns);
            }
            let grads = scratch.grads.chunks_exact_mut(width);
            for (i, (p, d)) in scratch.scores.chunks_exact_mut(width).zip(grads).enumerate() {
                let (p, d) = (&mut p[..columns], &mut d[..columns]);
                shape.hide(place, first + i, nq, keys, &mut scratch.allowed, p);
                let inverse = exponentials(p, scale);
                let dropped = shape.draw(place, first + i, columns, &mut scratch.factors);
                softmax_grad(p, d, dropped.then_some(&scratch.factors), inverse, scale);
            }
            let along = |x: &[T]| Left { start: x.as_ptr(), row: width, inner: 1 };
            let across = |x: &[T]| Left { start: x.as_ptr(), row: 1, inner: width };
            let (scores, grads) = (&scratch.scores, &scratch.grads);
            // SAFETY: the blocks of dq are disjoint from one another; dk and dv add up over the blocks.
            unsafe {
                let rest = |panel: Panel<T>| Panel { start: panel.start.add(first * panel.row), row: panel.row };
                product(dv, dv_row, across(scores), rest(dout_panel), keys, count, shape.padded);
                product(dq.add(first * dq_row), dq_row, along(grads), k_panel, count, keys, shape.padded);
                product(dk, dk_row, across(grads), rest(q_panel), keys, count, shape.padded);
            }
        }
    }
    let starts = [q_start, k_start, k_start];
    for ((grad, start), copy) in grads.iter().zip(starts).zip(&scratch.results) {
        // SAFETY: the caller's promise about the gradients.
        unsafe { shape.deliver(grad, start, copy) };
    }
}

/// One query: `p` holds exponentials and gets the dropped probabilities, `d` holds the gradient with respect to those
/// and gets the gradient of the scores.
#[inline(always)]
fn softmax_grad<T: Real>(p: &mut [T], d: &mut [T], factors: Option<&Vec<T>>, inverse: T, scale: T) {
    if let Some(factors) = factors {
        for (d, &f) in d.iter_mut().zip(factors) {
            *d *= f;
        }
    }
    let mean = lane_sum(p, d, #[inline(always)] |p, d| p * d) * inverse;
    for (p, d) in p.iter_mut().zip(d.iter_mut()) {
        *p *= inverse;
        *d = *p * (*d - mean) * scale;
    }
    if let Some(factors) = factors {
        for (p, &f) in p.iter_mut().zip(factors) {
            *p *= f;
        }
    }
}
