//! The softened beam ("one soft"): all candidates without a beam of their own become one beam of means.
//!
//! With shares `w` of the candidates (the softmax of their scores), `W_j` the share of beam j and `s_i` that of position i,
//! the new node at i is `s_i P_i + (1 - cum_i) O_i + (cum_i - s_i) O_(i+1)`: `P` the mean of the parents by `W`, `O` that of
//! the old nodes, `cum` the running sum of `s`. Left of the first and right of the last position that has a share, it is a
//! mean of old nodes alone; where all beams have the same node there, it is that node.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999.

use std::ops::Range;

use super::choose::Candidate;
use super::marginal::{softmax, softmax_grad};
use crate::Real;

/// The role of a term in a blend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermRole {
    /// The parent of the pair at the position.
    Parent,
    /// The old node at the position.
    Here,
    /// The old node to the right of it.
    Next,
}

/// A node in a blend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlendTerm {
    /// The node.
    pub node: u32,
    /// Its coefficient.
    pub share: f64,
    /// The beam that it is from.
    pub beam: u32,
    /// What it is there.
    pub source: TermRole,
}

/// New nodes that are sums of others.
#[derive(Clone, Copy, Debug)]
pub struct Blends<'a> {
    starts: &'a [usize],
    positions: &'a [u32],
    terms: &'a [BlendTerm],
}

impl<'a> Blends<'a> {
    /// Sums of these terms: sum `k` has those of `offsets[k]..offsets[k + 1]`.
    pub fn new(offsets: &'a [usize], terms: &'a [BlendTerm]) -> Self {
        Self { starts: &offsets[..offsets.len() - 1], positions: &[], terms }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The terms of all of them.
    pub fn terms(&self) -> &'a [BlendTerm] {
        self.terms
    }

    /// The terms of blend `k`.
    pub fn of(&self, k: usize) -> &'a [BlendTerm] {
        &self.terms[self.range(k)]
    }

    /// Where the terms of blend `k` stand among all.
    pub fn range(&self, k: usize) -> Range<usize> {
        let base = self.starts.first().copied().unwrap_or(0);
        let end = self.starts.get(k + 1).map_or(self.terms.len(), |end| end - base);
        self.starts[k] - base..end
    }
}

/// Growing blends.
#[derive(Debug, Default)]
pub(super) struct BlendTable {
    starts: Vec<usize>,
    positions: Vec<u32>,
    terms: Vec<BlendTerm>,
}

impl BlendTable {
    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.positions.clear();
        self.terms.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Bytes of all lists, as far as they are filled.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.positions) + size_of_val(&*self.terms)
    }

    pub(super) fn view(&self) -> Blends<'_> {
        self.part(0..self.len())
    }

    /// Some of them.
    pub(super) fn part(&self, range: Range<usize>) -> Blends<'_> {
        let start = |k: usize| self.starts.get(k).copied().unwrap_or(self.terms.len());
        Blends {
            starts: &self.starts[range.clone()],
            positions: &self.positions[range.clone()],
            terms: &self.terms[start(range.start)..start(range.end)],
        }
    }

    pub(super) fn extend(&mut self, blends: Blends) {
        let first = self.terms.len();
        self.starts.extend((0..blends.len()).map(|k| first + blends.range(k).start));
        self.positions.extend(blends.positions);
        self.terms.extend(blends.terms);
    }
}

/// The difference of a softened beam from the beams that it is made of.
#[derive(Clone, Debug)]
pub(super) struct SoftBeam {
    /// Positions that have a share.
    inner: Range<usize>,
    /// A beam that has every node that was not blended.
    beam: usize,
    /// The first node of the step's blends: no list before the step has it.
    first: u32,
    /// Its blends among those of the step.
    blends: Range<usize>,
}

impl SoftBeam {
    /// The earlier pair that stands at `at` of the new list of nodes: beam and position there.
    pub(super) fn pair_of(&self, list: &[u32], at: usize) -> Option<(usize, usize)> {
        let kept = list[at] < self.first && list[at + 1] < self.first;
        kept.then(|| (self.beam, if at < self.inner.start { at } else { at + 1 }))
    }

    /// One behind the last of its blends.
    pub(super) fn blends(&self) -> usize {
        self.blends.end
    }
}

/// Makes softened beams; remembers those of a step.
#[derive(Debug, Default)]
pub(super) struct Softener {
    mixed: Vec<SoftBeam>,
    /// Shares of beams, then of positions.
    shares: Vec<f64>,
}

impl Softener {
    pub(super) fn clear(&mut self) {
        self.mixed.clear();
    }

    /// Softened beam number `i` of the step.
    pub(super) fn mixed(&self, i: usize) -> &SoftBeam {
        &self.mixed[i]
    }

