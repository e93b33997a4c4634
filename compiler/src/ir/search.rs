//! How much a beam search does: merges, scored pairs and steps of a row, from its length alone.

use super::graph::Node;
use super::loops::Cut;
use super::ops::Op;
use super::types::Attr;

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

/// Beams of a row after a step: `live` of them over `size` nodes before it.
pub fn live_after(live: usize, size: usize, beams: usize) -> usize {
    if size <= 2 { live } else { live.saturating_mul(beams.min(size - 1)).min(beams) }
}

impl Beams {
    /// The rules of a `beam`; `None` for any other node.
    pub fn of(node: &Node) -> Option<Self> {
        let size = node.attrs.get("beams").and_then(Attr::int).filter(|_| node.op == Op::Beam)?;
        let every = node.attrs.get("compose").and_then(Attr::text) == Some("every");
        let soft = node.attrs.get("overflow").and_then(Attr::text) == Some("soften");
        let size = usize::try_from(size).unwrap_or(1).max(1);
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

    /// What is done in a chunk of so many nodes that begins with `live` beams.
    pub fn chunk(&self, nodes: usize, live: usize) -> Done {
        let mut done = Done { live, ..Done::default() };
        if self.scores(nodes) {
            done.scored += (live * (nodes - 1)) as f64;
        }
        for size in (2..=nodes).rev() {
            done.scored += self.fresh(done.live, size);
            if self.mixes(done.live, size) {
                done.mixed += (size - 1) as f64;
            }
            done.live = live_after(done.live, size, self.size);
            done.joined += done.live as f64;
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
}
