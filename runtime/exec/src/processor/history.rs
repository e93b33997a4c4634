//! Attention to the slots of positions: keys and values of all steps so far, copied together.

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::storage::{Buffer, Element, List};
use rtc_kernel::attention::steps::{pack, unpack};

/// Keys and values of the slots that are filled, each `[positions, steps, width]`.
#[derive(Debug)]
pub(super) struct SlotHistory<T: Element> {
    pub(super) keys: Buffer<T>,
    pub(super) values: Buffer<T>,
    /// Where the keys of the rows begin.
    pub(super) offsets: List<usize>,
    /// Slots of a position, and those that are filled.
    pub(super) sizes: (usize, usize),
}

/// Slots of a position, and those that are filled after `step`, for an attention whose keys have slots.
pub fn sizes(slots: Option<usize>, step: usize) -> Option<(usize, usize)> {
    slots.map(|slots| (slots, slots.min(step + 1)))
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
        let sizes = sizes(Some(own), step)?;
        let packed = |n: usize| {
            let x = self.memory.real(c.operand(n));
            let mut packed = self.arena.take(x.len() / sizes.0 * sizes.1);
            pack(x, (sizes.0, sizes.1, c.last(n)), &mut packed);
            packed
        };
        let offsets = self.arena.list(c.axis(1).offsets.iter().map(|at| at * sizes.1));
        Some(SlotHistory { keys: packed(1), values: packed(2), offsets, sizes })
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
            unpack(&packed[n - 1], (own.sizes.0, own.sizes.1, c.last(n)), T::ZERO, &mut grad);
            grad
        })
    }
}
