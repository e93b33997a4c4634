//! How much a beam search does: merges, scored pairs and steps of a row, from its length alone.
//!
//! Which pairs are joined follows from their scores, so an executor shares the cut of a level, and asks its search for the pairs of a
//! turn; how many there are is the same for all choices, but for beams that share pairs.

use std::iter;

use super::fold::row_levels;
use super::{Chunk, Levels, LoopSchedule as _};
use crate::ir::attribute::{self, Compose, Overflow};
use crate::ir::graph::Node;
use crate::ir::loops::Cut;
use crate::ir::ops::Op;

/// The rules of a search that decide how much it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeamRules {
    /// How the rows of a level are cut; one chunk each where there is no outer fold.
    pub cut: Cut,
    /// The largest number of beams.
    pub size: usize,
    /// Whether all pairs are joined before one is chosen.
    pub every: bool,
    /// Whether the last beam is a mean: all pairs of it are new in every step.
    pub soft: bool,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Steps, one after the other, in all levels.
    Steps,
    /// Pairs that are joined; fewer where beams share what they join.
    Joined,
    /// Pairs that are scored: those beside a merge, where any position is as likely as another one.
    Scored,
    /// Nodes that are made: by joining, and of the means of softened beams.
    Made,
}

/// What a search does in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// See [`Count::Joined`].
    pub joined: f64,
    /// See [`Count::Scored`].
    pub scored: f64,
    /// Means of nodes, at most.
    pub mixed: f64,
    /// Beams at the end.
    pub live: usize,
}

/// Steps of a chunk one after the other that are alike: each leaves a node less, from `high` nodes before the first down to
/// `low` before the last, and all have `live` beams before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Nodes before the first step.
    pub high: usize,
    /// Nodes before the last step.
    pub low: usize,
    /// Beams before every step.
    pub live: usize,
}

impl Stretch {
    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.high - self.low + 1
    }

    /// Nodes before a step, on the mean.
    fn mean(&self) -> f64 {
        (self.high + self.low) as f64 / 2.0
    }
}

/// The harmonic number `1 + 1/2 + ... + 1/n`; of large `n` by its asymptotic series, right to the last digit.
fn harmonic(n: usize) -> f64 {
    const EULER: f64 = 0.577_215_664_901_532_9;
    if n < 100 {
        return (1..=n).rev().map(|k| 1.0 / k as f64).sum();
    }
    let (n, inverse) = (n as f64, 1.0 / n as f64);
    let square = inverse * inverse;
    n.ln() + EULER + inverse / 2.0 - square / 12.0 + square * square / 120.0
}

/// Beams of a row after a step: `live` of them over `size` nodes before it.
pub fn live_after(live: usize, size: usize, beams: usize) -> usize {
    if size <= 2 { live } else { live.saturating_mul(beams.min(size - 1)).min(beams) }
}

/// Pairs of every row in a turn: those that it joins, and those that are scored after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnPairs {
    /// Pairs that are joined, by row.
    pub joined: Vec<usize>,
    /// Pairs that are scored, by row.
    pub scored: Vec<usize>,
}

impl BeamRules {
    /// The rules of a `beam`; `None` for any other node.
    pub fn of(node: &Node) -> Option<Self> {
        let size = node.find(attribute::BEAMS).filter(|_| node.op == Op::Beam)?;
        let every = node.get(attribute::COMPOSE) == Compose::Every;
        let soft = node.get(attribute::OVERFLOW) == Overflow::Soften;
        // Levels of a search cut from the left, and a row of one node is done.
        let cut = Cut::of(node).map_or(Cut::whole(), |cut| Cut { first: false, single: false, ..cut });
        Some(Self { cut, size, every, soft })
    }

    /// Pairs that are new after a step in which a chunk with `live` beams had `size` nodes: those beside the merges, where any
    /// position is as likely as another one.
    pub fn fresh(&self, live: usize, size: usize) -> f64 {
        if !self.scores(size - 1) {
            return 0.0;
        }
        let beside = 2.0 - 2.0 / (size - 1) as f64;
        let after = live_after(live, size, self.size);
        if self.mixes(live, size) { (after - 1) as f64 * beside + (size - 2) as f64 } else { after as f64 * beside }
    }

    /// Whether the last beam is a mean after a step in which a chunk with `live` beams had `size` nodes.
    pub fn mixes(&self, live: usize, size: usize) -> bool {
        self.soft && size > 2 && live.saturating_mul(self.size.min(size - 1)) > self.size
    }

