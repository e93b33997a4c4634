//! A small matrix product for attention: no packing, no call overhead, vector columns of [`LANES`].

use super::Real;
use super::parallel::LANES;

/// The left operand `a(r, t)` of a product: a strided view.
#[derive(Clone, Copy)]
pub(super) struct Left<T> {
    /// Address of `a(0, 0)`.
    pub start: *const T,
    /// Elements from one row `r` to the next.
    pub row: usize,
    /// Elements from one inner index `t` to the next.
    pub inner: usize,
}

/// A matrix with contiguous columns: an address and the elements from one row to the next.
#[derive(Clone, Copy)]
pub(super) struct Panel<T> {
    /// Address of the first element.
    pub start: *const T,
    /// Elements from one row to the next.
    pub row: usize,
}

/// `c[rows, columns] += a b`, each element one chain of fused multiply-adds over the `inner` index.
///
/// # Safety
/// `columns` is a multiple of [`LANES`]; `a`, `b` (inner rows) and `c` (rows apart by `c_row`) cover the sizes; `c`
/// overlaps neither operand. Call it under run-time dispatch.
#[inline(always)]
pub(super) unsafe fn product<T: Real>(
    c: *mut T,
    c_row: usize,
    a: Left<T>,
    b: Panel<T>,
    rows: usize,
    inner: usize,
    columns: usize,
) {
    for column in (0..columns).step_by(LANES) {
        let b = Panel { start: unsafe { b.start.add(column) }, row: b.row };
        let mut row = 0;
        // SAFETY: the tiles cover rows 0..rows once, inside the caller's bounds.
        unsafe {
            let c = c.add(column);
            let at = |row: usize| (c.add(row * c_row), Left { start: a.start.add(row * a.row), ..a });
            while row + 8 <= rows {
                let (c, a) = at(row);
                tile::<T, 8>(c, c_row, a, b, inner);
                row += 8;
            }
            if row + 4 <= rows {
                let (c, a) = at(row);
                tile::<T, 4>(c, c_row, a, b, inner);
                row += 4;
            }
            if row + 2 <= rows {
                let (c, a) = at(row);
                tile::<T, 2>(c, c_row, a, b, inner);
                row += 2;
            }
            if row < rows {
                let (c, a) = at(row);
                tile::<T, 1>(c, c_row, a, b, inner);
            }
        }
    }
}

/// `R` rows by [`LANES`] columns, held in registers over the inner index.
#[inline(always)]
unsafe fn tile<T: Real, const R: usize>(c: *mut T, c_row: usize, a: Left<T>, b: Panel<T>, inner: usize) {
    let mut sums = [[T::ZERO; LANES]; R];
    // SAFETY: inside the bounds promised to `product`.
    unsafe {
        for (r, sums) in sums.iter_mut().enumerate() {
            *sums = c.add(r * c_row).cast::<[T; LANES]>().read();
        }
        for t in 0..inner {
            let right = b.start.add(t * b.row).cast::<[T; LANES]>().read();
            for (r, sums) in sums.iter_mut().enumerate() {
                let left = *a.start.add(r * a.row + t * a.inner);
                for l in 0..LANES {
                    sums[l] = left.mul_add(right[l], sums[l]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            c.add(r * c_row).cast::<[T; LANES]>().write(*sums);
        }
    }
}
