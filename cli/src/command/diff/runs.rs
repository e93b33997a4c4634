//! `rtc diff` of two runs: what was trained, in which experiment, on which data, by which program, and what came out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rtc_runs::record::history::EvaluationLine;
use rtc_runs::record::table::ResultsRow;
use rtc_runs::record::{Change, RunInfo, SavedRun};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{LAST, find};
use rtc_session::model::{Compiled, short};
use rtc_session::saved::{catalog_in, opened};
use rtc_session::spec_file::SpecArg;
use rtc_session::text::number;
use serde_json::{Map, Value, json};

use super::{GraphComparison, Options, body, compare, to_json};
use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

/// The runs that both arguments name; nothing if they are specs. A name of both a spec and a run means the spec.
pub(super) fn named(options: &Options) -> Result<Option<[PathBuf; 2]>, SessionFailure> {
    let a = &options.a;
    let Some(b) = &options.b else { return Ok(None) };
    let (run, other) = match (folder(a)?, folder(b)?) {
        (None, None) => return Ok(None),
        (Some(one), Some(two)) => return alone(options).map(|()| Some([one, two])),
        (Some(_), None) => (a, b),
        (None, Some(_)) => (b, a),
    };
    Err(SessionFailure::Usage(format!(
        "`{run}` is a run and `{other}` is none: name two runs, or two specs; the spec of a run is its file spec.rt"
    )))
}

fn folder(text: &str) -> Result<Option<PathBuf>, SessionFailure> {
    let path = Path::new(text);
    if text == LAST {
        return find(path).map(Some);
    }
    let is_spec = SpecArg::built_in_names().contains(&text) || path.is_file();
    Ok(if is_spec { None } else { find(path).ok() })
}

/// Runs have the task, the settings and the experiment that they have.
fn alone(options: &Options) -> Result<(), SessionFailure> {
    let given = [("only", options.only.is_some()), ("task", options.task.is_some()), ("set", !options.set.is_empty())];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(SessionFailure::Usage(format!("`--{option}` is for specs, and these are runs"))),
        None => Ok(()),
    }
}

/// Two runs, compared.
struct RunComparison {
    paths: [PathBuf; 2],
    saved: [SavedRun; 2],
    graphs: GraphComparison,
    /// Fields of the spec.
    spec: Vec<Change>,
    /// Fields of the experiment, the seed, the weights at the start, and the update that it was trained on to.
    experiment: Vec<Change>,
}

/// Prints what differs.
pub(super) fn run(options: &Options, paths: [PathBuf; 2], terminal: &Terminal) -> CommandResult {
    let saved = [SavedRun::read(&paths[0])?, SavedRun::read(&paths[1])?];
    let models = [model(&paths[0], &saved[0], terminal)?, model(&paths[1], &saved[1], terminal)?];
    let [a, b] = &saved;
    // With all but one part equal, the differences are those of that part.
    let info = RunInfo { spec_hash: b.info.spec_hash.clone(), written: b.info.written, ..a.info.clone() };
    let spec = a.changes(&b.spec, &a.experiment, &info);
    let info = RunInfo { seed: b.info.seed, start: b.info.start.clone(), until: b.info.until, ..a.info.clone() };
    let experiment = a.changes(&a.spec, &b.experiment, &info);
    let names = paths.each_ref().map(|path| path.display().to_string());
    let graphs = compare([&models[0], &models[1]], names, options);
    let runs = RunComparison { paths, saved, graphs, spec, experiment };
    if options.json {
        terminal.json(&runs.to_json(options))?;
    } else {
        terminal.result(&runs.to_text(options))?;
    }
    Ok(Exit::Done)
}

/// The model of a run as this program makes it, which may be another one than was trained.
fn model(path: &Path, run: &SavedRun, terminal: &Terminal) -> Result<Compiled, SessionFailure> {
    let catalog = catalog_in(&run.experiment)?;
    let compiled = Compiled::new(opened(path, run).definition(&catalog)?, &catalog)?;
    if compiled.graph_hash() != run.info.graph_hash {
        let file = run.info.written.file();
        terminal.message(&format!(
            "{}: this version of rtc builds another graph from its {file} than was trained",
            path.display()
        ));
    }
    Ok(compiled)
}

