//! Files that are drawn from SVG: PNG and PDF, with the same fonts in both.

mod pdf;
mod raster;
mod typeset;

pub(crate) use pdf::pdf;
pub(crate) use raster::png;
