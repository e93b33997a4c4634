//! The three loops: depth recurrence, chunk recurrence, and the backward run of either.

use std::rc::Rc;

use rtc_compiler::expr::Expr;
use rtc_compiler::expr::{Env as Names, Value as Number, eval};
use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::types::{Attr, Type};

use super::rows::{Axis, Bounds, Env, scatter};
use super::storage::{Buffer, Element};
use super::value::{Tape, TapeStep, Val};
use super::{Executor, Fault, Halting, Watched};
use crate::kernel::elementwise;

/// The values of a loop for all rows that entered it.
struct State<T: Element> {
    values: Vec<Val<T>>,
    types: Vec<Type>,
}

impl<T: Element> Executor<T> {
    fn int(node: &Node, name: &str) -> Option<usize> {
        node.attrs.get(name).and_then(Attr::int).and_then(|v| usize::try_from(v).ok())
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.plan.graph.ty(*v).clone()).collect()
    }

    /// Cuts the values that a body captures down to `rows`; gives what stood there before.
    fn cut_captures(&mut self, body: RegionId, env: &Env, rows: &[usize]) -> Vec<(Value, Val<T>)> {
        let plan = self.plan.clone();
        let mut full = vec![];
        for &value in &plan.regions[body.index()].captures {
            if let Some(val) = self.memory.values[value.index()].take() {
                let cut = val.select(plan.graph.ty(value), env, rows, &self.pool);
                self.memory.set(value, cut);
                full.push((value, val));
            }
        }
        full
    }

    fn put_back(&mut self, full: Vec<(Value, Val<T>)>) {
        for (value, val) in full {
            self.memory.set(value, val);
        }
    }

    /// Runs a body once with the given parameter values; gives what it yields and what it saves.
    fn body(&mut self, body: RegionId, params: Vec<Val<T>>, env: &Env) -> Result<BodyResult<T>, Fault> {
        let plan = self.plan.clone();
        for (&param, val) in plan.graph.params(body).iter().zip(params) {
            self.memory.set(param, val);
        }
        self.region(body, env)?;
        let own = &plan.regions[body.index()];
        let yields = own.yields.iter().map(|v| self.value(*v)).collect();
        let saved = own.saves.iter().map(|v| self.value(*v)).collect();
        for value in own.yields.iter().chain(&own.saves) {
            if plan.graph.scope(*value) == body {
                self.memory.values[value.index()] = None;
            }
        }
        Ok(BodyResult { yields, saved })
    }

    fn tape_step(&self, body: RegionId, saved: Vec<Val<T>>, env: Env) -> TapeStep<T> {
        let types = Rc::new(self.types(&self.plan.regions[body.index()].saves));
        TapeStep { env, rows: None, starts: vec![], saved, types }
    }

    /// `recur`: every row runs until its `go` is false or its bound is reached.
    pub(super) fn recur(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let count = node.operands.len();
        let halts = self.plan.regions[body.index()].yields.len() > count;
        let bounds = self.step_bounds(node, env)?;
        let longest = bounds.iter().copied().max().unwrap_or(0);
        let types = self.types(&node.operands);
        let mut done = State { values: node.operands.iter().map(|v| self.value(*v)).collect(), types };
        let mut active: Vec<usize> = (0..env.rows()).collect();
        let mut current = done.values.clone();
        let mut here = env.clone();
        let mut full = vec![];
        let mut tape = vec![];
        let mut live = vec![true; env.rows()];
        for step in 0..longest {
            let staying: Vec<usize> = (0..active.len()).filter(|n| bounds[active[*n]] > step).collect();
            if staying.len() < active.len() {
                self.leave(&mut done, &current, env, &here, &active, &staying);
                self.narrow(body, &mut active, &mut current, &mut here, &mut full, &staying, &done.types);
            }
            if active.is_empty() {
                break;
            }
            here.key = env.key.at(step as u64);
            // A row that rejects the step needs its carried values again.
            let mut params = if halts { current.clone() } else { std::mem::take(&mut current) };
            params.push(Val::Index(Rc::new(vec![u32::try_from(step).unwrap_or(u32::MAX)])));
            let mut out = self.body(body, params, &here)?;
            let go = if halts { out.yields.pop() } else { None };
            let mut taped = self.tape_step(body, out.saved, here.clone());
            taped.rows = (active.len() < env.rows()).then(|| Rc::new(active.clone()));
            let Some(Val::Bool(go)) = go else {
                current = out.yields;
                tape.push(taped);
                continue;
            };
            for (n, row) in active.iter().enumerate() {
                live[*row] &= go[n] != 0;
            }
            let keep: Vec<usize> = (0..active.len()).filter(|n| live[active[*n]]).collect();
            if !keep.is_empty() {
                tape.push(self.accepting(taped, &keep, &active));
            }
            if keep.len() == active.len() {
                current = out.yields;
            } else if self.halting == Halting::Compact {
                self.leave(&mut done, &current, env, &here, &active, &keep);
                current = out.yields;
                self.narrow(body, &mut active, &mut current, &mut here, &mut full, &keep, &done.types);
            } else {
                current = self.freeze(&keep, out.yields, &current, &done.types, &here);
            }
            if keep.is_empty() && self.halting != Halting::Never {
                break;
            }
        }
        if active.len() == env.rows() {
            done.values = current;
        } else {
            let none: Vec<usize> = vec![];
            self.leave(&mut done, &current, env, &here, &active, &none);
        }
        self.put_back(full);
        self.finish(node, env, done, tape);
        Ok(())
    }

    /// The taped step of only the rows that accepted it: the others take no part in its backward run.
    fn accepting(&self, taped: TapeStep<T>, keep: &[usize], active: &[usize]) -> TapeStep<T> {
        if keep.len() == active.len() {
            return taped;
        }
        let rows = Rc::new(keep.iter().map(|n| active[*n]).collect());
        let place = place_of(keep, active.len());
        let cut = TapeStep { rows: None, ..taped }.select(&place, &self.pool);
        TapeStep { rows: Some(rows), ..cut.expect("at least one row accepts the step") }
    }

    /// The bound of every row.
    fn step_bounds(&self, node: &Node, env: &Env) -> Result<Vec<usize>, Fault> {
        let attr = node.attrs.get("bound").cloned().unwrap_or(Attr::Int(0));
        if let Attr::Int(n) = attr {
            return Ok(vec![usize::try_from(n).unwrap_or(0); env.rows()]);
        }
        let expr = Expr::try_from(&attr).map_err(Fault::Batch)?;
        let axis = node.operands.iter().find_map(|v| self.plan.graph.ty(*v).ragged().map(str::to_owned));
        let axis = axis.ok_or_else(|| Fault::Batch("a depth over the length needs a sequence".to_owned()))?;
        let length = |row: usize| env.axis(&axis).len(row) as i64;
        let bound = |row: usize| {
            let names = Names { length: length(row), ..Names::default() };
            match eval(&expr, &names) {
                Ok(Number::Int(n)) => Ok(usize::try_from(n).unwrap_or(0)),
                Ok(other) => Err(Fault::Batch(format!("a depth must be a whole number, not {other:?}"))),
                Err(e) => Err(Fault::Batch(format!("the depth of a row has no value: {e}"))),
            }
        };
        (0..env.rows()).map(bound).collect()
    }

    /// Writes the values of the rows that are not in `keep` (indices into `active`) to their final places.
    fn leave(&self, done: &mut State<T>, current: &[Val<T>], env: &Env, here: &Env, active: &[usize], keep: &[usize]) {
        let mut stays = vec![false; active.len()];
        for &n in keep {
            stays[n] = true;
        }
        let leaving: Vec<usize> = (0..active.len()).filter(|n| !stays[*n]).collect();
        let rows: Vec<usize> = leaving.iter().map(|n| active[*n]).collect();
        for (n, val) in current.iter().enumerate() {
            let part = val.select(&done.types[n], here, &leaving, &self.pool);
            done.values[n] = self.scattered(done.values[n].clone(), &part, &done.types[n], env, &rows);
        }
    }

    /// `whole` with the given rows replaced by the rows of `part`.
    fn scattered(&self, whole: Val<T>, part: &Val<T>, ty: &Type, env: &Env, rows: &[usize]) -> Val<T> {
        let bounds = env.bounds(ty);
        match (whole, part) {
            (Val::Real(whole), Val::Real(part)) => {
                let mut whole = self.unique(whole);
                scatter(part.as_slice(), rows, whole.as_mut_slice(), &bounds);
                Val::Real(Rc::new(whole))
            }
            (Val::Bool(mut whole), Val::Bool(part)) => {
                scatter(&part[..], rows, Rc::make_mut(&mut whole).as_mut_slice(), &bounds);
                Val::Bool(whole)
            }
            (Val::Index(mut whole), Val::Index(part)) => {
                scatter(&part[..], rows, Rc::make_mut(&mut whole).as_mut_slice(), &bounds);
                Val::Index(whole)
            }
            (whole, _) => whole,
        }
    }

    /// A buffer of our own with the same contents.
    fn unique(&self, shared: Rc<Buffer<T>>) -> Buffer<T> {
        Rc::try_unwrap(shared).unwrap_or_else(|shared| {
            let mut copy = self.pool.take(shared.as_slice().len());
            copy.as_mut_slice().copy_from_slice(shared.as_slice());
            copy
        })
    }

    /// Goes on with only the rows in `keep` (indices into `active`).
    #[expect(clippy::too_many_arguments, reason = "the parts of one loop state, changed together")]
    fn narrow(
        &mut self,
        body: RegionId,
        active: &mut Vec<usize>,
        current: &mut [Val<T>],
        here: &mut Env,
        full: &mut Vec<(Value, Val<T>)>,
        keep: &[usize],
        types: &[Type],
    ) {
        for (val, ty) in current.iter_mut().zip(types) {
            *val = val.select(ty, here, keep, &self.pool);
        }
        let before = self.cut_captures(body, here, keep);
        if full.is_empty() {
            *full = before;
        }
        *here = here.select(keep);
        *active = keep.iter().map(|n| active[*n]).collect();
    }

    /// The new values of the rows in `keep`, the old ones of the others.
    fn freeze(&self, keep: &[usize], new: Vec<Val<T>>, old: &[Val<T>], types: &[Type], env: &Env) -> Vec<Val<T>> {
        let rejected: Vec<usize> = (0..env.rows()).filter(|n| keep.binary_search(n).is_err()).collect();
        let parts = new.into_iter().zip(old).zip(types);
        parts
            .map(|((new, old), ty)| {
                let part = old.select(ty, env, &rejected, &self.pool);
                self.scattered(new, &part, ty, env, &rejected)
            })
            .collect()
    }

    /// Hands out the results of a forward loop.
    fn finish(&mut self, node: &Node, env: &Env, done: State<T>, tape: Vec<TapeStep<T>>) {
        let watched = node.results.iter().position(|v| self.plan.graph.hint(*v).starts_with("used"));
        if let (Some(list), Some(n)) = (&mut self.watched, watched) {
            if let Some(Val::Real(used)) = done.values.get(n) {
                let used = used.as_slice().iter().map(|x| x.to_f64()).collect();
                list.push(Watched { label: node.label.clone(), rows: env.ids.to_vec(), used });
            }
        }
        let mut results = node.results.iter().copied();
        for (result, val) in results.by_ref().zip(done.values) {
            self.memory.set(result, val);
        }
        if let Some(&last) = node.results.last().filter(|v| *self.plan.graph.ty(**v) == Type::Tape) {
            self.memory.set(last, Val::Tape(Rc::new(Tape { steps: tape })));
        }
    }

    /// `chunks`: every row runs through its chunks from left to right.
    pub(super) fn chunks(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let carried = Self::int(node, "carried").unwrap_or(0);
        let over = node.attrs.get("over").and_then(Attr::text).unwrap_or_default().to_owned();
        let axis = node.attrs.get("axis").and_then(Attr::text).unwrap_or_default().to_owned();
        let whole = env.axis(&over).clone();
        let widths = chunk_widths(node, &whole, env.width);
        let types = self.types(&node.operands);
        let result_types = self.types(&node.results);
        let mut state =
            State { values: node.operands[..carried].iter().map(|v| self.value(*v)).collect(), types: types.clone() };
        let sequences: Vec<Val<T>> = node.operands[carried..].iter().map(|v| self.value(*v)).collect();
        let outputs = result_types[carried..].iter().take_while(|t| **t != Type::Tape);
        let mut outputs: Vec<Buffer<T>> = outputs.map(|ty| self.pool.take(env.extent(ty))).collect();
        let mut tape = vec![];
        let mut full = vec![];
        let mut present = env.rows();
        let steps = (0..env.rows()).map(|r| whole.len(r).div_ceil(widths[r])).max().unwrap_or(0);
        for t in 0..steps {
            let rows: Vec<usize> = (0..env.rows()).filter(|r| t * widths[*r] < whole.len(*r)).collect();
            let all = rows.len() == env.rows();
            let mut here = if all { env.clone() } else { env.select(&rows) };
            if rows.len() < present {
                self.put_back(std::mem::take(&mut full));
                full = self.cut_captures(body, env, &rows);
                present = rows.len();
            }
            let starts: Vec<usize> = rows.iter().map(|r| t * widths[*r]).collect();
            let counts: Vec<usize> = rows.iter().zip(&starts).map(|(r, s)| widths[*r].min(whole.len(*r) - s)).collect();
            let mut part = Axis::of_lengths(counts);
            part.origin = rows.iter().zip(&starts).map(|(r, s)| whole.origin[*r] + s).collect();
            here.set_axis(&axis, part);
            here.key = env.key.at(t as u64);
            let mut params = self.rows_of(&mut state, env, &rows, all);
            for (sequence, ty) in sequences.iter().zip(&types[carried..]) {
                params.push(self.slice_out(sequence, ty, env, &rows, &starts, here.axis(&axis)));
            }
            let out = self.body(body, params, &here)?;
            let mut taped = self.tape_step(body, out.saved, here.clone());
            taped.rows = (!all).then(|| Rc::new(rows.clone()));
            taped.starts.clone_from(&starts);
            tape.push(taped);
            let mut yields = out.yields;
            for (n, output) in yields.split_off(carried).into_iter().enumerate() {
                let bounds = env.bounds(&result_types[carried + n]);
                put_slices(&output, outputs[n].as_mut_slice(), &bounds, &rows, &starts, here.axis(&axis));
            }
            self.rows_back(&mut state, yields, env, &rows, all);
        }
        self.put_back(full);
        state.values.extend(outputs.into_iter().map(|b| Val::Real(Rc::new(b))));
        self.finish(node, env, state, tape);
        Ok(())
    }

    /// The carried values of the given rows.
    fn rows_of(&self, state: &mut State<T>, env: &Env, rows: &[usize], all: bool) -> Vec<Val<T>> {
        if all {
            return std::mem::take(&mut state.values);
        }
        state.values.iter().zip(&state.types).map(|(v, ty)| v.select(ty, env, rows, &self.pool)).collect()
    }

    fn rows_back(&self, state: &mut State<T>, new: Vec<Val<T>>, env: &Env, rows: &[usize], all: bool) {
        if all {
            state.values = new;
            return;
        }
        let old = std::mem::take(&mut state.values);
        let parts = old.into_iter().zip(&new).zip(&state.types);
        state.values = parts.map(|((old, new), ty)| self.scattered(old, new, ty, env, rows)).collect();
    }

    /// The chunk of a sequence for the given rows.
    fn slice_out(&self, x: &Val<T>, ty: &Type, env: &Env, rows: &[usize], starts: &[usize], part: &Axis) -> Val<T> {
        let Val::Real(x) = x else { return x.clone() };
        let bounds = env.bounds(ty);
        let mut out = self.pool.take(part.total() * bounds.inner);
        for (n, (&row, &start)) in rows.iter().zip(starts).enumerate() {
            let to = part.offsets[n] * bounds.inner..part.offsets[n + 1] * bounds.inner;
            out.as_mut_slice()[to].copy_from_slice(&x.as_slice()[bounds.part(row, start, part.len(n))]);
        }
        Val::Real(Rc::new(out))
    }

    /// `unwind`: runs the backward body over the taped steps, last to first.
    pub(super) fn unwind(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let Val::Tape(tape) = self.value(node.operands[0]) else { unreachable!("the verifier checks the tape") };
        let carried = Self::int(node, "carried").unwrap_or(0);
        let outputs = Self::int(node, "outputs").unwrap_or(0);
        let slices = Self::int(node, "slices").unwrap_or(0);
        let operand_types = self.types(&node.operands);
        let result_types = self.types(&node.results);
        let axis = node.attrs.get("axis").and_then(Attr::text).unwrap_or_default().to_owned();
        let mut state = State {
            values: node.operands[1..=carried].iter().map(|v| self.value(*v)).collect(),
            types: operand_types[1..=carried].to_vec(),
        };
        let seeds: Vec<Val<T>> = node.operands[1 + carried..].iter().map(|v| self.value(*v)).collect();
        debug_assert_eq!(seeds.len(), outputs);
        let mut sums: Vec<Buffer<T>> = result_types[carried..].iter().map(|ty| self.zeroed(env.extent(ty))).collect();
        let everyone: Vec<usize> = (0..env.rows()).collect();
        for step in tape.steps.iter().rev() {
            let all = step.rows.is_none();
            let rows: &[usize] = step.rows.as_deref().map_or(&everyone, |r| r);
            let full = if all { vec![] } else { self.cut_captures(body, env, rows) };
            let mut params = self.rows_of(&mut state, env, rows, all);
            for (seed, ty) in seeds.iter().zip(&operand_types[1 + carried..]) {
                params.push(self.slice_out(seed, ty, env, rows, &step.starts, step.env.axis(&axis)));
            }
            params.extend(step.saved.iter().cloned());
            let mut yields = self.body(body, params, &step.env)?.yields;
            let mut rest = yields.split_off(carried);
            let contributions = rest.split_off(slices);
            self.rows_back(&mut state, yields, env, rows, all);
            for (n, slice) in rest.iter().enumerate() {
                let bounds = env.bounds(&result_types[carried + n]);
                put_slices(slice, sums[n].as_mut_slice(), &bounds, rows, &step.starts, step.env.axis(&axis));
            }
            for (n, part) in contributions.iter().enumerate() {
                let ty = &result_types[carried + slices + n];
                self.add_rows(sums[slices + n].as_mut_slice(), part, ty, env, rows, all);
            }
            self.put_back(full);
        }
        state.values.extend(sums.into_iter().map(|b| Val::Real(Rc::new(b))));
        for (result, val) in node.results.iter().zip(state.values) {
            self.memory.set(*result, val);
        }
        Ok(())
    }

    fn zeroed(&self, len: usize) -> Buffer<T> {
        let mut buffer = self.pool.take(len);
        buffer.as_mut_slice().fill(T::ZERO);
        buffer
    }

    /// Adds the rows of `part` to the given rows of `sum`.
    fn add_rows(&self, sum: &mut [T], part: &Val<T>, ty: &Type, env: &Env, rows: &[usize], all: bool) {
        let Val::Real(part) = part else { return };
        if all || !ty.is_batched() {
            elementwise::add_assign(sum, part.as_slice());
            return;
        }
        let bounds = env.bounds(ty);
        let mut at = 0;
        for &row in rows {
            let range = bounds.row(row);
            let len = range.len();
            elementwise::add_assign(&mut sum[range], &part.as_slice()[at..at + len]);
            at += len;
        }
    }
}

