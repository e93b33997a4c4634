//! Linear maps `y = x w^T` with the weight as `[out, in]`, their gradients, and column sums.

use gemm::{Parallelism, gemm};

use super::parallel::{LANES, Parts, add_to, block, each, lane_sum, sum_blocks, vectorised};
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
    vectorised(
        #[inline(always)]
        || {
            for (x, y) in x.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
                for (w, y) in w.chunks_exact(k).zip(y) {
                    let dot = lane_sum(
                        x,
                        w,
                        #[inline(always)]
                        |a, b| a * b,
                    );
                    *y = if write == Write::Add { *y + dot } else { dot };
                }
            }
        },
    );
}

/// `out[n] += ` the sum over the rows of `dy[m, n]`, on the calling thread.
pub fn add_rows<T: Real>(dy: &[T], out: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            for row in dy.chunks_exact(out.len()) {
                out.iter_mut().zip(row).for_each(|(o, &v)| *o += v);
            }
        },
    );
}

/// `dw[n, k] (+)= dy[m, n]^T x[m, k]`.
///
/// The output is cut into tiles; the sum over all rows of one tile is one product.
pub fn linear_grad_weight<T: Real>(x: &[T], dy: &[T], dw: &mut [T], m: usize, k: usize, n: usize, write: Write) {
    debug_assert!(x.len() == m * k && dw.len() == n * k && dy.len() == m * n);
    if m == 0 {
        if write == Write::Replace {
            dw.fill(T::ZERO);
        }
        return;
    }
    let (tile_n, tile_k) = weight_tile(k, n);
    let (tiles_n, tiles_k) = (n.div_ceil(tile_n), k.div_ceil(tile_k));
    let out = Parts::new(dw);
    each(tiles_n * tiles_k, product_work(m, k, n), |i| {
        let rows = block(i / tiles_k, tile_n, n);
        let columns = block(i % tiles_k, tile_k, k);
        // SAFETY: tiles are disjoint and inside `dw`; `dy` and `x` hold m rows of n and k numbers.
        unsafe {
            gemm(
                rows.len(),
                columns.len(),
                m,
                out.at(rows.start * k + columns.start),
                1,
                k as isize,
                write == Write::Add,
                dy.as_ptr().add(rows.start),
                n as isize,
                1,
                x.as_ptr().add(columns.start),
                1,
                k as isize,
                T::ONE,
                T::ONE,
                false,
                false,
                false,
                Parallelism::None,
            );
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

/// The cost of a product in the unit of [`each`]: a fused multiply-add is about a quarter of an element moved.
fn product_work(m: usize, k: usize, n: usize) -> usize {
    m * k * n / 4
}

/// Rows and columns of one tile of a weight gradient: at least four tiles where the weight is not tiny.
fn weight_tile(k: usize, n: usize) -> (usize, usize) {
    let tile = |size: usize| (size / 2).next_multiple_of(LANES).clamp(32, 128);
    (tile(n), tile(k))
}

/// Puts the bias into every row of `y`; tells how the product is to be written then.
fn begin<T: Real>(bias: Option<&[T]>, y: &mut [T]) -> Write {
    let Some(bias) = bias else { return Write::Replace };
    y.chunks_exact_mut(bias.len()).for_each(|y| y.copy_from_slice(bias));
    Write::Add
}
