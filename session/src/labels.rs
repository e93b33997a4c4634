//! `labels.json`: what people call a run and say of it. Nothing that a run computes depends on it.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rtc_base::disk::beneath::{self, SMALL};
use rtc_base::disk::write_file;
use rtc_runs::error::CheckpointError;
use rtc_runs::record::{RunInfo, sealed, unsealed};
use serde::{Deserialize, Serialize};

use crate::failure::SessionFailure;
use crate::folders::folders_in;

/// The file that is locked while labels are changed.
pub const LOCK: &str = ".labels";

/// How often the lock is tried to get, and the time between: a change takes milliseconds.
const TRIES: u32 = 1500;
const PAUSE: Duration = Duration::from_millis(20);

/// The name of the file.
pub const FILE: &str = "labels.json";

/// The labels of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLabels {
    /// The run.
    run: String,
    /// What the command that began it called its experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// The name of the folder in which it was begun, where it has another one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Words of the user, in the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A text of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl RunLabels {
    /// Those of a run that begins.
    pub fn of(info: &RunInfo, experiment: &str) -> Self {
        Self { run: info.run.clone(), experiment: Some(experiment.to_owned()), ..Self::default() }
    }

    /// Whether anything is said of the run in a folder.
    pub fn exist(folder: &Path) -> bool {
        beneath::exists(&folder.join(FILE))
    }

    /// Reads what is said of the run in a folder; that may be nothing.
    pub fn read(folder: &Path, info: &RunInfo) -> Result<Self, SessionFailure> {
        let bytes = match beneath::read_named(folder, FILE, SMALL) {
            Err(error) if error.source.kind() == ErrorKind::NotFound => {
                return Ok(Self { run: info.run.clone(), ..Self::default() });
            }
            read => read?,
        };
        let found: Result<Self, String> = unsealed(&bytes);
        let own = found.and_then(|found| match found.run == info.run {
            true => Ok(found),
            false => Err("belongs to another run".to_owned()),
        });
        own.map_err(|why| {
            let reason = format!("its {FILE} {why}; without it the run has no tags, no note and no earlier name");
            CheckpointError { path: folder.to_owned(), reason, previous: None }.into()
        })
    }

    /// Changes what is said of the run in a folder. Of several processes one does so at a time, and each sees what those before it said.
    pub fn change(
        folder: &Path,
        change: impl FnOnce(&mut Self) -> Result<(), SessionFailure>,
    ) -> Result<Self, SessionFailure> {
        let _lock = lock(folder)?;
        let mut labels = Self::read(folder, &RunInfo::read(folder)?)?;
        change(&mut labels)?;
        labels.write(folder)?;
        Ok(labels)
    }

    /// Says it of the run in a folder.
    pub fn write(&self, folder: &Path) -> Result<(), SessionFailure> {
        Ok(write_file(&folder.join(FILE), sealed(self))?)
    }
}

/// Waits for the processes that change the labels of a run. Where the file system has no locks nobody waits.
fn lock(folder: &Path) -> Result<File, SessionFailure> {
    RunInfo::read(folder)?;
    let failed = |error| SessionFailure::io("lock", &folder.join(LOCK), error);
    let file = beneath::append_or_create(folder, Path::new(LOCK)).map_err(failed)?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(failed(io::Error::other("another process has been changing the labels of this run for a long time")))
}

/// The runs beside a folder that were begun in it and have another name now, and those of which that can't be told.
pub fn renamed(folder: &Path) -> Result<(Vec<PathBuf>, Vec<SessionFailure>), SessionFailure> {
    let (mut found, mut unknown) = (vec![], vec![]);
    let (Some(beside), Some(name)) = (folder.parent(), folder.file_name().and_then(|name| name.to_str())) else {
        return Ok((found, unknown));
    };
    if !beside.is_dir() {
        return Ok((found, unknown));
    }
    for path in folders_in(beside)?.into_iter().filter(|path| RunLabels::exist(path)) {
        match RunInfo::read(&path).map_err(SessionFailure::from).and_then(|info| RunLabels::read(&path, &info)) {
            Ok(labels) if labels.was.as_deref() == Some(name) => found.push(path),
            Ok(_) => {}
            Err(failure) => unknown.push(failure),
        }
    }
    Ok((found, unknown))
}
