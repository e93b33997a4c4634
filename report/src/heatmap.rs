//! Heat-maps of halting: across the positions of an input, upwards the states of a recurrence, in colour what each state
//! weighs in the output. A line marks the last state that every unit reached.

use std::fmt::Write;

use crate::data::{HaltingUnit, InputTrace, Model, Panel};
use crate::picture::Picture;
use crate::scale::number;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};
use crate::theme::LEVELS;

const LEFT: f64 = 54.0;
const RIGHT: f64 = 16.0;
/// Room for the positions, if they need no more.
const ROOM: f64 = 482.0;
/// The most positions that are drawn, and the least room of one in a picture with a width that was asked for; the title says how many
/// there are.
const MOST: usize = 400;
const LEAST: f64 = 1.0;
/// Positions are named up to so many on a page, and where each has so much room.
const NAMED: usize = 90;
const NAME_WIDTH: f64 = 9.0;
const NAME_SIZE: f64 = 10.0;
const NAME_ROOM: f64 = 44.0;

/// A picture per chosen input of a model, with all its recurrences one below the other.
pub(crate) fn heatmaps(model: &Model, style: &FigureStyle) -> Vec<Picture> {
    let drawn = model.traces.iter().enumerate().filter(|(_, trace)| !trace.panels.is_empty());
    drawn.map(|(n, trace)| heatmap(&format!("halting-{}-{}", model.name, n + 1), trace, style)).collect()
}

fn heatmap(name: &str, trace: &InputTrace, style: &FigureStyle) -> Picture {
    let layouts: Vec<HeatmapLayout<'_>> = trace.panels.iter().map(|panel| HeatmapLayout::new(panel, style)).collect();
    let title = style.width_of(&trace.title, 16.5).clamp(330.0, ROOM);
    let widest = layouts.iter().map(HeatmapLayout::width).fold(title, f64::max);
    let width = style.width_or(LEFT + widest + RIGHT);
    let mut svg = Svg::default();
    let lower = style.title(&mut svg, (LEFT, width - RIGHT), &trace.title);
    let mut top = 32.0 + lower + colour_bar(&mut svg, (LEFT, 30.0 + lower), width - RIGHT, style);
    for layout in &layouts {
        layout.draw(&mut svg, top);
        top += layout.height();
    }
    Picture::new(name, &trace.title, (width, top), svg, style)
}

/// The legend of the colours, in two rows where it does not end before `right`; gives its height.
fn colour_bar(svg: &mut Svg, (x, y): (f64, f64), right: f64, style: &FigureStyle) -> f64 {
    svg.text("note", (x, y + 10.0), Anchor::Start, "weight in the output: 0");
    let from = x + style.width_of("weight in the output: 0", 11.0) + 6.0;
    for level in 1..=LEVELS {
        svg.rect(&format!("h{level}"), (from + 11.0 * (level - 1) as f64, y + 1.0), (11.0, 11.0), 0.0, "");
    }
    let end = from + 11.0 * LEVELS as f64 + 6.0;
    svg.text("note", (end, y + 10.0), Anchor::Start, "1");
    let reached = "last state reached";
    let fits = style.asked().is_none() || end + 48.0 + style.width_of(reached, 11.0) <= right;
    let (x, y) = if fits { (end + 24.0, y) } else { (x, y + 18.0) };
    svg.line("stair", (x, y + 6.5), (x + 18.0, y + 6.5));
    svg.text("note", (x + 24.0, y + 10.0), Anchor::Start, reached);
    if fits { 30.0 } else { 48.0 }
}

/// Positions of the cells of a panel.
struct HeatmapLayout<'a> {
    panel: &'a Panel,
    /// Positions that are drawn.
    positions: usize,
    /// States that are drawn: `H_0` and one per step that some unit took.
    states: usize,
    cell: (f64, f64),
    named: bool,
    /// Room for the positions, if they need no more.
    room: f64,
    style: &'a FigureStyle,
}

impl<'a> HeatmapLayout<'a> {
    fn new(panel: &'a Panel, style: &'a FigureStyle) -> Self {
        let most = panel.units.iter().map(|unit| unit.weights.len()).max().unwrap_or(1).max(1);
        let height = (150.0 / most as f64).clamp(5.0, 18.0);
        let all = panel.positions.len();
        let (positions, room, width, named) = match style.asked() {
            None => {
                let positions = all.clamp(1, MOST);
                let named = positions <= NAMED;
                let least = if named { NAME_WIDTH } else { 2.0 };
                (positions, ROOM, (ROOM / positions as f64).clamp(least, 22.0), named)
            }
            Some(asked) => {
                let room = asked - LEFT - RIGHT;
                let positions = all.clamp(1, MOST.min((room / LEAST) as usize));
                let width = (room / positions as f64).min(22.0);
                (positions, room, width, width >= NAME_WIDTH)
            }
        };
        Self { panel, positions, states: most, cell: (width, height), named, room, style }
    }

    fn width(&self) -> f64 {
        self.cell.0 * self.positions as f64
    }

    fn height(&self) -> f64 {
        22.0 + self.cell.1 * self.states as f64 + if self.named { NAME_ROOM } else { 18.0 } + 24.0
    }

