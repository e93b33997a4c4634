//! Neighbours by existence, and slots, on a device.

use rtc_compiler::ir::attribute::{self, Side};

use super::device::KernelArgument;
use super::dispatch::{DeviceNodeContext, channels};
use super::exec::DeviceExecutor;
use super::memory::{flag, int, whole};
use rtc_exec::storage::Element;

/// Channels that a warp has.
const SLICE: usize = 128;

impl<T: Element> DeviceExecutor<T> {
    /// Starts a kernel with a warp for every position, and for every piece of its channels.
    fn each_position(&self, kernel: &str, positions: usize, pieces: usize, args: &[KernelArgument]) {
        self.pool.launch(kernel, [self.pool.warp_blocks(positions), pieces.max(1) as u32, 1], args);
    }

    /// What kernels that go from position to position are told at last.
    fn positions(&self, c: &DeviceNodeContext<'_>) -> ([KernelArgument; 5], usize, usize) {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let (d, count) = (channels(c, c.operand(0)), axis.row_of.len());
        let right = flag(c.get(attribute::SIDE) == Side::Right);
        ([axis.row_of.arg(), axis.offsets.arg(), right, int(d), whole(count)], d, count)
    }

    pub(super) fn neighbours(&mut self, c: &DeviceNodeContext<'_>) {
        let (places, d, count) = self.positions(c);
        let [x, e] = self.first(c);
        let y = self.fresh(c, 0);
        self.each_position("neighbours", count, d.div_ceil(SLICE), &[&[x, e, y.arg()][..], &places].concat());
        self.put(c, 0, y);
    }

    pub(super) fn neighbours_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let (places, d, count) = self.positions(c);
        let given: [KernelArgument; 3] = self.first(c);
        let reach = self.pool.take::<u32>(count);
        let [rest, slopes] = [0; 2].map(|_| self.pool.take::<T>(count));
        let reached = [reach.arg(), rest.arg(), slopes.arg()];
        self.each_position("neighbours_reach", count, 1, &[&given[..], &reached, &places].concat());
        let (dx, de) = (self.fresh(c, 0), self.fresh(c, 1));
        let args = [&given[..], &reached, &[dx.arg(), de.arg()], &places].concat();
        self.each_position("neighbours_grad", count, d.div_ceil(SLICE), &args);
        self.put_all(c, [dx, de]);
    }

    pub(super) fn slot_get(&mut self, c: &DeviceNodeContext<'_>) {
        let (slot, (slots, d)) = (self.index(c.operand(1)).host[0], slots(c));
        self.produce(c, "pick_slot", &self.first::<1>(c), &[whole(slot as usize), int(slots), whole(d)]);
    }

    pub(super) fn put_slot(&mut self, c: &DeviceNodeContext<'_>) {
        let (slot, (slots, d)) = (self.index(c.operand(2)).host[0], slots(c));
        self.produce(c, "put_slot", &self.first::<2>(c), &[whole(slot as usize), int(slots), whole(d)]);
    }
}

/// Slots of a unit of the first operand, and the size of one.
fn slots(c: &DeviceNodeContext<'_>) -> (usize, usize) {
    let slots = c.ty(c.operand(0)).slots().map_or(1, |(_, slots)| slots);
    (slots, c.width(0) / slots.max(1))
}
