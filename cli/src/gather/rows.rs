//! The rows that a report compares: those of a grid as it lists them, and loose runs by model and experiment, named after what
//! differs between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rtc_compiler::spec::{Block, Spec};
use rtc_report::data;
use rtc_runs::experiment::Experiment;
use rtc_runs::grid::{
    CellState, GridCell, GridManifest, GridRow, Sheet, Show, TextTable, measured_sweeps, text_tables,
};
use rtc_runs::record::SavedRun;
use rtc_session::folders::resolved;
use serde_json::Value;

use crate::grid::asked;

/// How many differences the name of a row tells.
const TOLD: usize = 4;

/// The rows of a report, with the runs of each by their index in it.
#[derive(Default)]
pub(super) struct ReportRows {
    rows: Vec<(GridRow, Vec<usize>)>,
    unlisted: Vec<UnlistedRow>,
    /// The row that others are compared with; the first one if no grid names one.
    baseline: Option<usize>,
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
            self.rows.push((GridRow { name, parameters: 0, data: String::new(), cells: absent.collect() }, vec![]));
        }
        let named = manifest.rows.iter().position(|listed| Some(&listed.name) == manifest.baseline.as_ref());
        self.baseline = self.baseline.or(named.map(|at| first + at));
        first
    }

    /// Puts a run into the cell of a row of a grid.
    pub(super) fn put(&mut self, row: usize, run: ReadRun<'_>) {
        let (row, runs) = &mut self.rows[row];
        (row.parameters, row.data) = (run.saved.info.parameters, asked(&run.saved.experiment));
        if let Some(cell) = row.cells.iter_mut().find(|cell| cell.path == run.path) {
            cell.state = run.state;
        }
        runs.push(run.index);
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
                let (parameters, data) = (info.parameters, asked(&run.saved.experiment));
                self.rows.push((GridRow { name: info.model.clone(), parameters, data, cells: vec![] }, vec![]));
                at
            }
        };
        self.rows[at].0.cells.push(GridCell { seed: info.seed, path: run.path.to_owned(), state: run.state });
        self.rows[at].1.push(run.index);
    }

    /// The rows with names of their own, and the tables of their results if any run is finished.
    pub(super) fn finish(mut self) -> (Vec<data::ReportRow>, Vec<TextTable>) {
        self.name_unlisted();
        let rows: Vec<GridRow> = self.rows.iter().map(|(row, _)| row.clone()).collect();
        let show = Show { mixed: true, baseline: Some(self.baseline.unwrap_or(0)), ..Show::default() };
        let finished = rows.iter().any(|row| row.finished().next().is_some());
        let tables = Sheet::new(&rows, &show).ok().filter(|_| finished);
        let by_edit = measured_sweeps(&rows).into_iter().filter_map(|sweep| Sheet::by_edit(&rows, &sweep, &show).ok());
        let tables = tables.into_iter().chain(by_edit).flat_map(|sheet| text_tables(&sheet)).collect();
        (self.rows.into_iter().map(|(row, runs)| data::ReportRow { name: row.name, runs }).collect(), tables)
    }

    /// Rows of one model are told apart by what differs between them.
    fn name_unlisted(&mut self) {
        let names: Vec<String> = self.unlisted.iter().map(|row| self.rows[row.at].0.name.clone()).collect();
        for (row, name) in self.unlisted.iter().zip(&names) {
            let alike: Vec<&UnlistedRow> =
                self.unlisted.iter().zip(&names).filter(|(_, other)| *other == name).map(|(row, _)| row).collect();
            let told = difference(row, &alike);
            let full = if told.is_empty() { name.clone() } else { format!("{name}, {told}") };
            self.rows[row.at].0.name = String::new();
            self.rows[row.at].0.name = self.unused(full);
        }
    }

    /// A name that no row has: the name itself, or with a number.
    fn unused(&self, name: String) -> String {
        let is_free = |name: &String| self.rows.iter().all(|(row, _)| row.name != *name);
        let numbered = (2..).map(|n| format!("{name} ({n})"));
        std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
    }
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
        collect_fields("", &spec.root, &mut found);
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

fn collect_fields(path: &str, block: &Block, found: &mut BTreeMap<String, String>) {
    for (name, setting) in &block.fields {
        found.insert(under(path, name), setting.value.to_string());
    }
    for (n, child) in block.children.iter().enumerate() {
        let before = block.children[..n].iter().filter(|other| other.name() == child.name()).count();
        let own = if before == 0 { child.name().to_owned() } else { format!("{}[{}]", child.name(), before + 1) };
        collect_fields(&under(path, &own), child, found);
    }
}

/// The folder in which runs were found.
pub(super) enum RunSource {
    /// A folder whose grid lists its rows.
    Grid(PathBuf, GridManifest),
    /// A run that no grid lists.
    Run(PathBuf),
}
