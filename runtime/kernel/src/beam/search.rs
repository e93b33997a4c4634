//! The state of a search over many rows: rules, lists of beams, starts of levels.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

pub use rtc_compiler::ir::attribute::{Compose, Overflow};
use std::ops::Range;

use super::align::BeamSlots;
use super::choose::{Candidate, RowChoice};
use super::pairs::{PairCounts, Pairs, UNSCORED};
use super::record::SearchRecord;
use super::soft::{BlendTable, Blends, Softener};

/// The rules of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchRules {
    /// The largest number of beams of a row, at least 1.
    pub width: usize,
    /// Which pairs are composed.
    pub compose: Compose,
    /// What happens to the others.
    pub overflow: Overflow,
    /// Whether a pair that several beams of a row choose, now or later, is composed once. The values are the same if the cell
    /// gives equal values for equal pairs, so not with dropout.
    pub share: bool,
    /// Nodes of a full chunk, where the rows are chunks of an outer fold; else 0. A shorter row puts its beams in order at its last
    /// merge, though it scores nothing, so that beam 0 is the best one there, too. (In a padded batch its last merge is a step
    /// like the others. In a full chunk the order is that of the last choice, or of insertion if all had room.)
    pub chunk: usize,
}

/// Bytes that a list keeps.
fn held<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// One row: where its lists lie and what is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchRow {
    /// Where the list of its first beam begins; one beam has `length` places.
    pub(super) first: usize,
    pub(super) length: usize,
    pub(super) size: usize,
    pub(super) live: usize,
    /// Which of the two copies of the lists is current.
    pub(super) side: usize,
}

impl SearchRow {
    /// The first `len` numbers of a beam's list.
    pub(super) fn list<'a>(&self, lists: &'a [Vec<u32>; 2], beam: usize, len: usize) -> &'a [u32] {
        &lists[self.side][self.first + beam * self.length..][..len]
    }

    /// The place of the next list of a beam.
    pub(super) fn next(&self, beam: usize, len: usize) -> Range<usize> {
        let start = self.first + beam * self.length;
        start..start + len
    }
}

/// A search over the rows of one level after the other. Keep it: it uses its memory again.
#[derive(Debug, Default)]
pub struct Search {
    pub(super) rules: SearchRules,
    pub(super) rows: Vec<SearchRow>,
    pub(super) busy: Vec<u32>,
    pub(super) nodes: [Vec<u32>; 2],
    pub(super) pairs: [Vec<u32>; 2],
    /// Accumulated scores, `width` places per row.
    pub(super) scores: [Vec<f64>; 2],
    pub(super) made: PairCounts,
    /// Of each row `width^2` places.
    pub(super) candidates: Vec<Candidate>,
    /// Of each row `width` places.
    pub(super) norms: Vec<f64>,
    pub(super) chosen: Vec<RowChoice>,
    /// The new node of each survivor and its pairs to the left and right; of each row `width` places.
    pub(super) merged: Vec<[u32; 3]>,
    pub(super) softener: Softener,
    pub(super) blends: BlendTable,
    /// Roots and scores of the level before, while the next one is built.
    ends: (Vec<u32>, Vec<f64>),
}

impl Search {
    /// Begins with the leaves `[positions, d]` as node table: row `r` has positions `offsets[r]..offsets[r + 1]`, one beam and
    /// score 0. No row may be empty.
    pub fn leaves(&mut self, rules: SearchRules, offsets: &[usize]) {
        debug_assert!(rules.width > 0 && offsets.windows(2).all(|row| row[0] < row[1]));
        debug_assert!(rules.compose == Compose::Every || rules.overflow == Overflow::Prune);
        self.rules = rules;
        self.made.begin(rules, offsets[offsets.len() - 1]);
        self.load(offsets, |_| 1, |_, position| (position as u32, 0.0));
    }

    /// Begins the next level: row `r` is made of the roots of rows `offsets[r]..offsets[r + 1]` of this level, in the beams that
    /// `slots` picks; its scores are the sums of theirs. All rows must be finished.
    pub fn join(&mut self, slots: &BeamSlots, offsets: &[usize]) {
        debug_assert!(!self.is_busy() && offsets[offsets.len() - 1] == self.rows.len());
        let width = self.rules.width;
        let (mut roots, mut scores) = std::mem::take(&mut self.ends);
        roots.clear();
        scores.clear();
        for row in 0..self.rows.len() {
            let live = self.live(row);
            roots.extend((0..width).map(|beam| if beam < live { self.root(row, beam) } else { 0 }));
            scores.extend((0..width).map(|beam| if beam < live { self.scores(row)[beam] } else { 0.0 }));
        }
        let live = |row: usize| slots.live(offsets[row]..offsets[row + 1]);
        self.load(offsets, live, |slot, from| {
            let at = from * width + slots.of(from)[slot] as usize;
            (roots[at], scores[at])
        });
        self.ends = (roots, scores);
    }

