//! Softmax over the channels of units, on the calling thread, and over the positions of rows; and the gradients.
//!
//! Source: rtc.

use super::Real;
use super::parallel::{DisjointSlice, LANES, each_row, fold_lanes, lane_dot, lane_total, vectorised};

/// What the exponential of a number counts for, in simple operations.
const EXPONENTIAL: usize = 4;

/// Softmax of every unit of `x[., d]`.
pub fn softmax<T: Real>(x: &[T], d: usize, y: &mut [T]) {
    vectorised!({
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact_mut(d)) {
            of_one(x, y);
        }
    });
}

/// The gradient of [`softmax`], from its result `y`.
pub fn softmax_grad<T: Real>(y: &[T], dy: &[T], d: usize, dx: &mut [T]) {
    vectorised!({
        for ((y, dy), dx) in y.chunks_exact(d).zip(dy.chunks_exact(d)).zip(dx.chunks_exact_mut(d)) {
            grad_of_one(y, dy, dx);
        }
    });
}

/// Softmax over the positions of every row, each of which has one number.
pub fn softmax_along<T: Real>(x: &[T], offsets: &[usize], y: &mut [T]) {
    let out = DisjointSlice::new(y);
    each_row(offsets, EXPONENTIAL, |_, positions| {
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(positions.clone()) };
        vectorised!(of_one(&x[positions], y));
    });
}

/// The gradient of [`softmax_along`], from its result `y`.
pub fn softmax_along_grad<T: Real>(y: &[T], dy: &[T], offsets: &[usize], dx: &mut [T]) {
    let out = DisjointSlice::new(dx);
    each_row(offsets, 1, |_, positions| {
        // SAFETY: rows are disjoint.
        let dx = unsafe { out.part(positions.clone()) };
        vectorised!(grad_of_one(&y[positions.clone()], &dy[positions], dx));
    });
}

/// Exponentials of the distances to the largest number, over their sum. A NaN makes all of them NaN.
#[inline(always)]
fn of_one<T: Real>(x: &[T], y: &mut [T]) {
    let mut lanes = [T::NEG_INFINITY; LANES];
    for x in x.chunks(LANES) {
        for (lane, &x) in lanes.iter_mut().zip(x) {
            *lane = x.or_larger(*lane);
        }
    }
    let largest = fold_lanes(
        lanes,
        #[inline(always)]
        |a, b| a.or_larger(b),
    );
    for (y, &x) in y.iter_mut().zip(x) {
        *y = (x - largest).exp_below_one();
    }
    let share = T::ONE / lane_total(y);
    for y in y {
        *y *= share;
    }
}

/// `dx = y (dy - sum(y dy))`.
#[inline(always)]
fn grad_of_one<T: Real>(y: &[T], dy: &[T], dx: &mut [T]) {
    let mean = lane_dot(y, dy);
    for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
        *dx = y * (dy - mean);
    }
}
