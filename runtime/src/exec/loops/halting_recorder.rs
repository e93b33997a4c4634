//! The recorder of a recurrence: the states of its positions, and if it halts the survival of every unit, step by step.
//!
//! It is read off the carried values, which every halting rule has under the same names: `t` is the survival, `steps` the
//! number of accepted steps. A step that a unit rejects changes neither, so nothing has to be known of the rule.

use rtc_compiler::ir::graph::{Graph, Node, Value};
use rtc_compiler::ir::types::{Dim, Type};
use rtc_compiler::plan::Plan;

use crate::exec::machine::{Machine, ValOf};
use crate::exec::rows::{BatchView, row_of};
use crate::exec::{HaltingTrace, Owners, StateTrace, Unit};
use crate::kernel::Real;

/// What is recorded of a recurrence that runs.
pub(super) struct RecurrenceRecorder {
    halting: Option<HaltingRecorder>,
    /// Runs of the body, summed over rows.
    ran: u64,
}

/// How the units of a recurrence halt.
struct HaltingRecorder {
    /// Among the carried values: the survival, and the number of accepted steps.
    survival: (usize, Value),
    steps: usize,
    /// Where the units of every row that entered begin in `units`.
    first: Vec<usize>,
    units: Vec<Unit>,
}

impl RecurrenceRecorder {
    pub(super) fn new<M: Machine>(m: &mut M, plan: &Plan, node: &Node, view: &BatchView) -> Self {
        let halting = m.records().halting.is_some().then(|| HaltingRecorder::new(&plan.graph, node, view)).flatten();
        Self { halting, ran: 0 }
    }

    /// Notes a step: of the `rows` that ran, which are those of `here`, the ones in `keep` accept it and carry on with
    /// `values`.
    pub(super) fn accepted<M: Machine>(
        &mut self,
        m: &mut M,
        plan: &Plan,
        node: &Node,
        here: &BatchView,
        (step, rows, keep): (usize, &[usize], &[usize]),
        values: &[ValOf<M>],
    ) {
        self.ran += rows.len() as u64;
        if let Some(recorder) = &mut self.halting {
            recorder.accepted(m, &plan.graph, here, (rows, keep), values);
        }
        let state = node.operands.first().map(|value| plan.graph.ty(*value)).filter(|ty| ty.ragged().is_some());
        if let (Some(ty), Some(state), true) = (state, values.first(), m.records().states.is_some()) {
            let (numbers, bounds) = (m.numbers(state), here.bounds(ty));
            let of_row = |&n: &usize| StateTrace {
                label: node.label.clone(),
                step,
                row: row_of(here.ids[n]) as usize,
                owners: Owners::Positions(span(ty, here, n).0),
                width: bounds.inner,
                states: numbers[bounds.row(n)].iter().map(|x| x.to_f64() as f32).collect(),
            };
            m.records().states.iter_mut().for_each(|list| list.extend(keep.iter().map(of_row)));
        }
    }

    /// Adds the record, from the values that the recurrence gives.
    pub(super) fn finish<M: Machine>(self, m: &mut M, node: &Node, view: &BatchView, done: &[ValOf<M>]) {
        let Some(HaltingRecorder { steps, units, .. }) = self.halting else { return };
        let steps = m.numbers(&done[steps]).iter().map(|x| x.to_f64()).collect();
        let rows = view.ids.iter().map(|id| row_of(*id)).collect();
        let trace = HaltingTrace { label: node.label.clone(), rows, steps, ran: self.ran, units };
        m.records().halting.iter_mut().for_each(|list| list.push(trace.clone()));
    }
}

impl HaltingRecorder {
    /// Of a recurrence that the rows of `view` enter; `None` if it does not halt.
    fn new(graph: &Graph, node: &Node, view: &BatchView) -> Option<Self> {
        let place = |hint: &str| node.results.iter().position(|v| graph.hint(*v) == hint);
        let (survival, steps) = (place("t")?, place("steps")?);
        let survival = (survival, node.results[survival]);
        // A unit per position where the survival has an axis of positions, else one for the whole row.
        let each = graph.ty(survival.1).dims().len() > 1;
        let state = graph.ty(*node.operands.first()?);
        let (mut first, mut units) = (vec![], vec![]);
        for row in 0..view.rows() {
            first.push(units.len());
            let (start, length) = span(state, view, row);
            let unit = |start, length| Unit { row: row_of(view.ids[row]) as usize, start, length, survival: vec![] };
            match each {
                true => units.extend((start..start + length).map(|position| unit(position, 1))),
                false => units.push(unit(start, length)),
            }
        }
        Some(Self { survival, steps, first, units })
    }

    fn accepted<M: Machine>(
        &mut self,
        m: &M,
        graph: &Graph,
        here: &BatchView,
        (rows, keep): (&[usize], &[usize]),
        values: &[ValOf<M>],
    ) {
        let (survival, steps) = (m.numbers(&values[self.survival.0]), m.numbers(&values[self.steps]));
        let bounds = here.bounds(graph.ty(self.survival.1));
        for &n in keep {
            let first = self.first[rows[n]];
            for (unit, at) in self.units[first..].iter_mut().zip(bounds.row(n)) {
                // A position that stopped before stays as it was while its row goes on.
                if steps[at].to_f64() as usize > unit.survival.len() {
                    unit.survival.push(survival[at].to_f64());
                }
            }
        }
    }
}

/// The positions of a row that a state holds: where they begin in the whole row, and how many they are.
fn span(state: &Type, view: &BatchView, row: usize) -> (usize, usize) {
    match (state.ragged(), state.dims().get(1)) {
        (Some(axis), _) => {
            let axis = view.axis(axis);
            (axis.origin[row], axis.len(row))
        }
        (None, Some(Dim::Fixed(slots))) => (0, *slots),
        _ => (0, 1),
    }
}
