//! Normalisations over the last axis and their gradients, on the calling thread. A row whose squares overflow gives NaN.
//!
//! Source: Ba et al. 2016 (layer normalization), arXiv:1607.06450; Zhang and Sennrich 2019 (root mean square layer
//! normalization), arXiv:1910.07467.

use super::Real;
use super::parallel::{LANES, lane_dot, lane_sum, lane_total, sum_lanes, vectorised};

/// `y = (x - mean) / sqrt(variance + eps) * gain`, plus `bias` where there is one, for every row of `x[m, d]`, with the biased
/// variance.
pub fn layer_norm<T: Real>(x: &[T], gain: &[T], bias: Option<&[T]>, eps: f64, y: &mut [T]) {
    let d = gain.len();
    debug_assert!(x.len() == y.len() && bias.is_none_or(|bias| bias.len() == d) && x.len().is_multiple_of(d));
    vectorised!({
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact_mut(d)) {
            let (mean, scale) = statistics(x, eps);
            match bias {
                Some(bias) => {
                    for (((y, &x), &g), &b) in y.iter_mut().zip(x).zip(gain).zip(bias) {
                        *y = ((x - mean) * scale).mul_add(g, b);
                    }
                }
                None => {
                    for ((y, &x), &g) in y.iter_mut().zip(x).zip(gain) {
                        *y = (x - mean) * scale * g;
                    }
                }
            }
        }
    });
}

/// Gradients of [`layer_norm`]: overwrites `dx`, adds to `dgain` and `dbias`.
///
/// With `n` the normalised input and `g = dy gain`: `dx = (g - mean(g) - n mean(g n)) / sqrt(variance + eps)`.
pub fn layer_norm_grad<T: Real>(
    x: &[T],
    gain: &[T],
    dy: &[T],
    eps: f64,
    dx: &mut [T],
    dgain: &mut [T],
    dbias: &mut [T],
) {
    let d = gain.len();
    debug_assert!(x.len() == dy.len() && x.len() == dx.len() && dgain.len() == d && dbias.len() == d);
    debug_assert!(x.len().is_multiple_of(d));
    vectorised!({
        let rows = x.chunks_exact(d).zip(dy.chunks_exact(d));
        for ((x, dy), dx) in rows.zip(dx.chunks_exact_mut(d)) {
            row_grad(x, gain, dy, eps, dx, dgain, dbias);
        }
    });
}

/// `y = x / sqrt(mean(x^2) + eps)`, times `gain` where there is one, for every row of `x[m, d]`.
pub fn rms_norm<T: Real>(x: &[T], d: usize, gain: Option<&[T]>, eps: f64, y: &mut [T]) {
    debug_assert!(x.len() == y.len() && gain.is_none_or(|gain| gain.len() == d) && x.len().is_multiple_of(d));
    vectorised!({
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact_mut(d)) {
            let scale = rms_scale(x, eps);
            match gain {
                Some(gain) => {
                    for ((y, &x), &g) in y.iter_mut().zip(x).zip(gain) {
                        *y = x * scale * g;
                    }
                }
                None => {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = x * scale;
                    }
                }
            }
        }
    });
}

/// Gradients of [`rms_norm`]: overwrites `dx`, adds to `dgain` where there is a gain.
///
/// With `n` the normalised input and `g = dy gain`: `dx = (g - n mean(g n)) / sqrt(mean(x^2) + eps)`.
pub fn rms_norm_grad<T: Real>(
    x: &[T],
    dy: &[T],
    d: usize,
    gain: Option<&[T]>,
    eps: f64,
    dx: &mut [T],
    dgain: &mut [T],
) {
    debug_assert!(x.len() == dy.len() && x.len() == dx.len() && x.len().is_multiple_of(d));
    debug_assert!(gain.is_none_or(|gain| gain.len() == d && dgain.len() == d));
    vectorised!({
        let rows = x.chunks_exact(d).zip(dy.chunks_exact(d));
        for ((x, dy), dx) in rows.zip(dx.chunks_exact_mut(d)) {
            let scale = rms_scale(x, eps);
            let along = match gain {
                Some(gain) => through_gain(x, dy, gain, scale, dx, dgain),
                None => {
                    dx.copy_from_slice(dy);
                    lane_dot(dy, x)
                }
            };
            let share = along * scale * scale * T::from_f64(1.0 / d as f64);
            for (dx, &x) in dx.iter_mut().zip(x) {
                *dx = (*dx - x * share) * scale;
            }
        }
    });
}

