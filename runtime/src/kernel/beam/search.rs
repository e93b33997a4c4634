//! The state of a search over many rows, and its step.

use std::ops::Range;

use super::align::Slots;
use super::choose::{Beams, Candidate, Chosen, choose};
use super::noise::Noise;
use super::record::Record;
use super::soft::{BlendTable, Blends, Softener};
use crate::kernel::Real;
use crate::kernel::parallel::{Parts, each};

/// Stands where a pair has no score, for it is never chosen among others.
pub(super) const UNSCORED: u32 = u32::MAX;

/// Which pairs the cell composes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compose {
    /// Those that were chosen; a pair is scored from its two nodes.
    #[default]
    Chosen,
    /// Every pair, as soon as it exists; it is scored from its parent.
    Every,
}

/// What happens to candidates for which there is no beam.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// They are dropped.
    #[default]
    Prune,
    /// The last beam is the mean of what it and they would be, by the softmax of their scores. Needs [`Compose::Every`].
    Soften,
}

/// How a search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The largest number of beams of a row, at least 1.
    pub width: usize,
    /// Which pairs are composed.
    pub compose: Compose,
    /// What happens to the others.
    pub overflow: Overflow,
    /// Whether a pair that several beams of a row choose, now or later, is composed once. The values are the same if the cell
    /// gives equal values for equal pairs, so not with dropout.
    pub share: bool,
}

/// Beams of a row after a step: `live` of them over `size` nodes before it.
pub fn live_after(live: usize, size: usize, width: usize) -> usize {
    if size <= 2 { live } else { live.saturating_mul(width.min(size - 1)).min(width) }
}

/// Merges in the whole search of a row of `length` nodes that begins with `live` beams: lengths alone decide. With
/// [`Rules::share`] it is an upper bound of what is composed.
pub fn merges_of(length: usize, mut live: usize, width: usize) -> usize {
    let mut merges = 0;
    for size in (2..=length).rev() {
        live = live_after(live, size, width);
        merges += live;
    }
    merges
}

/// Pairs of nodes: two lists of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a> {
    /// The left nodes.
    pub left: &'a [u32],
    /// The right nodes.
    pub right: &'a [u32],
}

/// Growing lists of pairs.
#[derive(Debug, Default)]
pub(super) struct PairTable {
    pub(super) left: Vec<u32>,
    pub(super) right: Vec<u32>,
}

impl PairTable {
    pub(super) fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
    }

    fn push(&mut self, left: u32, right: u32) {
        self.left.push(left);
        self.right.push(right);
    }

    pub(super) fn view(&self) -> Pairs<'_> {
        self.part(0..self.left.len())
    }

    pub(super) fn part(&self, range: Range<usize>) -> Pairs<'_> {
        Pairs { left: &self.left[range.clone()], right: &self.right[range] }
    }

    /// Appends these; returns where they stand.
    pub(super) fn extend(&mut self, pairs: Pairs) -> Range<usize> {
        let start = self.left.len();
        self.left.extend(pairs.left);
        self.right.extend(pairs.right);
        start..self.left.len()
    }
}

/// One row: where its lists lie and what is left of it.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Where the list of its first beam begins; one beam has `length` places.
    first: usize,
    length: usize,
    size: usize,
    live: usize,
    /// Which of the two copies of the lists is current.
    side: usize,
}

impl Row {
    fn list<'a>(&self, lists: &'a [Vec<u32>; 2], beam: usize, len: usize) -> &'a [u32] {
        &lists[self.side][self.first + beam * self.length..][..len]
    }

    /// The place of the next list of a beam.
    fn next(&self, beam: usize, len: usize) -> Range<usize> {
        let start = self.first + beam * self.length;
        start..start + len
    }
}

/// Stands where there is no node or no further pair.
const NONE: u32 = u32::MAX;

/// A pair that exists.
#[derive(Clone, Copy, Debug)]
struct Known {
    left: u32,
    right: u32,
    /// The pair before it with the same younger node.
    older: u32,
    /// What it was composed to.
    parent: u32,
}

/// Numbers of nodes and pairs that exist, and the pairs that the last step made.
#[derive(Debug, Default)]
struct Made {
    rules: Rules,
    nodes: u32,
    known: Vec<Known>,
    /// The last pair whose younger node is this one; nodes behind the end have none.
    newest: Vec<u32>,
    fresh: PairTable,
    merges: PairTable,
}

