//! A check of everything in the folder of a run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use super::failure::{FAILURE, TrainingFault};
use super::history::{History, TimingLine, lines};
use super::watched::{HISTOGRAMS, SAMPLES, histograms, samples};
use super::{
    ANSWERS, CHECKPOINTS, EVENTS, METRICS, RESULTS, RUN, RunAnswers, RunInfo, SavedRun, TIMING, evaluated_at, lengths,
    read, results, tensorboard, unsealed,
};
use crate::error::{CheckpointError, Error};
use crate::record::checkpoint::{self, CheckpointSlot};
use crate::record::table::ResultsTable;
use rtc_base::disk::IoError;
use rtc_base::disk::beneath;

/// A part of a run that was checked.
#[derive(Debug)]
pub struct VerifiedPart {
    /// A file, or a folder with a checkpoint, from the folder of the run.
    pub name: String,
    /// What is wrong with it.
    pub fault: Option<Error>,
}

/// Checks the folder of a run, in which another process may be training, and changes nothing in it.
pub fn verify(path: &Path) -> Vec<VerifiedPart> {
    let info = match RunInfo::read(path) {
        Ok(info) => info,
        // Nothing else can be told from damage without it.
        Err(fault) => return vec![VerifiedPart { name: RUN.to_owned(), fault: Some(fault) }],
    };
    let mut found = vec![VerifiedPart { name: RUN.to_owned(), fault: None }];
    let mut add = |name: &str, result: Result<(), Error>| {
        found.push(VerifiedPart { name: name.to_owned(), fault: result.err() });
    };
    for name in info.files.keys() {
        add(name, info.file(path, name).map(drop));
    }
    let written = results(path, &info);
    let finished = matches!(written, Ok(Some(_)));
    let mut table = None;
    match written {
        Ok(None) => {}
        Ok(Some(results)) => {
            add(ANSWERS, RunAnswers::check(path, &results));
            let read = ResultsTable::deserialize(results).map_err(|error| refused(path, format!("{RESULTS}: {error}")));
            add(RESULTS, read.map(|read| table = Some(read)));
        }
        Err(error) => add(RESULTS, Err(error)),
    }
    add(METRICS, History::read(path).map(drop));
    let watched = [(SAMPLES, samples(path).map(drop)), (HISTOGRAMS, histograms(path).map(drop))];
    watched
        .into_iter()
        .filter(|(name, found)| found.is_err() || beneath::exists(&path.join(name)))
        .for_each(|(name, found)| add(name, found));
    add(TIMING, timing(path, &info.run, table.as_ref()).map(drop));
    add(EVENTS, events(path, finished));
    match TrainingFault::read(path) {
        Ok(None) => {}
        found => add(FAILURE, found.map(drop)),
    }
    let derived = [(lengths::FILE, "rtc report"), (evaluated_at::FILE, "rtc ablate")];
    for (name, command) in derived.into_iter().filter(|(name, _)| beneath::exists(&path.join(name))) {
        add(name, measured_later(path, &info, name, command));
    }
    match (saved_names(path, finished), SavedRun::read(path)) {
        (Ok(names), Ok(run)) => {
            names.iter().for_each(|name| add(&format!("{CHECKPOINTS}/{name}"), saved(path, &run, name)))
        }
        (Err(fault), _) => add(CHECKPOINTS, Err(fault.into())),
        // Without the run nothing can be said of them. What is wrong with it may stand above.
        (Ok(_), Err(fault)) if found.iter().all(|part| part.fault.is_none()) => {
            found.push(VerifiedPart { name: CHECKPOINTS.to_owned(), fault: Some(fault) });
        }
        (Ok(_), Err(_)) => {}
    }
    found
}

fn refused(path: &Path, reason: String) -> Error {
    CheckpointError { path: path.to_path_buf(), reason, previous: None }.into()
}