/// A split of a run: the fingerprint of its rows, and how many there are.
fn split(run: &SavedRun, name: &str) -> (Option<String>, Option<usize>) {
    let measured = run.results.iter().flat_map(|table| &table.rows).find(|row| row.split == name);
    let asked = || run.experiment.task.sizes.get(name).copied();
    (run.info.splits.get(name).cloned(), measured.map(|row| row.examples).or_else(asked))
}

/// The numbers of a split by their names.
fn measures(row: &ResultsRow) -> Map<String, Value> {
    let line = serde_json::to_value(EvaluationLine::new(0, row)).expect("names and numbers are valid JSON");
    let numbers = line.as_object().cloned().unwrap_or_default();
    numbers
        .into_iter()
        .filter(|(name, value)| value.is_number() && !matches!(name.as_str(), "update" | "scored"))
        .collect()
}

/// A number of a split in both runs.
struct MeasurePair {
    split: String,
    name: String,
    is_share: bool,
    values: [Option<f64>; 2],
}

impl MeasurePair {
    fn difference(&self) -> Option<f64> {
        let [a, b] = self.values;
        Some(b? - a?)
    }

    fn cells(&self) -> Vec<String> {
        let text = |value: f64| if self.is_share { format!("{:.1} %", 100.0 * value) } else { format!("{value:.3}") };
        let change = |value: f64| if self.is_share { format!("{:+.1}", 100.0 * value) } else { format!("{value:+.3}") };
        let values = self.values.map(|value| value.map_or_else(|| "-".to_owned(), text));
        let difference = self.difference().map_or_else(|| "-".to_owned(), change);
        [vec![self.split.clone(), self.name.clone()], values.to_vec(), vec![difference]].concat()
    }
}

impl RunComparison {
    fn infos(&self) -> [&RunInfo; 2] {
        self.saved.each_ref().map(|run| &run.info)
    }

    fn names_of_splits(&self) -> Vec<&String> {
        let names: BTreeSet<&String> = self.infos().into_iter().flat_map(|info| info.splits.keys()).collect();
        names.into_iter().collect()
    }

