//! The recorder of halting: the survival of every unit of a recurrence, step by step.
//!
//! It is read off the carried values, which every halting rule has under the same names: `t` is the survival, `steps` the
//! number of accepted steps. A step that a unit rejects changes neither, so nothing has to be known of the rule. A loop that is left
//! by a condition has the number alone, `steps_taken`: the survival of a unit is 1 as long as it goes on, so its last state is all that
//! counts.

use std::cell::RefCell;
use std::rc::Rc;

use rtc_compiler::ir::graph::{Graph, Node, Value};

use super::span;
use crate::machine::record::{LazyNumbers, LoopObserver, LoopTurn, Recorder};
use crate::rows::{BatchView, row_of};

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
    pub units: Vec<UnitHalting>,
}

/// The halting of one unit of a recurrence: a row, a position of it, or a chunk of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitHalting {
    /// Its row, by its index in the batch.
    pub row: usize,
    /// The first position of the row that belongs to it; START counts as one.
    pub start: usize,
    /// How many positions belong to it.
    pub length: usize,
    /// The probability of not having stopped, after every accepted step: falling, from below 1.
    pub survival: Vec<f64>,
}

impl UnitHalting {
    /// Number of accepted steps.
    pub fn steps(&self) -> usize {
        self.survival.len()
    }

    /// The weights of the states `H_0 .. H_K` in the output, which add up to 1: the probability to stop at each of them, and
    /// for the last one all that is left.
    pub fn weights(&self) -> Vec<f64> {
        let before = std::iter::once(1.0).chain(self.survival.iter().copied());
        let stops = before.clone().zip(&self.survival).map(|(before, after)| before - after);
        stops.chain(before.last()).collect()
    }
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

/// Records how the units of a recurrence halt.
struct HaltingObserver {
    traces: Rc<RefCell<Vec<HaltingTrace>>>,
    /// Among the carried values: the survival, where it is carried, and the number of accepted steps.
    survival: Option<usize>,
    steps: (usize, Value),
    /// Where the units of every row that entered begin in `units`.
    first: Vec<usize>,
    units: Vec<UnitHalting>,
    /// Runs of the body, summed over rows.
    ran: u64,
}

impl Recorder for HaltingRecorder {
    fn begin(&self, graph: &Graph, node: &Node, entered: &BatchView) -> Option<Box<dyn LoopObserver>> {
        let place = |hint: &str| node.results.iter().position(|v| graph.hint(*v) == hint);
        // Values that a spec carries may have the names of a rule, so a loop without conditions is left out first.
        let end = graph.node(graph.terminator(node.body?)?);
        let leaves = end.operands.len() > node.operands.len();
        let (survival, steps) = match place("steps_taken").filter(|_| leaves) {
            Some(steps) => (None, steps),
            None => (Some(place("t").filter(|_| leaves)?), place("steps")?),
        };
        let steps = (steps, node.results[steps]);
        // A unit per position where the number has an axis of positions, else one for the whole row.
        let each = graph.ty(steps.1).dims().len() > 1;
        let state = graph.ty(*node.operands.first()?);
        let (mut first, mut units) = (vec![], vec![]);
        for row in 0..entered.rows() {
            first.push(units.len());
            let (start, length) = span(state, entered, row);
            let unit =
                |start, length| UnitHalting { row: row_of(entered.ids[row]) as usize, start, length, survival: vec![] };
            match each {
                true => units.extend((start..start + length).map(|position| unit(position, 1))),
                false => units.push(unit(start, length)),
            }
        }
        Some(Box::new(HaltingObserver { traces: self.0.clone(), survival, steps, first, units, ran: 0 }))
    }
}

impl LoopObserver for HaltingObserver {
    fn turn(&mut self, turn: &LoopTurn<'_>, numbers: LazyNumbers<'_>) {
        self.ran += turn.rows.len() as u64;
        let (survival, steps) = (self.survival.map(numbers), numbers(self.steps.0));
        let bounds = turn.here.bounds(turn.graph.ty(self.steps.1));
        for &n in turn.kept {
            let first = self.first[turn.rows[n]];
            for (unit, at) in self.units[first..].iter_mut().zip(bounds.row(n)) {
                // A position that stopped before stays as it was while its row goes on.
                if steps[at] as usize > unit.survival.len() {
                    unit.survival.push(survival.as_ref().map_or(1.0, |survival| survival[at]));
                }
            }
        }
    }

    fn end(self: Box<Self>, node: &Node, entered: &BatchView, numbers: LazyNumbers<'_>) {
        let Self { traces, steps, units, ran, .. } = *self;
        let rows = entered.ids.iter().map(|id| row_of(*id)).collect();
        traces.borrow_mut().push(HaltingTrace { label: node.label.clone(), rows, steps: numbers(steps.0), ran, units });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_what_survival_loses() {
        let unit = |survival: &[f64]| UnitHalting { survival: survival.to_vec(), ..UnitHalting::default() };
        assert_eq!(unit(&[]).weights(), [1.0], "a unit that stops at once gives its input");
        assert_eq!(unit(&[0.75, 0.25]).weights(), [0.25, 0.5, 0.25]);
    }
}
