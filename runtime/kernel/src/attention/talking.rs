//! Talking heads: heads mix their scores before the softmax and their probabilities behind it.
//!
//! A block of queries has the scores of all heads at once, so a task is a row with all its heads; forward, a piece of its queries.
//! All else is that of `dense`.
//!
//! Source: Shazeer et al. 2020, Section 3, arXiv:2003.02436.

use std::ops::Range;

use super::cache::{CachedQueries, KeyValueCache, TurnedCodes};
use super::dense::{QueryBlock, ROWS, SCORES, cut, multiply, softmax, softmax_grad};
use super::relative::{RelativeSizes, Turned};
use super::{Attention, AttentionSizes, Cap, LANES, LeftOperand, RightOperand, RowHead, Scores, each, product};
use crate::parallel::{DisjointSlice, lane_dot, vectorised};
use crate::{Real, Write};

/// Queries of one task: a shape, so that results do not depend on threads.
const PIECE: usize = 64;

/// The matrices between heads, `[heads, heads]`: of `from`, to.
#[derive(Clone, Copy, Debug)]
pub struct Talking<'a, T> {
    /// Of the scores.
    pub scores: &'a [T],
    /// Of the probabilities, after their dropout.
    pub probabilities: &'a [T],
}

/// The direction in which a matrix is applied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MixDirection {
    Forward,
    Back,
}

/// As [`attention_with`](super::attention_with), with heads that talk.
pub fn attention<T: Real>(
    spec: &Attention,
    scores: &Scores<'_, T>,
    talking: &Talking<'_, T>,
    [q, k, v]: [&[T]; 3],
    q_offsets: &[usize],
    k_offsets: &[usize],
    out: &mut [T],
) {
    let shape = AttentionSizes::new(spec, q, k, v, q_offsets, k_offsets);
    debug_assert_eq!(out.len() * spec.head_width, q.len() * spec.value_width);
    let out = DisjointSlice::new(out);
    let longest = q_offsets.windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0);
    let pieces = longest.div_ceil(PIECE).max(1);
    shape.each_row(pieces, 2, |row, piece, extent| {
        let queries = piece * PIECE..extent.0.min((piece + 1) * PIECE);
        if queries.start < queries.end {
            // SAFETY: the pieces own disjoint parts of `out`, all inside it.
            unsafe { forward(&shape, scores, talking, row, queries, extent, [q, k, v], &out) };
        }
    });
}

/// Gradients of [`attention`], as those of [`attention_grad_with`](super::attention_grad_with). What every row adds to the gradients of the
/// two matrices, `[rows, 2, heads, heads]`, overwrites `matrices`: their sum is the caller's.
pub fn attention_grad<T: Real>(
    spec: &Attention,
    scores: &Scores<'_, T>,
    talking: &Talking<'_, T>,
    [q, k, v, dout]: [&[T]; 4],
    q_offsets: &[usize],
    k_offsets: &[usize],
    [dq, dk, dv]: [&mut [T]; 3],
    [partial, matrices]: [&mut [T]; 2],
) {
    let shape = AttentionSizes::new(spec, q, k, v, q_offsets, k_offsets);
    let of_heads = spec.heads * scores.gradients(spec.head_width);
    let of_matrices = 2 * spec.heads * spec.heads;
    debug_assert_eq!(partial.len(), (q_offsets.len() - 1) * of_heads);
    debug_assert_eq!(matrices.len(), (q_offsets.len() - 1) * of_matrices);
    debug_assert!(dq.len() == q.len() && dk.len() == k.len() && dv.len() == v.len());
    partial.fill(T::ZERO);
    matrices.fill(T::ZERO);
    let (partial, matrices) = (DisjointSlice::new(partial), DisjointSlice::new(matrices));
    let grads = [DisjointSlice::new(dq), DisjointSlice::new(dk), DisjointSlice::new(dv)];
    shape.each_row(1, 5, |row, _, extent| {
        // SAFETY: every row has ranges of its own, and is one task.
        unsafe {
            let slopes = partial.part(row * of_heads..(row + 1) * of_heads);
            let mixtures = matrices.part(row * of_matrices..(row + 1) * of_matrices);
            backward(&shape, scores, talking, row, extent, [q, k, v, dout], &grads, [slopes, mixtures]);
        }
    });
}

