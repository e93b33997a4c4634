//! The numbers at the top of a page: how good the runs are, how far, and how long they took.

use crate::data::{ReportRow, ReportRun, RunReport, Score, score};
use crate::scale::number;
use crate::svg::escape;

/// The most splits of which the top of the page tells.
const SPLITS: usize = 4;

/// The numbers as a list of names and values.
pub(crate) fn headline(report: &RunReport) -> String {
    let (mut told, took) = match report.runs.as_slice() {
        [run] => (of_one(run), "training took"),
        _ => (of_several(report), "trainings took together"),
    };
    told.extend(report.took.iter().map(|time| (took.to_owned(), time.clone())));
    let told =
        told.iter().map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value)));
    format!("<dl class=\"headline\">\n{}</dl>\n", told.collect::<String>())
}

fn of_one(run: &ReportRun) -> Vec<(String, String)> {
    let named = |score: Score, place: &str| match score {
        Score::Share(_) => (format!("accuracy on {place}"), score.text()),
        Score::Error(_) => (format!("error on {place}"), score.text()),
    };
    let mut told: Vec<_> =
        run.results.iter().take(SPLITS).filter_map(|row| Some(named(score(row)?, &row.split))).collect();
    if let (true, Some((_, best))) = (told.is_empty(), run.best) {
        told.push((format!("best on {}", run.dev), best.text()));
    }
    told.push(("updates".to_owned(), updates(run)));
    told.push(("parameters".to_owned(), number(run.parameters as f64)));
    told
}

fn updates(run: &ReportRun) -> String {
    let done = run.done();
    match run.total.filter(|total| *total > done && run.results.is_empty()) {
        Some(total) => format!("{} of {}", number(done as f64), number(total as f64)),
        None => number(done as f64),
    }
}

fn of_several(report: &RunReport) -> Vec<(String, String)> {
    let finished = report.runs.iter().filter(|run| !run.results.is_empty()).count();
    let mut told = vec![("finished runs".to_owned(), format!("{finished} of {}", report.runs.len()))];
    // Scores of different tasks are not compared: each task has a best row of its own.
    let mut tasks: Vec<&str> = vec![];
    for row in &report.rows {
        if !tasks.contains(&row.task.as_str()) {
            tasks.push(&row.task);
        }
    }
    told.extend(tasks.into_iter().filter_map(|task| best_of(report, task)));
    told
}

/// The best row of a task on the split that its first finished run has first.
fn best_of(report: &RunReport, task: &str) -> Option<(String, String)> {
    let rows = || report.rows.iter().filter(|row| row.task == task);
    let runs = |row: &ReportRow| row.runs.iter().filter_map(|run| report.runs.get(*run)).collect::<Vec<_>>();
    let split = rows().flat_map(runs).find_map(|run| run.results.first())?.split.clone();
    let mean = |row: &ReportRow| {
        let of = |run: &ReportRun| run.results.iter().find(|row| row.split == split).and_then(score);
        let scores: Vec<Score> =
            runs(row).into_iter().filter_map(of).filter(|score| score.number().is_finite()).collect();
        let mean = scores.iter().map(|score| score.number()).sum::<f64>() / scores.len() as f64;
        match scores.first()? {
            Score::Share(_) => Some(Score::Share(mean)),
            Score::Error(_) => Some(Score::Error(mean)),
        }
    };
    // A share is good where it is large, an error where it is small.
    let good = |score: &Score| match score {
        Score::Share(share) => *share,
        Score::Error(error) => -error,
    };
    let means = rows().filter_map(|row| Some((&row.name, mean(row)?)));
    let (name, score) = means.reduce(|best, one| if good(&one.1) > good(&best.1) { one } else { best })?;
    let of = if task.is_empty() { String::new() } else { format!(" of {task}") };
    Some((format!("best mean on {split}{of}: {name}"), score.text()))
}
