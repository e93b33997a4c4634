//! Tables of results as HTML.

use std::collections::{BTreeMap, BTreeSet};

use rtc_runs::grid::{TextCell, TextTable};
use rtc_runs::record::table::ResultsRow;

use crate::data::{ReportRun, RunReport, Score, TaskResults, score};
use crate::scale::number;
use crate::svg::escape;

/// The results: of one run split by split, of several as their tables have them.
pub(crate) fn results(report: &RunReport) -> Option<String> {
    match report.runs.as_slice() {
        [run] if run.results.is_empty() => None,
        [run] => Some(of_splits(run)),
        _ if report.tasks.iter().all(|task| task.tables.is_empty()) => None,
        _ => Some(report.tasks.iter().map(of_task).collect()),
    }
}

/// The tables of a task, below its name where there are several.
fn of_task(results: &TaskResults) -> String {
    let name = if results.task.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(&results.task)) };
    name + &results.tables.iter().map(ready).collect::<String>()
}

/// A table with the sentences below it.
fn ready(found: &TextTable) -> String {
    let cell = |(at, cell): (usize, &TextCell)| TableCell {
        text: cell.with_mark(),
        right: at >= found.names,
        strong: cell.best,
    };
    let rows = found.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    let below = found.below.iter().map(|line| format!("<p class=\"sub\">{}</p>\n", escape(line)));
    table(&found.head, rows) + &below.collect::<String>()
}

/// The runs of a report: what they are, how far, and the accuracy of each on every split.
pub(crate) fn runs(report: &RunReport) -> String {
    let splits = splits(report);
    let head = ["run", "row", "model", "seed", "state", "updates", "parameters"].map(str::to_owned);
    let head = head.into_iter().chain(splits.iter().map(|split| (*split).to_owned())).collect::<Vec<_>>();
    let rows = report.runs.iter().enumerate().map(|(index, run)| {
        let model = report.models.get(run.model).map_or("", |model| model.name.as_str());
        let mut row = vec![
            TableCell::text(&run.name),
            TableCell::text(report.row_of(index)),
            TableCell::text(model),
            TableCell::number(run.seed.to_string()),
            TableCell::text(&run.state),
            TableCell::number(number(run.done() as f64)),
            TableCell::number(number(run.parameters as f64)),
        ];
        let of = |split: &&str| run.results.iter().find(|row| row.split == *split).and_then(score);
        row.extend(splits.iter().map(|split| TableCell::number(text(of(split)))));
        row
    });
    table(&head, rows.collect())
}

/// A cell of a table.
struct TableCell {
    text: String,
    right: bool,
    strong: bool,
}

impl TableCell {
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

fn table(head: &[String], rows: Vec<Vec<TableCell>>) -> String {
    let right = |n: usize| rows.first().and_then(|row| row.get(n)).is_some_and(|cell| cell.right);
    let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for (n, name) in head.iter().enumerate() {
        let class = if right(n) { " class=\"n\"" } else { "" };
        out += &format!("<th scope=\"col\"{class}>{}</th>", escape(name));
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

/// The accuracy where the answers are classes, with those of the most frequent class, of a bag of words and of a trigram; all other
/// metrics; the loss.
fn of_splits(run: &ReportRun) -> String {
    let names = |of: fn(&ResultsRow) -> &BTreeMap<String, f64>| {
        run.results.iter().flat_map(|row| of(row).keys().cloned()).collect::<BTreeSet<String>>()
    };
    let (shares, numbers) = (names(|row| &row.metrics), names(|row| &row.numbers));
    let has = |of: fn(&ResultsRow) -> Option<f64>| run.results.iter().any(|row| of(row).is_some());
    let (classes, bag) = (has(|row| row.accuracy), has(|row| row.bag_of_words));
    let of_classes = if classes { &["accuracy", "most frequent class"][..] } else { &[] };
    let of_bag = bag.then_some("bag of words");
    let trigram = has(|row| row.trigram);
    let of_trigram: &[&str] = if trigram { &["trigram", "perplexity", "trigram perplexity"] } else { &[] };
    let fixed =
        ["split", "examples"].iter().chain(of_classes).chain(&of_bag).chain(of_trigram).map(|name| (*name).to_owned());
    let metrics = shares.iter().chain(&numbers).map(|name| name.replace('_', " "));
    let head: Vec<String> = fixed.chain(metrics).chain(["loss", "mean steps"].map(str::to_owned)).collect();
    let row = |row: &ResultsRow| {
        let mut cells = vec![TableCell::text(&row.split), TableCell::number(number(row.examples as f64))];
        if classes {
            cells.push(TableCell::number(text(row.accuracy.map(Score::Share))).strong());
            cells.push(TableCell::number(text(row.majority.map(Score::Share))));
        }
        if bag {
            cells.push(TableCell::number(text(row.bag_of_words.map(Score::Share))));
        }
        if trigram {
            cells.push(TableCell::number(text(row.trigram.map(Score::Share))));
            cells.push(TableCell::number(text(row.perplexity.map(Score::Error))));
            cells.push(TableCell::number(text(row.trigram_perplexity.map(Score::Error))));
        }
        cells.extend(
            shares.iter().map(|name| TableCell::number(text(row.metrics.get(name).copied().map(Score::Share)))),
        );
        let error = |name: &String| TableCell::number(text(row.numbers.get(name).copied().map(Score::Error)));
        cells.extend(numbers.iter().map(|name| if classes { error(name) } else { error(name).strong() }));
        cells.push(TableCell::number(format!("{:.3}", row.loss)));
        cells.push(TableCell::number(row.mean_depth.map_or("-".to_owned(), |depth| format!("{depth:.2}"))));
        cells
    };
    table(&head, run.results.iter().map(row).collect())
}

/// The splits of all runs, in the order in which they first occur.
fn splits(report: &RunReport) -> Vec<&str> {
    let mut splits = vec![];
    for row in report.runs.iter().flat_map(|run| &run.results) {
        if !splits.contains(&row.split.as_str()) {
            splits.push(&row.split);
        }
    }
    splits
}