/// As [`attend`](super::cache::attend), with heads that talk; the keys of the cache are turned.
pub fn attend<T: Real>(
    spec: &Attention<'_>,
    scores: &Scores<'_, T>,
    talking: &Talking<'_, T>,
    codes: Option<&TurnedCodes<T>>,
    cache: &KeyValueCache<T>,
    q: &[T],
    out: &mut [T],
) {
    let extent = cache.extent();
    let (total, queries, keys) = (extent.0, [0, extent.0], [0, extent.1]);
    let shape = AttentionSizes::of(spec, &queries, &keys);
    let (heads, padded, new) = (spec.heads, shape.values.padded, q.len() / shape.keys.query_stride);
    let out = DisjointSlice::new(out);
    let (rows, widest) = shape.joint_sizes(0, total - new..total, extent);
    let sizes = MixedHeads::<T>::sizes(&shape, rows * widest);
    let own = rows * padded + CachedQueries::<T>::size(&shape, cache, rows, codes.is_some());
    T::with_scratch(sizes.iter().sum::<usize>() + own, |mut rest| {
        let rest = &mut rest;
        let mut mixed = MixedHeads::new(sizes.map(|len| cut(rest, len)));
        let sums = cut(rest, rows * padded);
        let mut met = CachedQueries::new(&shape, cache, rows, codes.is_some(), rest);
        for first in (0..new).step_by(rows.max(1)) {
            let block = shape.joint_block(0, total - new + first..total, rows, extent);
            mixed.weigh(&shape, scores, talking, block, total, |head, products| {
                met.products(&shape, scores, codes, cache, (block.of_head(head), first), q, products);
            });
            for head in 0..heads {
                let (along, values) =
                    (mixed.weights(head, block), cache.values(shape.key_head(RowHead { row: 0, head })));
                let values = RightOperand::new(&values[block.from * padded..], padded);
                product(sums, padded, along, values, block.count, block.keys(), padded, Write::Replace);
                let places = shape.output_places(RowHead { row: 0, head }).from(first);
                // SAFETY: one task has all of `out`.
                unsafe { places.scatter(&sums[..block.count * padded], &out) };
            }
        }
    });
}

impl AttentionSizes<'_> {
    /// Runs `task` for every row that has queries or keys and each of so many pieces; `products` products of scores' size are the cost of
    /// a head.
    fn each_row(&self, pieces: usize, products: usize, task: impl Fn(usize, usize, (usize, usize)) + Sync + Send) {
        let rows = self.q_offsets.len() - 1;
        let pairs: usize =
            self.q_offsets.windows(2).zip(self.k_offsets.windows(2)).map(|(q, k)| (q[1] - q[0]) * (k[1] - k[0])).sum();
        let work = pairs * self.spec.heads * (products * (self.padded() + self.spec.heads) / 4 + 4);
        each(rows * pieces, work, |i| {
            let row = i / pieces;
            if let Some(extent) = (RowHead { row, head: 0 }).extent(self) {
                task(row, i % pieces, extent);
            }
        });
    }

    /// The first of some queries, at most `rows`, and the keys that any head shows to any of them.
    fn joint_block(&self, row: usize, queries: Range<usize>, rows: usize, (nq, nk): (usize, usize)) -> QueryBlock {
        let rows = rows.min(queries.len());
        let of = |head| self.block(RowHead { row, head }, queries.start, rows, nq, nk);
        (1..self.spec.heads).map(of).fold(of(0), QueryBlock::joined)
    }

    /// The most queries of a block, and the most keys that one of its blocks can see, in whole vectors.
    fn joint_sizes(&self, row: usize, queries: Range<usize>, extent: (usize, usize)) -> (usize, usize) {
        let keys = extent.1.next_multiple_of(LANES).max(LANES);
        let rows = (SCORES / (self.spec.heads * keys) / 8 * 8).clamp(8, ROWS).min(queries.len());
        let firsts = queries.clone().step_by(rows.max(1));
        let widest = firsts.map(|first| self.joint_block(row, first..queries.end, rows, extent).columns).max();
        (rows, widest.unwrap_or(0))
    }
}

