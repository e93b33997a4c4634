//! The choice of a row in one step: the best pairs of each beam, then the best of all.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

use super::noise::Noise;
use super::search::{Overflow, SearchRules};
use crate::Real;
use crate::parallel::{lane_sum, vectorised};

/// A merge that one beam of a row could make.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Candidate {
    /// What it was ordered by: its score and noise.
    pub key: f64,
    /// The accumulated score of the beam after the merge, without noise.
    pub score: f64,
    /// Its share in the softened beam; 0 outside of it.
    pub weight: f64,
    /// The beam that would merge.
    pub beam: u32,
    /// The position of the left node in the beam.
    pub position: u32,
    /// Its place in the order of beams and pairs: of equal keys the lower number is first.
    pub number: u32,
}

/// One row at the beginning of a step: `step + size` nodes at the start of the level.
pub(super) struct RowBeams<'a> {
    /// The row of the search, for its noise.
    pub(super) row: usize,
    /// Merges behind it.
    pub(super) step: usize,
    /// Nodes left: at least 2.
    pub(super) size: usize,
    /// Indices of pairs; beam `j` begins at `j stride`.
    pub(super) pairs: &'a [u32],
    /// From one beam to the next.
    pub(super) stride: usize,
    /// Accumulated scores, one per beam.
    pub(super) scores: &'a [f64],
}

/// The choice of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowChoice {
    /// The first so many candidates are beams of the next step, each for itself.
    pub(super) hard: usize,
    /// So many after them are one beam together.
    pub(super) soft: usize,
}

/// ln of the sum of the exponentials, in double precision from sums in `T`.
pub fn log_sum_exp<T: Real>(x: &[T]) -> f64 {
    let largest = x.iter().fold(T::NEG_INFINITY, |largest, &x| x.or_larger(largest));
    let sum = vectorised!({
        lane_sum(
            x,
            x,
            #[inline(always)]
            |x, _| (x - largest).exp_below_one(),
        )
    });
    largest.to_f64() + sum.to_f64().ln()
}

/// The largest keys in falling order into `best`, with their positions; of equal keys the first is first. NaN is smallest: the norm of
/// these scores is NaN then, and so are the scores of all candidates.
///
/// There must be at least as many keys as places.
pub fn top_k(keys: impl Iterator<Item = f64>, best: &mut [Candidate]) {
    let mut best = BestCandidates { places: best, found: 0 };
    keys.enumerate().for_each(|(position, key)| best.offer(position, key));
    debug_assert_eq!(best.found, best.places.len());
}

/// The largest keys so far, in falling order.
struct BestCandidates<'a> {
    places: &'a mut [Candidate],
    found: usize,
}

impl BestCandidates<'_> {
    /// Whether a key that is not above this one comes too late.
    #[inline(always)]
    fn is_above(&self, key: f64) -> bool {
        self.found == self.places.len() && key <= self.places[self.found - 1].key
    }

    #[inline(always)]
    fn offer(&mut self, position: usize, key: f64) {
        let key = if key.is_nan() { f64::NEG_INFINITY } else { key };
        if !self.is_above(key) {
            self.insert(position, key);
        }
    }

    fn insert(&mut self, position: usize, key: f64) {
        self.found = self.places.len().min(self.found + 1);
        let mut at = self.found - 1;
        while at > 0 && self.places[at - 1].key < key {
            self.places[at] = self.places[at - 1];
            at -= 1;
        }
        self.places[at] = Candidate { key, position: position as u32, ..Candidate::default() };
    }
}

/// Fills `candidates` with what the row could do, the chosen ones first, and `norms` with the [`log_sum_exp`] of each beam.
pub(super) fn choose<T: Real>(
    beams: &RowBeams,
    pair_scores: &[T],
    rules: SearchRules,
    noise: Noise,
    candidates: &mut [Candidate],
    norms: &mut [f64],
) -> RowChoice {
    let live = beams.scores.len();
    if beams.size == 2 {
        for (beam, (candidate, &score)) in candidates.iter_mut().zip(beams.scores).enumerate() {
            *candidate = Candidate { score, beam: beam as u32, number: beam as u32, ..Candidate::default() };
        }
        if beams.step + 2 < rules.chunk {
            order(beams, rules, noise, &mut candidates[..live]);
        }
        return RowChoice { hard: live, soft: 0 };
    }
    let pairs = beams.size - 1;
    let each = pairs.min(rules.width);
    T::with_scratch(pairs, |scores| {
        for (beam, norm) in norms.iter_mut().enumerate().take(live) {
            let list = &beams.pairs[beam * beams.stride..][..pairs];
            for (score, &pair) in scores.iter_mut().zip(list) {
                *score = pair_scores[pair as usize];
            }
            *norm = log_sum_exp(scores);
            let best = &mut candidates[beam * each..][..each];
            if noise.is_some() {
                let noise = noise.pairs(beams.row, beams.step, beam);
                let mut best = BestCandidates { places: best, found: 0 };
                for (pair, score) in scores.iter().enumerate() {
                    if !best.is_above(score.to_f64() + noise.at_most(pair)) {
                        best.offer(pair, score.to_f64() + noise.at(pair));
                    }
                }
            } else {
                top_k(scores.iter().map(|score| score.to_f64()), best);
            }
            for (rank, candidate) in best.iter_mut().enumerate() {
                candidate.beam = beam as u32;
                candidate.number = (beam * each + rank) as u32;
                candidate.score = beams.scores[beam] + (scores[candidate.position as usize].to_f64() - *norm);
            }
        }
    });
    prune(beams, rules, noise, &mut candidates[..live * each])
}

/// Brings the candidates that stay to the front, if there are too many.
fn prune(beams: &RowBeams, rules: SearchRules, noise: Noise, candidates: &mut [Candidate]) -> RowChoice {
    let (count, width) = (candidates.len(), rules.width);
    if count <= width {
        return RowChoice { hard: count, soft: 0 };
    }
    order(beams, rules, noise, candidates);
    match rules.overflow {
        Overflow::Prune => RowChoice { hard: width, soft: 0 },
        Overflow::Soften => RowChoice { hard: width - 1, soft: count + 1 - width },
    }
}

/// Orders candidates by accumulated score and noise, the largest first. One whose score is NaN is kept before all others: left out it
/// would be as if it had never been.
fn order(beams: &RowBeams, rules: SearchRules, noise: Noise, candidates: &mut [Candidate]) {
    let noise = noise.candidates(beams.row, beams.step);
    for candidate in candidates.iter_mut() {
        let key = match rules.overflow {
            Overflow::Prune => candidate.score + noise.at(candidate.number as usize),
            // What has no beam of its own is not lost, and not left to chance.
            Overflow::Soften => candidate.score,
        };
        candidate.key = if key.is_nan() { f64::INFINITY } else { key };
    }
    candidates.sort_unstable_by(|a, b| b.key.total_cmp(&a.key).then(a.number.cmp(&b.number)));
}
