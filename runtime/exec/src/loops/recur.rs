//! The depth recurrence. Where it halts, one truth value per row comes to the host in a step.

use rtc_compiler::expr::Var;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Node, NodeId, RegionId};
use rtc_compiler::ir::schedule::LoopSchedule as _;
use rtc_compiler::ir::schedule::recur::{DepthSteps, bound};
use rtc_compiler::plan::Plan;

use super::{
    BodyResult, LoopState, SavedCaptures, arena, body_of, decided, enter, finish, forget, is_taped, leave_body,
    named_step, narrowed, plan, run_steps, tape_of, values,
};
use crate::machine::pieces::RowSubset;
use crate::machine::record::{LoopTurn, Observers};
use crate::machine::value::{TapeStep, places};
use crate::machine::{Active, ActiveOf, Machine, ValOf};
use crate::rows::{BatchView, row_of};
use crate::settings::ExecutionFault;
use crate::settings::Halting;
use crate::storage::List;
use rtc_kernel::draw::RowChance;
use rtc_kernel::truth;

/// A recurrence while it runs.
struct Recurrence<'a, M: Machine> {
    node: &'a Node,
    body: RegionId,
    /// The batch that entered.
    entered: &'a BatchView,
    /// The carried values of the rows that have left; what stands for the others is not yet meant.
    done: LoopState<'a, M>,
    /// For each row that is still going: its index among those that entered.
    rows: List<usize>,
    /// The carried values of those rows.
    values: List<ValOf<M>>,
    /// The batch as the body sees it: those rows.
    here: ActiveOf<M>,
    captures: SavedCaptures<M>,
}

/// What the body gave for the rows that are going, and their `go`, if it is not known that all accept.
struct StepResult<M: Machine> {
    result: BodyResult<M>,
    go: Option<List<u8>>,
}

/// `recur`: every row runs until its `go` is false or its bound is reached.
pub(super) fn recur<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let halts = plan.regions[body.index()].yields.len() > node.operands.len();
    let id = plan.graph.owner(body).expect("a body belongs to its loop");
    let bounds = depths(m, &plan, id, view)?;
    let resumed = m.resume().as_ref().and_then(|resume| resume.resumed(id));
    let (first, carried) = resumed.unwrap_or_else(|| (0, values(m, &node.operands)));
    let mut at = Recurrence {
        node,
        body,
        entered: view,
        done: LoopState { values: carried.clone(), of: &node.operands },
        rows: arena.list(0..view.rows()),
        values: carried,
        here: entered.clone(),
        captures: SavedCaptures::new(body, view),
    };
    // Where rows that have halted stay, they take no part in the tape.
    let mut live = arena.list(std::iter::repeat_n(true, view.rows()));
    let (mut tape, mut taken, mut accepting) = (arena.list([]), 0, 0);
    let mut observers = Observers::begin(m, &plan.graph, node, view);
    let mut depths = DepthSteps::new(bounds, first);
    while depths.alike() > 0 {
        let step = depths.step();
        let keep = arena.list((0..at.rows.len()).filter(|n| depths.takes(at.rows[*n])));
        at.leave(m, &plan, &keep);
        at.narrow(m, &plan, &keep);
        let in_step = |fault: ExecutionFault| fault.within(named_step(node, step));
        let Some(out) = at.step(m, &plan, step, halts).map_err(in_step)? else { break };
        taken += 1;
        if let Some(go) = &out.go {
            // Nobody asks for rows that have halted and stay.
            let asked = at.rows.iter().zip(go.iter()).map(|(row, go)| if live[*row] { *go } else { truth::FALSE });
            decided(node, at.here.view(), asked).map_err(in_step)?;
            at.rows.iter().zip(go.iter()).for_each(|(row, go)| live[*row] &= *go == truth::TRUE);
        }
        let keep = arena.list((0..at.rows.len()).filter(|n| live[at.rows[*n]]));
        accepting += keep.len();
        let BodyResult { yields, saved } = out.result;
        let (graph, here) = (&plan.graph, at.here.view());
        let turn = LoopTurn { graph, node, entered: view, here, step, rows: &at.rows, kept: &keep, chunks: &[] };
        observers.turn(m, &turn, &yields);
        if !keep.is_empty() && is_taped(m, node) {
            tape.push(at.accepted(m, &plan, &keep, saved));
        }
        at.accept(m, &plan, &keep, yields);
        if keep.is_empty() && m.common().halting != Halting::Never {
            break;
        }
        depths.advance(1);
    }
    if at.rows.len() == view.rows() {
        at.done.values = at.values;
    } else {
        at.leave(m, &plan, &[]);
    }
    at.captures.restore(m);
    m.records().count_steps(taken);
    if halts {
        m.records().count_rows(view.rows(), accepting);
    }
    observers.end(m, node, view, &at.done.values);
    if let Some(resume) = m.resume() {
        resume.keep(id, &at.done.values, depths.longest());
    }
    finish(m, node, at.done.values, tape_of::<M>(body, tape));
    Ok(())
}

