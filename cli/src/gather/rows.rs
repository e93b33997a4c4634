//! The rows that a report compares: those of a grid as it lists them, and loose runs by model and experiment, named after what
//! differs between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rtc_compiler::spec::{Block, Origin, Setting, Spec};
use rtc_report::data::{self, ComparedMeans, MeanInterval, TaskResults};
use rtc_runs::experiment::Experiment;
use rtc_runs::grid::{
    CellState, GridCell, GridManifest, GridRow, NumberStyle, Sheet, SheetRow, Show, measured_sweeps, text_tables,
};
use rtc_runs::record::SavedRun;
use rtc_session::folders::resolved;
use serde_json::Value;

use crate::grid::asked;

/// How many differences the name of a row tells.
const TOLD: usize = 4;

/// The fewest rows that make a sweep: two are no more than a difference.
const SWEEP: usize = 3;

/// The rows of a report.
#[derive(Default)]
pub(super) struct ReportRows {
    rows: Vec<RowOfRuns>,
    unlisted: Vec<UnlistedRow>,
    /// The row that others are compared with; the first one if no grid names one.
    baseline: Option<usize>,
}

/// A row, with its runs by their index in the report.
struct RowOfRuns {
    row: GridRow,
    runs: Vec<usize>,
    /// The task, and the model before edits.
    task: String,
    family: String,
    /// Settings that are numbers, under their paths.
    numbers: BTreeMap<String, NumericSetting>,
}

/// A setting that is a number.
struct NumericSetting {
    value: f64,
    /// It follows from others, or from a default.
    follows: bool,
}

impl RowOfRuns {
    /// A row of which no run was read yet.
    fn new(row: GridRow) -> Self {
        Self { row, runs: vec![], task: String::new(), family: String::new(), numbers: BTreeMap::new() }
    }

    /// Adds a run, and what all runs of the row have in common.
    fn put(&mut self, run: &ReadRun<'_>) {
        self.row.parameters = run.saved.info.parameters;
        self.row.data = asked(&run.saved.experiment);
        (self.task, self.family) = (task_of(&run.saved.experiment), run.saved.info.model.clone());
        if self.runs.is_empty() {
            self.numbers = numbers(&run.saved.experiment, run.spec);
        }
        self.runs.push(run.index);
    }
}

/// A row of runs that no grid lists.
struct UnlistedRow {
    at: usize,
    spec_hash: String,
    experiment: Experiment,
    settings: BTreeMap<String, String>,
}

/// A run that was read.
pub(super) struct ReadRun<'a> {
    pub(super) index: usize,
    pub(super) path: &'a Path,
    pub(super) saved: &'a SavedRun,
    pub(super) state: CellState,
    pub(super) spec: Option<&'a Spec>,
}

impl ReportRows {
    /// Adds an empty row of a grid for every one that it lists; gives the number of the first.
    pub(super) fn add_grid(&mut self, folder: &Path, manifest: &GridManifest, label: Option<&str>) -> usize {
        let first = self.rows.len();
        for listed in &manifest.rows {
            let name = label.map_or_else(|| listed.name.clone(), |label| format!("{label}: {}", listed.name));
            let absent = listed.cells.iter().map(|cell| GridCell {
                seed: cell.seed,
                path: resolved(folder, &cell.run),
                state: CellState::Absent,
            });
            let name = self.unused(name);
            let row = GridRow { name, parameters: 0, data: String::new(), cells: absent.collect() };
            self.rows.push(RowOfRuns::new(row));
        }
        let named = manifest.rows.iter().position(|listed| Some(&listed.name) == manifest.baseline.as_ref());
        self.baseline = self.baseline.or(named.map(|at| first + at));
        first
    }

    /// Puts a run into the cell of a row of a grid.
    pub(super) fn put(&mut self, row: usize, run: ReadRun<'_>) {
        let row = &mut self.rows[row];
        row.put(&run);
        if let Some(cell) = row.row.cells.iter_mut().find(|cell| cell.path == run.path) {
            cell.state = run.state;
        }
    }

    /// Adds a run that no grid lists to those of the same spec and experiment.
    pub(super) fn add_unlisted(&mut self, run: ReadRun<'_>) {
        let experiment = Experiment { seeds: vec![], ..run.saved.experiment.clone() };
        let info = &run.saved.info;
        let same = |row: &&UnlistedRow| row.spec_hash == info.spec_hash && row.experiment == experiment;
        let at = match self.unlisted.iter().find(same) {
            Some(row) => row.at,
            None => {
                let settings = settings(&experiment, run.spec);
                let at = self.rows.len();
                self.unlisted.push(UnlistedRow { at, spec_hash: info.spec_hash.clone(), experiment, settings });
                let name = info.model.clone();
                self.rows.push(RowOfRuns::new(GridRow { name, parameters: 0, data: String::new(), cells: vec![] }));
                at
            }
        };
        self.rows[at].put(&run);
        self.rows[at].row.cells.push(GridCell { seed: info.seed, path: run.path.to_owned(), state: run.state });
    }

