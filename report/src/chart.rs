//! Line charts: the picture, and the data from which the page draws it again where scripts run.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::frame::{ChartFrame, Geometry};
use crate::legend::LegendEntry;
use crate::picture::Picture;
use crate::scale::{AxisScale, ScaleKind, number};
pub(crate) use crate::series::{ChartSeries, LineStyle};
use crate::series::{DISC, RING, dashes};
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};
use crate::theme::SERIES;
use crate::thin::{SeriesPoint, averaged, thinned};

/// A chart before it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The name of its file.
    pub(crate) name: String,
    /// What it shows.
    pub(crate) title: String,
    /// What the axes count, with units.
    pub(crate) axes: [String; 2],
    /// How the horizontal axis counts.
    pub(crate) across: ScaleKind,
    /// The vertical axis begins at 0.
    pub(crate) from_zero: bool,
    /// The largest value there can be, such as 100 % of the answers.
    pub(crate) most: Option<f64>,
    /// The lines.
    pub(crate) series: Vec<ChartSeries>,
    /// Numbers of the vertical axis that no run made, as the accuracy of chance.
    pub(crate) levels: Vec<Mark>,
    /// Numbers of the horizontal axis at which something ends, as the lengths of training.
    pub(crate) ends: Vec<Mark>,
}

/// A number of an axis, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// Room for ticks and their label below the plot.
const BELOW: f64 = 46.0;
/// The most points of all lines of a chart together, and the fewest that a line is cut down to.
const POINTS: usize = 3000;
const FEWEST: usize = 60;
/// The most points of all lines of a chart together that answer to the pointer.
const HITS: usize = 600;
/// The size of notes.
const NOTE: f64 = 11.0;

impl Chart {
    /// The picture; `None` if no point can be drawn.
    pub(crate) fn draw(&self, style: &FigureStyle) -> Option<Picture> {
        let drawn = Self { series: self.series.iter().map(ChartSeries::smoothed).collect(), ..self.clone() };
        Some(drawn.picture(style)?.with_data(&self.data()))
    }

    fn picture(&self, style: &FigureStyle) -> Option<Picture> {
        let mut frame = self.frame(style)?;
        let legend = LegendEntry::all(&self.series, frame.sides(), style);
        let mut svg = Svg::default();
        let lower = style.title(&mut svg, frame.sides(), &self.title);
        frame.top = 34.0 + lower + LegendEntry::height(&legend);
        for entry in &legend {
            entry.draw(&mut svg, lower);
        }
        frame.draw_axes(&mut svg, &self.axes, style);
        for series in self.series.iter().filter(|series| !series.spread.is_empty()) {
            self.draw_band(&mut svg, &frame, series);
        }
        for series in self.series.iter().filter(|series| series.look == LineStyle::Faint) {
            self.draw_line(&mut svg, &frame, series);
        }
        for series in self.series.iter().filter(|series| [LineStyle::Line, LineStyle::Dots].contains(&series.look)) {
            self.draw_line(&mut svg, &frame, series);
        }
        for series in self.series.iter().filter(|series| series.look != LineStyle::Faint) {
            self.draw_points(&mut svg, &frame, series);
        }
        self.draw_marks(&mut svg, &frame, style);
        Some(Picture::new(&self.name, &self.title, (frame.width, frame.bottom() + BELOW), svg, style))
    }

    /// Whether all of it is points of a plane, with equal units across and up.
    fn is_cloud(&self) -> bool {
        self.series.iter().all(|series| series.look == LineStyle::Cloud)
    }

    /// The chart as data, smoothed nowhere; `page.js` reads it.
    fn data(&self) -> Value {
        let marks =
            |marks: &[Mark]| marks.iter().map(|mark| json!({ "at": mark.at, "text": mark.text })).collect::<Value>();
        json!({
            "title": self.title,
            "axes": self.axes,
            "across": if self.across == ScaleKind::Linear { "linear" } else { "logarithmic" },
            "zero": self.from_zero,
            "most": self.most,
            "equal": self.is_cloud(),
            "levels": marks(&self.levels),
            "ends": marks(&self.ends),
            "series": self.series.iter().map(|series| self.series_data(series)).collect::<Value>(),
        })
    }

