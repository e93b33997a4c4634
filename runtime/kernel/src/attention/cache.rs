//! Attention of new positions with a cache of the keys and values of earlier positions: a new position costs its
//! own products, and the cache is not copied.
//!
//! Keys lie as the two ways of attention read them: turned for blocks (`dense`), key by key where queries see
//! few (`sparse`). The sums are those of a run over the whole row, in the same order.
//!
//! Source: rtc.

use super::dense::{QueryBlock, ROWS, SCORES, cut, softmax};
use super::{
    Attention, AttentionSizes, Cap, LANES, LeftOperand, Relative, RightOperand, RowHead, Scores, each, product, sparse,
};
use crate::parallel::{DisjointSlice, add_to};
use crate::{Real, Write};

/// Keys and values of one row.
#[derive(Clone, Debug)]
pub struct KeyValueCache<T> {
    /// Heads of keys and values.
    heads: usize,
    /// Channels of a head of keys, and of values.
    widths: [usize; 2],
    /// Whether keys lie one after the other, as [`sparse`](super::sparse) reads them; else each head's are turned.
    by_key: bool,
    /// Keys of a position: one, or one for each of several steps, side by side.
    steps: usize,
    length: usize,
    /// Positions that there is room for: a multiple of [`LANES`].
    capacity: usize,
    /// `[positions, heads e]`, or `[heads, e, capacity]`.
    keys: Vec<T>,
    /// `[positions, heads f]`, or `[heads, capacity, f]` with `f` filled up to whole vectors.
    values: Vec<T>,
}

/// Codes of distances as queries of a cache meet them: turned, from the largest distance down, `[heads, e, columns]`.
#[derive(Clone, Debug)]
pub struct TurnedCodes<T> {
    across: Vec<T>,
    columns: usize,
    last: usize,
}

impl<T: Real> TurnedCodes<T> {
    /// The codes of the distances from `relative.last` down to 0.
    pub fn new(relative: &Relative<'_, T>, heads: usize, head_width: usize) -> Self {
        let (last, stride) = (relative.last.unsigned_abs(), heads * head_width);
        // The queries of a block read whole vectors, as far as the last of them sees.
        let columns = (last + 1 + ROWS + LANES).next_multiple_of(LANES);
        let mut across = vec![T::ZERO; stride * columns];
        for (column, code) in relative.codes.chunks_exact(stride).take(last + 1).enumerate() {
            for (channel, &number) in code.iter().enumerate() {
                across[channel * columns + column] = number;
            }
        }
        Self { across, columns, last }
    }

    /// The codes that a query meets from key `from` on, channel by channel.
    fn panel(&self, channel: usize, query: usize, from: usize) -> RightOperand<'_, T> {
        RightOperand::new(&self.across[channel * self.columns + self.last - query + from..], self.columns)
    }
}

impl<T: Real> KeyValueCache<T> {
    /// An empty cache for `heads` heads of keys and values, with the channels of a head of each.
    pub fn new(heads: usize, widths: [usize; 2], by_key: bool) -> Self {
        Self { heads, widths, by_key, steps: 1, length: 0, capacity: 0, keys: vec![], values: vec![] }
    }

    /// No positions yet, each of which will have the keys of so many steps.
    pub fn of_steps(heads: usize, widths: [usize; 2], steps: usize) -> Self {
        Self { steps, ..Self::new(heads, widths, false) }
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.length / self.steps
    }

