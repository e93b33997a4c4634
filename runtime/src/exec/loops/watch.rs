//! What is recorded of a recurrence while somebody watches: the states of its positions, and if it halts the survival of every
//! unit, step by step.
//!
//! It is read off the carried values, which every halting rule has under the same names: `t` is the survival, `used` the
//! number of accepted steps. A step that a unit rejects changes neither, so nothing has to be known of the rule.

use rtc_compiler::ir::graph::{Graph, Node, Value};
use rtc_compiler::ir::types::{Dim, Type};

use crate::exec::rows::{Env, row_of};
use crate::exec::storage::Element;
use crate::exec::value::Val;
use crate::exec::{Owners, Stepped, Unit, Watched};

/// The record of a recurrence that runs.
pub(crate) struct Watch {
    /// Among the carried values: the survival, and the number of accepted steps.
    survival: (usize, Value),
    used: usize,
    /// Where the units of every row that entered begin in `units`.
    first: Vec<usize>,
    units: Vec<Unit>,
}

impl Watch {
    /// Of a recurrence that the rows of `env` enter; `None` if it does not halt.
    pub(crate) fn new(graph: &Graph, node: &Node, env: &Env) -> Option<Self> {
        let place = |hint: &str| node.results.iter().position(|v| graph.hint(*v) == hint);
        let (survival, used) = (place("t")?, place("used")?);
        let survival = (survival, node.results[survival]);
        // A unit per position where the survival has an axis of positions, else one for the whole row.
        let each = graph.ty(survival.1).dims().len() > 1;
        let state = graph.ty(*node.operands.first()?);
        let (mut first, mut units) = (vec![], vec![]);
        for row in 0..env.rows() {
            first.push(units.len());
            let (start, length) = span(state, env, row);
            let unit = |start, length| Unit { row: row_of(env.ids[row]) as usize, start, length, survival: vec![] };
            match each {
                true => units.extend((start..start + length).map(|position| unit(position, 1))),
                false => units.push(unit(start, length)),
            }
        }
        Some(Self { survival, used, first, units })
    }

    /// Notes a step: of the `rows` that ran, which are those of `here`, the ones in `keep` accept it and carry on with
    /// `values`.
    pub(crate) fn accepted<T: Element>(
        &mut self,
        graph: &Graph,
        here: &Env,
        (rows, keep): (&[usize], &[usize]),
        values: &[Val<T>],
    ) {
        let (Val::Real(survival), Val::Real(used)) = (&values[self.survival.0], &values[self.used]) else { return };
        let bounds = here.bounds(graph.ty(self.survival.1));
        for &n in keep {
            let first = self.first[rows[n]];
            for (unit, at) in self.units[first..].iter_mut().zip(bounds.row(n)) {
                // A position that stopped before stays as it was while its row goes on.
                if used[at].to_f64() as usize > unit.survival.len() {
                    unit.survival.push(survival[at].to_f64());
                }
            }
        }
    }

    /// The record, from the values that the recurrence gives and the runs of its body.
    pub(crate) fn finished<T: Element>(self, node: &Node, env: &Env, done: &[Val<T>], ran: u64) -> Option<Watched> {
        let Some(Val::Real(used)) = done.get(self.used) else { return None };
        let used = used.iter().map(|x| x.to_f64()).collect();
        Some(Watched {
            label: node.label.clone(),
            rows: env.ids.iter().map(|id| row_of(*id)).collect(),
            used,
            ran,
            units: self.units,
        })
    }
}

/// The states after a step of the rows that accept it: those of `here` that `keep` names, which carry on with `values`.
/// Nothing where the state has no positions.
pub(crate) fn stepped<'a, T: Element>(
    graph: &'a Graph,
    node: &'a Node,
    here: &'a Env,
    step: usize,
    (keep, values): (&'a [usize], &'a [Val<T>]),
) -> impl Iterator<Item = Stepped> + 'a {
    let ty = node.operands.first().map(|value| graph.ty(*value)).filter(|ty| ty.ragged().is_some());
    let states = match values.first() {
        Some(Val::Real(states)) => ty.zip(Some(states)),
        _ => None,
    };
    states.into_iter().flat_map(move |(ty, states)| {
        let bounds = here.bounds(ty);
        keep.iter().map(move |&n| {
            let numbers = states[bounds.row(n)].iter().map(|x| x.to_f64() as f32).collect();
            let (label, row) = (node.label.clone(), row_of(here.ids[n]) as usize);
            Stepped {
                label,
                step,
                row,
                owners: Owners::Positions(span(ty, here, n).0),
                width: bounds.inner,
                states: numbers,
            }
        })
    })
}

/// The positions of a row that a state holds: where they begin in the whole row, and how many they are.
fn span(state: &Type, env: &Env, row: usize) -> (usize, usize) {
    match (state.ragged(), state.dims().get(1)) {
        (Some(axis), _) => {
            let axis = env.axis(axis);
            (axis.origin[row], axis.len(row))
        }
        (None, Some(Dim::Fixed(slots))) => (0, *slots),
        _ => (0, 1),
    }
}
