//! Values on a device, and the tape of a loop.

use std::cell::OnceCell;
use std::rc::Rc;

use rtc_compiler::ir::graph::RegionId;
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::Plan;

use super::beam::Traced;
use super::memory::{Array, Pool};
use super::pieces::Pieces;
use super::place::Place;
use crate::exec::storage::Element;

/// A value of the graph. Cloning shares the data.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Real(Array),
    Index(Rc<Ids>),
    Truth(Array),
    Tape(Rc<Tape>),
}

/// Ids, labels and counters: they come from the host, which keeps a copy.
#[derive(Debug)]
pub(super) struct Ids {
    pub(super) host: Vec<u32>,
    device: OnceCell<Array>,
    sorted: OnceCell<Sorted>,
}

/// The places of equal ids side by side.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    pub(super) order: Array,
    /// The ids that occur, and then any.
    pub(super) ids: Array,
    /// For each of those: where its places end.
    pub(super) ends: Array,
}

impl Ids {
    pub(super) fn new(host: Vec<u32>) -> Rc<Self> {
        Rc::new(Self { host, device: OnceCell::new(), sorted: OnceCell::new() })
    }

    pub(super) fn array(&self, pool: &Pool) -> &Array {
        self.device.get_or_init(|| pool.upload(&self.host))
    }

    /// The order keeps the places of an id as they come, so that sums over them have one order. There are `kinds` ids at most;
    /// entries for those that do not occur have no places, so that the size of the tables does not depend on the ids.
    pub(super) fn sorted(&self, kinds: usize, pool: &Pool) -> &Sorted {
        self.sorted.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.host.len() as u32).collect();
            order.sort_by_key(|place| self.host[*place as usize]);
            let (mut ids, mut ends) = (vec![], vec![]);
            for (n, place) in order.iter().enumerate() {
                let id = self.host[*place as usize];
                if ids.last() != Some(&id) {
                    ids.push(id);
                    ends.push(0);
                }
                if let Some(end) = ends.last_mut() {
                    *end = n as u32 + 1;
                }
            }
            let entries = kinds.min(order.len()).max(ids.len());
            ids.resize(entries, 0);
            ends.resize(entries, order.len() as u32);
            Sorted { order: pool.upload(&order), ids: pool.upload(&ids), ends: pool.upload(&ends) }
        })
    }
}

/// The saved steps of a loop, first to last.
#[derive(Debug)]
pub(super) struct Tape {
    pub(super) steps: Vec<TapeStep>,
    /// The body whose `saves` are the saved values.
    pub(super) body: RegionId,
    /// Of a `beam`, how it went.
    pub(super) search: Option<Traced>,
}

/// One step of a loop.
#[derive(Clone, Debug)]
pub(super) struct TapeStep {
    /// The rows that took the step, as the body saw them.
    pub(super) place: Place,
    /// Their indices among the rows that entered the loop, of a fold the row of every chunk; `None` for all, each once.
    pub(super) rows: Option<Rc<[usize]>>,
    /// For chunks: where each row's chunk starts in the row. For pairs of a `beam`: as on the CPU, the step and the pair.
    pub(super) starts: Vec<usize>,
    pub(super) saved: Vec<Val>,
}

