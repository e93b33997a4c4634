//! The charts of a report.

use std::collections::{BTreeMap, BTreeSet};

use rtc_runs::record::OfLength;
use rtc_runs::record::history::{EvaluationLine, StepLine};

use crate::analyses;
use crate::attention;
use crate::chart::{Chart, ChartSeries, LineStyle, Mark};
use crate::data::{ReportRun, RunReport, Score, score};
use crate::diagram;
use crate::heatmap;
use crate::intervals;
use crate::picture::Picture;
use crate::scale::ScaleKind;
use crate::steps;
use crate::style::FigureStyle;
use crate::swept;
use crate::thin::SeriesPoint;
use crate::tree;

/// Series of so many points are smoothed; shorter ones are drawn as they are.
const NOISY: usize = 60;

/// Every picture of a report: curves first, then for every model its structure and how it halts.
pub fn pictures(report: &RunReport, style: &FigureStyle) -> Vec<Picture> {
    let mut all = curves(report, style);
    all.extend(by_length(report, style));
    all.extend(by_edit(report, style));
    all.extend(report.tasks.iter().flat_map(|task| intervals::intervals(&task.compared, style)));
    all.extend(swept::swept(report, style));
    for model in &report.models {
        all.extend(diagram::structure(model, style));
        all.extend(heatmap::heatmaps(model, style));
        all.extend(tree::trees(model, style));
        all.extend(attention::maps(model, style));
        all.extend(steps::by_step(model, style));
        all.extend(analyses::analyses(model, style));
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for picture in &mut all {
        // Different names can have the same file name.
        let count = seen.entry(picture.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            picture.name = format!("{}.{count}", picture.name);
        }
    }
    all
}

/// A quantity that updates and measurements have.
struct TrainingQuantity {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    from_zero: bool,
    most: Option<f64>,
    step: fn(&StepLine) -> Option<f64>,
    evaluation: fn(&EvaluationLine) -> Option<f64>,
}

const QUANTITIES: &[TrainingQuantity] = &[
    TrainingQuantity {
        name: "loss",
        title: "Loss",
        unit: "task loss",
        from_zero: false,
        most: None,
        step: |step| step.task_loss,
        evaluation: |evaluation| evaluation.loss,
    },
    TrainingQuantity {
        name: "accuracy",
        title: "Accuracy",
        unit: "accuracy (%)",
        from_zero: true,
        most: Some(100.0),
        step: |step| step.accuracy.map(percent),
        evaluation: |evaluation| evaluation.accuracy.map(percent),
    },
    TrainingQuantity {
        name: "depth",
        title: "Halting depth",
        unit: "mean accepted steps",
        from_zero: true,
        most: None,
        step: |step| step.mean_depth,
        evaluation: |evaluation| evaluation.mean_depth,
    },
    TrainingQuantity {
        name: "learning_rate",
        title: "Learning rate",
        unit: "learning rate",
        from_zero: true,
        most: None,
        step: |step| step.learning_rate,
        evaluation: |_| None,
    },
    TrainingQuantity {
        name: "gradient_norm",
        title: "Gradient norm before clipping",
        unit: "L2 norm",
        from_zero: true,
        most: None,
        step: |step| step.gradient_norm,
        evaluation: |_| None,
    },
];

fn percent(share: f64) -> f64 {
    100.0 * share
}

/// The curves over the training. One run has training and dev in one chart; several have a chart each.
pub(crate) fn curves(report: &RunReport, style: &FigureStyle) -> Vec<Picture> {
    let mut charts = vec![];
    for quantity in QUANTITIES {
        let levels = if quantity.name == "accuracy" { chance(report) } else { vec![] };
        if let [run] = report.runs.as_slice() {
            charts.extend(Chart { levels, ..alone(quantity, run) }.draw(style));
        } else {
            for on_dev in [true, false] {
                let chart = together(quantity, report, on_dev);
                charts.extend(chart.and_then(|chart| Chart { levels: levels.clone(), ..chart }.draw(style)));
            }
        }
    }
    charts
}

/// The accuracy of a guess among the classes, where all runs have as many.
fn chance(report: &RunReport) -> Vec<Mark> {
    let classes = same(report, |run| run.classes);
    classes.iter().map(|n| Mark { at: percent(1.0 / *n as f64), text: format!("a guess among {n} classes") }).collect()
}

/// What is so in every run.
fn same<T: PartialEq>(report: &RunReport, of: fn(&ReportRun) -> Option<T>) -> Option<T> {
    let first = of(report.runs.first()?)?;
    report.runs.iter().all(|run| of(run).as_ref() == Some(&first)).then_some(first)
}

fn chart(quantity: &TrainingQuantity, name: String, title: String, series: Vec<ChartSeries>) -> Chart {
    let TrainingQuantity { unit, from_zero, most, .. } = *quantity;
    let axes = ["update", unit];
    Chart {
        name,
        title,
        axes: axes.map(str::to_owned),
        across: ScaleKind::Linear,
        from_zero,
        most,
        series,
        levels: vec![],
        ends: vec![],
    }
}

fn alone(quantity: &TrainingQuantity, run: &ReportRun) -> Chart {
    let line = trained(quantity, run, "training", 0);
    // Single updates stand behind their moving mean.
    let updates = line.reach.filter(|reach| *reach > 0);
    let updates = updates.map(|_| ChartSeries {
        run: "training, single updates".to_owned(),
        ..ChartSeries::new("training", 0, LineStyle::Faint, line.points.clone())
    });
    let series = updates.into_iter().chain([line, measured(quantity, run, &run.dev, 1)]).collect();
    chart(quantity, quantity.name.to_owned(), quantity.title.to_owned(), drawn(series))
}

/// One chart of all runs: measurements on dev, or training. `None` if the quantity is not measured there.
fn together(quantity: &TrainingQuantity, report: &RunReport, on_dev: bool) -> Option<Chart> {
    let series = by_row(report, &|run, name, colour| match on_dev {
        true => measured(quantity, run, name, colour),
        false => trained(quantity, run, name, colour),
    });
    let TrainingQuantity { name, title, .. } = quantity;
    let (name, title) = match (["learning_rate", "gradient_norm"].contains(name), on_dev) {
        (true, true) => return None,
        (true, false) => ((*name).to_owned(), (*title).to_owned()),
        (false, true) => (format!("{name}_dev"), format!("{title} on dev")),
        (false, false) => (format!("{name}_training"), format!("{title} in training")),
    };
    Some(chart(quantity, name, title, series))
}

/// The lines of a row: those of its runs faintly, and their mean with a band, a sample deviation to each side, as far as every run has
/// a point. A single run, and runs that have no point in common, are lines of their own.
fn of_row(runs: Vec<ChartSeries>) -> Vec<ChartSeries> {
    let runs = drawn(runs);
    let [first, _, ..] = runs.as_slice() else { return runs };
    let common = first.points.iter().filter_map(|(x, _)| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| value_at(&run.points, *x)).collect();
        Some((*x, mean_and_deviation(&values?)))
    });
    let (points, spread): (Vec<SeriesPoint>, Vec<f64>) =
        common.map(|(x, (mean, deviation))| ((x, mean), deviation)).unzip();
    if points.is_empty() {
        return runs;
    }
    let mean = ChartSeries {
        run: format!("{}: mean of {} runs", first.name, runs.len()),
        of: runs.iter().flat_map(|run| run.of.clone()).collect(),
        reach: first.reach.map(|_| reach_of(points.len())),
        spread,
        ..ChartSeries::new(&first.name, first.colour, first.look, points)
    };
    let faint = runs.iter().map(|run| ChartSeries { look: LineStyle::Faint, ..run.clone() });
    faint.chain([mean]).collect()
}

