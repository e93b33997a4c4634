//! The rows that take part at one point of the execution, and how values are laid out over them.

use std::rc::Rc;

use rtc_compiler::ir::types::{BATCH, Dim, PAIRS, Type};

use crate::arena::Arena;
use crate::storage::{List, Shared};
use rtc_base::rng::Key;
use rtc_kernel::Real;

/// The name under which the depths of the rows stand among the axes, which rows that leave take with them.
pub const GIVEN: &str = "given";

/// A ragged axis: the part of every row.
#[derive(Debug, PartialEq)]
pub struct Axis {
    /// Where each row's part starts among all positions, and the total.
    pub offsets: List<usize>,
    /// Position of the first element of each part within the whole row.
    pub origin: List<usize>,
    /// In an incremental run, which has one row: positions of the part before those that are here.
    pub before: usize,
    /// Where only some positions of the part are here: which ones.
    pub chosen: Option<Shared<ChosenPositions>>,
}

/// The positions that a choice has left of the parts of rows, row by row and rising in each.
#[derive(Debug, PartialEq)]
pub struct ChosenPositions {
    /// Their indices among the positions that the choice was made of.
    pub of: List<usize>,
    /// Their positions within the part, of which other choices may have left some before.
    pub places: List<usize>,
    /// Positions of the part of every row.
    pub lengths: List<usize>,
}

