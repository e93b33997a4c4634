//! Values at run time, and the tape of a loop: alike on every machine, whatever its arrays are.

use std::fmt::Debug;

use rtc_compiler::ir::graph::RegionId;
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::Plan;

use crate::arena::Arena;
use crate::machine::pieces::RowSubset;
use crate::machine::search::TapedSearch;
use crate::machine::{Active, Machine, MachineArrays};
use crate::rows::BatchView;
use crate::storage::{Buffer, Element, List, Shared};

/// A value of the graph. Cloning shares the data.
#[derive(Clone, Debug)]
pub enum Val<A: MachineArrays> {
    /// Reals.
    Real(A::Reals),
    /// Ids, labels, counters.
    Index(A::Ids),
    /// Truth values, 0 or 1.
    Truth(A::Truths),
    /// What a forward loop saved.
    Tape(Shared<Tape<A>>),
}

/// The saved steps of a loop, first to last.
#[derive(Debug)]
pub struct Tape<A: MachineArrays> {
    /// Steps in forward order.
    pub steps: List<TapeStep<A>>,
    /// The body whose `saves` are the saved values.
    pub body: RegionId,
    /// Of a `beam`, how it went.
    pub(crate) search: Option<TapedSearch<A>>,
}

/// One step of a loop.
#[derive(Clone, Debug)]
pub struct TapeStep<A: MachineArrays> {
    /// The rows that took the step, as the body saw them.
    pub here: A::Active,
    /// Their indices among the rows that entered the loop, of a fold the row of every chunk, of a `beam` that of every pair; `None`
    /// for all rows, each once.
    pub rows: Option<Shared<List<usize>>>,
    /// For chunks: where each row's chunk starts in the row. For pairs of a `beam`: the step of the record in the upper half of
    /// the bits, and the place among its pairs in the lower one.
    pub starts: List<usize>,
    /// The saved values.
    pub saved: List<Val<A>>,
}

/// The arrays of the CPU: buffers in the arena.
impl<T: Element> MachineArrays for T {
    type Number = T;
    type Reals = Shared<Buffer<T>>;
    type Ids = Shared<Buffer<u32>>;
    type Truths = Shared<Buffer<u8>>;
    type Active = BatchView;
    type Tables = ();
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
        Self::Truth(arena.share(buffer))
    }
}

impl<A: MachineArrays> Val<A> {
    /// The numbers of a real value.
    ///
    /// # Panics
    /// With a value of another kind, which the verifier refuses.
    pub fn array(&self) -> &A::Reals {
        match self {
            Self::Real(x) => x,
            Self::Index(_) | Self::Truth(_) | Self::Tape(_) => unreachable!("the verifier checks element kinds"),
        }
    }

    /// The part of a value of type `ty` that belongs to some rows; all of it if it has no rows.
    pub fn select<M: Machine<Arrays = A>>(&self, m: &M, plan: &Plan, ty: &Type, part: &RowSubset<'_, A>) -> Self {
        match self {
            _ if part.all || !(ty.is_batched() || *ty == Type::Tape) => self.clone(),
            Self::Tape(tape) => {
                let arena = m.common().arena;
                Self::Tape(arena.share(tape.select(m, plan, part)))
            }
            _ => m.gather(self, &part.pieces(ty), part.width(ty)),
        }
    }
}

impl<A: MachineArrays> Tape<A> {
    /// The tape of only some of the rows that entered.
    fn select<M: Machine<Arrays = A>>(&self, m: &M, plan: &Plan, part: &RowSubset<'_, A>) -> Self {
        let arena = m.common().arena;
        let place = places(part.rows, part.entered(), arena);
        let steps = self.steps.iter().filter_map(|step| step.select(m, plan, self.body, &place));
        let search = self.search.as_ref().map(|search| search.select(part.rows, arena));
        Self { steps: arena.list(steps), body: self.body, search }
    }

    /// Its steps, to be used up; they are shared only with other handles to the tape.
    pub(crate) fn into_steps(tape: Shared<Self>) -> List<TapeStep<A>> {
        tape.try_unwrap().map_or_else(|shared| shared.steps.clone(), |own| own.steps)
    }
}

/// The new place of each of `count` rows if only `rows` stay.
pub(crate) fn places(rows: &[usize], count: usize, arena: &Arena) -> List<Option<usize>> {
    let mut place = arena.list(std::iter::repeat_n(None, count));
    for (new, &old) in rows.iter().enumerate() {
        place[old] = Some(new);
    }
    place
}

impl<A: MachineArrays> TapeStep<A> {
    /// Only the rows that have a new place among the rows that entered; `None` when there is none.
    pub(crate) fn select<M: Machine<Arrays = A>>(
        &self,
        m: &M,
        plan: &Plan,
        body: RegionId,
        place: &[Option<usize>],
    ) -> Option<Self> {
        let arena = m.common().arena;
        let (view, old) = (self.here.view(), |n: usize| self.rows.as_ref().map_or(n, |rows| rows[n]));
        let kept = arena.list((0..view.rows()).filter(|n| place[old(*n)].is_some()));
        if kept.is_empty() {
            return None;
        }
        let rows = arena.list(kept.iter().filter_map(|n| place[old(*n)]));
        // Of a fold, a row may stand here more than once, and as many as are left need not be all that are left.
        let left = place.iter().flatten().count();
        let all = rows.len() == left && rows.iter().enumerate().all(|(n, row)| n == *row);
        let part = RowSubset::rows(view, &kept);
        let saves = plan.regions[body.index()].saves.iter();
        let saved = self.saved.iter().zip(saves).map(|(val, of)| val.select(m, plan, plan.graph.ty(*of), &part));
        let starts = kept.iter().filter_map(|n| self.starts.get(*n).copied());
        Some(Self {
            here: view.select(&kept).into(),
            starts: arena.list(starts),
            saved: arena.list(saved),
            rows: (!all).then(|| arena.share(rows)),
        })
    }
}
