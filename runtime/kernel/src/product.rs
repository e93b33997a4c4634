//! Products with a weight that was packed beforehand: `y = x b`.
//!
//! A weight changes once per step and is used many times, so it is brought into the order in which it is read once, and
//! blocks of rows may then be small. Every element of a product is one chain of fused multiply-adds over the inner
//! index from first to last: a row has the same bits whatever rows stand beside it, on every kind of vectors.
//!
//! Source: Goto and van de Geijn 2008, ACM TOMS 34(3).

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::parallel::{DisjointSlice, block, each, vectorised};
use super::precision::{BEHIND, Factors, PANEL, Precision};
use super::vectors::dispatch;
use super::{Real, Write};

/// Bytes to whose multiples panels are aligned.
const LINE: usize = 64;

/// How a matrix `w[rows, columns]` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Orientation {
    /// As it is: `b = w`, for the gradient of the input of a linear map.
    Straight,
    /// Transposed: `b = w^T`, for a linear map.
    Transposed,
}

/// A matrix `b[inner, columns]` cut into panels of `PANEL` columns, one after the other; the last one is filled up
/// with zeros. A panel holds its columns side by side for each inner index, or for each pair of them.
#[derive(Clone, Debug)]
pub struct Packed<T> {
    data: Vec<T>,
    /// Where the first panel begins: at a cache line.
    start: usize,
    inner: usize,
    columns: usize,
    factors: Factors,
}

impl<T: Real> Default for Packed<T> {
    fn default() -> Self {
        Self { data: vec![], start: 0, inner: 0, columns: 0, factors: Factors::default() }
    }
}

impl<T: Real> Packed<T> {
    /// Packs `w[rows, width]` as factors of that precision; the memory of an earlier matrix of the same shape is used again.
    pub fn pack(&mut self, w: &[T], width: usize, orientation: Orientation, precision: Precision) {
        let rows = w.len() / width.max(1);
        (self.inner, self.columns) = match orientation {
            Orientation::Straight => (rows, width),
            Orientation::Transposed => (width, rows),
        };
        self.factors = Factors::of::<T>(precision);
        let (inner, columns, factors) = (self.inner, self.columns, self.factors);
        let panel = factors.count(inner) * PANEL;
        let panels = columns.div_ceil(PANEL);
        let needed = panels * panel + LINE / size_of::<T>();
        if self.data.len() != needed {
            self.data = vec![T::ZERO; needed];
            let start = self.data.as_ptr().align_offset(LINE);
            self.start = if start < LINE / size_of::<T>() { start } else { 0 };
        }
        let numbers = |p: usize, out: &mut [T]| {
            let range = block(p, PANEL, columns);
            match orientation {
                Orientation::Straight => {
                    for (out, w) in out.chunks_exact_mut(PANEL).zip(w.chunks_exact(width)) {
                        out[..range.len()].copy_from_slice(&w[range.clone()]);
                    }
                }
                Orientation::Transposed => transpose(&w[range.start * inner..range.end * inner], inner, out),
            }
        };
        let out = DisjointSlice::new(&mut self.data[self.start..]);
        each(panels, w.len() * 2, |p| {
            // SAFETY: the panels are disjoint.
            let out = unsafe { out.part(p * panel..(p + 1) * panel) };
            if factors == Factors::default() {
                return numbers(p, out);
            }
            T::with_scratch(inner * PANEL, |unrounded| {
                unrounded.fill(T::ZERO);
                numbers(p, unrounded);
                vectorised!(factors.of_columns((unrounded, PANEL, 0..PANEL), BEHIND[1], (out, PANEL)));
            });
        });
    }
}

/// One panel from rows of `inner` numbers, which become its columns: in pieces whose lines stay in the first-level cache.
fn transpose<T: Real>(w: &[T], inner: usize, panel: &mut [T]) {
    /// Inner indices of a piece: those of one cache line.
    const PIECE: usize = 16;
    for (p, panel) in panel.chunks_mut(PIECE * PANEL).enumerate() {
        for (j, w) in w.chunks_exact(inner).enumerate() {
            let w = &w[p * PIECE..];
            for (out, &w) in panel.chunks_exact_mut(PANEL).zip(w) {
                out[j] = w;
            }
        }
    }
}

