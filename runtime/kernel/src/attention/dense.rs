//! Attention block of queries by block of queries, against all keys that one of them may see.
//!
//! The scores of a block stay in cache; with the keys transposed once, all products run over contiguous vectors.
//!
//! Source: Vaswani et al. 2017, Section 3.2, arXiv:1706.03762; blocks of queries: Rabe and Staats 2021, arXiv:2112.05682.

use std::cell::RefCell;
use std::ops::Range;

use super::relative::{RelativeSizes, Turned};
use super::{
    AttentionSizes, Cap, HeadPlaces, KeyRule, LANES, LeftOperand, MaskKind, MaskRow, RightOperand, RowHead, ScoreBias,
    Scores, product,
};
use crate::dropout::Keep;
use crate::parallel::{DisjointSlice, add_to, fold_lanes, lane_dot, lane_total, vectorised};
use crate::{Real, Write};

/// Scores of one block of queries, in elements: half of a second-level cache for forward and backward together.
pub(super) const SCORES: usize = 1 << 14;

/// Vectors of keys between two visits that belong to both, at most.
const GAP: usize = 1;

/// Queries of one block at most.
pub(super) const ROWS: usize = 64;

/// Memory for one row and head, cut from a thread's scratch.
struct HeadScratch<'s, T> {
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
    /// For positions relative to one another.
    turned: Option<Turned<'s, T>>,
    /// For the gradients: values transposed, gradients of the scores, copy of dout, gradients of k and v, and derivatives of capped
    /// scores, or the products where a rule makes scores of them.
    backward: [&'s mut [T]; 6],
    /// For gradients of keys and values that go apart: probabilities and gradients of scores of their pairs, their sums.
    apart: [&'s mut [T]; 4],
}

/// Cuts the first `len` numbers off.
pub(crate) fn cut<'s, T>(rest: &mut &'s mut [T], len: usize) -> &'s mut [T] {
    let (part, other) = std::mem::take(rest).split_at_mut(len);
    *rest = other;
    part
}

