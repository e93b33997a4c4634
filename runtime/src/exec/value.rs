//! Values at run time, and the tape of a loop.

use std::rc::Rc;

use rtc_compiler::ir::types::Type;

use super::rows::{Env, gather};
use super::storage::{Buffer, Element, Pool};

/// A value of the graph. Cloning shares the data.
#[derive(Clone, Debug)]
pub enum Val<T: Element> {
    /// Reals.
    Real(Rc<Buffer<T>>),
    /// Ids, labels, counters.
    Index(Rc<Vec<u32>>),
    /// Truth values, 0 or 1.
    Bool(Rc<Vec<u8>>),
    /// What a forward loop saved.
    Tape(Rc<Tape<T>>),
}

/// The saved steps of a loop, first to last.
#[derive(Debug)]
pub struct Tape<T: Element> {
    /// Steps in forward order.
    pub steps: Vec<TapeStep<T>>,
}

/// One step of a loop.
#[derive(Debug)]
pub struct TapeStep<T: Element> {
    /// The rows that took the step, as the body saw them.
    pub env: Env,
    /// Their indices among the rows that entered the loop; `None` for all of them.
    pub rows: Option<Rc<Vec<usize>>>,
    /// For chunks: where each row's chunk starts in the row.
    pub starts: Vec<usize>,
    /// The saved values with their types.
    pub saved: Vec<Val<T>>,
    /// Types of the saved values.
    pub types: Rc<Vec<Type>>,
}

impl<T: Element> Val<T> {
    /// Only the given rows of a batched value of type `ty`, laid out as in `env`.
    pub fn select(&self, ty: &Type, env: &Env, rows: &[usize], pool: &Pool) -> Self {
        if let Self::Tape(tape) = self {
            return Self::Tape(Rc::new(tape.select(env.rows(), rows, pool)));
        }
        if !ty.is_batched() {
            return self.clone();
        }
        let bounds = env.bounds(ty);
        let total = rows.iter().map(|r| bounds.row(*r).len()).sum();
        match self {
            Self::Real(x) => {
                let mut out = pool.take(total);
                gather(x.as_slice(), &bounds, rows, out.as_mut_slice());
                Self::Real(Rc::new(out))
            }
            Self::Index(x) => {
                let mut out = vec![0; total];
                gather(x, &bounds, rows, &mut out);
                Self::Index(Rc::new(out))
            }
            Self::Bool(x) => {
                let mut out = vec![0; total];
                gather(x, &bounds, rows, &mut out);
                Self::Bool(Rc::new(out))
            }
            Self::Tape(_) => self.clone(),
        }
    }
}

impl<T: Element> Tape<T> {
    /// The tape of only some of the `entered` rows.
    fn select(&self, entered: usize, rows: &[usize], pool: &Pool) -> Self {
        let mut place = vec![None; entered];
        for (new, &old) in rows.iter().enumerate() {
            place[old] = Some(new);
        }
        let steps = self.steps.iter().filter_map(|step| step.select(&place, pool)).collect();
        Self { steps }
    }
}

impl<T: Element> TapeStep<T> {
    /// Only the rows that have a new place among the rows that entered; `None` when there is none.
    pub(super) fn select(&self, place: &[Option<usize>], pool: &Pool) -> Option<Self> {
        let old = |n: usize| self.rows.as_ref().map_or(n, |rows| rows[n]);
        let kept: Vec<usize> = (0..self.env.rows()).filter(|n| place[old(*n)].is_some()).collect();
        if kept.is_empty() {
            return None;
        }
        let rows: Vec<usize> = kept.iter().filter_map(|n| place[old(*n)]).collect();
        let left = place.iter().flatten().count();
        let saved = self.saved.iter().zip(&*self.types).map(|(v, ty)| v.select(ty, &self.env, &kept, pool)).collect();
        Some(Self {
            env: self.env.select(&kept),
            rows: (rows.len() < left).then(|| Rc::new(rows)),
            starts: if self.starts.is_empty() { vec![] } else { kept.iter().map(|n| self.starts[*n]).collect() },
            saved,
            types: self.types.clone(),
        })
    }
}
