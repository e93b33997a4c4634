//! Means of rows with the intervals that they lie in: a row per line, from top to bottom.

use crate::data::{ComparedMeans, MeanInterval};
use crate::picture::Picture;
use crate::scale::{AxisScale, ScaleKind, number};
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg};
use crate::theme::SERIES;

const WIDTH: f64 = 560.0;
const RIGHT: f64 = 24.0;
/// The height of a row.
const ROW: f64 = 22.0;
/// The share of the width that names may take.
const NAMES: f64 = 0.45;
/// The height of a further line of a name.
const LINE: f64 = 14.0;
/// The colour of what is no row.
const GREY: usize = 6;
/// Half of the height of the ends of an interval.
const END: f64 = 4.0;

/// A picture per table column.
pub(crate) fn intervals(compared: &[ComparedMeans], style: &FigureStyle) -> Vec<Picture> {
    compared.iter().filter_map(|means| picture(means, style)).collect()
}

fn picture(compared: &ComparedMeans, style: &FigureStyle) -> Option<Picture> {
    let ends =
        |row: &MeanInterval| [row.mean, row.interval.map_or(row.mean, |i| i.0), row.interval.map_or(row.mean, |i| i.1)];
    let numbers = || compared.rows.iter().flat_map(ends).filter(|number| number.is_finite());
    let (low, high) =
        numbers().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), number| (l.min(number), h.max(number)));
    if compared.rows.len() < 2 || low > high {
        return None;
    }
    let width = style.width_or(WIDTH);
    let names = compared.rows.iter().map(|row| style.width_of(&row.name, 12.0)).fold(60.0, f64::max).min(NAMES * width);
    let (left, right) = (8.0 + names + 10.0, width - RIGHT);
    let ticks = ((right - left) / 75.0).round().clamp(2.0, 10.0) as usize;
    let scale = AxisScale::new(ScaleKind::Linear, (low, high), ticks, true);
    let place = |value: f64| left + scale.place(value) * (right - left);
    let names: Vec<Vec<String>> = compared.rows.iter().map(|row| style.wrapped(&row.name, 12.0, names)).collect();
    let height = |lines: &Vec<String>| ROW + LINE * (lines.len() - 1) as f64;

    let mut svg = Svg::default();
    let top = 34.0 + style.title(&mut svg, (8.0, width - 8.0), &compared.title);
    let bottom = top + names.iter().map(height).sum::<f64>();
    let mut free = f64::NEG_INFINITY;
    for (tick, text) in &scale.ticks {
        let (x, half) = (place(*tick), style.width_of(text, 11.0) / 2.0);
        svg.line("grid", (x, top), (x, bottom));
        if x - half > free {
            svg.text("tick", (x, bottom + 15.0), Anchor::Middle, text);
            free = x + half + 6.0;
        }
    }
    svg.line("axis", (left, bottom), (right, bottom));
    let mut y = top;
    for (row, lines) in compared.rows.iter().zip(&names) {
        let middle = y + height(lines) / 2.0;
        draw_row(&mut svg, row, middle, &place, compared);
        for (n, line) in lines.iter().enumerate() {
            let lower = LINE * (n as f64 - (lines.len() - 1) as f64 / 2.0);
            svg.text("label", (left - 10.0, middle + lower + 4.0), Anchor::End, line);
        }
        y += height(lines);
    }
    let label = format!("{}, 95 % interval", compared.unit);
    let middle = (left + right) / 2.0;
    svg.text(
        "label",
        (middle, bottom + 34.0),
        Anchor::Middle,
        &style.fitted(&label, 12.0, 2.0 * (width - middle) - 8.0),
    );
    Some(Picture::new(&compared.name, &compared.title, (width, bottom + 44.0), svg, style))
}

/// The interval of a row with its ends, and its mean.
fn draw_row(svg: &mut Svg, row: &MeanInterval, y: f64, place: &dyn Fn(f64) -> f64, compared: &ComparedMeans) {
    if !row.mean.is_finite() {
        return;
    }
    let colour = row.row.map_or(GREY, |row| row % SERIES);
    let mut title = format!("{}\n{}: {}", row.name, compared.unit, number(row.mean));
    if let Some((low, high)) = row.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
        let class = format!("line l{colour}");
        svg.line(&class, (place(low), y), (place(high), y));
        for end in [low, high] {
            svg.line(&class, (place(end), y - END), (place(end), y + END));
        }
        title += &format!("\n95 % interval: {} to {}", number(low), number(high));
    }
    svg.circle(&format!("d{colour}"), (place(row.mean), y), 4.0, &title);
}
