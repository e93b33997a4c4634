//! `evaluated_at.json`: the best checkpoint of a run measured under edits of its model, as `loop.steps = 8`, and kept in its folder.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::table::ResultsRow;
use super::{sealed, unsealed};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, SMALL};
use rtc_base::disk::write_file;

pub(super) const FILE: &str = "evaluated_at.json";

/// Measurements under edits, and their origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluatedAt {
    /// The run.
    pub run: String,
    /// The program.
    pub rtc: String,
    /// Updates of the checkpoint.
    pub update: u64,
    /// Fingerprint of the data.
    pub data: String,
    /// One entry per edit, in the order of measurement.
    pub edits: Vec<EditResults>,
}

/// The splits of the experiment under one edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EditResults {
    /// The edit, as `loop.steps = 8`.
    pub edit: String,
    /// The results in the order of the splits.
    pub splits: Vec<ResultsRow>,
}

impl EditResults {
    /// The path and the value of the edit.
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.edit.split_once(" = ")
    }
}

impl EvaluatedAt {
    /// Reads the measurements in the folder of a run. Returns nothing if there are none, or if the file was changed: the next
    /// `rtc ablate` measures again.
    pub fn read(folder: &Path) -> Option<Self> {
        unsealed(&beneath::read_named(folder, FILE, SMALL).ok()?).ok()
    }

    /// Returns the results under an edit.
    pub fn get(&self, edit: &str) -> Option<&EditResults> {
        self.edits.iter().find(|found| found.edit == edit)
    }

    /// Writes the measurements into the folder of the run.
    ///
    /// # Errors
    /// The system refuses to write the file.
    pub fn write(&self, folder: &Path) -> Result<(), IoError> {
        write_file(&folder.join(FILE), sealed(self))
    }
}
