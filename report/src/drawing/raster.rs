//! From SVG to PNG.

use resvg::tiny_skia::{Pixmap, Transform};

use super::typeset;
use crate::font::FigureFont;
use crate::refusal::NoPicture;

/// The most pixels of a side.
const LARGEST: f32 = 16_384.0;

/// Draws an SVG file so many pixels wide, fewer where a side would have too many.
pub(crate) fn png(svg: &str, font: Option<&FigureFont>, width: f64) -> Result<Vec<u8>, NoPicture> {
    let tree = typeset::tree(svg, font)?;
    let size = tree.size();
    let scale = (width as f32 / size.width()).min(LARGEST / size.width()).min(LARGEST / size.height());
    let pixels = |length: f32| (length * scale).ceil().max(1.0) as u32;
    let pixmap = Pixmap::new(pixels(size.width()), pixels(size.height()));
    let mut pixmap = pixmap.ok_or_else(|| NoPicture("it is too large".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| NoPicture(error.to_string()))
}