/// What a line has at a place, which is one of its points.
fn value_at(points: &[SeriesPoint], x: f64) -> Option<f64> {
    let at = points.binary_search_by(|point| point.0.total_cmp(&x)).ok()?;
    Some(points[at].1).filter(|y| y.is_finite())
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// The series that have a point.
fn drawn(series: Vec<ChartSeries>) -> Vec<ChartSeries> {
    series.into_iter().filter(|series| series.points.iter().any(|(_, y)| y.is_finite())).collect()
}

/// The logged updates, as a moving mean where they are many.
fn trained(quantity: &TrainingQuantity, run: &ReportRun, name: &str, colour: usize) -> ChartSeries {
    let point = |step: &StepLine| (step.update as f64, (quantity.step)(step).unwrap_or(f64::NAN));
    let points: Vec<SeriesPoint> = run.steps.iter().map(point).collect();
    // A learning rate has no noise.
    let reach = (quantity.name != "learning_rate").then(|| reach_of(points.len()));
    ChartSeries { reach, ..ChartSeries::new(name, colour, LineStyle::Line, points) }
}

/// How far a moving mean reaches over a line of so many points.
fn reach_of(points: usize) -> usize {
    if points < NOISY { 0 } else { points / 50 }
}

fn measured(quantity: &TrainingQuantity, run: &ReportRun, name: &str, colour: usize) -> ChartSeries {
    let point = |one: &EvaluationLine| (one.update as f64, (quantity.evaluation)(one).unwrap_or(f64::NAN));
    let points: Vec<SeriesPoint> = run.evaluations.iter().map(point).collect();
    let counts = |one: &EvaluationLine| run.best.is_some_and(|(update, _)| update == one.update);
    let note = |one| if counts(one) { "the checkpoint that counts".to_owned() } else { String::new() };
    let notes = run.evaluations.iter().map(note).collect();
    ChartSeries { notes, ..ChartSeries::new(name, colour, LineStyle::Dots, points) }
}

/// What a point of a run says of it in a chart of several.
fn called(run: &ReportRun, name: &str) -> String {
    format!("{name}: {}, seed {}", run.name, run.seed)
}

/// Accuracy and depth by length. One run has a line per split; of several, every run has one over all its splits.
pub(crate) fn by_length(report: &RunReport, style: &FigureStyle) -> Vec<Picture> {
    let all = || report.runs.iter().flat_map(|run| &run.lengths).flat_map(|split| &split.lengths);
    let (low, high) = (all().map(|l| l.length).min().unwrap_or(1), all().map(|l| l.length).max().unwrap_or(1));
    let across = if high > 8 * low.max(1) { ScaleKind::Logarithmic } else { ScaleKind::Linear };
    let end = |length: usize| Mark { at: length as f64, text: format!("training ended at {length}") };
    let ends: Vec<Mark> = same(report, |run| run.trained_length).map(end).into_iter().collect();
    let chart = |name: &str, title: &str, (unit, most), levels, value: LengthQuantity| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        axes: ["length (tokens)", unit].map(str::to_owned),
        across,
        from_zero: true,
        most,
        series: lines_by_length(report, value),
        levels,
        ends: ends.clone(),
    };
    let accuracy =
        chart("accuracy_by_length", "Accuracy by length", ("accuracy (%)", Some(100.0)), chance(report), |of| {
            (of.scored > 0).then(|| percent(of.correct as f64 / of.scored as f64))
        });
    let depth = chart("depth_by_length", "Halting depth by length", ("mean accepted steps", None), vec![], |of| {
        of.steps.map(|steps| steps / of.examples.max(1) as f64)
    });
    [accuracy, depth].iter().filter_map(|chart| chart.draw(style)).collect()
}