impl AttentionSizes<'_> {
    fn with_scratch<T: Real>(
        &self,
        place: RowHead,
        (nq, nk): (usize, usize),
        (relative, backward, apart): (bool, bool, bool),
        f: impl FnOnce(&mut HeadScratch<'_, T>, usize),
    ) {
        let width = nk.next_multiple_of(LANES);
        let ([queries, outputs], [keys, values], [turned, turned_values]) = (
            [self.keys, self.values].map(|channels| nq * channels.padded),
            [self.keys, self.values].map(|channels| nk * channels.padded),
            [self.keys, self.values].map(|channels| channels.width * width),
        );
        let (rows, widest) = self.block_sizes(place, (nq, nk));
        let scores = rows * widest;
        let factors = if self.spec.dropout.is_some() { scores } else { 0 };
        let capped = if self.spec.softcap.is_some() || self.spec.rescored { scores } else { 0 };
        let more = if backward { [turned_values, scores, outputs, keys, values, capped] } else { [0; 6] };
        let others = if apart { [scores, scores, keys, values] } else { [0; 4] };
        let result = if backward { queries } else { outputs };
        let sizes = relative.then(|| RelativeSizes::new(self, (nq, nk), (rows, widest), backward));
        let also: usize = sizes.iter().flat_map(|sizes| sizes.parts).sum();
        let also = also + others.iter().sum::<usize>();
        let total = turned + scores + factors + queries + result + keys + values + more.iter().sum::<usize>() + also;
        T::with_scratch(total, |mut rest| {
            let rest = &mut rest;
            let mut scratch = HeadScratch {
                keys: cut(rest, turned),
                scores: cut(rest, scores),
                factors: cut(rest, factors),
                operands: [queries, keys, values].map(|len| cut(rest, len)),
                result: cut(rest, result),
                backward: more.map(|len| cut(rest, len)),
                apart: others.map(|len| cut(rest, len)),
                turned: sizes.map(|sizes| sizes.turned(sizes.parts.map(|len| cut(rest, len)))),
            };
            f(&mut scratch, rows);
        });
    }

    /// The most queries of a block, and the most keys that one of its blocks can see, in whole vectors.
    fn block_sizes(&self, place: RowHead, (nq, nk): (usize, usize)) -> (usize, usize) {
        let width = nk.next_multiple_of(LANES);
        let rows = |keys: usize| (SCORES / keys.max(LANES) / 8 * 8).clamp(8, ROWS);
        let (rows, widest) = match &self.spec.mask {
            MaskKind::Offsets(offsets) => {
                let rows = rows(width.min(offsets.seen.len() + ROWS));
                (rows, width.min((offsets.seen.len() + rows + 2 * LANES).next_multiple_of(LANES)))
            }
            MaskKind::Within { reach, .. } => {
                let keys = |query| within(reach(self.mask_row(place, query, nq)).0, nk).len();
                let one = (0..nq).map(keys).max().unwrap_or(0);
                let rows = rows(width.min(one + ROWS));
                let blocks = (0..nq).step_by(rows).map(|first| self.block(place, first, rows, nq, nk).columns);
                (rows, blocks.max().unwrap_or(0))
            }
            // The first of several blocks need only few keys: with four, 5 in 8 scores of a square are left.
            MaskKind::Causal => (rows(width).min((nk / 4).next_multiple_of(8)).max(8), width),
            MaskKind::All | MaskKind::Dense(_) => (rows(width), width),
        };
        (rows.min(nq), widest)
    }

    /// A query of a mask, for all keys.
    fn mask_row(&self, place: RowHead, query: usize, queries: usize) -> MaskRow {
        MaskRow { row: place.row, head: place.head, query, queries, first: 0 }
    }

    /// Sets the scores that no query of the block may use to minus infinity, the fill behind the last key included.
    pub(super) fn hide<T: Real>(&self, block: QueryBlock, nq: usize, bias: &ScoreBias<'_, T>, scores: &mut [T]) {
        self.add_bias(block, nq, bias, scores);
        for (i, scores) in block.rows_mut(scores).enumerate() {
            let query = block.first + i;
            let causal = matches!(self.spec.mask, MaskKind::Causal);
            let seen = if causal { block.keys().min(query + 1) } else { block.keys() };
            scores[seen..].fill(T::NEG_INFINITY);
            let at = MaskRow { first: block.from, ..self.mask_row(block.place, query, nq) };
            match &self.spec.mask {
                MaskKind::All | MaskKind::Causal => {}
                MaskKind::Offsets(offsets) if offsets.is_window() => {
                    let keys = offsets.reach(query..query + 1, block.visible);
                    hide_outside(&mut scores[..seen], at.first, keys);
                }
                MaskKind::Offsets(offsets) => {
                    for (key, score) in scores[..seen].iter_mut().enumerate() {
                        *score = if offsets.flag(query, block.from + key) { *score } else { T::NEG_INFINITY };
                    }
                }
                MaskKind::Dense(rule) => flagged(*rule, at, &mut scores[..seen]),
                MaskKind::Within { reach, rule, .. } => {
                    let (keys, exact) = reach(at);
                    let inside = hide_outside(&mut scores[..seen], at.first, keys);
                    if !exact {
                        flagged(*rule, MaskRow { first: at.first + inside.start, ..at }, &mut scores[inside]);
                    }
                }
            }
        }
    }

    /// Adds the bias to scores that the softmax scales, or makes scores of products.
    fn add_bias<T: Real>(&self, block: QueryBlock, nq: usize, bias: &ScoreBias<'_, T>, scores: &mut [T]) {
        let inverse = T::from_f64(1.0 / self.scale);
        for (i, scores) in block.rows_mut(scores).enumerate() {
            let query = block.first + i;
            let scores = &mut scores[..block.keys()];
            match bias {
                ScoreBias::None => return,
                ScoreBias::ByOffset { values, span, .. } => {
                    let (keys, places) = bias.along(query, block.from, scores.len());
                    let numbers = &values[block.place.head * span..][places];
                    vectorised!({
                        for (score, &number) in scores[keys].iter_mut().zip(numbers.iter().rev()) {
                            *score += number * inverse;
                        }
                    });
                }
                ScoreBias::Dense { rule, .. } => {
                    rule(MaskRow { first: block.from, ..self.mask_row(block.place, query, nq) }, inverse, scores);
                }
                ScoreBias::Rescored { rule, .. } => {
                    let scale = T::from_f64(self.spec.scale);
                    rule(MaskRow { first: block.from, ..self.mask_row(block.place, query, nq) }, scale, scores);
                }
            }
        }
    }

    /// Adds the gradients of the bias to `slopes`, from those of the scores that the softmax scales.
    pub(super) fn bias_grad<T: Real>(
        &self,
        block: QueryBlock,
        nq: usize,
        bias: &ScoreBias<'_, T>,
        d_scores: &[T],
        slopes: &mut [T],
    ) {
        let inverse = T::from_f64(1.0 / self.scale);
        for (i, d) in d_scores.chunks_exact(block.stride.max(1)).enumerate() {
            let query = block.first + i;
            let d = &d[block.column..][..block.keys()];
            match bias {
                ScoreBias::None | ScoreBias::Rescored { .. } => return,
                ScoreBias::ByOffset { .. } => {
                    let (keys, places) = bias.along(query, block.from, d.len());
                    vectorised!({
                        for (slope, &d) in slopes[places].iter_mut().rev().zip(&d[keys]) {
                            *slope += d * inverse;
                        }
                    });
                }
                ScoreBias::Dense { grad, .. } => {
                    grad(MaskRow { first: block.from, ..self.mask_row(block.place, query, nq) }, inverse, d, slopes);
                }
            }
        }
    }

    /// Turns the gradients of scores that a rule has made into those of the products, which are there, and adds those of what the scores are
    /// made of to `slopes`.
    fn rescored_grad<T: Real>(
        &self,
        block: QueryBlock,
        nq: usize,
        bias: &ScoreBias<'_, T>,
        (products, d_scores): (&[T], &mut [T]),
        slopes: &mut [T],
    ) {
        let ScoreBias::Rescored { grad, .. } = bias else { return };
        let scale = T::from_f64(self.spec.scale);
        let products = products.chunks_exact(block.stride.max(1));
        for (i, (d, products)) in block.rows_mut(d_scores).zip(products).enumerate() {
            let at = MaskRow { first: block.from, ..self.mask_row(block.place, block.first + i, nq) };
            let keys = block.keys();
            grad(at, scale, &products[block.column..][..keys], &mut d[..keys], slopes);
        }
    }

    /// Moves the numbers of the pairs for which the rule holds from a block to `others`, and leaves 0.
    fn part<T: Real>(
        &self,
        block: QueryBlock,
        nq: usize,
        rule: &KeyRule<'_>,
        pairs: [&mut [T]; 2],
        others: [&mut [T]; 2],
    ) {
        let mut holds = FLAGS.take();
        for (pairs, others) in pairs.into_iter().zip(others) {
            for (i, (pairs, others)) in block.rows_mut(pairs).zip(block.rows_mut(others)).enumerate() {
                others.fill(T::ZERO);
                holds.clear();
                holds.resize(block.keys(), false);
                rule(MaskRow { first: block.from, ..self.mask_row(block.place, block.first + i, nq) }, &mut holds);
                for ((pair, other), holds) in pairs.iter_mut().zip(others).zip(&holds) {
                    if *holds {
                        *other = std::mem::replace(pair, T::ZERO);
                    }
                }
            }
        }
        FLAGS.set(holds);
    }

    /// The dropout factors of a block of queries, for its visits; ones if there is no dropout are left out.
    pub(super) fn draw<'f, T: Real>(&self, visits: &[QueryBlock], factors: &'f mut [T]) -> Option<&'f [T]> {
        let dropout = self.spec.dropout?;
        let factors = &mut factors[..visits[0].numbers()];
        let keep = Keep::new(dropout.p);
        for visit in visits {
            let key = dropout.row_keys[visit.place.row].at(visit.place.head as u64);
            for (i, factors) in visit.rows_mut(factors).enumerate() {
                keep.factors(key.at((visit.first + i) as u64), visit.from, factors);
            }
        }
        Some(factors)
    }

    /// Block of queries from `first` on, of at most `rows`.
    pub(super) fn block(&self, place: RowHead, first: usize, rows: usize, nq: usize, nk: usize) -> QueryBlock {
        let count = rows.min(nq - first);
        let keys = match &self.spec.mask {
            MaskKind::All | MaskKind::Dense(_) => 0..nk,
            MaskKind::Causal => 0..nk.min(first + count),
            MaskKind::Offsets(offsets) => offsets.reach(first..first + count, nk),
            MaskKind::Within { reach, .. } => {
                let each = (first..first + count).map(|query| within(reach(self.mask_row(place, query, nq)).0, nk));
                let some = each.filter(|keys| !keys.is_empty());
                some.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
            }
        };
        // From a whole vector on, so that columns end inside the fill behind the last key.
        let (from, visible) = (keys.start / LANES * LANES, keys.end);
        let columns = (visible - from).next_multiple_of(LANES);
        QueryBlock { place, first, count, from, visible, columns, column: 0, stride: columns }
    }

    /// Runs `f` with the visits of a block: itself, or the parts of its keys that one of its queries sees where others lie between them.
    /// The numbers of a visit stand in columns of their own, and no visit changes the order in which the keys of a query are added up.
    fn with_visits(&self, block: QueryBlock, nq: usize, in_one: bool, f: impl FnOnce(&[QueryBlock])) {
        let MaskKind::Within { runs: Some(runs), .. } = &self.spec.mask else { return f(&[block]) };
        if in_one {
            return f(&[block]);
        }
        let (mut visits, mut seen) = (VISITS.take(), FLAGS.take());
        visits.clear();
        seen.clear();
        seen.resize(block.columns / LANES, false);
        for query in block.first..block.first + block.count {
            runs(self.mask_row(block.place, query, nq), &mut |keys| {
                let [start, end] = [keys.start, keys.end].map(|key| key.clamp(block.from, block.visible) - block.from);
                if start < end {
                    seen[start / LANES..end.div_ceil(LANES)].fill(true);
                }
            });
        }
        let mut at = 0;
        while let Some(start) = seen[at..].iter().position(|seen| *seen).map(|after| at + after) {
            at = start + seen[start..].iter().position(|seen| !seen).unwrap_or(seen.len() - start);
            let visible = (block.from + at * LANES).min(block.visible);
            match visits.last_mut() {
                // Another visit costs more than so few keys between them.
                Some(last) if block.from + start * LANES <= last.visible + GAP * LANES => {
                    last.columns += block.from + at * LANES - (last.from + last.columns);
                    last.visible = visible;
                }
                _ => {
                    let (from, columns) = (block.from + start * LANES, (at - start) * LANES);
                    visits.push(QueryBlock { from, visible, columns, ..block });
                }
            }
        }
        if visits.is_empty() {
            visits.push(QueryBlock { visible: block.from, columns: 0, ..block });
        }
        let stride = visits.iter().map(|visit| visit.columns).sum();
        let mut column = 0;
        for visit in &mut visits {
            (visit.column, visit.stride) = (column, stride);
            column += visit.columns;
        }
        FLAGS.set(seen);
        f(&visits);
        VISITS.set(visits);
    }
}

