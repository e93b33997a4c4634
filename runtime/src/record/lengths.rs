//! `lengths.json`: accuracy and depth by length, measured once and kept in the folder of a run.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{sealed, unsealed};
use crate::disk::beneath::{self, SMALL};
use crate::disk::write_file;
use crate::error::IoError;
use crate::examine::OfLength;

pub(super) const FILE: &str = "lengths.json";

/// What was measured, with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
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

/// A split, measured length by length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitLengths {
    /// The split.
    pub split: String,
    /// Its lengths, shortest first.
    pub lengths: Vec<OfLength>,
}

impl Lengths {
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
