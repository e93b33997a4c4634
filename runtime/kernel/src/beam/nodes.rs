//! The node table `[nodes, d]`: rows are taken out of it, and gradients are added to it in a fixed order.
//!
//! Source: rtc.

use super::soft::Blends;
use crate::Real;
use crate::parallel::{DisjointSlice, LANES, add_to, block, each, lane_dot, vectorised};

/// Rows copied by one task.
const ROWS: usize = 256;

/// A range of a node's features, and its position in the rows beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFeatures {
    /// The first so many features of a node.
    pub width: usize,
    /// From one row to the next.
    pub stride: usize,
    /// Where in its row the first feature stands.
    pub at: usize,
}

impl NodeFeatures {
    /// Rows of the first `width` features and nothing else.
    pub fn alone(width: usize) -> Self {
        Self { width, stride: width, at: 0 }
    }

    /// The left or right half of rows `[left; right]` of the first `width` features each.
    pub fn beside(width: usize, right: bool) -> Self {
        Self { width, stride: 2 * width, at: if right { width } else { 0 } }
    }
}

/// `out[i, part]` = the first features of node `ids[i]`.
pub fn gather<T: Real>(table: &[T], d: usize, ids: &[u32], part: NodeFeatures, out: &mut [T]) {
    debug_assert!(out.len() == ids.len() * part.stride && part.width <= d && part.at + part.width <= part.stride);
    let parts = DisjointSlice::new(out);
    each(ids.len().div_ceil(ROWS), ids.len() * part.width, |i| {
        let range = block(i, ROWS, ids.len());
        // SAFETY: the blocks of rows are disjoint.
        let out = unsafe { parts.part(range.start * part.stride..range.end * part.stride) };
        for (&id, out) in ids[range].iter().zip(out.chunks_exact_mut(part.stride)) {
            out[part.at..part.at + part.width].copy_from_slice(&table[id as usize * d..][..part.width]);
        }
    });
}

/// Adds `dy[i, part]` to the first features of node `ids[i]`, in the order of `i`: the gradient of [`gather`].
///
/// Tasks own columns, so no order of threads can change a sum.
pub fn scatter_add<T: Real>(dy: &[T], part: NodeFeatures, ids: &[u32], d: usize, dtable: &mut [T]) {
    debug_assert!(dy.len() == ids.len() * part.stride && part.width <= d);
    let table = DisjointSlice::new(dtable);
    let columns = 2 * LANES;
    each(part.width.div_ceil(columns), ids.len() * part.width, |i| {
        let range = block(i, columns, part.width);
        vectorised!({
            for (&id, dy) in ids.iter().zip(dy.chunks_exact(part.stride)) {
                let start = id as usize * d;
                // SAFETY: tasks own disjoint columns.
                let sum = unsafe { table.part(start + range.start..start + range.end) };
                sum.iter_mut().zip(&dy[part.at..][range.clone()]).for_each(|(sum, &dy)| *sum += dy);
            }
        });
    });
}

/// `out[k] =` the sum of the terms of blend `k`, from first to last.
pub fn blend<T: Real>(blends: Blends, table: &[T], d: usize, out: &mut [T]) {
    debug_assert_eq!(out.len(), blends.len() * d);
    let parts = DisjointSlice::new(out);
    each(blends.len(), blends.terms().len() * d, |k| {
        // SAFETY: every blend has a row of its own.
        let out = unsafe { parts.part(k * d..(k + 1) * d) };
        out.fill(T::ZERO);
        for term in blends.of(k) {
            add_scaled(out, &table[term.node as usize * d..][..d], T::from_f64(term.share));
        }
    });
}

/// Gradient of [`blend`] for rows `dy`: adds to the table of gradients, and writes the gradient of every share.
pub fn blend_grad<T: Real>(blends: Blends, table: &[T], d: usize, dy: &[T], dtable: &mut [T], dshares: &mut [f64]) {
    debug_assert!(dy.len() == blends.len() * d && dshares.len() == blends.terms().len());
    let shares = DisjointSlice::new(dshares);
    each(blends.len(), blends.terms().len() * d, |k| {
        let range = blends.range(k);
        // SAFETY: the terms of the blends are disjoint.
        let shares = unsafe { shares.part(range.clone()) };
        for (share, term) in shares.iter_mut().zip(&blends.terms()[range]) {
            *share = dot(&dy[k * d..][..d], &table[term.node as usize * d..][..d]);
        }
    });
    for (k, dy) in dy.chunks_exact(d).enumerate() {
        for term in blends.of(k) {
            add_scaled(&mut dtable[term.node as usize * d..][..d], dy, T::from_f64(term.share));
        }
    }
}

/// `out += c x`.
pub(super) fn add_scaled<T: Real>(out: &mut [T], x: &[T], c: T) {
    if c == T::ONE {
        return add_to(out, x);
    }
    vectorised!(out.iter_mut().zip(x).for_each(|(out, &x)| *out = c.mul_add(x, *out)));
}

/// The inner product.
pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    vectorised!(lane_dot(a, b)).to_f64()
}
