//! The optional records of a run: how units halt, trees of searches, states step by step.

use std::ops::Range;

use super::counter::Counted;

/// The records of a run besides its results; empty unless asked for.
#[derive(Debug, Default)]
pub struct Records {
    /// The runs of halting recurrences, in the order in which they end.
    pub halting: Option<Vec<HaltingTrace>>,
    /// The trees of beam searches over whole rows.
    pub trees: Option<Vec<ParseTrees>>,
    /// The states of recurrences over positions and the nodes of folds of whole rows, step by step.
    pub states: Option<Vec<StateTrace>>,
    /// What runs do.
    pub counted: Option<Counted>,
}

impl Records {
    /// Counts runs of the body of a forward loop.
    pub(super) fn count_steps(&mut self, steps: usize) {
        if let Some(counted) = &mut self.counted {
            counted.steps += steps as u64;
        }
    }

    /// Counts rows that entered a recurrence that halts, and the steps that they took.
    pub(super) fn count_rows(&mut self, entered: usize, accepted: usize) {
        if let Some(counted) = &mut self.counted {
            counted.entered += entered as u64;
            counted.accepted += accepted as u64;
        }
    }
}

/// One run of a halting recurrence, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct HaltingTrace {
    /// The slot of the spec.
    pub label: String,
    /// For each row that entered: its index in the batch.
    pub rows: Vec<u64>,
    /// Accepted steps of every unit.
    pub steps: Vec<f64>,
    /// Runs of the whole body, summed over rows: what the recurrence cost.
    pub ran: u64,
    /// How every unit halted, in the order of `steps`.
    pub units: Vec<Unit>,
}

/// The halting of one unit of a recurrence: a row, a position of it, or a chunk of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// Its row, by its index in the batch.
    pub row: usize,
    /// The first position of the row that belongs to it; START counts as one.
    pub start: usize,
    /// How many positions belong to it.
    pub length: usize,
    /// The probability of not having stopped, after every accepted step: falling, from below 1.
    pub survival: Vec<f64>,
}

/// The trees that a beam search found for one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParseTrees {
    /// The slot of the spec.
    pub label: String,
    /// The row, by its index in the batch.
    pub row: usize,
    /// Its leaves: the positions of the row, START and END among them where the model has them.
    pub length: usize,
    /// Its beams, the heaviest first.
    pub beams: Vec<Beam>,
}

/// One tree over the positions of a sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beam {
    /// The sum of the logarithms of the probabilities of its choices, in nats; of a tree that no search found, nothing.
    pub score: Option<f64>,
    /// What its root weighs in the output.
    pub weight: f64,
    /// How many beams of a search are this tree.
    pub count: usize,
    /// First leaf and number of leaves of everything that was joined, parts before the whole. Of a softened beam it is the
    /// tree that counts most in it.
    pub spans: Vec<(usize, usize)>,
}

/// The states of one row after a step of a recurrence, or a level of a fold.
#[derive(Clone, Debug, PartialEq)]
pub struct StateTrace {
    /// The slot of the spec.
    pub label: String,
    /// The step or level, from 0.
    pub step: usize,
    /// The row, by its index in the batch.
    pub row: usize,
    /// What the states belong to.
    pub owners: Owners,
    /// Numbers of a state.
    pub width: usize,
    /// The states, one behind the other.
    pub states: Vec<f32>,
}

/// The owners of the states of a row; START counts as a position.
#[derive(Clone, Debug, PartialEq)]
pub enum Owners {
    /// Positions, from this one on.
    Positions(usize),
    /// Parts of the row that were joined, from left to right: the positions of each.
    Parts(Vec<Range<usize>>),
}
