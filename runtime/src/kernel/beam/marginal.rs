//! The end of a search: roots weighed by the softmax of their scores.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

use super::nodes::{add_scaled, dot};
use crate::kernel::Real;

/// The beams that are left of every row: row `r` has those of `offsets[r]..offsets[r + 1]`.
#[derive(Clone, Copy, Debug)]
pub struct Roots<'a> {
    /// Their nodes.
    pub nodes: &'a [u32],
    /// Their accumulated scores.
    pub scores: &'a [f64],
    /// Where rows begin, and the end.
    pub offsets: &'a [usize],
}

/// `out[rows, d] =` the sum over a row's beams of `weights` times root; `weights = softmax(scores)`, one per beam.
pub fn marginalise<T: Real>(roots: Roots, table: &[T], d: usize, weights: &mut [f64], out: &mut [T]) {
    debug_assert!(weights.len() == roots.nodes.len() && out.len() == (roots.offsets.len() - 1) * d);
    for (span, out) in roots.offsets.windows(2).zip(out.chunks_exact_mut(d)) {
        let beams = span[0]..span[1];
        softmax(&roots.scores[beams.clone()], &mut weights[beams.clone()]);
        out.fill(T::ZERO);
        for (&root, &weight) in roots.nodes[beams.clone()].iter().zip(&weights[beams]) {
            add_scaled(out, &table[root as usize * d..][..d], T::from_f64(weight));
        }
    }
}

/// Gradients of [`marginalise`]: adds to the table of gradients, overwrites `dscores` (one per beam).
pub fn marginalise_grad<T: Real>(
    roots: Roots,
    table: &[T],
    d: usize,
    weights: &[f64],
    dout: &[T],
    dtable: &mut [T],
    dscores: &mut [f64],
) {
    debug_assert!(dscores.len() == roots.nodes.len() && dout.len() == (roots.offsets.len() - 1) * d);
    for (span, dout) in roots.offsets.windows(2).zip(dout.chunks_exact(d)) {
        let beams = span[0]..span[1];
        let dscores = &mut dscores[beams.clone()];
        for ((&root, &weight), dscore) in
            roots.nodes[beams.clone()].iter().zip(&weights[beams.clone()]).zip(&mut *dscores)
        {
            let at = root as usize * d;
            *dscore = dot(dout, &table[at..at + d]);
            add_scaled(&mut dtable[at..at + d], dout, T::from_f64(weight));
        }
        softmax_grad(&weights[beams], dscores);
    }
}

/// `out = softmax(x)`.
pub(crate) fn softmax(x: &[f64], out: &mut [f64]) {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - largest).exp();
        sum += *out;
    }
    out.iter_mut().for_each(|out| *out /= sum);
}

/// The gradient of the logits in place of that of the `weights`, which are their softmax.
pub(crate) fn softmax_grad(weights: &[f64], gradient: &mut [f64]) {
    let mean: f64 = weights.iter().zip(&*gradient).map(|(w, g)| w * g).sum();
    gradient.iter_mut().zip(weights).for_each(|(g, w)| *g = w * (*g - mean));
}
