//! SVG files with their texts laid out.

use resvg::usvg::{Options, Tree};

use crate::font::{FONT, FigureFont};
use crate::refusal::NoPicture;

/// Reads an SVG file; texts are laid out in the font of the user, and characters that it lacks in the one of the program.
pub(crate) fn tree(svg: &str, font: Option<&FigureFont>) -> Result<Tree, NoPicture> {
    let fontdb = font.map_or_else(|| FONT.clone(), |font| font.database.clone());
    let options = Options { fontdb, font_family: "Noto Sans".to_owned(), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|error| NoPicture(error.to_string()))
}
