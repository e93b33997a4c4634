//! Tables of results as HTML.

use crate::data::{Report, ResultRow, Run, Score};
use crate::scale::number;
use crate::svg::escape;

/// A table with a row per split for one run; else with a row per run, those of a model together with their mean.
pub(crate) fn results(report: &Report) -> Option<String> {
    match report.runs.as_slice() {
        [run] if run.results.is_empty() => None,
        [run] => Some(of_splits(run)),
        runs if runs.iter().all(|run| run.results.is_empty() && run.best.is_none()) => None,
        _ => Some(of_runs(report)),
    }
}

/// The runs of a report: what they are, and how far.
pub(crate) fn runs(report: &Report) -> String {
    let head = ["run", "model", "seed", "state", "updates", "parameters"];
    let rows = report.runs.iter().map(|run| {
        let model = report.models.get(run.model).map_or("", |model| model.name.as_str());
        let updates = run.steps.last().map(|step| step.update).max(run.evaluations.last().map(|one| one.update));
        vec![
            Cell::text(&run.name),
            Cell::text(model),
            Cell::number(run.seed.to_string()),
            Cell::text(&run.state),
            Cell::number(number(updates.unwrap_or(0) as f64)),
            Cell::number(number(run.parameters as f64)),
        ]
    });
    table(&head.map(str::to_owned), rows.collect())
}

/// A cell of a table.
struct Cell {
    text: String,
    right: bool,
    strong: bool,
}

impl Cell {
    fn text(text: &str) -> Self {
        Self { text: text.to_owned(), right: false, strong: false }
    }

    fn number(text: String) -> Self {
        Self { text, right: true, strong: false }
    }

    fn strong(self) -> Self {
        Self { strong: true, ..self }
    }
}

fn table(head: &[String], rows: Vec<Vec<Cell>>) -> String {
    let right = |n: usize| rows.first().and_then(|row| row.get(n)).is_some_and(|cell| cell.right);
    let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for (n, name) in head.iter().enumerate() {
        let class = if right(n) { " class=\"n\"" } else { "" };
        out += &format!("<th{class}>{}</th>", escape(name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &rows {
        out += "<tr>";
        for cell in row {
            let class = match (cell.right, cell.strong) {
                (true, true) => " class=\"n b\"",
                (true, false) => " class=\"n\"",
                (false, true) => " class=\"b\"",
                (false, false) => "",
            };
            out += &format!("<td{class}>{}</td>", escape(&cell.text));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

fn text(score: Option<Score>) -> String {
    score.map_or("-".to_owned(), Score::text)
}

/// Shares where the answers are classes, errors where they are numbers.
fn of_splits(run: &Run) -> String {
    let numbers: Vec<&str> =
        run.results.iter().take(1).flat_map(|row| row.numbers.iter().map(|(n, _)| n.as_str())).collect();
    let own = if numbers.is_empty() { vec!["accuracy", "most frequent class"] } else { numbers.clone() };
    let head = [vec!["split", "examples"], own, vec!["loss", "mean steps"]].concat();
    let row = |row: &ResultRow| {
        let mut cells = vec![Cell::text(&row.split), Cell::number(number(row.examples as f64))];
        match numbers.is_empty() {
            true => {
                cells.push(Cell::number(text(row.accuracy.map(Score::Share))).strong());
                cells.push(Cell::number(text(row.majority.map(Score::Share))));
            }
            false => cells.extend(row.numbers.iter().map(|(_, x)| Cell::number(text(Some(Score::Error(*x)))).strong())),
        }
        cells.push(Cell::number(format!("{:.3}", row.loss)));
        cells.push(Cell::number(row.depth.map_or("-".to_owned(), |depth| format!("{depth:.2}"))));
        cells
    };
    let head: Vec<String> = head.into_iter().map(str::to_owned).collect();
    table(&head, run.results.iter().map(row).collect())
}

/// The splits of all runs, in the order in which they first occur.
fn splits(report: &Report) -> Vec<&str> {
    let mut splits = vec![];
    for row in report.runs.iter().flat_map(|run| &run.results) {
        if !splits.contains(&row.split.as_str()) {
            splits.push(&row.split);
        }
    }
    splits
}

fn of_runs(report: &Report) -> String {
    let splits = splits(report);
    let mut head = vec!["model".to_owned(), "seed".to_owned(), "best on dev".to_owned()];
    head.extend(splits.iter().map(|split| (*split).to_owned()));
    let mut rows = vec![];
    for (n, model) in report.models.iter().enumerate() {
        let runs: Vec<&Run> = report.runs.iter().filter(|run| run.model == n).collect();
        let columns = std::iter::once(None).chain(splits.iter().map(|split| Some(*split)));
        let columns: Vec<Option<&str>> = columns.collect();
        for run in &runs {
            let mut row = vec![Cell::text(&model.name), Cell::number(run.seed.to_string())];
            row.extend(columns.iter().map(|column| Cell::number(text(score(run, *column)))));
            rows.push(row);
        }
        if runs.len() > 1 {
            let mut row =
                vec![Cell::text(&model.name).strong(), Cell::number(format!("mean of {}", runs.len())).strong()];
            row.extend(columns.iter().map(|column| {
                let found = runs.iter().filter_map(|run| score(run, *column));
                let values: Vec<Score> = found.filter(|score| score.number().is_finite()).collect();
                Cell::number(mean_and_deviation(&values, runs.len())).strong()
            }));
            rows.push(row);
        }
    }
    table(&head, rows)
}

/// How good a run is on a split; without one, the best on dev.
fn score(run: &Run, split: Option<&str>) -> Option<Score> {
    match split {
        None => run.best.map(|(_, score)| score),
        Some(split) => run.results.iter().find(|row| row.split == split).and_then(ResultRow::score),
    }
}

/// `61.5 ± 0.8 %`, with the deviation of the population; says so where runs are missing.
fn mean_and_deviation(scores: &[Score], of: usize) -> String {
    let Some(first) = scores.first() else { return "-".to_owned() };
    let values: Vec<f64> = scores.iter().map(|score| score.number()).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let missing = if values.len() < of { format!(" ({} of {of})", values.len()) } else { String::new() };
    match first {
        Score::Share(_) => format!("{:.1} ± {:.1} %{missing}", 100.0 * mean, 100.0 * deviation),
        Score::Error(_) => format!("{mean:.3} ± {deviation:.3}{missing}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_say_how_many_runs_they_have() {
        let [a, b] = [0.5, 0.7].map(Score::Share);
        assert_eq!(mean_and_deviation(&[a, b], 2), "60.0 ± 10.0 %");
        assert_eq!(mean_and_deviation(&[Score::Error(1.5), Score::Error(2.5)], 2), "2.000 ± 0.500");
        assert_eq!(mean_and_deviation(&[a], 3), "50.0 ± 0.0 % (1 of 3)");
        assert_eq!(mean_and_deviation(&[], 3), "-");
    }
}
