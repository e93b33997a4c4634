//! The depth recurrence.

use rtc_compiler::expr::{Env as Names, Value as Number, eval};
use rtc_compiler::ir::graph::{Graph, Node, NodeId, RegionId};
use rtc_compiler::plan::Plan;

use super::watch::{Watch, stepped};
use super::{BodyResult, State, Uncut, int};
use crate::exec::mask::Exprs;
use crate::exec::resume::{keep_carried, resumed};
use crate::exec::rows::Env;
use crate::exec::storage::{Buffer, Element, List, Shared};
use crate::exec::value::{TapeStep, Val, places};
use crate::exec::{Executor, Fault, Halting};

/// A recurrence while it runs.
struct Recurrence<'a, T: Element> {
    body: RegionId,
    /// The batch that entered.
    env: &'a Env,
    /// The carried values of the rows that have left; what stands for the others is not yet meant.
    done: State<'a, T>,
    /// For each row that is still going: its index among those that entered.
    rows: List<usize>,
    /// The carried values of those rows.
    values: List<Val<T>>,
    /// The batch as the body sees it: those rows.
    here: Env,
    /// Captured values as they were when all rows were going.
    uncut: Uncut<T>,
}

/// What the body gave for the rows that are going, and their `go`, if the body halts.
struct StepResult<T: Element> {
    result: BodyResult<T>,
    go: Option<Shared<Buffer<u8>>>,
}

impl<T: Element> Executor<T> {
    /// `recur`: every row runs until its `go` is false or its bound is reached.
    pub(in crate::exec) fn recur(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let body = node.body.expect("the verifier gives every loop a body");
        let halts = plan.regions[body.index()].yields.len() > node.operands.len();
        let id = plan.graph.owner(body);
        let bounds = step_bounds(&plan.graph, &self.exprs, id, node, env)?;
        let (first, values) = resumed(self.resume.as_ref(), id).unwrap_or_else(|| (0, self.values(&node.operands)));
        let done = State { values: values.clone(), of: &node.operands };
        let (rows, here) = (arena.list(0..env.rows()), env.clone());
        let mut at = Recurrence { body, env, done, rows, values, here, uncut: arena.list([]) };
        // Where rows that have halted stay, they take no part in the tape.
        let mut live = arena.list(std::iter::repeat_n(true, env.rows()));
        let (mut tape, mut ran, mut taken, mut accepting) = (arena.list([]), 0, 0, 0);
        let mut watch = self.watched.is_some().then(|| Watch::new(&plan.graph, node, env)).flatten();
        let most = bounds.iter().copied().max().unwrap_or(0);
        for step in first..most {
            let keep = arena.list((0..at.rows.len()).filter(|n| bounds[at.rows[*n]] > step));
            self.leave(&mut at, &keep);
            self.narrow(&plan, &mut at, &keep);
            let Some(out) = self.step(&plan, &mut at, step, halts)? else { break };
            ran += at.rows.len() as u64;
            taken += 1;
            for (n, row) in at.rows.iter().enumerate() {
                live[*row] &= out.go.as_ref().is_none_or(|go| go[n] != 0);
            }
            let keep = arena.list((0..at.rows.len()).filter(|n| live[at.rows[*n]]));
            accepting += keep.len() as u64;
            let BodyResult { yields, saved } = out.result;
            if let Some(watch) = &mut watch {
                watch.accepted(&plan.graph, &at.here, (&at.rows, &keep), &yields);
            }
            if let Some(seen) = &mut self.stepped {
                seen.extend(stepped(&plan.graph, node, &at.here, step, (&keep, &yields)));
            }
            if !keep.is_empty() && self.is_taped(node) {
                tape.push(accepted(&plan, &at, &keep, saved));
            }
            self.accept(&plan, &mut at, &keep, yields);
            if keep.is_empty() && self.halting != Halting::Never {
                break;
            }
        }
        if at.rows.len() == env.rows() {
            at.done.values = at.values;
        } else {
            self.leave(&mut at, &[]);
        }
        self.put_back(at.uncut);
        if let Some(counted) = &mut self.counted {
            counted.steps += taken;
            if halts {
                counted.entered += env.rows() as u64;
                counted.accepted += accepting;
            }
        }
        if let (Some(watch), Some(list)) = (watch, &mut self.watched) {
            list.extend(watch.finished(node, env, &at.done.values, ran));
        }
        keep_carried(self.resume.as_mut(), id, &at.done.values, most);
        self.finish(node, body, at.done.values, tape);
        Ok(())
    }

