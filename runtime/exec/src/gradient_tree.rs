//! The tree in which the gradients of micro-batches are summed: which sums are made, and in which order.
//!
//! The leaves are the micro-batches of an update, in their order. Of `n` leaves, the left part are the largest power of two below `n`,
//! and the right part are the others. So every block of `2^k` leaves that begins at a multiple of `2^k` is a node, whatever `n` is: sums
//! can be made while leaves come, before it is known how many there are, and in several places at once. Floating-point addition is not
//! associative, so one tree for all is what makes the bits of an update independent of who computes what.

use std::ops::Range;

/// Neighbouring leaves that are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafBlock {
    /// The first of them.
    pub start: u64,
    /// How many.
    pub leaves: u64,
}

impl LeafBlock {
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
pub fn blocks(leaves: impl IntoIterator<Item = Range<u64>>) -> Vec<LeafBlock> {
    let mut found: Vec<LeafBlock> = vec![];
    for leaf in leaves.into_iter().flatten() {
        let mut block = LeafBlock::leaf(leaf);
        while let Some(before) = found.pop_if(|before| before.joins(block)) {
            block = before.with(block);
        }
        found.push(block);
    }
    found
}

/// The sum over all leaves of the sums of nodes, which may come in any order and together have every leaf once; nothing of none.
/// `add` adds its first argument to its second one.
pub fn sum<T>(mut parts: Vec<(LeafBlock, T)>, add: impl Fn(&T, &mut T)) -> Option<T> {
    parts.sort_by_key(|(block, _)| block.start);
    let mut stack: Vec<(LeafBlock, T)> = vec![];
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

/// How many leaves each rank gets: neighbours, whose part ends where the costs so far are nearest to an equal share for every rank. Leaves
/// of one cost are so dealt as evenly as they can be.
pub fn deal(costs: &[u64], ranks: usize) -> Vec<u64> {
    let whole: u128 = costs.iter().map(|cost| u128::from(*cost)).sum();
    let (mut at, mut spent) = (0, 0);
    let part = |rank: usize| {
        let (share, start) = (whole * (rank as u128 + 1), at);
        let far = |spent: u128| (spent * ranks as u128).abs_diff(share);
        while let Some(cost) = costs.get(at)
            && (rank + 1 == ranks || far(spent + u128::from(*cost)) <= far(spent))
        {
            spent += u128::from(*cost);
            at += 1;
        }
        (at - start) as u64
    };
    (0..ranks).map(part).collect()
}

/// The leaves of a rank, where each got so many.
pub fn dealt(counts: &[u64], rank: usize) -> Range<u64> {
    let start = counts.iter().take(rank).sum();
    start..start + counts.get(rank).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::iter::once;

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

    fn named(block: LeafBlock) -> (LeafBlock, String) {
        (block, defined(block.start..block.start + block.leaves))
    }

    fn whole(parts: Vec<(LeafBlock, String)>) -> Option<String> {
        sum(parts, |left, right| *right = format!("({left}+{right})"))
    }

    #[test]
    fn every_dealing_gives_the_tree_of_its_definition() {
        for leaves in 1..=33 {
            for ranks in 1..=9 {
                let uneven: Vec<u64> = (0..leaves).map(|leaf| 1 + leaf * leaf % 7).collect();
                for costs in [vec![1; leaves as usize], uneven] {
                    let counts = deal(&costs, ranks);
                    let of = |rank| blocks([dealt(&counts, rank)]).into_iter().map(named);
                    let mut parts: Vec<_> = (0..ranks).flat_map(of).collect();
                    parts.reverse();
                    assert_eq!(whole(parts), Some(defined(0..leaves)), "{leaves} leaves on {ranks} ranks");
                }
            }
        }
        assert_eq!(whole(vec![]), None);
    }

    #[test]
    fn leaves_are_dealt_as_evenly_as_they_can_be() {
        for leaves in 0..40 {
            for ranks in 1..9 {
                let counts = deal(&vec![3; leaves], ranks);
                let each = (leaves / ranks) as u64..=leaves.div_ceil(ranks) as u64;
                assert!(counts.iter().all(|count| each.contains(count)), "{leaves} on {ranks}: {counts:?}");
                assert_eq!(counts.iter().sum::<u64>(), leaves as u64);
            }
        }
        assert_eq!(deal(&[1; 5], 3), [2, 1, 2]);
        let ranges: Vec<_> = (0..3).map(|rank| dealt(&[2, 1, 2], rank)).collect();
        assert_eq!(ranges, [0..2, 2..3, 3..5]);
    }

    #[test]
    fn leaves_that_cost_more_are_dealt_in_smaller_parts() {
        assert_eq!(deal(&[6, 2, 2, 2], 2), [1, 3]);
        assert_eq!(deal(&[1, 1, 1, 1, 4, 4], 3), [4, 1, 1]);
        assert_eq!(deal(&[0, 0], 2).iter().sum::<u64>(), 2, "rows without a token are dealt, too");
        assert_eq!(deal(&[u64::MAX; 4], 2), [2, 2]);
        // No part is longer than an equal share and half a leaf at either end.
        for ranks in 2..9 {
            let costs: Vec<u64> = (0..64).map(|leaf| 5 + leaf * 37 % 23).collect();
            let (whole, most) = (costs.iter().sum::<u64>(), *costs.iter().max().expect("there are some"));
            let counts = deal(&costs, ranks);
            let of = |rank| dealt(&counts, rank).map(|leaf| costs[leaf as usize]).sum::<u64>();
            assert!((0..ranks).all(|rank| of(rank) <= whole / ranks as u64 + most + 1), "{counts:?}");
        }
    }

    #[test]
    fn a_rank_keeps_a_sum_for_each_power_of_two_at_most() {
        for leaves in 1..200_u64 {
            let most = (1..=leaves).map(|n| blocks(once(0..n)).len()).max();
            assert!(most.is_some_and(|most| most as u32 <= leaves.ilog2() + 1), "{leaves}");
        }
        assert_eq!(blocks(once(1..6)), [(1, 1), (2, 2), (4, 2)].map(|(start, leaves)| LeafBlock { start, leaves }));
        assert_eq!(blocks([0..2, 4..6]).len(), 2, "what lies between is missing");
    }
}
