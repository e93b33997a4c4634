//! The record of a search for its backward run, and the gradient of its scores.
//!
//! Source: rtc.

use std::ops::Range;

use super::choose::{Candidate, RowChoice};
use super::pairs::{PairTable, Pairs};
use super::soft::{BlendTable, Blends, soft_grad, soft_scratch};
use crate::Real;
use crate::parallel::{DisjointSlice, each};

/// No list was kept: the merge was not scored.
const NONE: usize = usize::MAX;

/// The steps of a search, of all its levels. Keep it: it uses its memory again.
#[derive(Debug, Default)]
pub struct SearchRecord {
    steps: Vec<StepRanges>,
    merges: PairTable,
    fresh: PairTable,
    blends: BlendTable,
    rows: Vec<RowStep>,
    candidates: Vec<Candidate>,
    beams: Vec<EarlierBeam>,
    lists: Vec<u32>,
}

/// Ranges of the parts of a step.
#[derive(Clone, Debug)]
struct StepRanges {
    merges: Range<usize>,
    fresh: Range<usize>,
    blends: Range<usize>,
    rows: Range<usize>,
    first_node: u32,
    first_pair: u32,
}

/// One row in a step.
#[derive(Clone, Debug)]
struct RowStep {
    row: usize,
    size: usize,
    chosen: RowChoice,
    /// Its candidates: those that are beams of their own, then those of the softened one.
    candidates: Range<usize>,
    /// Its beams before the step.
    beams: Range<usize>,
    /// Blends of the softened beam among those of the step.
    blends: Range<usize>,
}

/// A beam before a step.
#[derive(Clone, Copy, Debug)]
struct EarlierBeam {
    norm: f64,
    /// Where its list of pairs begins, if a candidate of it was taken and scored.
    list: usize,
}

/// A step for the backward run: its new nodes and pairs, and their first indices.
#[derive(Clone, Copy, Debug)]
pub struct SearchStep<'a> {
    /// What was composed, as nodes from `first_node + blends.len()` on.
    pub merges: Pairs<'a>,
    /// What was mixed, as nodes from `first_node` on.
    pub blends: Blends<'a>,
    /// What was scored, as pairs from `first_pair` on; with `Compose::Every` also composed, as nodes behind the blends.
    pub fresh: Pairs<'a>,
    /// The first new node.
    pub first_node: usize,
    /// The first new pair.
    pub first_pair: usize,
}

