//! Scores with positions relative to one another (Transformer-XL): `(q_i + u) k_j + (q_i + v) r_(i-j)`.
//!
//! The second product is made for a block of queries and all distances that occur in it. Its columns count distances down, so
//! that the scores of a query are consecutive columns, one further left for every query.
//!
//! Source: Dai et al. 2019 (Transformer-XL), Section 3.3, arXiv:1901.02860.

use super::dense::QueryBlock;
use super::{Attention, AttentionSizes, LANES, LeftOperand, MaskKind, RightOperand, RowHead, product};
use crate::parallel::add_to;
use crate::{Real, Write};

/// The operands of the second product.
#[derive(Clone, Copy, Debug)]
pub struct Relative<'a, T> {
    /// `u` and `v`, `[heads e]`.
    pub shifts: [&'a [T]; 2],
    /// `r`, `[distances, heads e]`, from the largest distance down.
    pub codes: &'a [T],
    /// The largest distance.
    pub last: isize,
}

impl<'a, T: Real> Relative<'a, T> {
    /// How many distances have a code.
    fn distances(&self) -> usize {
        self.codes.len() / self.shifts[0].len().max(1)
    }

    /// How many gradients one row and head has: those of the codes, then of `u`, then of `v`.
    pub(super) fn gradients(&self, head_width: usize) -> usize {
        (self.distances() + 2) * head_width
    }

    /// The index of a distance among the codes.
    fn at(&self, distance: isize) -> usize {
        (self.last - distance).unsigned_abs()
    }

    /// The code of a distance that occurs, from a channel on; `stride` is the width of all heads.
    pub(super) fn code(&self, distance: isize, stride: usize, from: usize, head_width: usize) -> &'a [T] {
        &self.codes[self.at(distance) * stride + from..][..head_width]
    }

    /// Where the gradients of the code of a distance, of `u` and of `v` stand among those of one row and head.
    pub(super) fn slopes<'g>(&self, distance: isize, head_width: usize, all: &'g mut [T]) -> [&'g mut [T]; 3] {
        let (codes, shifts) = all.split_at_mut(self.distances() * head_width);
        let (u, v) = shifts.split_at_mut(head_width);
        [&mut codes[self.at(distance) * head_width..][..head_width], u, v]
    }

    /// A shift for one head.
    pub(super) fn shift(&self, n: usize, head: usize, spec: &Attention<'_>) -> &'a [T] {
        &self.shifts[n][head * spec.head_width..(head + 1) * spec.head_width]
    }
}

/// Memory for one row and head.
pub(super) struct Turned<'s, T> {
    /// Queries plus `v`, as wide as the copies of the queries.
    queries: &'s mut [T],
    /// Codes of the head, transposed.
    across: &'s mut [T],
    /// The second product of a block, then its gradients.
    products: &'s mut [T],
    /// For the gradients: codes and their gradients by distance, and the gradients of the queries of a block.
    codes: &'s mut [T],
    slopes: &'s mut [T],
    block: &'s mut [T],
    /// Columns of `across`: distances from the largest down.
    columns: usize,
    /// Columns of `products`.
    width: usize,
}

/// Sizes of the parts, and the widths.
pub(super) struct RelativeSizes {
    pub(super) parts: [usize; 6],
    columns: usize,
    width: usize,
}

impl RelativeSizes {
    /// For rows of so many queries and keys, in blocks of at most `rows` queries and `widest` keys.
    pub(super) fn new(
        shape: &AttentionSizes<'_>,
        (nq, nk): (usize, usize),
        (rows, widest): (usize, usize),
        backward: bool,
    ) -> Self {
        let ahead = match &shape.spec.mask {
            MaskKind::Causal => rows,
            _ => nk,
        };
        let columns = (nq + ahead + 3 * LANES).next_multiple_of(LANES);
        let width = (rows + widest).next_multiple_of(LANES);
        let more = if backward {
            [columns * shape.keys.padded, columns * shape.keys.padded, rows * shape.keys.padded]
        } else {
            [0; 3]
        };
        let parts = [nq * shape.keys.padded, shape.spec.head_width * columns, rows * width, more[0], more[1], more[2]];
        Self { parts, columns, width }
    }

    pub(super) fn turned<'s, T>(
        &self,
        [queries, across, products, codes, slopes, block]: [&'s mut [T]; 6],
    ) -> Turned<'s, T> {
        Turned { queries, across, products, codes, slopes, block, columns: self.columns, width: self.width }
    }
}