    fn series_data(&self, series: &ChartSeries) -> Value {
        let most = self.share(POINTS);
        // What may be smoothed is cut down to means, whose mean is that of all points.
        let stretch = if series.reach.is_some() { series.points.len().div_ceil(most).max(1) } else { 1 };
        let points = match series.reach {
            Some(_) => averaged(&series.points, stretch),
            None => thinned(&series.points, most),
        };
        let short = |value: f64| {
            format!("{value:.4e}").parse::<f64>().ok().filter(|value| value.is_finite() && value.abs() < 1e300)
        };
        let mut data = Map::from_iter([
            ("name".to_owned(), json!(series.name)),
            ("colour".to_owned(), json!(series.colour)),
            ("look".to_owned(), json!(series.look.word())),
            (
                "x".to_owned(),
                points.iter().map(|(x, _)| whole(*x).map_or_else(|| json!(short(*x)), Value::from)).collect(),
            ),
            ("y".to_owned(), points.iter().map(|(_, y)| json!(short(*y))).collect()),
        ]);
        if !series.run.is_empty() {
            data.insert("run".to_owned(), json!(series.run));
        }
        if !series.of.is_empty() {
            data.insert("of".to_owned(), json!(series.of));
        }
        if let Some(reach) = series.reach {
            data.insert("reach".to_owned(), json!(reach.div_ceil(stretch)));
        }
        if !series.spread.is_empty() {
            let spread: Vec<SeriesPoint> = series.spread.iter().map(|spread| (0.0, *spread)).collect();
            let spread = averaged(&spread, stretch);
            data.insert("spread".to_owned(), spread.iter().map(|(_, spread)| json!(short(*spread))).collect());
        }
        // Notes belong to points by their place: of a line that is cut down nothing more is said.
        if points.len() == series.points.len() && series.notes.iter().any(|note| !note.is_empty()) {
            data.insert("notes".to_owned(), json!(series.notes));
        }
        data.into()
    }

    fn frame(&self, style: &FigureStyle) -> Option<ChartFrame> {
        let Some(width) = style.asked() else { return self.framed(Geometry::default()) };
        // Ticks that take little room leave it to the plot.
        let first = self.framed(Geometry::wide(width))?;
        self.framed(Geometry::around(width, &first, style))
    }

    /// The axes over all points that can be drawn.
    fn framed(&self, geometry: Geometry) -> Option<ChartFrame> {
        let bands = self.series.iter().flat_map(|series| self.band_ends(series)).flatten();
        let bands = bands.filter(|point| self.can_draw(point));
        let levels: Vec<f64> = self.levels.iter().map(|level| level.at).collect();
        let drawn = || self.series.iter().flat_map(|s| &s.points).filter(|point| self.can_draw(point));
        let range = |of: fn(&SeriesPoint) -> f64| {
            let values = drawn().map(of);
            values.fold(None, |range: Option<(f64, f64)>, v| Some(range.map_or((v, v), |(l, h)| (l.min(v), h.max(v)))))
        };
        let (across, up) = (range(|p| p.0)?, range(|p| p.1)?);
        let up = bands.map(|(_, y)| y).chain(levels).fold(up, |(low, high), y| (low.min(y), high.max(y)));
        let [columns, rows] = geometry.ticks;
        if self.is_cloud() {
            let [across, up] = geometry.with_equal_units(across, up);
            let up = AxisScale::new(ScaleKind::Linear, up, rows, false);
            return Some(geometry.with(AxisScale::new(self.across, across, columns, false), up));
        }
        let (low, high) = up;
        let low = if self.from_zero { low.min(0.0) } else { low };
        let across = if self.across == ScaleKind::Linear { (across.0.min(0.0), across.1) } else { across };
        let across = AxisScale::new(self.across, across, columns, false);
        Some(geometry.with(across, AxisScale::new(ScaleKind::Linear, (low, high), rows, true)))
    }