    /// The rows with names of their own, and their results, task by task.
    pub(super) fn finish(mut self) -> (Vec<data::ReportRow>, Vec<TaskResults>) {
        self.name_unlisted();
        let mut tasks: Vec<&str> = vec![];
        for row in self.rows.iter().filter(|row| !row.runs.is_empty()) {
            if !tasks.contains(&row.task.as_str()) {
                tasks.push(&row.task);
            }
        }
        let several = tasks.len() > 1;
        let results = tasks.iter().map(|task| self.results(task, several)).collect();
        let row = |at: usize| {
            let RowOfRuns { row, runs, task, family, .. } = &self.rows[at];
            let task = if several { task.clone() } else { String::new() };
            data::ReportRow {
                name: row.name.clone(),
                runs: runs.clone(),
                task,
                family: family.clone(),
                swept: self.swept(at),
            }
        };
        ((0..self.rows.len()).map(row).collect(), results)
    }

    /// The results of the rows of a task: no number of another one is compared with theirs. A row without runs belongs to the only task.
    fn results(&self, task: &str, several: bool) -> TaskResults {
        let (places, rows): (Vec<usize>, Vec<GridRow>) = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.task == task || (!several && row.runs.is_empty()))
            .map(|(at, row)| (at, row.row.clone()))
            .unzip();
        let baseline = places.iter().position(|at| Some(*at) == self.baseline).unwrap_or(0);
        let show = Show { mixed: true, baseline: Some(baseline), ..Show::default() };
        let finished = rows.iter().any(|row| row.finished().next().is_some());
        let sheet = Sheet::new(&rows, &show).ok().filter(|_| finished);
        let by_edit = measured_sweeps(&rows).into_iter().filter_map(|sweep| Sheet::by_edit(&rows, &sweep, &show).ok());
        let task = if several { task.to_owned() } else { String::new() };
        TaskResults {
            compared: sheet.iter().flat_map(|sheet| compared(sheet, &task, &places)).collect(),
            tables: sheet.into_iter().chain(by_edit).flat_map(|sheet| text_tables(&sheet)).collect(),
            task,
        }
    }

    /// The settings in which a row differs from others of its task and model, where there are enough of them.
    fn swept(&self, at: usize) -> Vec<(String, f64)> {
        let own = &self.rows[at];
        let like = |row: &&RowOfRuns| !row.runs.is_empty() && row.task == own.task && row.family == own.family;
        let alike: Vec<&RowOfRuns> = self.rows.iter().filter(like).collect();
        if own.runs.is_empty() || alike.len() < SWEEP {
            return vec![];
        }
        let differs = |(path, setting): &(&String, &NumericSetting)| {
            let all: Option<Vec<&NumericSetting>> = alike.iter().map(|row| row.numbers.get(*path)).collect();
            all.is_some_and(|all| {
                all.iter().any(|other| other.value != setting.value) && !all.iter().all(|other| other.follows)
            })
        };
        own.numbers.iter().filter(differs).map(|(path, setting)| (path.clone(), setting.value)).collect()
    }

    /// Rows of one model are told apart by their tasks, and in a task by what differs between them.
    fn name_unlisted(&mut self) {
        let named = |row: &UnlistedRow| (self.rows[row.at].row.name.clone(), self.rows[row.at].task.clone());
        let names: Vec<(String, String)> = self.unlisted.iter().map(named).collect();
        for (row, own) in self.unlisted.iter().zip(&names) {
            let (name, task) = own;
            let alike: Vec<&UnlistedRow> =
                self.unlisted.iter().zip(&names).filter(|(_, other)| *other == own).map(|(row, _)| row).collect();
            let told = difference(row, &alike);
            let elsewhere = names.iter().any(|(other, of)| other == name && of != task);
            let name = if elsewhere { format!("{name} on {task}") } else { name.clone() };
            let full = if told.is_empty() { name } else { format!("{name}, {told}") };
            self.rows[row.at].row.name = String::new();
            self.rows[row.at].row.name = self.unused(full);
        }
    }

    /// A name that no row has: the name itself, or with a number.
    fn unused(&self, name: String) -> String {
        let is_free = |name: &String| self.rows.iter().all(|row| row.row.name != *name);
        let numbered = (2..).map(|n| format!("{name} ({n})"));
        std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
    }
}

/// The task of a run: its name, and the data of the user where there are some.
fn task_of(experiment: &Experiment) -> String {
    let task = &experiment.task;
    match task.data.as_ref().and_then(|data| serde_json::to_string(data).ok()) {
        Some(data) => format!("{} {data}", task.name),
        None => task.name.clone(),
    }
}

