//! The runtime of a GPU: the same plans, parameters and checkpoints as on the CPU, with values in the memory of a device.
//!
//! - **Kernels** are CUDA C in `kernels/`, written once. They are compiled when a model is made, for the device that is there
//!   (`driver`, feature `cuda`); tests compile the same text for the host and compare every op and every spec with the CPU.
//! - **The executor** walks the plan as the one of the CPU does. The host decides control flow: a halting step costs one copy of
//!   a byte per row to the host, a step of a beam search one of the scores of its new pairs, and nothing else does before the results
//!   of a run.
//! - **Bits.** No kernel is atomic and every sum has one order: the same run on the same device has the same bits. They are not
//!   those of the CPU, whose sums have other orders.
#![allow(
    unsafe_code,
    reason = "kernels and libraries of a device take addresses; a buffer owns its memory and outlives what is queued for it"
)]
#![allow(clippy::too_many_arguments, reason = "what a kernel is given is a list")]

mod active_rows;
mod attend;
mod attention_kernels;
mod backend;
mod bundles;
mod crvnn_om_ops;
pub mod device;
mod dispatch;
#[cfg(feature = "cuda")]
pub mod driver;
mod embed;
mod exec;
mod function;
mod fusion;
mod group;
mod machine;
mod mask_codegen;
pub mod memory;
mod narrow;
mod offset_lists;
pub mod queue;
mod relative;
pub mod saved;
mod scan;
mod tables;
mod value;

use std::collections::BTreeSet;
use std::ffi::OsString;

use rtc_compiler::plan::Plan;

use crate::optimiser;
pub use backend::Model;
use device::{Generated, Target};
pub use exec::Executor;
pub use function::Span;

/// What the kernels share: in front of any text of kernels.
#[cfg(feature = "cuda")]
const BASE: &str = concat!(
    include_str!("kernels/base.cu"),
    include_str!("kernels/expression.cu"),
    include_str!("kernels/fragments.cu"),
    include_str!("kernels/attend.cu"),
    include_str!("kernels/tile.cu"),
    include_str!("kernels/talking.cu"),
);

/// All kernels that a plan needs made for a device.
pub fn generated(plan: &Plan, target: Target) -> BTreeSet<Generated> {
    let rules = mask_codegen::written(plan, target).into_iter().flat_map(|(_, written)| written.kernels);
    let any_width = narrow::values(plan, target).contains(&true);
    fusion::generated(plan, any_width)
        .into_iter()
        .chain(rules)
        .chain(attention_kernels::generated(plan, target))
        .collect()
}

/// How work is started. The numbers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launching {
    /// Series of launches that come again are recorded and started with one call.
    #[default]
    Graph,
    /// Every launch by itself.
    Direct,
}

/// What the environment says of how NVIDIA's libraries compute, as `NAME=VALUE`, from all variables of a process: they change
/// numbers behind the back of a program.
pub fn overrides(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
    let of_products =
        |name: &str| name.starts_with("CUBLAS") && ["EMULAT", "HEURISTICS"].iter().any(|a| name.contains(a));
    let changes = |(name, _): &(String, OsString)| name == "NVIDIA_TF32_OVERRIDE" || of_products(name);
    let found = variables.filter_map(text).filter(changes);
    let mut found: Vec<String> = found.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect();
    found.sort();
    found
}

/// The kernels that every plan and every optimiser may use, as one text. `REAL` must be defined.
pub fn kernels() -> String {
    format!("{KERNELS}{}", optimiser::SOURCE)
}

const KERNELS: &str = concat!(
    include_str!("kernels/base.cu"),
    include_str!("kernels/expression.cu"),
    include_str!("kernels/fragments.cu"),
    include_str!("kernels/attend.cu"),
    include_str!("kernels/tile.cu"),
    include_str!("kernels/talking.cu"),
    include_str!("kernels/rows.cu"),
    include_str!("kernels/pool.cu"),
    include_str!("kernels/unit.cu"),
    include_str!("kernels/draw.cu"),
    include_str!("kernels/attention.cu"),
    include_str!("kernels/geometric.cu"),
    include_str!("kernels/scan.cu"),
    include_str!("kernels/crvnn_om_ops.cu"),
    include_str!("kernels/beam.cu"),
    include_str!("kernels/loss.cu"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_change_numbers_are_known() {
        let all = [
            ("PATH", "/bin"),
            ("NVIDIA_TF32_OVERRIDE", "0"),
            ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
            ("CUBLAS_LOGINFO_DBG", "1"),
            ("CUBLAS_EMULATION_STRATEGY", "eager"),
            ("CUBLAS_EMULATE_SINGLE_PRECISION", "1"),
            ("CUBLASLT_HEURISTICS_LUT_FILE", "table"),
        ];
        let found = [
            "CUBLASLT_HEURISTICS_LUT_FILE=table",
            "CUBLAS_EMULATE_SINGLE_PRECISION=1",
            "CUBLAS_EMULATION_STRATEGY=eager",
            "NVIDIA_TF32_OVERRIDE=0",
        ];
        assert_eq!(overrides(all.into_iter().map(|(name, value)| (name.into(), value.into()))), found);
    }
}
