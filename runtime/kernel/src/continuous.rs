//! Continuous recursion (CRvNN): soft merging of neighbours, by existences of positions.
//!
//! Every position of a row has an existence `e` in [0, 1]. A neighbour is a mean over the nearest existing positions: going
//! away from position i, position j gets the weight `min(e_j, rest)`, where `rest` is 1 less the existence in between, until
//! `rest` is 0. One step of a model is
//!
//! ```text
//! l = neighbours(left, h), r = neighbours(right, h), ll = neighbours(left, l), rr = neighbours(right, r)
//! s = scorer([ll; l; h; r; rr])                 ordinary ops, as is the cell
//! c = merge_probability(s, e)                   the probability that i is merged into its right neighbour
//! u = neighbours(left, c)
//! h' = h + u (cell(l, h) - h), e' = e (1 - c)
//! ```
//!
//! All but the neighbours are equations of the library.
//!
//! Source: Ray Chowdhury and Caragea 2021 (CRvNN), arXiv:2106.06038.

use super::Real;
use super::parallel::{DisjointSlice, each_row, lane_dot, vectorised};
pub use rtc_compiler::ir::attribute::Side;

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
