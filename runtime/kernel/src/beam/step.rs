//! The step of a search: every row chooses, new nodes and pairs get their numbers in order, and the lists are written anew.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

use super::choose::{RowBeams, choose};
use super::noise::Noise;
use super::pairs::UNSCORED;
use super::record::SearchRecord;
use super::search::Search;
use crate::Real;
use crate::parallel::{DisjointSlice, each};

impl Search {
    /// One merge in every beam of every row that is not finished; `pair_scores` has an entry per pair.
    pub fn step<T: Real>(&mut self, pair_scores: &[T], noise: Noise, record: Option<&mut SearchRecord>) {
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
        let candidates = DisjointSlice::new(&mut self.candidates);
        let norms = DisjointSlice::new(&mut self.norms);
        let chosen = DisjointSlice::new(&mut self.chosen);
        let cost = if noise.is_some() { 64 } else { 8 };
        let work: usize = self.busy.iter().map(|&r| self.rows[r as usize]).map(|r| r.size * r.live * cost).sum();
        each(self.busy.len(), work, |i| {
            let index = self.busy[i] as usize;
            let row = self.rows[index];
            let beams = RowBeams {
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
                    self.made.parent(pair)
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
        let [nodes, pairs] =
            [&mut self.nodes, &mut self.pairs].map(|lists| lists.each_mut().map(|list| DisjointSlice::new(list)));
        let scores = self.scores.each_mut().map(|list| DisjointSlice::new(list));
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
    fn write_down(&self, record: &mut SearchRecord, first_node: u32) {
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
}
