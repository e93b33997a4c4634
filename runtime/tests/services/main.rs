//! The parts of the runtime that know nothing of graphs or kernels, tested through their public functions.

mod checkpoints;
mod experiments;
mod flip_flop;
mod formal;
mod grids;
mod listops;
mod logic;
mod lra;
mod mock;
mod published;
mod records;
mod training;