impl SearchRecord {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.merges.clear();
        self.fresh.clear();
        self.blends.clear();
        self.rows.clear();
        self.candidates.clear();
        self.beams.clear();
        self.lists.clear();
    }

    /// Bytes of all lists, as far as they are filled.
    pub fn bytes(&self) -> usize {
        let steps = size_of_val(&*self.steps) + size_of_val(&*self.rows) + size_of_val(&*self.candidates);
        let made = self.merges.bytes() + self.fresh.bytes() + self.blends.bytes();
        steps + made + size_of_val(&*self.beams) + size_of_val(&*self.lists)
    }

    /// Steps so far; the start of a level is one, too.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether step `index` is the start of a level.
    pub fn is_start(&self, index: usize) -> bool {
        self.steps[index].rows.is_empty()
    }

    /// What step `index` made.
    pub fn step(&self, index: usize) -> SearchStep<'_> {
        let kept = &self.steps[index];
        SearchStep {
            merges: self.merges.part(kept.merges.clone()),
            blends: self.blends.part(kept.blends.clone()),
            fresh: self.fresh.part(kept.fresh.clone()),
            first_node: kept.first_node as usize,
            first_pair: kept.first_pair as usize,
        }
    }

    /// Begins a step that made these; `pairs` exist after it.
    pub(super) fn begin(&mut self, first_node: u32, merges: Pairs, blends: Blends, fresh: Pairs, pairs: usize) {
        let (merges, made) = (self.merges.extend(merges), self.fresh.extend(fresh));
        let mixed = self.blends.len()..self.blends.len() + blends.len();
        self.blends.extend(blends);
        let rows = self.rows.len()..self.rows.len();
        let first_pair = (pairs - made.len()) as u32;
        self.steps.push(StepRanges { merges, fresh: made, blends: mixed, rows, first_node, first_pair });
    }

    /// Adds a row to the step that was begun last. `blends` is the end of its blends among those of the step.
    pub(super) fn row<'a>(
        &mut self,
        row: usize,
        size: usize,
        chosen: RowChoice,
        candidates: &[Candidate],
        norms: &[f64],
        pairs: impl Fn(usize) -> &'a [u32],
        blends: usize,
    ) {
        let scored = size > 2;
        let first = self.beams.len();
        for (beam, &norm) in norms.iter().enumerate() {
            let taken = scored && candidates.iter().any(|candidate| candidate.beam as usize == beam);
            let list = if taken { self.lists.len() } else { NONE };
            if taken {
                self.lists.extend(pairs(beam));
            }
            self.beams.push(EarlierBeam { norm, list });
        }
        let from = self.candidates.len();
        self.candidates.extend(candidates);
        let step = self.steps.last_mut().expect("a step was begun");
        let before = self.rows[step.rows.clone()].last().map_or(0, |row| row.blends.end);
        self.rows.push(RowStep {
            row,
            size,
            chosen,
            candidates: from..self.candidates.len(),
            beams: first..self.beams.len(),
            blends: before..blends.max(before),
        });
        step.rows.end += 1;
    }

    /// The gradient of the choice of step `index`: in `dscores` (`width` places per row of the level) the gradients of a row's
    /// accumulated scores after the step become those before it, and those of the scores of pairs are added to `dpairs`.
    /// `dshares` are the gradients of the terms of the step's blends.
    pub fn score_grad<T: Real>(
        &self,
        index: usize,
        width: usize,
        pair_scores: &[T],
        dshares: &[f64],
        dscores: &mut [f64],
        dpairs: &mut [T],
    ) {
        let step = &self.steps[index];
        let rows = &self.rows[step.rows.clone()];
        let work = rows.iter().map(|row| row.size * row.beams.len() * 8).sum();
        let scores = DisjointSlice::new(dscores);
        let pairs = DisjointSlice::new(dpairs);
        let blends = self.blends.part(step.blends.clone());
        each(rows.len(), work, |i| {
            let row = &rows[i];
            // SAFETY: a row is in a step once, and has places of its own.
            let scores = unsafe { scores.part(row.row * width..(row.row + 1) * width) };
            let sizes = (row.beams.len(), row.size);
            let soft = if row.chosen.soft > 0 { soft_scratch(row.chosen.soft, sizes) } else { 0 };
            f64::with_scratch(2 * row.beams.len() + row.candidates.len() + soft, |memory| {
                // SAFETY: no two rows have a pair in common.
                let add = |pair: u32, slope: T| unsafe { *pairs.at(pair as usize) += slope };
                self.row_grad(row, step, blends, pair_scores, dshares, scores, memory, add);
            });
        });
    }

    /// One row of [`Self::score_grad`].
    fn row_grad<T: Real>(
        &self,
        row: &RowStep,
        step: &StepRanges,
        blends: Blends,
        pair_scores: &[T],
        dshares: &[f64],
        dscores: &mut [f64],
        memory: &mut [f64],
        add: impl Fn(u32, T),
    ) {
        let (candidates, beams) = (&self.candidates[row.candidates.clone()], &self.beams[row.beams.clone()]);
        let list = |beam: &EarlierBeam| &self.lists[beam.list..][..row.size - 1];
        let (slopes, memory) = memory.split_at_mut(candidates.len());
        let (before, memory) = memory.split_at_mut(beams.len());
        let (through, memory) = memory.split_at_mut(beams.len());
        let hard = row.chosen.hard;
        slopes[..hard].copy_from_slice(&dscores[..hard]);
        if row.chosen.soft > 0 {
            let from = step.blends.start;
            let own = self.blends.part(from + row.blends.start..from + row.blends.end);
            let terms = if own.is_empty() { 0..0 } else { blends.range(row.blends.start).start..dshares.len() };
            let sizes = (beams.len(), row.size);
            soft_grad(&candidates[hard..], sizes, own, &dshares[terms], dscores[hard], &mut slopes[hard..], memory);
        }
        before.fill(0.0);
        through.fill(0.0);
        for (candidate, &slope) in candidates.iter().zip(&*slopes) {
            let at = candidate.beam as usize;
            before[at] += slope;
            if beams[at].list != NONE {
                through[at] += slope;
                add(list(&beams[at])[candidate.position as usize], T::from_f64(slope));
            }
        }
        for (beam, &through) in beams.iter().zip(&*through).filter(|(_, through)| **through != 0.0) {
            let through = T::from_f64(-through);
            for &pair in list(beam) {
                let share = T::from_f64(pair_scores[pair as usize].to_f64() - beam.norm).exp_below_one();
                add(pair, through * share);
            }
        }
        dscores[..beams.len()].copy_from_slice(before);
        dscores[beams.len()..].fill(0.0);
    }
}