    /// Runs the body once; `None` where nobody takes the step.
    ///
    /// Where the plan knows a point of the body at which `go` is decided, the rows that reject the step leave there, and
    /// what follows runs for those alone that accept it.
    fn step(
        &mut self,
        plan: &Plan,
        at: &mut Recurrence<'_, T>,
        step: usize,
        halts: bool,
    ) -> Result<Option<StepResult<T>>, Fault> {
        if at.rows.is_empty() {
            return Ok(None);
        }
        at.here.key = at.env.key.at(step as u64);
        // A row that rejects the step needs its carried values again.
        let none = self.arena.list([]);
        let mut params = if halts { at.values.clone() } else { std::mem::replace(&mut at.values, none) };
        params.push(Val::index(self.arena.list([u32::try_from(step).unwrap_or(u32::MAX)])));
        let own = &plan.regions[at.body.index()];
        self.enter(plan, at.body, params);
        self.forget(&own.unused);
        let decided = own.decided.filter(|_| self.halting == Halting::Compact).unwrap_or(0);
        self.steps(plan, own, 0..decided, &at.here)?;
        if decided > 0 && !self.decide(plan, at, decided) {
            return Ok(None);
        }
        self.steps(plan, own, decided..own.steps.len(), &at.here)?;
        let mut result = self.leave_body(plan, at.body);
        let go = match result.yields.last() {
            Some(Val::Bool(go)) if halts => Some(go.clone()),
            _ => None,
        };
        result.yields.truncate(at.done.of.len());
        Ok(Some(StepResult { result, go }))
    }

    /// In the middle of a body, after `decided` of its steps: sends the rows away that reject the step; false where all do.
    fn decide(&mut self, plan: &Plan, at: &mut Recurrence<'_, T>, decided: usize) -> bool {
        let own = &plan.regions[at.body.index()];
        let go = self.memory.truth(*own.yields.last().expect("a body that halts yields `go`"));
        let keep = self.arena.list((0..at.rows.len()).filter(|n| go[*n] != 0));
        if keep.len() < at.rows.len() {
            let results = own.steps[..decided].iter().flat_map(|step| &plan.graph.node(step.node).results);
            let present = plan.graph.params(at.body).iter().chain(results);
            match keep.is_empty() {
                true => present.for_each(|value| self.memory.values[value.index()] = None),
                false => drop(self.cut(present, &at.here, &keep)),
            }
            self.leave(at, &keep);
        }
        // Those that are left accept the step, and need the values with which they entered it no more.
        at.values.clear();
        self.narrow(plan, at, &keep);
        !keep.is_empty()
    }

    /// What becomes of the carried values after a step that the rows in `keep` accept.
    fn accept(&mut self, plan: &Plan, at: &mut Recurrence<'_, T>, keep: &[usize], yields: List<Val<T>>) {
        if keep.len() == at.rows.len() {
            at.values = yields;
        } else if self.halting == Halting::Compact {
            self.leave(at, keep);
            at.values = yields;
            self.narrow(plan, at, keep);
        } else {
            at.values = self.freeze(at, keep, yields);
        }
    }

    /// Writes the values of the rows that are not in `keep` (indices among those going) to their final places.
    fn leave(&self, at: &mut Recurrence<'_, T>, keep: &[usize]) {
        let leaving = self.others(at, keep);
        if leaving.is_empty() {
            return;
        }
        let rows = self.arena.list(leaving.iter().map(|n| at.rows[*n]));
        let values = at.values.iter().zip(at.done.of);
        let part = self.arena.list(values.map(|(val, of)| self.selected(val, *of, &at.here, &leaving)));
        self.replace_rows(&mut at.done, &part, at.env, &rows);
    }

