//! The compiler of `rtc`.

pub mod expr;
pub mod source;
pub mod spec;
