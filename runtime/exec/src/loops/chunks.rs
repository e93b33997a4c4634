//! The chunk recurrence.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::schedule::{Axes, Chunks, LoopSchedule as _, Widths};

use super::{
    LoopState, SavedCaptures, arena, body_of, finish, given, is_taped, named_row, place, plan, run_body, set_axis,
    tape_of, values, zeros_of,
};
use crate::machine::pieces::RowSubset;
use crate::machine::record::{LoopTurn, Observers};
use crate::machine::value::TapeStep;
use crate::machine::{Active, ActiveOf, Machine, NumberOf};
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use rtc_kernel::Real;

/// `chunks` with `cut: chosen`: the positions of every row that the first sequence chooses, once.
pub(super) fn chosen<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let axes = Axes::of(node);
    let given = values(m, &node.operands);
    let whole = view.axis(axes.over).clone();
    let choice = m.numbers(&given[0]);
    let unknown =
        |row: &usize| choice[whole.offsets[*row]..whole.offsets[row + 1]].iter().any(|x| !Real::is_finite(*x));
    if let Some(row) = (0..view.rows()).find(unknown) {
        let fault = ExecutionFault::NonFinite(format!("the choice of positions of {}", place(node)));
        return Err(fault.within(named_row(view, row)));
    }
    let takes =
        |row: &usize| choice[whole.offsets[*row]..whole.offsets[row + 1]].iter().any(|x| *x != NumberOf::<M>::ZERO);
    let rows = arena.list((0..view.rows()).filter(takes));
    let outputs = super::given(&plan, &node.results);
    let mut done = zeros_of(m, outputs, view);
    let mut tape = arena.list([]);
    if !rows.is_empty() {
        let part = RowSubset::rows(view, &rows);
        let mut captures = SavedCaptures::new(body, view);
        captures.narrow(m, &plan, &part);
        let mut here = view.select(&rows);
        set_axis(m, &mut here, axes.chunk, whole.choose(&rows, &choice));
        here.key = view.key.at(0);
        let starts = arena.filled(rows.len(), 0);
        let slices = RowSubset::chunks(view, &rows, &starts, here.axis(axes.chunk));
        let params = arena.list(given.iter().zip(&node.operands).map(|(val, of)| {
            let ty = plan.graph.ty(*of);
            m.gather(val, &slices.pieces(ty), slices.width(ty))
        }));
        let own = here.clone().into();
        let out = run_body(m, &plan, body, params, &own)?;
        for ((output, whole), of) in out.yields.into_iter().zip(&mut done).zip(outputs) {
            let ty = plan.graph.ty(*of);
            m.scatter(&output, whole, &slices.pieces(ty), slices.width(ty));
        }
        if is_taped(m, node) {
            let taken = (!part.all).then(|| arena.share(arena.copy(&rows)));
            drop(slices);
            tape.push(TapeStep { here: own, rows: taken, starts, saved: out.saved });
        }
        captures.restore(m);
        m.records().count_steps(1);
    }
    finish(m, node, done, tape_of::<M>(body, tape));
    Ok(())
}

/// `chunks`: every row runs through its chunks from left to right.
pub(super) fn chunks<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let (carried, axes) = (node.get(attribute::CARRIED), Axes::of(node));
    let whole = view.axis(axes.over).clone();
    let lengths = arena.list((0..view.rows()).map(|row| whole.len(row)));
    let mut schedule = Chunks::new(Widths::of(node), lengths, view.width);
    let (start, sequences) = node.operands.split_at(carried);
    let mut state = LoopState { values: values(m, start), of: start };
    let outputs = given(&plan, &node.results[carried..]);
    let mut done = arena.list(outputs.iter().map(|v| m.take(view.extent(plan.graph.ty(*v)))));
    let given = values(m, sequences);
    let (mut tape, mut captures) = (arena.list([]), SavedCaptures::new(body, view));
    let mut observers = Observers::begin(m, &plan.graph, node, view);
    while schedule.alike() > 0 {
        let chunks = arena.list(schedule.chunks());
        let rows = arena.list(chunks.iter().map(|chunk| chunk.row));
        let starts = arena.list(chunks.iter().map(|chunk| chunk.start));
        let part = RowSubset::rows(view, &rows);
        captures.narrow(m, &plan, &part);
        let mut here = if part.all { view.clone() } else { view.select(&rows) };
        let origin = arena.list(chunks.iter().map(|chunk| whole.origin[chunk.row] + chunk.start));
        let lengths = Axis::of_lengths(chunks.iter().map(|chunk| chunk.length), &arena);
        set_axis(m, &mut here, axes.chunk, Axis { origin, ..lengths });
        here.key = view.key.at(schedule.turn() as u64);
        let slices = RowSubset::chunks(view, &rows, &starts, here.axis(axes.chunk));
        let mut params = state.rows(m, &part);
        params.extend(given.iter().zip(sequences).map(|(val, of)| {
            let ty = plan.graph.ty(*of);
            m.gather(val, &slices.pieces(ty), slices.width(ty))
        }));
        let own = here.clone().into();
        let mut out = run_body(m, &plan, body, params, &own)?;
        let (graph, step) = (&plan.graph, schedule.turn());
        let turn = LoopTurn { graph, node, entered: view, here: &here, step, rows: &rows, kept: &[], chunks: &chunks };
        observers.turn(m, &turn, &out.yields);
        drop(chunks);
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
        schedule.advance(1);
    }
    captures.restore(m);
    m.records().count_steps(schedule.turn());
    let done = arena.list(state.values.into_iter().chain(done));
    observers.end(m, node, view, &done);
    finish(m, node, done, tape_of::<M>(body, tape));
    Ok(())
}
