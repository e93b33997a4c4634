//! Rows of a split that are read while a training needs them, so that memory does not grow with the file.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Example;
use super::load::unreadable;
use crate::error::DataError;

/// Rows that can be read one by one, in any order.
pub trait Rows: Debug + Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// Number of tokens of a row; for a pair, of the longer side.
    fn length(&self, row: usize) -> usize;
    /// Number of tokens of all rows.
    fn tokens(&self) -> u64;
    /// The share of every class among the answers that count, as [`describe`](super::describe) has it.
    fn label_shares(&self) -> BTreeMap<u32, f64>;
    /// Bytes of memory that are held to find rows.
    fn held(&self) -> u64;
    /// A text that differs where the rows do.
    fn fingerprint(&self) -> &str;
    /// Reads a row.
    ///
    /// # Errors
    /// Its file has changed since, or can't be read.
    fn row(&self, row: usize) -> Result<Example, DataError>;
}

/// A split that is read while it is needed. Two are equal if their rows are.
#[derive(Clone, Debug)]
pub struct Stream(pub Arc<dyn Rows>);

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint() == other.0.fingerprint()
    }
}

/// A file as it was when its rows were counted.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Result<Self, DataError> {
        let found = path.metadata().map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), bytes: found.len(), modified: found.modified().ok() })
    }

    /// Number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Refuses a file that has changed.
    pub(super) fn check(&self) -> Result<(), DataError> {
        let now = Self::of(&self.path)?;
        if (now.bytes, now.modified) == (self.bytes, self.modified) {
            return Ok(());
        }
        Err(unreadable(
            &self.path,
            "the file has changed while it was trained on: the run goes on once it is as it was",
        ))
    }
}
