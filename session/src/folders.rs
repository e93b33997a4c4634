//! The folders of runs: one that was named, and all below a folder.

use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rtc_runs::grid::GridManifest;
use rtc_runs::record::RunFolder;
use rtc_task::error::hint;

use crate::failure::SessionFailure;
use crate::text::check_text;

/// The folder of all runs, where a command names none.
pub const RUNS: &str = "runs";

/// The hidden folder with the runs that were removed from the folder in which it lies.
pub const REMOVED: &str = ".removed";

/// The word for the run that was begun last.
pub const LAST: &str = "@last";

/// How deep below a folder runs are looked for.
pub const DEEPEST: usize = 8;

/// What lies at or below a folder, each in the order of the paths.
#[derive(Debug, Default)]
pub struct Below {
    /// The folders of runs, cells of grids included.
    pub runs: Vec<PathBuf>,
    /// The folders of grids that list their rows.
    pub grids: Vec<PathBuf>,
}

/// Looks for runs and grids. Nothing is looked for inside of a run, and links are not followed: they may lead around in circles.
pub fn below(folder: &Path) -> Result<Below, SessionFailure> {
    let mut found = Below::default();
    collect(folder, DEEPEST, &mut found)?;
    Ok(found)
}

fn collect(folder: &Path, deep: usize, found: &mut Below) -> Result<(), SessionFailure> {
    if RunFolder::exists(folder) {
        found.runs.push(folder.to_owned());
        return Ok(());
    }
    if GridManifest::exists(folder) {
        found.grids.push(folder.to_owned());
    }
    let Some(deep) = deep.checked_sub(1) else { return Ok(()) };
    folders_in(folder)?.iter().try_for_each(|path| collect(path, deep, found))
}

/// The folders in a folder in the order of their names, but for the one with removed runs. Links are none.
pub fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, SessionFailure> {
    let failed = |error| SessionFailure::io("read", folder, error);
    let mut inside = vec![];
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() && entry.file_name() != REMOVED {
            inside.push(entry.path());
        }
    }
    inside.sort();
    Ok(inside)
}

/// The folder of a run that was named, there or below `runs`.
pub fn find(run: &Path) -> Result<PathBuf, SessionFailure> {
    if run == Path::new(LAST) {
        return last();
    }
    let places = [run.to_owned(), Path::new(RUNS).join(run)];
    places.iter().find(|path| RunFolder::exists(path)).cloned().ok_or_else(|| {
        if run.is_file() {
            return no_run(run, &of_file(run));
        }
        let is_folder = places.iter().any(|path| path.is_dir());
        if is_folder {
            return no_run(run, "there is no run in this folder");
        }
        no_run(run, &format!("there is no such run{}", near(&places)))
    })
}

/// Explains that a file is no run.
fn of_file(file: &Path) -> String {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let name = file.display();
    match ending {
        "rt" | "rtir" => format!(
            "this is a spec, and a run is wanted: `rtc train {name}` makes one, and `rtc runs` lists those that are there"
        ),
        "yaml" | "yml" => format!(
            "this is an experiment, and a run is wanted: `rtc train gut --experiment {name}` makes one, and `rtc runs` lists those \
             that are there"
        ),
        _ => "this is a file, and a run is a folder: `rtc runs` lists those that are there".to_owned(),
    }
}

/// The run beside one of these places whose name is like the last part of the place.
fn near(places: &[PathBuf]) -> String {
    let beside = |place: &PathBuf| {
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let wanted = place.file_name()?.to_string_lossy().into_owned();
        let runs: Vec<PathBuf> = folders_in(folder).ok()?.into_iter().filter(|path| RunFolder::exists(path)).collect();
        let names: Vec<String> = runs.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Some(hint(&wanted, &names)).filter(|hint| !hint.is_empty())
    };
    places.iter().find_map(beside).unwrap_or_default()
}

