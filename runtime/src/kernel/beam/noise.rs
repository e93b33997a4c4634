//! Gumbel noise of a search: drawn by key, given, or absent.

use crate::rng::Key;

/// What is added to scores before the best are chosen. The scores that are kept are always without it.
#[derive(Clone, Copy)]
pub enum Noise<'a> {
    /// Nothing: evaluation.
    None,
    /// Standard Gumbel noise from the key of each row; a key belongs to row and level.
    Gumbel(&'a [Key]),
    /// What the function says.
    Given(&'a (dyn Fn(Site) -> f64 + Sync)),
}

/// A place where noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The row of the search.
    pub row: usize,
    /// How many merges the row has behind it.
    pub step: usize,
    /// What is disturbed.
    pub draw: Draw,
}

/// What noise is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// The score of a pair of one beam.
    Pair {
        /// The beam of the row.
        beam: usize,
        /// The position of the left node in the beam.
        pair: usize,
    },
    /// The accumulated score of candidate `.0`, counted beam by beam, the best pair of a beam first.
    Candidate(usize),
}

impl Noise<'_> {
    /// Whether there is any.
    pub(super) fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The noise of the pairs of one beam, by position.
    pub(super) fn pairs(self, row: usize, step: usize, beam: usize) -> impl Fn(usize) -> f64 {
        let key = self.key(row, step, beam as u64);
        move |pair| match self {
            Self::Given(given) => given(Site { row, step, draw: Draw::Pair { beam, pair } }),
            _ => key.map_or(0.0, |key| gumbel(key.uniform(pair as u64))),
        }
    }

    /// The noise of the candidates of a row, by number.
    pub(super) fn candidates(self, row: usize, step: usize) -> impl Fn(usize) -> f64 {
        // No beam has this number.
        let key = self.key(row, step, u64::MAX);
        move |number| match self {
            Self::Given(given) => given(Site { row, step, draw: Draw::Candidate(number) }),
            _ => key.map_or(0.0, |key| gumbel(key.uniform(number as u64))),
        }
    }

    fn key(self, row: usize, step: usize, stream: u64) -> Option<Key> {
        match self {
            Self::Gumbel(keys) => Some(keys[row].at(step as u64).at(stream)),
            _ => None,
        }
    }
}

/// A Gumbel number from a uniform one in [0, 1); finite.
fn gumbel(uniform: f64) -> f64 {
    const TINY: f64 = 1e-20;
    -(TINY - (uniform + TINY).ln()).ln()
}
