//! What loops on a device share, the chunk recurrence, and the backward run of loops. The host decides who takes part, as on the
//! CPU; the values move on the device.

use std::rc::Rc;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::{Plan, Step};

use super::exec::Executor;
use super::memory::Array;
use super::pieces::Pieces;
use super::place::Place;
use super::value::{Picked, Tape, TapeStep, Val, inner};
use crate::exec::loops::chunks::{chunk_axis, chunk_widths};
use crate::exec::loops::{Part, int, word};
use crate::exec::rows::Axis;
use crate::exec::storage::{Element, Plain};
use crate::exec::{Fault, set_axis};

/// The values of a loop for all rows that entered it.
pub(super) struct State<'a> {
    pub(super) values: Vec<Val>,
    /// Values of the graph that have their types.
    pub(super) of: &'a [Value],
}

/// What one run of a body gave.
pub(super) struct BodyResult {
    pub(super) yields: Vec<Val>,
    pub(super) saved: Vec<Val>,
}

/// Values as they stood before a body saw only some of their rows.
pub(super) type Uncut = Vec<(Value, Val)>;

impl<T: Element> Executor<T> {
    pub(super) fn values(&self, values: &[Value]) -> Vec<Val> {
        values.iter().map(|v| self.value(*v)).collect()
    }

    /// Only the given rows of some values with the types of `of`.
    pub(super) fn selected(&self, values: &[Val], of: &[Value], place: &Place, rows: &[usize]) -> Vec<Val> {
        let from = Picked::new(place, rows);
        let pairs = values.iter().zip(of);
        pairs.map(|(val, of)| val.select::<T>(&self.plan, self.ty(*of), &from, &self.pool)).collect()
    }

