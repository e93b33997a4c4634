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
    product(&a, &b, &mut c);
    barrier.wait();
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < BURST {
        product(&a, &b, std::hint::black_box(&mut c));
        runs += 1;
    }
    let flop = 2.0 * (SIZE * SIZE * SIZE) as f64 * f64::from(runs);
    flop * 1e-9 / start.elapsed().as_secs_f64()
}

/// `c = a b`, all of them square and laid row by row.
fn product(a: &[f32], b: &[f32], c: &mut [f32]) {
    let row = SIZE as isize;
    // SAFETY: the three slices hold SIZE rows of SIZE numbers, and `c` is borrowed for writing.
    unsafe {
        gemm(
            SIZE,
            SIZE,
            SIZE,
            c.as_mut_ptr(),
            1,
            row,
            false,
            a.as_ptr(),
            1,
            row,
            b.as_ptr(),
            1,
            row,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_one_and_the_rate_is_a_number() {
        let mut c = vec![1.0; SIZE * SIZE];
        product(&vec![0.5; SIZE * SIZE], &vec![0.25; SIZE * SIZE], &mut c);
        assert_eq!(c[SIZE + 1], 64.0);
        assert!(burst(1) > 0.0);
    }
}
