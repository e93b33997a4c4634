//! Why a picture has no PNG.

/// Why there is no PNG of a picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no PNG can be made of this picture: {0}")]
pub struct NoPicture(pub(crate) String);