    fn can_draw(&self, (x, y): &SeriesPoint) -> bool {
        x.is_finite()
            && y.is_finite()
            && y.abs() < 1e300
            && x.abs() < 1e300
            && (self.across == ScaleKind::Linear || *x > 0.0)
    }

    /// Chance, and where training ended.
    fn draw_marks(&self, svg: &mut Svg, frame: &ChartFrame, style: &FigureStyle) {
        let (left, right, bottom) = (frame.left, frame.right, frame.bottom());
        let note = |text: &str, room: f64| style.fitted(text, NOTE, room);
        for Mark { at, text } in &self.levels {
            let y = frame.up_at(*at);
            svg.line("mark", (left, y), (right, y));
            let text = note(text, right - left);
            let (place, anchor) = self.free_spot(frame, y, style.width_of(&text, NOTE));
            svg.text("note over", place, anchor, &text);
        }
        for Mark { at, text } in &self.ends {
            let share = frame.across.place(*at);
            if !(0.0..=1.0).contains(&share) {
                continue;
            }
            let x = left + share * (right - left);
            svg.line("mark", (x, frame.top), (x, bottom));
            let before = share > 0.5;
            let text = note(text, if before { x - left } else { right - x });
            let (x, anchor) = if before { (x - 5.0, Anchor::End) } else { (x + 5.0, Anchor::Start) };
            svg.text("note over", (x, bottom - 8.0), anchor, &text);
        }
    }

    /// Returns a place for a text of this width at a horizontal line: above or below it, at the right or the left, where it covers the
    /// least of the lines.
    fn free_spot(&self, frame: &ChartFrame, y: f64, width: f64) -> (SeriesPoint, Anchor) {
        let (right, left) = (frame.right - 4.0, frame.left + 6.0);
        let spots = [(right, -5.0), (right, 13.0), (left, -5.0), (left, 13.0)];
        let spots = spots.map(|(x, lower)| ((x, y + lower), if x == right { Anchor::End } else { Anchor::Start }));
        let inside = |spot: &&(SeriesPoint, Anchor)| (frame.top + NOTE..frame.bottom() - 2.0).contains(&spot.0.1);
        let covered = |((x, y), anchor): &&(SeriesPoint, Anchor)| {
            let from = if *anchor == Anchor::End { x - width } else { *x };
            let under = |at: SeriesPoint| (from..from + width).contains(&at.0) && (y - NOTE..y + 3.0).contains(&at.1);
            let drawn = self.series.iter().filter(|series| series.look != LineStyle::Faint);
            drawn.flat_map(|series| self.along(frame, series)).filter(|at| under(*at)).count()
        };
        *spots.iter().filter(inside).min_by_key(covered).unwrap_or(&spots[0])
    }

