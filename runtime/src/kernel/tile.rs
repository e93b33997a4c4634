//! A small matrix product for attention: no packing, no call overhead, vector columns of [`LANES`].

use super::Real;
use super::parallel::{LANES, vectorised};

/// The left operand `a(r, t)` of a product: a strided view.
#[derive(Clone, Copy)]
pub(super) struct Left<'a, T> {
    data: &'a [T],
    row: usize,
    inner: usize,
}

impl<'a, T> Left<'a, T> {
    /// `a(r, t) = data[r row + t inner]`.
    pub(super) fn new(data: &'a [T], row: usize, inner: usize) -> Self {
        Self { data, row, inner }
    }
}

/// The right operand `b(t, c)`: rows of contiguous columns.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a, T> {
    data: &'a [T],
    row: usize,
}

impl<'a, T> Panel<'a, T> {
    /// `b(t, c) = data[t row + c]`.
    pub(super) fn new(data: &'a [T], row: usize) -> Self {
        Self { data, row }
    }
}

/// `c[rows, columns] += a b`, each element one chain of fused multiply-adds over the `inner` index.
///
/// `columns` is a multiple of [`LANES`]; the rows of `c` are `c_row` apart. A function of its own, not inlined: among
/// much other code the compiler gives up on vectors here.
#[inline(never)]
pub(super) fn product<T: Real>(
    c: &mut [T],
    c_row: usize,
    a: Left<T>,
    b: Panel<T>,
    rows: usize,
    inner: usize,
    columns: usize,
) {
    if rows == 0 || inner == 0 || columns == 0 {
        return;
    }
    assert!(columns.is_multiple_of(LANES) && columns <= c_row, "whole vectors inside a row");
    assert!((rows - 1) * c_row + columns <= c.len(), "the result fits");
    assert!((rows - 1) * a.row + (inner - 1) * a.inner < a.data.len(), "the left operand is there");
    assert!((inner - 1) * b.row + columns <= b.data.len(), "the right operand is there");
    vectorised(
        #[inline(always)]
        || {
            for column in (0..columns).step_by(LANES) {
                // SAFETY: the sizes were checked above; `c` is borrowed exclusively.
                unsafe {
                    let (c, b_start) = (c.as_mut_ptr().add(column), b.data.as_ptr().add(column));
                    strip(
                        Tile {
                            c,
                            c_row,
                            a: a.data.as_ptr(),
                            a_row: a.row,
                            a_inner: a.inner,
                            b: b_start,
                            b_row: b.row,
                            inner,
                        },
                        rows,
                    );
                }
            }
        },
    );
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

/// One vector of columns: tiles of 8 rows, then of 4, 2 and 1.
///
/// # Safety
/// The operands cover `rows` rows and the inner index.
#[inline(always)]
unsafe fn strip<T: Real>(top: Tile<T>, rows: usize) {
    let mut row = 0;
    // SAFETY: the tiles cover rows 0..rows once, inside the caller's bounds.
    unsafe {
        let at = |row: usize| Tile { c: top.c.add(row * top.c_row), a: top.a.add(row * top.a_row), ..top };
        while row + 8 <= rows {
            run::<T, 8>(at(row));
            row += 8;
        }
        if row + 4 <= rows {
            run::<T, 4>(at(row));
            row += 4;
        }
        if row + 2 <= rows {
            run::<T, 2>(at(row));
            row += 2;
        }
        if row < rows {
            run::<T, 1>(at(row));
        }
    }
}

/// `R` rows by [`LANES`] columns, held in registers over the inner index.
///
/// # Safety
/// The operands cover `R` rows and the inner index.
#[inline(always)]
unsafe fn run<T: Real, const R: usize>(tile: Tile<T>) {
    let mut sums = [[T::ZERO; LANES]; R];
    // SAFETY: inside the bounds promised by the caller.
    unsafe {
        for (r, sums) in sums.iter_mut().enumerate() {
            *sums = tile.c.add(r * tile.c_row).cast::<[T; LANES]>().read();
        }
        for t in 0..tile.inner {
            let right = tile.b.add(t * tile.b_row).cast::<[T; LANES]>().read();
            for (r, sums) in sums.iter_mut().enumerate() {
                let left = *tile.a.add(r * tile.a_row + t * tile.a_inner);
                for l in 0..LANES {
                    sums[l] = left.mul_add(right[l], sums[l]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            tile.c.add(r * tile.c_row).cast::<[T; LANES]>().write(*sums);
        }
    }
}
