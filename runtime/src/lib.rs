//! The runtime of `rtc`.

pub mod batch;
pub mod learner;
pub mod rng;
