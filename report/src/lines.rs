//! A picture of lines that come from no run.

use crate::chart::{Chart, ChartSeries, LineStyle};
use crate::picture::Picture;
use crate::scale::ScaleKind;
use crate::style::FigureStyle;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnLine {
    /// What it is.
    pub name: String,
    /// Its points, rising along the horizontal axis.
    pub points: Vec<(f64, f64)>,
}

/// Lines above axes with these names; `most` is the largest value that there can be. Nothing where there is no point.
pub fn lines(title: &str, axes: [&str; 2], most: Option<f64>, lines: &[DrawnLine]) -> Option<Picture> {
    let series = lines.iter().enumerate();
    let series =
        series.map(|(n, line)| ChartSeries::new(&line.name, n, LineStyle::Dots, line.points.clone())).collect();
    let chart = Chart {
        name: "lines".to_owned(),
        title: title.to_owned(),
        axes: axes.map(str::to_owned),
        across: ScaleKind::Linear,
        from_zero: most.is_some(),
        most,
        series,
        levels: vec![],
        ends: vec![],
    };
    chart.draw(&FigureStyle::default())
}