/// The columns of a sheet whose means have intervals. The rows stand at these places of the report, below that of the majority.
fn compared(sheet: &Sheet, task: &str, places: &[usize]) -> Vec<ComparedMeans> {
    let others = sheet.rows.len() - places.len();
    let columns = sheet.columns.iter().enumerate().filter(|(_, column)| column.tested);
    let column = columns.filter_map(|(at, column)| {
        let share = column.look == NumberStyle::Share;
        let unit = if share { 100.0 } else { 1.0 };
        let row = |(n, line): (usize, &SheetRow)| {
            let row = n.checked_sub(others).map(|n| places[n]);
            let value = &line.values[at];
            let interval = value.worth.interval.map(|(interval, _)| (unit * interval.low, unit * interval.high));
            Some(MeanInterval { name: line.name.clone(), row, mean: unit * value.mean?, interval })
        };
        let rows: Vec<MeanInterval> = sheet.rows.iter().enumerate().filter_map(row).collect();
        let metric = column.metric.clone().unwrap_or_default();
        let of = if task.is_empty() { String::new() } else { format!("{task}: ") };
        let on = column.title.strip_suffix(&metric).map_or(column.title.as_str(), str::trim_end);
        rows.iter().any(|row| row.interval.is_some()).then(|| ComparedMeans {
            name: ["compared", task, &column.title]
                .iter()
                .filter(|part| !part.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join("-"),
            title: format!("{of}{} on {on}", capitalised(&metric)),
            unit: if share { format!("{metric} (%)") } else { metric },
            rows,
        })
    });
    column.collect()
}

/// The settings of a row that are not those of all others like it: `batch.size=8, depthwise.depth=4`.
fn difference(row: &UnlistedRow, alike: &[&UnlistedRow]) -> String {
    let keys: BTreeSet<&String> = alike.iter().flat_map(|row| row.settings.keys()).collect();
    let differs = |key: &&&String| alike.iter().any(|other| other.settings.get(**key) != row.settings.get(**key));
    let told = |key: &String| format!("{key}={}", row.settings.get(key).map_or("none", String::as_str));
    let all: Vec<String> = keys.iter().filter(differs).map(|key| told(key)).collect();
    let more = all.len().saturating_sub(TOLD);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    all.into_iter().take(TOLD).collect::<Vec<_>>().join(", ") + &rest
}

/// Every setting of an experiment, and of a spec where there is one, under its path.
fn settings(experiment: &Experiment, spec: Option<&Spec>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect_settings("", &serde_json::to_value(experiment).unwrap_or_default(), &mut found);
    if let Some(spec) = spec {
        each_field("", &spec.root, &mut |path, setting| {
            found.insert(path, setting.value.to_string());
        });
    }
    found
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Every setting that is a number, of an experiment and of a spec where there is one, under its path.
fn numbers(experiment: &Experiment, spec: Option<&Spec>) -> BTreeMap<String, NumericSetting> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    let mut texts = BTreeMap::new();
    let experiment = Experiment { seeds: vec![], ..experiment.clone() };
    collect_settings("", &serde_json::to_value(&experiment).unwrap_or_default(), &mut texts);
    let written = texts
        .iter()
        .filter_map(|(path, text)| Some((path.clone(), NumericSetting { value: number(text)?, follows: false })));
    let mut found: BTreeMap<String, NumericSetting> = written.collect();
    let mut of_spec = |path: String, setting: &Setting| {
        let follows = matches!(setting.origin, Origin::Default | Origin::Derived(_));
        found.extend(number(&setting.value.to_string()).map(|value| (path, NumericSetting { value, follows })));
    };
    if let Some(spec) = spec {
        each_field("", &spec.root, &mut of_spec);
    }
    found
}

fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn collect_settings(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect_settings(&under(path, name), value, found));
        }
        Value::String(text) => found.extend([(path.to_owned(), text.clone())]),
        other => found.extend([(path.to_owned(), other.to_string())]),
    }
}

/// Takes every field of a block and of all in it, with its path.
fn each_field(path: &str, block: &Block, take: &mut dyn FnMut(String, &Setting)) {
    for (name, setting) in &block.fields {
        take(under(path, name), setting);
    }
    for (n, child) in block.children.iter().enumerate() {
        let before = block.children[..n].iter().filter(|other| other.name() == child.name()).count();
        let own = if before == 0 { child.name().to_owned() } else { format!("{}[{}]", child.name(), before + 1) };
        each_field(&under(path, &own), child, take);
    }
}

/// The folder in which runs were found.
pub(super) enum RunSource {
    /// A folder whose grid lists its rows.
    Grid(PathBuf, GridManifest),
    /// A run that no grid lists.
    Run(PathBuf),
}
