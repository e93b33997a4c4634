//! The table of a grid: mean and deviation over seeds per split, what they are worth, the share of the majority, and notes on what
//! is not as it should be.

use serde_json::{Value, json};

use super::measured::{BASELINES, MAJORITY, Measure, of_baseline};
use super::notes::{failures, falls, odd_ones, other_data};
use super::worth::{By, SplitMetric, Worth, remarks, worth};
use super::{GridRow, MeasuredRun, less_is_better};
use crate::statistics::{Interval, deviation, mean};

const ACCURACY: &str = "accuracy";
const LOSS: &str = "loss";
const DEPTH: &str = "mean_depth";

/// What is measured on every split, whatever the task; the fields of [`crate::record::table::ResultsRow`] that are no counts.
pub const METRICS: [&str; 4] = [ACCURACY, LOSS, DEPTH, MAJORITY];

/// What a table shows.
#[derive(Clone, Debug, Default)]
pub struct Show {
    /// The measures; if there are none, every accuracy that the task has, or how far its numbers are from those asked for.
    pub metrics: Vec<String>,
    /// A column with the number of parameters.
    pub parameters: bool,
    /// A column with the best number over the seeds besides every mean, as papers that give both do: the largest, or of a loss
    /// or an error the smallest.
    pub best: bool,
    /// A column with the mean depth per split.
    pub depth: bool,
    /// Show runs together whose data or program differ, with a note.
    pub mixed: bool,
    /// The row that others are compared with, by its index; nothing for the means alone, without what they are worth.
    pub baseline: Option<usize>,
}

/// Runs that must not be compared without saying so, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixture(pub Vec<String>);

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// What the columns hold, the name of the model before them not counted.
    pub columns: Vec<SheetColumn>,
    /// The rows, those of the baselines first.
    pub rows: Vec<SheetRow>,
    /// One sentence on the numbers.
    pub caption: String,
    /// Numbered notes, which rows refer to.
    pub notes: Vec<String>,
    /// The row that others are compared with, if they are.
    pub baseline: Option<String>,
    /// Sentences on intervals, differences and tests.
    pub remarks: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetColumn {
    /// Its title.
    pub title: String,
    /// The measure, where its numbers are those of one.
    pub metric: Option<String>,
    /// How its numbers look.
    pub look: NumberStyle,
    /// Whether it is told what its means are worth.
    pub tested: bool,
}

/// The style of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberStyle {
    /// A share, shown as a percentage with one digit behind the point.
    Share,
    /// A number with so many digits behind the point.
    Digits(usize),
    /// A whole number.
    Whole,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetRow {
    /// The name of the model.
    pub name: String,
    /// Numbers of the notes that belong to it, counted from 1.
    pub notes: Vec<usize>,
    /// One per column.
    pub values: Vec<Mean>,
}

/// A number of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// The mean over the runs that have the number; nothing without any.
    pub mean: Option<f64>,
    /// The sample deviation; nothing for fewer than two runs.
    pub deviation: Option<f64>,
    /// Of how many runs it is the mean; none of a number that no run has by itself.
    pub runs: usize,
    /// Whether it is the best of its column.
    pub best: bool,
    /// What it is worth.
    pub worth: Worth,
}

impl Mean {
    /// Mean and deviation of some numbers, in their order.
    fn of(numbers: &[f64]) -> Self {
        Self { mean: mean(numbers), deviation: deviation(numbers), runs: numbers.len(), ..Self::default() }
    }

    fn only(number: f64) -> Self {
        Self { mean: Some(number), ..Self::default() }
    }
}

/// The source of a column's numbers.
enum ColumnSource {
    Parameters,
    Seeds,
    Measure {
        split: String,
        metric: String,
    },
    /// The best over the seeds.
    Best {
        split: String,
        metric: String,
    },
}

