//! The chunk recurrence: every row runs through its chunks from left to right.

use std::ops::Deref;

use super::{Chunk, LoopSchedule};
use crate::ir::attribute::{self, Chunking};
use crate::ir::graph::Node;
use crate::ir::number::Number;

/// The turns of a chunk recurrence: the n-th turn takes the n-th chunk of every row that has one.
#[derive(Clone, Debug)]
pub struct Chunks<L> {
    widths: Widths,
    lengths: L,
    padded: usize,
    turn: usize,
}

impl<L: Deref<Target = [usize]>> Chunks<L> {
    /// Rows of these lengths in a batch of `padded` elements.
    pub fn new(widths: Widths, lengths: L, padded: usize) -> Self {
        Self { widths, lengths, padded, turn: 0 }
    }

    /// The turn that comes next, from 0.
    pub fn turn(&self) -> usize {
        self.turn
    }
}

impl<L: Deref<Target = [usize]>> LoopSchedule for Chunks<L> {
    /// Until a row ends, or the last chunk of a row comes, which may be shorter.
    fn alike(&self) -> usize {
        let left = self.lengths.iter().map(|length| {
            let chunks = length.div_ceil(self.widths.width(*length, self.padded));
            chunks.saturating_sub(self.turn)
        });
        left.filter(|left| *left > 0).map(|left| (left - 1).max(1)).min().unwrap_or(0)
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk> {
        self.lengths.iter().enumerate().filter_map(|(row, length)| {
            let width = self.widths.width(*length, self.padded);
            let start = self.turn * width;
            let length = length.checked_sub(start).filter(|left| *left > 0)?.min(width);
            Some(Chunk { row, start, length, filled: length })
        })
    }

    fn advance(&mut self, turns: usize) {
        self.turn += turns;
    }
}

/// How wide the chunks of a chunk recurrence are.
///
/// `cut: position` cuts each row by itself: into pieces of `size`, or into `count` pieces of equal width. `cut: balanced` is
/// the papers' code: the padded width of the batch decides for all rows, and pieces are of equal width.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    balanced: bool,
    count: Option<usize>,
    size: Option<usize>,
}

impl Widths {
    /// The rule of a `chunks`.
    pub fn of(node: &Node) -> Self {
        let cut = node.get(attribute::CUT);
        // A choice is one piece, of all positions at most.
        let count = if cut == Chunking::Chosen { Some(1) } else { node.find(attribute::COUNT) };
        Self { balanced: cut == Chunking::Balanced, count, size: node.find(attribute::SIZE) }
    }

    /// The width for a row of `length` elements in a batch of `padded` ones.
    pub fn width(self, length: usize, padded: usize) -> usize {
        let length = if self.balanced { length.max(padded) } else { length };
        (self.of_length(&(length as f64)) as usize).max(1)
    }

    /// The width for rows of one length.
    pub fn of_length<N: Number>(self, length: &N) -> N {
        let whole = |n: usize| N::of(n.max(1) as f64);
        match (self.count, self.size) {
            (Some(count), _) => length.pieces(&whole(count)),
            (None, Some(size)) if self.balanced => length.pieces(&length.pieces(&whole(size))),
            (None, size) => whole(size.unwrap_or(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_alike_until_a_row_ends() {
        let widths = Widths { balanced: false, count: None, size: Some(2) };
        let (mut chunks, mut all) = (Chunks::new(widths, vec![7, 2], 7), vec![]);
        while chunks.alike() > 0 {
            let parts = chunks.chunks().map(|chunk| (chunk.row, chunk.start, chunk.length));
            all.push((parts.collect::<Vec<_>>(), chunks.alike()));
            chunks.advance(chunks.alike());
        }
        assert_eq!(all, [(vec![(0, 0, 2), (1, 0, 2)], 1), (vec![(0, 2, 2)], 2), (vec![(0, 6, 1)], 1)]);
    }

    #[test]
    fn the_padded_width_decides_for_all_rows() {
        let balanced = Widths { balanced: true, count: None, size: Some(4) };
        assert_eq!([(9, 9), (5, 9)].map(|(length, padded)| balanced.width(length, padded)), [3, 3]);
        let own = Widths { balanced: false, count: Some(2), size: None };
        assert_eq!([(9, 9), (5, 9), (0, 9)].map(|(length, padded)| own.width(length, padded)), [5, 3, 1]);
    }
}
