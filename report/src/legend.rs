//! Legends of charts: what the colours are, in as many rows as that needs.

use crate::series::{ChartSeries, DISC, LineStyle, RING, dashes};
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg};
use crate::theme::SERIES;

/// The height of a row.
const ROW: f64 = 18.0;

/// Room for a sign before its text, and behind the text.
const SIGN: f64 = 26.0;
const BEHIND: f64 = 16.0;

/// An entry of a legend.
pub(crate) struct LegendEntry {
    name: String,
    text: String,
    colour: usize,
    look: LineStyle,
    x: f64,
    row: usize,
}

impl LegendEntry {
    /// The entries between two sides; none for what the title names.
    pub(crate) fn all(series: &[ChartSeries], (left, right): (f64, f64), style: &FigureStyle) -> Vec<Self> {
        let mut entries: Vec<Self> = vec![];
        let (mut x, mut row) = (left, 0);
        for series in series.iter().filter(|series| series.look != LineStyle::Faint && !series.name.is_empty()) {
            if entries.iter().any(|entry| entry.name == series.name) {
                continue;
            }
            let text = style.fitted(&series.name, 12.0, (right - left - SIGN).min(200.0));
            let width = SIGN + style.width_of(&text, 12.0) + BEHIND;
            if x > left && x + width > right + BEHIND {
                (x, row) = (left, row + 1);
            }
            let (name, colour, look) = (series.name.clone(), series.colour, series.look);
            entries.push(Self { name, text, colour, look, x, row });
            x += width;
        }
        entries
    }

    /// The height of all rows.
    pub(crate) fn height(entries: &[Self]) -> f64 {
        ROW * entries.last().map_or(0, |entry| entry.row + 1) as f64
    }

    /// Draws an entry, so much lower than below a title of one row.
    pub(crate) fn draw(&self, svg: &mut Svg, lower: f64) {
        let y = 38.0 + lower + ROW * self.row as f64;
        match self.look {
            LineStyle::Cloud | LineStyle::Discs => {
                svg.circle(&format!("d{}", self.colour % SERIES), (self.x + 10.0, y), DISC, "")
            }
            LineStyle::Rings => svg.circle(&format!("r{}", self.colour % SERIES), (self.x + 10.0, y), RING, ""),
            LineStyle::Faint | LineStyle::Line | LineStyle::Dots => {
                let class = format!("line l{}{}", self.colour % SERIES, dashes(self.colour));
                svg.line(&class, (self.x, y), (self.x + 20.0, y));
            }
        }
        svg.text("label", (self.x + SIGN, y + 4.0), Anchor::Start, &self.text);
    }
}
