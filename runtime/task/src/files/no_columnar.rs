//! Refuses Parquet files in a program without the feature `parquet`.

use std::iter;
use std::path::Path;

use super::{Cell, Column, Row};
use crate::error::DataError;
use crate::reading::unreadable;

/// The rows of a file: there are none.
pub(super) enum Rows {}

impl Rows {
    /// The rows for a first look.
    pub(super) fn seen(self) -> impl Iterator<Item = Result<(usize, Vec<Option<Cell>>), DataError>> {
        match self {}
        #[allow(unreachable_code, reason = "it says the type")]
        iter::empty()
    }
}

impl Iterator for Rows {
    type Item = Result<Row, DataError>;

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
pub(super) fn rows(path: &Path, _: &[Column]) -> Result<Rows, DataError> {
    Err(refused(path))
}

/// Refuses the file.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DataError> {
    Err(refused(path))
}