    /// The numbers of all splits, in the order of the first run and of its table.
    fn measures(&self) -> Vec<MeasurePair> {
        let rows = |run: usize| self.saved[run].results.iter().flat_map(|table| &table.rows);
        let mut splits: Vec<&String> = vec![];
        for row in rows(0).chain(rows(1)).filter(|row| !row.split.is_empty()) {
            if !splits.contains(&&row.split) {
                splits.push(&row.split);
            }
        }
        let mut found = vec![];
        for split in splits {
            let own = [0, 1].map(|run| rows(run).find(|row| row.split == *split));
            let numbers = own.map(|row| row.map(measures).unwrap_or_default());
            let mut names: Vec<&String> = numbers.iter().flat_map(Map::keys).collect();
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(*name));
            found.extend(names.into_iter().map(|name| MeasurePair {
                split: split.clone(),
                name: name.clone(),
                is_share: name == "accuracy" || own.iter().flatten().any(|row| row.metrics.contains_key(name)),
                values: numbers.each_ref().map(|numbers| numbers.get(name).and_then(Value::as_f64)),
            }));
        }
        found
    }

    /// The parts of the programs that differ.
    fn programs(&self) -> Vec<Change> {
        let [a, b] = self.infos().map(|info| &info.versions);
        let parts: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let change =
            |part: &String| Change { field: part.clone(), old: a.get(part).cloned(), new: b.get(part).cloned() };
        parts.into_iter().map(change).filter(|change| change.old != change.new).collect()
    }

    fn to_text(&self, options: &Options) -> String {
        let [a, b] = self.infos();
        let mut out =
            format!("- {}: {}\n+ {}: {}\n", self.paths[0].display(), a.model, self.paths[1].display(), b.model);
        section(&mut out, "spec", &changed(&self.spec));
        let graphs = body(&self.graphs, options);
        let _ = write!(out, "\ngraph\n{}", graphs.trim_start_matches('\n'));
        section(&mut out, "experiment", &changed(&self.experiment));
        section(&mut out, "data", &self.data());
        section(&mut out, "program", &changed(&self.programs()));
        let unfinished = self.saved.iter().zip(&self.paths).filter(|(run, _)| run.results.is_none());
        let unfinished = unfinished.map(|(_, path)| format!("{} is not finished: it has no results\n", path.display()));
        let measures: Vec<Vec<String>> = self.measures().iter().map(MeasurePair::cells).collect();
        let head = ["split", "measure", "-", "+", "difference"].map(str::to_owned).to_vec();
        let rows = if measures.is_empty() { vec![] } else { [vec![head], measures].concat() };
        let _ = write!(out, "\nresults\n{}{}", indented(&columns(&rows)), indented(&unfinished.collect::<String>()));
        out
    }

    /// A line for the data as a whole if they differ, and one for every split that does.
    fn data(&self) -> Vec<Vec<String>> {
        let text = |(hash, size): (Option<String>, Option<usize>)| match (hash, size) {
            (None, None) => "-".to_owned(),
            (hash, size) => {
                let examples = size.map(|size| format!("{} examples", number(size as f64)));
                let hash = hash.map(|hash| short(&hash).to_owned());
                examples.into_iter().chain(hash).collect::<Vec<_>>().join(", ")
            }
        };
        let split = |name: &String| (name.clone(), self.saved.each_ref().map(|run| split(run, name)));
        let splits = self.names_of_splits().into_iter().map(split);
        let all = ("fingerprint".to_owned(), self.infos().map(|info| (info.data_hash.clone(), None)));
        let other = std::iter::once(all).chain(splits).filter(|(_, [a, b])| a != b);
        other.map(|(name, [a, b])| vec![name, text(a), text(b)]).collect()
    }

    fn to_json(&self, options: &Options) -> Value {
        let run = |at: usize| {
            let info = &self.saved[at].info;
            json!({
                "run": self.paths[at].display().to_string(), "model": info.model, "seed": info.seed,
                "spec_hash": info.spec_hash, "graph_hash": info.graph_hash, "finished": self.saved[at].results.is_some(),
            })
        };
        let changes = |changes: &[Change]| -> Vec<Value> {
            let one = |change: &Change| json!({ "field": change.field, "left": change.old, "right": change.new });
            changes.iter().map(one).collect()
        };
        let split = |name: &&String| {
            let [(left, examples), (right, others)] = self.saved.each_ref().map(|run| split(run, name));
            json!({ "split": name, "left": left, "right": right, "examples": [examples, others] })
        };
        let measure = |measure: &MeasurePair| {
            let [left, right] = measure.values;
            json!({
                "split": measure.split, "measure": measure.name, "left": left, "right": right,
                "difference": measure.difference(),
            })
        };
        let hashes = self.infos().map(|info| &info.data_hash);
        json!({
            "left": run(0), "right": run(1),
            "spec": changes(&self.spec), "graph": to_json(&self.graphs, options),
            "experiment": changes(&self.experiment),
            "data": { "left": hashes[0], "right": hashes[1], "splits": self.names_of_splits().iter().map(split).collect::<Vec<_>>() },
            "program": changes(&self.programs()),
            "results": self.measures().iter().map(measure).collect::<Vec<_>>(),
        })
    }
}

fn changed(changes: &[Change]) -> Vec<Vec<String>> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    changes.iter().map(|change| vec![change.field.clone(), text(&change.old), text(&change.new)]).collect()
}

/// A section with its rows; one line where there are none.
fn section(out: &mut String, title: &str, rows: &[Vec<String>]) {
    match rows {
        [] => out.push_str(&format!("\n{title}: equal\n")),
        rows => out.push_str(&format!("\n{title}\n{}", indented(&columns(rows)))),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
