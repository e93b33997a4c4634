//! The backward run of a loop: its taped steps, last to first. What a step saved goes as soon as its backward run is over.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::plan::{Plan, Step};

use super::{LoopState, SavedCaptures, add_rows, arena, body_of, plan, run_body, values, zeros_of};
use crate::machine::pieces::RowSubset;
use crate::machine::search::TapedSearch;
use crate::machine::value::{Tape, TapeStep, Val};
use crate::machine::{Active, ActiveOf, Machine, ValOf};
use crate::settings::ExecutionFault;
use crate::storage::List;

/// The extra work of a kind of loop in its backward run.
pub(super) trait LoopBackward<M: Machine> {
    /// What the body of a step gets before its saved values, for some of the rows, of sequences the chunks of those.
    fn params(
        &mut self,
        m: &M,
        plan: &Plan,
        part: &RowSubset<'_, M::Arrays>,
        chunks: &RowSubset<'_, M::Arrays>,
    ) -> List<ValOf<M>>;

    /// Takes what the body gives for the carried values.
    fn carry(&mut self, m: &M, yields: List<ValOf<M>>, part: &RowSubset<'_, M::Arrays>);

    /// What it gives for the carried values after the first step.
    fn done(self, m: &M) -> List<ValOf<M>>;
}

/// Runs the backward body over a tape: contributions to what the forward body captured are added up, those to sequences go to
/// their places.
pub(super) fn backward<M: Machine>(
    m: &mut M,
    node: &Node,
    entered: &ActiveOf<M>,
    mut tape: List<TapeStep<M::Arrays>>,
    mut kind: impl LoopBackward<M>,
) -> Result<(), ExecutionFault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let (carried, slices) = (node.get(attribute::CARRIED), node.get(attribute::SLICES));
    let results = &node.results[carried..];
    let mut sums = zeros_of(m, results, view);
    let everyone = arena.list(0..view.rows());
    let mut captures = SavedCaptures::new(body, view);
    while let Some(TapeStep { here, rows, starts, saved }) = tape.pop() {
        let part = RowSubset::rows(view, rows.as_deref().unwrap_or(&everyone));
        captures.narrow(m, &plan, &part);
        let chunks = match node.find(attribute::AXIS) {
            None => RowSubset::rows(view, part.rows),
            Some(axis) => RowSubset::chunks(view, part.rows, &starts, here.view().axis(axis)),
        };
        let mut params = kind.params(m, &plan, &part, &chunks);
        params.extend(saved);
        let mut yields = run_body(m, &plan, body, params, &here)?.yields;
        for (n, val) in yields.drain(carried..).enumerate() {
            let ty = plan.graph.ty(results[n]);
            if n < slices {
                m.scatter(&val, &mut sums[n], &chunks.pieces(ty), chunks.width(ty));
            } else {
                add_rows(m, &mut sums[n], &val, ty, &part);
            }
        }
        kind.carry(m, yields, &part);
    }
    captures.restore(m);
    for (result, val) in node.results.iter().zip(kind.done(m).into_iter().chain(sums)) {
        *m.slot(*result) = Some(val);
    }
    Ok(())
}

/// The backward run of `recur` and `chunks`.
struct Unwind<'a, M: Machine> {
    state: LoopState<'a, M>,
    /// Cotangents of the outputs of `chunks`.
    seeds: List<ValOf<M>>,
    of: &'a [Value],
}

/// `unwind` of a `recur` or a `chunks`.
pub(super) fn unwind<M: Machine>(
    m: &mut M,
    step: &Step,
    node: &Node,
    entered: &ActiveOf<M>,
) -> Result<(), ExecutionFault> {
    let tape = taped(m, step, node.operands[0]).0;
    let (before, of) = node.operands[1..].split_at(node.get(attribute::CARRIED));
    let state = LoopState { values: values(m, before), of: before };
    let seeds = values(m, of);
    backward(m, node, entered, tape, Unwind { state, seeds, of })
}

impl<M: Machine> LoopBackward<M> for Unwind<'_, M> {
    fn params(
        &mut self,
        m: &M,
        plan: &Plan,
        part: &RowSubset<'_, M::Arrays>,
        chunks: &RowSubset<'_, M::Arrays>,
    ) -> List<ValOf<M>> {
        let mut params = self.state.rows(m, part);
        params.extend(self.seeds.iter().zip(self.of).map(|(seed, of)| {
            let ty = plan.graph.ty(*of);
            m.gather(seed, &chunks.pieces(ty), chunks.width(ty))
        }));
        params
    }

    fn carry(&mut self, m: &M, yields: List<ValOf<M>>, part: &RowSubset<'_, M::Arrays>) {
        self.state.put(m, yields, part);
    }

    fn done(self, _: &M) -> List<ValOf<M>> {
        self.state.values
    }
}

/// The steps of a tape, and how its search went.
pub(super) type RecordedLoop<A> = (List<TapeStep<A>>, Option<TapedSearch<A>>);

/// The content of a tape: its own steps where the tape is used for the last time, else handles to them.
pub(super) fn taped<M: Machine>(m: &mut M, step: &Step, tape: Value) -> RecordedLoop<M::Arrays> {
    let slot = m.slot(tape);
    let val = if step.frees.contains(&tape) { slot.take() } else { slot.clone() };
    let Some(Val::Tape(tape)) = val else { unreachable!("the verifier checks the tape") };
    let search = tape.search.clone();
    (Tape::into_steps(tape), search)
}
