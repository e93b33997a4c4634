//! The table of a grid: mean and deviation over seeds per split, a majority baseline, and notes on what is not as it
//! should be.

use serde_json::{Value, json};

use super::measured::Measure;
use super::{Measured, Row, State, Stop, less_is_better};

/// What the majority baseline is called in the table, and in the results of a run.
const MAJORITY: &str = "majority";
const ACCURACY: &str = "accuracy";
const LOSS: &str = "loss";
const DEPTH: &str = "mean_depth";

/// What is measured on every split, whatever the task; the fields of [`crate::train::Row`] that are no counts.
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
}

/// Runs that must not be compared without saying so, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixture(pub Vec<String>);

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// What the columns hold, the name of the model before them not counted.
    pub columns: Vec<Column>,
    /// The rows, the baseline first.
    pub rows: Vec<Line>,
    /// One sentence on the numbers.
    pub caption: String,
    /// Numbered notes, which rows refer to.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub title: String,
    /// How its numbers look.
    pub look: Look,
}

/// How a number looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A share, shown as a percentage with one digit behind the point.
    Share,
    /// A number with so many digits behind the point.
    Digits(usize),
    /// A whole number.
    Whole,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
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
    /// The population deviation; nothing for fewer than two runs.
    pub deviation: Option<f64>,
}

impl Mean {
    /// Mean and population deviation of some numbers, in their order.
    fn of(numbers: &[f64]) -> Self {
        let count = numbers.len() as f64;
        let mean = (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / count);
        let squares = |mean: f64| numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        Self { mean, deviation: mean.filter(|_| numbers.len() > 1).map(|mean| (squares(mean) / count).sqrt()) }
    }

    fn only(number: f64) -> Self {
        Self { mean: Some(number), deviation: None }
    }
}

/// Where the numbers of a column come from.
enum From {
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
    pub fn new(rows: &[Row], show: &Show) -> Result<Self, Mixture> {
        let odd = odd_ones(rows);
        if !odd.is_empty() && !show.mixed {
            return Err(Mixture(odd.into_iter().map(|(_, text)| text).collect()));
        }
        let mut notes: Vec<(usize, String)> = odd;
        notes.extend(failures(rows));
        notes.sort_by_key(|(row, _)| *row);
        let columns = columns(rows, show);
        let line = |(index, row): (usize, &Row)| Line {
            name: row.name.clone(),
            notes: (1..).zip(&notes).filter(|(_, (of, _))| *of == index).map(|(n, _)| n).collect(),
            values: columns.iter().map(|(_, from)| value(row, from)).collect(),
        };
        let mut lines: Vec<Line> = baseline(rows, &columns).into_iter().collect();
        lines.extend(rows.iter().enumerate().map(line));
        Ok(Self {
            caption: caption(rows, &columns),
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            rows: lines,
            notes: notes.into_iter().map(|(_, text)| text).collect(),
        })
    }

    /// For programs: shares stay shares.
    pub fn to_json(&self) -> Value {
        let mean = |mean: &Mean| json!({ "mean": mean.mean, "deviation": mean.deviation });
        let row = |line: &Line| {
            let values =
                self.columns.iter().zip(&line.values).map(|(column, value)| (column.title.clone(), mean(value)));
            json!({
                "name": line.name, "notes": line.notes, "values": Value::from(values.collect::<serde_json::Map<_, _>>()),
            })
        };
        json!({
            "columns": self.columns.iter().map(|column| &column.title).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "caption": self.caption, "notes": self.notes,
        })
    }
}

