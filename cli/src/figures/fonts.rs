//! Fonts for plots: files, and families that are installed.

use std::fs;
use std::path::Path;

use rtc_report::FigureFont;
use rtc_session::failure::SessionFailure;

use crate::limits;

/// Ends of names of files that hold fonts.
const ENDS: [&str; 4] = [".ttf", ".otf", ".ttc", ".otc"];

/// The family that is part of the program.
const OWN: &str = "noto sans";

/// Finds a font: a text with a `/` or the end of a font file is a path, any other one the name of an installed family; `None` for the
/// font of the program, if no other one of its name is installed.
pub(super) fn find(text: &str) -> Result<Option<FigureFont>, SessionFailure> {
    let lower = text.to_lowercase();
    if text.contains(['/', '\\']) || ENDS.iter().any(|end| lower.ends_with(end)) {
        let path = Path::new(text);
        let font = FigureFont::file(read(path)?);
        return font.map(Some).map_err(|why| SessionFailure::Usage(format!("`--font {text}`: {why}")));
    }
    match installed(text) {
        Err(_) if lower == OWN => Ok(None),
        found => found.map(Some),
    }
}

/// Reads a file that must be no larger than a font is.
fn read(path: &Path) -> Result<Vec<u8>, SessionFailure> {
    let failed = |error| SessionFailure::io("read", path, error);
    if fs::metadata(path).map_err(failed)?.len() > limits::FONT {
        let why = format!("a font of more than {} MiB is refused", limits::FONT >> 20);
        return Err(failed(std::io::Error::other(why)));
    }
    fs::read(path).map_err(failed)
}

#[cfg(not(feature = "pictures"))]
fn installed(name: &str) -> Result<FigureFont, SessionFailure> {
    FigureFont::family_of(name, vec![]).map_err(|why| SessionFailure::Usage(format!("`--font {name}`: {why}")))
}

/// Finds an installed family, in small or capital letters.
#[cfg(feature = "pictures")]
fn installed(name: &str) -> Result<FigureFont, SessionFailure> {
    use std::collections::BTreeSet;

    use fontdb::{Database, Family, Query, Source, Weight};

    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let families: BTreeSet<&str> =
        fonts.faces().flat_map(|face| &face.families).map(|(family, _)| family.as_str()).collect();
    let Some(family) = families.iter().find(|family| family.to_lowercase() == name.to_lowercase()) else {
        return Err(SessionFailure::Usage(missing(name, &families)));
    };
    let file = |weight| {
        let id = fonts.query(&Query { families: &[Family::Name(family)], weight, ..Query::default() })?;
        match &fonts.face(id)?.source {
            Source::File(path) => Some(path.clone()),
            Source::Binary(_) => None,
        }
    };
    let files: BTreeSet<_> = [Weight::NORMAL, Weight::BOLD].into_iter().filter_map(file).collect();
    let files = files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    FigureFont::family_of(family, files).map_err(|why| SessionFailure::Usage(format!("`--font {name}`: {why}")))
}

/// Says that no such family is installed, and which ones are near.
#[cfg(feature = "pictures")]
fn missing(name: &str, families: &std::collections::BTreeSet<&str>) -> String {
    /// Families that are named.
    const NAMED: usize = 8;
    let words = |text: &str| text.to_lowercase().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let own = words(name);
    let shares = |family: &&&str| words(family).iter().any(|word| own.contains(word));
    let closest = rtc_compiler::diag::closest(name, families.iter().copied());
    let mut near: Vec<&str> = closest.into_iter().collect();
    near.extend(families.iter().filter(shares).copied().filter(|family| Some(*family) != closest));
    let quoted =
        |names: &[&str]| names.iter().take(NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let all: Vec<&str> = families.iter().copied().collect();
    let known = match (near.is_empty(), all.len()) {
        (_, 0) => "there are no installed fonts".to_owned(),
        (false, _) => format!("near are {}", quoted(&near)),
        (true, count) if count > NAMED => format!("installed are {} and {} more", quoted(&all), count - NAMED),
        (true, _) => format!("installed are {}", quoted(&all)),
    };
    format!("no font `{name}` is installed; {known}. A TTF or OTF file may be named instead")
}