    /// Whether pairs of so many nodes are scored.
    pub fn scores(&self, nodes: usize) -> bool {
        nodes > if self.every { 1 } else { 2 }
    }

    /// The steps of a chunk of so many nodes that begins with `live` beams, those that are alike together: all but a few, since
    /// beams are as many as there may be until few nodes are left.
    pub fn stretches(&self, nodes: usize, mut live: usize) -> impl Iterator<Item = Stretch> {
        let beams = self.size;
        // From so many nodes on every beam can be followed by as many as there may be, and pairs are scored in any search.
        let full = (beams + 1).max(4);
        let mut high = nodes;
        iter::from_fn(move || {
            let low = if live == beams { full.min(high) } else { high };
            let stretch = (high > 1).then_some(Stretch { high, low, live })?;
            live = live_after(live, low, beams);
            high = low - 1;
            Some(stretch)
        })
    }

    /// Pairs that are new in the steps of a stretch, see [`BeamRules::fresh`]: an arithmetic series and a harmonic one.
    fn fresh_in(&self, stretch: &Stretch) -> f64 {
        let Stretch { high, low, live } = *stretch;
        let steps = stretch.steps() as f64;
        if high == low {
            return self.fresh(live, high);
        }
        let beside = 2.0 * (steps - harmonic(high - 1) + harmonic(low - 2));
        if self.mixes(live, high) {
            (live - 1) as f64 * beside + steps * (stretch.mean() - 2.0)
        } else {
            live as f64 * beside
        }
    }

    /// What is done in a chunk of so many nodes that begins with `live` beams.
    pub fn chunk(&self, nodes: usize, live: usize) -> Done {
        let mut done = Done { live, ..Done::default() };
        if self.scores(nodes) {
            done.scored += (live * (nodes - 1)) as f64;
        }
        for stretch in self.stretches(nodes, live) {
            let steps = stretch.steps() as f64;
            done.scored += self.fresh_in(&stretch);
            if self.mixes(stretch.live, stretch.high) {
                done.mixed += steps * (stretch.mean() - 1.0);
            }
            done.live = live_after(stretch.live, stretch.low, self.size);
            done.joined += steps * done.live as f64;
        }
        if self.every {
            done.joined = done.scored;
        }
        done
    }

    /// The chunks of all levels of a row of so many nodes, those that are alike together: how many, their nodes, and the beams with
    /// which they begin.
    pub fn chunks(&self, length: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut live = 1;
        row_levels(self.cut, length as f64).flat_map(move |level| {
            let before = live;
            let ends = level.chunks().map(|(_, nodes)| self.chunk(nodes as usize, before).live);
            live = ends.max().unwrap_or(1);
            level.chunks().map(move |(count, nodes)| (count as usize, nodes as usize, before))
        })
    }

    /// The turns of all levels of a search over rows of these lengths.
    pub fn turns(&self, lengths: &[usize]) -> Vec<TurnPairs> {
        let (mut levels, mut live) = (Levels::new(self.cut, lengths.to_vec(), 0), vec![1; lengths.len()]);
        let mut turns = vec![];
        while levels.alike() > 0 {
            let chunk = |chunk: Chunk| (chunk.row, chunk.length, live[chunk.row]);
            let mut chunks: Vec<_> = levels.chunks().map(chunk).collect();
            self.level(&mut chunks, lengths.len(), &mut turns);
            live.fill(1);
            chunks.iter().for_each(|(row, _, beams)| live[*row] = live[*row].max(*beams));
            levels.advance(1);
        }
        turns
    }

    /// The turns of a level, of which the first one joins nothing; a chunk is its row, its nodes and its beams.
    fn level(&self, chunks: &mut [(usize, usize, usize)], rows: usize, turns: &mut Vec<TurnPairs>) {
        let nothing = TurnPairs { joined: vec![0; rows], scored: vec![0; rows] };
        let (first, mut turn) = (turns.len(), nothing.clone());
        for (row, size, live) in chunks.iter().filter(|(_, size, _)| self.scores(*size)) {
            turn.scored[*row] += live * (size - 1);
        }
        turns.push(turn);
        while chunks.iter().any(|(_, size, _)| *size > 1) {
            let (mut turn, mut scored) = (nothing.clone(), vec![0.0; rows]);
            for (row, size, live) in chunks.iter_mut().filter(|(_, size, _)| *size > 1) {
                scored[*row] += self.fresh(*live, *size);
                *live = live_after(*live, *size, self.size);
                *size -= 1;
                turn.joined[*row] += *live;
            }
            turn.scored = scored.into_iter().map(|mean| mean.round() as usize).collect();
            turns.push(turn);
        }
        if self.every {
            turns[first..].iter_mut().for_each(|turn| turn.joined.clone_from(&turn.scored));
        }
    }

