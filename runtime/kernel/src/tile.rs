//! A small matrix product for attention: no packing, no call overhead, vector columns of [`LANES`].
//!
//! Source: rtc.

use super::parallel::{LANES, vectorised};
use super::{Real, Write};

/// The left operand `a(r, t)` of a product: a strided view.
#[derive(Clone, Copy)]
pub(super) struct LeftOperand<'a, T> {
    data: &'a [T],
    row: usize,
    inner: usize,
}

impl<'a, T> LeftOperand<'a, T> {
    /// `a(r, t) = data[r row + t inner]`.
    pub(super) fn new(data: &'a [T], row: usize, inner: usize) -> Self {
        Self { data, row, inner }
    }
}

/// The right operand `b(t, c)`: rows of contiguous columns.
#[derive(Clone, Copy)]
pub(super) struct RightOperand<'a, T> {
    data: &'a [T],
    row: usize,
}

impl<'a, T> RightOperand<'a, T> {
    /// `b(t, c) = data[t row + c]`.
    pub(super) fn new(data: &'a [T], row: usize) -> Self {
        Self { data, row }
    }
}

/// `c[rows, columns] (+)= a b`, each element one chain of fused multiply-adds over the `inner` index.
///
/// `columns` is a multiple of [`LANES`]; the rows of `c` are `c_row` apart. A function of its own, not inlined: among
/// much other code the compiler gives up on vectors here.
#[inline(never)]
pub(super) fn product<T: Real>(
    c: &mut [T],
    c_row: usize,
    a: LeftOperand<T>,
    b: RightOperand<T>,
    rows: usize,
    inner: usize,
    columns: usize,
    write: Write,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(columns.is_multiple_of(LANES) && columns <= c_row, "whole vectors inside a row");
    assert!((rows - 1) * c_row + columns <= c.len(), "the result fits");
    assert!(inner == 0 || (rows - 1) * a.row + (inner - 1) * a.inner < a.data.len(), "the left operand is there");
    assert!(inner == 0 || (inner - 1) * b.row + columns <= b.data.len(), "the right operand is there");
    let (a_row, a_inner, b_row) = (a.row, a.inner, b.row);
    let whole = Tile { c: c.as_mut_ptr(), c_row, a: a.data.as_ptr(), a_row, a_inner, b: b.data.as_ptr(), b_row, inner };
    // Two vectors side by side halve the loads of `a`; twice as many doubles would not fit the registers.
    let wide = if size_of::<T>() == 4 { columns / (2 * LANES) * (2 * LANES) } else { 0 };
    let at = |column: usize| Tile { c: whole.c.wrapping_add(column), b: whole.b.wrapping_add(column), ..whole };
    vectorised!({
        for column in (0..wide).step_by(2 * LANES) {
            // SAFETY: the sizes were checked above; `c` is borrowed exclusively.
            unsafe { strip::<T, 2>(at(column), rows, write) };
        }
        for column in (wide..columns).step_by(LANES) {
            // SAFETY: as above.
            unsafe { strip::<T, 1>(at(column), rows, write) };
        }
    });
}

/// Addresses and strides of one tile of a product.
#[derive(Clone, Copy)]
struct Tile<T> {
    c: *mut T,
    c_row: usize,
    a: *const T,
    a_row: usize,
    a_inner: usize,
    b: *const T,
    b_row: usize,
    inner: usize,
}

/// `C` vectors of columns: tiles of 8 rows, then of 4, 2 and 1.
///
/// # Safety
/// The operands cover `rows` rows and the inner index.
#[inline(always)]
unsafe fn strip<T: Real, const C: usize>(top: Tile<T>, rows: usize, write: Write) {
    let mut row = 0;
    // SAFETY: the tiles cover rows 0..rows once, inside the caller's bounds.
    unsafe {
        let at = |row: usize| Tile { c: top.c.add(row * top.c_row), a: top.a.add(row * top.a_row), ..top };
        while row + 8 <= rows {
            run::<T, 8, C>(at(row), write);
            row += 8;
        }
        if row + 4 <= rows {
            run::<T, 4, C>(at(row), write);
            row += 4;
        }
        if row + 2 <= rows {
            run::<T, 2, C>(at(row), write);
            row += 2;
        }
        if row < rows {
            run::<T, 1, C>(at(row), write);
        }
    }
}

/// `R` rows by `C` vectors of [`LANES`] columns, held in registers over the inner index.
///
/// # Safety
/// The operands cover `R` rows and the inner index.
#[inline(always)]
unsafe fn run<T: Real, const R: usize, const C: usize>(tile: Tile<T>, write: Write) {
    let mut sums = [[[T::ZERO; LANES]; C]; R];
    // SAFETY: inside the bounds promised by the caller.
    unsafe {
        if write == Write::Add {
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = tile.c.add(r * tile.c_row).cast::<[[T; LANES]; C]>().read();
            }
        }
        for t in 0..tile.inner {
            let right = tile.b.add(t * tile.b_row).cast::<[[T; LANES]; C]>().read();
            let left = tile.a.add(t * tile.a_inner);
            for (r, sums) in sums.iter_mut().enumerate() {
                let left = *left.add(r * tile.a_row);
                for (sums, right) in sums.iter_mut().zip(&right) {
                    for l in 0..LANES {
                        sums[l] = left.mul_add(right[l], sums[l]);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            tile.c.add(r * tile.c_row).cast::<[[T; LANES]; C]>().write(*sums);
        }
    }
}