impl Sheet {
    /// The table of a grid as far as it is.
    ///
    /// # Errors
    /// Finished runs differ in data or program, and `show.mixed` does not ask for them together.
    pub fn new(rows: &[GridRow], show: &Show) -> Result<Self, Mixture> {
        let odd = odd_ones(rows);
        if !odd.is_empty() && !show.mixed {
            return Err(Mixture(odd.into_iter().map(|(_, text)| text).collect()));
        }
        let mut notes: Vec<(usize, String)> = odd;
        notes.extend(failures(rows));
        notes.extend(falls(rows));
        notes.extend(other_data(rows));
        notes.sort_by_key(|(row, _)| *row);
        let columns = columns(rows, show);
        let line = |(index, row): (usize, &GridRow)| SheetRow {
            name: row.name.clone(),
            notes: (1..).zip(&notes).filter(|(_, (of, _))| *of == index).map(|(n, _)| n).collect(),
            values: columns.iter().map(|(_, from)| value(row, from)).collect(),
        };
        let mut lines: Vec<SheetRow> = rows.iter().enumerate().map(line).collect();
        let remarks = match show.baseline {
            Some(baseline) => weigh(rows, baseline, &columns, &mut lines),
            None => vec![],
        };
        for (at, (_, from)) in columns.iter().enumerate().filter(|(_, (column, _))| column.tested) {
            mark_best(&mut lines, at, matches!(from, ColumnSource::Measure { metric, .. } if less_is_better(metric)));
        }
        lines.splice(..0, baselines(rows, &columns));
        Ok(Self {
            caption: caption(rows, &columns),
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            rows: lines,
            notes: notes.into_iter().map(|(_, text)| text).collect(),
            baseline: show.baseline.and_then(|index| rows.get(index)).map(|row| row.name.clone()),
            remarks,
        })
    }

    /// For programs: shares stay shares.
    pub fn to_json(&self) -> Value {
        let row = |line: &SheetRow| {
            let values = self
                .columns
                .iter()
                .zip(&line.values)
                .map(|(column, mean)| (column.title.clone(), mean_json(column, mean)));
            json!({
                "name": line.name, "notes": line.notes, "values": Value::from(values.collect::<serde_json::Map<_, _>>()),
            })
        };
        json!({
            "columns": self.columns.iter().map(|column| &column.title).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "caption": self.caption, "notes": self.notes,
            "baseline": self.baseline, "remarks": self.remarks,
        })
    }
}

fn mean_json(column: &SheetColumn, mean: &Mean) -> Value {
    let mut out = json!({ "mean": mean.mean, "deviation": mean.deviation });
    if column.tested {
        let interval = |found: Option<(Interval, By)>| {
            found.map(|(interval, by)| json!({ "low": interval.low, "high": interval.high, "by": by.name() }))
        };
        let Worth { difference, seeds, examples, .. } = mean.worth;
        out["best"] = mean.best.into();
        out["interval"] = interval(mean.worth.interval).into();
        out["difference"] = difference.into();
        out["difference_interval"] = interval(mean.worth.difference_interval).into();
        out["p_seeds"] = seeds.into();
        out["p_examples"] = examples.into();
    }
    out
}

/// Says what the means of the tested columns are worth; gives sentences on how that was found.
fn weigh(
    rows: &[GridRow],
    baseline: usize,
    columns: &[(SheetColumn, ColumnSource)],
    lines: &mut [SheetRow],
) -> Vec<String> {
    let (mut all, mut ways) = (vec![], vec![]);
    for (at, (column, from)) in columns.iter().enumerate().filter(|(_, (column, _))| column.tested) {
        let ColumnSource::Measure { split, metric } = from else { continue };
        let share = column.look == NumberStyle::Share;
        let (found, own) = worth(rows, baseline, SplitMetric { split, metric, share });
        lines.iter_mut().zip(&found).for_each(|(line, worth)| line.values[at].worth = *worth);
        all.extend(found);
        ways.extend(own);
    }
    rows.get(baseline).map_or_else(Vec::new, |row| remarks(rows, &row.name, &all, &ways))
}

/// Marks the best numbers of a column with more than one number.
fn mark_best(lines: &mut [SheetRow], at: usize, less_is_better: bool) {
    let numbers: Vec<f64> = lines.iter().filter_map(|line| line.values[at].mean).collect();
    let best = numbers.iter().copied().reduce(if less_is_better { f64::min } else { f64::max });
    for line in lines.iter_mut().filter(|_| numbers.len() > 1) {
        line.values[at].best = best.is_some() && line.values[at].mean == best;
    }
}

pub(super) fn finished(rows: &[GridRow]) -> impl Iterator<Item = &MeasuredRun> {
    rows.iter().flat_map(|row| row.finished().map(|(_, measured)| measured))
}

/// Names in the order in which they are first met.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(vec![], |mut found, name| {
        if !found.contains(&name) {
            found.push(name);
        }
        found
    })
}

