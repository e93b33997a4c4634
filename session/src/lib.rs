//! A session with models: opening specs, experiments and runs, training, and listing runs.
//!
//! Nothing here prints or reads a command line: remarks are values, and failures are [`SessionFailure`](failure::SessionFailure)s.
//!
//! A spec of the program, compiled:
//!
//! ```
//! use rtc_compiler::schema::Catalog;
//! use rtc_session::model::Compiled;
//! use rtc_session::spec_file::SpecArg;
//!
//! let facts = Catalog::default();
//! let checked = SpecArg::parse("gut").check(&[], &facts)?;
//! let compiled = Compiled::new(checked.definition, &facts)?;
//! println!("{}: {} parameters", compiled.name(), compiled.parameters());
//! # Ok::<(), rtc_session::failure::SessionFailure>(())
//! ```

pub mod definition;
pub mod device;
pub mod experiment_file;
pub mod failure;
pub mod folders;
pub mod following;
pub mod import;
pub mod job;
pub mod labels;
pub mod limits;
pub mod memory;
mod metrics;
pub mod model;
pub mod ranks;
pub mod rates;
mod samples;
pub mod saved;
pub mod spec_file;
pub mod text;
pub mod threads;
mod until;
pub mod versions;
pub mod weights;