/// A quantity of the examples of a length that a chart shows.
type LengthQuantity = fn(&OfLength) -> Option<f64>;

fn lines_by_length(report: &RunReport, value: LengthQuantity) -> Vec<ChartSeries> {
    if let [run] = report.runs.as_slice() {
        let splits = run.lengths.iter().enumerate();
        return drawn(splits.map(|(n, split)| line(&split.split, n, &split.lengths, value)).collect());
    }
    let of_run = |run: &ReportRun, name: &str, colour| {
        let lengths: Vec<OfLength> = run.lengths.iter().flat_map(|split| &split.lengths).copied().collect();
        line(name, colour, &lengths, value)
    };
    by_row(report, &of_run)
}

/// The lines of all rows from those of their runs.
fn by_row(report: &RunReport, of_run: &dyn Fn(&ReportRun, &str, usize) -> ChartSeries) -> Vec<ChartSeries> {
    let rows = report.rows.iter().enumerate().flat_map(|(colour, row)| {
        let runs = row.runs.iter().filter_map(|index| report.runs.get(*index));
        let line = |run: &ReportRun| ChartSeries {
            run: called(run, &row.name),
            of: vec![run.name.clone()],
            ..of_run(run, &row.name, colour)
        };
        let lines = runs.map(line);
        of_row(lines.collect())
    });
    rows.collect()
}