/// `y[m, columns] (+)= x[m, inner] b`, on the calling thread.
pub fn product<T: Real>(x: &[T], b: &Packed<T>, y: &mut [T], write: Write) {
    if b.columns == 0 || y.is_empty() {
        return;
    }
    let rows = y.len() / b.columns;
    debug_assert!(y.len() == rows * b.columns && x.len() == rows * b.inner);
    if b.factors == Factors::default() || b.inner == 0 {
        return dispatch(PackedProduct::<T, false> { x, b, y, rows, write });
    }
    T::with_scratch(rows * b.factors.count(b.inner), |left| {
        b.factors.of_rows(x, b.inner, left);
        match b.factors {
            Factors::Numbers(_) => dispatch(PackedProduct::<T, false> { x: left, b, y, rows, write }),
            Factors::Pairs => T::with_pairs(PackedProduct::<T, true> { x: left, b, y, rows, write }),
        }
    });
}

/// A product of factors, which are pairs or numbers, to be compiled for each kind of vectors.
struct PackedProduct<'a, T, const PAIRS: bool> {
    x: &'a [T],
    b: &'a Packed<T>,
    y: &'a mut [T],
    rows: usize,
    write: Write,
}

impl<T: Real, const PAIRS: bool> WithSimd for PackedProduct<'_, T, PAIRS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, b, y, rows, write } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let inner = b.factors.count(b.inner);
        for p in 0..b.columns.div_ceil(PANEL) {
            let panel = &b.data[b.start + p * inner * PANEL..][..inner * PANEL];
            let columns = block(p, PANEL, b.columns);
            let strip = Strip::<T, PAIRS> { x: x.as_ptr(), row: inner, step: 1, inner, rows };
            if columns.len() == PANEL {
                // SAFETY: x, the panel and y cover `rows` rows of the strip.
                unsafe { strip.run(simd, panel, y.as_mut_ptr().add(columns.start), b.columns, PANEL, write) };
                continue;
            }
            // A panel that is not full goes through a buffer, 8 rows at a time.
            let mut buffer = [T::ZERO; 8 * PANEL];
            for first in (0..rows).step_by(8) {
                let count = 8.min(rows - first);
                let at = |row: usize| (first + row) * b.columns + columns.start;
                if write == Write::Add {
                    for row in 0..count {
                        buffer[row * PANEL..][..columns.len()].copy_from_slice(&y[at(row)..][..columns.len()]);
                    }
                }
                let part = Strip { x: x[first * inner..].as_ptr(), rows: count, ..strip };
                let used = columns.len().next_multiple_of(lanes);
                // SAFETY: the buffer holds 8 rows of a panel.
                unsafe { part.run(simd, panel, buffer.as_mut_ptr(), PANEL, used, write) };
                for row in 0..count {
                    y[at(row)..][..columns.len()].copy_from_slice(&buffer[row * PANEL..][..columns.len()]);
                }
            }
        }
    }
}

/// `dw[n, k] (+)= dy[m, n]^T x[m, k]`: every element is one chain over the rows of `x`, from first to last.
///
/// The rows are outermost: the factors of a piece of them stay in the second-level cache while all of `dw` takes them up, and a
/// sum that is stored between two pieces is still the same chain.
pub fn outer<T: Real>(
    x: &[T],
    dy: &[T],
    dw: &mut [T],
    m: usize,
    k: usize,
    n: usize,
    write: Write,
    precision: Precision,
) {
    debug_assert!(x.len() == m * k && dw.len() == n * k && dy.len() == m * n);
    if m == 0 && write == Write::Replace {
        dw.fill(T::ZERO);
    }
    // Every job goes through all rows, so there are as few of them as keep the threads busy.
    let threads = rayon::current_num_threads();
    let (tiles, panels) = (n.div_ceil(TILE_ROWS), k.div_ceil(PANEL));
    let wanted = if threads > 1 { 2 * threads } else { 1 };
    let down = wanted.min(tiles);
    let across = wanted.div_ceil(down.max(1)).min(panels);
    let factors = Factors::of::<T>(precision);
    let out = DisjointSlice::new(dw);
    each(down * across, m * k * n / 4, |i| {
        let share = |i: usize, of: usize, tiles: usize, size: usize, most: usize| {
            most.min(i * tiles / of * size)..most.min((i + 1) * tiles / of * size)
        };
        let rows = share(i % down, down, tiles, TILE_ROWS, n);
        let columns = share(i / down, across, panels, PANEL, k);
        let left = match (factors == Factors::default(), m >= DEPTH && k >= WORTH) {
            (true, false) => GradientLayout::InPlace,
            (true, true) => GradientLayout::Groups,
            (false, _) => GradientLayout::Tiles,
        };
        let copied = if left == GradientLayout::InPlace { 0 } else { rows.len() + TILE_ROWS };
        let scratch = factors.count(DEPTH) * (copied + PANEL) + TILE_ROWS * PANEL;
        let job = Outer { x, dy, dw: &out, sizes: (k, n), rows, columns, write, factors, left };
        T::with_scratch(scratch, |scratch| outer_part(&job, scratch));
    });
}

