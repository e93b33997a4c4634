//! The chunk recurrence.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::schedule::Widths;

use super::{SavedCaptures, State, arena, body_of, finish, given, is_taped, plan, run_body, set_axis, tape_of, values};
use crate::exec::Fault;
use crate::exec::machine::{Active, ActiveOf, Machine};
use crate::exec::pieces::Part;
use crate::exec::rows::Axis;
use crate::exec::value::TapeStep;

/// `chunks`: every row runs through its chunks from left to right.
pub(super) fn chunks<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), Fault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let (carried, axis) = (node.get(attribute::CARRIED), node.get(attribute::AXIS));
    let whole = view.axis(node.get(attribute::OVER)).clone();
    let rule = Widths::of(node);
    let widths = arena.list((0..view.rows()).map(|row| rule.width(whole.len(row), view.width)));
    let (start, sequences) = node.operands.split_at(carried);
    let mut state = State { values: values(m, start), of: start };
    let outputs = given(&plan, &node.results[carried..]);
    let mut done = arena.list(outputs.iter().map(|v| m.take(view.extent(plan.graph.ty(*v)))));
    let given = values(m, sequences);
    let (mut tape, mut captures) = (arena.list([]), SavedCaptures::new(body, view));
    let steps = (0..view.rows()).map(|r| whole.len(r).div_ceil(widths[r])).max().unwrap_or(0);
    for t in 0..steps {
        let rows = arena.list((0..view.rows()).filter(|r| t * widths[*r] < whole.len(*r)));
        let starts = arena.list(rows.iter().map(|r| t * widths[*r]));
        let part = Part::rows(view, &rows);
        captures.narrow(m, &plan, &part);
        let mut here = if part.all { view.clone() } else { view.select(&rows) };
        let chunks = rows.iter().zip(&starts);
        let lengths = chunks.clone().map(|(r, start)| widths[*r].min(whole.len(*r) - start));
        let origin = arena.list(chunks.map(|(r, start)| whole.origin[*r] + start));
        set_axis(m, &mut here, axis, Axis { origin, ..Axis::of_lengths(lengths, &arena) });
        here.key = view.key.at(t as u64);
        let slices = Part::chunks(view, &rows, &starts, here.axis(axis));
        let mut params = state.rows(m, &part);
        params.extend(given.iter().zip(sequences).map(|(val, of)| {
            let ty = plan.graph.ty(*of);
            m.gather(val, &slices.pieces(ty), slices.width(ty))
        }));
        let own = here.clone().into();
        let mut out = run_body(m, &plan, body, params, &own)?;
        for ((output, whole), of) in out.yields.drain(carried..).zip(&mut done).zip(outputs) {
            let ty = plan.graph.ty(*of);
            m.scatter(&output, whole, &slices.pieces(ty), slices.width(ty));
        }
        state.put(m, out.yields, &part);
        if is_taped(m, node) {
            let taken = (!part.all).then(|| arena.share(arena.copy(&rows)));
            drop(slices);
            tape.push(TapeStep { here: own, rows: taken, starts, saved: out.saved });
        }
    }
    captures.restore(m);
    m.records().count_steps(steps);
    finish(m, node, state.values.into_iter().chain(done), tape_of::<M>(body, tape));
    Ok(())
}
