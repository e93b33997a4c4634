//! The folders of the runs of a grid. A cell is found by what it is, a hash of graph, experiment, seed and data, and not by its name,
//! nor by the names of its bindings: what was changed is trained anew, what was not is taken wherever it lies, and older runs are kept
//! aside.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rtc_runs::grid::{CellState, GridManifest};
use rtc_runs::record::{RunFolder, RunInfo, SavedRun};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{folders_in, resolved};
use rtc_session::job::{Data, TrainingJob};

use super::{CellIndex, Grid};

/// How deep below the folder of all runs others are looked for.
const DEEPEST: usize = 6;

/// How many digits of what a cell is name it.
const DIGITS: usize = 16;

/// The run of a cell.
#[derive(Clone, Debug)]
pub(super) struct Located {
    /// What it is in few digits, the same in every process, whatever was read or made of its data.
    pub(super) key: String,
    /// Its folder, in which there may be nothing yet.
    pub(super) path: PathBuf,
    /// How far it is.
    pub(super) state: CellState,
    /// What became of the run that the cell had before.
    pub(super) before: Option<Before>,
}

/// A run that the cell had under earlier settings.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// Where it is kept.
    pub(super) path: PathBuf,
    /// What has changed since then, one sentence per field.
    pub(super) changes: Vec<String>,
}

/// Looks for the runs of all cells, in the order of the rows.
pub(super) struct Finder<'a> {
    grid: &'a Grid,
    /// What the last command has listed.
    manifest: Option<GridManifest>,
    /// The folders of cells that were looked for already, by what they are: rows that are alike have one run.
    known: HashMap<String, PathBuf>,
    /// All finished runs of this program, once they were looked for.
    others: Option<Vec<(PathBuf, RunInfo)>>,
}

impl<'a> Finder<'a> {
    /// Reads what the folder of the grid says of itself. A list that can't be read says nothing: runs are found without it, and the
    /// next training writes it anew.
    pub(super) fn new(grid: &'a Grid) -> Self {
        let manifest = GridManifest::read(&grid.folder).unwrap_or(None);
        Self { grid, manifest, known: HashMap::new(), others: None }
    }

    /// The run of a cell whose data are these, if they are known.
    pub(super) fn find(&mut self, place: CellIndex, data: Option<&Arc<Data>>) -> Result<Located, SessionFailure> {
        let mut job = self.grid.job(place, None);
        job.info.data_hash = data.map(|data| data.hash.clone());
        let content = job.info.cell(&job.experiment);
        let key = key(&job);
        if let Some(path) = self.known.get(&content) {
            let state = look(path, &job).unwrap_or(CellState::Absent);
            return Ok(Located { key, path: path.clone(), state, before: None });
        }
        let own = self.grid.folder.join(&self.grid.models[place.model].folder);
        let named = own.join(format!("seed{}", job.info.seed));
        let listed = self.listed(place, job.info.seed);
        let inside = [listed.clone(), Some(named.clone())].into_iter().flatten().chain(asides(&named)?);
        let mut found = inside.filter(|path| RunFolder::exists(path)).find_map(|path| Some((look(&path, &job)?, path)));
        if found.as_ref().is_none_or(|(state, _)| !matches!(state, CellState::Finished(_))) {
            found = self.elsewhere(&job).or(found);
        }
        let (state, path) = found.unwrap_or_else(|| match look(&named, &job) {
            // Nothing is there, or another process has begun this very run since it was looked for.
            Some(state) => (state, named.clone()),
            None => {
                let path = with_hash(&named, &content);
                (look(&path, &job).unwrap_or(CellState::Absent), path)
            }
        });
        self.known.insert(content, path.clone());
        let before = self.before([listed, Some(named)], &path, &job, place);
        Ok(Located { key, path, state, before })
    }

    /// The folder that the last command has listed for a cell.
    fn listed(&self, place: CellIndex, seed: u64) -> Option<PathBuf> {
        let name = &self.grid.models[place.model].name;
        let row = self.manifest.as_ref()?.rows.iter().find(|row| row.name == *name)?;
        let cell = row.cells.iter().find(|cell| cell.seed == seed)?;
        Some(resolved(&self.grid.folder, &cell.run))
    }