impl Made {
    fn begin(&mut self, rules: Rules, nodes: usize) {
        self.rules = rules;
        self.nodes = nodes as u32;
        self.known.clear();
        self.newest.clear();
    }

    /// Whether pairs of a row with so many nodes are scored or composed before one is chosen.
    fn wants_pairs(&self, size: usize) -> bool {
        size > if self.rules.compose == Compose::Every { 1 } else { 2 }
    }

    /// The number of a pair. A pair has few neighbours that are older than its younger node, so the search is short.
    fn pair(&mut self, left: u32, right: u32) -> u32 {
        let young = left.max(right) as usize;
        if self.newest.len() <= young {
            self.newest.resize(young + 1, NONE);
        }
        let mut at = self.newest[young];
        while at != NONE {
            let known = self.known[at as usize];
            if (known.left, known.right) == (left, right) {
                return at;
            }
            at = known.older;
        }
        self.fresh.push(left, right);
        let mut parent = NONE;
        if self.rules.compose == Compose::Every {
            parent = self.nodes;
            self.nodes += 1;
        }
        let pair = self.known.len() as u32;
        self.known.push(Known { left, right, older: self.newest[young], parent });
        self.newest[young] = pair;
        pair
    }

    /// The node that a chosen pair becomes.
    fn merge(&mut self, pair: u32, left: u32, right: u32) -> u32 {
        let known = self.known.get_mut(pair as usize);
        if let Some(known) = &known
            && known.parent != NONE
        {
            return known.parent;
        }
        self.merges.push(left, right);
        let node = self.nodes;
        self.nodes += 1;
        if let Some(known) = known
            && self.rules.share
        {
            known.parent = node;
        }
        node
    }
}

/// A search over the rows of one level after the other. Keep it: it uses its memory again.
#[derive(Debug, Default)]
pub struct Search {
    rules: Rules,
    rows: Vec<Row>,
    busy: Vec<u32>,
    nodes: [Vec<u32>; 2],
    pairs: [Vec<u32>; 2],
    /// Accumulated scores, `width` places per row.
    scores: [Vec<f64>; 2],
    made: Made,
    /// Of each row `width^2` places.
    candidates: Vec<Candidate>,
    /// Of each row `width` places.
    norms: Vec<f64>,
    chosen: Vec<Chosen>,
    /// The new node of each survivor and its pairs to the left and right; of each row `width` places.
    merged: Vec<[u32; 3]>,
    softener: Softener,
    blends: BlendTable,
    /// Roots and scores of the level before, while the next one is built.
    ends: (Vec<u32>, Vec<f64>),
}

impl Search {
    /// Begins with the leaves `[positions, d]` as node table: row `r` has positions `offsets[r]..offsets[r + 1]`, one beam and
    /// score 0. No row may be empty.
    pub fn leaves(&mut self, rules: Rules, offsets: &[usize]) {
        debug_assert!(rules.width > 0 && offsets.windows(2).all(|row| row[0] < row[1]));
        debug_assert!(rules.compose == Compose::Every || rules.overflow == Overflow::Prune);
        self.rules = rules;
        self.made.begin(rules, offsets[offsets.len() - 1]);
        self.load(offsets, |_| 1, |_, position| (position as u32, 0.0));
    }

