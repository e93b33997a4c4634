//! Attention with one head and a learned number per distance, as in MEGA: values may be wider than queries and keys.
//!
//! `P = softmax(q k^T / sqrt(width) + bias[reach - 1 + j - i])`, `y = P v`. Positions further apart than the biases reach count
//! as being at the last distance. The backward run computes the probabilities again.
//!
//! Source: Ma et al. 2022 (MEGA), Section 3, arXiv:2209.10655.

use super::attention::{cut, softmax, softmax_grad};
use super::parallel::{DisjointSlice, LANES, add_to, each, vectorised};
use super::tile::{LeftOperand, RightOperand, product};
use super::{Real, Write};

/// Queries of one block.
const QUERIES: usize = 32;

/// Sizes of an attention.
#[derive(Clone, Copy, Debug)]
pub struct OffsetAttention<'a> {
    /// Where the rows begin, in positions.
    pub offsets: &'a [usize],
    /// Channels of queries and keys.
    pub width: usize,
    /// Channels of values.
    pub values: usize,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
}

/// Numbers that [`OffsetAttention::backward`] needs for the gradients of the biases of every row.
pub fn partial_len(offsets: &[usize]) -> usize {
    2 * offsets[offsets.len() - 1]
}

/// Memory for a row, cut from a thread's scratch.
struct OffsetScratch<'s, T> {
    /// Queries of a block, times the scale, with rows filled up to whole vectors.
    queries: &'s mut [T],
    /// Keys of the row, turned: `[width, keys]`, the keys filled up.
    turned: &'s mut [T],
    /// Values of the row with rows filled up.
    values: &'s mut [T],
    /// Scores of a block, then probabilities.
    scores: &'s mut [T],
    /// Output of a block, or the gradient of the queries.
    result: &'s mut [T],
    /// For gradients: keys as they are, values turned, `dy` of a block, gradients of scores, keys and values.
    backward: [&'s mut [T]; 6],
}

/// A block of queries of a row.
#[derive(Clone, Copy)]
struct OffsetBlock {
    /// First position of the row.
    start: usize,
    /// Positions of the row.
    length: usize,
    first: usize,
    count: usize,
    /// Keys that any query of the block sees.
    visible: usize,
    /// Those, filled up to whole vectors.
    columns: usize,
}