/// Rows of a tile of `dw`.
const TILE_ROWS: usize = 128;

/// Rows of `x` and `dy` in a piece: an even number.
const DEPTH: usize = 256;

/// Columns of `x` from which on copies of `dy` are worth their time: as many panels take them up.
const WORTH: usize = 16 * PANEL;

/// The layout of the factors of `dy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GradientLayout {
    /// Where they are: they need no rounding.
    InPlace,
    /// Copied, the rows of one run through the registers side by side: where rows of `dy` are far apart, too few of them stay in the
    /// first-level cache.
    Groups,
    /// Rounded, a tile side by side.
    Tiles,
}

/// Some rows and columns of `dw`.
struct Outer<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    dw: &'a DisjointSlice<'a, T>,
    sizes: (usize, usize),
    rows: Range<usize>,
    columns: Range<usize>,
    write: Write,
    factors: Factors,
    left: GradientLayout,
}

/// A part with memory, to be compiled for each kind of vectors. Small, so that it is handed on in registers: what is handed
/// on in memory is not compiled with vectors.
struct OuterPart<'a, T, const PAIRS: bool> {
    job: &'a Outer<'a, T>,
    scratch: &'a mut [T],
}

/// A function of its own, not inlined: among other code the compiler gives up on vectors here.
#[inline(never)]
fn outer_part<T: Real>(job: &Outer<'_, T>, scratch: &mut [T]) {
    match job.factors {
        Factors::Numbers(_) => dispatch(OuterPart::<T, false> { job, scratch }),
        Factors::Pairs => T::with_pairs(OuterPart::<T, true> { job, scratch }),
    }
}

impl<T: Real, const PAIRS: bool> WithSimd for OuterPart<'_, T, PAIRS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Outer { x, dy, dw, sizes: (k, n), rows, columns, write, factors, left: lies } = self.job;
        let (k, n, factors, deep) = (*k, *n, *factors, factors.count(DEPTH));
        let (tile, scratch) = self.scratch.split_at_mut(TILE_ROWS * PANEL);
        let (panel, left) = scratch.split_at_mut(deep * PANEL);
        let height = if *lies == GradientLayout::Groups { 2 * strip_rows::<S>() } else { TILE_ROWS };
        if !columns.len().is_multiple_of(PANEL) {
            // What is beside the last columns is computed with, and need only not be slow.
            panel.fill(T::ZERO);
            tile.fill(T::ZERO);
        }
        let tiles = || rows.clone().step_by(height).map(|first| first..rows.end.min(first + height));
        for (piece, (x, dy)) in x.chunks(DEPTH * k).zip(dy.chunks(DEPTH * n)).enumerate() {
            let write = if piece > 0 { Write::Add } else { *write };
            let inner = factors.count(dy.len() / n);
            for (rows, left) in tiles().zip(left.chunks_exact_mut(deep * height)) {
                factors.of_columns((dy, n, rows), BEHIND[0], (left, height));
            }
            for first in columns.clone().step_by(PANEL) {
                let width = PANEL.min(columns.end - first);
                factors.of_columns((x, k, first..first + width), BEHIND[1], (panel, PANEL));
                for (i, rows) in tiles().enumerate() {
                    let (x, step) = match lies {
                        GradientLayout::InPlace => (dy[rows.start..].as_ptr(), n),
                        GradientLayout::Groups | GradientLayout::Tiles => (left[i * deep * height..].as_ptr(), height),
                    };
                    let strip = Strip::<T, PAIRS> { x, row: 1, step, inner, rows: rows.len() };
                    if width == PANEL {
                        // SAFETY: the job owns its rows and columns of dw.
                        unsafe { strip.run(simd, panel, dw.at(rows.start * k + first), k, PANEL, write) };
                        continue;
                    }
                    // SAFETY: as above.
                    let part = |row: usize| unsafe { dw.part(row * k + first..row * k + first + width) };
                    if write == Write::Add {
                        let rows = tile.chunks_exact_mut(PANEL).zip(rows.clone());
                        rows.for_each(|(tile, row)| tile[..width].copy_from_slice(part(row)));
                    }
                    // SAFETY: the buffer holds a whole tile.
                    unsafe { strip.run(simd, panel, tile.as_mut_ptr(), PANEL, PANEL, write) };
                    tile.chunks_exact(PANEL)
                        .zip(rows)
                        .for_each(|(tile, row)| part(row).copy_from_slice(&tile[..width]));
                }
            }
        }
    }
}

