//! The balanced fold: every level cuts the rows that are going into chunks, which are the elements of the next one.

use std::iter;
use std::ops::DerefMut;

use super::{Chunk, LoopSchedule};
use crate::ir::loops::Cut;

/// The levels of a balanced fold.
#[derive(Clone, Debug)]
pub struct Levels<L> {
    cut: Cut,
    /// Elements that every row has left; 0 for a row that has left.
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

    /// The rows that the last level had, with the elements that they have left.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        self.left.iter().copied().enumerate().filter(|(_, left)| *left > 0)
    }

    /// Whether a row with so many elements left leaves before the next level. A row of one element may have to make a chunk first.
    pub fn is_done(&self, left: usize) -> bool {
        let settles = self.level > 0 || !self.cut.single;
        settles && if self.cut.by_batch { self.longest == 1 } else { left == 1 }
    }

    /// The elements of a chunk of a row with so many elements left.
    fn width(&self, left: usize) -> usize {
        self.cut.width(if self.cut.by_batch { self.longest } else { left })
    }

    fn going(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rows().filter(|(_, left)| !self.is_done(*left))
    }
}

impl<L: DerefMut<Target = [usize]>> LoopSchedule for Levels<L> {
    /// Each level has other rows and lengths.
    fn alike(&self) -> usize {
        usize::from(self.going().next().is_some())
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk> {
        self.going().flat_map(move |(row, left)| {
            let chunk =
                move |(start, length)| Chunk { row, start, length, filled: self.cut.filled(length, self.level) };
            self.cut.chunks(left, self.width(left)).map(chunk)
        })
    }

    fn advance(&mut self, turns: usize) {
        for _ in 0..turns {
            for row in 0..self.left.len() {
                let left = self.left[row];
                self.left[row] = if left == 0 || self.is_done(left) { 0 } else { left.div_ceil(self.width(left)) };
            }
            self.longest = self.longest.div_ceil(self.cut.width(self.longest));
            self.level += 1;
        }
    }
}

/// A level of a row by itself: chunks that are full, and one with what is left.
#[derive(Clone, Copy, Debug)]
pub struct RowLevel {
    /// How many chunks are full.
    pub full: f64,
    /// The elements of each of them.
    pub width: f64,
    /// Those of the last one, from 1 to a full chunk.
    pub rest: f64,
}

impl RowLevel {
    /// The elements of the longest chunk.
    pub fn longest(self) -> f64 {
        if self.full > 0.0 { self.width } else { self.rest }
    }

    /// How many chunks are alike, and their elements.
    pub fn chunks(self) -> impl Iterator<Item = (f64, f64)> {
        [(self.full, self.width), (1.0, self.rest)].into_iter().filter(|(count, _)| *count > 0.0)
    }
}

/// The levels of a row of so many elements, which can be a mean.
pub fn row_levels(cut: Cut, length: f64) -> impl Iterator<Item = RowLevel> {
    let (mut left, mut single) = (length, cut.single);
    iter::from_fn(move || {
        let goes_on = left > 1.0 || (left == 1.0 && single);
        let width = cut.width(left.ceil() as usize) as f64;
        let full = (left / width).ceil() - 1.0;
        let level = RowLevel { full, width, rest: left - full * width };
        (left, single) = (full + 1.0, false);
        goes_on.then_some(level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(cut: Cut, lengths: &[usize]) -> Vec<Vec<(usize, usize, usize)>> {
        let (mut levels, mut all) = (Levels::new(cut, lengths.to_vec(), 0), vec![]);
        while levels.alike() > 0 {
            all.push(levels.chunks().map(|chunk| (chunk.row, chunk.start, chunk.length)).collect());
            levels.advance(1);
        }
        all
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
}