impl OffsetAttention<'_> {
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn work(&self, products: usize) -> usize {
        let pairs: usize = self.offsets.windows(2).map(|ends| (ends[1] - ends[0]).pow(2)).sum();
        pairs * (products * (self.width + self.values) / 8 + 4)
    }

    fn padded(&self) -> [usize; 2] {
        [self.width, self.values].map(|width| width.next_multiple_of(LANES))
    }

    fn block(&self, row: usize, first: usize) -> OffsetBlock {
        let (start, end) = (self.offsets[row], self.offsets[row + 1]);
        let length = end - start;
        let count = QUERIES.min(length - first);
        let visible = if self.causal { first + count } else { length };
        OffsetBlock { start, length, first, count, visible, columns: visible.next_multiple_of(LANES) }
    }

    fn with_scratch<T: Real>(&self, length: usize, backward: bool, f: impl FnOnce(&mut OffsetScratch<'_, T>)) {
        let [width, values] = self.padded();
        let keys = length.next_multiple_of(LANES);
        let more = match backward {
            true => {
                [length * width, self.values * keys, QUERIES * values, QUERIES * keys, length * width, length * values]
            }
            false => [0; 6],
        };
        let [queries, turned, kept, scores, result] =
            [QUERIES * width, self.width * keys, length * values, QUERIES * keys, QUERIES * width.max(values)];
        let total = queries + turned + kept + scores + result + more.iter().sum::<usize>();
        T::with_scratch(total, |mut rest| {
            let rest = &mut rest;
            f(&mut OffsetScratch {
                queries: cut(rest, queries),
                turned: cut(rest, turned),
                values: cut(rest, kept),
                scores: cut(rest, scores),
                result: cut(rest, result),
                backward: more.map(|len| cut(rest, len)),
            });
        });
    }

    /// `y[positions, values]` from `q, k[positions, width]`, `v[positions, values]` and the biases.
    pub fn forward<T: Real>(&self, [q, k, v, bias]: [&[T]; 4], y: &mut [T]) {
        debug_assert!(q.len() == k.len() && v.len() == y.len() && bias.len() % 2 == 1);
        let y = DisjointSlice::new(y);
        each(self.rows(), self.work(1), |row| {
            let (start, end) = (self.offsets[row], self.offsets[row + 1]);
            let [_, values] = self.padded();
            self.with_scratch(end - start, false, |s| {
                turn(&k[start * self.width..end * self.width], self.width, s.turned);
                pad(&v[start * self.values..end * self.values], self.values, T::ONE, s.values);
                for first in (0..end - start).step_by(QUERIES) {
                    let block = self.block(row, first);
                    self.probabilities(block, q, bias, s);
                    let left = LeftOperand::new(s.scores, block.columns, 1);
                    let right = RightOperand::new(s.values, values);
                    product(s.result, values, left, right, block.count, block.visible, values, Write::Replace);
                    let at = (start + first) * self.values;
                    // SAFETY: every row has positions of its own.
                    let y = unsafe { y.part(at..at + block.count * self.values) };
                    unpad(s.result, values, self.values, T::ONE, y);
                }
            });
        });
    }

    /// Gradients for q, k, v and the biases; `partial` has [`partial_len`] numbers of any content.
    pub fn backward<T: Real>(&self, inputs: [&[T]; 5], grads: [&mut [T]; 4], partial: &mut [T]) {
        let [dq, dk, dv, d_bias] = grads;
        partial.fill(T::ZERO);
        let (rows, sums) =
            ([DisjointSlice::new(dq), DisjointSlice::new(dk), DisjointSlice::new(dv)], DisjointSlice::new(partial));
        each(self.rows(), self.work(3), |row| {
            let range = 2 * self.offsets[row]..2 * self.offsets[row + 1];
            // SAFETY: every row has positions and sums of its own.
            unsafe { self.backward_row(row, inputs, &rows, sums.part(range)) };
        });
        d_bias.fill(T::ZERO);
        let middle = d_bias.len() / 2;
        for ends in self.offsets.windows(2) {
            let length = ends[1] - ends[0];
            for (n, sum) in partial[2 * ends[0]..2 * ends[1]].iter().take((2 * length).saturating_sub(1)).enumerate() {
                d_bias[place(middle, n as isize + 1 - length as isize)] += *sum;
            }
        }
    }

    /// One row of [`Self::backward`]. With P the probabilities: `dv = P^T dy`, `dS = P (dy v^T - sum)`, `dq = dS k`, `dk = dS^T q`.
    ///
    /// # Safety
    /// The task owns the row in all gradients.
    unsafe fn backward_row<T: Real>(
        &self,
        row: usize,
        [q, k, v, bias, dy]: [&[T]; 5],
        grads: &[DisjointSlice<'_, T>; 3],
        offset_sums: &mut [T],
    ) {
        let (start, end) = (self.offsets[row], self.offsets[row + 1]);
        let [width, values] = self.padded();
        let scale = T::from_f64(1.0 / (self.width as f64).sqrt());
        let narrow = start * self.width..end * self.width;
        let wide = start * self.values..end * self.values;
        self.with_scratch(end - start, true, |s| {
            turn(&k[narrow.clone()], self.width, s.turned);
            pad(&k[narrow.clone()], self.width, T::ONE, s.backward[0]);
            turn(&v[wide.clone()], self.values, s.backward[1]);
            s.backward[4].fill(T::ZERO);
            s.backward[5].fill(T::ZERO);
            let keys = (end - start).next_multiple_of(LANES);
            for first in (0..end - start).step_by(QUERIES) {
                let block = self.block(row, first);
                let OffsetBlock { count, visible, columns, .. } = block;
                self.probabilities(block, q, bias, s);
                let [k_rows, v_turned, dy_rows, d_scores, dk, dv] = &mut s.backward;
                let at = (start + first) * self.values;
                pad(&dy[at..at + count * self.values], self.values, T::ONE, dy_rows);
                let left = LeftOperand::new(dy_rows, values, 1);
                product(
                    d_scores,
                    columns,
                    left,
                    RightOperand::new(v_turned, keys),
                    count,
                    self.values,
                    columns,
                    Write::Replace,
                );
                let (p, d) = (&mut s.scores[..count * columns], &mut d_scores[..count * columns]);
                softmax_grad(p, d, columns, T::ONE, None);
                collect(block, d, offset_sums);
                let across = LeftOperand::new(p, 1, columns);
                product(dv, values, across, RightOperand::new(dy_rows, values), visible, count, values, Write::Add);
                let along = LeftOperand::new(d, columns, 1);
                product(
                    s.result,
                    width,
                    along,
                    RightOperand::new(k_rows, width),
                    count,
                    visible,
                    width,
                    Write::Replace,
                );
                let across = LeftOperand::new(d, 1, columns);
                product(dk, width, across, RightOperand::new(s.queries, width), visible, count, width, Write::Add);
                let at = (start + first) * self.width;
                // SAFETY: the caller's promise.
                unpad(s.result, width, self.width, scale, unsafe { grads[0].part(at..at + count * self.width) });
            }
            // SAFETY: the caller's promise.
            let (dk, dv) = unsafe { (grads[1].part(narrow.clone()), grads[2].part(wide.clone())) };
            // The queries were scaled already, and so are the gradients of the keys.
            unpad(s.backward[4], width, self.width, T::ONE, dk);
            unpad(s.backward[5], values, self.values, T::ONE, dv);
        });
    }

    /// Leaves the probabilities of a block in `scores` and its scaled queries in `queries`.
    fn probabilities<T: Real>(&self, block: OffsetBlock, q: &[T], bias: &[T], s: &mut OffsetScratch<'_, T>) {
        let OffsetBlock { start, length, first, count, .. } = block;
        let at = (start + first) * self.width;
        let panel = RightOperand::new(s.turned, length.next_multiple_of(LANES));
        self.weighed(block, &q[at..at + count * self.width], panel, bias, [s.queries, s.scores]);
    }

    /// As [`Self::probabilities`], from the queries of the block and the keys turned.
    fn weighed<T: Real>(
        &self,
        block: OffsetBlock,
        q: &[T],
        keys: RightOperand<'_, T>,
        bias: &[T],
        [queries, scores]: [&mut [T]; 2],
    ) {
        let OffsetBlock { length, first, count, visible, columns, .. } = block;
        let [width, _] = self.padded();
        let scale = T::from_f64(1.0 / (self.width as f64).sqrt());
        pad(q, self.width, scale, queries);
        product(scores, columns, LeftOperand::new(queries, width, 1), keys, count, self.width, columns, Write::Replace);
        let scores = &mut scores[..count * columns];
        let middle = bias.len() / 2;
        for (i, scores) in scores.chunks_exact_mut(columns).enumerate() {
            let query = first + i;
            let seen = if self.causal { query + 1 } else { visible };
            if length <= middle + 1 {
                add_to(&mut scores[..seen], &bias[middle - query..middle - query + seen]);
            } else {
                for (key, score) in scores[..seen].iter_mut().enumerate() {
                    *score += bias[place(middle, key as isize - query as isize)];
                }
            }
            scores[seen..].fill(T::NEG_INFINITY);
        }
        softmax(scores, columns, T::ONE, None);
    }
}

/// Where the bias of a distance stands.
fn place(middle: usize, distance: isize) -> usize {
    let reach = middle as isize;
    (reach + distance.clamp(-reach, reach)) as usize
}

/// Adds the gradients of the scores of a block to the sums of its row: one per distance, from `1 - length` on.
fn collect<T: Real>(block: OffsetBlock, d: &[T], sums: &mut [T]) {
    for (i, d) in d.chunks_exact(block.columns).enumerate() {
        let from = block.length - 1 - (block.first + i);
        add_to(&mut sums[from..from + block.visible], &d[..block.visible]);
    }
}

/// `out[width, rows filled up]` = x turned, the fill zero.
fn turn<T: Real>(x: &[T], width: usize, out: &mut [T]) {
    let stride = (x.len() / width).next_multiple_of(LANES);
    out.fill(T::ZERO);
    for (row, x) in x.chunks_exact(width).enumerate() {
        for (c, &value) in x.iter().enumerate() {
            out[c * stride + row] = value;
        }
    }
}

/// Copies rows, times a factor, each filled up to whole vectors with zeros.
fn pad<T: Real>(x: &[T], width: usize, factor: T, out: &mut [T]) {
    let stride = width.next_multiple_of(LANES);
    vectorised!({
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(stride)) {
            out[..width].iter_mut().zip(x).for_each(|(out, &x)| *out = x * factor);
            out[width..].fill(T::ZERO);
        }
    });
}

