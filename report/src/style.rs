//! Size and font of pictures: as a page shows them, or for a column of a paper.

use std::sync::Arc;

use crate::font::FigureFont;
use crate::svg::{Anchor, Svg};

/// The size of a label in the units that pictures are drawn in.
const LABEL: f64 = 12.0;

/// The size of titles, which are bold and therefore wider, and the height of a row of one.
const TITLE: f64 = 14.5;
const TITLE_ROW: f64 = 18.0;

/// Points of a unit where nothing else is asked for: a pixel of CSS.
const PIXEL: f64 = 0.75;

/// Pixels of a unit in PNG files of pictures for a page.
const ON_A_PAGE: f64 = 2.0;

/// Pixels of an inch in PNG files of pictures with a size.
const PER_INCH: f64 = 300.0;

/// Size and font of the pictures of a report; the default is that of a page.
///
/// Pictures are drawn in units of which a label is 12 high. So a width that is asked for leaves the letters as large as they are
/// and changes how much has room between them.
#[derive(Clone, Debug)]
pub struct FigureStyle {
    /// The width in points; without it every picture has its own.
    pub width: Option<f64>,
    /// The size of labels in points; titles are a sixth larger, ticks a twelfth smaller.
    pub size: f64,
    /// A font of the user.
    pub font: Option<Arc<FigureFont>>,
}

impl Default for FigureStyle {
    fn default() -> Self {
        Self { width: None, size: LABEL * PIXEL, font: None }
    }
}

impl FigureStyle {
    /// The least width in points of pictures with labels of this size: axes and their labels leave room for a plot.
    pub fn least_width(size: f64) -> f64 {
        20.0 * size
    }

    /// Points of a unit.
    pub(crate) fn unit(&self) -> f64 {
        self.size / LABEL
    }

    /// The width that is asked for in units.
    pub(crate) fn asked(&self) -> Option<f64> {
        self.width.map(|width| width / self.unit())
    }

    /// The width that is asked for in units, or else this one.
    pub(crate) fn width_or(&self, own: f64) -> f64 {
        self.asked().unwrap_or(own)
    }

    /// Whether files have a size in points instead of pixels.
    pub(crate) fn is_on_paper(&self) -> bool {
        self.width.is_some() || self.size != LABEL * PIXEL
    }

    /// Width in pixels of the PNG of a picture that is so many units wide, of which each has so many points.
    pub(crate) fn pixels(&self, width: f64, unit: f64) -> f64 {
        if self.is_on_paper() { width * unit / 72.0 * PER_INCH } else { width * ON_A_PAGE }
    }

    /// The title of a picture at its top between two sides, in one row on a page and in up to two on paper; gives the height of the
    /// second one.
    pub(crate) fn title(&self, svg: &mut Svg, (left, right): (f64, f64), text: &str) -> f64 {
        let room = right - left;
        let cut = match self.is_on_paper() && self.width_of(text, TITLE) > room {
            true => text.rmatch_indices(' ').map(|(at, _)| at).find(|at| self.width_of(&text[..*at], TITLE) <= room),
            false => None,
        };
        let (first, second) = cut.map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
        svg.text("title", (left, 20.0), Anchor::Start, &self.fitted(first, TITLE, room));
        if second.is_empty() {
            return 0.0;
        }
        svg.text("title", (left, 20.0 + TITLE_ROW), Anchor::Start, &self.fitted(second, TITLE, room));
        TITLE_ROW
    }

    /// How wide a text of this size is at most.
    pub(crate) fn width_of(&self, text: &str, size: f64) -> f64 {
        let advances = self.font.as_ref().map_or(&ADVANCES, |font| &font.advances);
        let advance = |c: char| advances.get((c as usize).wrapping_sub(32)).copied().unwrap_or(620);
        text.chars().map(|c| f64::from(advance(c))).sum::<f64>() * SLACK * size / 1000.0
    }

    /// The text in as many lines as it needs, broken at blanks; a longer word is cut.
    pub(crate) fn wrapped(&self, text: &str, size: f64, most: f64) -> Vec<String> {
        let mut lines: Vec<String> = vec![];
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if self.width_of(&format!("{line} {word}"), size) <= most => *line += &format!(" {word}"),
                _ => lines.push(word.to_owned()),
            }
        }
        lines.iter().map(|line| self.fitted(line, size, most)).collect()
    }

    /// The text, cut with an ellipsis where it is wider than `most`.
    pub(crate) fn fitted(&self, text: &str, size: f64, most: f64) -> String {
        if self.width_of(text, size) <= most {
            return text.to_owned();
        }
        let mut out = String::new();
        for c in text.chars() {
            if self.width_of(&out, size) + self.width_of("m…", size) > most {
                break;
            }
            out.push(c);
        }
        out.trim_end_matches(['.', ',', ' ']).to_owned() + "…"
    }
}

/// Advances of the printable ASCII characters of Noto Sans in thousandths of the size.
const ADVANCES: [u16; 95] = [
    260, 269, 408, 646, 572, 831, 732, 225, 300, 300, 551, 572, 268, 322, 268, 372, 572, 572, 572, 572, 572, 572, 572,
    572, 572, 572, 268, 268, 572, 572, 572, 434, 899, 639, 650, 632, 730, 556, 519, 728, 741, 339, 273, 619, 524, 907,
    760, 781, 605, 781, 622, 549, 556, 731, 600, 930, 586, 566, 572, 329, 372, 329, 572, 444, 281, 561, 615, 480, 615,
    564, 344, 615, 618, 258, 258, 534, 258, 935, 618, 605, 615, 615, 413, 479, 361, 618, 508, 786, 529, 510, 470, 380,
    551, 380, 572,
];

/// Fonts of browsers may be wider than the one of PNG files, and bold letters are wider than others.
const SLACK: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        let style = FigureStyle::default();
        assert_eq!(style.fitted("short", 12.0, 100.0), "short");
        let cut = style.fitted("a very long name of a run", 12.0, 60.0);
        assert!(cut.ends_with('…') && style.width_of(&cut, 12.0) <= 60.0, "{cut}");
    }

    #[test]
    fn a_width_leaves_letters_as_large_as_they_are() {
        let column = FigureStyle { width: Some(240.0), size: 8.0, ..FigureStyle::default() };
        assert_eq!(column.asked(), Some(360.0));
        assert!((12.0 * column.unit() - 8.0).abs() < 1e-12, "a label");
        assert_eq!(FigureStyle::default().asked(), None);
    }
}
