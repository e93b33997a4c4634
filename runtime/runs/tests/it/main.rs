//! Experiments, grids and weights through their public functions.

mod experiments;
mod extends;
mod grids;
mod protocol;
mod weights;