impl<T: Real> Turned<'_, T> {
    /// Takes the codes of a row and head, and adds the shifts to the queries.
    pub(super) fn start(&mut self, shape: &AttentionSizes<'_>, r: &Relative<'_, T>, place: RowHead, q: &mut [T]) {
        let (spec, e) = (shape.spec, shape.spec.head_width);
        self.queries.copy_from_slice(q);
        for (queries, n) in [(q, 0), (&mut *self.queries, 1)] {
            for query in queries.chunks_exact_mut(shape.keys.padded) {
                add_to(&mut query[..e], r.shift(n, place.head, spec));
            }
        }
        self.across.fill(T::ZERO);
        self.codes.fill(T::ZERO);
        self.slopes.fill(T::ZERO);
        let largest = self.queries.len() / shape.keys.padded;
        for column in 0..self.columns {
            let Some(at) = self.code(r, largest, column) else { continue };
            let code = &r.codes[at * shape.keys.query_stride + place.head * e..][..e];
            for (c, &x) in code.iter().enumerate() {
                self.across[c * self.columns + column] = x;
            }
            if let Some(own) = self.codes.get_mut(column * shape.keys.padded..column * shape.keys.padded + e) {
                own.copy_from_slice(code);
            }
        }
    }

    /// Which code a column has, in a row of so many queries.
    fn code(&self, r: &Relative<'_, T>, queries: usize, column: usize) -> Option<usize> {
        let distance = queries as isize - 1 - column as isize;
        usize::try_from(r.last - distance).ok().filter(|at| *at < r.distances())
    }

    /// The first column of a block, and how many it has.
    fn part(&self, shape: &AttentionSizes<'_>, block: QueryBlock) -> (usize, usize) {
        let queries = self.queries.len() / shape.keys.padded;
        let first = queries - block.first - block.count + block.from;
        (first, (block.count + block.columns).next_multiple_of(LANES))
    }

    /// Adds the second product to the scores of a block.
    pub(super) fn add(&mut self, shape: &AttentionSizes<'_>, block: QueryBlock, scores: &mut [T]) {
        if block.columns == 0 {
            return;
        }
        let ((first, columns), e) = (self.part(shape, block), shape.spec.head_width);
        let queries = LeftOperand::new(&self.queries[block.first * shape.keys.padded..], shape.keys.padded, 1);
        let codes = RightOperand::new(&self.across[first..], self.columns);
        product(self.products, self.width, queries, codes, block.count, e, columns, Write::Replace);
        for (i, scores) in scores.chunks_exact_mut(block.columns).enumerate() {
            let from = i * self.width + block.count - 1 - i;
            add_to(scores, &self.products[from..from + block.columns]);
        }
    }

    /// Adds what the second product leaves to the gradients of the queries, `dq` of the block, which hold those of the first
    /// one; and the gradients of the shifts to `slopes`.
    pub(super) fn back(
        &mut self,
        shape: &AttentionSizes<'_>,
        r: &Relative<'_, T>,
        block: QueryBlock,
        d_scores: &[T],
        dq: &mut [T],
        slopes: &mut [T],
    ) {
        if block.columns == 0 {
            return;
        }
        let ((first, columns), padded, e) = (self.part(shape, block), shape.keys.padded, shape.spec.head_width);
        let d = &mut self.products[..block.count * self.width];
        d.fill(T::ZERO);
        for (i, scores) in d_scores.chunks_exact(block.columns).enumerate() {
            let from = i * self.width + block.count - 1 - i;
            d[from..from + block.columns].copy_from_slice(scores);
        }
        let (along, across) = (LeftOperand::new(d, self.width, 1), LeftOperand::new(d, 1, self.width));
        let codes = RightOperand::new(&self.codes[first * padded..], padded);
        product(self.block, padded, along, codes, block.count, columns, padded, Write::Replace);
        let queries = RightOperand::new(&self.queries[block.first * padded..], padded);
        product(&mut self.slopes[first * padded..], padded, across, queries, columns, block.count, padded, Write::Add);
        let [u, v] = self.shifts(r, e, slopes);
        let own = dq.chunks_exact_mut(padded).zip(self.block.chunks_exact(padded)).take(block.count);
        for (dq, more) in own {
            add_to(u, &dq[..e]);
            add_to(v, &more[..e]);
            add_to(dq, more);
        }
    }

    fn shifts<'g>(&self, r: &Relative<'_, T>, e: usize, slopes: &'g mut [T]) -> [&'g mut [T]; 2] {
        let (u, v) = slopes[r.distances() * e..].split_at_mut(e);
        [u, v]
    }

    /// Puts the gradients of the codes into `slopes`.
    pub(super) fn finish(&self, shape: &AttentionSizes<'_>, r: &Relative<'_, T>, slopes: &mut [T]) {
        let (e, queries) = (shape.spec.head_width, self.queries.len() / shape.keys.padded);
        for (column, own) in self.slopes.chunks_exact(shape.keys.padded).enumerate() {
            if let Some(at) = self.code(r, queries, column) {
                add_to(&mut slopes[at * e..(at + 1) * e], &own[..e]);
            }
        }
    }
}
