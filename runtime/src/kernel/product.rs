//! Products with a weight that was packed beforehand: `y = x b`.
//!
//! A weight changes once per step and is used many times, so it is brought into the order in which it is read once, and
//! blocks of rows may then be small. Every element of a product is one chain of fused multiply-adds over the inner
//! index from first to last: a row has the same bits whatever rows stand beside it, on every kind of vectors.
//!
//! Source: Goto and van de Geijn 2008, ACM TOMS 34(3).

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::parallel::{Parts, block, each};
use super::{Real, Write};

/// Columns of a panel.
const PANEL: usize = 32;

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

/// A matrix `b[inner, columns]` cut into panels of [`PANEL`] columns, one after the other; the last one is filled up
/// with zeros. A panel holds its columns side by side for each inner index.
#[derive(Clone, Debug)]
pub struct Packed<T> {
    data: Vec<T>,
    /// Where the first panel begins: at a cache line.
    start: usize,
    inner: usize,
    columns: usize,
}

impl<T: Real> Default for Packed<T> {
    fn default() -> Self {
        Self { data: vec![], start: 0, inner: 0, columns: 0 }
    }
}

impl<T: Real> Packed<T> {
    /// Packs `w[rows, width]`; the memory of an earlier matrix of the same shape is used again.
    pub fn pack(&mut self, w: &[T], width: usize, orientation: Orientation) {
        let rows = w.len() / width.max(1);
        (self.inner, self.columns) = match orientation {
            Orientation::Straight => (rows, width),
            Orientation::Transposed => (width, rows),
        };
        let panel = self.inner * PANEL;
        let panels = self.columns.div_ceil(PANEL);
        let needed = panels * panel + LINE / size_of::<T>();
        if self.data.len() != needed {
            self.data = vec![T::ZERO; needed];
            let start = self.data.as_ptr().align_offset(LINE);
            self.start = if start < LINE / size_of::<T>() { start } else { 0 };
        }
        let (inner, columns) = (self.inner, self.columns);
        let out = Parts::new(&mut self.data[self.start..]);
        each(panels, w.len() * 2, |p| {
            // SAFETY: the panels are disjoint.
            let out = unsafe { out.part(p * panel..(p + 1) * panel) };
            let range = block(p, PANEL, columns);
            match orientation {
                Orientation::Straight => {
                    for (out, w) in out.chunks_exact_mut(PANEL).zip(w.chunks_exact(width)) {
                        out[..range.len()].copy_from_slice(&w[range.clone()]);
                    }
                }
                Orientation::Transposed => transpose(&w[range.start * inner..range.end * inner], inner, out),
            }
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
    Arch::new().dispatch(Product { x, b, y, rows, write });
}

/// A product, to be compiled for each kind of vectors.
struct Product<'a, T> {
    x: &'a [T],
    b: &'a Packed<T>,
    y: &'a mut [T],
    rows: usize,
    write: Write,
}

impl<T: Real> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, b, y, rows, write } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        for p in 0..b.columns.div_ceil(PANEL) {
            let panel = &b.data[b.start + p * b.inner * PANEL..][..b.inner * PANEL];
            let columns = block(p, PANEL, b.columns);
            let strip = Strip { x: x.as_ptr(), row: b.inner, step: 1, inner: b.inner, rows };
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
                let part = Strip { x: x[first * b.inner..].as_ptr(), rows: count, ..strip };
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
pub fn outer<T: Real>(x: &[T], dy: &[T], dw: &mut [T], m: usize, k: usize, n: usize, write: Write) {
    debug_assert!(x.len() == m * k && dw.len() == n * k && dy.len() == m * n);
    if m == 0 && write == Write::Replace {
        dw.fill(T::ZERO);
    }
    let (tiles_n, tiles_k) = (n.div_ceil(TILE_ROWS), k.div_ceil(PANEL));
    let out = Parts::new(dw);
    each(tiles_n * tiles_k, m * k * n / 4, |i| {
        let job = Outer {
            x,
            dy,
            dw: &out,
            k,
            n,
            rows: block(i / tiles_k, TILE_ROWS, n),
            columns: block(i % tiles_k, PANEL, k),
            write,
        };
        T::with_scratch((DEPTH + TILE_ROWS) * PANEL, |scratch| outer_tile(OuterTile { job: &job, scratch }));
    });
}

/// Rows of a tile of [`outer`].
const TILE_ROWS: usize = 128;

/// Rows of `x` that are packed at a time.
const DEPTH: usize = 256;

/// One tile of [`outer`].
struct Outer<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    dw: &'a Parts<'a, T>,
    k: usize,
    n: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    write: Write,
}

/// A tile with memory, to be compiled for each kind of vectors. Small, so that it is handed on in registers: what is handed
/// on in memory is not compiled with vectors.
struct OuterTile<'a, T> {
    job: &'a Outer<'a, T>,
    scratch: &'a mut [T],
}

