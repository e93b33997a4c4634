//! The text of the kernels: those of every program, and those that are made for a plan.

use std::collections::BTreeSet;
use std::ffi::OsString;

use rtc_compiler::plan::Plan;
use rtc_kernel::optimiser;

use super::device::{GeneratedKernel, KernelTarget};
use super::{attention_kernels, fusion, mask_codegen, narrow};

/// What the kernels share: in front of any text of kernels. `REAL` must be defined.
pub const BASE: &str = concat!(
    include_str!("kernels/base.cu"),
    include_str!("kernels/expression.cu"),
    include_str!("kernels/fragments.cu"),
    include_str!("kernels/attend.cu"),
    include_str!("kernels/tile.cu"),
    include_str!("kernels/talking.cu"),
);

/// All kernels that a plan needs made for a device.
pub fn generated(plan: &Plan, target: KernelTarget) -> BTreeSet<GeneratedKernel> {
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
