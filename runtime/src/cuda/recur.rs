//! The depth recurrence on a device. One byte per row comes to the host in a step that halts; all else stays.

use rtc_compiler::ir::graph::{Node, RegionId};
use rtc_compiler::plan::Plan;

use super::exec::Executor;
use super::loops::{BodyResult, State, Uncut};
use super::place::Place;
use super::value::{Ids, Picked, TapeStep, Val, places};
use crate::exec::loops::recur::step_bounds;
use crate::exec::loops::watch::{Watch, stepped};
use crate::exec::resume::{keep_carried, resumed};
use crate::exec::storage::Element;
use crate::exec::{Fault, Halting};

/// A recurrence while it runs.
struct Recurrence<'a> {
    body: RegionId,
    /// The batch that entered.
    place: &'a Place,
    /// The carried values of the rows that have left; what stands for the others is not yet meant.
    done: State<'a>,
    /// For each row that is still going: its index among those that entered.
    rows: Vec<usize>,
    /// The carried values of those rows.
    values: Vec<Val>,
    /// The batch as the body sees it: those rows.
    here: Place,
    /// Captured values as they were when all rows were going.
    uncut: Uncut,
}

/// What the body gave for the rows that are going, and their `go`, if it is not known that all accept.
struct StepResult {
    result: BodyResult,
    go: Option<Vec<u8>>,
}

impl<T: Element> Executor<T> {
    /// `recur`: every row runs until its `go` is false or its bound is reached.
    pub(super) fn recur(&mut self, node: &Node, place: &Place) -> Result<(), Fault> {
        let plan = self.plan.clone();
        let body = node.body.expect("the verifier gives every loop a body");
        let halts = plan.regions[body.index()].yields.len() > node.operands.len();
        let id = plan.graph.owner(body);
        let bounds = step_bounds(&plan.graph, &self.exprs, id, node, &place.env)?;
        let (first, values) = resumed(self.resume.as_ref(), id).unwrap_or_else(|| (0, self.values(&node.operands)));
        let done = State { values: values.clone(), of: &node.operands };
        let rows = (0..place.env.rows()).collect();
        let mut at = Recurrence { body, place, done, rows, values, here: place.clone(), uncut: vec![] };
        // Where rows that have halted stay, they take no part in the tape.
        let mut live = vec![true; place.env.rows()];
        let (mut tape, mut ran) = (vec![], 0);
        let mut watch = self.watched.is_some().then(|| Watch::new(&plan.graph, node, &place.env)).flatten();
        let most = bounds.iter().copied().max().unwrap_or(0);
        for step in first..most {
            let keep: Vec<usize> = (0..at.rows.len()).filter(|n| bounds[at.rows[*n]] > step).collect();
            self.leave(&mut at, &keep);
            self.narrow(&plan, &mut at, &keep);
            let Some(out) = self.step(&plan, &mut at, step, halts)? else { break };
            ran += at.rows.len() as u64;
            for (n, row) in at.rows.iter().enumerate() {
                live[*row] &= out.go.as_ref().is_none_or(|go| go[n] != 0);
            }
            let keep: Vec<usize> = (0..at.rows.len()).filter(|n| live[at.rows[*n]]).collect();
            let BodyResult { yields, saved } = out.result;
            if watch.is_some() || self.stepped.is_some() {
                let yields = self.recorded(&yields);
                if let Some(watch) = &mut watch {
                    watch.accepted(&plan.graph, &at.here.env, (&at.rows, &keep), &yields);
                }
                if let Some(seen) = &mut self.stepped {
                    seen.extend(stepped(&plan.graph, node, &at.here.env, step, (&keep, &yields)));
                }
            }
            if !keep.is_empty() && self.is_taped(node) {
                tape.push(self.accepted(&plan, &at, &keep, saved));
            }
            self.accept(&plan, &mut at, &keep, yields);
            if keep.is_empty() && self.halting != Halting::Never {
                break;
            }
        }
        if at.rows.len() == place.env.rows() {
            at.done.values = at.values;
        } else {
            self.leave(&mut at, &[]);
        }
        self.put_back(at.uncut);
        if let Some(watch) = watch {
            let done = self.recorded(&at.done.values);
            self.watched.get_or_insert_default().extend(watch.finished(node, &place.env, &done, ran));
        }
        keep_carried(self.resume.as_mut(), id, &at.done.values, most);
        self.finish(node, body, at.done.values, tape);
        Ok(())
    }

