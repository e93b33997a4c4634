//! Positions relative to one another on a device: the code of every distance of a batch, and the gradient of what maps them.

use rtc_compiler::ir::attribute::{self, Mask, Relative};
use rtc_compiler::ir::graph::Value;

use super::device::{DeviceMatrix, MatrixProduct};
use super::dispatch::DeviceNodeContext;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, int, whole};
use rtc_exec::storage::Element;

/// Codes of distances, from the largest down.
pub(super) struct DeviceCodes {
    /// `u` and `v`, by which queries are shifted.
    pub(super) shifts: [Value; 2],
    /// Sines and cosines, `[distances, channels]`.
    waves: DeviceArray,
    channels: usize,
    /// What the map makes of them, `[distances, heads e]`.
    pub(super) mapped: DeviceArray,
    /// How many distances have a code.
    pub(super) count: usize,
    /// The largest distance.
    pub(super) last: usize,
}

impl<T: Element> DeviceExecutor<T> {
    /// The codes of all distances between queries and keys of a batch, for an attention that takes them.
    pub(super) fn relative_codes(
        &mut self,
        c: &DeviceNodeContext<'_>,
        [queries, keys]: [usize; 2],
    ) -> Option<DeviceCodes> {
        let Relative::RelativeXl = c.node.find(attribute::POSITION)?;
        let own = c.node.behind().relative;
        let &[u, v, map] = c.node.operands[own.clone()].first_chunk::<3>()?;
        let (width, channels) = (c.last(0), c.last(own.end - 1));
        let ahead = if c.get(attribute::MASK) == Mask::Causal { 1 } else { keys };
        let (last, count) = (queries.saturating_sub(1), (queries + ahead).saturating_sub(1));
        let codes = self.waves(channels, queries.max(ahead));
        let waves = self.pool.take::<T>(count * channels);
        let args = [codes.arg(), waves.arg(), int(last), int(channels), whole(waves.len())];
        self.pool.each("distance_waves", waves.len(), &args);
        let mapped = self.pool.take::<T>(count * width);
        let a = DeviceMatrix::straight(waves.at(), channels);
        let b = DeviceMatrix::turned(self.real(map).at(), channels);
        self.pool.multiply::<T>(MatrixProduct::new(a, b, mapped.at(), [count, width, channels]));
        Some(DeviceCodes { shifts: [u, v], waves, channels, mapped, count, last })
    }

    /// The gradient of the map, which is result `n`, from that of the codes.
    pub(super) fn map_grad(&mut self, c: &DeviceNodeContext<'_>, codes: &DeviceCodes, d_codes: &DeviceArray, n: usize) {
        let width = d_codes.len() / codes.count.max(1);
        let (y, add) = self.target(c, n);
        let a = DeviceMatrix::turned(d_codes.at(), width);
        let b = DeviceMatrix::straight(codes.waves.at(), codes.channels);
        self.pool.multiply::<T>(MatrixProduct::new(a, b, y.at(), [width, codes.channels, codes.count]).adding(add));
    }
}