fn columns(rows: &[GridRow], show: &Show) -> Vec<(SheetColumn, ColumnSource)> {
    let splits = distinct(finished(rows).flat_map(|m| m.splits.iter().map(|(split, _)| split.as_str())));
    let measures: Vec<&Measure> = finished(rows).flat_map(|m| &m.splits).flat_map(|(_, found)| found).collect();
    let is_share = |metric: &str| measures.iter().any(|measure| measure.name == metric && measure.share);
    let own = measures.iter().filter(|measure| measure.own && !BASELINES.contains(&measure.name.as_str()));
    let metrics: Vec<&str> = match show.metrics.as_slice() {
        [] => distinct(own.map(|measure| measure.name.as_str())),
        asked => asked.iter().map(String::as_str).collect(),
    };
    let measure = |title: String, split: &str, metric: &str| {
        let look = match metric {
            _ if is_share(metric) => NumberStyle::Share,
            DEPTH => NumberStyle::Digits(2),
            _ => NumberStyle::Digits(3),
        };
        let tested = metric != DEPTH && !BASELINES.contains(&metric);
        (
            SheetColumn { title, metric: Some(metric.to_owned()), look, tested },
            ColumnSource::Measure { split: split.to_owned(), metric: metric.to_owned() },
        )
    };
    let whole =
        |title: &str| SheetColumn { title: title.to_owned(), metric: None, look: NumberStyle::Whole, tested: false };
    let mut columns = vec![];
    if seeds(rows).is_none() {
        columns.push((whole("seeds"), ColumnSource::Seeds));
    }
    if show.parameters {
        columns.push((whole("parameters"), ColumnSource::Parameters));
    }
    for split in &splits {
        for metric in &metrics {
            let title = if metrics.len() == 1 { (*split).to_owned() } else { format!("{split} {metric}") };
            if show.best {
                let end = if less_is_better(metric) { "min" } else { "max" };
                let (mut column, _) = measure(format!("{title} {end}"), split, metric);
                column.tested = false;
                columns.push((column, ColumnSource::Best { split: (*split).to_owned(), metric: (*metric).to_owned() }));
            }
            columns.push(measure(title, split, metric));
        }
    }
    if show.depth {
        columns.extend(splits.iter().map(|split| measure(format!("depth {split}"), split, DEPTH)));
    }
    columns
}

fn value(row: &GridRow, from: &ColumnSource) -> Mean {
    match from {
        ColumnSource::Parameters => Mean::only(row.parameters as f64),
        ColumnSource::Seeds => Mean::only(row.finished().count() as f64),
        ColumnSource::Measure { split, metric } => {
            Mean::of(&row.finished().filter_map(|(_, measured)| measured.get(split, metric)).collect::<Vec<_>>())
        }
        ColumnSource::Best { split, metric } => {
            let numbers = row.finished().filter_map(|(_, measured)| measured.get(split, metric));
            let better = if less_is_better(metric) { f64::min } else { f64::max };
            Mean { mean: numbers.reduce(better), ..Mean::default() }
        }
    }
}

/// The rows of the baselines: the most frequent class of each split, a bag of words, and a trigram, as the first finished run says.
fn baselines(rows: &[GridRow], columns: &[(SheetColumn, ColumnSource)]) -> Vec<SheetRow> {
    let row = |baseline: &'static str| {
        let share = |from: &ColumnSource| match from {
            ColumnSource::Measure { split, metric } => {
                let field = of_baseline(baseline, metric);
                let found = field.and_then(|field| finished(rows).find_map(|measured| measured.get(split, field)));
                found.map_or(Mean::default(), Mean::only)
            }
            _ => Mean::default(),
        };
        let values: Vec<Mean> = columns.iter().map(|(_, from)| share(from)).collect();
        let any = values.iter().any(|value| value.mean.is_some());
        any.then(|| SheetRow { name: baseline.replace('_', " "), notes: vec![], values })
    };
    BASELINES.into_iter().filter_map(row).collect()
}

/// How many seeds every row has finished; nothing if rows differ in that, or have seeds that are not finished.
fn seeds(rows: &[GridRow]) -> Option<usize> {
    let count = rows.first()?.cells.len();
    let all = rows.iter().all(|row| row.cells.len() == count && row.finished().count() == count);
    all.then_some(count)
}

fn caption(rows: &[GridRow], columns: &[(SheetColumn, ColumnSource)]) -> String {
    let metrics = distinct(columns.iter().filter_map(|(_, from)| match from {
        ColumnSource::Measure { metric, .. } if metric != DEPTH => Some(metric.as_str()),
        _ => None,
    }));
    if metrics.is_empty() {
        return "no run is finished yet".to_owned();
    }
    let percent = if columns.iter().any(|(column, _)| column.look == NumberStyle::Share) { " in %" } else { "" };
    let what = format!("{}{percent}", metrics.join(", "));
    match seeds(rows) {
        Some(1) => format!("{what}, one seed"),
        Some(count) => format!("{what}: mean and sample deviation over {count} seeds"),
        None => format!("{what}: mean and sample deviation over as many seeds as the row has"),
    }
}