/// `dx = dy gain`; adds to `dgain`, and gives the sum of `dx x`.
#[inline(always)]
fn through_gain<T: Real>(x: &[T], dy: &[T], gain: &[T], scale: T, dx: &mut [T], dgain: &mut [T]) -> T {
    let mut along = [T::ZERO; LANES];
    for (c, dx) in dx.chunks_mut(LANES).enumerate() {
        let at = c * LANES..c * LANES + dx.len();
        let (x, gain, dy, dgain) = (&x[at.clone()], &gain[at.clone()], &dy[at.clone()], &mut dgain[at]);
        for l in 0..dx.len() {
            dgain[l] = dy[l].mul_add(x[l] * scale, dgain[l]);
            dx[l] = dy[l] * gain[l];
            along[l] = dx[l].mul_add(x[l], along[l]);
        }
    }
    sum_lanes(along)
}

/// 1 / root of the mean square of one row.
#[inline(always)]
fn rms_scale<T: Real>(x: &[T], eps: f64) -> T {
    let mean = lane_dot(x, x) * T::from_f64(1.0 / x.len() as f64);
    inverse_root(mean, eps)
}

/// `1 / sqrt(square + eps)`; NaN where the square is infinite. Everything divided by that would be 0, and nobody would see that the
/// square had overflowed.
#[inline(always)]
fn inverse_root<T: Real>(square: T, eps: f64) -> T {
    T::ONE / (square + T::from_f64(eps)).sqrt() + T::ZERO * square
}

/// Mean and 1 / standard deviation of one row, in two passes.
#[inline(always)]
fn statistics<T: Real>(x: &[T], eps: f64) -> (T, T) {
    let count = T::from_f64(1.0 / x.len() as f64);
    let mean = lane_total(x) * count;
    let variance = lane_sum(
        x,
        x,
        #[inline(always)]
        |x, _| (x - mean) * (x - mean),
    ) * count;
    (mean, inverse_root(variance, eps))
}

/// One row of the gradient; adds to `dgain` and `dbias`.
#[inline(always)]
fn row_grad<T: Real>(x: &[T], gain: &[T], dy: &[T], eps: f64, dx: &mut [T], dgain: &mut [T], dbias: &mut [T]) {
    let count = T::from_f64(1.0 / x.len() as f64);
    let (mean, scale) = statistics(x, eps);
    let (mut plain, mut along) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    for (c, dx) in dx.chunks_mut(LANES).enumerate() {
        let at = c * LANES..c * LANES + dx.len();
        let (x, gain, dy) = (&x[at.clone()], &gain[at.clone()], &dy[at.clone()]);
        let (dgain, dbias) = (&mut dgain[at.clone()], &mut dbias[at]);
        for l in 0..dx.len() {
            let normal = (x[l] - mean) * scale;
            let g = dy[l] * gain[l];
            dgain[l] = dy[l].mul_add(normal, dgain[l]);
            dbias[l] += dy[l];
            dx[l] = g;
            plain[l] += g;
            along[l] = g.mul_add(normal, along[l]);
        }
    }
    let plain = sum_lanes(plain) * count;
    let along = sum_lanes(along) * count;
    for (dx, &x) in dx.iter_mut().zip(x) {
        *dx = (*dx - plain - (x - mean) * scale * along) * scale;
    }
}
