//! The nodes of a beam search on a device: a table that grows, and sums of nodes.

use std::rc::Rc;

use super::device::Arg;
use super::memory::{Array, Pool, int, whole};
use super::value::Ids;
use crate::exec::storage::Element;
use crate::kernel::beam::Blends;

/// A table of nodes that grows.
#[derive(Debug)]
pub(super) struct Nodes {
    table: Array,
    /// How many there are, and numbers of each.
    pub(super) count: usize,
    pub(super) width: usize,
}

/// Sums of nodes, on the device.
#[derive(Debug)]
pub(super) struct Mix {
    pub(super) starts: Array,
    pub(super) nodes: Rc<Ids>,
    /// The sum of every term.
    pub(super) of: Array,
    pub(super) shares: Array,
    pub(super) count: usize,
}

impl Nodes {
    /// A table that begins with these nodes, with room for `more`.
    pub(super) fn new<T: Element>(leaves: &Array, width: usize, more: usize, pool: &Pool) -> Self {
        let count = leaves.len() / width.max(1);
        let table = pool.take::<T>((count + more) * width);
        pool.device().copy(leaves.at(), table.at(), leaves.len() * size_of::<T>());
        Self { table, count, width }
    }

    /// Those from `first` on.
    pub(super) fn from<T: Element>(&self, first: usize, count: usize) -> Array {
        self.table.part::<T>(first * self.width, count * self.width)
    }

    pub(super) fn append<T: Element>(&mut self, more: &Array, pool: &Pool) {
        let (used, size) = (self.count * self.width, size_of::<T>());
        if used + more.len() > self.table.len() {
            let larger = pool.take::<T>(2 * (used + more.len()));
            pool.device().copy(self.table.at(), larger.at(), used * size);
            self.table = larger;
        }
        pool.device().copy(more.at(), self.table.at() + (used * size) as u64, more.len() * size);
        self.count += more.len() / self.width.max(1);
    }

    /// The nodes of these ids, end to end.
    pub(super) fn gathered<T: Element>(&self, ids: &[u32], pool: &Pool) -> Array {
        let (ids, y) = (pool.upload(ids), pool.take::<T>(ids.len() * self.width));
        pool.each("pair_nodes", y.len(), &[self.table.arg(), ids.arg(), y.arg(), int(self.width), whole(y.len())]);
        y
    }

    pub(super) fn arg(&self) -> Arg {
        self.table.arg()
    }
}

impl Mix {
    /// Sums with these numbers of terms, and their nodes and shares, one behind the other.
    pub(super) fn new<T: Element>(
        counts: impl Iterator<Item = usize>,
        nodes: Vec<u32>,
        shares: &[f64],
        pool: &Pool,
    ) -> Self {
        let (mut starts, mut of) = (vec![0_u32], vec![]);
        for (k, count) in counts.enumerate() {
            of.extend(std::iter::repeat_n(k as u32, count));
            starts.push(of.len() as u32);
        }
        let shares: Vec<T> = shares.iter().map(|share| T::from_f64(*share)).collect();
        let count = starts.len() - 1;
        let [starts, of] = [starts, of].map(|list| pool.upload(&list));
        Self { starts, nodes: Ids::new(nodes), of, shares: pool.upload(&shares), count }
    }

    /// Those of a step.
    pub(super) fn of_blends<T: Element>(blends: Blends<'_>, pool: &Pool) -> Self {
        let (nodes, shares): (Vec<u32>, Vec<f64>) = blends.terms().iter().map(|term| (term.node, term.share)).unzip();
        Self::new::<T>((0..blends.len()).map(|k| blends.of(k).len()), nodes, &shares, pool)
    }

    /// The sums.
    pub(super) fn mixed<T: Element>(&self, table: &Nodes, pool: &Pool) -> Array {
        let y = pool.take::<T>(self.count * table.width);
        let lists = [self.starts.arg(), self.nodes.array(pool).arg(), self.shares.arg()];
        let args = [&[table.arg()][..], &lists, &[y.arg(), int(table.width), whole(y.len())]].concat();
        pool.each("mix_nodes", y.len(), &args);
        y
    }
}

/// Left, right, left, right, ...
pub(super) fn interleaved(left: &[u32], right: &[u32]) -> Vec<u32> {
    left.iter().zip(right).flat_map(|(left, right)| [*left, *right]).collect()
}
