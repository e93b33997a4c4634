//! The end of a search: roots weighed by the softmax of their scores.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

use super::search::Search;
use super::soft::{BlendTerm, TermRole};

/// The roots of a row, which a [`super::nodes::blend`] makes its mean.
pub fn weighed(search: &Search, row: usize) -> impl Iterator<Item = BlendTerm> {
    let scores = search.scores(row);
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp = move |score: &f64| (score - largest).exp();
    let sum: f64 = scores.iter().map(exp).sum();
    let term = move |beam| BlendTerm {
        node: search.root(row, beam),
        share: exp(&scores[beam]) / sum,
        beam: 0,
        source: TermRole::Parent,
    };
    (0..search.live(row)).map(term)
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
pub fn softmax_grad(weights: &[f64], gradient: &mut [f64]) {
    let mean: f64 = weights.iter().zip(&*gradient).map(|(w, g)| w * g).sum();
    gradient.iter_mut().zip(weights).for_each(|(g, w)| *g = w * (*g - mean));
}
