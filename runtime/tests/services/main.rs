//! The parts of the runtime that know nothing of graphs or kernels, tested through their public functions.

mod checkpoints;
mod experiments;
mod grids;
mod listops;
mod mock;
mod records;
mod training;
