//! How much a beam search does: merges, scored pairs and steps of a row, from its length alone.

use super::attribute::{self, Compose, Overflow};
use std::iter;

use super::graph::Node;
use super::loops::Cut;
use super::ops::Op;

/// The rules of a search that decide how much it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beams {
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

impl Beams {
    /// The rules of a `beam`; `None` for any other node.
    pub fn of(node: &Node) -> Option<Self> {
        let size = node.find(attribute::BEAMS).filter(|_| node.op == Op::Beam)?;
        let every = node.get(attribute::COMPOSE) == Compose::Every;
        let soft = node.get(attribute::OVERFLOW) == Overflow::Soften;
        Some(Self { cut: Cut::of(node).unwrap_or(Cut::whole()), size, every, soft })
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

    /// Pairs that are new in the steps of a stretch, see [`Beams::fresh`]: an arithmetic series and a harmonic one.
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

    /// The count of a row of so many nodes.
    pub fn count(&self, mut length: usize, count: Count) -> f64 {
        let (mut sum, mut live) = (0.0, 1);
        while length > 1 {
            let width = self.cut.width(length);
            let full = length.div_ceil(width) - 1;
            let chunks = [(full, width), (1, length - full * width)];
            let done = chunks.map(|(n, nodes)| (n as f64, self.chunk(nodes, live)));
            let total = |part: fn(&Done) -> f64| done.iter().map(|(n, done)| n * part(done)).sum::<f64>();
            sum += match count {
                Count::Steps => (width.min(length) - 1) as f64,
                Count::Joined => total(|done| done.joined),
                Count::Scored => total(|done| done.scored),
                Count::Made => total(|done| done.joined + done.mixed),
            };
            live = done.iter().filter(|(n, _)| *n > 0.0).map(|(_, done)| done.live).max().unwrap_or(1);
            length = full + 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted() {
        let whole = Beams { cut: Cut::whole(), size: 2, every: false, soft: false };
        // Four nodes: three pairs are scored, then those beside the two merges, and the last merge is not scored.
        assert_eq!([Count::Steps, Count::Joined].map(|c| whole.count(4, c)), [3.0, 2.0 + 2.0 + 2.0]);
        assert_eq!(whole.count(3, Count::Scored), 2.0);
        assert_eq!(whole.count(1, Count::Joined), 0.0);
        let cut = Cut::plain(3);
        let chunked = Beams { cut, ..whole };
        // Three, three and one, then three roots with two beams each.
        assert_eq!(chunked.count(7, Count::Steps), 2.0 + 2.0);
        assert_eq!(chunked.count(7, Count::Joined), 2.0 * 4.0 + 4.0);
    }

    /// What a chunk does, step by step as it is defined.
    fn step_by_step(beams: &Beams, nodes: usize, live: usize) -> Done {
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
    fn steps_that_are_alike_are_counted_at_once() {
        let all = [(false, false), (true, false), (false, true), (true, true)];
        for (size, (every, soft)) in [1, 2, 3, 5, 7].into_iter().flat_map(|size| all.map(|kind| (size, kind))) {
            let beams = Beams { cut: Cut::whole(), size, every, soft };
            for (nodes, live) in (1..40).chain([99, 100, 101, 102, 103, 1000]).flat_map(|n| [(n, 1), (n, size)]) {
                let (fast, slow) = (beams.chunk(nodes, live), step_by_step(&beams, nodes, live));
                assert_eq!((fast.joined.round(), fast.mixed, fast.live), (slow.joined.round(), slow.mixed, slow.live));
                assert!(
                    (fast.scored - slow.scored).abs() <= 1e-12 * slow.scored,
                    "{beams:?} {nodes}: {fast:?} {slow:?}"
                );
            }
        }
        let huge = Beams { cut: Cut::whole(), size: 5, every: false, soft: false };
        assert_eq!(huge.count(1_000_000_000, Count::Steps), 999_999_999.0);
        assert_eq!(huge.stretches(1_000_000_000, 1).count(), 6);
    }
}