/// The part of a range that lies below `end`.
fn within(range: Range<usize>, end: usize) -> Range<usize> {
    range.start.min(end)..range.end.min(end)
}

/// Hides the keys outside of a range, where `first` is the key of the first score. Returns the scores inside of it.
fn hide_outside<T: Real>(scores: &mut [T], first: usize, keys: Range<usize>) -> Range<usize> {
    let place = |key: usize| key.saturating_sub(first).min(scores.len());
    let (start, end) = (place(keys.start), place(keys.end).max(place(keys.start)));
    scores[..start].fill(T::NEG_INFINITY);
    scores[end..].fill(T::NEG_INFINITY);
    start..end
}

/// Hides the keys from `at.first` on that the rule hides.
fn flagged<T: Real>(rule: &(dyn Fn(MaskRow, &mut [bool]) + Sync), at: MaskRow, scores: &mut [T]) {
    let mut allowed = FLAGS.take();
    allowed.clear();
    allowed.resize(scores.len(), true);
    rule(at, &mut allowed);
    for (score, &allowed) in scores.iter_mut().zip(&allowed) {
        *score = if allowed { *score } else { T::NEG_INFINITY };
    }
    FLAGS.set(allowed);
}

impl HeadPlaces {
    /// Copies the head of positions together, each filled up to whole vectors.
    ///
    /// Heads lie a power of two apart: read in place, their lines would fall into few sets of the cache.
    pub(super) fn gather<T: Real>(&self, x: &[T], copy: &mut [T]) {
        let width = self.channels.width;
        for (position, copy) in copy.chunks_exact_mut(self.channels.padded).enumerate() {
            let at = self.at(position);
            soon(x, at.end);
            copy_few(&x[at], &mut copy[..width]);
            copy[width..].fill(T::ZERO);
        }
    }

