//! The runtime of `rtc`.

pub mod batch;
pub mod exec;
pub mod kernel;
pub mod learner;
pub mod rng;
