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
#[cfg(feature = "driver")]
pub mod driver;
mod embed;
mod exec;
mod function;
mod fusion;
mod group;
pub mod known_results;
mod machine;
mod mask_codegen;
pub mod memory;
mod narrow;
mod offset_lists;
pub mod queue;
mod relative;
pub mod saved;
mod scan;
mod sources;
mod tables;
mod value;

pub use backend::{Model, model};
pub use exec::DeviceExecutor;
pub use function::{DeviceFunction, DeviceSpan};
pub use fusion::of_formula as update_kernel;
pub use sources::{BASE, Launching, generated, kernels, overrides};
