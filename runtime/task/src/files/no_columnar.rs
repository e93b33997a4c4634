//! Refuses Parquet files in a program without the feature `parquet`.

use std::iter;
use std::path::Path;

use super::{Column, FileRow, SeenRow};
use crate::error::DataError;
use crate::reading::unreadable;

/// The rows of a file: there are none.
pub(super) enum ColumnarRows {}

impl ColumnarRows {
    /// The rows for a first look.
    pub(super) fn seen(self) -> impl Iterator<Item = Result<SeenRow, DataError>> + Send {
        match self {}
        #[allow(unreachable_code, reason = "it says the type")]
        iter::empty()
    }
}

impl Iterator for ColumnarRows {
    type Item = Result<FileRow, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match *self {}
    }
}

fn refused(path: &Path) -> DataError {
    unreadable(
        path,
        "this rtc was built without Parquet: build it with `--features parquet`, or write the table as CSV",
    )
}

/// Refuses the file.
pub(super) fn class_names(path: &Path, _: &[Column]) -> Result<Vec<bool>, DataError> {
    Err(refused(path))
}

/// Refuses the file.
pub(super) fn rows(path: &Path, _: &[Column], _: bool) -> Result<ColumnarRows, DataError> {
    Err(refused(path))
}

/// Refuses the file.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DataError> {
    Err(refused(path))
}