/// A function of its own, not inlined: among other code the compiler gives up on vectors here.
#[inline(never)]
fn outer_tile<T: Real>(tile: OuterTile<'_, T>) {
    Arch::new().dispatch(tile);
}

impl<T: Real> WithSimd for OuterTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Outer { x, dy, dw, k, n, rows, columns, write } = self.job;
        let (k, n, full) = (*k, *n, columns.len() == PANEL);
        let (panel, tile) = self.scratch.split_at_mut(DEPTH * PANEL);
        if !full {
            panel.fill(T::ZERO);
            tile.fill(T::ZERO);
        }
        for (piece, (x, dy)) in x.chunks(DEPTH * k).zip(dy.chunks(DEPTH * n)).enumerate() {
            for (panel, x) in panel.as_chunks_mut::<PANEL>().0.iter_mut().zip(x.chunks_exact(k)) {
                // A whole row as one value: a call for so few numbers costs more than the copy.
                match x[columns.start..].first_chunk::<PANEL>() {
                    Some(x) if full => *panel = *x,
                    _ => panel[..columns.len()].copy_from_slice(&x[columns.clone()]),
                }
            }
            let left = Strip { x: dy[rows.start..].as_ptr(), row: 1, step: n, inner: dy.len() / n, rows: rows.len() };
            // SAFETY: the task owns its tile of dw; the buffer holds a whole one.
            unsafe {
                let (to, stride, write) = if full {
                    (dw.at(rows.start * k + columns.start), k, if piece > 0 { Write::Add } else { *write })
                } else {
                    (tile.as_mut_ptr(), PANEL, Write::Add)
                };
                left.run(simd, panel, to, stride, PANEL, write);
            }
        }
        if full {
            return;
        }
        for (row, tile) in rows.clone().zip(tile.chunks_exact(PANEL)) {
            // SAFETY: as above.
            let dw = unsafe { dw.part(row * k + columns.start..row * k + columns.end) };
            for (dw, &sum) in dw.iter_mut().zip(tile) {
                *dw = if *write == Write::Add { *dw + sum } else { sum };
            }
        }
    }
}

/// The left operand: element (r, t) is `x[r row + t step]`.
#[derive(Clone, Copy)]
struct Strip<T> {
    x: *const T,
    row: usize,
    step: usize,
    inner: usize,
    rows: usize,
}

impl<T: Real> Strip<T> {
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
            if S::REGISTER_COUNT >= 32 {
                while row + 8 <= self.rows {
                    tile::<T, S, 8, C>(simd, at(row), b, stride, write);
                    row += 8;
                }
            }
            while row + 4 <= self.rows {
                tile::<T, S, 4, C>(simd, at(row), b, stride, write);
                row += 4;
            }
            match self.rows - row {
                0 => {}
                1 => tile::<T, S, 1, C>(simd, at(row), b, stride, write),
                2 => tile::<T, S, 2, C>(simd, at(row), b, stride, write),
                _ => tile::<T, S, 3, C>(simd, at(row), b, stride, write),
            }
        }
    }
}

/// `R` rows by `C` vectors of columns, held in registers over the inner index.
///
/// # Safety
/// The operands cover the tile and the inner index.
#[inline(always)]
unsafe fn tile<T: Real, S: Simd, const R: usize, const C: usize>(
    simd: S,
    (left, y): (Strip<T>, *mut T),
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
                    *sum = T::fused(simd, x, *right, *sum);
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