/// The numbers of all heads for a block of queries.
struct MixedHeads<'s, T> {
    /// Scores; later what each head takes of every value.
    own: &'s mut [T],
    /// Mixed scores, then probabilities.
    mixed: &'s mut [T],
    /// Dropout factors of one head.
    factors: &'s mut [T],
}

impl<'s, T: Real> MixedHeads<'s, T> {
    /// How many numbers each part needs for blocks of so many scores.
    fn sizes(shape: &AttentionSizes<'_>, scores: usize) -> [usize; 3] {
        let all = shape.spec.heads * scores;
        [all, all, if shape.spec.dropout.is_some() { scores } else { 0 }]
    }

    fn new([own, mixed, factors]: [&'s mut [T]; 3]) -> Self {
        Self { own, mixed, factors }
    }

    /// Makes what every head takes of every value, from `products` of the queries and keys of each head.
    fn weigh(
        &mut self,
        shape: &AttentionSizes<'_>,
        add: &Scores<'_, T>,
        talking: &Talking<'_, T>,
        block: QueryBlock,
        nq: usize,
        mut products: impl FnMut(usize, &mut [T]),
    ) {
        let cap = Cap::of(shape.spec);
        for head in 0..shape.spec.heads {
            let scores = &mut self.own[of(head, block)];
            products(head, scores);
            if let Some(cap) = cap {
                cap.apply(scores, &mut []);
            }
            shape.hide(block.of_head(head), nq, &add.bias, scores);
        }
        self.probabilities(shape, talking, block, true);
        mix(self.mixed, talking.probabilities, shape.spec.heads, block.numbers(), MixDirection::Forward, self.own);
    }

    /// The probabilities of the scores, mixed.
    fn probabilities(
        &mut self,
        shape: &AttentionSizes<'_>,
        talking: &Talking<'_, T>,
        block: QueryBlock,
        dropped: bool,
    ) {
        let (heads, scale) = (shape.spec.heads, T::from_f64(shape.scale));
        mix(self.own, talking.scores, heads, block.numbers(), MixDirection::Forward, self.mixed);
        for head in 0..heads {
            let mixed = &mut self.mixed[of(head, block)];
            hide_as(&self.own[of(head, block)], mixed, T::NEG_INFINITY);
            let factors = if dropped { shape.draw(&[block.of_head(head)], self.factors) } else { None };
            softmax(mixed, block.columns, scale, factors);
        }
    }

    /// What a head takes of every value.
    fn weights(&self, head: usize, block: QueryBlock) -> LeftOperand<'_, T> {
        LeftOperand::new(&self.own[of(head, block)], block.columns, 1)
    }
}

/// Where the numbers of a head stand among those of a block.
fn of(head: usize, block: QueryBlock) -> Range<usize> {
    head * block.numbers()..(head + 1) * block.numbers()
}

/// `y[b] = sum over a of m[a, b] x[a]`, or `m[b, a]` on the way back, for the `len` numbers of every head; what is hidden adds nothing.
#[inline(never)]
fn mix<T: Real>(x: &[T], matrix: &[T], heads: usize, len: usize, way: MixDirection, y: &mut [T]) {
    let (from, to) = if way == MixDirection::Forward { (heads, 1) } else { (1, heads) };
    vectorised!({
        for b in 0..heads {
            let y = &mut y[b * len..(b + 1) * len];
            y.fill(T::ZERO);
            for a in 0..heads {
                let by = matrix[a * from + b * to];
                for (y, &x) in y.iter_mut().zip(&x[a * len..(a + 1) * len]) {
                    *y = by.mul_add(if x == T::NEG_INFINITY { T::ZERO } else { x }, *y);
                }
            }
        }
    });
}