    /// Queries and keys of a run over all positions.
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.len(), self.length)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Positions that codes and biases of distances should reach: as many as there is room for.
    pub fn room(&self) -> usize {
        self.capacity
    }

    /// Channels of a head of values, in whole vectors.
    fn padded(&self) -> usize {
        self.widths[1].next_multiple_of(LANES)
    }

    /// The keys of a head, turned, `[e, capacity]`.
    fn keys(&self, head: usize) -> &[T] {
        let size = self.widths[0] * self.capacity;
        &self.keys[head * size..(head + 1) * size]
    }

    /// The values of a head where keys are turned.
    pub(super) fn values(&self, head: usize) -> &[T] {
        let size = self.capacity * self.padded();
        &self.values[head * size..(head + 1) * size]
    }

    /// Adds positions: `k[positions, key_heads e]`, `v[positions, key_heads f]`.
    pub fn push(&mut self, k: &[T], v: &[T]) {
        let [stride, value_stride] = self.widths.map(|width| self.heads * width);
        let count = k.len() / stride;
        self.reserve(self.length + count);
        if self.by_key {
            self.keys.extend_from_slice(k);
            self.values.extend_from_slice(v);
            self.length += count;
            return;
        }
        let (width, padded) = (self.widths[1], self.padded());
        for (k, v) in k.chunks_exact(stride).zip(v.chunks_exact(value_stride)) {
            for (channel, &number) in k.iter().enumerate() {
                self.keys[channel * self.capacity + self.length] = number;
            }
            for (head, v) in v.chunks_exact(width).enumerate() {
                let at = (head * self.capacity + self.length) * padded;
                self.values[at..at + width].copy_from_slice(v);
            }
            self.length += 1;
        }
    }

    /// Makes room for so many positions, at least twice as many as before: what is kept moves seldom.
    fn reserve(&mut self, positions: usize) {
        if positions <= self.capacity {
            return;
        }
        let room = positions.max(2 * self.capacity).max(4 * LANES).next_multiple_of(LANES);
        if !self.by_key {
            let (stride, padded) = (self.heads * self.widths[0], self.padded());
            self.keys = spaced(&self.keys, self.capacity, room, stride);
            self.values = spaced(&self.values, self.capacity * padded, room * padded, self.heads);
        }
        self.capacity = room;
    }
}

/// `count` ranges of `old` numbers, each made `new` numbers long with zeros behind.
fn spaced<T: Real>(from: &[T], old: usize, new: usize, count: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; count * new];
    for (to, from) in out.chunks_exact_mut(new).zip(from.chunks_exact(old.max(1))) {
        to[..old].copy_from_slice(from);
    }
    out
}

/// What the last positions of a cache, whose queries are `q[positions, heads e]`, see of all its positions. `codes` are those
/// of `scores.relative`, where there are some and keys are turned.
pub fn attend<T: Real>(
    spec: &Attention<'_>,
    scores: &Scores<'_, T>,
    codes: Option<&TurnedCodes<T>>,
    cache: &KeyValueCache<T>,
    q: &[T],
    out: &mut [T],
) {
    let (queries, keys) = ([0, cache.len()], [0, cache.length]);
    let shape = AttentionSizes::of(spec, &queries, &keys);
    let new = q.len() / shape.keys.query_stride;
    let work = new * cache.length * spec.heads * (shape.padded() / 2 + 4);
    let out = DisjointSlice::new(out);
    each(spec.heads, work, |head| {
        let place = RowHead { row: 0, head };
        match shape.sparse() {
            // SAFETY: the heads own disjoint strided parts of `out`, all inside it.
            Some(offsets) => unsafe {
                let (first, inputs) = (cache.len() - new, [q, &cache.keys, &cache.values]);
                sparse::forward(&shape, scores, offsets, place, cache.extent(), first, inputs, &out);
            },
            // SAFETY: as above.
            None => unsafe { blocks(&shape, scores, codes, cache, place, q, &out) },
        }
    });
}

/// Queries of a block as they meet the keys of a cache, and as they meet codes of distances.
pub(super) struct CachedQueries<'s, T> {
    queries: &'s mut [T],
    shifted: &'s mut [T],
    /// The products of a query and the codes.
    products: &'s mut [T],
}

impl<'s, T: Real> CachedQueries<'s, T> {
    /// How many numbers it needs for blocks of so many queries.
    pub(super) fn size(shape: &AttentionSizes<'_>, cache: &KeyValueCache<T>, rows: usize, codes: bool) -> usize {
        2 * rows * shape.keys.padded + if codes { cache.length.next_multiple_of(LANES) } else { 0 }
    }

