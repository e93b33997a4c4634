//! The loops: depth recurrence (`recur`), chunk recurrence (`chunks`), balanced fold (`fold`), beam search (`beam`, which uses
//! `search` and goes backwards in `unbeam`), and the backward run of each (`unwind`), and who watches them (`watch`, `joined`,
//! `grown`), and loops over new positions alone (`extend`, `catch_up`). Here is what they share.

pub(crate) mod beam;
mod catch_up;
pub(crate) mod chunks;
mod extend;
pub(crate) mod fold;
pub(crate) mod grown;
pub(crate) mod joined;
pub(crate) mod recur;
pub(crate) mod search;
pub(crate) mod unbeam;
mod unwind;
pub(crate) mod watch;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::types::{Attr, Type};
use rtc_compiler::plan::Plan;

use super::rows::{Axis, Bounds, Env, scatter};
use super::storage::{Buffer, Element, List, Plain, Shared};
use super::value::{Tape, TapeStep, Val};
use super::{Executor, Fault};

pub(super) use catch_up::Settled;
pub(super) use extend::Chunk;
pub use search::Chance;
pub(super) use search::{Searches, Traced};

/// The values of a loop for all rows that entered it.
struct State<'a, T: Element> {
    values: List<Val<T>>,
    /// Values of the graph that have their types.
    of: &'a [Value],
}

/// What one run of a body gave.
struct BodyResult<T: Element> {
    yields: List<Val<T>>,
    saved: List<Val<T>>,
}

/// Values as they stood before a body saw only some of their rows.
type Uncut<T> = List<(Value, Val<T>)>;

/// Some rows of those that entered a loop, and where the chunk of each starts.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) rows: &'a [usize],
    pub(crate) starts: &'a [usize],
    /// All rows that entered take part.
    pub(crate) all: bool,
}

/// An attribute that counts something.
pub(crate) fn int(node: &Node, name: &str) -> Option<usize> {
    node.attrs.get(name).and_then(Attr::int).and_then(|v| usize::try_from(v).ok())
}

/// An attribute that names something.
pub(crate) fn word<'a>(node: &'a Node, name: &str) -> &'a str {
    node.attrs.get(name).and_then(Attr::text).unwrap_or_default()
}

impl<T: Element> Executor<T> {
    fn ty(&self, value: Value) -> &Type {
        self.plan.graph.ty(value)
    }

    /// Handles to some values.
    fn values(&self, values: &[Value]) -> List<Val<T>> {
        self.arena.list(values.iter().map(|v| self.value(*v)))
    }

    /// Only the given rows of a value with the type of `of`.
    fn selected(&self, val: &Val<T>, of: Value, env: &Env, rows: &[usize]) -> Val<T> {
        val.select(&self.plan, self.ty(of), env, rows)
    }

