//! Linear maps `y = x w^T` with the weight as `[out, in]`, their gradients, and column sums.
//!
//! Rows are cut into fixed blocks. Every element of a product is one chain of fused multiply-adds over the inner
//! index (per `DEPTH` of it), whatever the number of rows: see `rows_product` for how `gemm` is held to that.

use gemm::{Parallelism, gemm};

use super::elementwise::{gelu_of, relu_of};
use super::parallel::{LANES, Parts, add_to, block, each, lane_sum, sum_blocks, vectorised};
use super::{Real, Write};

/// The inner index is cut into pieces of this length, the longest that `gemm` takes in one chain for every shape.
const DEPTH: usize = 512;

/// Rows of one block of a column sum.
const SUM_ROWS: usize = 128;

/// Outputs up to this many are dot products: `gemm` has nothing to reuse there.
const NARROW: usize = 4;

/// An activation fused behind a linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The identity.
    None,
    /// The exact GELU.
    Gelu,
    /// `max(x, 0)`.
    Relu,
}

/// `y[m, n] = x[m, k] w[n, k]^T (+ bias[n])`.
pub fn linear<T: Real>(x: &[T], w: &[T], bias: Option<&[T]>, y: &mut [T], m: usize, k: usize, n: usize) {
    debug_assert!(x.len() == m * k && w.len() == n * k && y.len() == m * n);
    let weight = Weight::new(w, m, k, n);
    let rows = block_rows(k, n);
    let out = Parts::new(y);
    each(m.div_ceil(rows), product_work(m, k, n), |i| {
        let range = block(i, rows, m);
        // SAFETY: the blocks of rows are disjoint.
        let y = unsafe { out.part(range.start * n..range.end * n) };
        let write = begin(bias, y);
        weight.apply(&x[range.start * k..range.end * k], y, write);
    });
}

/// `pre[m, n] = x w^T (+ bias)` and `y = act(pre)`; the gradient of the activation needs `pre`.
pub fn linear_act<T: Real>(
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    act: Act,
    pre: &mut [T],
    y: &mut [T],
    m: usize,
    k: usize,
    n: usize,
) {
    debug_assert!(x.len() == m * k && w.len() == n * k && y.len() == m * n && pre.len() == m * n);
    let weight = Weight::new(w, m, k, n);
    let rows = block_rows(k, n);
    let (pre, y) = (Parts::new(pre), Parts::new(y));
    each(m.div_ceil(rows), product_work(m, k, n), |i| {
        let range = block(i, rows, m);
        let elements = range.start * n..range.end * n;
        // SAFETY: the blocks of rows are disjoint.
        let (pre, y) = unsafe { (pre.part(elements.clone()), y.part(elements)) };
        let write = begin(bias, pre);
        weight.apply(&x[range.start * k..range.end * k], pre, write);
        activate(act, pre, y);
    });
}

/// `dx[m, k] (+)= dy[m, n] w[n, k]`.
pub fn linear_grad_input<T: Real>(dy: &[T], w: &[T], dx: &mut [T], m: usize, k: usize, n: usize, write: Write) {
    debug_assert!(dx.len() == m * k && w.len() == n * k && dy.len() == m * n);
    let rows = block_rows(k, n);
    let out = Parts::new(dx);
    each(m.div_ceil(rows), product_work(m, k, n), |i| {
        let range = block(i, rows, m);
        // SAFETY: the blocks of rows are disjoint.
        let dx = unsafe { out.part(range.start * k..range.end * k) };
        let weight = Matrix { data: w, row: k, column: 1 };
        rows_product(&dy[range.start * n..range.end * n], weight, dx, n, k, write);
    });
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

/// `y = act(x)` on the calling thread.
pub(super) fn activate<T: Real>(act: Act, x: &[T], y: &mut [T]) {
    vectorised(
        #[inline(always)]
        || match act {
            Act::None => y.copy_from_slice(x),
            Act::Gelu => y.iter_mut().zip(x).for_each(
                #[inline(always)]
                |(y, &x)| *y = gelu_of(x),
            ),
            Act::Relu => y.iter_mut().zip(x).for_each(
                #[inline(always)]
                |(y, &x)| *y = relu_of(x),
            ),
        },
    );
}

/// Rows of one block: more where the weight, which each block packs anew, is deep.
fn block_rows(k: usize, n: usize) -> usize {
    if k.max(n) > DEPTH { 1024 } else { 256 }
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

/// A matrix operand with its strides, in elements, from one row (inner index) and one column to the next.
struct Matrix<'a, T> {
    data: &'a [T],
    row: usize,
    column: usize,
}

/// A weight `[n, k]` made ready for products with many rows.
struct Weight<'a, T> {
    w: &'a [T],
    k: usize,
    n: usize,
    /// `[k, n]`, where there are enough rows: each block packs the weight anew, and rows of it are the quick way round.
    transposed: Option<Vec<T>>,
}

