//! A check of everything in the folder of a run.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::history::{History, check_timing};
use super::{
    ANSWERS, CHECKPOINTS, EVENTS, Kept, Lengths, METRICS, RESULTS, RUN, RunInfo, SavedRun, TIMING, lengths, read,
    results, tensorboard, unsealed,
};
use crate::checkpoint::{self, Slot};
use crate::error::{CheckpointError, Error, IoError};
use crate::train::Table;

/// A part of a run that was checked.
#[derive(Debug)]
pub struct Checked {
    /// A file, or a folder with a checkpoint, from the folder of the run.
    pub name: String,
    /// What is wrong with it.
    pub fault: Option<Error>,
}

/// Checks the folder of a run, in which another process may be training, and changes nothing in it.
pub fn verify(path: &Path) -> Vec<Checked> {
    let info = match RunInfo::read(path) {
        Ok(info) => info,
        // Nothing else can be told from damage without it.
        Err(fault) => return vec![Checked { name: RUN.to_owned(), fault: Some(fault) }],
    };
    let mut found = vec![Checked { name: RUN.to_owned(), fault: None }];
    let mut add = |name: &str, result: Result<(), Error>| {
        found.push(Checked { name: name.to_owned(), fault: result.err() });
    };
    for name in info.files.keys() {
        add(name, info.file(path, name).map(drop));
    }
    let written = results(path, &info);
    let finished = matches!(written, Ok(Some(_)));
    match &written {
        Ok(None) => {}
        Ok(Some(results)) => {
            let table = Table::deserialize(results).map_err(|error| refused(path, format!("{RESULTS}: {error}")));
            add(RESULTS, table.map(drop));
            add(ANSWERS, answers(path, results));
        }
        Err(_) => add(RESULTS, results(path, &info).map(drop)),
    }
    add(METRICS, History::read(path).map(drop));
    add(TIMING, check_timing(path, &info.run, finished));
    add(EVENTS, events(path, finished));
    if path.join(lengths::FILE).exists() {
        add(lengths::FILE, of_lengths(path, &info));
    }
    match (saved_names(path, finished), SavedRun::read(path)) {
        (Ok(names), Ok(run)) => {
            names.iter().for_each(|name| add(&format!("{CHECKPOINTS}/{name}"), saved(path, &run, name)))
        }
        (Err(fault), _) => add(CHECKPOINTS, Err(fault.into())),
        // Without the run nothing can be said of them. What is wrong with it may stand above.
        (Ok(_), Err(fault)) if found.iter().all(|part| part.fault.is_none()) => {
            found.push(Checked { name: CHECKPOINTS.to_owned(), fault: Some(fault) });
        }
        (Ok(_), Err(_)) => {}
    }
    found
}

fn refused(path: &Path, reason: String) -> Error {
    CheckpointError { path: path.to_path_buf(), reason, previous: None }.into()
}

fn answers(path: &Path, results: &serde_json::Value) -> Result<(), Error> {
    match Kept::is_intact(path, results)? {
        true => Ok(()),
        false => Err(refused(path, format!("its {ANSWERS} is not the one that {RESULTS} was written with"))),
    }
}

/// The records of the file for TensorBoard; that of a run that goes on may end with a part of one.
fn events(path: &Path, finished: bool) -> Result<(), Error> {
    let bytes = read(path, EVENTS)?;
    match tensorboard::whole(&bytes) {
        Some(length) if length == bytes.len() || !finished => Ok(()),
        _ => Err(refused(path, format!("its {EVENTS} was changed or cut off"))),
    }
}

fn of_lengths(path: &Path, info: &RunInfo) -> Result<(), Error> {
    let name = lengths::FILE;
    let found: Lengths = unsealed(&read(path, name)?)
        .map_err(|why| refused(path, format!("its {name} {why}; `rtc report` measures again")))?;
    match found.run == info.run {
        true => Ok(()),
        false => Err(refused(path, format!("its {name} belongs to another run; `rtc report` measures again"))),
    }
}

/// The names of the checkpoints: those that are there, and of a finished run those that must be.
fn saved_names(path: &Path, finished: bool) -> Result<Vec<String>, IoError> {
    let folder = path.join(CHECKPOINTS);
    let mut names: Vec<String> = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => vec![],
        Err(error) => return Err(IoError::at("read", &folder)(error)),
    };
    // A save that a killed process did not end, or that is being made.
    names.retain(|name| !checkpoint::is_unfinished(name));
    names.extend([Slot::Best, Slot::Last].map(|slot| slot.name().to_owned()).into_iter().filter(|_| finished));
    names.sort();
    names.dedup();
    Ok(names)
}

fn saved(path: &Path, run: &SavedRun, name: &str) -> Result<(), Error> {
    let slot = [Slot::Best, Slot::Last].into_iter().find(|slot| slot.name() == name);
    let found = checkpoint::find(&path.join(CHECKPOINTS).join(name))?;
    run.check_checkpoint(&found, slot)?;
    let progress = found.checkpoint.state.progress;
    let short = [(METRICS, progress.metrics), (EVENTS, progress.events)].into_iter().find(|(file, saved)| {
        let length = fs::metadata(path.join(file)).map_or(0, |file| file.len());
        // An earlier save of a run that was gone on with may know of more: these updates are being made again.
        length < *saved && slot == Some(Slot::Last)
    });
    match short {
        Some((file, _)) => Err(refused(path, format!("its {file} is shorter than when this checkpoint was saved"))),
        None => Ok(()),
    }
}