    /// Places along a line, close to each other.
    fn along(&self, frame: &ChartFrame, series: &ChartSeries) -> Vec<SeriesPoint> {
        /// Places between two points.
        const BETWEEN: u8 = 16;
        let points: Vec<SeriesPoint> =
            series.points.iter().filter(|point| self.can_draw(point)).map(|point| frame.place(*point)).collect();
        let between = |pair: &[SeriesPoint]| {
            let (from, to) = (pair[0], pair[1]);
            (0..BETWEEN)
                .map(f64::from)
                .map(|n| n / f64::from(BETWEEN))
                .map(move |share| (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)))
        };
        let is_line = [LineStyle::Line, LineStyle::Dots].contains(&series.look);
        let joined = points.windows(2).filter(|_| is_line).flat_map(between).collect::<Vec<_>>();
        joined.into_iter().chain(points).collect()
    }

    /// Returns the lower and the upper end of the band at every point, within the values that there can be.
    fn band_ends<'a>(&self, series: &'a ChartSeries) -> impl Iterator<Item = [SeriesPoint; 2]> + use<'a> {
        let least = if self.from_zero { 0.0 } else { f64::NEG_INFINITY };
        let most = self.most.unwrap_or(f64::INFINITY);
        let ends =
            move |((x, y), spread): (&SeriesPoint, &f64)| [(*x, (y - spread).max(least)), (*x, (y + spread).min(most))];
        series.points.iter().zip(&series.spread).map(ends)
    }

    /// The band around a line, a piece between gaps at a time.
    fn draw_band(&self, svg: &mut Svg, frame: &ChartFrame, series: &ChartSeries) {
        let stride = series.points.len().div_ceil(self.share(POINTS)).max(1);
        let ends: Vec<[SeriesPoint; 2]> = self.band_ends(series).collect();
        let last = ends.len().saturating_sub(1);
        let kept =
            ends.iter().enumerate().filter(|(n, _)| n.is_multiple_of(stride) || *n == last).map(|(_, ends)| ends);
        let kept: Vec<&[SeriesPoint; 2]> = kept.collect();
        let mut data = String::new();
        for piece in kept.split(|ends| !ends.iter().all(|end| self.can_draw(end))).filter(|piece| !piece.is_empty()) {
            let edge = piece.iter().map(|ends| ends[1]).chain(piece.iter().rev().map(|ends| ends[0]));
            for (n, (x, y)) in edge.map(|point| frame.place(point)).enumerate() {
                write!(data, "{}{} {}", if n == 0 { 'M' } else { 'L' }, at(x), at(y))
                    .expect("writing to a string does not fail");
            }
            data.push('Z');
        }
        svg.path(&format!("band b{}", series.colour % SERIES), &data);
    }

    /// How many points a line may have: the chart's share, with a least.
    fn share(&self, of: usize) -> usize {
        (of / self.series.len().max(1)).max(FEWEST)
    }

    fn draw_line(&self, svg: &mut Svg, frame: &ChartFrame, series: &ChartSeries) {
        let points = thinned(&series.points, self.share(POINTS));
        let mut data = String::new();
        let mut begins = true;
        for point in &points {
            if !self.can_draw(point) {
                begins = true;
                continue;
            }
            let (x, y) = frame.place(*point);
            let letter = if begins { 'M' } else { 'L' };
            write!(data, "{letter}{} {}", at(x), at(y)).expect("writing to a string does not fail");
            begins = false;
        }
        let look = if series.look == LineStyle::Faint { "faint" } else { "line" };
        svg.path(&format!("{look} l{}{}", series.colour % SERIES, dashes(series.colour)), &data);
    }

    /// Dots, and what the pointer finds.
    fn draw_points(&self, svg: &mut Svg, frame: &ChartFrame, series: &ChartSeries) {
        let class = format!("d{}", series.colour % SERIES);
        if series.look == LineStyle::Cloud {
            for point in series.points.iter().filter(|point| self.can_draw(point)) {
                svg.circle(&class, frame.place(*point), 2.6, "");
            }
            return;
        }
        let stride = series.points.len().div_ceil(self.share(HITS)).max(1);
        let last = series.points.len().saturating_sub(1);
        let told = |n: usize| n.is_multiple_of(stride) || n == last;
        let drawn = series.points.iter().enumerate().filter(|(n, point)| told(*n) && self.can_draw(point));
        for (n, point) in drawn {
            let note = series.notes.get(n).filter(|note| !note.is_empty()).map(|note| format!("\n{note}"));
            let ([across, up], note) = (&self.axes, note.unwrap_or_default());
            let name = if series.run.is_empty() { &series.name } else { &series.run };
            let title = format!("{name}\n{across}: {}\n{up}: {}{note}", number(point.0), number(point.1));
            let alone = series.points.len() == 1;
            match series.look {
                LineStyle::Rings => {
                    svg.circle(&format!("r{}", series.colour % SERIES), frame.place(*point), RING, &title)
                }
                LineStyle::Discs => svg.circle(&class, frame.place(*point), DISC, &title),
                LineStyle::Line if !alone => svg.circle("hit", frame.place(*point), 5.0, &title),
                _ => svg.circle(&class, frame.place(*point), 3.2, &title),
            }
        }
    }
}

/// A number that has no digits behind the point, as updates are.
fn whole(value: f64) -> Option<i64> {
    Some(value).filter(|value| value.fract() == 0.0 && value.abs() < 1e15).map(|value| value as i64)
}
