//! The exact distribution of expression lengths, and trees of the generator conditioned on a length in a window.
//!
//! The splits of long expressions keep only trees whose length lies in a window; of 900 to 1000 tokens that is one tree
//! in some ten thousand. Instead of drawing and rejecting, this module computes the probability of every length at
//! every depth (a convolution per argument), draws the length from that law restricted to the window, and then draws
//! the tree top-down given its length: the number of arguments and how the tokens are shared out between them, each
//! with its conditional probability. By the product rule the result has exactly the law of generate-and-reject.

use super::generate::{ExpressionBounds, OPERATOR_CHANCE, TokenWriter};
use crate::pool::ExampleShare;
use rtc_base::rng::Draws;

/// Probabilities of lengths up to a largest one.
pub(super) struct LengthLaw {
    shape: ExpressionBounds,
    /// `forests[d][k][n]`: probability that k subtrees with roots at depth d have n tokens together.
    forests: Vec<Vec<Vec<f64>>>,
}

impl LengthLaw {
    /// The law of the generator `shape` for all lengths up to `longest`.
    pub(super) fn new(shape: ExpressionBounds, longest: usize) -> Self {
        let mut forests = vec![Vec::new(); shape.depth + 1];
        let mut node = vec![0.0, 1.0];
        for depth in (1..=shape.depth).rev() {
            if depth < shape.depth {
                node = parent(&forests[depth + 1], shape, longest);
            }
            // Nothing stands beside the root.
            let most = if depth == 1 { 1 } else { shape.arguments };
            let mut powers = vec![vec![1.0]];
            for k in 0..most {
                powers.push(convolve(&powers[k], &node, longest));
            }
            forests[depth] = powers;
        }
        Self { shape, forests }
    }

    /// Probability that the generator gives an expression of `length` tokens.
    pub(super) fn chance(&self, length: usize) -> f64 {
        self.forest(1, 1, length)
    }

    fn forest(&self, depth: usize, trees: usize, length: usize) -> f64 {
        self.forests[depth][trees].get(length).copied().unwrap_or(0.0)
    }

    /// Draws an expression whose length lies in `window`. At least one length of it must be possible.
    ///
    /// Nothing is given, as soon as that is seen, if the start of the expression lies outside of `share`.
    pub(super) fn draw(
        &self,
        window: std::ops::RangeInclusive<usize>,
        share: ExampleShare,
        draws: &mut Draws,
        writer: &mut TokenWriter,
    ) -> Option<u32> {
        let start = *window.start();
        let offset = pick(draws, window.map(|length| self.chance(length)));
        self.node((1, start + offset), share, draws, writer)
    }

    /// Writes a tree with the given depth of its root and number of tokens, and gives its value.
    fn node(
        &self,
        (depth, length): (usize, usize),
        share: ExampleShare,
        draws: &mut Draws,
        writer: &mut TokenWriter,
    ) -> Option<u32> {
        if length == 1 {
            let digit = writer.digit(draws);
            return writer.starts_within(share).then_some(digit);
        }
        // Two tokens are the operator and its bracket.
        let mut left = length - 2;
        let count = 2 + pick(draws, (2..=self.shape.arguments).map(|k| self.forest(depth + 1, k, left)));
        let operator = writer.open(draws);
        let mut values = Vec::with_capacity(count);
        for later in (0..count).rev() {
            let first = |n: usize| self.forest(depth + 1, 1, n) * self.forest(depth + 1, later, left - n);
            let tokens = 1 + pick(draws, (1..=left - later).map(first));
            values.push(self.node((depth + 1, tokens), share, draws, writer)?);
            left -= tokens;
        }
        Some(writer.close(operator, &values))
    }
}

/// The law of a node whose children follow `children`: a digit, or an operator with 2 to A arguments.
fn parent(children: &[Vec<f64>], shape: ExpressionBounds, longest: usize) -> Vec<f64> {
    let each = OPERATOR_CHANCE / (shape.arguments - 1) as f64;
    let longest_child = children.iter().map(Vec::len).max().unwrap_or(0);
    let mut node = vec![0.0; (longest_child + 2).min(longest + 1)];
    node[1] = 1.0 - OPERATOR_CHANCE;
    for forest in &children[2..] {
        for (length, chance) in node.iter_mut().skip(2).zip(forest) {
            *length += each * chance;
        }
    }
    node
}

/// The law of the sum of two independent lengths, cut off after `longest`.
fn convolve(a: &[f64], b: &[f64], longest: usize) -> Vec<f64> {
    let mut sum = vec![0.0; (a.len() + b.len() - 1).min(longest + 1)];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (total, y) in sum.iter_mut().skip(i).zip(b) {
            *total += x * y;
        }
    }
    sum
}

/// Draws an index with probability proportional to its weight. Some weight must be positive.
fn pick(draws: &mut Draws, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let total: f64 = weights.clone().sum();
    let mut left = draws.uniform() * total;
    let mut last = 0;
    for (index, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        last = index;
        if left < weight {
            break;
        }
        left -= weight;
    }
    last
}
