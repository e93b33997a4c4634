//! Passes over the graph: each changes speed or size, never meaning.

pub mod cse;
pub mod dce;
pub mod grad;
pub mod inference;