    /// Goes on with only the rows in `keep` (indices among those going).
    fn narrow(&mut self, plan: &Plan, at: &mut Recurrence<'_, T>, keep: &[usize]) {
        if keep.len() == at.rows.len() {
            return;
        }
        for (val, of) in at.values.iter_mut().zip(at.done.of) {
            *val = self.selected(val, *of, &at.here, keep);
        }
        let before = self.cut_captures(plan, at.body, &at.here, keep);
        if at.uncut.is_empty() {
            at.uncut = before;
        }
        at.here = at.here.select(keep);
        at.rows = self.arena.list(keep.iter().map(|n| at.rows[*n]));
    }

    /// The new values of the rows in `keep`, the old ones of the others.
    fn freeze(&self, at: &Recurrence<'_, T>, keep: &[usize], new: List<Val<T>>) -> List<Val<T>> {
        let rejected = self.others(at, keep);
        let parts = new.into_iter().zip(&at.values).zip(at.done.of);
        self.arena.list(parts.map(|((new, old), of)| {
            let part = self.selected(old, *of, &at.here, &rejected);
            self.scattered(new, &part, *of, &at.here, &rejected)
        }))
    }

    /// The rows going that are not in `keep`, by their indices among those going.
    fn others(&self, at: &Recurrence<'_, T>, keep: &[usize]) -> List<usize> {
        self.arena.list((0..at.rows.len()).filter(|n| keep.binary_search(n).is_err()))
    }
}

/// The taped step of only the rows in `keep` (indices among those going), which accept it: the others take no part in its
/// backward run.
fn accepted<T: Element>(plan: &Plan, at: &Recurrence<'_, T>, keep: &[usize], saved: List<Val<T>>) -> TapeStep<T> {
    let arena = at.env.arena();
    let rows = arena.list(keep.iter().map(|n| at.rows[*n]));
    let rows = (rows.len() < at.env.rows()).then(|| arena.share(rows));
    let all = TapeStep { env: at.here.clone(), rows: None, starts: arena.list([]), saved };
    let cut = if keep.len() == at.rows.len() {
        all
    } else {
        let place = places(keep, at.rows.len(), arena);
        all.select(plan, at.body, &place).expect("at least one row accepts the step")
    };
    TapeStep { rows, ..cut }
}

/// The bound of every row.
pub(crate) fn step_bounds(
    graph: &Graph,
    exprs: &Exprs,
    id: Option<NodeId>,
    node: &Node,
    env: &Env,
) -> Result<List<usize>, Fault> {
    let read = id.and_then(|id| exprs.get(&id)).map(|read| read.as_ref().map_err(|e| Fault::Batch(e.clone())));
    let Some(expr) = read.transpose()?.and_then(|rule| rule.expr.as_ref()) else {
        let bound = int(node, "bound").unwrap_or(0);
        return Ok(env.arena().list(std::iter::repeat_n(bound, env.rows())));
    };
    let axis = node.operands.iter().find_map(|v| graph.ty(*v).ragged());
    let axis = axis.ok_or_else(|| Fault::Batch("a depth over the length needs a sequence".to_owned()))?;
    let axis = env.axis(axis);
    let mut bounds = env.arena().take(env.rows());
    for (row, bound) in bounds.iter_mut().enumerate() {
        let names = Names { length: axis.len(row) as i64, given: env.given(row), ..Names::default() };
        *bound = match eval(expr, &names) {
            Ok(Number::Int(n)) => usize::try_from(n).unwrap_or(0),
            Ok(other) => return Err(Fault::Batch(format!("a depth must be a whole number, not {other:?}"))),
            Err(e) => return Err(Fault::Batch(format!("the depth of a row has no value: {e}"))),
        };
    }
    Ok(bounds)
}