    /// Cuts values in the table down to `rows`; gives what stood there before.
    fn cut<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>, env: &Env, rows: &[usize]) -> Uncut<T> {
        let mut full = self.arena.list([]);
        for &value in values {
            if let Some(val) = self.memory.values[value.index()].take() {
                self.memory.set(value, self.selected(&val, value, env, rows));
                full.push((value, val));
            }
        }
        full
    }

    /// Cuts the values that a body captures down to `rows`; gives what stood there before.
    fn cut_captures(&mut self, plan: &Plan, body: RegionId, env: &Env, rows: &[usize]) -> Uncut<T> {
        self.cut(&plan.regions[body.index()].captures, env, rows)
    }

    fn put_back(&mut self, full: Uncut<T>) {
        for (value, val) in full {
            self.memory.set(value, val);
        }
    }

    /// Gives the parameters of a body their values.
    fn enter(&mut self, plan: &Plan, body: RegionId, params: List<Val<T>>) {
        for (&param, val) in plan.graph.params(body).iter().zip(params) {
            self.memory.set(param, val);
        }
    }

    /// Takes what a body yields and saves out of the table.
    fn leave_body(&mut self, plan: &Plan, body: RegionId) -> BodyResult<T> {
        let own = &plan.regions[body.index()];
        let (yields, saved) = (self.values(&own.yields), self.values(&own.saves));
        for value in own.yields.iter().chain(&own.saves) {
            if plan.graph.scope(*value) == body {
                self.memory.values[value.index()] = None;
            }
        }
        BodyResult { yields, saved }
    }

    /// Runs a body once with the given parameter values; gives what it yields and what it saves.
    fn body(&mut self, plan: &Plan, body: RegionId, params: List<Val<T>>, env: &Env) -> Result<BodyResult<T>, Fault> {
        self.enter(plan, body, params);
        self.region(body, env)?;
        Ok(self.leave_body(plan, body))
    }

    /// `whole`, with the type of `of`, with the given rows replaced by the rows of `part`.
    fn scattered(&self, whole: Val<T>, part: &Val<T>, of: Value, env: &Env, rows: &[usize]) -> Val<T> {
        let bounds = env.bounds(self.ty(of));
        match (whole, part) {
            (Val::Real(whole), Val::Real(part)) => Val::Real(replaced(whole, part, rows, &bounds)),
            (Val::Bool(whole), Val::Bool(part)) => Val::Bool(replaced(whole, part, rows, &bounds)),
            (Val::Index(whole), Val::Index(part)) => Val::Index(replaced(whole, part, rows, &bounds)),
            (whole, _) => whole,
        }
    }

    /// The carried values of the rows that take part.
    fn rows_of(&self, state: &mut State<'_, T>, env: &Env, part: Part<'_>) -> List<Val<T>> {
        if part.all {
            return std::mem::replace(&mut state.values, self.arena.list([]));
        }
        let values = state.values.iter().zip(state.of);
        self.arena.list(values.map(|(val, of)| self.selected(val, *of, env, part.rows)))
    }

    /// Puts new carried values of the rows that take part into the state.
    fn rows_back(&self, state: &mut State<'_, T>, new: List<Val<T>>, env: &Env, part: Part<'_>) {
        if part.all {
            state.values = new;
        } else {
            self.replace_rows(state, &new, env, part.rows);
        }
    }

    /// Replaces the given rows of a state.
    fn replace_rows(&self, state: &mut State<'_, T>, new: &[Val<T>], env: &Env, rows: &[usize]) {
        let old = std::mem::replace(&mut state.values, self.arena.list([]));
        let parts = old.into_iter().zip(new).zip(state.of);
        let values = parts.map(|((old, new), of)| self.scattered(old, new, *of, env, rows));
        state.values = self.arena.list(values);
    }

    /// The chunk of a sequence, with the type of `of`, for the rows that take part; `axis` is that of the chunk.
    fn slice_out(&self, x: &Val<T>, of: Value, env: &Env, part: Part<'_>, axis: &Axis) -> Val<T> {
        let Val::Real(x) = x else { return x.clone() };
        let bounds = env.bounds(self.ty(of));
        let mut out = self.arena.take(axis.total() * bounds.inner);
        for (n, (&row, &start)) in part.rows.iter().zip(part.starts).enumerate() {
            let to = axis.offsets[n] * bounds.inner..axis.offsets[n + 1] * bounds.inner;
            out[to].copy_from_slice(&x[bounds.part(row, start, axis.len(n))]);
        }
        Val::real(out)
    }

    /// Whether what the steps of a loop save is read by a backward run.
    fn is_taped(&self, node: &Node) -> bool {
        node.results.last().is_some_and(|v| *self.ty(*v) == Type::Tape)
    }

    /// Hands out the results of a forward loop whose body is `body`.
    fn finish(&mut self, node: &Node, body: RegionId, done: List<Val<T>>, tape: List<TapeStep<T>>) {
        let mut results = node.results.iter().copied();
        for (result, val) in results.by_ref().zip(done) {
            self.memory.set(result, val);
        }
        if let Some(&last) = node.results.last().filter(|_| self.is_taped(node)) {
            self.memory.set(last, Val::Tape(self.arena.share(Tape { steps: tape, body, search: None })));
        }
    }
}

/// A value with the given rows replaced by the rows of `part`; copied first, if others have a handle to it.
fn replaced<E: Plain>(whole: Shared<Buffer<E>>, part: &[E], rows: &[usize], bounds: &Bounds) -> Shared<Buffer<E>> {
    let arena = whole.allocator().clone();
    let mut own = whole.try_unwrap().unwrap_or_else(|shared| arena.copy(&shared));
    scatter(part, rows, &mut own, bounds);
    arena.share(own)
}

/// Copies chunk values to their places in the whole sequence; `axis` is that of the chunk.
fn put_slices<T: Element>(x: &Val<T>, to: &mut [T], bounds: &Bounds, part: Part<'_>, axis: &Axis) {
    let Val::Real(x) = x else { return };
    for (n, (&row, &start)) in part.rows.iter().zip(part.starts).enumerate() {
        let from = axis.offsets[n] * bounds.inner..axis.offsets[n + 1] * bounds.inner;
        to[bounds.part(row, start, axis.len(n))].copy_from_slice(&x[from]);
    }
}
