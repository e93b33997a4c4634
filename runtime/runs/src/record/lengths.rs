//! `lengths.json`: accuracy and depth by length, measured once and kept in the folder of a run.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{sealed, unsealed};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, SMALL};
use rtc_base::disk::write_file;

pub(super) const FILE: &str = "lengths.json";

/// Measurements at lengths, and their origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthMeasurements {
    /// The run.
    pub run: String,
    /// The program.
    pub rtc: String,
    /// Updates of the checkpoint.
    pub update: u64,
    /// Examples of every split, at most.
    pub examples: usize,
    /// The splits, in the order of the experiment.
    pub splits: Vec<SplitLengths>,
}

/// Accuracy and depth on the examples of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfLength {
    /// Tokens of an example, for a pair of the longer side; or the length that its task counts.
    pub length: usize,
    /// Number of examples.
    pub examples: u64,
    /// Number of predictions that were scored.
    pub scored: u64,
    /// How many of them were right.
    pub correct: u64,
    /// Sum over the examples of their accepted steps (for a pair the mean of both sides), if the model halts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<f64>,
}

/// A split, measured length by length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitLengths {
    /// The split.
    pub split: String,
    /// Its lengths, shortest first.
    pub lengths: Vec<OfLength>,
}

impl LengthMeasurements {
    /// What is kept in a folder, if it is as it was written: it can be measured again.
    pub fn read(folder: &Path) -> Option<Self> {
        unsealed(&beneath::read_named(folder, FILE, SMALL).ok()?).ok()
    }

    /// Keeps it in a folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path) -> Result<(), IoError> {
        write_file(&folder.join(FILE), sealed(self))
    }
}