    /// The inverse of `gather`.
    ///
    /// # Safety
    /// The task owns these parts of `out`.
    pub(super) unsafe fn scatter<T: Real>(&self, copy: &[T], out: &DisjointSlice<T>) {
        for (position, values) in copy.chunks_exact(self.channels.padded).enumerate() {
            // SAFETY: the caller's promise.
            copy_few(&values[..self.channels.width], unsafe { out.part(self.at(position)) });
        }
    }

    /// As `scatter`, added to what is there.
    ///
    /// # Safety
    /// The task owns these parts of `out`.
    unsafe fn scatter_add<T: Real>(&self, copy: &[T], out: &DisjointSlice<T>) {
        for (position, values) in copy.chunks_exact(self.channels.padded).enumerate() {
            // SAFETY: the caller's promise.
            add_to(unsafe { out.part(self.at(position)) }, &values[..self.channels.width]);
        }
    }

    /// `out[e, padded rows]` = the gathered `x`, transposed, the fill zero.
    pub(super) fn transpose<T: Real>(&self, x: &[T], padded_rows: usize, out: &mut [T]) {
        out.fill(T::ZERO);
        for (row, x) in x.chunks_exact(self.channels.padded).enumerate() {
            for (c, &value) in x[..self.channels.width].iter().enumerate() {
                out[c * padded_rows + row] = value;
            }
        }
    }
}

