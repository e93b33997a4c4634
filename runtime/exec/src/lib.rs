//! Execution of plans: the interface of a machine, the loops for every machine, the executor on the processor, and models.
//!
//! - [`machine`]: values, pieces of rows, regions, records, and the arrays of a model.
//! - [`loops`]: recurrences, chunks, folds and searches, written once for every machine.
//! - [`processor`]: the executor on the CPU.
//! - [`model`]: a trainable model on any machine; [`learner`]: the interface of the training loop to it.

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
pub mod processor;
pub mod ranges;
mod recorder;
pub mod rows;
pub mod settings;
pub mod storage;
pub mod update;

pub use axes::{axis_names, set_axis};
pub use machine::outputs::{Outputs, output_names};
pub use machine::record::{Beam, ParseTrees, Records};
pub use machine::search::NoiseSource;
pub use processor::{Executor, Host, Past};
pub use ranges::{aligned_ranges, parameter_ranges};
pub use recorder::{HaltingRecorder, HaltingTrace, Owners, StateRecorder, StateTrace, Unit};
pub use settings::{Fault, Halting, Inference, Settings};
