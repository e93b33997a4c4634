//! Values at run time, and the tape of a loop.

use rtc_compiler::ir::graph::RegionId;
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::Plan;

use super::arena::Arena;
use super::rows::{Bounds, Env, gather};
use super::storage::{Buffer, Element, List, Plain, Shared};

/// A value of the graph. Cloning shares the data.
#[derive(Clone, Debug)]
pub enum Val<T: Element> {
    /// Reals.
    Real(Shared<Buffer<T>>),
    /// Ids, labels, counters.
    Index(Shared<Buffer<u32>>),
    /// Truth values, 0 or 1.
    Bool(Shared<Buffer<u8>>),
    /// What a forward loop saved.
    Tape(Shared<Tape<T>>),
}

/// The saved steps of a loop, first to last.
#[derive(Debug)]
pub struct Tape<T: Element> {
    /// Steps in forward order.
    pub steps: List<TapeStep<T>>,
    /// The body whose `saves` are the saved values.
    pub body: RegionId,
}

/// One step of a loop.
#[derive(Clone, Debug)]
pub struct TapeStep<T: Element> {
    /// The rows that took the step, as the body saw them.
    pub env: Env,
    /// Their indices among the rows that entered the loop, of a fold the row of every chunk; `None` for all rows, each
    /// once.
    pub rows: Option<Shared<List<usize>>>,
    /// For chunks: where each row's chunk starts in the row.
    pub starts: List<usize>,
    /// The saved values.
    pub saved: List<Val<T>>,
}

impl<T: Element> Val<T> {
    /// Reals.
    pub fn real(buffer: Buffer<T>) -> Self {
        let arena = buffer.allocator().clone();
        Self::Real(arena.share(buffer))
    }

    /// Ids, labels, counters.
    pub fn index(buffer: Buffer<u32>) -> Self {
        let arena = buffer.allocator().clone();
        Self::Index(arena.share(buffer))
    }

    /// Truth values.
    pub fn truth(buffer: Buffer<u8>) -> Self {
        let arena = buffer.allocator().clone();
        Self::Bool(arena.share(buffer))
    }

    /// Only the given rows of a value of type `ty`, laid out as in `env`; all of it if it has no rows.
    pub fn select(&self, plan: &Plan, ty: &Type, env: &Env, rows: &[usize]) -> Self {
        match self {
            Self::Tape(tape) => Self::Tape(env.arena().share(tape.select(plan, env, rows))),
            _ if !ty.is_batched() => self.clone(),
            Self::Real(x) => Self::real(gathered(x, &env.bounds(ty), rows, env.arena())),
            Self::Index(x) => Self::index(gathered(x, &env.bounds(ty), rows, env.arena())),
            Self::Bool(x) => Self::truth(gathered(x, &env.bounds(ty), rows, env.arena())),
        }
    }
}

fn gathered<E: Plain>(x: &[E], bounds: &Bounds, rows: &[usize], arena: &Arena) -> Buffer<E> {
    let mut out = arena.take(rows.iter().map(|r| bounds.row(*r).len()).sum());
    gather(x, bounds, rows, &mut out);
    out
}

impl<T: Element> Tape<T> {
    /// The tape of only some of the rows that entered, which `env` describes.
    fn select(&self, plan: &Plan, env: &Env, rows: &[usize]) -> Self {
        let place = places(rows, env.rows(), env.arena());
        let steps = self.steps.iter().filter_map(|step| step.select(plan, self.body, &place));
        Self { steps: env.arena().list(steps), body: self.body }
    }

    /// Its steps, to be used up; they are shared only with those who hold the tape as well.
    pub(super) fn into_steps(tape: Shared<Self>) -> List<TapeStep<T>> {
        tape.try_unwrap().map_or_else(|shared| shared.steps.clone(), |own| own.steps)
    }
}

/// The new place of each of `count` rows if only `rows` stay.
pub(super) fn places(rows: &[usize], count: usize, arena: &Arena) -> List<Option<usize>> {
    let mut place = arena.list(std::iter::repeat_n(None, count));
    for (new, &old) in rows.iter().enumerate() {
        place[old] = Some(new);
    }
    place
}

impl<T: Element> TapeStep<T> {
    /// Only the rows that have a new place among the rows that entered; `None` when there is none.
    pub(super) fn select(&self, plan: &Plan, body: RegionId, place: &[Option<usize>]) -> Option<Self> {
        let arena = self.env.arena();
        let old = |n: usize| self.rows.as_ref().map_or(n, |rows| rows[n]);
        let kept = arena.list((0..self.env.rows()).filter(|n| place[old(*n)].is_some()));
        if kept.is_empty() {
            return None;
        }
        let rows = arena.list(kept.iter().filter_map(|n| place[old(*n)]));
        // Of a fold, a row may stand here more than once, and as many as are left need not be all that are left.
        let left = place.iter().flatten().count();
        let all = rows.len() == left && rows.iter().enumerate().all(|(n, row)| n == *row);
        let saves = plan.regions[body.index()].saves.iter();
        let saved = self.saved.iter().zip(saves).map(|(v, of)| v.select(plan, plan.graph.ty(*of), &self.env, &kept));
        let starts = kept.iter().filter_map(|n| self.starts.get(*n).copied());
        Some(Self {
            env: self.env.select(&kept),
            starts: arena.list(starts),
            saved: arena.list(saved),
            rows: (!all).then(|| arena.share(rows)),
        })
    }
}
