//! Refuses PNG and PDF files, and fonts, in a program without the feature `pictures`.

use crate::font::{PRINTABLE, UnusableFont};
use crate::refusal::NoPicture;
use crate::style::FigureStyle;

const CURE: &str = "this rtc was built without pictures: build it with `--features pictures`, or take the SVG";

/// No fonts.
pub(crate) type FontDatabase = ();

/// Makes none.
pub(crate) fn png(_: &str, _: &FigureStyle, _: f64) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(CURE.to_owned()))
}

/// Makes none.
pub(crate) fn pdf(_: &str, _: &FigureStyle, _: &str, _: f64) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(CURE.to_owned()))
}

/// Loads none.
pub(crate) fn loaded(
    _: Vec<Vec<u8>>,
    _: Option<&str>,
) -> Result<(String, FontDatabase, [u16; PRINTABLE]), UnusableFont> {
    Err(UnusableFont(CURE.to_owned()))
}
