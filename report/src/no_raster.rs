//! What a program without the feature `pictures` says of PNG files.

use crate::refusal::NoPicture;

/// Makes none.
pub(crate) fn png(_: &str, _: f32) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(
        "this rtc was built without pictures: build it with `--features pictures`, or take the SVG".to_owned(),
    ))
}
