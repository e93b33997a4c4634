//! What a run is on disk: its experiment, its record, checkpoints, weights, results, and grids of runs.
//!
//! ```
//! use rtc_runs::experiment::ExperimentFile;
//!
//! let file = ExperimentFile::parse("mine.yaml", "extends: listops_smoke\nbatch: { size: 16 }\n")?;
//! let experiment = file.resolve(Some("gut"), &["optimiser.clip=0.5".to_owned()])?;
//! assert_eq!((experiment.batch.size, experiment.optimiser.clip), (16, Some(0.5)));
//! # Ok::<(), rtc_runs::error::ExperimentError>(())
//! ```

pub mod error;
pub mod experiment;
pub mod grid;
pub mod record;
pub mod saved;
pub mod schedule;
pub mod statistics;
pub mod weights;