/// A block of queries of one row and head.
#[derive(Clone, Copy)]
pub(super) struct QueryBlock {
    place: RowHead,
    /// The first query.
    pub(super) first: usize,
    /// Number of queries.
    pub(super) count: usize,
    /// The first key of the scores, and the end of those that any query sees.
    pub(super) from: usize,
    visible: usize,
    /// The keys from one to the other, filled up to whole vectors: the width of the scores.
    pub(super) columns: usize,
    /// The first of its columns among those of all visits of the queries, and how many all have.
    column: usize,
    stride: usize,
}

impl QueryBlock {
    /// Keys that any query may see.
    pub(super) fn keys(&self) -> usize {
        self.visible - self.from
    }

    /// Whose queries they are.
    pub(super) fn head(&self) -> usize {
        self.place.head
    }

    /// How many scores it has, with those of the other visits of its queries.
    pub(super) fn numbers(&self) -> usize {
        self.count * self.stride
    }

    /// Its numbers of every query.
    fn rows_mut<T>(self, scores: &mut [T]) -> impl Iterator<Item = &mut [T]> {
        scores.chunks_exact_mut(self.stride.max(1)).map(move |row| &mut row[self.column..][..self.columns])
    }

    /// Its part of `scores = x keys`, where the keys are transposed and `width` apart.
    fn products<T: Real>(self, scores: &mut [T], x: LeftOperand<'_, T>, keys: &[T], (width, e): (usize, usize)) {
        let (scores, keys) = (&mut scores[self.column..], RightOperand::new(&keys[self.from..], width));
        product(scores, self.stride, x, keys, self.count, e, self.columns, Write::Replace);
    }

