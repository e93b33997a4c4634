//! What a run is on disk: its experiment, its record, checkpoints, weights, results, and grids of runs.

pub mod error;
pub mod experiment;
pub mod grid;
pub mod record;
pub mod saved;
pub mod schedule;
pub mod statistics;
pub mod weights;
