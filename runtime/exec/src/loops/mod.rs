//! The loops: depth recurrence (`recur`), chunk recurrence (`chunks`), balanced fold (`fold`), beam search (`beam`, which uses
//! `search` and goes backwards in `beam_backward` and records its trees in `tree_recorder`), and the backward run of the others (`backward`);
//! and loops over new positions alone (`extend`, `catch_up`).
//!
//! They are written once, for every [`Machine`]: the host decides which rows take part in a step, and the machine moves them.

mod backward;
mod beam;
mod beam_backward;
mod chunks;
mod fold;
mod recur;
mod tree_recorder;

use rtc_compiler::ir::attribute::{self, Chunking};
use std::sync::Arc;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{LENGTH, Type, unframed};
use rtc_compiler::plan::{Plan, Step};

use crate::arena::Arena;
use crate::machine::pieces::{Pieces, RowSubset};
use crate::machine::region::{forget, named_row, place, run_region, run_steps};
use crate::machine::value::{Tape, TapeStep, Val};
use crate::machine::{ActiveOf, Machine, MachineArrays, NumberOf, ValOf};
use crate::rows::{Axis, BatchView};
use crate::settings::ExecutionFault;
use crate::storage::List;
use rtc_kernel::{Real, truth};

pub use recur::depths;

/// Runs a loop, forwards or backwards.
pub fn run<M: Machine>(m: &mut M, step: &Step, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let plan = m.common().plan.clone();
    let node = plan.graph.node(step.node);
    match node.op {
        Op::Recur => recur::recur(m, node, entered),
        Op::Chunks if node.get(attribute::CUT) == Chunking::Chosen => chunks::chosen(m, node, entered),
        Op::Chunks => chunks::chunks(m, node, entered),
        Op::Fold => fold::fold(m, node, entered),
        Op::Beam => beam::beam(m, node, entered),
        Op::Part => beam::part(m, node, entered),
        Op::Unwind if node.has(attribute::BEAMS) => beam_backward::beam_backward(m, step, node, entered),
        Op::Unwind if node.has(attribute::ROLE) => beam_backward::part_backward(m, step, node),
        Op::Unwind if Cut::of(node).is_some() => fold::fold_backward(m, step, node, entered),
        Op::Unwind => backward::unwind(m, step, node, entered),
        other => unreachable!("`{other}` is no loop"),
    }
}

/// The values of a loop for all rows that entered it.
struct LoopState<'a, M: Machine> {
    values: List<ValOf<M>>,
    /// Values of the graph that have their types.
    of: &'a [Value],
}

/// What one run of a body gave.
struct BodyResult<M: Machine> {
    yields: List<ValOf<M>>,
    saved: List<ValOf<M>>,
}

/// The values that a body captures, as they stood before it saw only some of their rows.
struct SavedCaptures<M: Machine> {
    body: RegionId,
    full: List<(Value, ValOf<M>)>,
    /// The rows that the body sees.
    present: List<usize>,
}

impl<M: Machine> SavedCaptures<M> {
    fn new(body: RegionId, entered: &BatchView) -> Self {
        let arena = entered.arena();
        Self { body, full: arena.list([]), present: arena.list(0..entered.rows()) }
    }

    /// Narrows what the body captures to the rows of `part`.
    fn narrow(&mut self, m: &mut M, plan: &Plan, part: &RowSubset<'_, M::Arrays>) {
        if *part.rows == *self.present {
            return;
        }
        self.restore(m);
        if !part.all {
            self.full = narrowed(m, plan, &plan.regions[self.body.index()].captures, part);
        }
        self.present.clear();
        self.present.extend_from_slice(part.rows);
    }

    /// Gives all rows back; the body is not run again before the next call of [`Self::narrow`].
    fn restore(&mut self, m: &mut M) {
        for (value, val) in self.full.drain(..) {
            *m.slot(value) = Some(val);
        }
    }
}

/// Narrows values in the table to the rows of `part`; gives what stood there before.
fn narrowed<'v, M: Machine>(
    m: &mut M,
    plan: &Plan,
    values: impl IntoIterator<Item = &'v Value>,
    part: &RowSubset<'_, M::Arrays>,
) -> List<(Value, ValOf<M>)> {
    let mut full = arena(m).list([]);
    for &value in values {
        if let Some(val) = m.slot(value).take() {
            *m.slot(value) = Some(val.select(m, plan, plan.graph.ty(value), part));
            full.push((value, val));
        }
    }
    full
}

