//! Rows of a split that are read while a training needs them, so that memory does not grow with the file.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, Metadata};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Example;
use super::files::open::regular;
use crate::error::DataError;
use crate::reading::unreadable;

/// Rows that can be read one by one, in any order.
pub trait StreamedRows: Debug + Send + Sync {
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
pub struct Stream(pub Arc<dyn StreamedRows>);

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint() == other.0.fingerprint()
    }
}

/// A file as it was when its rows were counted, for as long as the process lives: a copy of the file has another stamp.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) path: PathBuf,
    facts: FileFacts,
}

/// Facts of a file from the system, which differ for another file and after a change.
#[derive(Clone, Debug, PartialEq)]
struct FileFacts {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Device and inode.
    #[cfg(unix)]
    inode: [u64; 2],
    /// Seconds and nanoseconds of the last change, which no program can set.
    #[cfg(unix)]
    changed: [i64; 2],
}

impl FileFacts {
    fn of(found: &Metadata) -> Self {
        Self {
            bytes: found.len(),
            modified: found.modified().ok(),
            #[cfg(unix)]
            inode: [found.dev(), found.ino()],
            #[cfg(unix)]
            changed: [found.ctime(), found.ctime_nsec()],
        }
    }
}

impl Stamp {
    /// The stamp of a regular file.
    pub(super) fn of(path: &Path) -> Result<Self, DataError> {
        let found = regular(path).and_then(|file| file.metadata()).map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), facts: FileFacts::of(&found) })
    }

    /// Number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.facts.bytes
    }

    /// Opens the file again.
    ///
    /// # Errors
    /// The file has changed, or another one has its name.
    pub(super) fn open(&self) -> Result<File, DataError> {
        let file = regular(&self.path).map_err(|error| unreadable(&self.path, error))?;
        self.check(&file)?;
        Ok(file)
    }

    /// Refuses an open file that has changed. What was read of it before is as it was counted.
    pub(super) fn check(&self, file: &File) -> Result<(), DataError> {
        let now = file.metadata().map_err(|error| unreadable(&self.path, error))?;
        if FileFacts::of(&now) == self.facts {
            return Ok(());
        }
        Err(unreadable(
            &self.path,
            "the file has changed while it was trained on: put it back as it was, and the same command resumes the run",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a.txt"), folder.path().join("b.txt"));
        fs::write(&path, "one").expect("written");
        let stamp = Stamp::of(&path).expect("a file");
        let open = stamp.open().expect("it is as it was");
        fs::write(&other, "two").expect("written");
        let then = open.metadata().and_then(|found| found.modified()).expect("a time");
        File::options().write(true).open(&other).and_then(|file| file.set_modified(then)).expect("set");
        fs::rename(&other, &path).expect("replaced");
        if cfg!(unix) {
            let error = stamp.open().expect_err("another file").to_string();
            assert!(error.contains("a.txt: the file has changed while it was trained on"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_written_while_it_is_open_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.txt");
        fs::write(&path, "one").expect("written");
        let stamp = Stamp::of(&path).expect("a file");
        let open = stamp.open().expect("it is as it was");
        fs::write(&path, "other").expect("written");
        let error = stamp.check(&open).expect_err("it has changed").to_string();
        assert!(error.contains("a.txt: the file has changed while it was trained on"), "{error}");
    }
}
