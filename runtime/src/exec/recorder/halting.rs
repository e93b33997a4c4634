//! The recorder of halting: the survival of every unit of a recurrence, step by step.
//!
//! It is read off the carried values, which every halting rule has under the same names: `t` is the survival, `steps` the
//! number of accepted steps. A step that a unit rejects changes neither, so nothing has to be known of the rule.

use std::cell::RefCell;
use std::rc::Rc;

use rtc_compiler::ir::graph::{Graph, Node, Value};

use super::span;
use crate::exec::record::{Numbers, Observer, Recorder, Turn};
use crate::exec::rows::{BatchView, row_of};

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

/// Records the runs of halting recurrences, in the order in which they end.
#[derive(Debug, Default)]
pub struct HaltingRecorder(Rc<RefCell<Vec<HaltingTrace>>>);

impl HaltingRecorder {
    /// What was recorded.
    pub fn take(&self) -> Vec<HaltingTrace> {
        self.0.take()
    }
}

/// How the units of a recurrence halt.
struct Halting {
    traces: Rc<RefCell<Vec<HaltingTrace>>>,
    /// Among the carried values: the survival, and the number of accepted steps.
    survival: (usize, Value),
    steps: usize,
    /// Where the units of every row that entered begin in `units`.
    first: Vec<usize>,
    units: Vec<Unit>,
    /// Runs of the body, summed over rows.
    ran: u64,
}

impl Recorder for HaltingRecorder {
    fn begin(&self, graph: &Graph, node: &Node, entered: &BatchView) -> Option<Box<dyn Observer>> {
        let place = |hint: &str| node.results.iter().position(|v| graph.hint(*v) == hint);
        let (survival, steps) = (place("t")?, place("steps")?);
        let survival = (survival, node.results[survival]);
        // A unit per position where the survival has an axis of positions, else one for the whole row.
        let each = graph.ty(survival.1).dims().len() > 1;
        let state = graph.ty(*node.operands.first()?);
        let (mut first, mut units) = (vec![], vec![]);
        for row in 0..entered.rows() {
            first.push(units.len());
            let (start, length) = span(state, entered, row);
            let unit = |start, length| Unit { row: row_of(entered.ids[row]) as usize, start, length, survival: vec![] };
            match each {
                true => units.extend((start..start + length).map(|position| unit(position, 1))),
                false => units.push(unit(start, length)),
            }
        }
        Some(Box::new(Halting { traces: self.0.clone(), survival, steps, first, units, ran: 0 }))
    }
}

impl Observer for Halting {
    fn turn(&mut self, turn: &Turn<'_>, numbers: Numbers<'_>) {
        self.ran += turn.rows.len() as u64;
        let (survival, steps) = (numbers(self.survival.0), numbers(self.steps));
        let bounds = turn.here.bounds(turn.graph.ty(self.survival.1));
        for &n in turn.kept {
            let first = self.first[turn.rows[n]];
            for (unit, at) in self.units[first..].iter_mut().zip(bounds.row(n)) {
                // A position that stopped before stays as it was while its row goes on.
                if steps[at] as usize > unit.survival.len() {
                    unit.survival.push(survival[at]);
                }
            }
        }
    }

    fn end(self: Box<Self>, node: &Node, entered: &BatchView, numbers: Numbers<'_>) {
        let Self { traces, steps, units, ran, .. } = *self;
        let rows = entered.ids.iter().map(|id| row_of(*id)).collect();
        traces.borrow_mut().push(HaltingTrace { label: node.label.clone(), rows, steps: numbers(steps), ran, units });
    }
}
