//! The compiler of `rtc`: source text to spec, graph, gradient and plan. No IO, no Candle.
//!
//! `text -> ast::File -> Spec -> Graph -> Graph (differentiated, optimised) -> Plan`: `check` makes the spec,
//! [`pipeline`] goes on from there.
//!
//! ```
//! use rtc_compiler::check::{NoFiles, check};
//! use rtc_compiler::lower::Binding;
//! use rtc_compiler::pipeline;
//! use rtc_compiler::schema::{Catalog, Objective};
//! use rtc_compiler::source::Source;
//!
//! let text = "model m { embed { width: 8 }\n recur depthwise { depth: 3\n attend self { heads: 2 } }\n readout mean }";
//! let (spec, problems, _) = check(&NoFiles, Source::new("m.rt", text), None, &[], &Catalog::default());
//! let spec = spec.ok_or_else(|| format!("{problems:?}"))?;
//! let binding = Binding { vocab: Some(20), classes: Some(4), objective: Objective::Classify };
//! let graph = pipeline::training(&spec, &binding)?;
//! assert!(graph.output("loss").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::disallowed_methods)]

pub mod causality;
pub mod check;
pub mod define;
pub mod diag;
pub mod expr;
pub mod feature;
pub mod formula;
pub mod incremental;
pub mod ir;
pub mod lower;
pub mod pass;
pub mod pipeline;
pub mod plan;
mod resolve;
pub mod schema;
pub mod source;
pub mod spec;
pub mod syntax;