    /// `sums = scores values`, of its queries, to which all visits add in their order.
    fn sums<T: Real>(self, sums: &mut [T], scores: &[T], values: &[T], padded: usize) {
        let along = LeftOperand::new(&scores[self.column..], self.stride, 1);
        let values = RightOperand::new(&values[self.from * padded..], padded);
        let write = if self.column == 0 { Write::Replace } else { Write::Add };
        product(sums, padded, along, values, self.count, self.keys(), padded, write);
    }

    /// `sums += scores^T of_queries`, of its keys.
    fn sums_of_keys<T: Real>(self, sums: &mut [T], scores: &[T], of_queries: RightOperand<'_, T>, padded: usize) {
        let (sums, across) =
            (&mut sums[self.from * padded..], LeftOperand::new(&scores[self.column..], 1, self.stride));
        product(sums, padded, across, of_queries, self.keys(), self.count, padded, Write::Add);
    }

    /// The same queries and keys of another head.
    pub(super) fn of_head(self, head: usize) -> Self {
        Self { place: RowHead { head, ..self.place }, ..self }
    }

    /// The same queries with the keys of both.
    pub(super) fn joined(self, other: Self) -> Self {
        let (from, visible) = (self.from.min(other.from), self.visible.max(other.visible));
        let columns = (visible - from).next_multiple_of(LANES);
        Self { from, visible, columns, stride: columns, ..self }
    }
}

thread_local! {
    /// Flags of one query of a dense mask, or of the vectors of keys of a block.
    static FLAGS: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    static VISITS: RefCell<Vec<QueryBlock>> = const { RefCell::new(Vec::new()) };
}

/// Asks for the cache line of `x[at]`, if there is one, ahead of its use: heads are read one after the other, and lines so far
/// apart are not foreseen by the machine.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "there is no stable way to ask elsewhere"))]
fn soon<T: Real>(x: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(x) = x.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 machine has the instruction, and it changes nothing but what is in cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(x).cast()) };
    }
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
pub(crate) fn softmax<T: Real>(scores: &mut [T], columns: usize, scale: T, factors: Option<&[T]>) {
    for (n, scores) in scores.chunks_mut((ROWS * columns).max(1)).enumerate() {
        let mut largest = [T::ZERO; ROWS];
        let mut inverse = [T::ZERO; ROWS];
        vectorised!({
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
                let sum = lane_total(row);
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
        });
    }
}

