//! Continuous recursion (CRvNN): soft merging of neighbours, by existences of positions.
//!
//! Every position of a row has an existence `e` in [0, 1]. A neighbour is a mean over the nearest existing positions: going
//! away from position i, position j gets the weight `min(e_j, rest)`, where `rest` is 1 less the existence in between, until
//! `rest` is 0. One step of a model is
//!
//! ```text
//! l = neighbours(left, h), r = neighbours(right, h), ll = neighbours(left, l), rr = neighbours(right, r)
//! s = scorer([ll; l; h; r; rr])                 ordinary ops, as is the cell
//! c = merge_probability(s)                      the probability that i is merged into its right neighbour
//! u = neighbours(left, c)
//! h' = h + u (cell(l, h) - h), e' = e (1 - c)
//! a row continues while is_unmerged(e')
//! ```
//!
//! Rows are independent: the maximum of the scores is taken per row.
//!
//! Source: Ray Chowdhury and Caragea 2021 (CRvNN), arXiv:2106.06038.

use super::Real;
use super::parallel::{DisjointSlice, add_to, each_row, lane_dot, vectorised};
use super::truth;
pub use rtc_compiler::ir::attribute::Side;

/// Added to the denominator of [`merge_probability`].
const TINY: f64 = 4e-8;

/// Positions whose existence is above this count.
const EXISTS: f64 = 0.1;

/// The share of one position in the neighbour of another one.
#[derive(Clone, Copy)]
struct NeighbourShare<T> {
    position: usize,
    weight: T,
    /// Whether the weight is what was left, and not the existence of the position.
    rest: bool,
}

/// The shares of position `at` of a row, from the nearest on. Existence as a whole, as is the rest of 1 beside it, is no rest.
fn shares<T: Real>(side: Side, e: &[T], at: usize) -> impl Iterator<Item = NeighbourShare<T>> + '_ {
    let count = if side == Side::Left { at } else { e.len() - 1 - at };
    let mut left = T::ONE;
    (1..=count).map_while(move |away| {
        let position = if side == Side::Left { at - away } else { at + away };
        if left <= T::ZERO {
            return None;
        }
        let rest = left < e[position];
        let weight = if rest { left } else { e[position] };
        left -= e[position];
        Some(NeighbourShare { position, weight, rest })
    })
}

/// `y[positions, d]` = the neighbours on one side among `x[positions, d]`, by the existence `e[positions]`.
pub fn neighbours<T: Real>(side: Side, e: &[T], offsets: &[usize], x: &[T], d: usize, y: &mut [T]) {
    debug_assert!(x.len() == e.len() * d && y.len() == x.len());
    let out = DisjointSlice::new(y);
    each_row(offsets, d, |_, row| {
        // SAFETY: rows are disjoint.
        let y = unsafe { out.part(row.start * d..row.end * d) };
        one_row(side, &e[row.clone()], &x[row.start * d..row.end * d], d, y);
    });
}

fn one_row<T: Real>(side: Side, e: &[T], x: &[T], d: usize, y: &mut [T]) {
    y.fill(T::ZERO);
    for (at, y) in y.chunks_exact_mut(d).enumerate() {
        for share in shares(side, e, at).filter(|share| share.weight != T::ZERO) {
            let x = &x[share.position * d..][..d];
            vectorised!(y.iter_mut().zip(x).for_each(|(y, &x)| *y = share.weight.mul_add(x, *y)));
        }
    }
}

/// Gradients of [`neighbours`]: overwrites `dx` and `de`.
///
/// Where existence and rest are equal, the existence has the slope.
pub fn neighbours_grad<T: Real>(
    side: Side,
    e: &[T],
    offsets: &[usize],
    x: &[T],
    d: usize,
    dy: &[T],
    dx: &mut [T],
    de: &mut [T],
) {
    debug_assert!(dy.len() == x.len() && dx.len() == x.len() && de.len() == e.len());
    let (all_dx, all_de) = (DisjointSlice::new(dx), DisjointSlice::new(de));
    each_row(offsets, 2 * d, |_, row| {
        let wide = row.start * d..row.end * d;
        // SAFETY: rows are disjoint.
        let (dx, de) = unsafe { (all_dx.part(wide.clone()), all_de.part(row.clone())) };
        one_row_grad(side, &e[row], &x[wide.clone()], d, &dy[wide], dx, de);
    });
}

