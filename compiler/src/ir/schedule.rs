//! Which rows take part in the steps of a loop, and what part of each: pure rules over lengths, for the executors, the memory
//! estimate and the trees of a report.
//!
//! A schedule keeps one number per row in a list of its user's choice, and hands out its chunks one by one, so that a run in the
//! steady state allocates nothing.

use super::attribute::{self, Chunking};
use std::ops::DerefMut;

use super::graph::Node;
use super::loops::Cut;
use super::number::Number;

/// A chunk of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The row, by its index among those that entered.
    pub row: usize,
    /// Where it starts among the elements that the row has left.
    pub start: usize,
    /// Its elements.
    pub length: usize,
    /// Its elements once it is filled up.
    pub filled: usize,
}

/// The levels of a balanced fold: every level cuts the rows that are going into chunks, which are the elements of the next one.
#[derive(Clone, Debug)]
pub struct Levels<L> {
    cut: Cut,
    /// Elements that every row has left; 0 for a row that is done and has left.
    left: L,
    /// Elements that the longest row has left.
    longest: usize,
    level: usize,
}

impl<L: DerefMut<Target = [usize]>> Levels<L> {
    /// All rows with all their elements; `padded` is the width of the padded batch, which counts as a row.
    pub fn new(cut: Cut, left: L, padded: usize) -> Self {
        let longest = left.iter().copied().fold(padded, usize::max);
        Self { cut, left, longest, level: 0 }
    }

    /// The level that comes next, from 0.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The rows that are going with the elements that they have left.
    pub fn going(&self) -> impl Iterator<Item = (usize, usize)> {
        self.left.iter().copied().enumerate().filter(|(_, left)| *left > 0)
    }

    /// Whether a row with so many elements left is done before the next level. A row of one element may have to make a chunk first.
    pub fn is_done(&self, left: usize) -> bool {
        let settles = self.level > 0 || !self.cut.single;
        settles && if self.cut.by_batch { self.longest == 1 } else { left == 1 }
    }

    /// Rows that are done leave; true if there were any.
    pub fn leave(&mut self) -> bool {
        let mut any = false;
        for row in 0..self.left.len() {
            if self.left[row] > 0 && self.is_done(self.left[row]) {
                (self.left[row], any) = (0, true);
            }
        }
        any
    }

    /// Whether all rows have left.
    pub fn is_over(&self) -> bool {
        self.left.iter().all(|left| *left == 0)
    }

    /// Cuts the rows that are going, and hands out the chunks row by row, from left to right.
    pub fn cut(&mut self, mut chunk: impl FnMut(Chunk)) {
        let (cut, level) = (self.cut, self.level);
        for (row, left) in self.left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            let width = cut.width(if cut.by_batch { self.longest } else { *left });
            for (start, length) in cut.chunks(*left, width) {
                chunk(Chunk { row, start, length, filled: cut.filled(length, level) });
            }
            *left = left.div_ceil(width);
        }
        self.longest = self.longest.div_ceil(cut.width(self.longest));
        self.level += 1;
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
        let balanced = match node.get(attribute::CUT) {
            Chunking::Position => false,
            Chunking::Balanced => true,
        };
        Self { balanced, count: node.find(attribute::COUNT), size: node.find(attribute::SIZE) }
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

    fn levels(cut: Cut, lengths: &[usize]) -> Vec<Vec<(usize, usize, usize)>> {
        let (mut levels, mut all) = (Levels::new(cut, lengths.to_vec(), 0), vec![]);
        loop {
            levels.leave();
            if levels.is_over() {
                return all;
            }
            let mut chunks = vec![];
            levels.cut(|chunk| chunks.push((chunk.row, chunk.start, chunk.length)));
            all.push(chunks);
        }
    }

    #[test]
    fn rows_leave_a_fold_when_one_element_is_left() {
        let two = Cut { strict: true, ..Cut::plain(2) };
        assert_eq!(levels(two, &[1, 3]), [vec![(1, 0, 2), (1, 2, 1)], vec![(1, 0, 2)]]);
        let by_batch = Cut { by_batch: true, ..two };
        assert_eq!(levels(by_batch, &[1, 3]), [vec![(0, 0, 1), (1, 0, 2), (1, 2, 1)], vec![(0, 0, 1), (1, 0, 2)]]);
        assert_eq!(levels(Cut { single: true, ..two }, &[1]), [[(0, 0, 1)]]);
        assert_eq!(levels(Cut { first: true, ..two }, &[3]), [vec![(0, 0, 1), (0, 1, 2)], vec![(0, 0, 2)]]);
    }

    #[test]
    fn the_padded_width_decides_for_all_rows() {
        let balanced = Widths { balanced: true, count: None, size: Some(4) };
        assert_eq!([(9, 9), (5, 9)].map(|(length, padded)| balanced.width(length, padded)), [3, 3]);
        let own = Widths { balanced: false, count: Some(2), size: None };
        assert_eq!([(9, 9), (5, 9), (0, 9)].map(|(length, padded)| own.width(length, padded)), [5, 3, 1]);
    }
}
