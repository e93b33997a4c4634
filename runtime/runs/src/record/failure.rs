//! `failure.json`: why the training in a folder failed.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{sealed, unsealed};
use crate::error::{CheckpointError, Error};
use rtc_base::disk::beneath::{self, SMALL};
use rtc_base::disk::{IoError, write_file};

/// The name of the file.
pub(super) const FAILURE: &str = "failure.json";

/// The reason why a training failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingFault {
    /// The exit code that `rtc train` gives for it.
    pub code: u8,
    /// One sentence.
    pub message: String,
}

impl TrainingFault {
    /// The failure that is recorded in a folder, if one is.
    ///
    /// # Errors
    /// The file can't be read, or is not as it was written.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let bytes = match beneath::read_named(path, FAILURE, SMALL) {
            Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let broken = |why| {
            let reason = format!("its {FAILURE} {why}; without it the run goes on as one that was stopped");
            CheckpointError { path: path.to_path_buf(), reason, previous: None }
        };
        Ok(Some(unsealed(&bytes).map_err(broken)?))
    }

    /// Records it, so that tables of later commands show it too.
    pub fn write(&self, path: &Path) -> Result<(), IoError> {
        write_file(&path.join(FAILURE), sealed(self))
    }

    /// Forgets the failure of an earlier attempt.
    pub fn clear(path: &Path) -> Result<(), IoError> {
        let file = path.join(FAILURE);
        beneath::remove(path, Path::new(FAILURE)).map_err(IoError::at("remove", &file))
    }
}