/// Refuses a name of a run or a grid that has control characters, or is that of the folder with removed runs.
pub fn check_name(what: &str, name: &str) -> Result<(), SessionFailure> {
    if Path::new(name).iter().any(|part| part == REMOVED) {
        return Err(SessionFailure::Usage(format!(
            "{what} must not be `{REMOVED}`, where removed runs are kept. Give another name"
        )));
    }
    check_text(what, name)
}

/// The folder of a grid that was named, there or below `runs`.
pub fn grid(named: &Path) -> Option<PathBuf> {
    [named.to_owned(), Path::new(RUNS).join(named)].into_iter().find(|path| GridManifest::exists(path))
}

/// A folder that was named, there or below `runs`.
pub fn folder(named: &Path) -> Result<PathBuf, SessionFailure> {
    if named == Path::new(LAST) {
        return last();
    }
    let found = [named, &Path::new(RUNS).join(named)].into_iter().find(|path| path.is_dir()).map(Path::to_owned);
    found.ok_or_else(|| no_run(named, "there is no such folder"))
}

fn last() -> Result<PathBuf, SessionFailure> {
    let runs = Path::new(RUNS);
    let all = if runs.is_dir() { below(runs)?.runs } else { vec![] };
    let newest = all.into_iter().filter_map(|path| Some((begun(&path)?, path))).max();
    newest.map(|(_, path)| path).ok_or_else(|| no_run(Path::new(LAST), "there is no run below `runs`"))
}

/// The failure where a named folder has no run.
pub fn no_run(named: &Path, why: &str) -> SessionFailure {
    SessionFailure::io("open", named, io::Error::other(why.to_owned()))
}

/// When a run was begun: its experiment is written then and never again.
pub fn begun(run: &Path) -> Option<SystemTime> {
    fs::metadata(run.join("experiment.yaml")).and_then(|file| file.modified()).ok()
}

/// What a command calls a run: its path, from the folder of all runs where it lies there.
pub fn name(run: &Path) -> String {
    run.strip_prefix(RUNS).ok().filter(|name| *name != Path::new("")).unwrap_or(run).display().to_string()
}

/// The bytes of all files in a folder; what a link leads to lies elsewhere. What goes away meanwhile counts for nothing.
pub fn size(folder: &Path) -> Result<u64, SessionFailure> {
    let failed = |error| SessionFailure::io("read", folder, error);
    let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let entries = match fs::read_dir(folder) {
        Err(error) if gone(&error) => return Ok(0),
        entries => entries.map_err(failed)?,
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path())?,
            Ok(found) => found.len(),
            Err(error) if gone(&error) => 0,
            Err(error) => return Err(failed(error)),
        };
    }
    Ok(bytes)
}

/// The folders of the grids that list a run: those around it, those beside it, and those below `runs`.
pub fn grids_with(run: &Path) -> Result<Vec<PathBuf>, SessionFailure> {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    let Some(own) = whole(run) else { return Ok(vec![]) };
    let mut grids: Vec<PathBuf> =
        own.ancestors().skip(1).filter(|path| GridManifest::exists(path)).map(Path::to_owned).collect();
    let runs = whole(Path::new(RUNS));
    for root in [runs.as_deref(), own.parent()].into_iter().flatten() {
        grids.extend(below(root)?.grids);
    }
    grids.sort();
    grids.dedup();
    let mut found = vec![];
    for grid in grids {
        let rows = GridManifest::read(&grid)?.map(|manifest| manifest.rows).unwrap_or_default();
        if rows.iter().flat_map(|row| &row.cells).any(|cell| whole(&resolved(&grid, &cell.run)).as_ref() == Some(&own))
        {
            found.push(grid);
        }
    }
    let here = env::current_dir().ok();
    let short = |grid: PathBuf| {
        here.as_ref().and_then(|here| grid.strip_prefix(here).ok()).map_or(grid.clone(), Path::to_owned)
    };
    Ok(found.into_iter().map(short).collect())
}

/// A path from a folder, without the steps up in it where they can be taken.
pub fn resolved(folder: &Path, path: &Path) -> PathBuf {
    let mut out = folder.to_owned();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if out.file_name().is_some() => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}