/// What one run of a body gave.
struct BodyResult<T: Element> {
    yields: Vec<Val<T>>,
    saved: Vec<Val<T>>,
}

fn place_of(keep: &[usize], count: usize) -> Vec<Option<usize>> {
    let mut place = vec![None; count];
    for (new, &old) in keep.iter().enumerate() {
        place[old] = Some(new);
    }
    place
}

/// The chunk width of every row (notes 1.5 and D7).
///
/// `cut: position` cuts each row by itself: into pieces of `size`, or into `count` pieces of equal width. `cut: balanced` is
/// the papers' code: the padded width of the batch decides for all rows, and pieces are of equal width.
fn chunk_widths(node: &Node, whole: &Axis, padded: usize) -> Vec<usize> {
    let int = |name: &str| node.attrs.get(name).and_then(Attr::int).and_then(|v| usize::try_from(v).ok());
    let rows = whole.origin.len();
    let balanced = node.attrs.get("cut").and_then(Attr::text) == Some("balanced");
    let width = |length: usize| match (int("count"), int("size")) {
        (Some(count), _) => length.div_ceil(count.max(1)),
        (None, Some(size)) if balanced => length.div_ceil(length.div_ceil(size.max(1)).max(1)),
        (None, size) => size.unwrap_or(1),
    };
    let length = |row: usize| if balanced { padded.max(whole.len(row)) } else { whole.len(row) };
    (0..rows).map(|row| width(length(row)).max(1)).collect()
}

/// Copies chunk values to their places in the whole sequence.
fn put_slices<T: Element>(x: &Val<T>, to: &mut [T], bounds: &Bounds, rows: &[usize], starts: &[usize], part: &Axis) {
    let Val::Real(x) = x else { return };
    for (n, (&row, &start)) in rows.iter().zip(starts).enumerate() {
        let from = part.offsets[n] * bounds.inner..part.offsets[n + 1] * bounds.inner;
        to[bounds.part(row, start, part.len(n))].copy_from_slice(&x.as_slice()[from]);
    }
}
