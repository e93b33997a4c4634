//! The executor of rtc on tensors of Candle: the same plans, loops and random numbers as on the processor, with Candle's kernels.
//!
//! It shares no kernel and no memory with the other two executors, so it says which of them is wrong where they differ, and runs wherever
//! Candle does. It is slower: an op is one or more kernels, and nothing is fused. Gradients are nodes of the graph; Candle's tape is not
//! used.
//!
//! ```
//! use std::sync::Arc;
//!
//! use rtc_base::batch::{Batch, Labels};
//! use rtc_base::rng::Key;
//! use rtc_compiler::{ir::text, plan::plan};
//! use rtc_tensor::TensorExecutor;
//!
//! let graph = text::parse(
//!     r#"graph "mean" {
//!          %tokens = input {name: "tokens"} : u32[batch, length]
//!          %table = param {name: "table", init: zeros} : f32[3, 2]
//!          %x = embed %tokens, %table : f32[batch, length, 2]
//!          %y = mean %x : f32[batch, 2]
//!          return %y {names: "logits"}
//!        }"#,
//! )
//! .expect("it is a graph");
//! let mut executor = TensorExecutor::<f32>::new(Arc::new(plan(graph)), candle_core::Device::Cpu);
//! executor.parameters_mut().copy_from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
//! // Two rows: tokens 0 and 2, and token 1.
//! let batch = Batch {
//!     offsets: vec![0, 2, 3],
//!     tokens: vec![0, 2, 1],
//!     labels: Labels::Class(vec![0, 0]),
//!     width: 2,
//!     depths: None,
//!     given: vec![],
//! };
//! let outputs = executor.run(&batch, Key::new(1))?;
//! assert_eq!(outputs.real("logits"), Some(&[2.0, 3.0, 2.0, 3.0][..]));
//! # Ok::<(), rtc_exec::ExecutionFault>(())
//! ```

mod attention;
mod backend;
mod device;
mod dispatch;
mod exec;
mod function;
mod losses;
mod machine;
mod map;
mod rows;
mod units;
mod value;

pub use backend::{Model, model};
pub use device::TensorDevice;
pub use exec::{TensorExecutor, TensorResults};
pub use function::TensorFunction;
pub use value::TensorNumber;
