//! Pictures and pages of runs. Records come in ([`data`]), SVG, PNG and HTML go out; no files, no models.
//!
//! ```text
//! RunReport  ──plots──> Chart ───┐
//! InputTrace ──heatmap, tree─────┼──> Picture ──inline, file, png──> page, files
//! Spec       ──diagram───────────┘
//! ```
//!
//! A [`Picture`] carries class names and no colours: the page gives them light or dark ones with one style sheet, a file
//! carries the light ones with it.

#![deny(clippy::disallowed_methods)]

mod analyses;
mod answers;
mod chart;
pub mod data;
mod diagram;
mod headline;
mod heatmap;
mod highlight;
pub mod lines;
mod page;
mod picture;
mod plots;
#[cfg(feature = "pictures")]
mod raster;
#[cfg(not(feature = "pictures"))]
#[path = "no_raster.rs"]
mod raster;
mod refusal;
mod scale;
mod steps;
mod svg;
mod table;
mod theme;
mod thin;
mod tree;

pub use data::RunReport;
pub use diagram::dot;
pub use page::{page, watched};
pub use picture::Picture;
pub use plots::pictures;
pub use refusal::NoPicture;
