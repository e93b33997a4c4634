//! Rows of files that are held in memory.

use std::path::Path;

use rtc_base::memory;
use rtc_compiler::ir::formula::bytes;

use crate::error::DataError;
use crate::example::Example;
use crate::files::records::FileRecords;
use crate::reading::{broken, find, unreadable};

/// The most bytes that the examples of a file take in memory, if the machine has so many.
pub const MAX_HELD: u64 = 1 << 33;

/// The rows of the files of a folder, each also with `.gz`, that are training together.
pub(super) fn joined<N: AsRef<str>>(
    folder: &Path,
    names: impl IntoIterator<Item = N>,
    mut read: impl FnMut(&Path) -> Result<Vec<Example>, DataError>,
) -> Result<Vec<Example>, DataError> {
    let mut rows = vec![];
    for name in names {
        let name = name.as_ref();
        let missing = || unreadable(folder, format!("there is no file {name}, which is a part of training"));
        rows.extend(read(&find(folder, &[name]).ok_or_else(missing)?)?);
    }
    Ok(rows)
}

/// What `read` makes of the lines of a text file, each with its number from 1; nothing for a line that it leaves out. The file is
/// unpacked if its name ends in `.gz` or `.zst`.
pub(super) fn lines<T: HeldRow>(
    path: &Path,
    mut read: impl FnMut(usize, &str) -> Result<Option<T>, String>,
) -> Result<Vec<T>, DataError> {
    let mut held = HeldRows::default();
    for record in FileRecords::open(path, None, None)? {
        let record = record?;
        let found = record.text().and_then(|text| read(record.line, text));
        if let Some(row) = found.map_err(|message| broken(path, record.line, message))? {
            held.add(row, path, record.line)?;
        }
    }
    Ok(held.rows)
}

/// A value made of a row of a file, and held.
pub(super) trait HeldRow {
    /// The bytes that it takes in memory.
    fn bytes(&self) -> usize;
}

impl HeldRow for Example {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// The rows of a file.
pub(super) struct HeldRows<T> {
    pub(super) rows: Vec<T>,
    bytes: u64,
    most: u64,
}

impl<T> Default for HeldRows<T> {
    fn default() -> Self {
        Self { rows: vec![], bytes: 0, most: memory::machine().map_or(MAX_HELD, |machine| machine.min(MAX_HELD)) }
    }
}

impl<T: HeldRow> HeldRows<T> {
    /// Keeps one more, which stands on this line.
    ///
    /// # Errors
    /// All of them take more memory than there is, or than is ever taken.
    pub(super) fn add(&mut self, row: T, path: &Path, line: usize) -> Result<(), DataError> {
        self.bytes += row.bytes() as u64;
        if self.bytes > self.most {
            let most = bytes(self.most);
            let message = format!("the rows up to here take more than {most} of memory: give a file with fewer rows");
            return Err(broken(path, line, message));
        }
        self.rows.push(row);
        Ok(())
    }
}
