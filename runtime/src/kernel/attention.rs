//! Multi-head attention over packed rows: forward, and backward with the probabilities recomputed.
//!
//! Every (row, head) is one task. The scores of a block of queries against all keys of the row stay in cache; with the
//! keys transposed once, all products run over contiguous vectors.

mod sparse;

use std::cell::RefCell;

use super::dropout::Keep;
use super::parallel::{LANES, Parts, each, fold_lanes, lane_sum, vectorised};
use super::tile::{Left, Panel, product};
use super::{Real, Write};
use crate::rng::Key;

/// Scores of one block of queries, in elements: half of a second-level cache for forward and backward together.
const SCORES: usize = 1 << 14;

/// Queries of one block at most.
const ROWS: usize = 64;

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
    /// Those at some distances before it. Where there are few, only these are touched.
    Offsets(Offsets<'a>),
}

/// Distances `query - key`; negative ones look ahead.
#[derive(Clone, Copy, Debug)]
pub struct Offsets<'a> {
    /// Those that are seen, rising.
    pub list: &'a [isize],
    /// From the first to the last of them: whether it is seen.
    pub seen: &'a [bool],
}

impl Offsets<'_> {
    /// The smallest distance that is seen.
    fn first(&self) -> isize {
        self.list.first().copied().unwrap_or(0)
    }

    /// Whether a query sees a key.
    fn flag(&self, query: usize, key: usize) -> bool {
        let at = query as isize - key as isize - self.first();
        usize::try_from(at).ok().and_then(|at| self.seen.get(at)).is_some_and(|seen| *seen)
    }
}

/// Adds to some numbers what the scores of all keys of a query give, times a factor.
pub type SlopeRule<'a, T> = dyn Fn(MaskRow, T, &[T], &mut [T]) + Sync + 'a;

/// What is added to the scaled scores.
#[derive(Clone, Copy)]
pub enum ScoreBias<'a, T> {
    /// Nothing.
    None,
    /// A number per head and distance; the mask is one of [`MaskKind::Offsets`]. Gradients are those of these numbers.
    ByOffset {
        /// `[heads, distances]`, from the first distance on.
        values: &'a [T],
        /// The first distance.
        first: isize,
        /// Number of distances.
        span: usize,
    },
    /// A rule for every query and key; minus infinity hides a key.
    Dense {
        /// Adds the numbers of all keys of a query, times a factor, to their scores.
        rule: &'a (dyn Fn(MaskRow, T, &mut [T]) + Sync),
        /// Adds the gradients of what the numbers are made of, from those of the scores times a factor.
        grad: &'a SlopeRule<'a, T>,
        /// How many gradients that are.
        learned: usize,
    },
}

impl<T: Real> ScoreBias<'_, T> {
    /// How many gradients one row and head has.
    pub fn gradients(&self) -> usize {
        match self {
            Self::None => 0,
            Self::ByOffset { span, .. } => *span,
            Self::Dense { learned, .. } => *learned,
        }
    }

    /// Where the number of a distance stands among those of a head.
    fn index(&self, distance: isize) -> Option<usize> {
        match self {
            Self::ByOffset { first, span, .. } => usize::try_from(distance - first).ok().filter(|at| at < span),
            _ => None,
        }
    }

    /// The number at a distance; 0 where there is none.
    fn at(&self, head: usize, distance: isize) -> T {
        match self {
            Self::ByOffset { values, span, .. } => self.index(distance).map_or(T::ZERO, |at| values[head * span + at]),
            _ => T::ZERO,
        }
    }
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
    attention_with(spec, &ScoreBias::None, [q, k, v], q_offsets, k_offsets, out);
}

