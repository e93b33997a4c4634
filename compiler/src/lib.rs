//! The compiler of `rtc`.

pub mod check;
pub mod diag;
pub mod expr;
pub mod feature;
pub mod schema;
pub mod source;
pub mod spec;
pub mod syntax;