/// Puts `by` wherever the scores are hidden.
#[inline(never)]
fn hide_as<T: Real>(scores: &[T], numbers: &mut [T], by: T) {
    vectorised!({
        for (number, &score) in numbers.iter_mut().zip(scores) {
            *number = if score == T::NEG_INFINITY { by } else { *number };
        }
    });
}

/// Adds to the gradient of a matrix, `[a, b]`, the sums of the products of what went in from a and the gradients of what came out at b.
/// Hidden numbers have become 0.
#[inline(never)]
fn add_products<T: Real>(x: &[T], d: &[T], heads: usize, len: usize, sums: &mut [T]) {
    vectorised!({
        for a in 0..heads {
            for b in 0..heads {
                sums[a * heads + b] += lane_dot(&x[a * len..(a + 1) * len], &d[b * len..(b + 1) * len]);
            }
        }
    });
}

/// Copies of the operands of a row.
struct RowOperands<'s, T> {
    /// By head: queries, `[queries, e]` with `e` filled up to whole vectors.
    queries: &'s mut [T],
    /// By key head: keys, turned.
    keys: &'s mut [T],
    /// By key head: values.
    values: &'s mut [T],
    /// By head: what relative positions need.
    relative: &'s mut [T],
    sizes: Option<RelativeSizes>,
    /// Keys in whole vectors.
    width: usize,
}

impl<'s, T: Real> RowOperands<'s, T> {
    /// How many numbers each part needs.
    fn sizes(shape: &AttentionSizes<'_>, (nq, nk): (usize, usize), relative: Option<&RelativeSizes>) -> [usize; 5] {
        let spec = shape.spec;
        let turned = shape.keys.width * nk.next_multiple_of(LANES);
        let more: usize = relative.iter().flat_map(|sizes| sizes.parts).sum();
        [
            spec.heads * nq * shape.keys.padded,
            spec.key_heads * turned,
            spec.key_heads * nk * shape.values.padded,
            nk * shape.keys.padded,
            spec.heads * more,
        ]
    }

