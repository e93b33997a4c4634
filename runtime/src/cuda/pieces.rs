//! Pieces of packed values: how rows, chunks and nodes move between arrays on the device.

use std::cell::OnceCell;

use super::memory::{Array, Pool, blocks, whole};
use crate::exec::storage::Plain;

/// Pieces to copy or add, in units; a value has some numbers per unit.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// From, to, length.
    list: Vec<[u32; 3]>,
    /// Of those that are added: how many follow one another in the source. Empty where each is alone.
    repeats: Vec<u32>,
    /// Units that the target of a copy has, where the pieces lie end to end there.
    total: usize,
    table: OnceCell<Array>,
    /// The table of the way back.
    back: OnceCell<Array>,
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("a batch has fewer than 2^32 positions")
}

impl Pieces {
    /// Pieces (start, length) that go end to end.
    pub(super) fn packed(pieces: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut out = Self::default();
        for (from, len) in pieces {
            out.push(from, out.total, len);
            out.total += len;
        }
        out
    }

    /// A piece from `from` to `to`.
    pub(super) fn push(&mut self, from: usize, to: usize, len: usize) {
        self.list.push([small(from), small(to), small(len)]);
    }

    /// Pieces (place, length) that come end to end; neighbours with the same place are added up one after the other.
    pub(super) fn added(pieces: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let (mut out, mut from) = (Self::default(), 0);
        for (to, len) in pieces {
            match (out.list.last(), out.repeats.last_mut()) {
                (Some(last), Some(repeats)) if last[1] as usize == to && last[2] as usize == len => *repeats += 1,
                _ => {
                    out.push(from, to, len);
                    out.repeats.push(1);
                }
            }
            from += len;
        }
        out
    }

    fn grid(&self, width: usize, threads: u32) -> [u32; 3] {
        let longest = self.list.iter().map(|piece| piece[2] as usize * width).max().unwrap_or(0);
        [blocks(self.list.len(), 1), blocks(longest, threads as usize * 4).min(64), 1]
    }

    /// Copies the pieces, `width` numbers per unit.
    pub(super) fn copy<E: Plain>(&self, from: &Array, to: &Array, width: usize, pool: &Pool) {
        let table = self.table.get_or_init(|| pool.upload(self.list.as_flattened()));
        self.start::<E>(from, to, table, width, pool);
    }

    fn start<E: Plain>(&self, from: &Array, to: &Array, table: &Array, width: usize, pool: &Pool) {
        let kernel = match size_of::<E>() {
            1 => "pieces_1",
            4 => "pieces_4",
            _ => "pieces_8",
        };
        let threads = pool.device().threads();
        pool.start(kernel, self.grid(width, threads), threads, &[from.arg(), to.arg(), table.arg(), whole(width)]);
    }

    /// The pieces of `from`, end to end.
    pub(super) fn gathered<E: Plain>(&self, from: &Array, width: usize, pool: &Pool) -> Array {
        let out = pool.take::<E>(self.total * width);
        self.copy::<E>(from, &out, width, pool);
        out
    }

    /// The inverse of [`Self::gathered`]: the pieces of `to` get what lies end to end in `from`.
    pub(super) fn scattered<E: Plain>(&self, from: &Array, to: &Array, width: usize, pool: &Pool) {
        let turned = || self.list.iter().map(|[a, b, len]| [*b, *a, *len]).collect::<Vec<_>>();
        let table = self.back.get_or_init(|| pool.upload(turned().as_flattened()));
        self.start::<E>(from, to, table, width, pool);
    }

    /// Adds the pieces that [`Self::added`] made.
    pub(super) fn add(&self, from: &Array, to: &Array, width: usize, pool: &Pool) {
        let rows = || self.list.iter().zip(&self.repeats).map(|([a, b, len], repeats)| [*a, *b, *len, *repeats]);
        let table = self.table.get_or_init(|| pool.upload(rows().collect::<Vec<_>>().as_flattened()));
        let threads = pool.device().threads();
        pool.start(
            "pieces_add",
            self.grid(width, threads),
            threads,
            &[from.arg(), to.arg(), table.arg(), whole(width)],
        );
    }
}
