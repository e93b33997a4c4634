//! The runtime of `rtc`.

pub mod batch;
pub mod batching;
pub mod cache;
pub mod checkpoint;
pub mod collapse;
pub mod cuda;
pub mod disk;
pub mod error;
pub mod examine;
pub mod exec;
pub mod experiment;
pub mod generate;
pub mod grid;
pub mod kernel;
pub mod learner;
pub mod limits;
pub mod model;
pub mod optimiser;
pub mod record;
pub mod rng;
pub mod schedule;
pub mod statistics;
pub mod stopping;
pub mod task;
pub mod train;
pub mod weights;