/// `x *= y`.
#[inline(never)]
pub(super) fn multiply<T: Real>(x: &mut [T], y: &[T]) {
    vectorised!({
        for (x, &y) in x.iter_mut().zip(y) {
            *x *= y;
        }
    });
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
pub(super) unsafe fn forward<T: Real>(
    shape: &AttentionSizes<'_>,
    add: &Scores<'_, T>,
    place: RowHead,
    (nq, nk): (usize, usize),
    [q, k, v]: [&[T]; 3],
    out: &DisjointSlice<'_, T>,
) {
    let (of_queries, of_keys, of_values) =
        (shape.query_places(place), shape.key_places(place), shape.value_places(place));
    let (e, padded, padded_values) = (shape.keys.width, shape.keys.padded, shape.values.padded);
    let width = nk.next_multiple_of(LANES);
    let (scale, cap) = (T::from_f64(shape.scale), Cap::of(shape.spec));
    shape.with_scratch(place, (nq, nk), (add.relative.is_some(), false, false), |scratch, rows| {
        let HeadScratch { keys, scores, factors, operands: [q_copy, k_copy, v_copy], result: sums, turned, .. } =
            scratch;
        of_queries.gather(q, q_copy);
        of_keys.gather(k, k_copy);
        of_values.gather(v, v_copy);
        of_keys.transpose(k_copy, width, keys);
        let mut relative = add.relative.as_ref().zip(turned.as_mut());
        if let Some((r, turned)) = &mut relative {
            turned.start(shape, r, place, q_copy);
        }
        for first in (0..nq).step_by(rows.max(1)) {
            let block = shape.block(place, first, rows, nq, nk);
            shape.with_visits(block, nq, relative.is_some(), |visits| {
                let (count, stride) = (block.count, visits[0].stride);
                let scores = &mut scores[..count * stride];
                let queries = LeftOperand::new(&q_copy[first * padded..], padded, 1);
                for visit in visits {
                    visit.products(scores, queries, keys, (width, e));
                }
                if let Some((_, turned)) = &mut relative {
                    turned.add(shape, block, scores);
                }
                if let Some(cap) = cap {
                    cap.apply(scores, &mut []);
                }
                for visit in visits {
                    shape.hide(*visit, nq, &add.bias, scores);
                }
                softmax(scores, stride, scale, shape.draw(visits, factors));
                for visit in visits {
                    visit.sums(&mut sums[first * padded_values..], scores, v_copy, padded_values);
                }
            });
        }
        // SAFETY: the caller's promise.
        unsafe { shape.output_places(place).scatter(sums, out) };
    });
}

/// One row and head of the backward pass. With P the probabilities, F the dropout factors and D = F (dout v^T):
/// dv = (P F)^T dout, dS = scale P (D - sum(P D)), dq = dS k, dk = dS^T q; where scores are capped, their derivative stands for the
/// scale. The gradients of what is added to the scores go into `slopes`, those of the bias first. Those of keys and values are added
/// to what heads before this one left that have the same; those of pairs for which the rule of `apart` holds go there.
///
/// # Safety
/// The task owns the parts of `grads` and `apart` of all heads that have the same keys.
pub(super) unsafe fn backward<T: Real>(
    shape: &AttentionSizes<'_>,
    add: &Scores<'_, T>,
    place: RowHead,
    (nq, nk): (usize, usize),
    inputs: [&[T]; 4],
    grads: &[DisjointSlice<'_, T>; 3],
    apart: Option<&(&KeyRule<'_>, [DisjointSlice<'_, T>; 2])>,
    slopes: &mut [T],
) {
    let (of_queries, of_outputs) = (shape.query_places(place), shape.output_places(place));
    let (of_keys, of_values) = (shape.key_places(place), shape.value_places(place));
    let ([e, value_width], [padded, padded_values]) =
        ([shape.keys.width, shape.values.width], [shape.keys.padded, shape.values.padded]);
    let width = nk.next_multiple_of(LANES);
    let (scale, cap) = (T::from_f64(shape.scale), Cap::of(shape.spec));
    let (slopes, more_slopes) = slopes.split_at_mut(add.bias.gradients());
    shape.with_scratch(place, (nq, nk), (add.relative.is_some(), true, apart.is_some()), |scratch, rows| {
        let HeadScratch { keys, scores, factors, operands: [q, k, v], result: dq, backward, turned, apart: others } =
            scratch;
        let [values, d_scores, dout, dk, dv, capped] = backward;
        let [other_scores, other_d, other_dk, other_dv] = others;
        other_dk.fill(T::ZERO);
        other_dv.fill(T::ZERO);
        let places = [of_queries, of_keys, of_values, of_outputs];
        for ((x, places), copy) in inputs.into_iter().zip(places).zip([&mut *q, &mut *k, &mut *v, &mut *dout]) {
            places.gather(x, copy);
        }
        of_keys.transpose(k, width, keys);
        of_values.transpose(v, width, values);
        dk.fill(T::ZERO);
        dv.fill(T::ZERO);
        let mut relative = add.relative.as_ref().zip(turned.as_mut());
        if let Some((r, turned)) = &mut relative {
            turned.start(shape, r, place, q);
        }
        for first in (0..nq).step_by(rows.max(1)) {
            let block = shape.block(place, first, rows, nq, nk);
            shape.with_visits(block, nq, relative.is_some(), |visits| {
                let (at, of_block, stride) = (first * padded, first * padded_values, visits[0].stride);
                let numbers = block.count * stride;
                let (scores, d_scores) = (&mut scores[..numbers], &mut d_scores[..numbers]);
                let derivatives = capped.len().min(numbers);
                let capped = &mut capped[..derivatives];
                let queries = LeftOperand::new(&q[at..], padded, 1);
                let upstream = LeftOperand::new(&dout[of_block..], padded_values, 1);
                for visit in visits {
                    visit.products(scores, queries, keys, (width, e));
                    visit.products(d_scores, upstream, values, (width, value_width));
                }
                if let Some((_, turned)) = &mut relative {
                    turned.add(shape, block, scores);
                }
                if let Some(cap) = cap {
                    cap.apply(scores, capped);
                } else {
                    capped.copy_from_slice(&scores[..derivatives]);
                }
                for visit in visits {
                    shape.hide(*visit, nq, &add.bias, scores);
                }
                softmax(scores, stride, scale, None);
                softmax_grad(scores, d_scores, stride, scale, shape.draw(visits, factors));
                for visit in visits {
                    shape.bias_grad(*visit, nq, &add.bias, d_scores, slopes);
                    shape.rescored_grad(*visit, nq, &add.bias, (capped, d_scores), slopes);
                }
                if cap.is_some() {
                    multiply(d_scores, capped);
                }
                for visit in visits {
                    visit.sums(&mut dq[at..], d_scores, k, padded);
                }
                if let Some((r, turned)) = &mut relative {
                    turned.back(shape, r, block, d_scores, &mut dq[at..], more_slopes);
                }
                let queries = RightOperand::new(&q[at..], padded);
                let upstream = RightOperand::new(&dout[of_block..], padded_values);
                for visit in visits {
                    if let Some((rule, _)) = apart {
                        let [scores, d_scores] = [&mut *scores, &mut *d_scores];
                        let [others, other_d] = [&mut other_scores[..numbers], &mut other_d[..numbers]];
                        shape.part(*visit, nq, *rule, [scores, d_scores], [others, other_d]);
                        visit.sums_of_keys(other_dv, others, upstream, padded_values);
                        visit.sums_of_keys(other_dk, other_d, queries, padded);
                    }
                    visit.sums_of_keys(dv, scores, upstream, padded_values);
                    visit.sums_of_keys(dk, d_scores, queries, padded);
                }
            });
        }
        if let Some((r, turned)) = &relative {
            turned.finish(shape, r, more_slopes);
        }
        // SAFETY: the caller's promise.
        unsafe { of_queries.scatter(dq, &grads[0]) };
        let of_others = apart.iter().flat_map(|(_, grads)| grads).zip([other_dk, other_dv]);
        let all = grads[1..].iter().zip([dk, dv]).chain(of_others);
        for ((grad, sums), places) in all.zip([of_keys, of_values].into_iter().cycle()) {
            let first = shape.is_first_of_key_head(place);
            // SAFETY: the caller's promise.
            unsafe { if first { places.scatter(sums, grad) } else { places.scatter_add(sums, grad) } }
        }
    });
}

/// Turns the gradients `d` of the probabilities `p` times the factors into those of the scores: with `g` the gradients
/// times the factors, `scale p (g - sum(p g))` per row. Then `p` takes the factors, too.
#[inline(never)]
pub(crate) fn softmax_grad<T: Real>(p: &mut [T], d: &mut [T], columns: usize, scale: T, factors: Option<&[T]>) {
    let columns = columns.max(1);
    vectorised!({
        for (n, (p, d)) in p.chunks_exact_mut(columns).zip(d.chunks_exact_mut(columns)).enumerate() {
            let factors = factors.map(|factors| &factors[n * columns..(n + 1) * columns]);
            if let Some(factors) = factors {
                d.iter_mut().zip(factors).for_each(|(d, &f)| *d *= f);
            }
            let mean = lane_dot(p, d);
            for (d, &p) in d.iter_mut().zip(&*p) {
                *d = p * (*d - mean) * scale;
            }
            if let Some(factors) = factors {
                p.iter_mut().zip(factors).for_each(|(p, &f)| *p *= f);
            }
        }
    });
}
