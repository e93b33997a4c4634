//! Execution of plans: the interface of a machine, the loops for every machine, the executor on the processor, and models.
//!
//! - [`machine`]: values, pieces of rows, regions, records, and the arrays of a model.
//! - [`loops`]: recurrences, chunks, folds and searches, written once for every machine.
//! - [`processor`]: the executor on the CPU.
//! - [`model`]: a trainable model on any machine; [`learner`]: the interface of the training loop to it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use rtc_base::batch::{Batch, Labels};
//! use rtc_base::rng::Key;
//! use rtc_compiler::{ir::text, plan::plan};
//! use rtc_exec::Executor;
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
//! let mut executor = Executor::<f32>::new(Arc::new(plan(graph)));
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

pub mod arena;
mod axes;
pub mod bounds;
pub mod choice;
pub mod counter;
pub mod gradient_tree;
pub mod learner;
pub mod loops;
pub mod machine;
pub mod mask;
pub mod model;
pub mod node_context;
pub mod pair_join;
pub mod pair_program;
pub mod processor;
pub mod ranges;
mod recorder;
pub mod rows;
pub mod settings;
pub mod storage;
pub mod update;

pub use axes::{axis_names, set_axis};
pub use machine::outputs::{Outputs, output_names};
pub use machine::record::{AttendedAxis, AttentionMap, Beam, ParseTrees, RunRecords};
pub use machine::search::NoiseSource;
pub use processor::{Executor, HostMemory, Past};
pub use ranges::{aligned_ranges, parameter_ranges};
pub use recorder::{HaltingRecorder, HaltingTrace, Owners, StateRecorder, StateTrace, UnitHalting};
pub use settings::{ExecutionFault, Halting, Inference, Settings};
