//! Pieces of packed values: which parts of a value belong to some of its rows.

use std::cell::RefCell;

use rtc_compiler::ir::types::Type;

use crate::arena::Arena;
use crate::machine::MachineArrays;
use crate::rows::{Axis, BatchView};
use crate::storage::{List, Shared};

/// Pieces of a value, in units: where each starts, and how long it is. Gathered, they lie end to end.
#[derive(Debug)]
pub struct Pieces<A: MachineArrays> {
    pub list: List<(usize, usize)>,
    /// Units of all pieces.
    pub total: usize,
    /// What the machine keeps of the list.
    pub tables: A::Tables,
}

impl<A: MachineArrays> Pieces<A> {
    pub fn new(pieces: impl IntoIterator<Item = (usize, usize)>, arena: &Arena) -> Self {
        let list = arena.list(pieces);
        Self { total: list.iter().map(|(_, length)| length).sum(), list, tables: A::Tables::default() }
    }

    /// One unit for each of these places.
    pub fn units(places: &[usize], arena: &Arena) -> Self {
        Self::new(places.iter().map(|place| (*place, 1)), arena)
    }
}

/// A subset of the rows that entered a loop, or a chunk of each. The pieces of values that are theirs are made once for each axis.
pub struct RowSubset<'a, A: MachineArrays> {
    view: &'a BatchView,
    pub rows: &'a [usize],
    /// Where the chunk of each row starts, and the axis of the chunks.
    chunks: Option<(&'a [usize], &'a Axis)>,
    /// Whether it is all rows that entered, each once and whole.
    pub all: bool,
    made: RefCell<List<MadePieces<A>>>,
}

/// An axis, nothing for values without one, and the pieces of its values.
type MadePieces<A> = (Option<Shared<Axis>>, Shared<Pieces<A>>);

impl<'a, A: MachineArrays> RowSubset<'a, A> {
    pub fn rows(view: &'a BatchView, rows: &'a [usize]) -> Self {
        let all = rows.len() == view.rows() && rows.iter().enumerate().all(|(n, row)| n == *row);
        Self { view, rows, chunks: None, all, made: RefCell::new(view.arena().list([])) }
    }

    /// Of each row the chunk that starts there and is as long as the axis says, or the positions that it has chosen.
    pub fn chunks(view: &'a BatchView, rows: &'a [usize], starts: &'a [usize], axis: &'a Axis) -> Self {
        Self { chunks: Some((starts, axis)), all: false, ..Self::rows(view, rows) }
    }

    /// How many rows entered.
    pub fn entered(&self) -> usize {
        self.view.rows()
    }

    /// Numbers per unit of a value: per position, or per row where it has no ragged axis.
    pub fn width(&self, ty: &Type) -> usize {
        self.view.bounds(ty).inner
    }

    /// The pieces of a value of this type.
    pub fn pieces(&self, ty: &Type) -> Shared<Pieces<A>> {
        let (arena, axis) = (self.view.arena(), ty.ragged().map(|name| self.view.axis(name).clone()));
        let is_own = |made: &Option<Shared<Axis>>| match (made, &axis) {
            (Some(made), Some(axis)) => std::ptr::eq::<Axis>(&**made, &**axis),
            (made, axis) => made.is_none() && axis.is_none(),
        };
        if let Some((_, found)) = self.made.borrow().iter().find(|(made, _)| is_own(made)) {
            return found.clone();
        }
        let pieces = match (&axis, self.chunks) {
            (None, _) => Pieces::units(self.rows, arena),
            (Some(axis), None) => Pieces::new(self.rows.iter().map(|row| (axis.offsets[*row], axis.len(*row))), arena),
            (Some(axis), Some((_, Axis { chosen: Some(chosen), offsets, .. }))) => {
                let own = |(n, row): (usize, &usize)| (axis.offsets[*row], &chosen.of[offsets[n]..offsets[n + 1]]);
                let runs = self.rows.iter().enumerate().map(own).flat_map(|(first, of)| {
                    of.chunk_by(|a, b| a + 1 == *b).map(move |run| (first + run[0], run.len()))
                });
                Pieces::new(runs, arena)
            }
            (Some(axis), Some((starts, chunks))) => {
                let starts = self.rows.iter().zip(starts).map(|(row, start)| axis.offsets[*row] + start);
                Pieces::new(starts.enumerate().map(|(n, start)| (start, chunks.len(n))), arena)
            }
        };
        let made = arena.share(pieces);
        self.made.borrow_mut().push((axis, made.clone()));
        made
    }
}
