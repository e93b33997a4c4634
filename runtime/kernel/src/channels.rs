//! Channels: side by side, cut out, placed among zeros; a factor for each; all in one number; and the features of pairs of rows.
//!
//! Source: rtc; features of pairs: Conneau et al. 2017, arXiv:1705.02364.

use rtc_compiler::ir::attribute::Reduction;

use super::Real;
use super::parallel::{lane_total, vectorised};

/// `y[., m + n]` from `a[., m]` and `b[., n]` side by side.
pub fn concat<T: Real>(a: &[T], b: &[T], m: usize, n: usize, y: &mut [T]) {
    for ((y, a), b) in y.chunks_exact_mut(m + n).zip(a.chunks_exact(m)).zip(b.chunks_exact(n)) {
        y[..m].copy_from_slice(a);
        y[m..].copy_from_slice(b);
    }
}

/// `y = gain x + bias`, with one number of each per channel.
pub fn affine<T: Real>(x: &[T], gain: &[T], bias: Option<&[T]>, y: &mut [T]) {
    let d = gain.len();
    vectorised!({
        for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
            match bias {
                Some(bias) => {
                    for (((y, &x), &gain), &bias) in y.iter_mut().zip(x).zip(gain).zip(bias) {
                        *y = gain.mul_add(x, bias);
                    }
                }
                None => y.iter_mut().zip(x).zip(gain).for_each(|((y, &x), &gain)| *y = gain * x),
            }
        }
    });
}

/// `y[., width]`: the channels of `x[., d]` from `start` on.
pub fn slice<T: Real>(x: &[T], d: usize, start: usize, width: usize, y: &mut [T]) {
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(d)) {
        y.copy_from_slice(&x[start..start + width]);
    }
}

/// `y[., width]`: zeros with the channels of `x[., d]` at `start`; the gradient of `slice`.
pub fn pad<T: Real>(x: &[T], d: usize, start: usize, width: usize, y: &mut [T]) {
    y.fill(T::ZERO);
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(d)) {
        y[start..start + d].copy_from_slice(x);
    }
}

/// `y` has for every unit the sum, the mean or the largest of the channels of `x[., d]`; a NaN is the largest.
pub fn reduce<T: Real>(x: &[T], d: usize, by: Reduction, y: &mut [T]) {
    let share = T::from_f64(1.0 / d as f64);
    vectorised!({
        for (y, x) in y.iter_mut().zip(x.chunks_exact(d)) {
            *y = match by {
                Reduction::Sum => lane_total(x),
                Reduction::Mean => lane_total(x) * share,
                Reduction::Max => x[largest(x)],
            };
        }
    });
}

/// `dx` has `dy` in the first channel that holds the largest number, and 0 in all others.
pub fn reduce_max_grad<T: Real>(dy: &[T], x: &[T], d: usize, dx: &mut [T]) {
    dx.fill(T::ZERO);
    for ((dx, x), &dy) in dx.chunks_exact_mut(d).zip(x.chunks_exact(d)).zip(dy) {
        dx[largest(x)] = dy;
    }
}

/// Where the largest number first stands.
fn largest<T: Real>(x: &[T]) -> usize {
    let mut place = 0;
    for (n, &v) in x.iter().enumerate().skip(1) {
        if v > x[place] || (v.is_nan() && !x[place].is_nan()) {
            place = n;
        }
    }
    place
}

/// `y[., d]`: the number of every unit in all channels.
pub fn broadcast<T: Real>(x: &[T], d: usize, y: &mut [T]) {
    y.chunks_exact_mut(d).zip(x).for_each(|(y, &x)| y.fill(x));
}

/// `y[pairs, 4 d] = [u; v; u v; |u - v|]`, with the rows u in the first half of `x[2 pairs, d]` and v in the second.
pub fn pair<T: Real>(x: &[T], d: usize, y: &mut [T]) {
    let (u, v) = x.split_at(x.len() / 2);
    for ((y, u), v) in y.chunks_exact_mut(4 * d).zip(u.chunks_exact(d)).zip(v.chunks_exact(d)) {
        y[..d].copy_from_slice(u);
        y[d..2 * d].copy_from_slice(v);
        for c in 0..d {
            y[2 * d + c] = u[c] * v[c];
            y[3 * d + c] = (u[c] - v[c]).abs();
        }
    }
}

/// The gradient of [`pair`]; `|u - v|` has slope 0 where both are equal.
pub fn pair_grad<T: Real>(x: &[T], dy: &[T], d: usize, dx: &mut [T]) {
    let half = x.len() / 2;
    let (u, v) = x.split_at(half);
    let (du, dv) = dx.split_at_mut(half);
    for (n, dy) in dy.chunks_exact(4 * d).enumerate() {
        for c in 0..d {
            let at = n * d + c;
            let (product, distance) = (dy[2 * d + c], dy[3 * d + c]);
            let slope = match u[at].partial_cmp(&v[at]) {
                Some(std::cmp::Ordering::Greater) => distance,
                Some(std::cmp::Ordering::Less) => -distance,
                _ => T::ZERO,
            };
            du[at] = dy[c] + product * v[at] + slope;
            dv[at] = dy[d + c] + product * u[at] - slope;
        }
    }
}
