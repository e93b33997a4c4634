//! Files of a folder, and errors of what they hold.

use std::path::{Path, PathBuf};

use crate::error::DataError;

/// The first of the files, each also with `.gz`, that the folder holds.
pub(super) fn find(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    let paths = files.iter().flat_map(|file| [folder.join(file), folder.join(format!("{file}.gz"))]);
    paths.into_iter().find(|path| path.is_file())
}

/// What lies in a folder, in any order.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = folder.read_dir().and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.map_err(|error| unreadable(folder, error))
}

/// The error of a folder without any file of the task.
pub(super) fn nothing_published(folder: &Path, wanted: &str) -> DataError {
    unreadable(folder, format!("this folder holds no published file of the task, as {wanted}"))
}

/// The error of a file or folder as a whole.
pub(super) fn unreadable(path: &Path, why: impl ToString) -> DataError {
    DataError { file: path.display().to_string(), line: None, message: why.to_string() }
}

/// The error of a broken row.
pub(super) fn broken(path: &Path, line: usize, message: String) -> DataError {
    DataError { file: path.display().to_string(), line: Some(line), message }
}

/// The most bytes of a line: what has no end, as a device, is an error so.
pub const MAX_LINE: u64 = 1 << 24;
