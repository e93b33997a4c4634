//! A font that pictures are drawn with in place of the one in the program.

#[cfg(feature = "pictures")]
mod database;
#[cfg(not(feature = "pictures"))]
#[path = "font/no_database.rs"]
mod database;

#[cfg(not(feature = "pictures"))]
pub(crate) use database::CURE;
#[cfg(feature = "pictures")]
pub(crate) use database::FONT;
use database::FontDatabase;

/// Printable ASCII characters, whose advances are known.
pub(crate) const PRINTABLE: usize = 95;

/// A font family of the user.
#[derive(Clone)]
pub struct FigureFont {
    family: String,
    #[cfg_attr(not(feature = "pictures"), expect(dead_code, reason = "nothing is drawn"))]
    pub(crate) database: FontDatabase,
    /// Advances of the printable ASCII characters in thousandths of the size.
    pub(crate) advances: [u16; PRINTABLE],
}

/// Why a font can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableFont(pub(crate) String);

impl std::fmt::Debug for FigureFont {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FigureFont").field("family", &self.family).finish_non_exhaustive()
    }
}

impl FigureFont {
    /// Takes the family of the first face in a TTF, OTF or TTC file.
    ///
    /// # Errors
    /// The bytes are no font, or a font that can't be embedded: see [`FigureFont::family_of`].
    pub fn file(bytes: Vec<u8>) -> Result<Self, UnusableFont> {
        let loaded = database::loaded(vec![bytes], None)?;
        Self::checked(loaded)
    }

    /// Takes a family, as its regular and bold faces in these files have it.
    ///
    /// # Errors
    /// No file has the family. A face of it is variable, has no outlines or no Latin letters, or its name would need an escape in CSS.
    pub fn family_of(family: &str, files: Vec<Vec<u8>>) -> Result<Self, UnusableFont> {
        let loaded = database::loaded(files, Some(family))?;
        Self::checked(loaded)
    }

    fn checked((family, database, advances): (String, FontDatabase, [u16; PRINTABLE])) -> Result<Self, UnusableFont> {
        if family.chars().any(|c| c.is_control() || "\"'\\<>&".contains(c)) {
            return Err(UnusableFont(format!(
                "the name of its family, `{}`, must hold no quote or markup",
                family.escape_debug()
            )));
        }
        Ok(Self { family, database, advances })
    }

    /// The name of the family.
    pub fn family(&self) -> &str {
        &self.family
    }
}
