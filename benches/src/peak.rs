//! What the machine can do at most: products of matrices that stay in the caches, each thread its own.
#![allow(unsafe_code, reason = "gemm takes pointers; the slices hold the matrices")]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use gemm::{Parallelism, gemm};

/// Rows, columns and inner index of a product.
const SIZE: usize = 512;
/// How long a burst takes.
const BURST: Duration = Duration::from_millis(80);

/// 10^9 floating-point operations per second of all threads together during one burst.
pub(crate) fn burst(threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(|| rate(&barrier))).collect();
        started.into_iter().map(|thread| thread.join().expect("a product does not panic")).sum()
    })
}

/// The rate of one thread.
fn rate(barrier: &Barrier) -> f64 {
    let (a, b) = (vec![0.5; SIZE * SIZE], vec![0.25; SIZE * SIZE]);
    let mut c = vec![0.0; SIZE * SIZE];
    square(&a, &b, &mut c);
    barrier.wait();
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < BURST {
        square(&a, &b, std::hint::black_box(&mut c));
        runs += 1;
    }
    let flop = 2.0 * (SIZE * SIZE * SIZE) as f64 * f64::from(runs);
    flop * 1e-9 / start.elapsed().as_secs_f64()
}

/// `c = a b`, all of them square.
fn square(a: &[f32], b: &[f32], c: &mut [f32]) {
    product([SIZE; 3], Matrix::new(a, SIZE), Matrix::new(b, SIZE), c, 1);
}

/// A matrix for `gemm`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    numbers: &'a [f32],
    /// From a column, and from a row, to the next.
    steps: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// One that is laid row by row.
    pub(crate) fn new(numbers: &'a [f32], columns: usize) -> Self {
        Self { numbers, steps: [1, columns] }
    }

    /// Its transpose.
    pub(crate) fn turned(self) -> Self {
        let [column, row] = self.steps;
        Self { steps: [row, column], ..self }
    }
}

/// `y[m, n] = a[m, k] b[k, n]` by `gemm`, on the threads of the current pool.
pub(crate) fn product([m, n, k]: [usize; 3], a: Matrix<'_>, b: Matrix<'_>, y: &mut [f32], threads: usize) {
    let last = |of: Matrix<'_>, rows: usize, columns: usize| (columns - 1) * of.steps[0] + (rows - 1) * of.steps[1];
    assert!(y.len() == m * n && last(a, m, k) < a.numbers.len() && last(b, k, n) < b.numbers.len());
    let parallelism = if threads > 1 { Parallelism::Rayon(threads) } else { Parallelism::None };
    let [[a_column, a_row], [b_column, b_row]] = [a, b].map(|of| of.steps.map(|step| step as isize));
    let (a, b) = (a.numbers.as_ptr(), b.numbers.as_ptr());
    // SAFETY: the matrices have these sizes and steps, and `y` is borrowed for writing.
    unsafe {
        gemm(
            m,
            n,
            k,
            y.as_mut_ptr(),
            1,
            n as isize,
            false,
            a,
            a_column,
            a_row,
            b,
            b_column,
            b_row,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_one_and_the_rate_is_a_number() {
        let mut c = vec![1.0; SIZE * SIZE];
        square(&vec![0.5; SIZE * SIZE], &vec![0.25; SIZE * SIZE], &mut c);
        assert_eq!(c[SIZE + 1], 64.0);
        assert!(burst(1) > 0.0);
    }
}
