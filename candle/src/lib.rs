//! Models of rtc as modules of Candle.
//!
//! [`Model`] opens the folder of a run, or compiles a spec. It takes tensors of token ids, and gives logits as a tensor on the same device:
//! rtc's own kernels compute them, with the bits of `rtc predict` on the CPU, or those of Candle ([`KernelChoice`]). Its parameters are the
//! variables of a [`candle_nn::VarMap`] under their names in the checkpoint, and Candle's `backward` reaches them, so that a Candle program can
//! use, change and train a model.
//!
//! The executor runs in a thread of its own, which belongs to the model: [`Model`] is `Send` and `Sync`, and clones share it.

#[cfg(feature = "cuda")]
mod cuda;
mod failure;
#[cfg(feature = "cuda")]
mod gpu;
mod labels;
mod model;
mod op;
mod open;
mod rows;
mod spec;
mod storage;
mod worker;

pub use model::{Model, Training};
pub use open::{KernelChoice, Options};
pub use rtc_exec::{Halting, Inference};
pub use rtc_kernel::Precision;
pub use rtc_task::{Objective, Scale};
pub use spec::ModelSpec;