impl<M: Machine> Recurrence<'_, M> {
    /// Runs the body once; `None` where no row takes the step.
    ///
    /// Where the plan knows a point of the body at which `go` is known, the rows that reject the step leave there, and
    /// what follows runs for those alone that accept it.
    fn step(
        &mut self,
        m: &mut M,
        plan: &Plan,
        step: usize,
        halts: bool,
    ) -> Result<Option<StepResult<M>>, ExecutionFault> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let arena = arena(m);
        self.here = self.here.keyed(self.entered.key.at(step as u64));
        // A row that rejects the step needs its carried values again.
        let mut params = if halts { self.values.clone() } else { std::mem::replace(&mut self.values, arena.list([])) };
        params.push(m.ids(arena.list([u32::try_from(step).unwrap_or(u32::MAX)])));
        let own = &plan.regions[self.body.index()];
        enter(m, plan, self.body, params);
        forget(m, &own.unused);
        let early_exit = own.early_exit.filter(|_| m.common().halting == Halting::Compact).unwrap_or(0);
        run_steps(m, plan, self.body, 0..early_exit, &self.here)?;
        if early_exit > 0 && !self.decide(m, plan, early_exit)? {
            return Ok(None);
        }
        run_steps(m, plan, self.body, early_exit..own.steps.len(), &self.here)?;
        let mut result = leave_body(m, plan, self.body);
        // Those that are left after a decision accept the step: nothing needs to be asked again.
        let go = result.yields.last().filter(|_| halts && early_exit == 0).map(|go| m.truths(go));
        result.yields.truncate(self.done.of.len());
        Ok(Some(StepResult { result, go }))
    }

    /// In the middle of a body, after `early_exit` of its steps: sends the rows away that reject the step; false where all do.
    fn decide(&mut self, m: &mut M, plan: &Plan, early_exit: usize) -> Result<bool, ExecutionFault> {
        let own = &plan.regions[self.body.index()];
        let go = m.value(*own.yields.last().expect("a body that halts yields `go`"));
        let go = m.truths(&go);
        decided(self.node, self.here.view(), go.iter().copied())?;
        let keep = arena(m).list((0..self.rows.len()).filter(|n| go[*n] == truth::TRUE));
        if keep.len() < self.rows.len() {
            let results = own.steps[..early_exit].iter().flat_map(|step| &plan.graph.node(step.node).results);
            let present = plan.graph.params(self.body).iter().chain(results);
            match keep.is_empty() {
                true => forget(m, present),
                false => drop(narrowed(m, plan, present, &RowSubset::rows(self.here.view(), &keep))),
            }
            self.leave(m, plan, &keep);
        }
        // Those that are left accept the step, and need the values with which they entered it no more.
        self.values.clear();
        self.narrow(m, plan, &keep);
        Ok(!keep.is_empty())
    }

    /// What becomes of the carried values after a step that the rows in `keep` accept.
    fn accept(&mut self, m: &mut M, plan: &Plan, keep: &[usize], yields: List<ValOf<M>>) {
        if keep.len() == self.rows.len() {
            self.values = yields;
        } else if m.common().halting == Halting::Compact {
            self.leave(m, plan, keep);
            self.values = yields;
            self.narrow(m, plan, keep);
        } else {
            self.freeze(m, plan, keep, yields);
        }
    }

    /// The carried values of some of the rows that are going.
    fn selected(&self, m: &M, plan: &Plan, rows: &[usize]) -> List<ValOf<M>> {
        let part = RowSubset::rows(self.here.view(), rows);
        let values = self.values.iter().zip(self.done.of);
        m.common().arena.list(values.map(|(val, of)| val.select(m, plan, plan.graph.ty(*of), &part)))
    }

    /// Writes the values of the rows that are not in `keep` (indices among those going) to their final places.
    fn leave(&mut self, m: &M, plan: &Plan, keep: &[usize]) {
        let leaving = self.others(keep);
        if leaving.is_empty() {
            return;
        }
        let rows = self.entered.arena().list(leaving.iter().map(|n| self.rows[*n]));
        let values = self.selected(m, plan, &leaving);
        self.done.put(m, values, &RowSubset::rows(self.entered, &rows));
    }

    /// Goes on with only the rows in `keep` (indices among those going).
    fn narrow(&mut self, m: &mut M, plan: &Plan, keep: &[usize]) {
        if keep.len() == self.rows.len() {
            return;
        }
        self.values = self.selected(m, plan, keep);
        self.rows = self.entered.arena().list(keep.iter().map(|n| self.rows[*n]));
        self.captures.narrow(m, plan, &RowSubset::rows(self.entered, &self.rows));
        self.here = self.here.view().select(keep).into();
    }

    /// The new values of the rows in `keep`, the old ones of the others.
    fn freeze(&mut self, m: &M, plan: &Plan, keep: &[usize], new: List<ValOf<M>>) {
        let rejected = self.others(keep);
        let old = self.selected(m, plan, &rejected);
        let mut state = LoopState { values: new, of: self.done.of };
        state.put(m, old, &RowSubset::rows(self.here.view(), &rejected));
        self.values = state.values;
    }

    /// The rows going that are not in `keep`, by their indices among those going.
    fn others(&self, keep: &[usize]) -> List<usize> {
        self.entered.arena().list((0..self.rows.len()).filter(|n| keep.binary_search(n).is_err()))
    }

    /// The taped step of only the rows in `keep` (indices among those going), which accept it: the others take no part in its
    /// backward run.
    fn accepted(&self, m: &M, plan: &Plan, keep: &[usize], saved: List<ValOf<M>>) -> TapeStep<M::Arrays> {
        let arena = self.entered.arena();
        let rows = arena.list(keep.iter().map(|n| self.rows[*n]));
        let rows = (rows.len() < self.entered.rows()).then(|| arena.share(rows));
        let all = TapeStep { here: self.here.clone(), rows: None, starts: arena.list([]), saved };
        if keep.len() == self.rows.len() {
            return TapeStep { rows, ..all };
        }
        let place = places(keep, self.rows.len(), arena);
        let cut = all.select(m, plan, self.body, &place).expect("at least one row accepts the step");
        TapeStep { rows, ..cut }
    }
}