/// The inverse of [`pad`].
fn unpad<T: Real>(x: &[T], stride: usize, width: usize, factor: T, out: &mut [T]) {
    vectorised!({
        for (x, out) in x.chunks_exact(stride).zip(out.chunks_exact_mut(width)) {
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = x * factor);
        }
    });
}

/// Keys and values of one row, for queries that come one after the other and see what is before them.
#[derive(Clone, Debug)]
pub struct OffsetCache<T> {
    width: usize,
    values: usize,
    length: usize,
    /// Positions that there is room for: a multiple of [`LANES`].
    capacity: usize,
    /// Keys, turned: `[width, capacity]`.
    turned: Vec<T>,
    /// Values with rows filled up to whole vectors.
    kept: Vec<T>,
}

impl<T: Real> OffsetCache<T> {
    /// No positions yet, with so many channels of keys and of values.
    pub fn new(width: usize, values: usize) -> Self {
        Self { width, values, length: 0, capacity: 0, turned: vec![], kept: vec![] }
    }

    fn push(&mut self, k: &[T], v: &[T]) {
        let count = k.len() / self.width;
        self.reserve(self.length + count);
        for (n, k) in k.chunks_exact(self.width).enumerate() {
            for (channel, &number) in k.iter().enumerate() {
                self.turned[channel * self.capacity + self.length + n] = number;
            }
        }
        let stride = self.values.next_multiple_of(LANES);
        let start = self.kept.len();
        self.kept.resize(start + count * stride, T::ZERO);
        pad(v, self.values, T::ONE, &mut self.kept[start..]);
        self.length += count;
    }