impl Val {
    pub(super) fn real(&self) -> &Array {
        match self {
            Self::Real(x) => x,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    /// Only the given rows of a value of type `ty`, laid out as in `place`; all of it if it has no rows.
    pub(super) fn select<T: Element>(&self, plan: &Plan, ty: &Type, from: &Picked<'_>, pool: &Pool) -> Self {
        match self {
            Self::Tape(tape) => Self::Tape(Rc::new(tape.select::<T>(plan, from, pool))),
            _ if !ty.is_batched() => self.clone(),
            Self::Real(x) => Self::Real(from.pieces(ty).gathered::<T>(x, inner(from.place, ty), pool)),
            Self::Truth(x) => Self::Truth(from.pieces(ty).gathered::<u8>(x, inner(from.place, ty), pool)),
            Self::Index(ids) => {
                let bounds = from.place.env.bounds(ty);
                let picked = from.rows.iter().flat_map(|row| ids.host[bounds.row(*row)].iter().copied());
                Self::Index(Ids::new(picked.collect()))
            }
        }
    }
}

/// Numbers per position, or per row where a value has no ragged axis.
pub(super) fn inner(place: &Place, ty: &Type) -> usize {
    place.env.bounds(ty).inner
}

/// Some rows of a place, and the pieces of its values that belong to them, made once for each axis.
pub(super) struct Picked<'a> {
    pub(super) place: &'a Place,
    pub(super) rows: &'a [usize],
    made: std::cell::RefCell<Vec<(Option<String>, Rc<Pieces>)>>,
}

impl<'a> Picked<'a> {
    pub(super) fn new(place: &'a Place, rows: &'a [usize]) -> Self {
        Self { place, rows, made: std::cell::RefCell::default() }
    }

    /// The pieces of a value: those of its ragged axis, or of single units.
    pub(super) fn pieces(&self, ty: &Type) -> Rc<Pieces> {
        let axis = ty.ragged().map(str::to_owned);
        if let Some((_, found)) = self.made.borrow().iter().find(|(a, _)| *a == axis) {
            return found.clone();
        }
        let made = Rc::new(match &axis {
            Some(name) => {
                let axis = self.place.env.axis(name);
                Pieces::packed(self.rows.iter().map(|row| (axis.offsets[*row], axis.len(*row))))
            }
            None => Pieces::packed(self.rows.iter().map(|row| (*row, 1))),
        });
        self.made.borrow_mut().push((axis, made.clone()));
        made
    }
}

impl Tape {
    /// The tape of only some of the rows that entered.
    fn select<T: Element>(&self, plan: &Plan, from: &Picked<'_>, pool: &Pool) -> Self {
        let place = places(from.rows, from.place.env.rows());
        let steps = self.steps.iter().filter_map(|step| step.select::<T>(plan, self.body, &place, pool));
        let search = self.search.as_ref().map(|search| search.select(from.rows));
        Self { steps: steps.collect(), body: self.body, search }
    }

    /// Its steps, to be used up; they are shared only with those who hold the tape as well.
    pub(super) fn into_steps(tape: Rc<Self>) -> Vec<TapeStep> {
        Rc::try_unwrap(tape).map_or_else(|shared| shared.steps.clone(), |own| own.steps)
    }
}

/// The new place of each of `count` rows if only `rows` stay.
pub(super) fn places(rows: &[usize], count: usize) -> Vec<Option<usize>> {
    let mut place = vec![None; count];
    for (new, &old) in rows.iter().enumerate() {
        place[old] = Some(new);
    }
    place
}

impl TapeStep {
    /// Only the rows that have a new place among the rows that entered; `None` when there is none.
    pub(super) fn select<T: Element>(
        &self,
        plan: &Plan,
        body: RegionId,
        place: &[Option<usize>],
        pool: &Pool,
    ) -> Option<Self> {
        let old = |n: usize| self.rows.as_ref().map_or(n, |rows| rows[n]);
        let kept: Vec<usize> = (0..self.place.env.rows()).filter(|n| place[old(*n)].is_some()).collect();
        if kept.is_empty() {
            return None;
        }
        let rows: Vec<usize> = kept.iter().filter_map(|n| place[old(*n)]).collect();
        // Of a fold, a row may stand here more than once, and as many as are left need not be all that are left.
        let left = place.iter().flatten().count();
        let all = rows.len() == left && rows.iter().enumerate().all(|(n, row)| n == *row);
        let saves = plan.regions[body.index()].saves.iter();
        let from = Picked::new(&self.place, &kept);
        let saved = self.saved.iter().zip(saves).map(|(v, of)| v.select::<T>(plan, plan.graph.ty(*of), &from, pool));
        let saved = saved.collect();
        let starts = kept.iter().filter_map(|n| self.starts.get(*n).copied()).collect();
        Some(Self { place: self.place.select(&kept), starts, saved, rows: (!all).then(|| Rc::from(rows)) })
    }
}