    /// Cuts values in the table down to `rows`; gives what stood there before.
    pub(super) fn cut<'v>(
        &mut self,
        values: impl IntoIterator<Item = &'v Value>,
        place: &Place,
        rows: &[usize],
    ) -> Uncut {
        let (mut full, from) = (vec![], Picked::new(place, rows));
        for &value in values {
            if let Some(val) = self.values[value.index()].take() {
                let part = val.select::<T>(&self.plan, self.ty(value), &from, &self.pool);
                self.set(value, part);
                full.push((value, val));
            }
        }
        full
    }

    /// Cuts the values that a body captures down to `rows`; gives what stood there before.
    pub(super) fn cut_captures(&mut self, plan: &Plan, body: RegionId, place: &Place, rows: &[usize]) -> Uncut {
        self.cut(&plan.regions[body.index()].captures, place, rows)
    }

    pub(super) fn put_back(&mut self, full: Uncut) {
        for (value, val) in full {
            self.set(value, val);
        }
    }

    /// Gives the parameters of a body their values.
    pub(super) fn enter(&mut self, plan: &Plan, body: RegionId, params: Vec<Val>) {
        for (&param, val) in plan.graph.params(body).iter().zip(params) {
            self.set(param, val);
        }
    }

    /// Takes what a body yields and saves out of the table.
    pub(super) fn leave_body(&mut self, plan: &Plan, body: RegionId) -> BodyResult {
        let own = &plan.regions[body.index()];
        let (yields, saved) = (self.values(&own.yields), self.values(&own.saves));
        for value in own.yields.iter().chain(&own.saves) {
            if plan.graph.scope(*value) == body {
                self.values[value.index()] = None;
            }
        }
        BodyResult { yields, saved }
    }

    /// Runs a body once with the given parameter values; gives what it yields and what it saves.
    pub(super) fn body(
        &mut self,
        plan: &Plan,
        body: RegionId,
        params: Vec<Val>,
        place: &Place,
    ) -> Result<BodyResult, Fault> {
        self.enter(plan, body, params);
        self.region(body, place)?;
        Ok(self.leave_body(plan, body))
    }

    /// `whole`, with the type of `of`, with the given rows replaced by the rows of `part`.
    pub(super) fn replaced(&self, whole: Val, part: &Val, of: Value, to: &Picked<'_>) -> Val {
        let ty = self.ty(of);
        let width = inner(to.place, ty);
        match (whole, part) {
            (Val::Real(whole), Val::Real(part)) => {
                let own = self.owned::<T>(whole);
                to.pieces(ty).scattered::<T>(part, &own, width, &self.pool);
                Val::Real(own)
            }
            (Val::Truth(whole), Val::Truth(part)) => {
                let own = self.owned::<u8>(whole);
                to.pieces(ty).scattered::<u8>(part, &own, width, &self.pool);
                Val::Truth(own)
            }
            (whole, _) => whole,
        }
    }

    /// An array that nobody else sees: a copy, if others have a handle.
    fn owned<E: Plain>(&self, array: Array) -> Array {
        if array.is_alone() {
            return array;
        }
        let own = self.pool.take::<E>(array.len());
        self.pool.device().copy(array.at(), own.at(), array.len() * size_of::<E>());
        own
    }

    /// The carried values of the rows that take part.
    pub(super) fn rows_of(&self, state: &mut State<'_>, place: &Place, part: Part<'_>) -> Vec<Val> {
        if part.all {
            return std::mem::take(&mut state.values);
        }
        self.selected(&state.values, state.of, place, part.rows)
    }

    /// Puts new carried values of the rows that take part into the state.
    pub(super) fn rows_back(&self, state: &mut State<'_>, new: Vec<Val>, place: &Place, part: Part<'_>) {
        if part.all {
            state.values = new;
        } else {
            self.replace_rows(state, &new, place, part.rows);
        }
    }

    /// Replaces the given rows of a state.
    pub(super) fn replace_rows(&self, state: &mut State<'_>, new: &[Val], place: &Place, rows: &[usize]) {
        let to = Picked::new(place, rows);
        let old = std::mem::take(&mut state.values);
        let parts = old.into_iter().zip(new).zip(state.of);
        state.values = parts.map(|((old, new), of)| self.replaced(old, new, *of, &to)).collect();
    }

    /// Whether what the steps of a loop save is read by a backward run.
    pub(super) fn is_taped(&self, node: &Node) -> bool {
        node.results.last().is_some_and(|v| *self.ty(*v) == Type::Tape)
    }

    /// Hands out the results of a forward loop whose body is `body`.
    pub(super) fn finish(&mut self, node: &Node, body: RegionId, done: Vec<Val>, tape: Vec<TapeStep>) {
        let mut results = node.results.iter().copied();
        for (result, val) in results.by_ref().zip(done) {
            self.set(result, val);
        }
        if let Some(&last) = node.results.last().filter(|_| self.is_taped(node)) {
            self.set(last, Val::Tape(Rc::new(Tape { steps: tape, body, search: None })));
        }
    }

    /// The chunks of a sequence with the type of `of`, end to end.
    fn slice_out(&self, x: &Val, of: Value, place: &Place, slices: &Slices) -> Val {
        let Val::Real(x) = x else { return x.clone() };
        Val::Real(slices.pieces(self.ty(of)).gathered::<T>(x, inner(place, self.ty(of)), &self.pool))
    }

    /// `chunks`: every row runs through its chunks from left to right.
    pub(super) fn chunks(&mut self, node: &Node, place: &Place) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, env) = (self.plan.clone(), &place.env);
        let carried = int(node, "carried").unwrap_or(0);
        let axis = word(node, "axis");
        let whole = env.axis(word(node, "over")).clone();
        let widths = chunk_widths(node, &whole, env);
        let mut state = State { values: self.values(&node.operands[..carried]), of: &node.operands[..carried] };
        let sequences = self.values(&node.operands[carried..]);
        let given = node.results[carried..].iter().take_while(|v| *self.plan.graph.ty(**v) != Type::Tape);
        let outputs: Vec<Array> = given.map(|v| self.pool.take::<T>(env.extent(self.plan.graph.ty(*v)))).collect();
        let (mut tape, mut full, mut present) = (vec![], vec![], env.rows());
        let steps = (0..env.rows()).map(|r| whole.len(r).div_ceil(widths[r])).max().unwrap_or(0);
        for t in 0..steps {
            let rows: Vec<usize> = (0..env.rows()).filter(|r| t * widths[*r] < whole.len(*r)).collect();
            let starts: Vec<usize> = rows.iter().map(|r| t * widths[*r]).collect();
            let part = Part { rows: &rows, starts: &starts, all: rows.len() == env.rows() };
            if rows.len() < present {
                self.put_back(std::mem::take(&mut full));
                full = self.cut_captures(&plan, body, place, &rows);
                present = rows.len();
            }
            let mut here = if part.all { env.clone() } else { env.select(&rows) };
            set_axis(&self.axes, &mut here, axis, chunk_axis(part, &widths, &whole, env));
            here.key = env.key.at(t as u64);
            let here = Place::new(here);
            let slices = Slices::new(place, part, here.env.axis(axis));
            let mut params = self.rows_of(&mut state, place, part);
            for (sequence, of) in sequences.iter().zip(&node.operands[carried..]) {
                params.push(self.slice_out(sequence, *of, place, &slices));
            }
            let mut out = self.body(&plan, body, params, &here)?;
            for (n, output) in out.yields.drain(carried..).enumerate() {
                let ty = plan.graph.ty(node.results[carried + n]);
                slices.pieces(ty).scattered::<T>(output.real(), &outputs[n], inner(place, ty), &self.pool);
            }
            self.rows_back(&mut state, out.yields, place, part);
            if self.is_taped(node) {
                let taken = (!part.all).then(|| Rc::from(&rows[..]));
                tape.push(TapeStep { place: here, rows: taken, starts, saved: out.saved });
            }
        }
        self.put_back(full);
        state.values.extend(outputs.into_iter().map(Val::Real));
        self.finish(node, body, state.values, tape);
        Ok(())
    }

    /// `unwind`: runs the backward body over the taped steps, last to first. What a step saved goes as soon as its
    /// backward run is over.
    pub(super) fn unwind(&mut self, step: &Step, node: &Node, place: &Place) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, env) = (self.plan.clone(), &place.env);
        let [carried, slices_count] = ["carried", "slices"].map(|name| int(node, name).unwrap_or(0));
        let axis = word(node, "axis");
        let mut tape = self.taped(step, node.operands[0]);
        let (before, after) = node.operands[1..].split_at(carried);
        let mut state = State { values: self.values(before), of: before };
        let seeds = self.values(after);
        let results = &node.results[carried..];
        let sums: Vec<Array> = results.iter().map(|of| self.pool.zeros::<T>(env.extent(plan.graph.ty(*of)))).collect();
        let everyone: Vec<usize> = (0..env.rows()).collect();
        let (mut full, mut present) = (vec![], everyone.clone());
        while let Some(TapeStep { place: here, rows, starts, saved }) = tape.pop() {
            let part = Part { rows: rows.as_deref().unwrap_or(&everyone), starts: &starts, all: rows.is_none() };
            if *part.rows != *present {
                self.put_back(std::mem::take(&mut full));
                full = if part.all { vec![] } else { self.cut_captures(&plan, body, place, part.rows) };
                present = part.rows.to_vec();
            }
            let slices = (!axis.is_empty()).then(|| Slices::new(place, part, here.env.axis(axis)));
            let mut params = self.rows_of(&mut state, place, part);
            if let Some(slices) = &slices {
                let parts = seeds.iter().zip(after).map(|(seed, of)| self.slice_out(seed, *of, place, slices));
                params.extend(parts);
            }
            params.extend(saved);
            let mut yields = self.body(&plan, body, params, &here)?.yields;
            for (n, val) in yields.drain(carried..).enumerate() {
                match &slices {
                    Some(slices) if n < slices_count => {
                        let ty = plan.graph.ty(results[n]);
                        slices.pieces(ty).scattered::<T>(val.real(), &sums[n], inner(place, ty), &self.pool);
                    }
                    _ => self.add_rows(&sums[n], &val, results[n], place, part),
                }
            }
            self.rows_back(&mut state, yields, place, part);
        }
        self.put_back(full);
        state.values.extend(sums.into_iter().map(Val::Real));
        for (result, val) in node.results.iter().zip(state.values) {
            self.set(*result, val);
        }
        Ok(())
    }

    /// The steps of a tape: its own ones where the tape is used for the last time, else handles to them.
    pub(super) fn taped(&mut self, step: &Step, tape: Value) -> Vec<TapeStep> {
        let slot = &mut self.values[tape.index()];
        let val = if step.frees.contains(&tape) { slot.take() } else { slot.clone() };
        let Some(Val::Tape(tape)) = val else { unreachable!("the verifier checks the tape") };
        Tape::into_steps(tape)
    }

    /// Adds the rows of `part` to the same rows of `sum`, which has the type of `of`.
    pub(super) fn add_rows(&self, sum: &Array, val: &Val, of: Value, place: &Place, part: Part<'_>) {
        let (Val::Real(val), ty) = (val, self.ty(of)) else { return };
        if part.all || !ty.is_batched() {
            self.pool.add(val, sum);
            return;
        }
        let pieces = match ty.ragged() {
            Some(name) => {
                let axis = place.env.axis(name);
                Pieces::added(part.rows.iter().map(|row| (axis.offsets[*row], axis.len(*row))))
            }
            None => Pieces::added(part.rows.iter().map(|row| (*row, 1))),
        };
        pieces.add(val, sum, inner(place, ty), &self.pool);
    }
}

/// Where the chunks of a step lie in whole sequences: by the axis of the sequence.
struct Slices<'a> {
    place: &'a Place,
    part: Part<'a>,
    axis: &'a Axis,
    made: std::cell::RefCell<Vec<(String, Rc<Pieces>)>>,
}

impl<'a> Slices<'a> {
    fn new(place: &'a Place, part: Part<'a>, axis: &'a Axis) -> Self {
        Self { place, part, axis, made: std::cell::RefCell::default() }
    }

    fn pieces(&self, ty: &Type) -> Rc<Pieces> {
        let name = ty.ragged().expect("sequences are cut along a ragged axis");
        if let Some((_, found)) = self.made.borrow().iter().find(|(n, _)| n == name) {
            return found.clone();
        }
        let whole = self.place.env.axis(name);
        let chunks = self.part.rows.iter().zip(self.part.starts).enumerate();
        let made =
            Rc::new(Pieces::packed(chunks.map(|(n, (row, start))| (whole.offsets[*row] + start, self.axis.len(n)))));
        self.made.borrow_mut().push((name.to_owned(), made.clone()));
        made
    }
}
