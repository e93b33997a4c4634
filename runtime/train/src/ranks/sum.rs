//! The sum of the gradients of all ranks, in the order of the tree.
//!
//! Each rank owns a slice of the gradient: it gets that slice of the sums of every other rank, adds them up in the order of the tree,
//! and gives the result to all. Where the sums of a rank are one block, as with powers of two, that is the traffic of an ordinary
//! all-reduce: each number is sent twice. The exchange sums nothing itself, so its bits are those of one rank.

use std::ops::Range;

use super::{RankError, Ranks};
use rtc_exec::gradient_tree::{self, LeafBlock, blocks, dealt};

/// The leaves of a rank, where micro-batches were handed out in calls that gave so many to each rank.
pub(super) fn leaves(calls: &[Vec<u64>], rank: usize) -> Vec<Range<u64>> {
    let mut first = 0;
    let of = |counts: &Vec<u64>| {
        let own = dealt(counts, rank);
        let range = first + own.start..first + own.end;
        first += counts.iter().sum::<u64>();
        range
    };
    calls.iter().map(of).collect()
}

/// The sum over all leaves on every rank, of the sums that each has over its own.
pub(super) fn exchange(
    ranks: &dyn Ranks,
    own: &[(LeafBlock, Vec<f32>)],
    len: usize,
    calls: &[Vec<u64>],
) -> Result<Vec<f32>, RankError> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let slice = |rank: usize| len * rank / size..len * (rank + 1) / size;
    let mine = slice(rank);
    let mut parts: Vec<(LeafBlock, Vec<f32>)> =
        own.iter().map(|(block, numbers)| (*block, numbers[mine.clone()].to_vec())).collect();
    for (to, from) in turns(rank, size) {
        let message: Vec<u8> = own.iter().flat_map(|(_, numbers)| bytes(&numbers[slice(to)])).collect();
        let theirs = numbers(&ranks.swap(to, &message, from)?);
        let blocks = blocks(leaves(calls, from));
        if theirs.len() != blocks.len() * mine.len() {
            return Err(RankError::garbled(from));
        }
        let of = |n: usize| theirs[n * mine.len()..(n + 1) * mine.len()].to_vec();
        parts.extend(blocks.into_iter().enumerate().map(|(n, block)| (block, of(n))));
    }
    let sum = gradient_tree::sum(parts, |left, right| add(left, right)).unwrap_or_else(|| vec![0.0; mine.len()]);
    let mut whole = vec![0.0; len];
    whole[mine].copy_from_slice(&sum);
    let message = bytes(&sum);
    for (to, from) in turns(rank, size) {
        let theirs = numbers(&ranks.swap(to, &message, from)?);
        let place = slice(from);
        if theirs.len() != place.len() {
            return Err(RankError::garbled(from));
        }
        whole[place].copy_from_slice(&theirs);
    }
    Ok(whole)
}

/// The partners of a rank, turn by turn: to whom it sends, and from whom it receives. In every turn each rank does both once.
fn turns(rank: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..size).map(move |turn| ((rank + turn) % size, (rank + size - turn) % size))
}

fn add(left: &[f32], right: &mut [f32]) {
    right.iter_mut().zip(left).for_each(|(right, left)| *right += left);
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::super::threads::on_threads;
    use super::*;
    use rtc_base::rng::Key;
    use rtc_exec::gradient_tree::deal;

    /// The gradient of a leaf: numbers of very different sizes, so that every order of a sum rounds differently.
    fn gradient(leaf: u64, len: usize) -> Vec<f32> {
        let key = Key::new(3).at(leaf);
        (0..len as u64).map(|n| (key.normal(2 * n) * (8.0 * key.normal(2 * n + 1)).exp()) as f32).collect()
    }

    fn summed(leaves: impl IntoIterator<Item = Range<u64>>, len: usize) -> Vec<(LeafBlock, Vec<f32>)> {
        let of = |block: LeafBlock| {
            let all = block.start..block.start + block.leaves;
            let parts = all.map(|leaf| (LeafBlock::leaf(leaf), gradient(leaf, len))).collect();
            (block, gradient_tree::sum(parts, |left, right| add(left, right)).expect("a block has a leaf"))
        };
        blocks(leaves).into_iter().map(of).collect()
    }

    #[test]
    fn the_sum_has_the_same_bits_on_any_number_of_ranks() {
        for (counts, len) in [(&[1][..], 5), (&[4], 64), (&[7], 33), (&[8], 1), (&[3, 5], 12), (&[16], 0)] {
            let total = counts.iter().sum();
            let whole = gradient_tree::sum(summed(once(0..total), len), |left, right| add(left, right))
                .expect("there are leaves");
            for size in [1, 2, 3, 4, 8] {
                // Leaves of many costs, so that ranks have more and less than their number.
                let costs = |count: &u64| (0..*count).map(|leaf| 1 + leaf * leaf % 5).collect::<Vec<_>>();
                let calls: Vec<Vec<u64>> = counts.iter().map(|count| deal(&costs(count), size)).collect();
                let found = on_threads(size, |ranks| {
                    let own = summed(leaves(&calls, ranks.rank()), len);
                    exchange(ranks, &own, len, &calls).expect("all ranks are there")
                });
                for found in found {
                    let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found.expect("no panic")), bits(&whole), "{calls:?} on {size}");
                }
            }
        }
    }
}
