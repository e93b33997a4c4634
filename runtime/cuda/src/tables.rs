//! The gradient of a learned table of a bias, where every query and key has a slope of its own.

use super::device::KernelArgument;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, WARP, blocks, int, whole};
use rtc_exec::storage::Element;

/// Numbers of the table that a warp adds up, and warps of a block, as `pair_gradient` has them.
const SHARE: usize = 512;
const WARPS: usize = 4;

/// Pairs of a part at least.
const PAIRS: usize = 1024;

/// Parts of all pairs at most, and numbers of the sums of all parts.
const PARTS: usize = 1 << 13;
const SUMS: usize = 1 << 22;

impl<T: Element> DeviceExecutor<T> {
    /// Sums over parts of all pairs, and over the parts: the kernel is `given` the bias and the slopes of so many pairs.
    pub(super) fn table_of_pairs(
        &self,
        kernel: &str,
        given: Vec<KernelArgument>,
        pairs: usize,
        (y, add): (&DeviceArray, bool),
        table: usize,
    ) {
        let size = y.len();
        let most = (SUMS / size.max(1)).clamp(1, PARTS);
        let per = pairs.div_ceil(most).max(PAIRS).next_multiple_of(WARP as usize);
        let count = pairs.div_ceil(per);
        let sums = self.pool.take::<T>(count * size);
        let sizes = [whole(pairs), whole(per), whole(count), sums.arg(), int(size), int(table)];
        let grid = [blocks(count, WARPS), blocks(size, SHARE), 1];
        self.pool.start(kernel, grid, WARPS as u32 * WARP, &[given, sizes.to_vec()].concat());
        self.sum_rows(&sums, y, count, size, add);
    }
}