    /// A finished run of this program that is the cell, in whatever folder it was trained.
    fn elsewhere(&mut self, job: &TrainingJob) -> Option<(CellState, PathBuf)> {
        let others = self.others.get_or_insert_with(|| {
            let mut found = vec![];
            collect(&self.grid.runs, DEEPEST, &mut found);
            found
        });
        let alike = |info: &RunInfo| {
            let same = (&info.spec_hash, &info.graph_hash) == (&job.info.spec_hash, &job.info.graph_hash);
            info.seed == job.info.seed && (same || info.is_renamed(&job.info))
        };
        let candidates = others.iter().filter(|(_, info)| alike(info));
        candidates.map(|(path, _)| path).find_map(|path| match look(path, job)? {
            CellState::Finished(measured) if measured.program.versions == self.grid.program => {
                Some((CellState::Finished(measured), path.clone()))
            }
            _ => None,
        })
    }

    /// The run that the cell had before, the listed one or else the one in its plain folder, if it is another one. A cell that was
    /// listed as it is now has had it already.
    fn before(
        &self,
        [listed, named]: [Option<PathBuf>; 2],
        path: &Path,
        job: &TrainingJob,
        place: CellIndex,
    ) -> Option<Before> {
        if listed.as_deref() == Some(path) {
            return None;
        }
        let old = [listed, named].into_iter().flatten().find(|old| old != path && RunFolder::exists(old))?;
        let changes = self.changes(&old, job, place);
        (!changes.is_empty()).then_some(Before { path: old, changes })
    }

    /// What makes the cell another run than the one in this folder.
    fn changes(&self, old: &Path, job: &TrainingJob, place: CellIndex) -> Vec<String> {
        let spec = self.grid.models[place.model].compiled.definition.text();
        match SavedRun::read(old) {
            Ok(saved) => saved.changes(&spec, &job.experiment, &job.info).iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("it can't be read any more ({error})")],
        }
    }
}

/// The digits of a cell: of data that are generated, its experiment says all.
fn key(job: &TrainingJob) -> String {
    let data_hash = job.info.data_hash.clone().filter(|_| job.experiment.task.data.is_some());
    let content = RunInfo { data_hash, ..job.info.clone() }.cell(&job.experiment);
    content.get(..DIGITS).unwrap_or(&content).to_owned()
}

/// How far the cell is in a folder; nothing if that holds another run, or one that can't be read.
pub(super) fn look(path: &Path, job: &TrainingJob) -> Option<CellState> {
    CellState::read(path, &job.experiment, &job.info).ok().flatten()
}

/// The folder of a cell whose plain name is taken by another run.
fn with_hash(named: &Path, content: &str) -> PathBuf {
    let name = named.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    named.with_file_name(format!("{name}-{}", content.get(..8).unwrap_or(content)))
}

/// The folders of the same row and seed under other settings.
fn asides(named: &Path) -> Result<Vec<PathBuf>, SessionFailure> {
    let (Some(row), Some(name)) = (named.parent(), named.file_name()) else { return Ok(vec![]) };
    if !row.is_dir() {
        return Ok(vec![]);
    }
    let start = format!("{}-", name.to_string_lossy());
    let entries = fs::read_dir(row).map_err(|error| SessionFailure::io("read", row, error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)));
    found.sort();
    Ok(found)
}

/// All finished runs below a folder, in the order of their paths. A run that can't be read is left out.
fn collect(folder: &Path, deep: usize, found: &mut Vec<(PathBuf, RunInfo)>) {
    if RunFolder::exists(folder) {
        found.extend(RunFolder::finished(folder).map(|info| (folder.to_owned(), info)));
        return;
    }
    let Some(deep) = deep.checked_sub(1) else { return };
    folders_in(folder).unwrap_or_default().iter().for_each(|path| collect(path, deep, found));
}

/// The way from the folder of a grid to a run below the folder of all runs.
pub(super) fn from_grid(runs: &Path, grid: &Path, run: &Path) -> PathBuf {
    if let Ok(inside) = run.strip_prefix(grid) {
        return inside.to_owned();
    }
    let (Ok(below), Ok(grid)) = (run.strip_prefix(runs), grid.strip_prefix(runs)) else { return run.to_owned() };
    let up = grid.components().map(|_| Path::new(".."));
    up.chain([below]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_runs_lead_there_and_back() {
        let (runs, grid) = (Path::new("runs"), Path::new("runs/a/b"));
        for (run, way) in [("runs/a/b/ut/seed1", "ut/seed1"), ("runs/c/ut/seed1", "../../c/ut/seed1")] {
            assert_eq!(from_grid(runs, grid, Path::new(run)), Path::new(way));
            assert_eq!(resolved(grid, Path::new(way)), Path::new(run));
        }
    }

    #[test]
    fn a_folder_that_is_taken_gets_a_name_beside_it() {
        assert_eq!(with_hash(Path::new("g/ut/seed1"), "0123456789"), Path::new("g/ut/seed1-01234567"));
    }
}