/// How many steps the `bound` of a node gives every row.
pub fn depths<M: Machine>(m: &M, plan: &Plan, id: NodeId, view: &BatchView) -> Result<List<usize>, ExecutionFault> {
    let node = plan.graph.node(id);
    let read = m.common().exprs.get(&id);
    let read = read.map(|read| read.as_ref().map_err(|e| ExecutionFault::Batch(e.clone())));
    let Some(expr) = read.transpose()?.and_then(|rule| rule.expr.as_ref()) else {
        let bound = node.get(attribute::BOUND).steps().unwrap_or(0);
        return Ok(view.arena().list(std::iter::repeat_n(bound, view.rows())));
    };
    let axis = node.operands.iter().find_map(|v| plan.graph.ty(*v).ragged()).map(|axis| view.axis(axis));
    if axis.is_none() && expr.uses(Var::Length) {
        return Err(ExecutionFault::Batch("a depth over the length needs a sequence".to_owned()));
    }
    let mut bounds = view.arena().take(view.rows());
    for (row, steps) in bounds.iter_mut().enumerate() {
        let chance = RowChance::new(view.run, row_of(view.ids[row]));
        let length = axis.map_or(1, |axis| axis.len(row));
        *steps = bound(expr, length, view.given(row), Some(&chance)).map_err(ExecutionFault::Batch)?;
    }
    Ok(bounds)
}
