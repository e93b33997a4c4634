//! `rtc eval --sweep`: a trained model under one edit after another, as with 1 to 16 steps of a loop.

use std::path::Path;

use rtc_base::disk::write_output;
use rtc_compiler::check::Override;
use rtc_report::lines::{DrawnLine, lines};
use rtc_runs::experiment::EditSweep;
use rtc_runs::record::table::ResultsRow;
use rtc_session::failure::SessionFailure;
use rtc_train::require_finite;
use serde_json::{Value, json};

use super::{Options, load_splits, measure, open, which};
use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

/// Measures the model with every value, on the same rows.
pub(super) fn run(options: &Options, sweep: &EditSweep, terminal: &Terminal) -> CommandResult {
    let output = options.output.as_deref().map(|file| Ok::<_, SessionFailure>((file, form(file)?))).transpose()?;
    let mut measured: Vec<(&String, Vec<ResultsRow>)> = vec![];
    let mut data = None;
    for value in &sweep.values {
        let mut edits = Override::numbered(&options.set);
        edits.push(Override::alone("--sweep", &sweep.edit(value)));
        let mut trained = open(options, &edits)?;
        let update = trained.state.progress.updates;
        if data.is_none() {
            trained.remarks().iter().for_each(|remark| terminal.message(remark));
            data = Some(load_splits(options, &trained, terminal)?);
            terminal.message(&format!("{}, {}", trained.name, which(&options.model, update)));
        }
        let mut rows = vec![];
        for (split, examples) in data.iter().flatten() {
            let Some(found) = measure(options, &mut trained, (split, examples), terminal)? else { continue };
            require_finite(&found.row, update)?;
            rows.push(found.row);
        }
        terminal.message(&format!("{} = {value}: {}", sweep.path, said(&rows)));
        measured.push((value, rows));
    }
    if let Some((file, form)) = output {
        write_output(file, form(sweep, &measured)?)?;
        terminal.message(&format!("written: {}", file.display()));
    }
    if options.json {
        let mut result = as_json(sweep, &measured);
        result["run"] = json!(options.model.run.display().to_string());
        terminal.json(&result)?;
    } else {
        terminal.result(&columns(&table(sweep, &measured, shown)))?;
    }
    Ok(Exit::Done)
}

/// The measured numbers of a row, by name: shares in percent.
fn quantities(row: &ResultsRow) -> Vec<(String, f64, Option<f64>)> {
    let percent = |share: f64| 100.0 * share;
    let accuracy = row.accuracy.map(|share| ("accuracy (%)".to_owned(), percent(share), Some(100.0)));
    let shares = row
        .metrics
        .iter()
        .map(|(name, share)| (format!("{} (%)", name.replace('_', " ")), percent(*share), Some(100.0)));
    let numbers = row.numbers.iter().map(|(name, number)| (name.clone(), *number, None));
    let loss = [("loss".to_owned(), row.loss, None)];
    let more = [("perplexity", row.perplexity), ("steps taken", row.mean_depth)];
    let more = more.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?, None)));
    accuracy.into_iter().chain(shares).chain(numbers).chain(loss).chain(more).collect()
}

fn said(rows: &[ResultsRow]) -> String {
    let one = |row: &ResultsRow| {
        let first = quantities(row).into_iter().next();
        first.map(|(name, number, _)| format!("{} {name} {}", row.split, shown(number)))
    };
    rows.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn shown(number: f64) -> String {
    if number.abs() >= 10.0 { format!("{number:.1}") } else { format!("{number:.4}") }
}

/// One line per value and split.
fn table(sweep: &EditSweep, measured: &[(&String, Vec<ResultsRow>)], show: fn(f64) -> String) -> Vec<Vec<String>> {
    let mut names: Vec<String> = vec![];
    for (name, ..) in measured.iter().flat_map(|(_, rows)| rows).flat_map(quantities) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut cells = vec![[sweep.path.clone(), "split".to_owned()].into_iter().chain(names.clone()).collect::<Vec<_>>()];
    for (value, rows) in measured {
        for row in rows {
            let own = quantities(row);
            let cell = |name: &String| own.iter().find(|(own, ..)| own == name).map(|(_, number, _)| show(*number));
            let numbers = names.iter().map(|name| cell(name).unwrap_or_default());
            cells.push([(*value).clone(), row.split.clone()].into_iter().chain(numbers).collect());
        }
    }
    cells
}

/// How a table is written.
type SweepWriter = fn(&EditSweep, &[(&String, Vec<ResultsRow>)]) -> Result<String, SessionFailure>;

/// The form of a file by its ending: `.csv`, `.json`, or a picture of the first quantity as `.svg`.
fn form(file: &Path) -> Result<SweepWriter, SessionFailure> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(csv),
        Some("json") => Ok(|sweep, measured| Ok(format!("{}\n", as_json(sweep, measured)))),
        Some("svg") => Ok(picture),
        _ => {
            let message = format!("{}: the name of an output ends with `.csv`, `.json` or `.svg`", file.display());
            Err(SessionFailure::Usage(message))
        }
    }
}

fn as_json(sweep: &EditSweep, measured: &[(&String, Vec<ResultsRow>)]) -> Value {
    let values = measured.iter().map(|(value, rows)| json!({"value": value, "splits": rows}));
    json!({"path": sweep.path, "values": values.collect::<Vec<_>>()})
}

/// The table with every number in full.
fn csv(sweep: &EditSweep, measured: &[(&String, Vec<ResultsRow>)]) -> Result<String, SessionFailure> {
    let quoted = |text: &String| {
        let is_plain = !text.contains([',', '"', '\n']);
        if is_plain { text.clone() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
    };
    let line = |cells: &Vec<String>| cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    Ok(table(sweep, measured, |number| number.to_string()).iter().map(line).collect())
}

/// The first quantity by value, a line per split.
fn picture(sweep: &EditSweep, measured: &[(&String, Vec<ResultsRow>)]) -> Result<String, SessionFailure> {
    let number = |value: &str| value.parse::<f64>().ok().filter(|number| number.is_finite());
    let no = |why: String| SessionFailure::Usage(why);
    let Some((name, _, most)) = measured.iter().flat_map(|(_, rows)| rows).flat_map(quantities).next() else {
        return Err(no("there is nothing to draw".to_owned()));
    };
    let mut all: Vec<DrawnLine> = vec![];
    for (value, rows) in measured {
        let at = number(value)
            .ok_or_else(|| no(format!("`{value}` is no number, so no picture is drawn: write a `.csv`")))?;
        for row in rows {
            let found = quantities(row).into_iter().find(|(own, ..)| *own == name);
            let Some((_, number, _)) = found else { continue };
            match all.iter_mut().find(|line| line.name == row.split) {
                Some(line) => line.points.push((at, number)),
                None => all.push(DrawnLine { name: row.split.clone(), points: vec![(at, number)] }),
            }
        }
    }
    let title = format!("{} by {}", name.split(" (").next().unwrap_or_default(), sweep.path);
    let drawn = lines(&title, [&sweep.path, &name], most, &all);
    Ok(drawn.ok_or_else(|| no("there is nothing to draw".to_owned()))?.file())
}
