//! `rtc runs remove`, `restore` and `purge`: a removed run lies in a hidden folder beside it until it is purged.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rtc_base::disk::beneath;
use rtc_runs::record::{RunFiles, RunFolder, RunInfo};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{self, REMOVED, RUNS, folders_in, grids_with, no_run, size};
use rtc_session::job::{self, lock};
use rtc_session::labels;
use rtc_session::memory::bytes;
use rtc_session::text::count;

use super::edit::{owned, unlinked};
use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

/// The files of a run that the command writes beside those of the runtime.
const MORE: [&str; 4] = [labels::FILE, labels::LOCK, job::LOCK, "report.html"];

/// A run that is to be removed.
struct Removal {
    /// As it was named.
    path: PathBuf,
    parts: RunFiles,
    bytes: u64,
}

impl Removal {
    /// Refuses what is no run, a link to one, and a run of another user.
    fn of(run: &Path) -> Result<Self, SessionFailure> {
        let path = unlinked(run)?;
        owned(&path)?;
        RunInfo::read(&path)?;
        Ok(Self { parts: RunFiles::of(&path, &MORE)?, bytes: size(&path)?, path })
    }

    fn others(&self) -> String {
        self.parts.others.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Moves it into the hidden folder: as a whole, or its files, where others stay.
    fn run(&self, as_a_whole: bool) -> Result<PathBuf, SessionFailure> {
        let to = slot(&self.path)?;
        if as_a_whole {
            fs::rename(&self.path, &to).map_err(|error| SessionFailure::io("rename", &self.path, error))?;
            return Ok(to);
        }
        for folder in self.parts.folders.iter().rev().map(PathBuf::as_path).chain([Path::new("")]) {
            fs::create_dir_all(to.join(folder)).map_err(|error| SessionFailure::io("create", &to, error))?;
        }
        // `run.json` goes first: without it the folder is none of a run, should the rest be cut off.
        for file in &self.parts.files {
            let from = self.path.join(file);
            fs::rename(&from, to.join(file)).map_err(|error| SessionFailure::io("rename", &from, error))?;
        }
        // A folder with files of others stays.
        self.parts.folders.iter().for_each(|folder| drop(fs::remove_dir(self.path.join(folder))));
        Ok(to)
    }
}

/// Moves runs into hidden folders beside them; without `yes`, lists what would go.
pub(super) fn remove(runs: &[PathBuf], yes: bool, all_files: bool, terminal: &Terminal) -> CommandResult {
    let mut removals = runs.iter().map(|run| Removal::of(run)).collect::<Result<Vec<_>, _>>()?;
    // A run may be named twice.
    let mut seen = BTreeSet::new();
    removals.retain(|one| seen.insert(fs::canonicalize(&one.path).unwrap_or_else(|_| one.path.clone())));
    removals.sort_by(|a, b| a.path.cmp(&b.path));
    // A run that is being trained stays.
    let _locks = if yes { removals.iter().map(|one| lock(&one.path)).collect::<Result<Vec<_>, _>>()? } else { vec![] };
    // Another process may have removed it before this one had the lock.
    removals.iter().try_for_each(|one| RunInfo::read(&one.path).map(drop))?;
    for Removal { path, .. } in &removals {
        for grid in grids_with(path)? {
            let (run, grid) = (path.display(), grid.display());
            terminal.message(&format!("{run} is a cell of the grid {grid}, which would train it again"));
        }
    }
    let all = vec![count(removals.len(), "run"), bytes(removals.iter().map(|one| one.bytes).sum())];
    let rows = removals.iter().map(|one| vec![one.path.display().to_string(), bytes(one.bytes)]);
    let table = columns(&rows.chain([all]).collect::<Vec<_>>());
    for one in removals.iter().filter(|one| !one.parts.others.is_empty()) {
        let (path, others) = (one.path.display(), one.others());
        let goes = if all_files { "go with it" } else { "stay; `--all-files` removes them, too" };
        terminal.message(&format!("{path} has files that are no part of a run, which {goes}: {others}"));
    }
    if !yes {
        terminal.result(&table)?;
        return Err(SessionFailure::Usage("nothing was removed: `--yes` removes these runs".to_owned()));
    }
    for one in &removals {
        let to = one.run(all_files || one.parts.others.is_empty())?;
        let (path, to) = (one.path.display(), to.display());
        terminal.message(&format!(
            "{path} is in {to} now: `rtc runs restore` brings it back, `rtc runs purge` frees its bytes"
        ));
    }
    terminal.result(&table)?;
    Ok(Exit::Done)
}

/// A new place for a run in the hidden folder beside it: `.removed/N/NAME`.
fn slot(run: &Path) -> Result<PathBuf, SessionFailure> {
    let (Some(name), folder) = (run.file_name(), parent(run)) else {
        return Err(SessionFailure::Usage(format!(
            "{} has no name: name the folder of the run from outside",
            run.display()
        )));
    };
    let hidden = folder.join(REMOVED);
    let failed = |error| SessionFailure::io("create", &hidden, error);
    beneath::create_folder(folder, Path::new(REMOVED)).map_err(failed)?;
    for n in 1.. {
        match fs::create_dir(hidden.join(n.to_string())) {
            Ok(()) => return Ok(hidden.join(n.to_string()).join(name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    unreachable!("there are more numbers than folders")
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The numbered places in the hidden folder of a folder, the newest last.
fn slots(folder: &Path) -> Result<Vec<PathBuf>, SessionFailure> {
    let hidden = folder.join(REMOVED);
    if !is_folder(&hidden) {
        return Ok(vec![]);
    }
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let mut found: Vec<_> = folders_in(&hidden)?.into_iter().filter(|path| number(path).is_some()).collect();
    found.sort_by_key(number);
    Ok(found)
}

/// Whether this is a folder, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Brings a removed run back; of several with one name, that which was removed last.
pub(super) fn restore(run: &Path, terminal: &Terminal) -> CommandResult {
    let run: PathBuf = run.components().collect();
    let (found, to) = removed(&run)?.ok_or_else(|| no_run(&run, "no removed run has this name"))?;
    owned(&found)?;
    RunInfo::read(&found)?;
    if to.is_symlink() {
        return Err(SessionFailure::Usage(format!("{} is a link: move it away first", to.display())));
    }
    if RunFolder::exists(&to) {
        return Err(SessionFailure::Usage(format!("there is a run {} already: rename it first", to.display())));
    }
    if !beneath::exists(&to) {
        fs::rename(&found, &to).map_err(|error| SessionFailure::io("rename", &found, error))?;
    } else {
        put_back(&found, &to)?;
    }
    tidy(&found);
    terminal.result(&format!("{}\n", to.display()))?;
    Ok(Exit::Done)
}

/// The folder of a removed run, and where it was.
fn removed(run: &Path) -> Result<Option<(PathBuf, PathBuf)>, SessionFailure> {
    for place in [run.to_owned(), Path::new(RUNS).join(run)] {
        let Some(name) = place.file_name() else { continue };
        let found = slots(parent(&place))?.into_iter().rev().map(|slot| slot.join(name)).find(|path| is_folder(path));
        if let Some(found) = found {
            return Ok(Some((found, place)));
        }
    }
    Ok(None)
}

/// Puts the files of a run back into its folder, in which others have stayed.
fn put_back(found: &Path, to: &Path) -> Result<(), SessionFailure> {
    let RunFiles { files, folders, .. } = RunFiles::of(found, &MORE)?;
    if let Some(file) = files.iter().find(|file| beneath::exists(&to.join(file))) {
        return Err(SessionFailure::Usage(format!(
            "there is a {} already: move it away first",
            to.join(file).display()
        )));
    }
    for folder in folders.iter().rev() {
        beneath::create_folder(to, folder).map_err(|error| SessionFailure::io("create", &to.join(folder), error))?;
    }
    // `run.json` comes last: with it the folder is that of a run.
    for file in files.iter().rev() {
        fs::rename(found.join(file), to.join(file))
            .map_err(|error| SessionFailure::io("rename", &found.join(file), error))?;
    }
    folders.iter().for_each(|folder| drop(fs::remove_dir(found.join(folder))));
    drop(fs::remove_dir(found));
    Ok(())
}

/// Removes the place of a run that is back, and the hidden folder if it was the last one. What is not empty stays.
fn tidy(found: &Path) {
    let hidden = found.ancestors().skip(1).take(2);
    hidden.for_each(|folder| drop(fs::remove_dir(folder)));
}

/// Removes for good what `remove` has put aside in a folder and below it; without `yes`, lists it.
pub(super) fn purge(folder: &Path, yes: bool, terminal: &Terminal) -> CommandResult {
    let mut found = vec![];
    if folder.is_dir() {
        collect(folder, folders::DEEPEST, &mut found)?;
    }
    let (found, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|path| RunInfo::read(path).is_ok() && beneath::is_owned(path));
    for other in others {
        terminal.message(&format!("{} is no run, or belongs to another user, and stays", other.display()));
    }
    if found.is_empty() {
        terminal.message(&format!("no removed run is kept in {} or below it", folder.display()));
        return Ok(Exit::Done);
    }
    let sizes = found.iter().map(|path| size(path)).collect::<Result<Vec<_>, _>>()?;
    let all = vec![count(found.len(), "removed run"), bytes(sizes.iter().sum())];
    let rows = found.iter().zip(&sizes).map(|(path, size)| vec![path.display().to_string(), bytes(*size)]);
    let table = columns(&rows.chain([all]).collect::<Vec<_>>());
    if yes {
        for path in &found {
            let slot = parent(path);
            let name = path.strip_prefix(slot).unwrap_or(path);
            beneath::remove(slot, name).map_err(|error| SessionFailure::io("remove", path, error))?;
            tidy(path);
        }
    }
    terminal.result(&table)?;
    if yes {
        Ok(Exit::Done)
    } else {
        Err(SessionFailure::Usage("nothing was removed: `--yes` removes these for good".to_owned()))
    }
}

/// The removed runs in a folder and below it, but not in a run.
fn collect(folder: &Path, deep: usize, found: &mut Vec<PathBuf>) -> Result<(), SessionFailure> {
    for slot in slots(folder)? {
        found.extend(folders_in(&slot)?);
    }
    let Some(deep) = deep.checked_sub(1).filter(|_| !RunFolder::exists(folder)) else { return Ok(()) };
    folders_in(folder)?.iter().try_for_each(|path| collect(path, deep, found))
}