/// The left operand: factor (r, t) is `x[r row + t step]`.
#[derive(Clone, Copy)]
struct Strip<T, const PAIRS: bool> {
    x: *const T,
    row: usize,
    step: usize,
    inner: usize,
    rows: usize,
}

impl<T: Real, const PAIRS: bool> Strip<T, PAIRS> {
    /// The first `width` columns of a panel.
    ///
    /// # Safety
    /// `y` covers `rows` rows of `width` columns, `stride` apart, and the left operand as many rows of the inner index.
    #[inline(always)]
    unsafe fn run<S: Simd>(self, simd: S, panel: &[T], y: *mut T, stride: usize, width: usize, write: Write) {
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let mut column = 0;
        while column < width {
            // SAFETY: the columns stay inside the panel and inside y.
            unsafe {
                let (b, y) = (panel.as_ptr().add(column), y.add(column));
                if width - column >= 2 * lanes {
                    self.columns::<S, 2>(simd, b, y, stride, write);
                    column += 2 * lanes;
                } else {
                    self.columns::<S, 1>(simd, b, y, stride, write);
                    column += lanes;
                }
            }
        }
    }

    /// `C` vectors of columns: as many rows at a time as there are registers for.
    #[inline(always)]
    unsafe fn columns<S: Simd, const C: usize>(self, simd: S, b: *const T, y: *mut T, stride: usize, write: Write) {
        let mut row = 0;
        // SAFETY: the tiles cover the rows once.
        unsafe {
            let at = |row: usize| (Self { x: self.x.add(row * self.row), ..self }, y.add(row * stride));
            if strip_rows::<S>() == 8 {
                while row + 8 <= self.rows {
                    tile::<T, S, PAIRS, 8, C>(simd, at(row), b, stride, write);
                    row += 8;
                }
            } else {
                while row + 6 <= self.rows {
                    tile::<T, S, PAIRS, 6, C>(simd, at(row), b, stride, write);
                    row += 6;
                }
            }
            while row + 4 <= self.rows {
                tile::<T, S, PAIRS, 4, C>(simd, at(row), b, stride, write);
                row += 4;
            }
            match self.rows - row {
                0 => {}
                1 => tile::<T, S, PAIRS, 1, C>(simd, at(row), b, stride, write),
                2 => tile::<T, S, PAIRS, 2, C>(simd, at(row), b, stride, write),
                _ => tile::<T, S, PAIRS, 3, C>(simd, at(row), b, stride, write),
            }
        }
    }
}

/// Rows whose sums for two vectors of columns stay in registers, beside what they are made of: as many products at a time as take the
/// latency of one to begin.
const fn strip_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 6 }
}

/// `R` rows by `C` vectors of columns, held in registers over the inner index.
///
/// # Safety
/// The operands cover the tile and the inner index.
#[inline(always)]
unsafe fn tile<T: Real, S: Simd, const PAIRS: bool, const R: usize, const C: usize>(
    simd: S,
    (left, y): (Strip<T, PAIRS>, *mut T),
    b: *const T,
    stride: usize,
    write: Write,
) {
    let mut sums = [[T::ZERO.splat(simd); C]; R];
    // SAFETY: inside the bounds promised by the caller; vectors may lie anywhere.
    unsafe {
        if write == Write::Add {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = y.add(r * stride).cast::<T::Vector<S>>().add(c).read_unaligned();
                }
            }
        }
        for t in 0..left.inner {
            let mut right = [T::ZERO.splat(simd); C];
            for (c, right) in right.iter_mut().enumerate() {
                *right = b.add(t * PANEL).cast::<T::Vector<S>>().add(c).read_unaligned();
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = (*left.x.add(r * left.row + t * left.step)).splat(simd);
                for (sum, right) in sums.iter_mut().zip(&right) {
                    *sum = if PAIRS { T::fused_pairs::<S>(x, *right, *sum) } else { T::fused(simd, x, *right, *sum) };
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.iter().enumerate() {
                y.add(r * stride).cast::<T::Vector<S>>().add(c).write_unaligned(*sum);
            }
        }
    }
}
