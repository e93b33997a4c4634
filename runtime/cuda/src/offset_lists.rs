//! Masks and biases that are expressions, as an attention on a device takes them: the distances that are seen, listed by the host,
//! and a number for each, which the device works out.

use std::collections::BTreeMap;

use rtc_compiler::ir::graph::NodeId;
use rtc_compiler::plan::Plan;

use super::device::KernelTarget;
use super::memory::DeviceArray;

/// Distances between queries and keys that are seen.
#[derive(Clone, Debug)]
pub(super) struct OffsetList {
    /// Rising, as 32-bit integers.
    pub(super) distances: DeviceArray,
    /// Whether there are others between them.
    pub(super) gaps: bool,
    /// A number for each head and distance, where there is a bias.
    pub(super) values: Option<DeviceArray>,
}

/// Key of the distances that a node sees: the node, the step if the mask reads it, and how many queries and keys there are at
/// most, by the next power of two.
pub(super) type DistanceKey = (NodeId, i64, [usize; 2]);

/// Endings of the names of the kernels of expressions, by node.
pub(super) fn names(plan: &Plan, target: KernelTarget) -> BTreeMap<NodeId, String> {
    super::mask_codegen::written(plan, target).into_iter().map(|(id, written)| (id, written.name)).collect()
}
