//! The compiler of `rtc`.

pub mod expr;
pub mod ir;
pub mod pass;
pub mod source;
pub mod spec;
