//! The tree in which the gradients of micro-batches are summed: which sums are made, and in which order.
//!
//! The leaves are the micro-batches of an update, in their order. Of `n` leaves, the left part are the largest power of two below `n`,
//! and the right part are the others. So every block of `2^k` leaves that begins at a multiple of `2^k` is a node, whatever `n` is: sums
//! can be made while leaves come, before it is known how many there are, and in several places at once. Floating-point addition is not
//! associative, so one tree for all is what makes the bits of an update independent of who computes what.

use std::ops::Range;

/// Neighbouring leaves that are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first of them.
    pub start: u64,
    /// How many.
    pub leaves: u64,
}

impl Block {
    /// One leaf.
    pub fn leaf(start: u64) -> Self {
        Self { start, leaves: 1 }
    }

    /// Whether this block and the next one are the two halves of a node.
    pub fn joins(self, next: Self) -> bool {
        self.leaves == next.leaves
            && self.start + self.leaves == next.start
            && self.start.is_multiple_of(2 * self.leaves)
    }

    /// This block and the next one.
    #[must_use]
    pub fn with(self, next: Self) -> Self {
        Self { start: self.start, leaves: self.leaves + next.leaves }
    }
}

/// The largest nodes that can be made of some leaves, which come in rising order.
pub fn blocks(leaves: impl IntoIterator<Item = u64>) -> Vec<Block> {
    let mut found: Vec<Block> = vec![];
    for leaf in leaves {
        let mut block = Block::leaf(leaf);
        while let Some(before) = found.pop_if(|before| before.joins(block)) {
            block = before.with(block);
        }
        found.push(block);
    }
    found
}

/// The sum over all leaves of the sums of nodes, which may come in any order and together have every leaf once; nothing of none.
/// `add` adds its first argument to its second one.
pub fn sum<T>(mut parts: Vec<(Block, T)>, add: impl Fn(&T, &mut T)) -> Option<T> {
    parts.sort_by_key(|(block, _)| block.start);
    let mut stack: Vec<(Block, T)> = vec![];
    for (mut block, mut value) in parts {
        while let Some((before, left)) = stack.pop_if(|(before, _)| before.joins(block)) {
            add(&left, &mut value);
            block = before.with(block);
        }
        stack.push((block, value));
    }
    let (_, mut whole) = stack.pop()?;
    while let Some((_, left)) = stack.pop() {
        add(&left, &mut whole);
    }
    Some(whole)
}

/// The leaves of one of some ranks: neighbours, as many for each as possible, one more for the first ranks where they do not divide.
pub fn dealt(leaves: u64, rank: usize, ranks: usize) -> Range<u64> {
    let (rank, ranks) = (rank as u64, ranks.max(1) as u64);
    let (each, more) = (leaves / ranks, leaves % ranks);
    let start = rank * each + rank.min(more);
    start..start + each + u64::from(rank < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as its definition says.
    fn defined(leaves: Range<u64>) -> String {
        let count = leaves.end - leaves.start;
        if count == 1 {
            return leaves.start.to_string();
        }
        let left = count.next_power_of_two() / 2;
        let middle = leaves.start + left;
        format!("({}+{})", defined(leaves.start..middle), defined(middle..leaves.end))
    }

    fn named(block: Block) -> (Block, String) {
        (block, defined(block.start..block.start + block.leaves))
    }

    fn whole(parts: Vec<(Block, String)>) -> Option<String> {
        sum(parts, |left, right| *right = format!("({left}+{right})"))
    }

    #[test]
    fn every_dealing_gives_the_tree_of_its_definition() {
        for leaves in 1..=33 {
            for ranks in 1..=9 {
                let of = |rank| blocks(dealt(leaves, rank, ranks)).into_iter().map(named);
                let mut parts: Vec<_> = (0..ranks).flat_map(of).collect();
                parts.reverse();
                assert_eq!(whole(parts), Some(defined(0..leaves)), "{leaves} leaves on {ranks} ranks");
            }
        }
        assert_eq!(whole(vec![]), None);
    }

    #[test]
    fn leaves_are_dealt_as_evenly_as_they_can_be() {
        let of = |leaves, ranks| (0..ranks).map(|rank| dealt(leaves, rank, ranks)).collect::<Vec<_>>();
        assert_eq!(of(8, 2), [0..4, 4..8]);
        assert_eq!(of(5, 3), [0..2, 2..4, 4..5]);
        assert_eq!(of(2, 4), [0..1, 1..2, 2..2, 2..2]);
    }

    #[test]
    fn a_rank_keeps_a_sum_for_each_power_of_two_at_most() {
        for leaves in 1..200_u64 {
            let most = (1..=leaves).map(|n| blocks(0..n).len()).max();
            assert!(most.is_some_and(|most| most as u32 <= leaves.ilog2() + 1), "{leaves}");
        }
        assert_eq!(blocks(1..6), [(1, 1), (2, 2), (4, 2)].map(|(start, leaves)| Block { start, leaves }));
        assert_eq!(blocks((0..2).chain(4..6)).len(), 2, "what lies between is missing");
    }
}