    /// Makes one beam of the candidates in `tail`, for `(live, size)` beams and nodes before the step: writes their weights and
    /// the new list; new nodes are numbered from `next`. Returns how many there are.
    pub(super) fn soften(
        &mut self,
        tail: &mut [Candidate],
        (live, size): (usize, usize),
        node: impl Fn(usize, usize) -> u32,
        parent: impl Fn(usize, usize) -> u32,
        blends: &mut BlendTable,
        next: u32,
        list: &mut [u32],
    ) -> u32 {
        weigh(tail);
        self.shares.clear();
        self.shares.resize(live + size, 0.0);
        let (of_beam, of_position) = self.shares.split_at_mut(live);
        let inner = spread(tail, of_beam, of_position);
        let beam = of_beam.iter().position(|&share| share != 0.0).unwrap_or(0);
        let first = blends.len();
        let mut sum = 0.0;
        for (at, new) in list.iter_mut().enumerate() {
            // Outside of the inner positions a mean of old nodes, all of it from one column.
            let column = if at < inner.start { at } else { at + 1 };
            let outside = !inner.contains(&at);
            let beams = || of_beam.iter().enumerate().filter(|(_, share)| **share != 0.0);
            if outside && beams().all(|(j, _)| node(j, column) == node(beam, column)) {
                *new = node(beam, column);
                continue;
            }
            *new = next + (blends.len() - first) as u32;
            blends.starts.push(blends.terms.len());
            blends.positions.push(at as u32);
            let mut add = |source: TermRole, factor: f64, node: &dyn Fn(usize) -> u32| {
                if factor != 0.0 {
                    blends.terms.extend(beams().map(|(j, share)| BlendTerm {
                        node: node(j),
                        share: factor * share,
                        beam: j as u32,
                        source,
                    }));
                }
            };
            if outside {
                let source = if at < inner.start { TermRole::Here } else { TermRole::Next };
                add(source, 1.0, &|j| node(j, column));
            } else {
                let share = of_position[at];
                sum = if at + 1 == inner.end { 1.0 } else { sum + share };
                add(TermRole::Parent, share, &|j| parent(j, at));
                add(TermRole::Here, 1.0 - sum, &|j| node(j, at));
                add(TermRole::Next, sum - share, &|j| node(j, at + 1));
            }
        }
        let step = self.mixed.first().map_or(next, |first| first.first);
        self.mixed.push(SoftBeam { inner, beam, first: step, blends: first..blends.len() });
        (blends.len() - first) as u32
    }
}

/// Gives every candidate its share: the softmax of the scores.
fn weigh(tail: &mut [Candidate]) {
    f64::with_scratch(2 * tail.len(), |memory| {
        let (scores, weights) = memory.split_at_mut(tail.len());
        scores.iter_mut().zip(&*tail).for_each(|(score, candidate)| *score = candidate.score);
        softmax(scores, weights);
        tail.iter_mut().zip(weights).for_each(|(candidate, &mut weight)| candidate.weight = weight);
    });
}

/// Adds the weights up by beam and by position; returns the positions from the first to the last with a share.
fn spread(tail: &[Candidate], of_beam: &mut [f64], of_position: &mut [f64]) -> Range<usize> {
    let (mut first, mut end) = (usize::MAX, 0);
    for candidate in tail.iter().filter(|candidate| candidate.weight != 0.0) {
        let at = candidate.position as usize;
        of_beam[candidate.beam as usize] += candidate.weight;
        of_position[at] += candidate.weight;
        (first, end) = (first.min(at), end.max(at + 1));
    }
    first.min(end)..end
}

/// How many numbers [`soft_grad`] takes beside its operands.
pub(super) fn soft_scratch(tail: usize, (live, size): (usize, usize)) -> usize {
    2 * live + 3 * size + tail
}

/// The gradient of the scores of the softened candidates, from that of the shares in their blends and of their score together.
pub(super) fn soft_grad(
    tail: &[Candidate],
    (live, size): (usize, usize),
    blends: Blends,
    dshares: &[f64],
    dscore: f64,
    gradient: &mut [f64],
    memory: &mut [f64],
) {
    memory.fill(0.0);
    let (of_beam, memory) = memory.split_at_mut(live);
    let (dbeam, memory) = memory.split_at_mut(live);
    let (of_position, memory) = memory.split_at_mut(size);
    let (dposition, memory) = memory.split_at_mut(size);
    let (dsum, weights) = memory.split_at_mut(size);
    let inner = spread(tail, of_beam, of_position);
    let (mut sum, mut reached) = (0.0, inner.start);
    for (k, &at) in blends.positions.iter().enumerate() {
        let at = at as usize;
        while reached <= at && reached < inner.end {
            sum += of_position[reached];
            reached += 1;
        }
        let total = if at + 1 == inner.end { 1.0 } else { sum };
        let (outside, share) = (!inner.contains(&at), of_position[at]);
        let range = blends.range(k);
        for (term, &slope) in blends.of(k).iter().zip(&dshares[range]) {
            let beam = term.beam as usize;
            let along = of_beam[beam] * slope;
            dbeam[beam] += slope
                * match term.source {
                    _ if outside => 1.0,
                    TermRole::Parent => {
                        dposition[at] += along;
                        share
                    }
                    TermRole::Here => {
                        dsum[at] -= along;
                        1.0 - total
                    }
                    TermRole::Next => {
                        dsum[at] += along;
                        dposition[at] -= along;
                        total - share
                    }
                };
        }
    }
    // A share counts in every running sum from its position on.
    let mut later = 0.0;
    for (share, sum) in dposition.iter_mut().zip(&*dsum).rev() {
        later += sum;
        *share += later;
    }
    for ((gradient, weight), candidate) in gradient.iter_mut().zip(&mut *weights).zip(tail) {
        *weight = candidate.weight;
        *gradient = dbeam[candidate.beam as usize] + dposition[candidate.position as usize] + dscore * candidate.score;
    }
    softmax_grad(weights, gradient);
    gradient.iter_mut().zip(&*weights).for_each(|(gradient, weight)| *gradient += dscore * weight);
}