/// Accuracy, or the root mean squared error, by the number that an edit gives a path: a chart per path and split, of a single run with a
/// line per split.
pub(crate) fn by_edit(report: &RunReport, style: &FigureStyle) -> Vec<Picture> {
    let all = || report.runs.iter().flat_map(|run| &run.by_edit);
    let numbers = all().filter_map(|results| results.parts()).filter(|(_, value)| value.parse::<f64>().is_ok());
    let paths: BTreeSet<&str> = numbers.map(|(path, _)| path).collect();
    let splits = all().flat_map(|results| &results.splits).map(|row| row.split.as_str());
    let splits = splits.fold(vec![], |mut known, split| {
        if !known.contains(&split) {
            known.push(split);
        }
        known
    });
    let mut pictures = vec![];
    for path in paths {
        match report.runs.as_slice() {
            [run] => {
                let lines = splits.iter().enumerate();
                let lines = lines.map(|(colour, split)| line_by_edit(run, (path, split), split, colour));
                pictures.extend(chart_by_edit(report, path, "", drawn(lines.collect())).draw(style));
            }
            _ => pictures.extend(splits.iter().filter_map(|split| {
                let lines = by_row(report, &|run, name, colour| line_by_edit(run, (path, split), name, colour));
                chart_by_edit(report, path, if splits.len() > 1 { split } else { "" }, lines).draw(style)
            })),
        }
    }
    pictures
}

