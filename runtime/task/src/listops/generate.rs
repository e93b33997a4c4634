//! The ListOps generator: a random tree, written as tokens, with its value.

use super::{CLOSE, MAX, MED, MIN, OPERATORS};
use crate::fingerprint::place;
use crate::pool::{ExampleShare, within};
use rtc_base::rng::Draws;

/// Probability that a node above the depth limit is an operator.
pub(super) const OPERATOR_CHANCE: f64 = 0.25;

/// So many tokens at the start of a long expression say which share it belongs to.
pub(super) const PREFIX: usize = 32;

/// The two bounds of the generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpressionBounds {
    /// Depth at which only digits occur; the root has depth 1, so operators nest at most `depth - 1` times.
    pub(super) depth: usize,
    /// Largest number of arguments; the number is uniform from 2 on.
    pub(super) arguments: usize,
}

/// The tokens of an expression being written.
#[derive(Default)]
pub(super) struct TokenWriter {
    pub(super) tokens: Vec<u32>,
    /// Whether the start of the expression has been looked at by [`TokenWriter::starts_within`].
    looked: bool,
}

impl TokenWriter {
    /// Whether the first [`PREFIX`] tokens have their place in the share; true while there are fewer.
    pub(super) fn starts_within(&mut self, share: ExampleShare) -> bool {
        if self.looked || self.tokens.len() < PREFIX {
            return true;
        }
        self.looked = true;
        within(share, place(&self.tokens[..PREFIX]))
    }

    /// Writes a uniform digit.
    pub(super) fn digit(&mut self, draws: &mut Draws) -> u32 {
        let digit = draws.below(10) as u32;
        self.tokens.push(digit);
        digit
    }

    /// Writes a uniform operator.
    pub(super) fn open(&mut self, draws: &mut Draws) -> u32 {
        let operator = OPERATORS[draws.below(OPERATORS.len() as u64) as usize];
        self.tokens.push(operator);
        operator
    }

    /// Writes the closing bracket and gives the value of `operator` over its arguments.
    pub(super) fn close(&mut self, operator: u32, values: &[u32]) -> u32 {
        self.tokens.push(CLOSE);
        match operator {
            MIN => values.iter().copied().fold(9, u32::min),
            MAX => values.iter().copied().fold(0, u32::max),
            MED => median(values),
            _ => values.iter().fold(0, |sum, value| (sum + value) % 10),
        }
    }
}

/// Twice the median is the sum of the two values with at most half of all below and at most half above them.
fn median(values: &[u32]) -> u32 {
    let rank = |rank: usize| (0..10).find(|v| values.iter().filter(|x| *x <= v).count() > rank).unwrap_or(9);
    (rank((values.len() - 1) / 2) + rank(values.len() / 2)) / 2
}

/// Draws a tree and gives its value, or nothing as soon as it has more than `longest` tokens.
///
/// Giving up early does not touch the law of the trees that fit: a tree is never drawn again from the same key.
pub(super) fn draw(
    shape: ExpressionBounds,
    longest: usize,
    draws: &mut Draws,
    writer: &mut TokenWriter,
) -> Option<u32> {
    node(shape, 1, longest, draws, writer)
}

fn node(
    shape: ExpressionBounds,
    depth: usize,
    longest: usize,
    draws: &mut Draws,
    writer: &mut TokenWriter,
) -> Option<u32> {
    if depth == shape.depth || draws.uniform() >= OPERATOR_CHANCE {
        return (writer.tokens.len() < longest).then(|| writer.digit(draws));
    }
    let count = 2 + draws.below(shape.arguments as u64 - 1) as usize;
    let operator = writer.open(draws);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(node(shape, depth + 1, longest, draws, writer)?);
    }
    (writer.tokens.len() < longest).then(|| writer.close(operator, &values))
}
