//! Plots of sweeps: the score against every swept value, and all swept values of a row at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::chart::{Chart, ChartSeries, LineStyle};
use crate::data::{ReportRow, ReportRun, RunReport, Score, score};
use crate::parallel::{CoordinateLine, ParallelPlot};
use crate::picture::Picture;
use crate::scale::{number, scale_of};
use crate::style::FigureStyle;
use crate::thin::SeriesPoint;

/// The fewest rows of a sweep, of which two are no more than a difference.
const FEWEST: usize = 3;

/// The plots of all sweeps of a report, a set for every split of every task.
pub(crate) fn swept(report: &RunReport, style: &FigureStyle) -> Vec<Picture> {
    let rows: Vec<&ReportRow> = report.rows.iter().filter(|row| !row.swept.is_empty()).collect();
    let mut pictures = vec![];
    for task in distinct(rows.iter().map(|row| row.task.as_str())) {
        let rows: Vec<&ReportRow> = rows.iter().copied().filter(|row| row.task == task).collect();
        for split in distinct(rows.iter().flat_map(|row| runs(report, row)).flat_map(splits)) {
            let sweep = SweptRows { report, task, split, rows: &rows };
            pictures.extend(sweep.paths().into_iter().filter_map(|path| sweep.scatter(path)?.draw(style)));
            let families = distinct(rows.iter().map(|row| row.family.as_str()));
            pictures
                .extend(families.iter().filter_map(|family| sweep.parallel(family, families.len() > 1)?.draw(style)));
        }
    }
    pictures
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(vec![], |mut known, name| {
        if !known.contains(&name) {
            known.push(name);
        }
        known
    })
}

fn runs<'a>(report: &'a RunReport, row: &'a ReportRow) -> impl Iterator<Item = &'a ReportRun> {
    row.runs.iter().filter_map(|index| report.runs.get(*index))
}

fn splits(run: &ReportRun) -> impl Iterator<Item = &str> {
    run.results.iter().map(|row| row.split.as_str())
}

/// The rows of a task on a split.
struct SweptRows<'a> {
    report: &'a RunReport,
    task: &'a str,
    split: &'a str,
    rows: &'a [&'a ReportRow],
}

