//! Refuses PNG and PDF files in a program without the feature `pictures`.

use crate::font::{CURE, FigureFont};
use crate::refusal::NoPicture;

/// Makes none.
pub(crate) fn png(_: &str, _: Option<&FigureFont>, _: f64) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(CURE.to_owned()))
}

/// Makes none.
pub(crate) fn pdf(_: &str, _: Option<&FigureFont>, _: &str, _: f64) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(CURE.to_owned()))
}