fn one_row_grad<T: Real>(side: Side, e: &[T], x: &[T], d: usize, dy: &[T], dx: &mut [T], de: &mut [T]) {
    dx.fill(T::ZERO);
    de.fill(T::ZERO);
    for (at, dy) in dy.chunks_exact(d).enumerate() {
        for share in shares(side, e, at) {
            let wide = share.position * d..(share.position + 1) * d;
            let slope = vectorised!({
                dx[wide.clone()].iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = share.weight.mul_add(dy, *dx));
                lane_dot(dy, &x[wide])
            });
            if share.rest {
                // All that exists in between takes from the rest.
                let between = if share.position < at { share.position + 1..at } else { at + 1..share.position };
                de[between].iter_mut().for_each(|de| *de -= slope);
            } else {
                de[share.position] += slope;
            }
        }
    }
}

/// `c[positions]`: the probability that a position is merged into its right neighbour, from scores `s`.
///
/// `c_i = E_i / (E_i + Z + L E + R E + 4e-8)` with `E = exp(s - M)`, `Z = exp(-M)`, M the largest of the row's scores and 0, and the
/// neighbours of E on both sides. START, the last token and END stay: there, `E` and `c` are 0.
pub fn merge_probability<T: Real>(s: &[T], e: &[T], offsets: &[usize], c: &mut [T]) {
    debug_assert!(s.len() == e.len() && c.len() == e.len());
    let out = DisjointSlice::new(c);
    each_row(offsets, 16, |_, row| {
        let len = row.len();
        // SAFETY: rows are disjoint.
        let c = unsafe { out.part(row.clone()) };
        T::with_scratch(2 * len, |memory| {
            let (force, total) = memory.split_at_mut(len);
            forces(&s[row.clone()], &e[row.clone()], force, total, c);
            for ((c, &force), &total) in c.iter_mut().zip(&*force).zip(&*total) {
                *c = force / total;
            }
        });
    });
}

/// `force = E` and `total` = the denominator of one row; `memory` holds as many numbers.
fn forces<T: Real>(s: &[T], e: &[T], force: &mut [T], total: &mut [T], memory: &mut [T]) {
    let largest = s.iter().fold(T::ZERO, |largest, &s| s.or_larger(largest));
    for (at, (force, &s)) in force.iter_mut().zip(s).enumerate() {
        let inner = at > 0 && at + 2 < e.len();
        *force = if inner { (s - largest).exp_below_one() } else { T::ZERO };
    }
    let alone = (-largest).exp_below_one() + T::from_f64(TINY);
    total.iter_mut().zip(&*force).for_each(|(total, &force)| *total = force + alone);
    for side in [Side::Left, Side::Right] {
        one_row(side, e, force, 1, memory);
        add_to(total, memory);
    }
}

/// Gradients of [`merge_probability`]: overwrites `ds` and `de`.
pub fn merge_probability_grad<T: Real>(s: &[T], e: &[T], offsets: &[usize], dc: &[T], ds: &mut [T], de: &mut [T]) {
    debug_assert!(dc.len() == s.len() && ds.len() == s.len() && de.len() == e.len());
    let (all_ds, all_de) = (DisjointSlice::new(ds), DisjointSlice::new(de));
    each_row(offsets, 32, |_, row| {
        let len = row.len();
        if len == 0 {
            return;
        }
        // SAFETY: rows are disjoint.
        let (ds, de) = unsafe { (all_ds.part(row.clone()), all_de.part(row.clone())) };
        T::with_scratch(5 * len, |memory| {
            let (force, memory) = memory.split_at_mut(len);
            let (total, memory) = memory.split_at_mut(len);
            let (dtotal, memory) = memory.split_at_mut(len);
            let (dforce, more) = memory.split_at_mut(len);
            let e = &e[row.clone()];
            forces(&s[row.clone()], e, force, total, dforce);
            // All but the tiny number goes with the largest score, which may be 0 and constant.
            let mut dlargest = T::ZERO;
            for (i, &dc) in dc[row.clone()].iter().enumerate() {
                let share = dc * force[i] / (total[i] * total[i]);
                dtotal[i] = -share;
                ds[i] = dc / total[i] - share;
                dlargest -= share * T::from_f64(TINY);
            }
            de.fill(T::ZERO);
            for side in [Side::Left, Side::Right] {
                one_row_grad(side, e, force, 1, dtotal, dforce, more);
                add_to(ds, dforce);
                add_to(de, more);
            }
            ds.iter_mut().zip(&*force).for_each(|(ds, &force)| *ds *= force);
            let s = &s[row.clone()];
            let highest = (0..len).fold(0, |highest, i| if s[i] > s[highest] { i } else { highest });
            if s[highest] > T::ZERO {
                ds[highest] += dlargest;
            }
        });
    });
}

/// Whether a row continues: START, END and more than one other position exist.
pub fn is_unmerged<T: Real>(e: &[T]) -> u8 {
    if !e.iter().all(|e| e.is_finite()) {
        return truth::UNKNOWN;
    }
    u8::from(e.iter().filter(|&&e| e > T::from_f64(EXISTS)).count() > 3)
}