    fn new(
        shape: &AttentionSizes<'_>,
        add: &Scores<'_, T>,
        row: usize,
        (nq, nk): (usize, usize),
        [q, k, v]: [&[T]; 3],
        [queries, keys, values, copy, relative]: [&'s mut [T]; 5],
        sizes: Option<RelativeSizes>,
    ) -> Self {
        let width = nk.next_multiple_of(LANES);
        let (spec, size) = (shape.spec, nk * shape.values.padded);
        for head in (0..spec.heads).step_by(shape.sharing) {
            let (place, at) = (RowHead { row, head }, head / shape.sharing);
            let of_keys = shape.key_places(place);
            of_keys.gather(k, copy);
            let turned = shape.keys.width * width;
            of_keys.transpose(copy, width, &mut keys[at * turned..(at + 1) * turned]);
            shape.value_places(place).gather(v, &mut values[at * size..(at + 1) * size]);
        }
        let own = Self { queries, keys, values, relative, sizes, width };
        for head in 0..spec.heads {
            let place = RowHead { row, head };
            let queries = head * nq * shape.keys.padded..(head + 1) * nq * shape.keys.padded;
            shape.query_places(place).gather(q, &mut own.queries[queries.clone()]);
            let (Some(r), Some(mut turned)) = (&add.relative, turned(own.sizes.as_ref(), own.relative, head)) else {
                continue;
            };
            turned.start(shape, r, place, &mut own.queries[queries]);
        }
        own
    }

    /// The queries of a head from one on.
    fn query(&self, shape: &AttentionSizes<'_>, head: usize, first: usize) -> &[T] {
        let size = self.queries.len() / shape.spec.heads;
        &self.queries[head * size + first * shape.keys.padded..(head + 1) * size]
    }

    /// The products of a block of queries and all keys that they may see.
    fn products(&mut self, shape: &AttentionSizes<'_>, block: QueryBlock, head: usize, products: &mut [T]) {
        let e = shape.spec.head_width;
        let size = e * self.width;
        let at = shape.key_head(RowHead { row: 0, head });
        let keys = RightOperand::new(&self.keys[at * size + block.from..(at + 1) * size], self.width);
        let queries = LeftOperand::new(self.query(shape, head, block.first), shape.keys.padded, 1);
        product(products, block.columns, queries, keys, block.count, e, block.columns, Write::Replace);
        if let Some(mut turned) = turned(self.sizes.as_ref(), self.relative, head) {
            turned.add(shape, block, products);
        }
    }

    /// The values of a head from a key on.
    fn value(&self, shape: &AttentionSizes<'_>, head: usize, first: usize) -> RightOperand<'_, T> {
        let (size, at) = (self.values.len() / shape.spec.key_heads, shape.key_head(RowHead { row: 0, head }));
        RightOperand::new(&self.values[at * size + first * shape.values.padded..(at + 1) * size], shape.values.padded)
    }
}

/// What a head needs for relative positions.
fn turned<'t, T>(sizes: Option<&RelativeSizes>, all: &'t mut [T], head: usize) -> Option<Turned<'t, T>> {
    let sizes = sizes?;
    let size: usize = sizes.parts.iter().sum();
    let mut rest = &mut all[head * size..(head + 1) * size];
    Some(sizes.turned(sizes.parts.map(|len| cut(&mut rest, len))))
}

/// Some queries of a row, with all heads.
///
/// # Safety
/// The task owns these queries' part of `out`.
unsafe fn forward<T: Real>(
    shape: &AttentionSizes<'_>,
    add: &Scores<'_, T>,
    talking: &Talking<'_, T>,
    row: usize,
    queries: Range<usize>,
    extent: (usize, usize),
    inputs: [&[T]; 3],
    out: &DisjointSlice<'_, T>,
) {
    let (rows, widest) = shape.joint_sizes(row, queries.clone(), extent);
    let relative = add.relative.is_some().then(|| RelativeSizes::new(shape, extent, (rows, widest), false));
    let (of_row, of_block) =
        (RowOperands::<T>::sizes(shape, extent, relative.as_ref()), MixedHeads::<T>::sizes(shape, rows * widest));
    let padded = shape.values.padded;
    let total = of_row.iter().chain(&of_block).sum::<usize>() + rows * padded;
    T::with_scratch(total, |mut rest| {
        let rest = &mut rest;
        let mut mixed = MixedHeads::new(of_block.map(|len| cut(rest, len)));
        let sums = cut(rest, rows * padded);
        let mut own = RowOperands::new(shape, add, row, extent, inputs, of_row.map(|len| cut(rest, len)), relative);
        for first in queries.clone().step_by(rows.max(1)) {
            let block = shape.joint_block(row, first..queries.end, rows, extent);
            mixed.weigh(shape, add, talking, block, extent.0, |head, products| {
                own.products(shape, block, head, products)
            });
            for head in 0..shape.spec.heads {
                let (along, values) = (mixed.weights(head, block), own.value(shape, head, block.from));
                product(sums, padded, along, values, block.count, block.keys(), padded, Write::Replace);
                let places = shape.output_places(RowHead { row, head }).from(first);
                // SAFETY: the caller's promise.
                unsafe { places.scatter(&sums[..block.count * padded], out) };
            }
        }
    });
}