/// The records of the file for TensorBoard: the first one says what it is, and then there is one for every line of the metrics, the
/// samples and the histograms. That of a run that goes on may end with a part of one, and that of a run that was just begun may not be there.
fn events(path: &Path, finished: bool) -> Result<(), Error> {
    let bytes = present(path, EVENTS, finished)?;
    let Some(whole) = tensorboard::whole(&bytes).filter(|whole| !finished || whole.bytes == bytes.len()) else {
        return Err(refused(path, format!("its {EVENTS} was changed or cut off")));
    };
    let mut lines = 0;
    for (name, must_be) in [(METRICS, finished), (SAMPLES, false), (HISTOGRAMS, false)] {
        lines += present(path, name, must_be)?.iter().filter(|byte| **byte == b'\n').count();
    }
    match finished && whole.records != lines + 1 {
        true => Err(refused(
            path,
            format!("its {EVENTS} has not a record for every line of {METRICS} and of the other records"),
        )),
        false => Ok(()),
    }
}

/// A file that a finished run must have; that of another one is empty if it is not there yet.
fn present(path: &Path, name: &str, finished: bool) -> Result<Vec<u8>, IoError> {
    match read(path, name) {
        Err(error) if error.source.kind() == ErrorKind::NotFound && !finished => Ok(vec![]),
        read => read,
    }
}

/// The lines of `timing.jsonl`; that of a run that goes on may end with half a line. That of a finished run ends with the last
/// measurement of its table, if there is one.
pub(super) fn timing(path: &Path, run: &str, table: Option<&ResultsTable>) -> Result<Vec<TimingLine>, Error> {
    let bytes = present(path, TIMING, table.is_some())?;
    let lines: Vec<TimingLine> = lines(path, TIMING, &bytes, run)?;
    let Some(table) = table else { return Ok(lines) };
    let last = lines.last().map(|line| &line.what);
    let measured = table.rows.last().is_none_or(|row| last == Some(&row.split));
    match bytes.ends_with(b"\n") && measured {
        true => Ok(lines),
        false => Err(refused(path, format!("its {TIMING} was cut off"))),
    }
}

/// Measurements that were made after the training, and can be made again by a command.
fn measured_later(path: &Path, info: &RunInfo, name: &str, command: &str) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Origin {
        run: String,
    }
    let again = format!("`{command}` measures again");
    let found: Origin =
        unsealed(&read(path, name)?).map_err(|why| refused(path, format!("its {name} {why}; {again}")))?;
    match found.run == info.run {
        true => Ok(()),
        false => Err(refused(path, format!("its {name} belongs to another run; {again}"))),
    }
}

/// The names of the checkpoints: those that are there, and of a finished run those that must be.
fn saved_names(path: &Path, finished: bool) -> Result<Vec<String>, IoError> {
    let folder = path.join(CHECKPOINTS);
    match beneath::open_folder(path, Path::new(CHECKPOINTS)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(IoError::at("read", &folder)(error)),
        _ => {}
    }
    let mut names: Vec<String> = match fs::read_dir(&folder) {
        Ok(entries) => {
            let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            entries.map(|entry| entry.map(name)).collect::<Result<_, _>>().map_err(IoError::at("read", &folder))?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => vec![],
        Err(error) => return Err(IoError::at("read", &folder)(error)),
    };
    // A save that a killed process did not end, or that is being made.
    names.retain(|name| !checkpoint::is_unfinished(name));
    names.extend(
        [CheckpointSlot::Best, CheckpointSlot::Last].map(CheckpointSlot::name).into_iter().filter(|_| finished),
    );
    names.sort();
    names.dedup();
    Ok(names)
}

fn saved(path: &Path, run: &SavedRun, name: &str) -> Result<(), Error> {
    let slot = CheckpointSlot::named(name);
    let found = checkpoint::find(path, &path.join(CHECKPOINTS).join(name))?;
    run.check_checkpoint(&found, slot)?;
    let progress = found.checkpoint.state.progress;
    // An earlier save of a run that was gone on with may know of more: these updates are being made again.
    let last = slot == Some(CheckpointSlot::Last);
    for (name, saved) in progress.records.by_name().into_iter().filter(|_| last) {
        let file = path.join(name);
        let length = match file.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(IoError::at("read", &file))?.len(),
        };
        if length < saved {
            return Err(refused(path, format!("its {name} is shorter than when this checkpoint was saved")));
        }
    }
    Ok(())
}
