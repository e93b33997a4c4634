//! From SVG to PNG, with a font of our own: the same picture on a machine that has no fonts.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Source};
use resvg::usvg::{Options, Tree};

use crate::refusal::NoPicture;

/// Noto Sans, cut down to Latin, Greek, Cyrillic and some signs; `font/OFL.txt` is its licence.
const FONTS: [&[u8]; 2] = [include_bytes!("../font/NotoSans-Regular.ttf"), include_bytes!("../font/NotoSans-Bold.ttf")];

static FONT: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    for font in FONTS {
        fonts.load_font_source(Source::Binary(Arc::new(font)));
    }
    fonts.set_sans_serif_family("Noto Sans");
    Arc::new(fonts)
});

/// The most pixels of a side.
const LARGEST: f32 = 16_384.0;

/// Draws an SVG file, `scale` pixels per unit, fewer where a side would have too many.
pub(crate) fn png(svg: &str, scale: f32) -> Result<Vec<u8>, NoPicture> {
    let options = Options { fontdb: FONT.clone(), font_family: "Noto Sans".to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| NoPicture(error.to_string()))?;
    let size = tree.size();
    let scale = scale.min(LARGEST / size.width()).min(LARGEST / size.height());
    let pixels = |length: f32| (length * scale).ceil().max(1.0) as u32;
    let pixmap = Pixmap::new(pixels(size.width()), pixels(size.height()));
    let mut pixmap = pixmap.ok_or_else(|| NoPicture("it is too large".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| NoPicture(error.to_string()))
}