fn body_of(node: &Node) -> RegionId {
    node.body.expect("the verifier gives every loop a body")
}

fn plan<M: Machine>(m: &M) -> Arc<Plan> {
    m.common().plan.clone()
}

fn arena<M: Machine>(m: &M) -> Arena {
    m.common().arena.clone()
}

/// Sets an axis of a view, and those with START and END around it.
fn set_axis<M: Machine>(m: &M, view: &mut BatchView, name: &str, axis: Axis) {
    crate::axes::set_axis(m.common().axes, view, name, axis);
}

/// Handles to some values.
pub(super) fn values<M: Machine>(m: &M, values: &[Value]) -> List<ValOf<M>> {
    m.common().arena.list(values.iter().map(|v| m.value(*v)))
}

/// Gives the parameters of a body their values.
pub(super) fn enter<M: Machine>(m: &mut M, plan: &Plan, body: RegionId, params: List<ValOf<M>>) {
    for (&param, val) in plan.graph.params(body).iter().zip(params) {
        *m.slot(param) = Some(val);
    }
}

/// Takes what a body yields and saves out of the table.
fn leave_body<M: Machine>(m: &mut M, plan: &Plan, body: RegionId) -> BodyResult<M> {
    let own = &plan.regions[body.index()];
    let out: BodyResult<M> = BodyResult { yields: values(m, &own.yields), saved: values(m, &own.saves) };
    forget(m, own.yields.iter().chain(&own.saves).filter(|value| plan.graph.scope(**value) == body));
    out
}

/// Runs a body once with the given parameter values; gives what it yields and what it saves.
fn run_body<M: Machine>(
    m: &mut M,
    plan: &Plan,
    body: RegionId,
    params: List<ValOf<M>>,
    here: &ActiveOf<M>,
) -> Result<BodyResult<M>, ExecutionFault> {
    enter(m, plan, body, params);
    run_region(m, body, here)?;
    Ok(leave_body(m, plan, body))
}

impl<M: Machine> LoopState<'_, M> {
    /// The values of the rows that take part.
    fn rows(&mut self, m: &M, part: &RowSubset<'_, M::Arrays>) -> List<ValOf<M>> {
        let common = m.common();
        if part.all {
            return std::mem::replace(&mut self.values, common.arena.list([]));
        }
        let values = self.values.iter().zip(self.of);
        common.arena.list(values.map(|(val, of)| val.select(m, common.plan, common.plan.graph.ty(*of), part)))
    }

    /// Puts new values of the rows that take part in the places of the old ones.
    fn put(&mut self, m: &M, new: List<ValOf<M>>, part: &RowSubset<'_, M::Arrays>) {
        if part.all {
            self.values = new;
            return;
        }
        let graph = &m.common().plan.graph;
        for ((old, new), of) in self.values.iter_mut().zip(new).zip(self.of) {
            let ty = graph.ty(*of);
            m.scatter(&new, old, &part.pieces(ty), part.width(ty));
        }
    }
}

/// Adds the rows of `part` to the same rows of `sum`, which has the type of `of`.
fn add_rows<M: Machine>(m: &M, sum: &mut ValOf<M>, val: &ValOf<M>, ty: &Type, part: &RowSubset<'_, M::Arrays>) {
    if part.all || !ty.is_batched() {
        m.add(val, sum, None, 1);
    } else {
        m.add(val, sum, Some(&part.pieces(ty)), part.width(ty));
    }
}

/// Zeros of the types of some values.
fn zeros_of<M: Machine>(m: &M, of: &[Value], view: &BatchView) -> List<ValOf<M>> {
    let common = m.common();
    common.arena.list(of.iter().map(|of| m.zeros(view.extent(common.plan.graph.ty(*of)))))
}

/// Refuses decisions about rows that were asked of numbers that are not finite.
pub(crate) fn decided(node: &Node, view: &BatchView, go: impl IntoIterator<Item = u8>) -> Result<(), ExecutionFault> {
    match go.into_iter().position(|go| go == truth::UNKNOWN) {
        Some(row) => {
            let fault = ExecutionFault::NonFinite(format!("the number by which {} decides who goes on", place(node)));
            Err(fault.within(named_row(view, row)))
        }
        None => Ok(()),
    }
}

