//! The lines of charts.

use crate::theme::SERIES;
use crate::thin::{SeriesPoint, smoothed};

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct ChartSeries {
    /// What it is; series of one name share an entry of the legend.
    pub(crate) name: String,
    /// The run that it is of, where the name is that of a row.
    pub(crate) run: String,
    /// The names of the runs that it is drawn from, where there are several in the report.
    pub(crate) of: Vec<String>,
    /// Which colour; after the last one lines are dashed.
    pub(crate) colour: usize,
    /// How it is drawn.
    pub(crate) look: LineStyle,
    /// Its points, rising but in a cloud; one that is not finite is a gap.
    pub(crate) points: Vec<SeriesPoint>,
    /// Half of the width of the band around every point; empty for none.
    pub(crate) spread: Vec<f64>,
    /// How many points on each side the moving mean has that is drawn, 0 for the points themselves; none of what is never smoothed.
    pub(crate) reach: Option<usize>,
    /// What to say of a point besides its numbers; empty, or one text per point.
    pub(crate) notes: Vec<String>,
}

impl ChartSeries {
    /// A line through points.
    pub(crate) fn new(name: &str, colour: usize, look: LineStyle, points: Vec<SeriesPoint>) -> Self {
        let (run, of, spread, reach, notes) = (String::new(), vec![], vec![], None, vec![]);
        Self { name: name.to_owned(), run, of, colour, look, points, spread, reach, notes }
    }

    /// The line that is drawn.
    pub(crate) fn smoothed(&self) -> Self {
        let reach = self.reach.unwrap_or(0);
        let spread: Vec<SeriesPoint> = self.spread.iter().map(|spread| (0.0, *spread)).collect();
        let spread = smoothed(&spread, reach).into_iter().map(|(_, spread)| spread).collect();
        Self { points: smoothed(&self.points, reach), spread, ..self.clone() }
    }
}

/// The style of a drawn line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// In the background, without an entry of the legend.
    Faint,
    /// As a line.
    Line,
    /// As a line with a dot at every point.
    Dots,
    /// As dots alone, in any order.
    Cloud,
    /// As single discs, which mark places of a line.
    Discs,
    /// As single rings around places of a line.
    Rings,
}

impl LineStyle {
    /// What `page.js` calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Faint => "faint",
            Self::Line => "line",
            Self::Dots => "dots",
            Self::Cloud => "cloud",
            Self::Discs => "discs",
            Self::Rings => "rings",
        }
    }
}

/// The radius of a mark: a disc, and a ring that fits around it.
pub(crate) const DISC: f64 = 4.0;
pub(crate) const RING: f64 = 6.5;

/// The class of dashed lines, which the second round of colours has.
pub(crate) fn dashes(colour: usize) -> &'static str {
    if (colour / SERIES).is_multiple_of(2) { "" } else { " dashed" }
}
