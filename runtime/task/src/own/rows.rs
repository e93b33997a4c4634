//! Rows of large tables, read from their files on demand: memory holds only the start of each row.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::placement::RowFilter;
use super::{Own, RowUse};
use crate::error::DataError;
use crate::files::records::FileRecord;
use crate::files::{FileRow, Format, Parser};
use crate::fingerprint::Hasher;
use crate::reading::unreadable;
use crate::stream::{Stamp, StreamedRows};
use crate::summary::LabelCounts;
use crate::{Cuts, Example};

/// The location of a row in the files.
#[derive(Clone, Copy, Debug)]
struct RowLocation {
    offset: u64,
    bytes: u32,
    length: u32,
    file: u32,
}

/// Rows of text files.
#[derive(Debug)]
pub(super) struct TableRows {
    own: Own,
    files: Vec<(Stamp, Parser)>,
    places: Vec<RowLocation>,
    tokens: u64,
    labels: LabelCounts,
    fingerprint: String,
}

impl TableRows {
    /// Whether rows of these files can be read one by one.
    pub(super) fn can(own: &Own, files: &[PathBuf]) -> Result<bool, DataError> {
        for path in files {
            let (layout, format) = (&own.plan.layout, own.plan.layout.format(path)?);
            if format == Format::Text || layout.form.is_made(path, format)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the rows of a part of some files, checks every one of them, and counts those that are cut.
    pub(super) fn find(own: &Own, files: &[PathBuf], part: &RowFilter, most: usize) -> Result<(Self, Cuts), DataError> {
        let mut cuts = Cuts::default();
        let (own, labels, fingerprint) = (own.clone(), LabelCounts::default(), String::new());
        let mut found = Self { own: own.clone(), files: vec![], places: vec![], tokens: 0, labels, fingerprint };
        let mut hash = Hasher::default();
        for path in files {
            let stamp = Stamp::of(path)?;
            let (_, parser) = own.plan.layout.begin(path)?;
            found.files.push((stamp.clone(), parser));
            let hashes = own.learned.hashes.of(path);
            let make = |row: FileRow| (own.use_of(&row, part, hashes), FileRow { cells: vec![], ..row });
            own.plan.layout.batches(path)?.each(make, |made| {
                let (used, row) = made?;
                if found.places.len() >= most {
                    return Ok(true);
                }
                match used.map_err(|message| own.fault(path, &row, message))? {
                    RowUse::Other => {}
                    RowUse::Unlabelled => cuts.unlabelled += 1,
                    RowUse::Example { example, cut } => {
                        cuts.add(cut);
                        hash.example(&example);
                        found.add(&row, &example);
                    }
                }
                Ok(true)
            })?;
            // The rows are those of the file that has the stamp.
            stamp.open()?;
        }
        found.fingerprint = hash.text();
        Ok((found, cuts))
    }

    /// Notes a row of the last file.
    fn add(&mut self, row: &FileRow, example: &Example) {
        self.labels.add(example);
        let (length, file) = (example.length() as u32, self.files.len() as u32 - 1);
        self.places.push(RowLocation { offset: row.offset, bytes: row.bytes, length, file });
        self.tokens += (example.tokens.len() + example.second.as_ref().map_or(0, Vec::len)) as u64;
    }
}

impl StreamedRows for TableRows {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn length(&self, row: usize) -> usize {
        self.places[row].length as usize
    }

    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn label_shares(&self) -> BTreeMap<u32, f64> {
        self.labels.shares()
    }

    fn held(&self) -> u64 {
        (self.places.len() * size_of::<RowLocation>()) as u64
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn row(&self, row: usize) -> Result<Example, DataError> {
        let RowLocation { offset, bytes, file, .. } = self.places[row];
        let (stamp, parser) = &self.files[file as usize];
        let mut text = vec![0; bytes as usize];
        let mut file = stamp.open()?;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut text));
        stamp.check(&file)?;
        read.map_err(|error| unreadable(&stamp.path, error))?;
        let record = FileRecord::new(1, offset, text);
        let cells = parser.cells(&record.bytes).map_err(|fault| fault.at(&stamp.path, &record))?;
        let (example, _) = self.own.example(&cells).map_err(|message| unreadable(&stamp.path, message))?;
        Ok(example)
    }
}
