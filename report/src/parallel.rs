//! Parallel coordinates: an axis per setting and one for the score, a line per row through its values, coloured by its score.

use std::fmt::Write;

use crate::picture::Picture;
use crate::scale::{AxisScale, ScaleKind, number, scale_of};
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};
use crate::theme::LEVELS;

/// A plot before it is drawn.
pub(crate) struct ParallelPlot {
    pub(crate) name: String,
    pub(crate) title: String,
    /// The paths of the settings, from left to right.
    pub(crate) axes: Vec<String>,
    /// The name of the score, which has the last axis.
    pub(crate) score: String,
    pub(crate) less_is_better: bool,
    pub(crate) lines: Vec<CoordinateLine>,
}

/// A row.
pub(crate) struct CoordinateLine {
    /// Its values, one per axis.
    pub(crate) values: Vec<f64>,
    pub(crate) score: f64,
    /// What it says under the pointer.
    pub(crate) note: String,
}

/// The width on a page, and room beside the outer axes.
const WIDTH: f64 = 560.0;
const SIDE: f64 = 46.0;
const HEIGHT: f64 = 220.0;
/// The room of a row of names.
const NAMES: f64 = 17.0;
/// The most values of an axis that are all named.
const NAMED: usize = 8;
/// Levels of heat below this one are too pale for a line.
const PALEST: usize = 3;

impl ParallelPlot {
    /// The picture; the last axis is the score.
    pub(crate) fn draw(&self, style: &FigureStyle) -> Option<Picture> {
        let scores: Vec<f64> = self.lines.iter().map(|line| line.score).collect();
        let score = AxisScale::new(ScaleKind::Linear, range(&scores)?, 5, true);
        let scales = (0..self.axes.len()).map(|n| {
            let values: Vec<f64> = self.lines.iter().filter_map(|line| line.values.get(n).copied()).collect();
            Some(axis(&values, range(&values)?))
        });
        let scales: Vec<AxisScale> = scales.chain([Some(score)]).collect::<Option<_>>()?;

        let width = style.width_or(WIDTH);
        let step = (width - 2.0 * SIDE) / (scales.len() - 1) as f64;
        let names: Vec<&str> = self.axes.iter().map(String::as_str).chain([self.score.as_str()]).collect();
        let levels = rows_of(&names, step, style);
        let height = if style.asked().is_some() { HEIGHT.min(0.45 * width).max(140.0).round() } else { HEIGHT };
        let mut svg = Svg::default();
        let head = 34.0 + style.title(&mut svg, (8.0, width - 8.0), &self.title);
        let top = head + NAMES * levels as f64 + 8.0;
        let plot = ParallelFrame { top, height, step };
        self.draw_lines(&mut svg, &scales, &plot);
        for (n, (scale, name)) in scales.iter().zip(&names).enumerate() {
            plot.draw_axis(&mut svg, n, scale);
            let y = head + NAMES * (levels - n % levels) as f64 - 4.0;
            let (x, anchor, room) = plot.name_of(n, scales.len(), levels, width);
            svg.text("note", (x, y), anchor, &style.fitted(name, 11.0, room));
        }
        Some(Picture::new(&self.name, &self.title, (width, top + height + 24.0), svg, style))
    }

    /// The lines, the best ones last.
    fn draw_lines(&self, svg: &mut Svg, scales: &[AxisScale], plot: &ParallelFrame) {
        let worth = |line: &CoordinateLine| if self.less_is_better { -line.score } else { line.score };
        let mut lines: Vec<&CoordinateLine> = self.lines.iter().collect();
        lines.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
        let (least, most) = match (lines.first(), lines.last()) {
            (Some(first), Some(last)) => (worth(first), worth(last)),
            _ => return,
        };
        for line in &lines {
            let share = if most > least { (worth(line) - least) / (most - least) } else { 1.0 };
            let level = PALEST + ((LEVELS - PALEST) as f64 * share).round() as usize;
            let numbers = line.values.iter().chain([&line.score]);
            let mut data = String::new();
            for (n, (value, scale)) in numbers.zip(scales).enumerate() {
                let letter = if n == 0 { 'M' } else { 'L' };
                let (x, y) = plot.at(n, scale, *value);
                write!(data, "{letter}{} {}", at(x), at(y)).expect("writing to a string does not fail");
            }
            svg.path(&format!("track p{level}"), &data);
        }
        let (last, scale) = (scales.len() - 1, &scales[scales.len() - 1]);
        for line in lines {
            svg.circle("hit", plot.at(last, scale, line.score), 5.0, &line.note);
        }
    }
}

/// Where the axes stand.
struct ParallelFrame {
    top: f64,
    height: f64,
    step: f64,
}

impl ParallelFrame {
    fn across(&self, axis: usize) -> f64 {
        SIDE + self.step * axis as f64
    }

    fn at(&self, axis: usize, scale: &AxisScale, value: f64) -> (f64, f64) {
        (self.across(axis), self.top + (1.0 - scale.place(value)) * self.height)
    }

    fn draw_axis(&self, svg: &mut Svg, n: usize, scale: &AxisScale) {
        let x = self.across(n);
        svg.line("axis", (x, self.top), (x, self.top + self.height));
        let mut free = f64::INFINITY;
        for (tick, text) in &scale.ticks {
            let (_, y) = self.at(n, scale, *tick);
            svg.line("axis", (x - 4.0, y), (x, y));
            if y <= free {
                svg.text("tick over", (x - 6.0, y + 4.0), Anchor::End, text);
                free = y - 11.0;
            }
        }
    }

    /// ParallelFrame and room of the name of an axis, of which `levels` stand above each other.
    fn name_of(&self, n: usize, count: usize, levels: usize, width: f64) -> (f64, Anchor, f64) {
        let room = self.step * levels as f64 - 8.0;
        match n {
            0 => (8.0, Anchor::Start, room + SIDE - self.step / 2.0),
            n if n + 1 == count => (width - 8.0, Anchor::End, room + SIDE - self.step / 2.0),
            n => (self.across(n), Anchor::Middle, room),
        }
    }
}

/// In how many rows names of axes so far apart stand.
fn rows_of(names: &[&str], step: f64, style: &FigureStyle) -> usize {
    let widest = names.iter().map(|name| style.width_of(name, 11.0)).fold(0.0, f64::max);
    ((widest + 8.0) / step).ceil().clamp(1.0, 3.0) as usize
}

/// An axis with a tick at every value, where they are few.
fn axis(values: &[f64], range: (f64, f64)) -> AxisScale {
    let mut scale = AxisScale::new(scale_of(values), range, 5, false);
    let mut known = values.to_vec();
    known.sort_by(f64::total_cmp);
    known.dedup();
    if known.len() <= NAMED {
        scale.ticks = known.into_iter().map(|value| (value, number(value))).collect();
    }
    scale
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(None, |range, v| Some(range.map_or((v, v), |(low, high): (f64, f64)| (low.min(v), high.max(v)))))
}
