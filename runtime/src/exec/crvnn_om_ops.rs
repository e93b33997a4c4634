//! What continuous composition and ordered memory do between their layers.

use rtc_compiler::ir::attribute;

use super::Executor;
use super::node_context::NodeContext;
use super::storage::Element;
use crate::kernel::continuous;
use crate::kernel::ordered_memory::{self, Division};

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
        let [x, existence, dy] = [0, 1, 2].map(|n| self.memory.real(c.operand(n)));
        let (mut dx, mut de) = (self.fresh(c, 0), self.fresh(c, 1));
        continuous::neighbours_grad(
            c.get(attribute::SIDE),
            existence,
            &axis.offsets,
            x,
            channels(c),
            dy,
            &mut dx,
            &mut de,
        );
        self.put(c, 0, dx);
        self.put(c, 1, de);
    }

    pub(super) fn merge_probability(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let [s, existence] = [0, 1].map(|n| e.memory.real(c.operand(n)));
            continuous::merge_probability(s, existence, &axis.offsets, y);
        });
    }

    pub(super) fn merge_probability_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        let [s, existence, dc] = [0, 1, 2].map(|n| self.memory.real(c.operand(n)));
        let (mut ds, mut de) = (self.fresh(c, 0), self.fresh(c, 1));
        continuous::merge_probability_grad(s, existence, &axis.offsets, dc, &mut ds, &mut de);
        self.put(c, 0, ds);
        self.put(c, 1, de);
    }

    pub(super) fn slot_softmax(&mut self, c: &NodeContext<'_>) {
        let [beta, before] = [0, 1].map(|n| self.memory.real(c.operand(n)));
        let (mut p, mut below, mut above) = (self.fresh(c, 0), self.fresh(c, 1), self.fresh(c, 2));
        let out = Division { p: &mut p, below: &mut below, above: &mut above };
        ordered_memory::slot_softmax(beta, before, c.last(0), out);
        self.put(c, 0, p);
        self.put(c, 1, below);
        self.put(c, 2, above);
    }

    pub(super) fn slot_softmax_grad(&mut self, c: &NodeContext<'_>) {
        let [beta, before, dp, dbelow, dabove] = [0, 1, 2, 3, 4].map(|n| self.memory.real(c.operand(n)));
        let (mut dbeta, mut dbefore) = (self.fresh(c, 0), self.fresh(c, 1));
        ordered_memory::slot_softmax_grad(beta, before, c.last(0), [dp, dbelow, dabove], &mut dbeta, &mut dbefore);
        self.put(c, 0, dbeta);
        self.put(c, 1, dbefore);
    }

    pub(super) fn slot_get(&mut self, c: &NodeContext<'_>) {
        let slot = self.memory.index(c.operand(1))[0] as usize;
        self.produce(c, |e, c, y| {
            let (slots, d) = slots(c);
            ordered_memory::slot_get(e.memory.real(c.operand(0)), slot, slots, d, y);
        });
    }

    /// Works in place of its first operand where the plan says so and nobody else holds that.
    pub(super) fn put_slot(&mut self, c: &NodeContext<'_>) {
        let slot = self.memory.index(c.operand(2))[0] as usize;
        let own = c.step.in_place.and_then(|n| self.memory.take_unique(c.operand(n)));
        let mut x = own.unwrap_or_else(|| self.arena.copy(self.memory.real(c.operand(0))));
        let (slots, d) = slots(c);
        ordered_memory::slot_set(&mut x, self.memory.real(c.operand(1)), slot, slots, d);
        self.put(c, 0, x);
    }
}

/// Slots of the first operand, and the size of one.
fn slots(c: &NodeContext<'_>) -> (usize, usize) {
    let slots = c.ty(c.operand(0)).dims()[1].fixed().unwrap_or(1);
    (slots, c.width(0) / slots.max(1))
}
