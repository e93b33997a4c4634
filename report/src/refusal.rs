//! Why a picture has no PNG or PDF.

/// Why there is no PNG or PDF of a picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no file but SVG can be made of this picture: {0}")]
pub struct NoPicture(pub(crate) String);
