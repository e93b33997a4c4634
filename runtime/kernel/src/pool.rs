//! Pooling over a ragged axis: row r has positions `offsets[r]..offsets[r + 1]`, each `d` wide.
//!
//! An empty row pools to 0. Sums run in the order of the positions.
//!
//! Source: rtc.

pub use rtc_compiler::ir::attribute::{At, Side};

use super::Real;
use super::parallel::{DisjointSlice, add_to, each_row, vectorised};

/// `y[rows, d]` = the mean over the positions of each row of `x[positions, d]`.
pub fn mean<T: Real>(x: &[T], offsets: &[usize], d: usize, y: &mut [T]) {
    scaled_sum(x, offsets, d, |count| 1.0 / count.max(1) as f64, y);
}

/// `y[rows, d]` = the sum over the positions of each row of `x[positions, d]`.
pub fn sum<T: Real>(x: &[T], offsets: &[usize], d: usize, y: &mut [T]) {
    scaled_sum(x, offsets, d, |_| 1.0, y);
}

/// Sums over the positions of each row times a factor that depends on their number.
fn scaled_sum<T: Real>(x: &[T], offsets: &[usize], d: usize, factor: impl Fn(usize) -> f64 + Sync, y: &mut [T]) {
    debug_assert_eq!(y.len(), (offsets.len() - 1) * d);
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |row, positions| {
        // SAFETY: every row has a result of its own.
        let y = unsafe { out.part(row * d..(row + 1) * d) };
        let factor = T::from_f64(factor(positions.len()));
        y.fill(T::ZERO);
        vectorised!({
            for x in x[positions.start * d..positions.end * d].chunks_exact(d) {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y += x);
            }
            y.iter_mut().for_each(|y| *y *= factor);
        });
    });
}

/// `y[t] = x[row] / length` at every position: the gradient of [`mean`].
pub fn share_rows<T: Real>(x: &[T], offsets: &[usize], d: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), (offsets.len() - 1) * d);
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |row, positions| {
        let share = T::from_f64(1.0 / positions.len().max(1) as f64);
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(positions.start * d..positions.end * d) };
        let x = &x[row * d..(row + 1) * d];
        vectorised!({
            for y in y.chunks_exact_mut(d) {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = share * x;
                }
            }
        });
    });
}

/// `y[t] = x[row]` at every position: the gradient of [`sum`].
pub fn broadcast_rows<T: Real>(x: &[T], offsets: &[usize], d: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), (offsets.len() - 1) * d);
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |row, positions| {
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(positions.start * d..positions.end * d) };
        y.chunks_exact_mut(d).for_each(|y| y.copy_from_slice(&x[row * d..(row + 1) * d]));
    });
}

/// `y[t]` = the sum of the row's positions up to and including t, from the first one on (`Side::Left`) or from the last one back.
pub fn running_sum<T: Real>(x: &[T], offsets: &[usize], d: usize, side: Side, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len());
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |_, positions| {
        let range = positions.start * d..positions.end * d;
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(range.clone()) };
        T::with_scratch(d, |sum| {
            sum.fill(T::ZERO);
            let positions = x[range].chunks_exact(d).zip(y.chunks_exact_mut(d));
            match side {
                Side::Left => sum_up(positions, sum),
                Side::Right => sum_up(positions.rev(), sum),
            }
        });
    });
}

/// [`running_sum`] from the left of the positions behind those whose sum is `sum[d]`, which becomes that of all.
pub fn running_sum_behind<T: Real>(x: &[T], sum: &mut [T], y: &mut [T]) {
    sum_up(x.chunks_exact(sum.len()).zip(y.chunks_exact_mut(sum.len())), sum);
}

/// Adds one position after the other to `sum`, and writes what it is by then beside it.
fn sum_up<'a, T: Real>(positions: impl Iterator<Item = (&'a [T], &'a mut [T])>, sum: &mut [T]) {
    for (x, y) in positions {
        vectorised!(for ((y, &x), sum) in y.iter_mut().zip(x).zip(&mut *sum) {
            *sum += x;
            *y = *sum;
        });
    }
}