/// The backward pass of one row. With S the scores, L and P the matrices, A the probabilities of `S L` times the factors F of dropout, and
/// `W = A P`: `dW = dout v^T`, `dP = A^T dW`, `dA = dW P^T`; from `dA` comes the gradient dM of `S L` as in [`dense`](super::dense), then
/// `dL = S^T dM` and `dS = dM L^T`. In these products heads are the rows and columns.
///
/// # Safety
/// The task owns the row's parts of `grads`.
unsafe fn backward<T: Real>(
    shape: &AttentionSizes<'_>,
    add: &Scores<'_, T>,
    talking: &Talking<'_, T>,
    row: usize,
    extent: (usize, usize),
    [q, k, v, dout]: [&[T]; 4],
    grads: &[DisjointSlice<'_, T>; 3],
    [slopes, matrices]: [&mut [T]; 2],
) {
    let (spec, (nq, nk)) = (shape.spec, extent);
    let ([padded, padded_values], value_width) = ([shape.keys.padded, shape.values.padded], shape.values.width);
    let (heads, key_heads) = (spec.heads, spec.key_heads);
    let (rows, widest) = shape.joint_sizes(row, 0..nq, extent);
    let relative = add.relative.is_some().then(|| RelativeSizes::new(shape, extent, (rows, widest), true));
    let (of_row, of_block) =
        (RowOperands::<T>::sizes(shape, extent, relative.as_ref()), MixedHeads::<T>::sizes(shape, rows * widest));
    let (all, keys) = (heads * rows * widest, key_heads * nk * padded);
    let (of_values, outputs) = (key_heads * nk * padded_values, heads * nq * padded_values);
    let turned_values = key_heads * value_width * nk.next_multiple_of(LANES);
    let capped = if spec.softcap.is_some() { all } else { 0 };
    let more = [all, all, capped, outputs, turned_values, keys, keys, of_values, rows * padded];
    let total = of_row.iter().chain(&of_block).chain(&more).sum();
    let (scale, cap) = (T::from_f64(shape.scale), Cap::of(spec));
    let (d_scores, d_probabilities) = matrices.split_at_mut(heads * heads);
    let of_head = slopes.len() / heads;
    T::with_scratch(total, |mut rest| {
        let rest = &mut rest;
        let mut mixed = MixedHeads::new(of_block.map(|len| cut(rest, len)));
        let [d_weights, d_mixed, derivatives, upstream, values, own_keys, dk, dv, dq] = more.map(|len| cut(rest, len));
        let mut own = RowOperands::new(shape, add, row, extent, [q, k, v], of_row.map(|len| cut(rest, len)), relative);
        let width = own.width;
        let (size, value_size, turned_size) = (nk * padded, nk * padded_values, value_width * width);
        for head in 0..heads {
            let place = RowHead { row, head };
            let own_part = head * nq * padded_values..(head + 1) * nq * padded_values;
            shape.output_places(place).gather(dout, &mut upstream[own_part]);
            if shape.is_first_of_key_head(place) {
                let at = shape.key_head(place);
                shape.key_places(place).gather(k, &mut own_keys[at * size..(at + 1) * size]);
                let values = &mut values[at * turned_size..(at + 1) * turned_size];
                let gathered = &own.values[at * value_size..(at + 1) * value_size];
                shape.value_places(place).transpose(gathered, width, values);
            }
        }
        dk.fill(T::ZERO);
        dv.fill(T::ZERO);
        for first in (0..nq).step_by(rows.max(1)) {
            let block = shape.joint_block(row, first..nq, rows, extent);
            let QueryBlock { count, columns, from, .. } = block;
            let (seen, len) = (block.keys(), block.numbers());
            for head in 0..heads {
                let (place, range) = (RowHead { row, head }, of(head, block));
                let scores = &mut mixed.own[range.clone()];
                own.products(shape, block, head, scores);
                if let Some(cap) = cap {
                    cap.apply(scores, &mut derivatives[range.clone()]);
                }
                shape.hide(block.of_head(head), nq, &add.bias, scores);
                let upstream = LeftOperand::new(&upstream[(head * nq + first) * padded_values..], padded_values, 1);
                let values = RightOperand::new(&values[shape.key_head(place) * turned_size + from..], width);
                product(&mut d_weights[range], columns, upstream, values, count, value_width, columns, Write::Replace);
            }
            mixed.probabilities(shape, talking, block, false);
            mix(d_weights, talking.probabilities, heads, len, MixDirection::Back, d_mixed);
            for head in 0..heads {
                let factors = shape.draw(&[block.of_head(head)], mixed.factors);
                let (p, d) = (&mut mixed.mixed[of(head, block)], &mut d_mixed[of(head, block)]);
                softmax_grad(p, d, columns, scale, factors);
            }
            add_products(mixed.mixed, d_weights, heads, len, d_probabilities);
            mix(mixed.mixed, talking.probabilities, heads, len, MixDirection::Forward, d_weights);
            let (weights, d_own) = (&*d_weights, &mut *mixed.mixed);
            mix(d_mixed, talking.scores, heads, len, MixDirection::Back, d_own);
            for head in 0..heads {
                let scores = &mut mixed.own[of(head, block)];
                hide_as(scores, &mut d_own[of(head, block)], T::ZERO);
                scores.iter_mut().for_each(|score| *score = if *score == T::NEG_INFINITY { T::ZERO } else { *score });
            }
            add_products(mixed.own, d_mixed, heads, len, d_scores);
            for head in 0..heads {
                let (place, range) = (RowHead { row, head }, of(head, block));
                let (of_bias, of_relative) =
                    slopes[head * of_head..(head + 1) * of_head].split_at_mut(add.bias.gradients());
                let d = &mut d_own[range.clone()];
                shape.bias_grad(block.of_head(head), nq, &add.bias, d, of_bias);
                if cap.is_some() {
                    multiply(d, &derivatives[range.clone()]);
                }
                let at = shape.key_head(place);
                let (behind, of_values) = (at * size + from * padded, at * value_size + from * padded_values);
                let across = LeftOperand::new(&weights[range], 1, columns);
                let upstream = RightOperand::new(&upstream[(head * nq + first) * padded_values..], padded_values);
                let dv = &mut dv[of_values..];
                product(dv, padded_values, across, upstream, seen, count, padded_values, Write::Add);
                let keys = RightOperand::new(&own_keys[behind..], padded);
                product(dq, padded, LeftOperand::new(d, columns, 1), keys, count, seen, padded, Write::Replace);
                let queries = RightOperand::new(own.query(shape, head, first), padded);
                product(
                    &mut dk[behind..],
                    padded,
                    LeftOperand::new(d, 1, columns),
                    queries,
                    seen,
                    count,
                    padded,
                    Write::Add,
                );
                let turned = turned(own.sizes.as_ref(), own.relative, head);
                if let Some((r, mut turned)) = add.relative.as_ref().zip(turned) {
                    turned.back(shape, r, block, d, dq, of_relative);
                }
                // SAFETY: the caller's promise.
                unsafe { shape.query_places(place).from(first).scatter(&dq[..count * padded], &grads[0]) };
            }
        }
        for head in 0..heads {
            let place = RowHead { row, head };
            let slopes = &mut slopes[head * of_head..(head + 1) * of_head];
            if let Some((r, turned)) = add.relative.as_ref().zip(turned(own.sizes.as_ref(), own.relative, head)) {
                turned.finish(shape, r, &mut slopes[add.bias.gradients()..]);
            }
            if shape.is_first_of_key_head(place) {
                let at = shape.key_head(place);
                let own = [(&*dk, size, shape.key_places(place)), (&*dv, value_size, shape.value_places(place))];
                for (grad, (sums, size, places)) in grads[1..].iter().zip(own) {
                    // SAFETY: the caller's promise.
                    unsafe { places.scatter(&sums[at * size..(at + 1) * size], grad) };
                }
            }
        }
    });
}
