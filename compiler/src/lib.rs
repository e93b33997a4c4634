//! The compiler of `rtc`: source text to spec, graph, gradient and plan. No IO, no Candle.
//!
//! `text -> ast::File -> Spec -> Graph -> Graph (differentiated, optimised) -> Plan`: `check` makes the spec,
//! [`pipeline`] goes on from there.

#![deny(clippy::disallowed_methods)]

pub mod causality;
pub mod check;
pub mod define;
pub mod diag;
pub mod expr;
pub mod feature;
pub mod incremental;
pub mod ir;
pub mod lower;
pub mod pass;
pub mod pipeline;
pub mod plan;
pub mod schema;
pub mod source;
pub mod spec;
pub mod syntax;
