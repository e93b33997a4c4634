//! Attention maps: a heat map for every head of a run of an attention, queries downwards and keys across.

use std::fmt::Write;

use crate::data::{AttentionPanel, Model};
use crate::picture::Picture;
use crate::scale::number;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};
use crate::theme::LEVELS;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
/// Room for the maps of a row of heads, where no width is asked for.
const ROOM: f64 = 560.0;
const GAP: f64 = 14.0;
/// The side of a cell at most and at least.
const CELL: (f64, f64) = (14.0, 2.0);
/// The side from which on queries and keys are named, and the room of a name.
const NAMED: f64 = 8.5;
const NAME_SIZE: f64 = 10.0;
const NAME_ROOM: f64 = 50.0;
/// Keys that the text under the pointer names.
const TOLD: usize = 5;

/// A picture per run of an attention, for every chosen input of a model.
pub(crate) fn maps(model: &Model, style: &FigureStyle) -> Vec<Picture> {
    let inputs = model.traces.iter().enumerate();
    let panels = inputs.flat_map(|(n, trace)| {
        trace.attention.iter().enumerate().map(move |(k, panel)| (n + 1, k + 1, &trace.title, panel))
    });
    let picture = |(n, k, title, panel): (usize, usize, &String, &AttentionPanel)| {
        map(&format!("attention-{}-{n}-{k}", model.name), title, panel, style)
    };
    panels.map(picture).collect()
}

/// The sizes of the maps of a picture.
struct MapLayout<'a> {
    panel: &'a AttentionPanel,
    cell: f64,
    /// Maps in a row.
    columns: usize,
    named: bool,
    top: f64,
}

impl<'a> MapLayout<'a> {
    fn new(panel: &'a AttentionPanel, top: f64, style: &FigureStyle) -> Self {
        let room = style.asked().map_or(ROOM, |asked| asked - LEFT - RIGHT);
        let across = panel.keys.len().max(1) as f64;
        let all = panel.heads.max(1) as f64;
        // As large as lets all heads stand in a row, if names have room then; else a head may have the row alone.
        let beside = (room - GAP * (all - 1.0)) / all / across;
        let cell = if beside >= NAMED { beside } else { (room / across).min(NAMED + 0.5) }.clamp(CELL.1, CELL.0);
        let columns = (((room + GAP) / (cell * across + GAP)) as usize).clamp(1, panel.heads.max(1));
        Self { panel, cell, columns, named: cell >= NAMED, top }
    }

    fn size(&self) -> (f64, f64) {
        (self.cell * self.panel.keys.len() as f64, self.cell * self.panel.queries.len() as f64)
    }

    /// The height of a row of maps with their names.
    fn row(&self) -> f64 {
        18.0 + self.size().1 + if self.named { NAME_ROOM } else { 16.0 } + GAP
    }

    /// The upper left corner of the cells of a head.
    fn corner(&self, head: usize) -> (f64, f64) {
        let (column, row) = (head % self.columns, head / self.columns);
        (LEFT + (self.size().0 + GAP) * column as f64, self.top + 18.0 + self.row() * row as f64)
    }

    fn width(&self) -> f64 {
        (self.size().0 + GAP) * self.columns as f64 - GAP
    }

    fn height(&self) -> f64 {
        self.row() * self.panel.heads.div_ceil(self.columns) as f64
    }
}

fn map(name: &str, input: &str, panel: &AttentionPanel, style: &FigureStyle) -> Picture {
    let title = format!("{}: {input}", panel.place);
    let mut svg = Svg::default();
    let narrow = MapLayout::new(panel, 0.0, style);
    let wide = (LEFT + narrow.width() + RIGHT).max(LEFT + 300.0);
    let width = style.width_or(wide);
    let lower = style.title(&mut svg, (8.0, width - RIGHT), &style.fitted(&title, 14.5, width - RIGHT - 8.0));
    let bar = 34.0 + lower;
    colour_bar(&mut svg, (8.0, bar), style);
    let layout = MapLayout { top: bar + 24.0, ..narrow };
    for head in 0..panel.heads {
        draw(&layout, head, &mut svg, style);
    }
    Picture::new(name, &title, (width, layout.top + layout.height() + 16.0), svg, style)
}

fn colour_bar(svg: &mut Svg, (x, y): (f64, f64), style: &FigureStyle) {
    let label = "weight of a key: 0";
    svg.text("note", (x, y + 10.0), Anchor::Start, label);
    let from = x + style.width_of(label, 11.0) + 6.0;
    for level in 1..=LEVELS {
        svg.rect(&format!("h{level}"), (from + 11.0 * (level - 1) as f64, y + 1.0), (11.0, 11.0), 0.0, "");
    }
    svg.text("note", (from + 11.0 * LEVELS as f64 + 6.0, y + 10.0), Anchor::Start, "1; rows ask, columns are asked");
}

/// The map of a head.
fn draw(layout: &MapLayout<'_>, head: usize, svg: &mut Svg, style: &FigureStyle) {
    let MapLayout { panel, cell, .. } = *layout;
    let ((x, y), (width, height)) = (layout.corner(head), layout.size());
    svg.text("name", (x, y - 5.0), Anchor::Start, &style.fitted(&format!("head {}", head + 1), 12.5, width.max(44.0)));
    svg.rect("side", (x, y), (width, height), 0.0, "");
    let mut levels = vec![String::new(); LEVELS];
    for (query, weights) in panel.rows(head).enumerate() {
        for (key, weight) in weights.iter().enumerate() {
            let Some(level) = level(*weight) else { continue };
            let (left, upper, side) = (at(x + cell * key as f64), at(y + cell * query as f64), at(cell));
            write!(levels[level - 1], "M{left} {upper}h{side}v{side}h-{side}z").expect("a string takes any text");
        }
    }
    for (n, data) in levels.iter().enumerate() {
        svg.path(&format!("h{}", n + 1), data);
    }
    let first = head.is_multiple_of(layout.columns);
    if layout.named {
        for (n, name) in panel.keys.iter().enumerate() {
            let place = (x + cell * (n as f64 + 0.5) + 3.5, y + height + 5.0);
            svg.hanging("token", place, &style.fitted(name, NAME_SIZE, NAME_ROOM - 8.0));
        }
        for (n, name) in panel.queries.iter().enumerate().filter(|_| first) {
            let place = (x - 5.0, y + cell * (n as f64 + 0.5) + 3.5);
            svg.text("token", place, Anchor::End, &style.fitted(name, NAME_SIZE, LEFT - 10.0));
        }
    }
    for (n, weights) in panel.rows(head).enumerate() {
        svg.rect("hit", (x, y + cell * n as f64), (width, cell), 0.0, &told(panel, n, weights));
    }
}

/// The text under the pointer: the keys that weigh most.
fn told(panel: &AttentionPanel, query: usize, weights: &[f64]) -> String {
    let mut order: Vec<usize> = (0..weights.len()).filter(|key| weights[*key] >= 0.0005).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let one =
        |key: &usize| format!("{} ({key}) {}", panel.keys[*key], number((1000.0 * weights[*key]).round() / 1000.0));
    let keys: Vec<String> = order.iter().take(TOLD).map(one).collect();
    let keys = if keys.is_empty() { "sees no key".to_owned() } else { keys.join(", ") };
    format!("{} ({query})\n{keys}", panel.queries[query])
}

/// The level of heat of a weight; none for what is next to nothing.
fn level(weight: f64) -> Option<usize> {
    (weight.is_finite() && weight >= 0.005).then(|| ((weight * LEVELS as f64).ceil() as usize).clamp(1, LEVELS))
}
