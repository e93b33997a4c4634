//! The graph IR: what a model computes, readable, comparable and testable.
//!
//! # Meaning
//!
//! A graph is a list of nodes in execution order. A node takes values, gives values, and has constant attributes; its op
//! is a row of the table in [`ops`]. Types are symbolic in the batch and the length ([`types`]).
//!
//! **Rows.** A batched value (first axis `batch`) has one part per row of the batch. Every op but the losses works row by row, so
//! no row can influence another. A symbolic second axis is ragged: each row has its own length and no padding exists,
//! neither in memory nor in meaning.
//!
//! **Loops.** `recur`, `chunks`, `fold` and `unwind` own a region. Its parameters are the carried values (there is no phi); a
//! body may use values of the regions around it. `recur` runs its body for the rows that are still going: a row whose
//! `go` is false in a step keeps the values with which it entered that step and leaves. `chunks` runs its body once per
//! chunk for the rows that have a token in it. Inside, `batch` means those rows. `fold` turns a sequence into one vector,
//! level by level: its body runs once per level on all chunks of all rows, and inside `batch` means those chunks; a row that
//! has one element left leaves. How the runtime drops the others (by
//! compaction, or not at all) changes speed only.
//!
//! **Randomness.** A random op names its stream; its draws are a function of the seed, the update, the counters of the loops
//! around it, the stream, the row and the index.
//!
//! **Gradients.** The `grad` pass adds the backward nodes to the same graph. A loop's forward run saves what its
//! backward run needs on a `tape`, step by step, and `unwind` consumes it. Gradients of parameters leave through
//! `accumulate`, the only effect.
//!
//! The text form ([`text`]) prints and reads back; YAML, DOT and Mermaid come from the same document ([`document`]).

mod alike;
pub mod attr;
pub mod attribute;
pub mod cost;
pub mod critical_path;
pub mod dependence;
pub mod diff;
pub mod document;
pub mod export;
pub mod formula;
pub mod gradient;
pub mod graph;
pub mod hash;
pub mod join;
pub mod loops;
pub mod number;
pub mod ops;
pub mod places;
pub mod pointwise;
pub mod roles;
pub mod rotation;
pub mod scalar;
pub mod schedule;
pub mod shape;
pub mod text;
pub mod types;
pub mod verify;
