//! Models across the crates: cost, memory, exports, labels, generated models, reference numbers.

mod cost;
mod edits;
mod experiments;
mod export;
mod expressions;
mod fuzz_language;
mod generated;
mod ir_forms;
mod labels;
mod memory;
mod onnx;
mod parity;
