//! Gumbel noise of a search: drawn by key, given, or absent.
//!
//! Source: Kool et al. 2019 (Gumbel top-k), arXiv:1903.06059.

use rtc_base::rng::Key;

/// What is added to scores before the best are chosen. The scores that are kept are always without it.
#[derive(Clone, Copy)]
pub enum Noise<'a> {
    /// Nothing: evaluation.
    None,
    /// Standard Gumbel noise from the key of each row; a key belongs to row and level.
    Gumbel(&'a [Key]),
    /// What the function says.
    Given(&'a (dyn Fn(NoiseSite) -> f64 + Sync)),
}

/// A place where noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseSite {
    /// The row of the search.
    pub row: usize,
    /// How many merges the row has behind it.
    pub step: usize,
    /// What is disturbed.
    pub draw: NoiseTarget,
}

/// The score to which noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseTarget {
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

impl<'a> Noise<'a> {
    /// Whether there is any.
    pub(super) fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The noise of the pairs of one beam, by position.
    pub(super) fn pairs(self, row: usize, step: usize, beam: usize) -> NoiseStream<'a> {
        self.stream(row, step, beam as u64, NoiseTarget::Pair { beam, pair: 0 })
    }

    /// The noise of the candidates of a row, by number.
    pub(super) fn candidates(self, row: usize, step: usize) -> NoiseStream<'a> {
        // No beam has this number.
        self.stream(row, step, u64::MAX, NoiseTarget::Candidate(0))
    }

    fn stream(self, row: usize, step: usize, stream: u64, draw: NoiseTarget) -> NoiseStream<'a> {
        match self {
            Self::None => NoiseStream::None,
            Self::Gumbel(keys) => NoiseStream::Gumbel(keys[row].at(step as u64).at(stream)),
            Self::Given(given) => NoiseStream::Given(given, NoiseSite { row, step, draw }),
        }
    }
}

/// The noise of one choice.
pub(super) enum NoiseStream<'a> {
    None,
    Gumbel(Key),
    Given(&'a (dyn Fn(NoiseSite) -> f64 + Sync), NoiseSite),
}

impl NoiseStream<'_> {
    /// Draw `index`.
    pub(super) fn at(&self, index: usize) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Gumbel(key) => gumbel(key.uniform(index as u64)),
            Self::Given(given, site) => {
                let draw = match site.draw {
                    NoiseTarget::Pair { beam, .. } => NoiseTarget::Pair { beam, pair: index },
                    NoiseTarget::Candidate(_) => NoiseTarget::Candidate(index),
                };
                given(NoiseSite { draw, ..*site })
            }
        }
    }

    /// No less than draw `index`, without the price of logarithms.
    #[inline(always)]
    pub(super) fn at_most(&self, index: usize) -> f64 {
        match self {
            Self::None => 0.0,
            // -ln(-ln u) <= -ln(1 - u), which is at most -ln 2 times the exponent.
            Self::Gumbel(key) => -std::f64::consts::LN_2 * exponent(1.0 - key.uniform(index as u64)) + 1e-9,
            Self::Given(..) => f64::INFINITY,
        }
    }
}

/// The logarithm to base 2 of a normal positive number, rounded down.
#[inline(always)]
fn exponent(x: f64) -> f64 {
    (x.to_bits() >> 52) as i32 as f64 - 1023.0
}

/// A Gumbel number from a uniform one in [0, 1); finite.
fn gumbel(uniform: f64) -> f64 {
    const TINY: f64 = 1e-20;
    -(TINY - (uniform + TINY).ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_and_are_close() {
        let stream = NoiseStream::Gumbel(Key::new(1));
        let mut above = 0.0;
        for index in 0..100_000 {
            let (exact, most) = (stream.at(index), stream.at_most(index));
            assert!(exact <= most, "{index}: {exact} above {most}");
            above += f64::from(u8::from(most > 4.0)) - f64::from(u8::from(exact > 4.0));
        }
        assert!(above < 2000.0, "few draws need logarithms: {above}");
        assert!(gumbel(0.0).is_finite() && gumbel(1.0 - f64::EPSILON / 2.0).is_finite());
    }
}