    /// Runs the body once; `None` where nobody takes the step.
    fn step(
        &mut self,
        plan: &Plan,
        at: &mut Recurrence<'_>,
        step: usize,
        halts: bool,
    ) -> Result<Option<StepResult>, Fault> {
        if at.rows.is_empty() {
            return Ok(None);
        }
        at.here = at.here.keyed(at.place.env.key.at(step as u64));
        // A row that rejects the step needs its carried values again.
        let mut params = if halts { at.values.clone() } else { std::mem::take(&mut at.values) };
        params.push(Val::Index(Ids::new(vec![u32::try_from(step).unwrap_or(u32::MAX)])));
        let own = &plan.regions[at.body.index()];
        self.enter(plan, at.body, params);
        self.forget(&own.unused);
        let decided = own.decided.filter(|_| self.halting == Halting::Compact).unwrap_or(0);
        self.steps(plan, at.body, 0..decided, &at.here)?;
        if decided > 0 && !self.decide(plan, at, decided) {
            return Ok(None);
        }
        self.steps(plan, at.body, decided..own.steps.len(), &at.here)?;
        let mut result = self.leave_body(plan, at.body);
        // Those that are left after a decision accept the step: nothing needs to be asked again.
        let go = match result.yields.last() {
            Some(Val::Truth(go)) if halts && decided == 0 => Some(self.pool.download::<u8>(go)),
            _ => None,
        };
        result.yields.truncate(at.done.of.len());
        Ok(Some(StepResult { result, go }))
    }

    /// In the middle of a body, after `decided` of its steps: sends the rows away that reject the step; false where all do.
    fn decide(&mut self, plan: &Plan, at: &mut Recurrence<'_>, decided: usize) -> bool {
        let own = &plan.regions[at.body.index()];
        let go = self.truth(*own.yields.last().expect("a body that halts yields `go`"));
        let go = self.pool.download::<u8>(&go);
        let keep: Vec<usize> = (0..at.rows.len()).filter(|n| go[*n] != 0).collect();
        if keep.len() < at.rows.len() {
            let results = own.steps[..decided].iter().flat_map(|step| &plan.graph.node(step.node).results);
            let present = plan.graph.params(at.body).iter().chain(results);
            match keep.is_empty() {
                true => present.for_each(|value| self.values[value.index()] = None),
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
    fn accept(&mut self, plan: &Plan, at: &mut Recurrence<'_>, keep: &[usize], yields: Vec<Val>) {
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
    fn leave(&self, at: &mut Recurrence<'_>, keep: &[usize]) {
        let leaving = others(at, keep);
        if leaving.is_empty() {
            return;
        }
        let rows: Vec<usize> = leaving.iter().map(|n| at.rows[*n]).collect();
        let part = self.selected(&at.values, at.done.of, &at.here, &leaving);
        self.replace_rows(&mut at.done, &part, at.place, &rows);
    }

    /// Goes on with only the rows in `keep` (indices among those going).
    fn narrow(&mut self, plan: &Plan, at: &mut Recurrence<'_>, keep: &[usize]) {
        if keep.len() == at.rows.len() {
            return;
        }
        at.values = self.selected(&at.values, at.done.of, &at.here, keep);
        let before = self.cut_captures(plan, at.body, &at.here, keep);
        if at.uncut.is_empty() {
            at.uncut = before;
        }
        at.here = at.here.select(keep);
        at.rows = keep.iter().map(|n| at.rows[*n]).collect();
    }

    /// The new values of the rows in `keep`, the old ones of the others.
    fn freeze(&self, at: &Recurrence<'_>, keep: &[usize], new: Vec<Val>) -> Vec<Val> {
        let rejected = others(at, keep);
        let part = self.selected(&at.values, at.done.of, &at.here, &rejected);
        let to = Picked::new(&at.here, &rejected);
        let parts = new.into_iter().zip(&part).zip(at.done.of);
        parts.map(|((new, part), of)| self.replaced(new, part, *of, &to)).collect()
    }

    /// The taped step of only the rows in `keep` (indices among those going), which accept it: the others take no part in its
    /// backward run.
    fn accepted(&self, plan: &Plan, at: &Recurrence<'_>, keep: &[usize], saved: Vec<Val>) -> TapeStep {
        let rows: Vec<usize> = keep.iter().map(|n| at.rows[*n]).collect();
        let rows = (rows.len() < at.place.env.rows()).then(|| rows.into());
        let all = TapeStep { place: at.here.clone(), rows: None, starts: vec![], saved };
        let cut = if keep.len() == at.rows.len() {
            all
        } else {
            let place = places(keep, at.rows.len());
            all.select::<T>(plan, at.body, &place, &self.pool).expect("at least one row accepts the step")
        };
        TapeStep { rows, ..cut }
    }
}

/// The rows going that are not in `keep`, by their indices among those going.
fn others(at: &Recurrence<'_>, keep: &[usize]) -> Vec<usize> {
    (0..at.rows.len()).filter(|n| keep.binary_search(n).is_err()).collect()
}
