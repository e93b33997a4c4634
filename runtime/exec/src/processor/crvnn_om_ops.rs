//! Neighbours by existence, and slots.

use rtc_compiler::ir::attribute;

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::storage::Element;
use rtc_kernel::continuous;
use rtc_kernel::ordered_memory;

/// Channels of positions; a number for each of them is one.
fn channels(c: &NodeContext<'_>) -> usize {
    if c.ty(c.operand(0)).dims().len() > 2 { c.last(0) } else { 1 }
}

impl<T: Element> Executor<T> {
    pub(super) fn neighbours(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let [x, existence] = [0, 1].map(|n| e.memory.real(c.operand(n)));
            continuous::neighbours(c.get(attribute::SIDE), existence, &axis.offsets, x, channels(c), y);
        });
    }

    pub(super) fn neighbours_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce_all(c, |e, [dx, de]| {
            let [x, existence, dy] = [0, 1, 2].map(|n| e.memory.real(c.operand(n)));
            continuous::neighbours_grad(c.get(attribute::SIDE), existence, &axis.offsets, x, channels(c), dy, dx, de);
        });
    }

    pub(super) fn slot_get(&mut self, c: &NodeContext<'_>) {
        let slot = self.memory.index(c.operand(1))[0] as usize;
        self.produce(c, |e, c, y| {
            let (slots, d) = slots(c);
            ordered_memory::slot_get(e.memory.real(c.operand(0)), slot, slots, d, y);
        });
    }

    /// Works in place of its first operand where the plan says so and there is no other handle to the operand.
    pub(super) fn put_slot(&mut self, c: &NodeContext<'_>) {
        let slot = self.memory.index(c.operand(2))[0] as usize;
        let own = c.step.in_place.and_then(|n| self.memory.take_unique(c.operand(n)));
        let mut x = own.unwrap_or_else(|| self.arena.copy(self.memory.real(c.operand(0))));
        let (slots, d) = slots(c);
        ordered_memory::slot_set(&mut x, self.memory.real(c.operand(1)), slot, slots, d);
        self.put(c, 0, x);
    }
}

/// Slots of a unit of the first operand, and the size of one.
fn slots(c: &NodeContext<'_>) -> (usize, usize) {
    let slots = c.ty(c.operand(0)).slots().map_or(1, |(_, slots)| slots);
    (slots, c.width(0) / slots.max(1))
}
