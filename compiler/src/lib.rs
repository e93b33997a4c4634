//! The compiler of `rtc`.

pub mod check;
pub mod diag;
pub mod expr;
pub mod feature;
pub mod ir;
pub mod lower;
pub mod pass;
pub mod pipeline;
pub mod plan;
pub mod schema;
pub mod source;
pub mod spec;
pub mod syntax;