fn finished(rows: &[Row]) -> impl Iterator<Item = &Measured> {
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

fn columns(rows: &[Row], show: &Show) -> Vec<(Column, From)> {
    let splits = distinct(finished(rows).flat_map(|m| m.splits.iter().map(|(split, _)| split.as_str())));
    let measures: Vec<&Measure> = finished(rows).flat_map(|m| &m.splits).flat_map(|(_, found)| found).collect();
    let is_share = |metric: &str| measures.iter().any(|measure| measure.name == metric && measure.share);
    let own = measures.iter().filter(|measure| measure.own && measure.name != MAJORITY);
    let metrics: Vec<&str> = match show.metrics.as_slice() {
        [] => distinct(own.map(|measure| measure.name.as_str())),
        asked => asked.iter().map(String::as_str).collect(),
    };
    let measure = |title: String, split: &str, metric: &str| {
        let look = match metric {
            _ if is_share(metric) => Look::Share,
            DEPTH => Look::Digits(2),
            _ => Look::Digits(3),
        };
        (Column { title, look }, From::Measure { split: split.to_owned(), metric: metric.to_owned() })
    };
    let mut columns = vec![];
    if rows.iter().any(|row| row.finished().count() < row.cells.len()) {
        columns.push((Column { title: "seeds".to_owned(), look: Look::Whole }, From::Seeds));
    }
    if show.parameters {
        columns.push((Column { title: "parameters".to_owned(), look: Look::Whole }, From::Parameters));
    }
    for split in &splits {
        for metric in &metrics {
            let title = if metrics.len() == 1 { (*split).to_owned() } else { format!("{split} {metric}") };
            if show.best {
                let (column, _) =
                    measure(format!("{title} {}", if less_is_better(metric) { "min" } else { "max" }), split, metric);
                columns.push((column, From::Best { split: (*split).to_owned(), metric: (*metric).to_owned() }));
            }
            columns.push(measure(title, split, metric));
        }
    }
    if show.depth {
        columns.extend(splits.iter().map(|split| measure(format!("depth {split}"), split, DEPTH)));
    }
    columns
}

fn value(row: &Row, from: &From) -> Mean {
    match from {
        From::Parameters => Mean::only(row.parameters as f64),
        From::Seeds => Mean::only(row.finished().count() as f64),
        From::Measure { split, metric } => {
            Mean::of(&row.finished().filter_map(|(_, measured)| measured.get(split, metric)).collect::<Vec<_>>())
        }
        From::Best { split, metric } => {
            let numbers = row.finished().filter_map(|(_, measured)| measured.get(split, metric));
            let better = if less_is_better(metric) { f64::min } else { f64::max };
            Mean { mean: numbers.reduce(better), deviation: None }
        }
    }
}

/// The row of the baseline: what the first finished run says of the majority class of each split.
fn baseline(rows: &[Row], columns: &[(Column, From)]) -> Option<Line> {
    let share = |from: &From| match from {
        From::Measure { split, metric } if metric == ACCURACY => {
            finished(rows).find_map(|measured| measured.get(split, MAJORITY)).map_or(Mean::default(), Mean::only)
        }
        _ => Mean::default(),
    };
    let values: Vec<Mean> = columns.iter().map(|(_, from)| share(from)).collect();
    let any = values.iter().any(|value| value.mean.is_some());
    any.then(|| Line { name: MAJORITY.to_owned(), notes: vec![], values })
}

fn caption(rows: &[Row], columns: &[(Column, From)]) -> String {
    let metrics = distinct(columns.iter().filter_map(|(_, from)| match from {
        From::Measure { metric, .. } if metric != DEPTH => Some(metric.as_str()),
        _ => None,
    }));
    if metrics.is_empty() {
        return "no run is finished yet".to_owned();
    }
    let percent = if columns.iter().any(|(column, _)| column.look == Look::Share) { " in %" } else { "" };
    let seeds = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let what = format!("{}{percent}", metrics.join(", "));
    if seeds > 1 {
        format!("{what}: mean and population deviation over {seeds} seeds")
    } else {
        format!("{what}, one seed")
    }
}

/// Cells that failed and rows that were stopped, with the row of each.
fn failures(rows: &[Row]) -> Vec<(usize, String)> {
    let mut found = vec![];
    for (index, row) in rows.iter().enumerate() {
        if let Some(State::Stopped(Stop { update, rank, of })) = row.cells.first().map(|cell| &cell.state) {
            let place = format!("it was number {rank} of {of} rows on dev there");
            found.push((index, format!("{} was stopped after update {update}: {place}", row.name)));
        }
        for cell in &row.cells {
            if let State::Failed(fault, _) = &cell.state {
                found.push((index, format!("{} seed {} failed: {}", row.name, cell.seed, fault.message)));
            }
        }
    }
    found
}

/// The finished cells whose data, program or graph is not that of the most, with the row of each.
fn odd_ones(rows: &[Row]) -> Vec<(usize, String)> {
    let data = |measured: &Measured| measured.data.clone();
    let program = |measured: &Measured| measured.program.versions.clone();
    let (most_data, most_program) = (most(finished(rows).map(data)), most(finished(rows).map(program)));
    let mut found = vec![];
    for (index, row) in rows.iter().enumerate() {
        let graph = |measured: &Measured| measured.program.graph.clone();
        let most_graph = most(row.finished().map(|(_, measured)| graph(measured)));
        for (cell, measured) in row.finished() {
            let kinds = [
                ("on other data", data(measured), &most_data),
                ("by another program", program(measured), &most_program),
                ("as another graph", graph(measured), &most_graph),
            ];
            for (how, own, most) in kinds.into_iter().filter(|(_, own, most)| own != *most) {
                let (own, most) = (short(&own), short(most));
                found.push((
                    index,
                    format!("{} seed {} was trained {how} ({own}) than most ({most})", row.name, cell.seed),
                ));
            }
        }
    }
    found
}

/// The text that is met most often, the first of several.
fn most(texts: impl Iterator<Item = String>) -> String {
    let mut counts: Vec<(String, usize)> = vec![];
    for text in texts {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text, 1)),
        }
    }
    let largest = counts.iter().map(|(_, count)| *count).max();
    counts.into_iter().find(|(_, count)| Some(*count) == largest).map(|(text, _)| text).unwrap_or_default()
}

/// The start of a hash; other texts as they are.
fn short(text: &str) -> &str {
    let is_hash = text.len() > 12 && text.chars().all(|c| c.is_ascii_hexdigit());
    match text {
        "" => "unknown",
        _ if is_hash => &text[..12],
        _ => text,
    }
}