    /// Rows with these positions; `entry(slot, position)` gives node and score.
    fn load(&mut self, offsets: &[usize], live: impl Fn(usize) -> usize, entry: impl Fn(usize, usize) -> (u32, f64)) {
        let (width, rows, positions) = (self.rules.width, offsets.len() - 1, offsets[offsets.len() - 1]);
        for side in 0..2 {
            self.nodes[side].resize(width * positions, 0);
            self.pairs[side].resize(width * positions, UNSCORED);
            self.scores[side].resize(width * rows, 0.0);
        }
        self.candidates.resize(rows * width * width, Candidate::default());
        self.norms.resize(rows * width, 0.0);
        self.chosen.resize(rows, RowChoice::default());
        self.merged.resize(rows * width, [UNSCORED; 3]);
        self.rows.clear();
        self.busy.clear();
        self.made.fresh.clear();
        self.made.merges.clear();
        self.blends.clear();
        for (index, span) in offsets.windows(2).enumerate() {
            let length = span[1] - span[0];
            let row = SearchRow { first: width * span[0], length, size: length, live: live(index), side: 0 };
            if length > 1 {
                self.busy.push(index as u32);
            }
            self.rows.push(row);
            for slot in 0..row.live {
                let mut sum = 0.0;
                for position in 0..length {
                    let (node, score) = entry(slot, span[0] + position);
                    self.nodes[0][row.next(slot, length)][position] = node;
                    sum += score;
                }
                self.scores[0][index * width + slot] = sum;
                self.first_pairs(row, slot);
            }
        }
    }

    /// The pairs of a beam at the start.
    fn first_pairs(&mut self, row: SearchRow, slot: usize) {
        let wanted = self.made.wants_pairs(row.size);
        for at in row.next(slot, row.size - 1) {
            let (left, right) = (self.nodes[0][at], self.nodes[0][at + 1]);
            self.pairs[0][at] = if wanted { self.made.pair(left, right) } else { UNSCORED };
        }
    }

    /// Bytes of all lists: of those of a level all that is kept, of those that grow what the search has filled.
    pub fn bytes(&self) -> usize {
        let twice = |lists: &[Vec<u32>; 2]| lists.iter().map(held).sum::<usize>();
        let numbers = self.scores.iter().map(held).sum::<usize>() + held(&self.norms);
        let choices = held(&self.candidates) + held(&self.chosen) + held(&self.merged);
        twice(&self.nodes)
            + twice(&self.pairs)
            + numbers
            + choices
            + held(&self.rows)
            + held(&self.busy)
            + self.made.bytes()
    }

    /// Whether a row has more than one node left.
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Rows of this level.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Whether all pairs are composed before one is chosen.
    pub fn joins_all(&self) -> bool {
        self.rules.compose == Compose::Every
    }

    /// The largest number of beams.
    pub fn width(&self) -> usize {
        self.rules.width
    }

    /// Nodes that are left in each beam of a row.
    pub fn size(&self, row: usize) -> usize {
        self.rows[row].size
    }

    /// Positions with which the row began.
    pub(super) fn length(&self, row: usize) -> usize {
        self.rows[row].length
    }

    /// Beams of a row.
    pub fn live(&self, row: usize) -> usize {
        self.rows[row].live
    }

    /// Accumulated scores of the beams of a row.
    pub fn scores(&self, row: usize) -> &[f64] {
        let at = self.rows[row];
        &self.scores[at.side][row * self.rules.width..][..at.live]
    }

    /// The nodes of a beam.
    pub fn beam(&self, row: usize, beam: usize) -> &[u32] {
        let at = self.rows[row];
        at.list(&self.nodes, beam, at.size)
    }

    /// The pairs of a beam: indices into the pair scores. The one pair of two nodes has no score with [`Compose::Chosen`]
    /// (`u32::MAX`).
    pub fn beam_pairs(&self, row: usize, beam: usize) -> &[u32] {
        let at = self.rows[row];
        at.list(&self.pairs, beam, at.size - 1)
    }

    /// The first node of a beam: the root of a finished row.
    pub fn root(&self, row: usize, beam: usize) -> u32 {
        self.beam(row, beam)[0]
    }

    /// Pairs that the start of the level or the last step made, in the order in which they follow the earlier pair scores.
    pub fn fresh(&self) -> Pairs<'_> {
        self.made.fresh.view()
    }

    /// What the last step merges: the nodes to be composed, in the order in which they follow the earlier nodes.
    pub fn merges(&self) -> Pairs<'_> {
        self.made.merges.view()
    }

    /// Mixtures of nodes that the last step made, in the order in which they follow the earlier nodes.
    pub fn blends(&self) -> Blends<'_> {
        self.blends.view()
    }

    /// Nodes that exist once merges, blends and fresh pairs are composed.
    pub fn nodes(&self) -> usize {
        self.made.nodes as usize
    }

    /// Pairs that exist once the fresh ones are scored.
    pub fn pairs(&self) -> usize {
        self.made.pairs()
    }

    /// Adds the start of a level, whose pairs are scored before its first step, to the record.
    pub fn record_start(&self, record: &mut SearchRecord) {
        let fresh = self.made.fresh.view();
        let composed = if self.rules.compose == Compose::Every { fresh.left.len() as u32 } else { 0 };
        let none = Pairs { left: &[], right: &[] };
        record.begin(self.made.nodes - composed, none, self.blends.view(), fresh, self.pairs());
    }
}
