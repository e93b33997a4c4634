//! Refuses fonts in a program without the feature `pictures`.

use super::{PRINTABLE, UnusableFont};

/// What is said of files and fonts that there are not.
pub(crate) const CURE: &str =
    "this rtc was built without pictures: build it with `--features pictures`, or take the SVG";

/// No fonts.
pub(crate) type FontDatabase = ();

/// Loads none.
pub(super) fn loaded(
    _: Vec<Vec<u8>>,
    _: Option<&str>,
) -> Result<(String, FontDatabase, [u16; PRINTABLE]), UnusableFont> {
    Err(UnusableFont(CURE.to_owned()))
}
