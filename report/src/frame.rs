//! Frames of charts: how large the plot is, and the axes around it.

use crate::scale::AxisScale;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg};
use crate::thin::SeriesPoint;

/// The sides of a chart on a page.
const WIDTH: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const HEIGHT: f64 = 240.0;
/// Least and largest height of a plot in a picture with a width that was asked for.
const HEIGHTS: (f64, f64) = (140.0, 320.0);
/// The size of ticks.
const TICK: f64 = 11.0;

/// The place of a plot in its picture, in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    width: f64,
    left: f64,
    right: f64,
    height: f64,
    /// About how many ticks are across, and up.
    pub(crate) ticks: [usize; 2],
}

impl Default for Geometry {
    fn default() -> Self {
        Self { width: WIDTH, left: LEFT, right: WIDTH - RIGHT, height: HEIGHT, ticks: [6, 5] }
    }
}

impl Geometry {
    /// A plot in a picture of this width.
    pub(crate) fn wide(width: f64) -> Self {
        Self::between(width, LEFT, width - RIGHT)
    }

    /// The same with as much room for ticks as they need.
    pub(crate) fn around(width: f64, frame: &ChartFrame, style: &FigureStyle) -> Self {
        let widest = |scale: &AxisScale| {
            let widths = scale.ticks.iter().map(|(_, text)| style.width_of(text, TICK));
            widths.fold(0.0, f64::max)
        };
        let right = widest(&frame.across) / 2.0 + 3.0;
        Self::between(width, 28.0 + widest(&frame.up), width - right.max(8.0))
    }

    fn between(width: f64, left: f64, right: f64) -> Self {
        // Height and ticks grow with the width as they do up to a chart on a page.
        let height = ((right - left) * HEIGHT / (WIDTH - LEFT - RIGHT)).clamp(HEIGHTS.0, HEIGHTS.1).round();
        let about = |length: f64, each: f64| (length / each).round().clamp(2.0, 10.0) as usize;
        Self { width, left, right, height, ticks: [about(right - left, 75.0), about(height, 45.0)] }
    }

    pub(crate) fn with(self, across: AxisScale, up: AxisScale) -> ChartFrame {
        let Self { width, left, right, height, .. } = self;
        ChartFrame { across, up, width, left, right, height, top: 0.0 }
    }

    /// Both ranges with some room, the shorter one widened until a unit is as long across as up: only then are distances between
    /// points what they seem.
    pub(crate) fn with_equal_units(self, across: (f64, f64), up: (f64, f64)) -> [(f64, f64); 2] {
        let sides = [(across, self.right - self.left), (up, self.height)];
        let unit = sides.map(|((low, high), side)| 1.06 * (high - low) / side).into_iter().fold(0.0, f64::max);
        sides.map(|((low, high), side)| {
            let (middle, half) = (f64::midpoint(low, high), unit * side / 2.0);
            (middle - half, middle + half)
        })
    }
}

/// The scales of a chart, and where they stand in the picture.
pub(crate) struct ChartFrame {
    pub(crate) across: AxisScale,
    pub(crate) up: AxisScale,
    pub(crate) width: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    height: f64,
}

impl ChartFrame {
    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn sides(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// The place of a number of the vertical axis.
    pub(crate) fn up_at(&self, value: f64) -> f64 {
        self.top + (1.0 - self.up.place(value)) * self.height
    }

    pub(crate) fn place(&self, (x, y): SeriesPoint) -> SeriesPoint {
        (self.left + self.across.place(x) * (self.right - self.left), self.up_at(y))
    }

    pub(crate) fn draw_axes(&self, svg: &mut Svg, [across, up]: &[String; 2], style: &FigureStyle) {
        let (left, right, bottom) = (self.left, self.right, self.bottom());
        for (tick, text) in &self.up.ticks {
            let y = self.up_at(*tick);
            svg.line("grid", (left, y), (right, y));
            svg.text("tick", (left - 7.0, y + 4.0), Anchor::End, text);
        }
        let mut free = f64::NEG_INFINITY;
        for (tick, text) in &self.across.ticks {
            let x = left + self.across.place(*tick) * (right - left);
            svg.line("axis", (x, bottom), (x, bottom + 4.0));
            let half = style.width_of(text, TICK) / 2.0;
            if x - half > free {
                svg.text("tick", (x, bottom + 17.0), Anchor::Middle, text);
                free = x + half + 6.0;
            }
        }
        svg.line("axis", (left, bottom), (right, bottom));
        let label = |text: &str, room: f64| style.fitted(text, 12.0, room);
        svg.text("label", ((left + right) / 2.0, bottom + 36.0), Anchor::Middle, &label(across, self.width - 8.0));
        let room = self.height + self.top.min(40.0) + 30.0;
        svg.upwards("label", (13.0, self.top + self.height / 2.0), &label(up, room));
    }
}
