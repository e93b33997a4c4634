//! The rows that take part at one point of the execution, and how values are laid out over them.

use std::rc::Rc;

use rtc_compiler::ir::types::{BATCH, Dim, PAIRS, Type};

use crate::rng::Key;

/// A ragged axis: the part of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Where each row's part starts among all positions, and the total.
    pub offsets: Vec<usize>,
    /// Position of the first element of each part within the whole row.
    pub origin: Vec<usize>,
}

impl Axis {
    /// An axis with the given length of each row, starting at each row's beginning.
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut offsets = vec![0];
        for length in lengths {
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        Self { origin: vec![0; offsets.len() - 1], offsets }
    }

    /// Length of one row's part.
    pub fn len(&self, row: usize) -> usize {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Number of positions of all rows.
    pub fn total(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    fn select(&self, rows: &[usize]) -> Self {
        let mut axis = Self::of_lengths(rows.iter().map(|r| self.len(*r)));
        axis.origin = rows.iter().map(|r| self.origin[*r]).collect();
        axis
    }
}

/// The batch as a region sees it.
#[derive(Clone, Debug)]
pub struct Env {
    /// For each row that takes part: its index in the whole batch.
    pub ids: Rc<Vec<u64>>,
    /// The ragged axes by name.
    axes: Vec<(Rc<str>, Rc<Axis>)>,
    /// The random key of this point: seed, update and the counters of the loops around.
    pub key: Key,
    /// The width of the padded batch, which `cut: balanced` reads.
    pub width: usize,
}

impl Env {
    /// All rows of a batch.
    pub fn new(rows: usize, key: Key, width: usize) -> Self {
        Self { ids: Rc::new((0..rows as u64).collect()), axes: vec![], key, width }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Adds or replaces an axis.
    pub fn set_axis(&mut self, name: &str, axis: Axis) {
        self.axes.retain(|(n, _)| &**n != name);
        self.axes.push((name.into(), Rc::new(axis)));
    }

    /// The axis of this name. The verifier guarantees that a type names no unknown axis.
    pub fn axis(&self, name: &str) -> &Rc<Axis> {
        let found = self.axes.iter().find(|(n, _)| &**n == name);
        &found.expect("a ragged axis is defined before a value uses it").1
    }

    /// The same point with only some of the rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        let ids = Rc::new(rows.iter().map(|r| self.ids[*r]).collect());
        let axes = self.axes.iter().map(|(n, a)| (n.clone(), Rc::new(a.select(rows)))).collect();
        Self { ids, axes, key: self.key, width: self.width }
    }

    /// The key of a random node for every row.
    pub fn row_keys(&self, stream: u64) -> Vec<Key> {
        let key = self.key.at(stream);
        self.ids.iter().map(|id| key.at(*id)).collect()
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
    pub fn bounds(&self, ty: &Type) -> Bounds {
        let dims = ty.dims();
        match dims {
            [Dim::Sym(_), Dim::Sym(axis), rest @ ..] => {
                Bounds { axis: Some(self.axis(axis).clone()), inner: rest.iter().map(size).product() }
            }
            _ => Bounds { axis: None, inner: dims.iter().skip(1).map(size).product() },
        }
    }
}

fn size(dim: &Dim) -> usize {
    dim.fixed().expect("inner axes have a size once a task is bound")
}

/// Element ranges of the rows of a value.
#[derive(Clone, Debug)]
pub struct Bounds {
    axis: Option<Rc<Axis>>,
    /// Elements per position, or per row where the value has no ragged axis.
    pub inner: usize,
}

impl Bounds {
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

    /// Boundaries of all rows in elements: rows + 1 numbers.
    pub fn elements(&self, rows: usize) -> Vec<usize> {
        (0..rows)
            .map(|r| self.row(r).start)
            .chain(rows.checked_sub(1).map_or(Some(0), |r| Some(self.row(r).end)))
            .collect()
    }
}

/// Copies the given rows of `from` (laid out as `source`) to consecutive rows.
pub fn gather<E: Copy>(from: &[E], source: &Bounds, rows: &[usize], to: &mut [E]) {
    let mut at = 0;
    for &row in rows {
        let range = source.row(row);
        to[at..at + range.len()].copy_from_slice(&from[range.clone()]);
        at += range.len();
    }
}

/// Copies consecutive rows of `from` to the given rows of `to` (laid out as `target`).
pub fn scatter<E: Copy>(from: &[E], rows: &[usize], to: &mut [E], target: &Bounds) {
    let mut at = 0;
    for &row in rows {
        let range = target.row(row);
        let len = range.len();
        to[range].copy_from_slice(&from[at..at + len]);
        at += len;
    }
}
