//! The ground of the runtime: random numbers, batches, files that survive a crash, and what the system says of itself.

pub mod batch;
pub mod cache;
pub mod disk;
pub mod json;
pub mod memory;
pub mod panics;
pub mod rng;
