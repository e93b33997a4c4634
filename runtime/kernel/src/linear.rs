//! Linear maps `y = x w^T` with the weight as `[out, in]`, their gradients, and column sums.
//!
//! Source: rtc.

use super::parallel::{add_to, block, lane_dot, sum_blocks, vectorised};
use super::product::{Packed, product};
use super::{Real, Write};

/// Rows of one block of a column sum.
const SUM_ROWS: usize = 128;

/// Outputs up to this many are dot products, for which no packed weight is needed.
pub const NARROW: usize = 4;

/// `y[m, n] = x[m, k] w^T (+ bias[n])` with the packed `w^T`, on the calling thread.
pub fn linear<T: Real>(x: &[T], w: &Packed<T>, bias: Option<&[T]>, y: &mut [T]) {
    let write = begin(bias, y);
    product(x, w, y, write);
}

/// [`linear`] for at most [`NARROW`] outputs, with `w[n, k]` as it is.
pub fn narrow<T: Real>(x: &[T], w: &[T], k: usize, bias: Option<&[T]>, y: &mut [T]) {
    let write = begin(bias, y);
    let n = w.len() / k;
    vectorised!({
        for (x, y) in x.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
            for (w, y) in w.chunks_exact(k).zip(y) {
                let dot = lane_dot(x, w);
                *y = if write == Write::Add { *y + dot } else { dot };
            }
        }
    });
}

/// `out[n] += ` the sum over the rows of `dy[m, n]`, on the calling thread.
pub fn add_rows<T: Real>(dy: &[T], out: &mut [T]) {
    vectorised!({
        for row in dy.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(o, &v)| *o += v);
        }
    });
}

/// `out[n] (+)=` the sum over the rows of `dy[m, n]`: the gradient of a bias.
pub fn column_sum<T: Real>(dy: &[T], out: &mut [T], m: usize, n: usize, write: Write) {
    debug_assert!(dy.len() == m * n && out.len() == n);
    sum_blocks(m.div_ceil(SUM_ROWS), m * n, out, write, |i, sums| {
        let range = block(i, SUM_ROWS, m);
        for row in dy[range.start * n..range.end * n].chunks_exact(n) {
            add_to(sums, row);
        }
    });
}

/// Puts the bias into every row of `y`; tells how the product is to be written then.
fn begin<T: Real>(bias: Option<&[T]>, y: &mut [T]) -> Write {
    let Some(bias) = bias else { return Write::Replace };
    vectorised!(y.chunks_exact_mut(bias.len()).for_each(|y| y.iter_mut().zip(bias).for_each(|(y, &b)| *y = b)));
    Write::Add
}
