//! Rows of tables with tabs or commas between columns.

use std::io::{self, BufRead, Read};
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder};

use crate::error::DataError;
use crate::task::load::{MAX_LINE, broken, open};

/// Whether `"` stands around columns that hold tabs, commas or line breaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// They do.
    Around,
    /// They are characters like all others.
    Plain,
}

/// The rows of a file with the lines on which they begin. Commas separate the columns of `.csv` and `.csv.gz`, tabs those
/// of others.
pub(super) struct Rows<'p> {
    path: &'p Path,
    reader: Reader<Short<Box<dyn BufRead>>>,
}

impl<'p> Rows<'p> {
    pub(super) fn open(path: &'p Path, quotes: Quotes) -> Result<Self, DataError> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let comma = name.trim_end_matches(".gz").ends_with(".csv");
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true);
        builder.delimiter(if comma { b',' } else { b'\t' }).quoting(quotes == Quotes::Around);
        Ok(Self { path, reader: builder.from_reader(Short { inner: open(path)?, line: 0 }) })
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<(usize, ByteRecord), DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = ByteRecord::new();
        let before = self.reader.position().line() as usize;
        match self.reader.read_byte_record(&mut record) {
            Ok(false) => None,
            Ok(true) => Some(Ok((record.position().map_or(before, |at| at.line() as usize), record))),
            Err(error) => Some(Err(broken(self.path, before, error.to_string()))),
        }
    }
}

/// A reader that fails on a line without end, as of a device.
struct Short<R> {
    inner: R,
    line: u64,
}

impl<R: Read> Read for Short<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.line = match buffer[..read].iter().rposition(|byte| *byte == b'\n') {
            Some(at) => (read - at) as u64,
            None => self.line + read as u64,
        };
        if self.line > MAX_LINE {
            return Err(io::Error::other("the line is longer than 16 MiB"));
        }
        Ok(read)
    }
}