/// `y[t]` = the position `lag` before t, or behind it; 0 where the row has none.
pub fn shift<T: Real>(x: &[T], offsets: &[usize], d: usize, side: Side, lag: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len());
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |_, positions| {
        let range = positions.start * d..positions.end * d;
        let x = &x[range.clone()];
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(range) };
        let by = lag.saturating_mul(d).min(x.len());
        let kept = x.len() - by;
        match side {
            Side::Left => {
                y[..by].fill(T::ZERO);
                y[by..].copy_from_slice(&x[..kept]);
            }
            Side::Right => {
                y[..kept].copy_from_slice(&x[by..]);
                y[kept..].fill(T::ZERO);
            }
        }
    });
}

/// `y[rows, d]` = the largest value over the positions; `position[rows, d]` = where in its row it first stands
/// (`u32::MAX` in an empty row). A NaN wins.
pub fn max_pool<T: Real>(x: &[T], offsets: &[usize], d: usize, y: &mut [T], position: &mut [u32]) {
    debug_assert!(y.len() == (offsets.len() - 1) * d && position.len() == y.len());
    let (out, place) = (DisjointSlice::new(y), DisjointSlice::new(position));
    each_row(offsets, d, |row, positions| {
        // SAFETY: every row has results of its own.
        let (y, place) = unsafe { (out.part(row * d..(row + 1) * d), place.part(row * d..(row + 1) * d)) };
        y.fill(T::ZERO);
        place.fill(u32::MAX);
        for (t, x) in x[positions.start * d..positions.end * d].chunks_exact(d).enumerate() {
            for ((y, place), &x) in y.iter_mut().zip(place.iter_mut()).zip(x) {
                if t == 0 || x > *y || (x.is_nan() && !y.is_nan()) {
                    (*y, *place) = (x, t as u32);
                }
            }
        }
    });
}

/// `dx` gets `dy` where the maximum stood, and 0 elsewhere: the gradient of [`max_pool`].
pub fn max_pool_grad<T: Real>(dy: &[T], position: &[u32], offsets: &[usize], d: usize, dx: &mut [T]) {
    debug_assert!(dy.len() == (offsets.len() - 1) * d && position.len() == dy.len());
    dx.fill(T::ZERO);
    for (row, start) in offsets[..offsets.len() - 1].iter().enumerate() {
        for (c, (&dy, &place)) in dy[row * d..][..d].iter().zip(&position[row * d..][..d]).enumerate() {
            if place != u32::MAX {
                dx[(start + place as usize) * d + c] += dy;
            }
        }
    }
}

/// `y[rows, d]` = the position of each row that `end` names; 0 where there is none.
pub fn take_position<T: Real>(x: &[T], offsets: &[usize], d: usize, end: At, y: &mut [T]) {
    debug_assert_eq!(y.len(), (offsets.len() - 1) * d);
    for (row, y) in offsets.windows(2).zip(y.chunks_exact_mut(d)) {
        match position_of(row, end) {
            Some(position) => y.copy_from_slice(&x[position * d..(position + 1) * d]),
            None => y.fill(T::ZERO),
        }
    }
}

/// `dx` gets `dy[row]` at the taken position, and 0 elsewhere: the gradient of [`take_position`].
pub fn take_position_grad<T: Real>(dy: &[T], offsets: &[usize], d: usize, end: At, dx: &mut [T]) {
    debug_assert_eq!(dy.len(), (offsets.len() - 1) * d);
    dx.fill(T::ZERO);
    for (row, dy) in offsets.windows(2).zip(dy.chunks_exact(d)) {
        if let Some(position) = position_of(row, end) {
            add_to(&mut dx[position * d..(position + 1) * d], dy);
        }
    }
}

/// The position that stands for the row `[start, end]`, unless it is empty.
fn position_of(row: &[usize], end: At) -> Option<usize> {
    let back = match end {
        At::First => row[1] - row[0],
        At::Last => 1,
        At::BeforeLast => 2,
    };
    (row[1] > row[0] && row[1] - row[0] >= back).then(|| row[1] - back)
}
