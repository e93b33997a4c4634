//! The three loops: depth recurrence (`recur`), chunk recurrence (`chunks`), and the backward run of either
//! (`unwind`). Here is what they share.

mod chunks;
mod recur;
mod unwind;

use std::rc::Rc;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::types::{Attr, Type};

use super::rows::{Axis, Bounds, Env, scatter};
use super::storage::{Buffer, Element};
use super::value::{Tape, TapeStep, Val};
use super::{Executor, Fault, Watched};

/// The values of a loop for all rows that entered it.
struct State<T: Element> {
    values: Vec<Val<T>>,
    types: Vec<Type>,
}

/// What one run of a body gave.
struct BodyResult<T: Element> {
    yields: Vec<Val<T>>,
    saved: Vec<Val<T>>,
}

/// Values as they stood before a body saw only some of their rows.
type Uncut<T> = Vec<(Value, Val<T>)>;

impl<T: Element> Executor<T> {
    fn int(node: &Node, name: &str) -> Option<usize> {
        node.attrs.get(name).and_then(Attr::int).and_then(|v| usize::try_from(v).ok())
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.plan.graph.ty(*v).clone()).collect()
    }

    /// Cuts the values that a body captures down to `rows`; gives what stood there before.
    fn cut_captures(&mut self, body: RegionId, env: &Env, rows: &[usize]) -> Uncut<T> {
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

    fn put_back(&mut self, full: Uncut<T>) {
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

    /// Types of what a body saves.
    fn saved_types(&self, body: RegionId) -> Rc<Vec<Type>> {
        Rc::new(self.types(&self.plan.regions[body.index()].saves))
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

    /// Hands out the results of a forward loop.
    fn finish(&mut self, node: &Node, env: &Env, done: State<T>, tape: Vec<TapeStep<T>>) {
        let watched = node.results.iter().position(|v| self.plan.graph.hint(*v).starts_with("used"));
        if let (Some(list), Some(n)) = (&mut self.watched, watched)
            && let Some(Val::Real(used)) = done.values.get(n)
        {
            let used = used.as_slice().iter().map(|x| x.to_f64()).collect();
            list.push(Watched { label: node.label.clone(), rows: env.ids.to_vec(), used });
        }
        let mut results = node.results.iter().copied();
        for (result, val) in results.by_ref().zip(done.values) {
            self.memory.set(result, val);
        }
        if let Some(&last) = node.results.last().filter(|v| *self.plan.graph.ty(**v) == Type::Tape) {
            self.memory.set(last, Val::Tape(Rc::new(Tape { steps: tape })));
        }
    }
}

/// Copies chunk values to their places in the whole sequence.
fn put_slices<T: Element>(x: &Val<T>, to: &mut [T], bounds: &Bounds, rows: &[usize], starts: &[usize], part: &Axis) {
    let Val::Real(x) = x else { return };
    for (n, (&row, &start)) in rows.iter().zip(starts).enumerate() {
        let from = part.offsets[n] * bounds.inner..part.offsets[n + 1] * bounds.inner;
        to[bounds.part(row, start, part.len(n))].copy_from_slice(&x.as_slice()[from]);
    }
}