/// As [`attention`], `softmax(scale q k^T + bias) v`.
pub fn attention_with<T: Real>(
    spec: &Attention,
    bias: &ScoreBias<'_, T>,
    [q, k, v]: [&[T]; 3],
    q_offsets: &[usize],
    k_offsets: &[usize],
    out: &mut [T],
) {
    let shape = Shape::new(spec, q, k, v, q_offsets, k_offsets);
    debug_assert_eq!(out.len(), q.len());
    let out = Parts::new(out);
    shape.each_head(2, |place, extent| {
        // SAFETY: the (row, head) pairs own disjoint strided parts of `out`, all inside it.
        match shape.sparse(extent) {
            Some(offsets) => unsafe { sparse::forward(&shape, bias, offsets, place, extent, [q, k, v], &out) },
            None => shape.with_scratch(extent, false, |scratch| unsafe {
                forward_head(&shape, bias, scratch, place, extent, [q, k, v], &out);
            }),
        }
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
    let grads = [dq, dk, dv];
    attention_grad_with(spec, &ScoreBias::None, [q, k, v, dout], q_offsets, k_offsets, grads, &mut []);
}

/// As [`attention_grad`], for [`attention_with`]. The gradients of the bias of every row and head, `[rows, heads, gradients]`,
/// overwrite `partial`: their sum is the caller's.
pub fn attention_grad_with<T: Real>(
    spec: &Attention,
    bias: &ScoreBias<'_, T>,
    [q, k, v, dout]: [&[T]; 4],
    q_offsets: &[usize],
    k_offsets: &[usize],
    [dq, dk, dv]: [&mut [T]; 3],
    partial: &mut [T],
) {
    let shape = Shape::new(spec, q, k, v, q_offsets, k_offsets);
    let width = bias.gradients();
    debug_assert_eq!(partial.len(), (q_offsets.len() - 1) * spec.heads * width);
    partial.fill(T::ZERO);
    let partial = Parts::new(partial);
    debug_assert!(dout.len() == q.len() && dq.len() == q.len() && dk.len() == k.len() && dv.len() == v.len());
    let grads = [Parts::new(dq), Parts::new(dk), Parts::new(dv)];
    shape.each_head(5, |place, extent| {
        let at = (place.row * spec.heads + place.head) * width;
        // SAFETY: every row and head has a range of its own.
        let slopes = unsafe { partial.part(at..at + width) };
        let inputs = [q, k, v, dout];
        // SAFETY: the (row, head) pairs own disjoint strided parts of the gradients, all inside them.
        match shape.sparse(extent) {
            Some(offsets) => unsafe {
                sparse::backward(&shape, bias, offsets, place, extent, inputs, &grads, slopes);
            },
            None => shape.with_scratch(extent, true, |scratch| unsafe {
                backward_head(&shape, bias, scratch, place, extent, inputs, &grads, slopes);
            }),
        }
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

/// Memory for one row and head, cut from a thread's scratch.
struct Scratch<'s, T> {
    /// Keys of the head, transposed: `[e, keys]`.
    keys: &'s mut [T],
    /// Scores, then probabilities, of a block of queries.
    scores: &'s mut [T],
    /// Dropout factors of a block; empty without dropout.
    factors: &'s mut [T],
    /// Copies of q, k and v with the head width filled up to whole vectors.
    operands: [&'s mut [T]; 3],
    /// The output with the head width filled up, or the gradient of q.
    result: &'s mut [T],
    /// For the gradients: values transposed, gradients of the scores, copy of dout, gradients of k and v.
    backward: [&'s mut [T]; 5],
}

/// Cuts the first `len` numbers off.
fn cut<'s, T>(rest: &mut &'s mut [T], len: usize) -> &'s mut [T] {
    let (part, other) = std::mem::take(rest).split_at_mut(len);
    *rest = other;
    part
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

    /// Runs `task` for every row and head that has queries or keys; `products` products of scores' size are the cost.
    fn each_head(&self, products: usize, task: impl Fn(Place, (usize, usize)) + Sync + Send) {
        let rows = self.q_offsets.len() - 1;
        let heads = self.spec.heads;
        let pairs: usize =
            self.q_offsets.windows(2).zip(self.k_offsets.windows(2)).map(|(q, k)| (q[1] - q[0]) * (k[1] - k[0])).sum();
        let work = pairs * heads * (products * self.padded / 4 + 4);
        each(rows * heads, work, |i| {
            let place = Place { row: i / heads, head: i % heads };
            if let Some(extent) = place.extent(self) {
                task(place, extent);
            }
        });
    }

    /// The distances at which queries see keys, where a row of this extent is worth going key by key.
    fn sparse(&self, extent: (usize, usize)) -> Option<&Offsets<'a>> {
        match &self.spec.mask {
            MaskKind::Offsets(offsets) if offsets.is_sparse(extent) => Some(offsets),
            _ => None,
        }
    }

    fn with_scratch<T: Real>(&self, (nq, nk): (usize, usize), backward: bool, f: impl FnOnce(&mut Scratch<'_, T>)) {
        let width = nk.next_multiple_of(LANES);
        let (queries, keys, turned) = (nq * self.padded, nk * self.padded, self.spec.head_width * width);
        let scores = self.block_queries(width.max(LANES)).min(nq) * width;
        let factors = if self.spec.dropout.is_some() { scores } else { 0 };
        let more = if backward { [turned, scores, queries, keys, keys] } else { [0; 5] };
        let total = turned + scores + factors + 2 * queries + 2 * keys + more.iter().sum::<usize>();
        T::with_scratch(total, |mut rest| {
            let rest = &mut rest;
            f(&mut Scratch {
                keys: cut(rest, turned),
                scores: cut(rest, scores),
                factors: cut(rest, factors),
                operands: [queries, keys, keys].map(|len| cut(rest, len)),
                result: cut(rest, queries),
                backward: more.map(|len| cut(rest, len)),
            });
        });
    }

    /// Queries of one block for rows with `padded_keys` keys.
    fn block_queries(&self, padded_keys: usize) -> usize {
        (SCORES / padded_keys / 8 * 8).clamp(8, ROWS)
    }

    /// Index of the first element of the head in the query (or key) arrays.
    fn query_start(&self, place: Place) -> usize {
        self.q_offsets[place.row] * self.stride + place.head * self.spec.head_width
    }

    fn key_start(&self, place: Place) -> usize {
        self.k_offsets[place.row] * self.stride + place.head * self.spec.head_width
    }

    /// Copies the head of `rows` positions from `start` on together, each filled up to whole vectors.
    ///
    /// Heads lie a power of two apart: read in place, their lines would fall into few sets of the cache.
    fn gather<T: Real>(&self, x: &[T], start: usize, copy: &mut [T]) {
        let width = self.spec.head_width;
        for (row, copy) in copy.chunks_exact_mut(self.padded).enumerate() {
            let at = start + row * self.stride;
            copy_few(&x[at..at + width], &mut copy[..width]);
            copy[width..].fill(T::ZERO);
        }
    }

    /// The inverse of `gather`.
    ///
    /// # Safety
    /// The task owns these parts of `out`.
    unsafe fn scatter<T: Real>(&self, copy: &[T], out: &Parts<T>, start: usize) {
        let width = self.spec.head_width;
        for (row, values) in copy.chunks_exact(self.padded).enumerate() {
            let at = start + row * self.stride;
            // SAFETY: the caller's promise.
            copy_few(&values[..width], unsafe { out.part(at..at + width) });
        }
    }

    /// `out[e, padded rows]` = the gathered `x`, transposed, the fill zero.
    fn transpose<T: Real>(&self, x: &[T], padded_rows: usize, out: &mut [T]) {
        out.fill(T::ZERO);
        for (row, x) in x.chunks_exact(self.padded).enumerate() {
            for (c, &value) in x[..self.spec.head_width].iter().enumerate() {
                out[c * padded_rows + row] = value;
            }
        }
    }

    /// Sets the scores that no query of the block may use to minus infinity, the fill behind the last key included.
    fn hide<T: Real>(&self, block: Block, nq: usize, bias: &ScoreBias<'_, T>, scores: &mut [T]) {
        self.add_bias(block, nq, bias, scores);
        for (i, scores) in scores.chunks_exact_mut(block.columns.max(1)).enumerate() {
            let query = block.first + i;
            let causal = matches!(self.spec.mask, MaskKind::Causal);
            let seen = if causal { block.visible.min(query + 1) } else { block.visible };
            scores[seen..].fill(T::NEG_INFINITY);
            if let MaskKind::Offsets(offsets) = &self.spec.mask {
                for (key, score) in scores[..seen].iter_mut().enumerate() {
                    *score = if offsets.flag(query, key) { *score } else { T::NEG_INFINITY };
                }
            }
            if let MaskKind::Dense(rule) = self.spec.mask {
                let mut allowed = FLAGS.take();
                allowed.clear();
                allowed.resize(seen, true);
                rule(MaskRow { row: block.place.row, head: block.place.head, query, queries: nq }, &mut allowed);
                for (score, &allowed) in scores.iter_mut().zip(&allowed) {
                    *score = if allowed { *score } else { T::NEG_INFINITY };
                }
                FLAGS.set(allowed);
            }
        }
    }

    /// Adds the bias to scores that are not scaled yet.
    fn add_bias<T: Real>(&self, block: Block, nq: usize, bias: &ScoreBias<'_, T>, scores: &mut [T]) {
        let inverse = T::from_f64(1.0 / self.spec.scale);
        let Place { row, head } = block.place;
        for (i, scores) in scores.chunks_exact_mut(block.columns.max(1)).enumerate() {
            let query = block.first + i;
            let scores = &mut scores[..block.visible];
            match bias {
                ScoreBias::None => return,
                ScoreBias::ByOffset { .. } => {
                    for (key, score) in scores.iter_mut().enumerate() {
                        *score += bias.at(head, query as isize - key as isize) * inverse;
                    }
                }
                ScoreBias::Dense { rule, .. } => {
                    rule(MaskRow { row, head, query, queries: nq }, inverse, scores);
                }
            }
        }
    }

    /// Adds the gradients of the bias to `slopes`, from those of the scores before they were scaled.
    fn bias_grad<T: Real>(&self, block: Block, nq: usize, bias: &ScoreBias<'_, T>, d_scores: &[T], slopes: &mut [T]) {
        let inverse = T::from_f64(1.0 / self.spec.scale);
        let Place { row, head } = block.place;
        for (i, d) in d_scores.chunks_exact(block.columns.max(1)).enumerate() {
            let query = block.first + i;
            let d = &d[..block.visible];
            match bias {
                ScoreBias::None => return,
                ScoreBias::ByOffset { .. } => {
                    for (key, &d) in d.iter().enumerate() {
                        if let Some(at) = bias.index(query as isize - key as isize) {
                            slopes[at] += d * inverse;
                        }
                    }
                }
                ScoreBias::Dense { grad, .. } => {
                    grad(MaskRow { row, head, query, queries: nq }, inverse, d, slopes);
                }
            }
        }
    }

    /// The dropout factors of a block of queries; ones if there is no dropout are left out.
    fn draw<'f, T: Real>(&self, block: Block, factors: &'f mut [T]) -> Option<&'f [T]> {
        let dropout = self.spec.dropout?;
        let factors = &mut factors[..block.count * block.columns];
        let keep = Keep::new(dropout.p);
        let key = dropout.row_keys[block.place.row].at(block.place.head as u64);
        for (i, factors) in factors.chunks_exact_mut(block.columns.max(1)).enumerate() {
            keep.factors(key.at((block.first + i) as u64), 0, factors);
        }
        Some(factors)
    }

    /// Block of queries from `first` on, of at most `rows`.
    fn block(&self, place: Place, first: usize, rows: usize, nq: usize, nk: usize) -> Block {
        let count = rows.min(nq - first);
        // No query sees a key that lies further ahead than this many positions.
        let ahead = match &self.spec.mask {
            MaskKind::Causal => Some(0),
            MaskKind::Offsets(offsets) => usize::try_from(-offsets.first().min(0)).ok(),
            _ => None,
        };
        let visible = ahead.map_or(nk, |ahead| nk.min(first + count + ahead));
        Block { place, first, count, visible, columns: visible.next_multiple_of(LANES) }
    }
}

/// A block of queries of one row and head.
#[derive(Clone, Copy)]
struct Block {
    place: Place,
    /// The first query.
    first: usize,
    /// Number of queries.
    count: usize,
    /// Keys that any of them sees.
    visible: usize,
    /// Those, filled up to whole vectors: the width of the scores.
    columns: usize,
}

thread_local! {
    /// Flags of one query of a dense mask.
    static FLAGS: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// Copies a few numbers, vector by vector: a call for so few costs more than the copy.
#[inline(always)]
fn copy_few<T: Real>(from: &[T], to: &mut [T]) {
    let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    to_rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = *from);
}

/// Turns every row of scores into probabilities, `softmax(scale score)`, times the factors; all 0 where all scores are minus
/// infinity.
///
/// Four sweeps over the rows and not one: the folds of a row are long chains, which then overlap with one another.
#[inline(never)]
fn softmax<T: Real>(scores: &mut [T], columns: usize, scale: T, factors: Option<&[T]>) {
    for (n, scores) in scores.chunks_mut((ROWS * columns).max(1)).enumerate() {
        let mut largest = [T::ZERO; ROWS];
        let mut inverse = [T::ZERO; ROWS];
        vectorised(
            #[inline(always)]
            || {
                for (row, largest) in scores.chunks_exact(columns).zip(&mut largest) {
                    *largest = lane_max(row);
                }
                for (row, &largest) in scores.chunks_exact_mut(columns).zip(&largest) {
                    // Without any key, 0 in place of the largest score makes every exponential 0.
                    let shift = if largest == T::NEG_INFINITY { T::ZERO } else { largest };
                    for score in row {
                        *score = ((*score - shift) * scale).exp_below_one();
                    }
                }
                for (row, inverse) in scores.chunks_exact(columns).zip(&mut inverse) {
                    let sum = lane_sum(
                        row,
                        row,
                        #[inline(always)]
                        |p, _| p,
                    );
                    *inverse = if sum == T::ZERO { T::ZERO } else { T::ONE / sum };
                }
                let Some(factors) = factors else {
                    for (row, &inverse) in scores.chunks_exact_mut(columns).zip(&inverse) {
                        row.iter_mut().for_each(|p| *p *= inverse);
                    }
                    return;
                };
                let factors = factors[n * ROWS * columns..].chunks_exact(columns);
                for ((row, &inverse), factors) in scores.chunks_exact_mut(columns).zip(&inverse).zip(factors) {
                    row.iter_mut().zip(factors).for_each(|(p, &f)| *p = *p * inverse * f);
                }
            },
        );
    }
}

/// The largest of whole vectors of numbers.
#[inline(always)]
fn lane_max<T: Real>(x: &[T]) -> T {
    let mut lanes = [T::NEG_INFINITY; LANES];
    for x in x.as_chunks::<LANES>().0 {
        for l in 0..LANES {
            lanes[l] = x[l].or_larger(lanes[l]);
        }
    }
    fold_lanes(
        lanes,
        #[inline(always)]
        |a, b| a.or_larger(b),
    )
}

/// One row and head of the forward pass.
///
/// # Safety
/// The task owns the head's part of `out`.
unsafe fn forward_head<T: Real>(
    shape: &Shape,
    bias: &ScoreBias<'_, T>,
    scratch: &mut Scratch<'_, T>,
    place: Place,
    (nq, nk): (usize, usize),
    [q, k, v]: [&[T]; 3],
    out: &Parts<T>,
) {
    let (q_start, k_start) = (shape.query_start(place), shape.key_start(place));
    let (e, padded) = (shape.spec.head_width, shape.padded);
    let width = nk.next_multiple_of(LANES);
    let scale = T::from_f64(shape.spec.scale);
    let Scratch { keys, scores, factors, operands: [q_copy, k_copy, v_copy], result: sums, .. } = scratch;
    shape.gather(q, q_start, q_copy);
    shape.gather(k, k_start, k_copy);
    shape.gather(v, k_start, v_copy);
    shape.transpose(k_copy, width, keys);
    let rows = shape.block_queries(width.max(LANES));
    for first in (0..nq).step_by(rows) {
        let block = shape.block(place, first, rows, nq, nk);
        let Block { count, visible, columns, .. } = block;
        let scores = &mut scores[..count * columns];
        let queries = Left::new(&q_copy[first * padded..], padded, 1);
        product(scores, columns, queries, Panel::new(keys, width), count, e, columns, Write::Replace);
        shape.hide(block, nq, bias, scores);
        softmax(scores, columns, scale, shape.draw(block, factors));
        let along = Left::new(scores, columns, 1);
        let sums = &mut sums[first * padded..];
        product(sums, padded, along, Panel::new(v_copy, padded), count, visible, padded, Write::Replace);
    }
    // SAFETY: the caller's promise.
    unsafe { shape.scatter(sums, out, q_start) };
}

/// One row and head of the backward pass. With P the probabilities, F the dropout factors and D = F (dout v^T):
/// dv = (P F)^T dout, dS = scale P (D - sum(P D)), dq = dS k, dk = dS^T q.
///
/// # Safety
/// The task owns the head's part of `grads`.
unsafe fn backward_head<T: Real>(
    shape: &Shape,
    bias: &ScoreBias<'_, T>,
    scratch: &mut Scratch<'_, T>,
    place: Place,
    (nq, nk): (usize, usize),
    inputs: [&[T]; 4],
    grads: &[Parts<T>; 3],
    slopes: &mut [T],
) {
    let (q_start, k_start) = (shape.query_start(place), shape.key_start(place));
    let (e, padded) = (shape.spec.head_width, shape.padded);
    let width = nk.next_multiple_of(LANES);
    let scale = T::from_f64(shape.spec.scale);
    let Scratch { keys, scores, factors, operands: [q, k, v], result: dq, backward: [values, d_scores, dout, dk, dv] } =
        scratch;
    shape.gather(inputs[0], q_start, q);
    shape.gather(inputs[1], k_start, k);
    shape.gather(inputs[2], k_start, v);
    shape.gather(inputs[3], q_start, dout);
    dk.fill(T::ZERO);
    dv.fill(T::ZERO);
    shape.transpose(k, width, keys);
    shape.transpose(v, width, values);
    let rows = shape.block_queries(width.max(LANES));
    for first in (0..nq).step_by(rows) {
        let block = shape.block(place, first, rows, nq, nk);
        let Block { count, visible, columns, .. } = block;
        let from = first * padded;
        let scores = &mut scores[..count * columns];
        let d_scores = &mut d_scores[..count * columns];
        product(
            scores,
            columns,
            Left::new(&q[from..], padded, 1),
            Panel::new(keys, width),
            count,
            e,
            columns,
            Write::Replace,
        );
        product(
            d_scores,
            columns,
            Left::new(&dout[from..], padded, 1),
            Panel::new(values, width),
            count,
            e,
            columns,
            Write::Replace,
        );
        shape.hide(block, nq, bias, scores);
        softmax(scores, columns, scale, None);
        softmax_grad(scores, d_scores, columns, scale, shape.draw(block, factors));
        let across = Left::new(scores, 1, columns);
        product(dv, padded, across, Panel::new(&dout[from..], padded), visible, count, padded, Write::Add);
        let along = Left::new(d_scores, columns, 1);
        product(&mut dq[from..], padded, along, Panel::new(k, padded), count, visible, padded, Write::Replace);
        shape.bias_grad(block, nq, bias, d_scores, slopes);
        let across = Left::new(d_scores, 1, columns);
        product(dk, padded, across, Panel::new(&q[from..], padded), visible, count, padded, Write::Add);
    }
    for ((grad, start), sums) in grads.iter().zip([q_start, k_start, k_start]).zip([dq, dk, dv]) {
        // SAFETY: the caller's promise.
        unsafe { shape.scatter(sums, grad, start) };
    }
}

/// Turns the gradients `d` of the probabilities `p` times the factors into those of the scores: with `g` the gradients
/// times the factors, `scale p (g - sum(p g))` per row. Then `p` takes the factors, too.
#[inline(never)]
fn softmax_grad<T: Real>(p: &mut [T], d: &mut [T], columns: usize, scale: T, factors: Option<&[T]>) {
    let columns = columns.max(1);
    vectorised(
        #[inline(always)]
        || {
            for (n, (p, d)) in p.chunks_exact_mut(columns).zip(d.chunks_exact_mut(columns)).enumerate() {
                let factors = factors.map(|factors| &factors[n * columns..(n + 1) * columns]);
                if let Some(factors) = factors {
                    d.iter_mut().zip(factors).for_each(|(d, &f)| *d *= f);
                }
                let mean = lane_sum(
                    p,
                    d,
                    #[inline(always)]
                    |p, d| p * d,
                );
                for (d, &p) in d.iter_mut().zip(&*p) {
                    *d = p * (*d - mean) * scale;
                }
                if let Some(factors) = factors {
                    p.iter_mut().zip(factors).for_each(|(p, &f)| *p *= f);
                }
            }
        },
    );
}