impl Axis {
    /// An axis with the given length of each row, starting at each row's beginning.
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>, arena: &Arena) -> Self {
        let mut at = 0;
        let ends = lengths.into_iter().map(|length| {
            at += length;
            at
        });
        let offsets = arena.list(std::iter::once(0).chain(ends));
        Self { origin: arena.filled(offsets.len() - 1, 0), offsets, before: 0, chosen: None }
    }

    /// Length of one row's part.
    pub fn len(&self, row: usize) -> usize {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Number of positions of all rows.
    pub fn total(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    /// The positions of these parts that a choice takes, whose numbers lie where the positions do: those that are not 0.
    pub fn choose<T: Real>(&self, rows: &[usize], choice: &[T]) -> Self {
        let arena = self.offsets.allocator();
        let own = |row: usize| self.offsets[row]..self.offsets[row + 1];
        let takes = |at: &usize| choice[*at] != T::ZERO;
        let lengths = rows.iter().map(|row| own(*row).filter(takes).count());
        let chosen = || rows.iter().flat_map(|row| own(*row).filter(takes).map(|at| (*row, at)));
        let mut of = arena.list([]);
        of.extend(chosen().map(|(row, at)| at - self.offsets[row]));
        let mut places = arena.list([]);
        places.extend(chosen().map(|(row, at)| self.place(at, row)));
        let origin = arena.list(rows.iter().map(|r| self.origin[*r]));
        let part = arena.list(rows.iter().map(|row| self.part(*row)));
        let chosen = Some(arena.share(ChosenPositions { of, places, lengths: part }));
        Self { origin, chosen, ..Self::of_lengths(lengths, arena) }
    }

    /// The position within the part of what lies at an index among all positions, in this row.
    pub fn place(&self, at: usize, row: usize) -> usize {
        match &self.chosen {
            Some(chosen) => chosen.places[at],
            None => at - self.offsets[row] + self.before,
        }
    }

    /// Positions of the part of a row, including the ones that a choice has left out.
    pub fn part(&self, row: usize) -> usize {
        match &self.chosen {
            Some(chosen) => chosen.lengths[row],
            None => self.len(row) + self.before,
        }
    }

    /// Positions of the longest part, those between and before the ones that are here included.
    pub fn reach(&self, row: usize) -> usize {
        if self.len(row) == 0 { 0 } else { self.place(self.offsets[row + 1] - 1, row) + 1 }
    }

    fn select(&self, rows: &[usize]) -> Self {
        let arena = self.offsets.allocator();
        let origin = arena.list(rows.iter().map(|r| self.origin[*r]));
        let own = |list: &List<usize>| {
            let mut part = arena.list([]);
            rows.iter().for_each(|row| part.extend_from_slice(&list[self.offsets[*row]..self.offsets[row + 1]]));
            part
        };
        let chosen = self.chosen.as_ref();
        let chosen = chosen.map(|chosen| {
            let lengths = arena.list(rows.iter().map(|row| chosen.lengths[*row]));
            arena.share(ChosenPositions { of: own(&chosen.of), places: own(&chosen.places), lengths })
        });
        Self { origin, chosen, ..Self::of_lengths(rows.iter().map(|r| self.len(*r)), arena) }
    }
}

/// The batch as a region sees it.
#[derive(Clone, Debug)]
pub struct BatchView {
    /// For each row that takes part: its index in the whole batch, and in a fold which chunk of it ([`row_of`]).
    pub ids: Shared<List<u64>>,
    /// The ragged axes by name.
    axes: List<(Rc<str>, Shared<Axis>)>,
    /// The random key of this point: seed, update and the counters of the loops around.
    pub key: Key,
    /// The random key of the run, without the loops.
    pub run: Key,
    /// The width of the padded batch, which `cut: balanced` and `plan: batch` read.
    pub width: usize,
}

impl BatchView {
    /// All rows of a batch, in this arena.
    pub fn new(rows: usize, key: Key, width: usize, arena: &Arena) -> Self {
        Self { ids: arena.share(arena.list(0..rows as u64)), axes: arena.list([]), key, run: key, width }
    }

    /// Where everything about these rows lies.
    pub fn arena(&self) -> &Arena {
        self.ids.allocator()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Adds or replaces an axis.
    pub fn set_axis(&mut self, name: Rc<str>, axis: Axis) {
        let axis = self.arena().share(axis);
        match self.axes.iter_mut().find(|(n, _)| *n == name) {
            Some(old) => old.1 = axis,
            None => self.axes.push((name, axis)),
        }
    }

    /// The axis of this name. The verifier guarantees that a type names no unknown axis.
    pub fn axis(&self, name: &str) -> &Shared<Axis> {
        let found = self.axes.iter().find(|(n, _)| &**n == name);
        &found.expect("a ragged axis is defined before a value uses it").1
    }

    /// The depth that came with a row; `None` where the model takes none.
    pub fn given(&self, row: usize) -> Option<i64> {
        let found = self.axes.iter().find(|(n, _)| &**n == GIVEN);
        found.map(|(_, depths)| depths.len(row) as i64)
    }

    /// The same point with only some of the rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        let arena = self.arena();
        let ids = arena.share(arena.list(rows.iter().map(|r| self.ids[*r])));
        let axes = arena.list(self.axes.iter().map(|(n, a)| (n.clone(), arena.share(a.select(rows)))));
        Self { ids, axes, key: self.key, run: self.run, width: self.width }
    }

    /// The same point as the chunks of a fold see it: each is a row of its own, with random numbers of its own. `rows` names
    /// the row of every chunk, in order.
    pub fn split(&self, rows: &[usize]) -> Self {
        let arena = self.arena();
        let mut out = self.select(rows);
        let mut chunk = 0;
        let ids = rows.iter().enumerate().map(|(n, row)| {
            chunk = if n > 0 && rows[n - 1] == *row { chunk + 1 } else { 0 };
            chunk_of(self.ids[*row], chunk)
        });
        out.ids = arena.share(arena.list(ids));
        out
    }

    /// The key of a random node for every row.
    pub fn row_keys(&self, stream: u64) -> List<Key> {
        let key = self.key.at(stream);
        self.arena().list(self.ids.iter().map(|id| key.at(*id)))
    }

    /// Number of elements of a tensor type here.
    pub fn extent(&self, ty: &Type) -> usize {
        self.units(ty.dims())
    }

    /// Number of indices into these axes.
    pub fn units(&self, dims: &[Dim]) -> usize {
        match dims {
            [Dim::Sym(b), Dim::Sym(axis), rest @ ..] if b == BATCH => {
                self.axis(axis).total() * rest.iter().map(size).product::<usize>()
            }
            [Dim::Sym(b), rest @ ..] if b == BATCH => self.rows() * rest.iter().map(size).product::<usize>(),
            [Dim::Sym(b), rest @ ..] if b == PAIRS => self.rows() / 2 * rest.iter().map(size).product::<usize>(),
            rest => rest.iter().map(size).product(),
        }
    }

    /// Where the rows of a batched value lie, in elements.
    pub fn bounds(&self, ty: &Type) -> ElementRanges {
        let dims = ty.dims();
        match dims {
            [Dim::Sym(_), Dim::Sym(axis), rest @ ..] => {
                ElementRanges { axis: Some(self.axis(axis).clone()), inner: rest.iter().map(size).product() }
            }
            _ => ElementRanges { axis: None, inner: dims.iter().skip(1).map(size).product() },
        }
    }
}

/// Bits of an id that hold the index in the batch; those above tell the chunks of folds apart.
const ROW_BITS: u32 = 32;

/// The index in the batch of the row that an id belongs to.
pub fn row_of(id: u64) -> u64 {
    id & ((1 << ROW_BITS) - 1)
}

/// The id of a chunk of a row. Chunks of chunks differ, too: the upper half counts in an odd base.
fn chunk_of(id: u64, chunk: u32) -> u64 {
    let path = ((id >> ROW_BITS) as u32).wrapping_mul(0x9E37_79B1).wrapping_add(chunk).wrapping_add(1);
    row_of(id) | u64::from(path) << ROW_BITS
}

fn size(dim: &Dim) -> usize {
    dim.fixed().expect("inner axes have a size once a task is bound")
}

/// Element ranges of the rows of a value.
#[derive(Clone, Debug)]
pub struct ElementRanges {
    axis: Option<Shared<Axis>>,
    /// Elements per position, or per row where the value has no ragged axis.
    pub inner: usize,
}

impl ElementRanges {
    /// The elements of one row.
    pub fn row(&self, row: usize) -> std::ops::Range<usize> {
        match &self.axis {
            Some(axis) => axis.offsets[row] * self.inner..axis.offsets[row + 1] * self.inner,
            None => row * self.inner..(row + 1) * self.inner,
        }
    }

    /// The elements of `count` positions of a row, from position `start` of the row on.
    pub fn part(&self, row: usize, start: usize, count: usize) -> std::ops::Range<usize> {
        let first = self.row(row).start + start * self.inner;
        first..first + count * self.inner
    }
}
