//! Refuses PNG files in a program without the feature `pictures`.

use crate::refusal::NoPicture;

/// Makes none.
pub(crate) fn png(_: &str, _: f32) -> Result<Vec<u8>, NoPicture> {
    Err(NoPicture(
        "this rtc was built without pictures: build it with `--features pictures`, or take the SVG".to_owned(),
    ))
}