    /// The count of a row of so many nodes.
    pub fn count(&self, length: usize, count: Count) -> f64 {
        let total = |part: fn(&Done) -> f64| {
            self.chunks(length).map(|(n, nodes, live)| n as f64 * part(&self.chunk(nodes, live))).sum::<f64>()
        };
        match count {
            // The chunks of a level take their steps together.
            Count::Steps => row_levels(self.cut, length as f64).map(|level| level.longest() - 1.0).sum(),
            Count::Joined => total(|done| done.joined),
            Count::Scored => total(|done| done.scored),
            Count::Made => total(|done| done.joined + done.mixed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted() {
        let whole = BeamRules { cut: Cut::whole(), size: 2, every: false, soft: false };
        // Four nodes: three pairs are scored, then those beside the two merges, and the last merge is not scored.
        assert_eq!([Count::Steps, Count::Joined].map(|c| whole.count(4, c)), [3.0, 2.0 + 2.0 + 2.0]);
        assert_eq!(whole.count(3, Count::Scored), 2.0);
        assert_eq!(whole.count(1, Count::Joined), 0.0);
        let cut = Cut::plain(3);
        let chunked = BeamRules { cut, ..whole };
        // Three, three and one, then three roots with two beams each.
        assert_eq!(chunked.count(7, Count::Steps), 2.0 + 2.0);
        assert_eq!(chunked.count(7, Count::Joined), 2.0 * 4.0 + 4.0);
    }

    /// What a chunk does, step by step as it is defined.
    fn step_by_step(beams: &BeamRules, nodes: usize, live: usize) -> Done {
        let mut done = Done { live, ..Done::default() };
        if beams.scores(nodes) {
            done.scored += (live * (nodes - 1)) as f64;
        }
        for size in (2..=nodes).rev() {
            done.scored += beams.fresh(done.live, size);
            done.mixed += if beams.mixes(done.live, size) { (size - 1) as f64 } else { 0.0 };
            done.live = live_after(done.live, size, beams.size);
            done.joined += done.live as f64;
        }
        if beams.every {
            done.joined = done.scored;
        }
        done
    }

    #[test]
    fn turns_have_the_pairs_of_all_levels() {
        let beams = BeamRules { cut: Cut::plain(3), size: 2, every: false, soft: false };
        let turns = beams.turns(&[7, 1]);
        let joined: Vec<usize> = turns.iter().map(|turn| turn.joined[0]).collect();
        // Two chunks of three nodes and one of a single node, then three roots; a level begins with a turn that joins nothing.
        assert_eq!(joined, [0, 4, 4, 0, 2, 2]);
        assert_eq!(turns.iter().map(|turn| turn.joined[1] + turn.scored[1]).sum::<usize>(), 0);
    }

    #[test]
    fn steps_that_are_alike_are_counted_at_once() {
        let all = [(false, false), (true, false), (false, true), (true, true)];
        for (size, (every, soft)) in [1, 2, 3, 5, 7].into_iter().flat_map(|size| all.map(|kind| (size, kind))) {
            let beams = BeamRules { cut: Cut::whole(), size, every, soft };
            for (nodes, live) in (1..40).chain([99, 100, 101, 102, 103, 1000]).flat_map(|n| [(n, 1), (n, size)]) {
                let (fast, slow) = (beams.chunk(nodes, live), step_by_step(&beams, nodes, live));
                assert_eq!((fast.joined.round(), fast.mixed, fast.live), (slow.joined.round(), slow.mixed, slow.live));
                assert!(
                    (fast.scored - slow.scored).abs() <= 1e-12 * slow.scored,
                    "{beams:?} {nodes}: {fast:?} {slow:?}"
                );
            }
        }
        let huge = BeamRules { cut: Cut::whole(), size: 5, every: false, soft: false };
        assert_eq!(huge.count(1_000_000_000, Count::Steps), 999_999_999.0);
        assert_eq!(huge.stretches(1_000_000_000, 1).count(), 6);
    }
}