fn line_by_edit(run: &ReportRun, (path, split): (&str, &str), name: &str, colour: usize) -> ChartSeries {
    let mut points: Vec<SeriesPoint> = run
        .by_edit
        .iter()
        .filter_map(|results| {
            let (_, value) = results.parts().filter(|(of, _)| *of == path)?;
            let row = results.splits.iter().find(|row| row.split == split)?;
            let number = match score(row)? {
                Score::Share(share) => percent(share),
                Score::Error(error) => error,
            };
            Some((value.parse().ok()?, number))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    ChartSeries::new(name, colour, LineStyle::Dots, points)
}

fn chart_by_edit(report: &RunReport, path: &str, split: &str, series: Vec<ChartSeries>) -> Chart {
    let rows = report.runs.iter().flat_map(|run| &run.by_edit).flat_map(|results| &results.splits);
    let is_share = rows.clone().any(|row| row.accuracy.is_some());
    let (title, unit) = if is_share { ("Accuracy", "accuracy (%)") } else { ("Error", "root mean squared error") };
    let on = if split.is_empty() { String::new() } else { format!(" on {split}") };
    let most = series.iter().flat_map(|line| &line.points).map(|point| point.0).fold(1.0, f64::max);
    let least = series.iter().flat_map(|line| &line.points).map(|point| point.0).fold(f64::INFINITY, f64::min);
    let name = ["by", path, split].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("_");
    Chart {
        name: name.replace(['.', '[', ']'], "_"),
        title: format!("{title} by {path}{on}"),
        axes: [path.to_owned(), unit.to_owned()],
        across: if least > 0.0 && most > 8.0 * least { ScaleKind::Logarithmic } else { ScaleKind::Linear },
        from_zero: true,
        most: is_share.then_some(100.0),
        series,
        levels: if is_share { chance(report) } else { vec![] },
        ends: vec![],
    }
}

/// The fewest examples of a point: short stretches of lengths are joined until they have as many.
const ENOUGH: u64 = 20;

/// Neighbouring lengths that are one point.
#[derive(Clone, Copy, Debug, Default)]
struct LengthRange {
    /// The shortest length.
    from: usize,
    /// The examples together; the length is the longest one.
    sum: OfLength,
    /// Tokens of all examples.
    tokens: u64,
}

impl LengthRange {
    /// Whether the next stretch begins less than half as far again as this one reaches.
    fn is_near(&self, next: &Self) -> bool {
        2 * next.from <= 3 * self.sum.length + 8
    }

    fn add(&mut self, other: &Self) {
        let (sum, new) = (&mut self.sum, &other.sum);
        sum.length = sum.length.max(new.length);
        sum.examples += new.examples;
        sum.scored += new.scored;
        sum.correct += new.correct;
        sum.steps = new.steps.map_or(sum.steps, |steps| Some(sum.steps.unwrap_or(0.0) + steps));
        self.tokens += other.tokens;
    }
}

/// Lengths as stretches: an eighth to a quarter of the length wide, and with enough examples each where there are so many.
fn stretches(lengths: &[OfLength]) -> Vec<LengthRange> {
    let mut by_start: BTreeMap<usize, LengthRange> = BTreeMap::new();
    for one in lengths {
        let step = (one.length / 8).max(1).next_power_of_two();
        let own = LengthRange { from: one.length, sum: *one, tokens: one.length as u64 * one.examples };
        let start = one.length / step * step;
        by_start.entry(start).and_modify(|stretch| stretch.add(&own)).or_insert(own);
    }
    // A stretch with too few takes the next one in, and what is left over then joins the one before; far ones stay apart.
    let first = joined(by_start.into_values(), |last, _| last.sum.examples < ENOUGH);
    joined(first.into_iter(), |_, next| next.sum.examples < ENOUGH)
}

/// Joins near neighbours of which this is true.
fn joined(all: impl Iterator<Item = LengthRange>, belong: fn(&LengthRange, &LengthRange) -> bool) -> Vec<LengthRange> {
    let mut out: Vec<LengthRange> = vec![];
    for stretch in all {
        match out.last_mut() {
            Some(last) if last.is_near(&stretch) && belong(last, &stretch) => last.add(&stretch),
            _ => out.push(stretch),
        }
    }
    out
}

fn line(name: &str, colour: usize, lengths: &[OfLength], value: LengthQuantity) -> ChartSeries {
    let (mut points, mut notes) = (vec![], vec![]);
    for LengthRange { from, sum, tokens } in stretches(lengths) {
        points.push((tokens as f64 / sum.examples.max(1) as f64, value(&sum).unwrap_or(f64::NAN)));
        notes.push(format!("lengths {from} to {}: {} examples", sum.length, sum.examples));
    }
    ChartSeries { notes, ..ChartSeries::new(name, colour, LineStyle::Dots, points) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(length: usize, examples: u64) -> OfLength {
        OfLength { length, examples, scored: examples, correct: examples / 2, steps: Some(length as f64) }
    }

    #[test]
    fn every_point_has_enough_examples() {
        let lengths: Vec<OfLength> = (1..=1000).map(|n| of(n, 3)).collect();
        let all = stretches(&lengths);
        assert!(all.iter().all(|stretch| stretch.sum.examples >= ENOUGH), "{all:?}");
        assert_eq!(all.iter().map(|stretch| stretch.sum.examples).sum::<u64>(), 3000);
        assert!(all.windows(2).all(|pair| pair[0].sum.length < pair[1].from), "{all:?}");
        assert!((20..60).contains(&all.len()), "{}", all.len());
        assert_eq!(stretches(&[of(5, 2)]).len(), 1, "few examples are better than none");
        assert!(stretches(&[]).is_empty());
    }

    #[test]
    fn a_point_is_the_mean_of_its_examples() {
        let one = OfLength { length: 12, examples: 30, scored: 30, correct: 30, steps: None };
        let other = OfLength { length: 13, examples: 10, correct: 0, scored: 10, steps: None };
        let line = line("x", 0, &[one, other, of(64, 40)], |of| Some(of.correct as f64 / of.scored as f64));
        assert_eq!(line.points, [(12.25, 0.75), (64.0, 0.5)]);
        assert_eq!(line.notes[0], "lengths 12 to 13: 40 examples");
    }
}