    /// Makes room for so many positions, at least twice as many as before: what is kept moves seldom.
    fn reserve(&mut self, positions: usize) {
        if positions <= self.capacity {
            return;
        }
        let room = positions.max(2 * self.capacity).max(4 * LANES).next_multiple_of(LANES);
        let mut turned = vec![T::ZERO; self.width * room];
        for (to, from) in turned.chunks_exact_mut(room).zip(self.turned.chunks_exact(self.capacity.max(1))) {
            to[..self.capacity].copy_from_slice(from);
        }
        (self.turned, self.capacity) = (turned, room);
    }

    /// [`OffsetAttention::forward`] of the next positions, which see those before them.
    pub fn extend(&mut self, [q, k, v, bias]: [&[T]; 4], y: &mut [T]) {
        self.push(k, v);
        let new = q.len() / self.width;
        let offsets = [0, self.length];
        let attention = OffsetAttention { offsets: &offsets, width: self.width, values: self.values, causal: true };
        let [width, values] = attention.padded();
        let keys = self.length.next_multiple_of(LANES);
        let rows = QUERIES.min(new);
        T::with_scratch(rows * (width + keys + values), |mut rest| {
            let rest = &mut rest;
            let [queries, scores, result] = [width, keys, values].map(|len| cut(rest, rows * len));
            for first in (0..new).step_by(QUERIES) {
                let block = attention.block(0, self.length - new + first);
                let queries_of = &q[first * self.width..][..block.count * self.width];
                attention.weighed(
                    block,
                    queries_of,
                    RightOperand::new(&self.turned, self.capacity),
                    bias,
                    [queries, scores],
                );
                let (left, right) = (LeftOperand::new(scores, block.columns, 1), RightOperand::new(&self.kept, values));
                product(result, values, left, right, block.count, block.visible, values, Write::Replace);
                let y = &mut y[first * self.values..][..block.count * self.values];
                unpad(result, values, self.values, T::ONE, y);
            }
        });
    }
}