    fn draw(&self, svg: &mut Svg, top: f64) {
        let bottom = top + 22.0 + self.cell.1 * self.states as f64;
        let (count, all) = (self.positions, self.panel.positions.len());
        let mut place = self.panel.place.clone();
        if let Some(bound) = self.panel.bound {
            place += &format!(", at most {bound} steps");
        }
        if all > count {
            place += &format!("; the first {count} of {all} positions");
        }
        svg.text(
            "name",
            (LEFT, top + 14.0),
            Anchor::Start,
            &self.style.fitted(&place, 12.5, self.width().max(self.room)),
        );
        self.cells(svg, bottom);
        self.stairs(svg, bottom);
        self.axes(svg, bottom);
        for unit in self.units() {
            let (x, width) = self.extent(unit);
            let height = self.cell.1 * self.states as f64;
            svg.rect("hit", (x, bottom - height), (width, height), 0.0, &self.title(unit));
        }
    }

    /// The units of which something is drawn.
    fn units(&self) -> impl Iterator<Item = &'a HaltingUnit> + '_ {
        self.panel.units.iter().filter(|unit| unit.start < self.positions)
    }

    /// Where a unit begins, and how wide it is.
    fn extent(&self, unit: &HaltingUnit) -> (f64, f64) {
        let end = (unit.start + unit.length).min(self.positions);
        (LEFT + self.cell.0 * unit.start as f64, self.cell.0 * end.saturating_sub(unit.start) as f64)
    }

    /// The cells, one path per level of heat.
    fn cells(&self, svg: &mut Svg, bottom: f64) {
        let mut levels = vec![String::new(); LEVELS];
        for unit in self.units() {
            let (x, width) = self.extent(unit);
            for (state, weight) in unit.weights.iter().enumerate() {
                let Some(level) = level(*weight) else { continue };
                let y = bottom - self.cell.1 * (state + 1) as f64;
                let (w, h) = (at(width), at(self.cell.1));
                write!(levels[level - 1], "M{} {}h{w}v{h}h-{w}z", at(x), at(y)).expect("a string takes any text");
            }
        }
        for (n, data) in levels.iter().enumerate() {
            svg.path(&format!("h{}", n + 1), data);
        }
    }

    /// The line above the last state of every unit, and the borders between units that are wider than a position.
    fn stairs(&self, svg: &mut Svg, bottom: f64) {
        let (mut data, mut borders, mut before) = (String::new(), String::new(), None);
        for unit in self.units() {
            let (x, width) = self.extent(unit);
            let y = bottom - self.cell.1 * unit.weights.len() as f64;
            let letter = if before == Some(at(x)) { 'L' } else { 'M' };
            write!(data, "{letter}{} {}h{}", at(x), at(y), at(width)).expect("a string takes any text");
            before = Some(at(x + width));
            if unit.length > 1 && unit.start > 0 {
                let height = at(self.cell.1 * self.states as f64);
                write!(borders, "M{} {}v-{height}", at(x), at(bottom)).expect("a string takes any text");
            }
        }
        svg.path("grid", &borders);
        svg.path("stair", &data);
    }

    fn axes(&self, svg: &mut Svg, bottom: f64) {
        svg.line("axis", (LEFT, bottom), (LEFT + self.width(), bottom));
        let stride = (11.0 / self.cell.1).ceil() as usize;
        for state in (0..self.states).step_by(stride) {
            let y = bottom - self.cell.1 * (state as f64 + 0.5);
            svg.text("tick", (LEFT - 7.0, y + 4.0), Anchor::End, &state.to_string());
        }
        svg.upwards("label", (13.0, bottom - self.cell.1 * self.states as f64 / 2.0), "step");
        let below = if self.named { NAME_ROOM } else { 18.0 };
        if self.named {
            for (n, name) in self.panel.positions.iter().take(self.positions).enumerate() {
                let x = LEFT + self.cell.0 * (n as f64 + 0.5) + 3.5;
                svg.hanging("token", (x, bottom + 5.0), &self.style.fitted(name, NAME_SIZE, NAME_ROOM - 8.0));
            }
        } else {
            // Numbers stand at least as far apart as they are wide.
            let stride = if self.cell.0 * 50.0 < 34.0 { 100 } else { 50 };
            for n in (0..self.positions).step_by(stride) {
                let x = LEFT + self.cell.0 * (n as f64 + 0.5);
                svg.text("tick", (x, bottom + 14.0), Anchor::Middle, &n.to_string());
            }
        }
        let middle = LEFT + self.width().min(self.room) / 2.0;
        svg.text("label", (middle, bottom + below + 10.0), Anchor::Middle, "position (token)");
    }

    /// The text under the pointer.
    fn title(&self, unit: &HaltingUnit) -> String {
        let name = |n: usize| self.panel.positions.get(n).map_or("", String::as_str);
        let which = match unit.length {
            0 | 1 => format!("position {}: {}", unit.start, name(unit.start)),
            length => format!("positions {} to {}", unit.start, unit.start + length - 1),
        };
        let weights = unit.weights.iter().enumerate().filter(|(_, weight)| **weight >= 0.0005);
        let weights = weights.map(|(state, weight)| format!("H{state} {}", number((1000.0 * weight).round() / 1000.0)));
        let steps = unit.weights.len().saturating_sub(1);
        let plural = if steps == 1 { "" } else { "s" };
        format!("{which}\n{steps} step{plural}\n{}", weights.collect::<Vec<_>>().join(", "))
    }
}

/// The level of heat of a weight; none for what is next to nothing.
fn level(weight: f64) -> Option<usize> {
    (weight.is_finite() && weight >= 0.005).then(|| ((weight * LEVELS as f64).ceil() as usize).clamp(1, LEVELS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_cover_all_weights() {
        let weights = [0.0, 0.004, 0.005, 0.1, 0.11, 1.0, 1.5, f64::NAN, f64::INFINITY];
        assert_eq!(weights.map(level), [None, None, Some(1), Some(1), Some(2), Some(10), Some(10), None, None]);
    }
}
