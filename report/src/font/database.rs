//! The font of the program and those of the user: the same picture on a machine that has no fonts.

use std::sync::{Arc, LazyLock};

use resvg::usvg::fontdb::{Database, Family, ID, Query, Source};
use skrifa::instance::{LocationRef, Size};
use skrifa::raw::TableProvider;
use skrifa::{FontRef, MetadataProvider};

use super::{PRINTABLE, UnusableFont};

/// Noto Sans, cut down to Latin, Greek, Cyrillic and some signs; `font/OFL.txt` is its licence.
const FONTS: [&[u8]; 2] =
    [include_bytes!("../../font/NotoSans-Regular.ttf"), include_bytes!("../../font/NotoSans-Bold.ttf")];

/// The fonts that a picture is drawn with.
pub(crate) type FontDatabase = Arc<Database>;

pub(crate) static FONT: LazyLock<FontDatabase> = LazyLock::new(|| {
    let mut fonts = Database::new();
    for font in FONTS {
        fonts.load_font_source(Source::Binary(Arc::new(font)));
    }
    fonts.set_sans_serif_family("Noto Sans");
    Arc::new(fonts)
});

/// Loads files with faces of a family, or of that of the first face, beside the fonts of the program; gives its name and the advances of
/// its regular face.
pub(super) fn loaded(
    files: Vec<Vec<u8>>,
    family: Option<&str>,
) -> Result<(String, FontDatabase, [u16; PRINTABLE]), UnusableFont> {
    let mut fonts = (**FONT).clone();
    let mut added: Vec<ID> = vec![];
    for file in files {
        added.extend(fonts.load_font_source(Source::Binary(Arc::new(file))));
    }
    let no_font = || UnusableFont("it is no TrueType or OpenType font".to_owned());
    let of = |id: &ID| Some(fonts.face(*id)?.families.first()?.0.clone());
    let family = family.map(str::to_owned).or_else(|| of(added.first()?)).ok_or_else(no_font)?;
    let (own, others): (Vec<ID>, Vec<ID>) = fonts
        .faces()
        .filter(|face| face.families.iter().any(|(name, _)| *name == family))
        .map(|face| face.id)
        .partition(|id| added.contains(id));
    // A font of the user goes before one of the program with its name.
    others.into_iter().for_each(|id| fonts.remove_face(id));
    for id in &own {
        fonts.with_face_data(*id, embeddable).ok_or_else(no_font)??;
    }
    let regular = fonts.query(&Query { families: &[Family::Name(&family)], ..Query::default() });
    let regular = regular.filter(|id| own.contains(id)).ok_or_else(no_font)?;
    let advances = fonts.with_face_data(regular, advances).ok_or_else(no_font)??;
    Ok((family, Arc::new(fonts), advances))
}

/// Refuses faces of which no part can be put into a PDF as it is drawn.
fn embeddable(data: &[u8], index: u32) -> Result<(), UnusableFont> {
    let unreadable = |error| UnusableFont(format!("its tables can't be read: {error}"));
    let font = FontRef::from_index(data, index).map_err(unreadable)?;
    if font.fvar().is_ok() {
        return Err(UnusableFont("it is a variable font. Use the static faces of the family".to_owned()));
    }
    if font.glyf().is_err() && font.cff().is_err() {
        return Err(UnusableFont("it has no outlines (tables `glyf` or `CFF `)".to_owned()));
    }
    Ok(())
}

fn advances(data: &[u8], index: u32) -> Result<[u16; PRINTABLE], UnusableFont> {
    let font = FontRef::from_index(data, index).map_err(|error| UnusableFont(error.to_string()))?;
    let (letters, metrics) = (font.charmap(), font.glyph_metrics(Size::new(1000.0), LocationRef::default()));
    let advance = |c: u8| Some(metrics.advance_width(letters.map(char::from(c))?)?.round() as u16);
    if advance(b'0').is_none() || advance(b'a').is_none() {
        return Err(UnusableFont("it has no Latin letters and digits".to_owned()));
    }
    // A sign that the font lacks comes from the font of the program, where few are wider.
    Ok(std::array::from_fn(|n| advance(n as u8 + b' ').unwrap_or(620)))
}
