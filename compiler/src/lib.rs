//! The compiler of `rtc`.

pub mod expr;
pub mod ir;
pub mod lower;
pub mod pass;
pub mod pipeline;
pub mod plan;
pub mod source;
pub mod spec;
