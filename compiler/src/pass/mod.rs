//! Passes over graphs.

pub mod grad;