impl<'a> SweptRows<'a> {
    /// The settings that are swept, in the order of their paths.
    fn paths(&self) -> BTreeSet<&'a str> {
        self.rows.iter().flat_map(|row| row.swept.iter().map(|(path, _)| path.as_str())).collect()
    }

    /// The scores of the runs of a row, shares in percent.
    fn scores(&self, row: &'a ReportRow) -> Vec<(&'a ReportRun, f64)> {
        let score = |run: &'a ReportRun| {
            let row = run.results.iter().find(|row| row.split == self.split)?;
            Some((run, in_percent(score(row)?))).filter(|(_, score)| score.is_finite())
        };
        runs(self.report, row).filter_map(score).collect()
    }

    fn is_share(&self) -> bool {
        let rows = self.report.runs.iter().flat_map(|run| &run.results).filter(|row| row.split == self.split);
        rows.filter_map(score).any(|score| matches!(score, Score::Share(_)))
    }

    /// The name of the score and its unit.
    fn named(&self) -> (&'static str, &'static str) {
        if self.is_share() { ("Accuracy", "accuracy (%)") } else { ("Error", "root mean squared error") }
    }

    fn title(&self, what: &str) -> String {
        let of = if self.task.is_empty() { String::new() } else { format!("{}: ", self.task) };
        format!("{of}{} on {} by {what}", self.named().0, self.split)
    }

    fn file(&self, what: &str) -> String {
        let parts = ["swept", self.task, self.split, what];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-")
            .replace(['.', '[', ']', ' '], "_")
    }

    /// A disc per run, and a line through the means of all runs with the same value.
    fn scatter(&self, path: &str) -> Option<Chart> {
        let families = distinct(self.rows.iter().map(|row| row.family.as_str()));
        let mut series = vec![];
        for (colour, family) in families.iter().enumerate() {
            let (mut points, mut notes) = (vec![], vec![]);
            for row in self.rows.iter().filter(|row| row.family == *family) {
                let Some(value) = value_of(row, path) else { continue };
                for (run, score) in self.scores(row) {
                    points.push((value, score));
                    notes.push(format!("{}, seed {}", row.name, run.seed));
                }
            }
            let name = if families.len() > 1 { family } else { "" };
            let means = ChartSeries::new(name, colour, LineStyle::Line, means(&points));
            let means = ChartSeries { run: "mean of all runs with this value".to_owned(), ..means };
            series.push(means);
            series.push(ChartSeries { notes, ..ChartSeries::new(name, colour, LineStyle::Discs, points) });
        }
        let values: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
        let is_share = self.is_share();
        (!values.is_empty()).then(|| Chart {
            name: self.file(path),
            title: self.title(path),
            axes: [path.to_owned(), self.named().1.to_owned()],
            across: scale_of(&values),
            from_zero: true,
            most: is_share.then_some(100.0),
            series,
            levels: vec![],
            ends: vec![],
        })
    }

    /// A line per row through all of its swept values to its mean score.
    fn parallel(&self, family: &str, several: bool) -> Option<ParallelPlot> {
        let rows = self.rows.iter().filter(|row| row.family == family);
        let scored = rows.filter_map(|row| {
            let scores: Vec<f64> = self.scores(row).into_iter().map(|(_, score)| score).collect();
            (!scores.is_empty()).then(|| (*row, scores.iter().sum::<f64>() / scores.len() as f64))
        });
        let scored: Vec<(&ReportRow, f64)> = scored.collect();
        let paths: Vec<&str> = self
            .paths()
            .into_iter()
            .filter(|path| scored.iter().all(|(row, _)| value_of(row, path).is_some()))
            .collect();
        if scored.len() < FEWEST || paths.len() < 2 {
            return None;
        }
        let line = |(row, score): &(&ReportRow, f64)| CoordinateLine {
            values: paths.iter().filter_map(|path| value_of(row, path)).collect(),
            score: *score,
            note: format!("{}\n{}: {}", row.name, self.named().1, number(*score)),
        };
        let what = if several { format!("all settings, {family}") } else { "all settings".to_owned() };
        Some(ParallelPlot {
            name: self.file(&if several { format!("all-{family}") } else { "all".to_owned() }),
            title: self.title(&what),
            axes: paths.iter().map(|path| (*path).to_owned()).collect(),
            score: self.named().1.to_owned(),
            less_is_better: !self.is_share(),
            lines: scored.iter().map(line).collect(),
        })
    }
}

fn in_percent(score: Score) -> f64 {
    match score {
        Score::Share(share) => 100.0 * share,
        Score::Error(error) => error,
    }
}

fn value_of(row: &ReportRow, path: &str) -> Option<f64> {
    row.swept.iter().find(|(of, _)| of == path).map(|(_, value)| *value)
}

/// The mean of all points with the same place, in rising order.
fn means(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    // Numbers of settings are finite: their bits are in their order once negative ones are turned around.
    let order = |x: f64| {
        let bits = x.to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    };
    let mut by_value: BTreeMap<i64, (f64, Vec<f64>)> = BTreeMap::new();
    for (x, y) in points {
        by_value.entry(order(*x)).or_insert((*x, vec![])).1.push(*y);
    }
    by_value.into_values().map(|(x, ys)| (x, ys.iter().sum::<f64>() / ys.len() as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_rise() {
        let points = [(2.0, 1.0), (-1.0, 4.0), (2.0, 3.0), (0.0, 5.0)];
        assert_eq!(means(&points), [(-1.0, 4.0), (0.0, 5.0), (2.0, 2.0)]);
    }
}
