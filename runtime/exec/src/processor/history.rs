//! Attention to the slots of positions: keys and values of all steps so far, copied together.

use rtc_compiler::ir::graph::Value;

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::storage::{Buffer, Element, List};
use rtc_kernel::attention::steps::{pack, unpack};

/// Keys and values of the slots that are filled, `[positions, steps, width]`.
#[derive(Debug)]
pub(super) struct SlotHistory<T: Element> {
    pub(super) keys: Buffer<T>,
    pub(super) values: Buffer<T>,
    /// Where the keys of the rows begin.
    pub(super) offsets: List<usize>,
    /// Slots of a position, those that are filled, and their width.
    pub(super) sizes: (usize, usize, usize),
}

/// Slots of a position, those that are filled after `step`, and their width, for an attention whose keys have slots.
pub fn sizes(slots: Option<usize>, step: usize, width: usize) -> Option<(usize, usize, usize)> {
    slots.map(|slots| (slots, slots.min(step + 1), width))
}

/// How many slots the positions of the keys of an attention have, where they have some.
pub fn slots(c: &NodeContext<'_>) -> Option<usize> {
    let keys = c.ty(c.operand(1));
    keys.slots().filter(|_| keys.dims().len() > 3).map(|(_, slots)| slots)
}

impl<T: Element> Executor<T> {
    /// The keys and values of an attention with slots; its step is operand number `at`.
    pub(super) fn history(&self, c: &NodeContext<'_>, at: usize) -> Option<SlotHistory<T>> {
        let own = slots(c)?;
        let step = self.memory.index(c.operand(at))[0] as usize;
        let sizes = sizes(Some(own), step, c.last(1))?;
        let packed = |value: Value| {
            let x = self.memory.real(value);
            let mut packed = self.arena.take(x.len() / sizes.0 * sizes.1);
            pack(x, sizes, &mut packed);
            packed
        };
        let offsets = self.arena.list(c.axis(1).offsets.iter().map(|at| at * sizes.1));
        Some(SlotHistory { keys: packed(c.operand(1)), values: packed(c.operand(2)), offsets, sizes })
    }

    /// The gradients of keys and values, from those of the slots that are filled; the others have none.
    pub(super) fn unpacked(
        &self,
        c: &NodeContext<'_>,
        own: &SlotHistory<T>,
        packed: &[Buffer<T>; 2],
    ) -> [Buffer<T>; 2] {
        [1, 2].map(|n| {
            let mut grad = self.fresh(c, n);
            unpack(&packed[n - 1], own.sizes, T::ZERO, &mut grad);
            grad
        })
    }
}
