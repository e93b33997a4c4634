//! A loop is a schedule and a body. A schedule says which rows take part in a turn of the body, and with what part of each: pure
//! rules over lengths, for the executors, the memory estimate, costs and the trees of a report.
//!
//! One file per kind of loop: [`recur`], [`chunks`], [`fold`], [`beam`]. A schedule keeps at most a number per row, in a list of its
//! user's choice, and hands out its chunks one by one, so that a run in the steady state allocates nothing. What a body decides comes
//! from its user: an executor reads which rows halt, the estimate assumes a mean depth.
//!
//! A search of beams has no [`LoopSchedule`]: its turns follow from its scores, so an executor asks them from step to step. Lengths alone
//! say how many pairs a turn has, which is what [`beam`] gives.

pub mod beam;
pub mod chunks;
pub mod fold;
pub mod recur;

use super::attribute;
use super::graph::Node;
pub use chunks::{Chunks, Widths};
pub use fold::Levels;
pub use recur::{DepthSteps, RowDepth};

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

/// The turns of a loop.
pub trait LoopSchedule {
    /// How many turns from here on are alike: the same rows, with chunks of the same lengths. 0 after the last turn.
    fn alike(&self) -> usize;

    /// The chunks of the next turn, row by row and in each from left to right.
    fn chunks(&self) -> impl Iterator<Item = Chunk>;

    /// Goes on by so many turns, at most by those that are alike.
    fn advance(&mut self, turns: usize);
}

/// The ragged axes that a loop names; an empty name where it has no such axis.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// The axis whose rows are cut.
    pub over: &'a str,
    /// The axis of the chunks, inside.
    pub chunk: &'a str,
    /// The axis of the chunks once they are filled up.
    pub filled: &'a str,
}

impl<'a> Axes<'a> {
    /// The axes of a loop.
    pub fn of(node: &'a Node) -> Self {
        let name = |key| node.find(key).unwrap_or_default();
        Self { over: name(attribute::OVER), chunk: name(attribute::AXIS), filled: name(attribute::FILLED) }
    }
}