    /// Begins the next level: row `r` is made of the roots of rows `offsets[r]..offsets[r + 1]` of this level, in the beams that
    /// `slots` picks; its scores are the sums of theirs. All rows must be finished.
    pub fn join(&mut self, slots: &Slots, offsets: &[usize]) {
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
        self.chosen.resize(rows, Chosen::default());
        self.merged.resize(rows * width, [UNSCORED; 3]);
        self.rows.clear();
        self.busy.clear();
        self.made.fresh.clear();
        self.made.merges.clear();
        self.blends.clear();
        for (index, span) in offsets.windows(2).enumerate() {
            let length = span[1] - span[0];
            let row = Row { first: width * span[0], length, size: length, live: live(index), side: 0 };
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
    fn first_pairs(&mut self, row: Row, slot: usize) {
        let wanted = self.made.wants_pairs(row.size);
        for at in row.next(slot, row.size - 1) {
            let (left, right) = (self.nodes[0][at], self.nodes[0][at + 1]);
            self.pairs[0][at] = if wanted { self.made.pair(left, right) } else { UNSCORED };
        }
    }

    /// Whether a row has more than one node left.
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Rows of this level.
    pub fn rows(&self) -> usize {
        self.rows.len()
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
        self.made.known.len()
    }

    /// One merge in every beam of every row that is not finished; `pair_scores` has an entry per pair.
    pub fn step<T: Real>(&mut self, pair_scores: &[T], noise: Noise, record: Option<&mut Record>) {
        debug_assert_eq!(pair_scores.len(), self.pairs());
        self.choose(pair_scores, noise);
        self.made.merges.clear();
        self.made.fresh.clear();
        self.blends.clear();
        self.softener.clear();
        let first_node = self.made.nodes;
        self.number_merges();
        self.number_pairs();
        if let Some(record) = record {
            self.write_down(record, first_node);
        }
        self.rewrite();
        for &row in &self.busy {
            let (chosen, row) = (self.chosen[row as usize], &mut self.rows[row as usize]);
            row.size -= 1;
            row.live = chosen.hard + usize::from(chosen.soft > 0);
            row.side = 1 - row.side;
        }
        let rows = &self.rows;
        self.busy.retain(|&row| rows[row as usize].size > 1);
    }

    /// Every row chooses for itself.
    fn choose<T: Real>(&mut self, pair_scores: &[T], noise: Noise) {
        let (rules, square) = (self.rules, self.rules.width * self.rules.width);
        let candidates = Parts::new(&mut self.candidates);
        let norms = Parts::new(&mut self.norms);
        let chosen = Parts::new(&mut self.chosen);
        let cost = if noise.is_some() { 64 } else { 8 };
        let work: usize = self.busy.iter().map(|&r| self.rows[r as usize]).map(|r| r.size * r.live * cost).sum();
        each(self.busy.len(), work, |i| {
            let index = self.busy[i] as usize;
            let row = self.rows[index];
            let beams = Beams {
                row: index,
                step: row.length - row.size,
                size: row.size,
                pairs: &self.pairs[row.side][row.first..],
                stride: row.length,
                scores: &self.scores[row.side][index * rules.width..][..row.live],
            };
            // SAFETY: every row has places of its own, and is in the list once.
            unsafe {
                let candidates = candidates.part(index * square..(index + 1) * square);
                let norms = norms.part(index * rules.width..(index + 1) * rules.width);
                *chosen.at(index) = choose(&beams, pair_scores, rules, noise, candidates, norms);
            }
        });
    }

    /// Numbers the new nodes, row by row and beam by beam.
    fn number_merges(&mut self) {
        let width = self.rules.width;
        for &index in &self.busy {
            let (row, index) = (self.rows[index as usize], index as usize);
            let chosen = self.chosen[index];
            let candidates = &mut self.candidates[index * width * width..];
            for (beam, candidate) in candidates[..chosen.hard].iter().enumerate() {
                let (from, at) = (candidate.beam as usize, candidate.position as usize);
                let nodes = row.list(&self.nodes, from, row.size);
                let pair = row.list(&self.pairs, from, row.size - 1)[at];
                let node = self.made.merge(pair, nodes[at], nodes[at + 1]);
                self.merged[index * width + beam] = [node, UNSCORED, UNSCORED];
            }
            if chosen.soft > 0 {
                let (now, next) = self.nodes.split_at_mut(1);
                let (now, next) = if row.side == 0 { (&now[0], &mut next[0]) } else { (&next[0], &mut now[0]) };
                let nodes = |beam: usize, at: usize| now[row.first + beam * row.length + at];
                let parent = |beam: usize, at: usize| {
                    let pair = self.pairs[row.side][row.first + beam * row.length + at];
                    self.made.known[pair as usize].parent
                };
                let tail = &mut candidates[chosen.hard..chosen.hard + chosen.soft];
                let list = &mut next[row.next(chosen.hard, row.size - 1)];
                let (sizes, blends) = ((row.live, row.size), &mut self.blends);
                self.made.nodes += self.softener.soften(tail, sizes, nodes, parent, blends, self.made.nodes, list);
            }
        }
    }

    /// Numbers the new pairs, row by row and beam by beam, the left one first.
    fn number_pairs(&mut self) {
        let width = self.rules.width;
        let mut softened = 0;
        for &index in &self.busy {
            let (row, index) = (self.rows[index as usize], index as usize);
            let left = row.size - 1;
            let chosen = self.chosen[index];
            let candidates = &self.candidates[index * width * width..];
            if self.made.wants_pairs(left) {
                for (beam, candidate) in candidates[..chosen.hard].iter().enumerate() {
                    let (from, at) = (candidate.beam as usize, candidate.position as usize);
                    let nodes = row.list(&self.nodes, from, row.size);
                    let merged = &mut self.merged[index * width + beam];
                    if at > 0 {
                        merged[1] = self.made.pair(nodes[at - 1], merged[0]);
                    }
                    if at + 1 < left {
                        merged[2] = self.made.pair(merged[0], nodes[at + 2]);
                    }
                }
            }
            if chosen.soft > 0 {
                let mixed = self.softener.mixed(softened);
                softened += 1;
                let next = row.next(chosen.hard, left);
                for at in 0..left - 1 {
                    let list = &self.nodes[1 - row.side][next.clone()];
                    let pair = match mixed.pair_of(list, at) {
                        Some((beam, pair)) => row.list(&self.pairs, beam, row.size - 1)[pair],
                        None => self.made.pair(list[at], list[at + 1]),
                    };
                    self.pairs[1 - row.side][next.start + at] = pair;
                }
            }
        }
    }

    /// Writes the lists of the next step beside those of this one.
    fn rewrite(&mut self) {
        let width = self.rules.width;
        let work: usize = self.busy.iter().map(|&r| self.rows[r as usize].size * width / 2).sum();
        let [nodes, pairs] = [&mut self.nodes, &mut self.pairs].map(|lists| {
            let [a, b] = lists;
            [Parts::new(a), Parts::new(b)]
        });
        let scores = {
            let [a, b] = &mut self.scores;
            [Parts::new(a), Parts::new(b)]
        };
        each(self.busy.len(), work, |i| {
            let index = self.busy[i] as usize;
            let row = self.rows[index];
            let (size, now, next) = (row.size, row.side, 1 - row.side);
            let chosen = self.chosen[index];
            let candidates = &self.candidates[index * width * width..][..chosen.hard + chosen.soft];
            for (beam, candidate) in candidates[..chosen.hard].iter().enumerate() {
                let [node, left, right] = self.merged[index * width + beam];
                let at = candidate.position as usize;
                let from = row.next(candidate.beam as usize, size);
                // SAFETY: rows are disjoint, and so are the two sides of a row.
                unsafe {
                    let (old, new) = (nodes[now].part(from.clone()), nodes[next].part(row.next(beam, size - 1)));
                    new[..at].copy_from_slice(&old[..at]);
                    new[at] = node;
                    new[at + 1..].copy_from_slice(&old[at + 2..]);
                    let old = pairs[now].part(from.start..from.end - 1);
                    let new = pairs[next].part(row.next(beam, size - 2));
                    if at > 0 {
                        new[..at - 1].copy_from_slice(&old[..at - 1]);
                        new[at - 1] = left;
                    }
                    if at + 2 < size {
                        new[at] = right;
                        new[at + 1..].copy_from_slice(&old[at + 2..]);
                    }
                }
            }
            // SAFETY: every row has places of its own.
            let scores = unsafe { scores[next].part(index * width..(index + 1) * width) };
            for (score, candidate) in scores.iter_mut().zip(&candidates[..chosen.hard]) {
                *score = candidate.score;
            }
            if chosen.soft > 0 {
                scores[chosen.hard] = candidates[chosen.hard..].iter().map(|c| c.weight * c.score).sum();
            }
        });
    }

    /// Adds the step to the record; the lists are still those before it.
    fn write_down(&self, record: &mut Record, first_node: u32) {
        let width = self.rules.width;
        record.begin(first_node, self.made.merges.view(), self.blends.view(), self.made.fresh.view(), self.pairs());
        let mut blends = 0;
        let mut softened = 0;
        for &index in &self.busy {
            let index = index as usize;
            let (row, chosen) = (self.rows[index], self.chosen[index]);
            if chosen.soft > 0 {
                blends = self.softener.mixed(softened).blends();
                softened += 1;
            }
            let candidates = &self.candidates[index * width * width..][..chosen.hard + chosen.soft];
            let pairs = |beam: usize| row.list(&self.pairs, beam, row.size - 1);
            let norms = &self.norms[index * width..][..row.live];
            record.row(index, row.size, chosen, candidates, norms, pairs, blends);
        }
    }

    /// Adds the start of a level, whose pairs are scored before its first step, to the record.
    pub fn record_start(&self, record: &mut Record) {
        let fresh = self.made.fresh.view();
        let composed = if self.rules.compose == Compose::Every { fresh.left.len() as u32 } else { 0 };
        let none = Pairs { left: &[], right: &[] };
        record.begin(self.made.nodes - composed, none, self.blends.view(), fresh, self.pairs());
    }
}