    pub(super) fn new(
        shape: &AttentionSizes<'_>,
        cache: &KeyValueCache<T>,
        rows: usize,
        codes: bool,
        rest: &mut &'s mut [T],
    ) -> Self {
        let width = if codes { cache.length.next_multiple_of(LANES) } else { 0 };
        let queries = rows * shape.keys.padded;
        let [queries, shifted, products] = [queries, queries, width].map(|len| cut(rest, len));
        Self { queries, shifted, products }
    }

    /// The products of a block of queries, of which the first is number `first` of `q`, and all keys that they may see.
    pub(super) fn products(
        &mut self,
        shape: &AttentionSizes<'_>,
        add: &Scores<'_, T>,
        codes: Option<&TurnedCodes<T>>,
        cache: &KeyValueCache<T>,
        (block, first): (QueryBlock, usize),
        q: &[T],
        scores: &mut [T],
    ) {
        let (e, padded, head) = (shape.keys.width, shape.keys.padded, block.head());
        let QueryBlock { count, columns, from, .. } = block;
        let places = shape.query_places(RowHead { row: 0, head }).from(first);
        places.gather(q, &mut self.queries[..count * padded]);
        if let Some(relative) = &add.relative {
            self.shifted.copy_from_slice(self.queries);
            for (rows, n) in [(&mut *self.queries, 0), (&mut *self.shifted, 1)] {
                rows.chunks_exact_mut(padded)
                    .for_each(|row| add_to(&mut row[..e], relative.shift(n, head, shape.spec)));
            }
        }
        let keys = cache.keys(shape.key_head(RowHead { row: 0, head }));
        let (left, panel) =
            (LeftOperand::new(self.queries, padded, 1), RightOperand::new(&keys[from..], cache.capacity));
        product(scores, columns, left, panel, count, e, columns, Write::Replace);
        let Some(codes) = codes else { return };
        for (n, scores) in scores.chunks_exact_mut(columns.max(1)).enumerate() {
            let query = LeftOperand::new(&self.shifted[n * padded..], padded, 1);
            let panel = codes.panel(head * e, block.first + n, from);
            product(self.products, self.products.len(), query, panel, 1, e, columns, Write::Replace);
            add_to(scores, self.products);
        }
    }
}

/// One head, block of queries by block of queries.
///
/// # Safety
/// The task owns the head's part of `out`.
unsafe fn blocks<T: Real>(
    shape: &AttentionSizes<'_>,
    add: &Scores<'_, T>,
    codes: Option<&TurnedCodes<T>>,
    cache: &KeyValueCache<T>,
    place: RowHead,
    q: &[T],
    out: &DisjointSlice<'_, T>,
) {
    let padded = shape.values.padded;
    let ((total, keys), new) = (cache.extent(), q.len() / shape.keys.query_stride);
    let width = keys.next_multiple_of(LANES);
    let rows = (SCORES / width / 8 * 8).clamp(8, ROWS).min(new);
    let (scale, cap) = (T::from_f64(shape.scale), Cap::of(shape.spec));
    let values = cache.values(shape.key_head(place));
    T::with_scratch(
        rows * padded + rows * width + CachedQueries::<T>::size(shape, cache, rows, codes.is_some()),
        |mut rest| {
            let rest = &mut rest;
            let (sums, scores) = (cut(rest, rows * padded), cut(rest, rows * width));
            let mut met = CachedQueries::new(shape, cache, rows, codes.is_some(), rest);
            for first in (0..new).step_by(rows) {
                let block = shape.block(place, total - new + first, rows, total, keys);
                let (count, columns, from) = (block.count, block.columns, block.from);
                let scores = &mut scores[..count * columns];
                met.products(shape, add, codes, cache, (block, first), q, scores);
                if let Some(cap) = cap {
                    cap.apply(scores, &mut []);
                }
                shape.hide(block, total, &add.bias, scores);
                softmax(scores, columns, scale, None);
                let (along, panel) =
                    (LeftOperand::new(scores, columns, 1), RightOperand::new(&values[from * padded..], padded));
                product(sums, padded, along, panel, count, block.keys(), padded, Write::Replace);
                // SAFETY: the caller's promise.
                unsafe { shape.output_places(place).from(first).scatter(&sums[..count * padded], out) };
            }
        },
    );
}