/// The step of a loop, as people count it.
pub(crate) fn named_step(node: &Node, step: usize) -> String {
    format!("step {} of {}", step + 1, place(node))
}

/// Whether what the steps of a loop save is read by a backward run.
fn is_taped<M: Machine>(m: &M, node: &Node) -> bool {
    node.results.last().is_some_and(|v| *m.common().plan.graph.ty(*v) == Type::Tape)
}

/// The results of a forward loop besides its tape.
fn given<'a>(plan: &'a Plan, results: &'a [Value]) -> &'a [Value] {
    let count = results.iter().take_while(|v| *plan.graph.ty(**v) != Type::Tape).count();
    &results[..count]
}

/// Hands out the results of a forward loop whose body is `body`.
pub(crate) fn finish<M: Machine>(
    m: &mut M,
    node: &Node,
    done: impl IntoIterator<Item = ValOf<M>>,
    tape: Tape<M::Arrays>,
) {
    for (result, val) in node.results.iter().zip(done) {
        *m.slot(*result) = Some(val);
    }
    if let Some(&last) = node.results.last().filter(|_| is_taped(m, node)) {
        let tape = arena(m).share(tape);
        *m.slot(last) = Some(Val::Tape(tape));
    }
}

/// A tape that holds only steps.
pub(crate) fn tape_of<M: Machine>(body: RegionId, steps: List<TapeStep<M::Arrays>>) -> Tape<M::Arrays> {
    Tape { steps, body, search: None }
}

/// The width of the padded batch, for an axis that is that of whole rows.
fn padded(view: &BatchView, over: &str) -> usize {
    match unframed(over) {
        (LENGTH, more) => view.width + more,
        _ => 0,
    }
}

/// Means over what a loop runs on in a row: chunks of a fold, pairs of a search. A row without any has the mean 0.
struct RowMeans<M: Machine> {
    sums: List<ValOf<M>>,
    counts: List<usize>,
}

impl<M: Machine> RowMeans<M> {
    fn new(m: &M, count: usize, rows: usize) -> Self {
        let arena = m.common().arena;
        Self { sums: arena.list((0..count).map(|_| m.zeros(rows))), counts: arena.filled(rows, 0) }
    }

    /// Adds numbers of these rows, each row's side by side.
    fn add(&mut self, m: &M, rows: &[usize], numbers: impl IntoIterator<Item = ValOf<M>>) {
        rows.iter().for_each(|row| self.counts[*row] += 1);
        let pieces = Pieces::units(rows, m.common().arena);
        for (number, sum) in numbers.into_iter().zip(&mut self.sums) {
            m.add(&number, sum, Some(&pieces), 1);
        }
    }

    fn done(mut self, m: &M) -> List<ValOf<M>> {
        let count = self.counts.iter().map(|count| share::<M>(*count));
        for sum in &mut self.sums {
            m.scale(sum, m.common().arena.list(count.clone()));
        }
        self.sums
    }
}

/// The backward run of means: the share of each of these rows in the cotangents, of which there are `counts` by row.
fn shares<M: Machine>(m: &M, means: &[ValOf<M>], rows: &[usize], counts: &[usize]) -> List<ValOf<M>> {
    let arena = m.common().arena;
    let (pieces, factors) = (Pieces::units(rows, arena), rows.iter().map(|row| share::<M>(counts[*row])));
    arena.list(means.iter().map(|mean| {
        let mut part = m.gather(mean, &pieces, 1);
        m.scale(&mut part, arena.list(factors.clone()));
        part
    }))
}

/// The factor of a mean over `count` numbers.
fn share<M: Machine>(count: usize) -> NumberOf<M> {
    NumberOf::<M>::from_f64(1.0 / count.max(1) as f64)
}

/// How often each of the rows that entered stands in these steps.
fn counts<'s, A: MachineArrays>(steps: impl IntoIterator<Item = &'s TapeStep<A>>, view: &BatchView) -> List<usize> {
    let mut counts = view.arena().filled(view.rows(), 0);
    for step in steps {
        match &step.rows {
            Some(rows) => rows.iter().for_each(|row| counts[*row] += 1),
            None => counts.iter_mut().for_each(|count| *count += 1),
        }
    }
    counts
}
