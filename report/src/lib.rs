//! Pictures and pages of runs. Records come in ([`data`]), SVG, PNG, PDF and HTML go out; no files, no models.
//!
//! ```text
//! RunReport  ──plots──> Chart ───┐
//! InputTrace ──heatmap, tree─────┼──> Picture ──inline, file, png, pdf──> page, files
//! Spec       ──diagram───────────┘
//! ```
//!
//! A [`Picture`] carries class names and no colours: the page gives them light or dark ones with one style sheet, a file
//! carries the light ones with it. A [`FigureStyle`] lays pictures out for a width on paper.

#![deny(clippy::disallowed_methods)]

mod analyses;
mod answers;
mod attention;
mod chart;
pub mod data;
mod diagram;
#[cfg(feature = "pictures")]
mod drawing;
#[cfg(not(feature = "pictures"))]
#[path = "no_drawing.rs"]
mod drawing;
mod font;
mod frame;
mod headline;
mod heatmap;
mod highlight;
mod intervals;
mod legend;
pub mod lines;
mod page;
mod parallel;
mod picture;
mod plots;
mod records;
mod refusal;
mod scale;
mod series;
mod steps;
mod style;
mod svg;
mod swept;
mod table;
mod theme;
mod thin;
mod tree;

pub use data::RunReport;
pub use diagram::dot;
pub use font::{FigureFont, UnusableFont};
pub use page::{page, watched};
pub use picture::Picture;
pub use plots::pictures;
pub use refusal::NoPicture;
pub use style::FigureStyle;