impl<'a, T: Real> Weight<'a, T> {
    fn new(w: &'a [T], m: usize, k: usize, n: usize) -> Self {
        /// Rows from which on transposing first is faster.
        const MANY: usize = 64;
        Self { w, k, n, transposed: (m >= MANY && n > NARROW).then(|| transpose(w, k, n)) }
    }

    /// `y (+)= x w^T` for the rows of `x` and `y`, on the calling thread.
    fn apply(&self, x: &[T], y: &mut [T], write: Write) {
        let (k, n) = (self.k, self.n);
        if let Some(transposed) = &self.transposed {
            return rows_product(x, Matrix { data: transposed, row: n, column: 1 }, y, k, n, write);
        }
        if n > NARROW {
            return rows_product(x, Matrix { data: self.w, row: 1, column: k }, y, k, n, write);
        }
        vectorised(
            #[inline(always)]
            || {
                for (i, y) in y.iter_mut().enumerate() {
                    let (row, column) = (i / n * k, i % n * k);
                    let w = &self.w[column..column + k];
                    let dot = lane_sum(
                        &x[row..row + k],
                        w,
                        #[inline(always)]
                        |a, b| a * b,
                    );
                    *y = if write == Write::Add { *y + dot } else { dot };
                }
            },
        );
    }
}

/// `[k, n]` from `w[n, k]`, in square tiles that stay in the first-level cache.
fn transpose<T: Real>(w: &[T], k: usize, n: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; k * n];
    let parts = Parts::new(&mut out);
    each(k.div_ceil(LANES), k * n, |i| {
        let inner = block(i, LANES, k);
        for columns in (0..n.div_ceil(LANES)).map(|j| block(j, LANES, n)) {
            for t in inner.clone() {
                // SAFETY: tasks own disjoint rows of the result.
                let out = unsafe { parts.part(t * n + columns.start..t * n + columns.end) };
                out.iter_mut().zip(columns.clone()).for_each(|(out, j)| *out = w[j * k + t]);
            }
        }
    });
    out
}

/// `y[rows, columns] (+)= x[rows, inner] b[inner, columns]` on the calling thread.
///
/// `gemm` sums along vectors for single rows and for small outputs with contiguous inner indices, and forward
/// otherwise. A transposed copy of such few rows, at least two apart, keeps it off those paths: then a row has the
/// same bits whatever number of rows stand beside it.
fn rows_product<T: Real>(x: &[T], b: Matrix<T>, y: &mut [T], inner: usize, columns: usize, write: Write) {
    /// Outputs of up to this size may be summed along vectors.
    const SMALL_OUTPUT: usize = 256;
    if columns == 0 || y.is_empty() {
        return;
    }
    let rows = y.len() / columns;
    if inner == 0 {
        if write == Write::Replace {
            y.fill(T::ZERO);
        }
        return;
    }
    let mut copy = Vec::new();
    let (data, row, column) = if rows == 1 || rows * columns <= SMALL_OUTPUT {
        let stride = rows.max(2);
        copy.resize(stride * inner, T::ZERO);
        for (i, x) in x.chunks_exact(inner).enumerate() {
            x.iter().enumerate().for_each(|(t, &x)| copy[t * stride + i] = x);
        }
        (copy.as_slice(), 1, stride)
    } else {
        (x, inner, 1)
    };
    for depth in (0..inner).step_by(DEPTH) {
        let piece = DEPTH.min(inner - depth);
        // SAFETY: strides and sizes stay inside the three slices, and `y` overlaps no other.
        unsafe {
            gemm(
                rows,
                columns,
                piece,
                y.as_mut_ptr(),
                1,
                columns as isize,
                write == Write::Add || depth > 0,
                data.as_ptr().add(depth * column),
                column as isize,
                row as isize,
                b.data.as_ptr().add(depth * b.row),
                b.column as isize,
                b.row as isize,
                T::ONE,
                T::ONE,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}
