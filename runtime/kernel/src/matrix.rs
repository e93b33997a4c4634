//! Products of small matrices, two of every unit: what streams read from one another, and sums over them.
//!
//! Source: rtc.

use rtc_compiler::ir::attribute::Side;

use super::Real;
use super::parallel::{BLOCK, DisjointSlice, block, each, lane_dot, vectorised};

/// `y = a b` for the matrices of every unit, `sizes` being the rows of `a`, its columns, and the columns of `b`; the one on the side
/// `transposed` lies there transposed.
pub fn multiply<T: Real>(a: &[T], b: &[T], transposed: Option<Side>, sizes: [usize; 3], y: &mut [T]) {
    let [rows, inner, columns] = sizes;
    let units = y.len() / (rows * columns);
    debug_assert!(a.len() == units * rows * inner && b.len() == units * inner * columns);
    let work = units * rows * inner * columns;
    let size = (BLOCK * units / work.max(1)).clamp(1, units.max(1));
    let out = DisjointSlice::new(y);
    each(units.div_ceil(size), work, |i| {
        vectorised!({
            for unit in block(i, size, units) {
                let a = &a[unit * rows * inner..(unit + 1) * rows * inner];
                let b = &b[unit * inner * columns..(unit + 1) * inner * columns];
                // SAFETY: units are disjoint.
                let y = unsafe { out.part(unit * rows * columns..(unit + 1) * rows * columns) };
                match transposed {
                    None => sums(b, columns, y, |row, n| a[row * inner + n]),
                    Some(Side::Left) => sums(b, columns, y, |row, n| a[n * rows + row]),
                    Some(Side::Right) => dots(a, b, inner, columns, y),
                }
            }
        });
    });
}

/// Every row of `y` is the sum of the rows of `b`, each times its number of `a`.
#[inline(always)]
fn sums<T: Real>(b: &[T], columns: usize, y: &mut [T], a: impl Fn(usize, usize) -> T) {
    for (row, y) in y.chunks_exact_mut(columns).enumerate() {
        y.fill(T::ZERO);
        for (n, b) in b.chunks_exact(columns).enumerate() {
            let a = a(row, n);
            y.iter_mut().zip(b).for_each(|(y, &b)| *y += a * b);
        }
    }
}

/// Every number of `y` is the product of a row of `a` and a row of `b`.
#[inline(always)]
fn dots<T: Real>(a: &[T], b: &[T], inner: usize, columns: usize, y: &mut [T]) {
    for (a, y) in a.chunks_exact(inner).zip(y.chunks_exact_mut(columns)) {
        for (b, y) in b.chunks_exact(inner).zip(y) {
            *y = lane_dot(a, b);
        }
    }
}
