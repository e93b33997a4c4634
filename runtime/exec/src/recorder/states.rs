//! The recorder of states: those of the positions of a recurrence after every step, and the nodes of a fold of whole rows after
//! every level, with the positions that each of them joins.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use rtc_compiler::ir::graph::{Graph, Node};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::schedule::Axes;
use rtc_compiler::ir::types::{LENGTH, unframed};

use super::span;
use crate::machine::record::{LazyNumbers, LoopObserver, LoopTurn, Recorder};
use crate::rows::{BatchView, row_of};

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

/// Records states of recurrences over positions, and of folds of whole rows.
#[derive(Debug, Default)]
pub struct StateRecorder(Rc<RefCell<Vec<StateTrace>>>);

impl StateRecorder {
    /// What was recorded.
    pub fn take(&self) -> Vec<StateTrace> {
        self.0.take()
    }
}

/// The states of a recurrence.
struct StepStates(Rc<RefCell<Vec<StateTrace>>>);

/// The nodes of a fold.
struct FoldStates {
    traces: Rc<RefCell<Vec<StateTrace>>>,
    /// For every row that entered, the positions of each of its nodes.
    spans: Vec<Vec<Range<usize>>>,
}

impl Recorder for StateRecorder {
    fn begin(&self, graph: &Graph, node: &Node, entered: &BatchView) -> Option<Box<dyn LoopObserver>> {
        match node.op {
            Op::Recur if graph.ty(*node.operands.first()?).ragged().is_some() => {
                Some(Box::new(StepStates(self.0.clone())))
            }
            Op::Fold if unframed(Axes::of(node).over).0 == LENGTH => {
                let axis = entered.axis(Axes::of(node).over);
                let spans = (0..entered.rows()).map(|row| (0..axis.len(row)).map(|at| at..at + 1).collect()).collect();
                Some(Box::new(FoldStates { traces: self.0.clone(), spans }))
            }
            _ => None,
        }
    }
}

impl LoopObserver for StepStates {
    fn turn(&mut self, turn: &LoopTurn<'_>, numbers: LazyNumbers<'_>) {
        let ty = turn.graph.ty(turn.node.operands[0]);
        let (numbers, bounds) = (numbers(0), turn.here.bounds(ty));
        self.0.borrow_mut().extend(turn.kept.iter().map(|&n| StateTrace {
            label: turn.node.label.clone(),
            step: turn.step,
            row: row_of(turn.here.ids[n]) as usize,
            owners: Owners::Positions(span(ty, turn.here, n).0),
            width: bounds.inner,
            states: numbers[bounds.row(n)].iter().map(|x| *x as f32).collect(),
        }));
    }
}

impl LoopObserver for FoldStates {
    fn turn(&mut self, turn: &LoopTurn<'_>, numbers: LazyNumbers<'_>) {
        let mut next: Vec<Vec<Range<usize>>> = vec![vec![]; self.spans.len()];
        for chunk in turn.chunks {
            let nodes = &self.spans[chunk.row][chunk.start..chunk.start + chunk.length];
            next[chunk.row].extend(nodes.first().zip(nodes.last()).map(|(first, last)| first.start..last.end));
        }
        self.spans = next;
        let nodes = numbers(0);
        let width = nodes.len() / turn.rows.len().max(1);
        let mut vectors = nodes.chunks(width.max(1));
        self.traces.borrow_mut().extend(turn.rows.chunk_by(|a, b| a == b).map(|rows| StateTrace {
            label: turn.node.label.clone(),
            step: turn.step,
            row: row_of(turn.entered.ids[rows[0]]) as usize,
            owners: Owners::Parts(self.spans[rows[0]].clone()),
            width,
            states: vectors.by_ref().take(rows.len()).flatten().map(|x| *x as f32).collect(),
        }));
    }
}
