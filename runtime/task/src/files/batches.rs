//! Records of a file in batches: all threads work on one, while the next is read.
//!
//! A batch is a few chunks. One thread works on a chunk, and the results come in the order of the chunks, so that nothing depends on
//! the number of threads.

use std::path::{Path, PathBuf};
use std::{iter, mem};

use rayon::prelude::*;

use super::records::FileRecord;
use super::{FileCell, FileLayout, FileRow, Format, Parser, SeenRow, columnar};
use crate::error::DataError;

/// Bytes of a chunk: small enough for the caches of a core. In tests small files have many chunks.
const CHUNK: usize = if cfg!(test) { 1 << 9 } else { 1 << 18 };
/// Bytes of the first chunk, which is a batch by itself: much is known behind a few rows.
const FIRST: usize = CHUNK >> 4;
/// What a record takes besides its bytes.
const BESIDE: usize = 32;
/// Chunks of a batch for each thread.
const PER_THREAD: usize = 2;

/// A value that a chunk holds.
pub(crate) trait BatchRecord: Send {
    /// About the bytes of the file that it was made of.
    fn bytes(&self) -> usize;
}

impl BatchRecord for FileRecord {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl BatchRecord for FileRow {
    fn bytes(&self) -> usize {
        self.cells.iter().map(FileCell::bytes).sum()
    }
}

impl BatchRecord for SeenRow {
    fn bytes(&self) -> usize {
        self.cells.iter().flatten().map(FileCell::bytes).sum()
    }
}

/// The records of a file, batch by batch.
pub(crate) struct Batches<'s, R> {
    source: Box<dyn Iterator<Item = Result<R, DataError>> + Send + 's>,
    has_ended: bool,
    next: Vec<RecordChunk<R>>,
}

/// Records that follow one another, and the error with which the file ends.
struct RecordChunk<R> {
    records: Vec<R>,
    end: Option<DataError>,
    bytes: usize,
}

impl<R> RecordChunk<R> {
    fn items(self) -> impl Iterator<Item = Result<R, DataError>> {
        self.records.into_iter().map(Ok).chain(self.end.map(Err))
    }
}

impl<'s, R: BatchRecord> Batches<'s, R> {
    /// The batches of some records, of which an error is the last.
    pub(crate) fn new(source: impl Iterator<Item = Result<R, DataError>> + Send + 's) -> Self {
        let mut batches = Self { source: Box::new(source), has_ended: false, next: vec![] };
        let first = batches.read(FIRST);
        batches.next.extend(first);
        batches
    }

    /// The next chunk of about so many bytes; nothing at the end of the file.
    fn read(&mut self, most: usize) -> Option<RecordChunk<R>> {
        let mut chunk = RecordChunk { records: vec![], end: None, bytes: 0 };
        while chunk.bytes < most && !self.has_ended {
            match self.source.next() {
                Some(Ok(record)) => {
                    chunk.bytes += record.bytes() + BESIDE;
                    chunk.records.push(record);
                }
                end => {
                    self.has_ended = true;
                    chunk.end = end.and_then(Result::err);
                }
            }
        }
        (!chunk.records.is_empty() || chunk.end.is_some()).then_some(chunk)
    }

    /// About the bytes of the next batch.
    pub(super) fn bytes(&self) -> usize {
        self.next.iter().map(|chunk| chunk.bytes).sum()
    }

    /// What `work` makes of the chunks of the next batch, in their order; nothing behind the last batch.
    ///
    /// `work` gets the number of the chunk in its batch, below [`most_chunks`].
    pub(crate) fn next<T: Send>(&mut self, work: impl Fn(usize, ChunkItems<'_, R>) -> T + Sync) -> Option<Vec<T>> {
        let batch = mem::take(&mut self.next);
        if batch.is_empty() {
            return None;
        }
        let make = |(number, chunk): (usize, RecordChunk<R>)| work(number, ChunkItems(&mut chunk.items()));
        let mut read = || iter::from_fn(|| self.read(CHUNK)).take(most_chunks()).collect();
        // A pool of one thread, which may be another than this one, would have to be waited for.
        let (made, next) = if rayon::current_num_threads() > 1 {
            rayon::join(|| batch.into_par_iter().enumerate().map(make).collect(), &mut read)
        } else {
            (batch.into_iter().enumerate().map(make).collect(), read())
        };
        self.next = next;
        Some(made)
    }

    /// As [`Batches::next`], one chunk behind the other.
    pub(super) fn next_in_turn<T>(&mut self, mut work: impl FnMut(ChunkItems<'_, R>) -> T) -> Option<Vec<T>> {
        let batch = mem::take(&mut self.next);
        let next = self.read(CHUNK);
        self.next.extend(next);
        (!batch.is_empty()).then(|| batch.into_iter().map(|chunk| work(ChunkItems(&mut chunk.items()))).collect())
    }
}

/// The records or rows of a chunk, and the errors among them.
pub(crate) struct ChunkItems<'c, T>(&'c mut dyn Iterator<Item = Result<T, DataError>>);

impl<T> Iterator for ChunkItems<'_, T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// The most chunks of a batch.
pub(crate) fn most_chunks() -> usize {
    PER_THREAD * rayon::current_num_threads()
}

/// The rows of a file, batch by batch.
pub(crate) enum RowBatches {
    /// Rows that are made of records of text.
    Text(TextBatches),
    /// Rows of a Parquet file.
    Columnar(ColumnarBatches),
}

/// Records of text, and what makes rows of them.
pub(crate) struct TextBatches {
    records: Batches<'static, FileRecord>,
    parser: Parser,
    path: PathBuf,
}

/// Rows as they are decoded.
pub(crate) struct ColumnarBatches(Batches<'static, FileRow>);

impl FileLayout {
    /// The rows of a file, batch by batch.
    ///
    /// # Errors
    /// As [`FileLayout::rows`].
    pub(crate) fn batches(&self, path: &Path) -> Result<RowBatches, DataError> {
        if self.format(path)? == Format::Parquet {
            let rows = columnar::rows(path, &self.columns, self.form.class_names)?;
            return Ok(RowBatches::Columnar(ColumnarBatches(Batches::new(rows))));
        }
        let (records, parser) = self.begin(path)?;
        Ok(RowBatches::Text(TextBatches { records: Batches::new(records), parser, path: path.to_owned() }))
    }
}

impl RowBatches {
    /// What `work` makes of the rows of each chunk of the next batch, in their order; nothing behind the last batch. An error of a row
    /// need not be the last.
    ///
    /// `work` gets the number of the chunk in its batch, below [`most_chunks`].
    pub(crate) fn next<T: Send>(
        &mut self,
        work: impl Fn(usize, ChunkItems<'_, FileRow>) -> T + Sync,
    ) -> Option<Vec<T>> {
        match self {
            Self::Text(TextBatches { records, parser, path }) => records.next(|number, chunk| {
                let mut rows = chunk.filter_map(|record| parser.row(record, path));
                work(number, ChunkItems(&mut rows))
            }),
            Self::Columnar(ColumnarBatches(rows)) => rows.next(work),
        }
    }

    /// As [`RowBatches::next`], one chunk behind the other.
    pub(crate) fn next_in_turn<T>(&mut self, mut work: impl FnMut(ChunkItems<'_, FileRow>) -> T) -> Option<Vec<T>> {
        match self {
            Self::Text(TextBatches { records, parser, path }) => {
                records.next_in_turn(|chunk| work(ChunkItems(&mut chunk.filter_map(|record| parser.row(record, path)))))
            }
            Self::Columnar(ColumnarBatches(rows)) => rows.next_in_turn(work),
        }
    }

    /// About the bytes of the next batch.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.records.bytes(),
            Self::Columnar(ColumnarBatches(rows)) => rows.bytes(),
        }
    }

    /// Calls `take` with what `make` makes of each row, in their order, until it returns false. Returns whether all rows were taken.
    ///
    /// # Errors
    /// The first error of `take`.
    pub(crate) fn each<T: Send>(
        mut self,
        make: impl Fn(FileRow) -> T + Sync,
        mut take: impl FnMut(Result<T, DataError>) -> Result<bool, DataError>,
    ) -> Result<bool, DataError> {
        let chunk = |_: usize, rows: ChunkItems<'_, FileRow>| -> Vec<Result<T, DataError>> {
            rows.map(|row| row.map(&make)).collect()
        };
        while let Some(made) = self.next(chunk) {
            for row in made.into_iter().flatten() {
                if !take(row)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rtc_base::rng::Key;

    use super::*;
    use crate::files::{Column, TextForm};

    /// A row of a table or of JSON lines, some of which are wrong.
    fn row(n: usize, is_json: bool) -> String {
        let mut draws = Key::new(n as u64).draws();
        let words = ["a", "ü", "\"\"b\"\"", "c,d", " ", "e\nf", "5", ""];
        let text: String = (0..draws.below(9)).map(|_| words[draws.below(8) as usize]).collect();
        match (draws.below(60), is_json) {
            (0, false) => "\n".to_owned(),
            (1, false) => "\"x\"y,1\n".to_owned(),
            (2, false) => format!("{n}\n"),
            (_, false) => format!("\"{text}\",{n}\r\n"),
            (0, true) => "{\n".to_owned(),
            (1, true) => " \n".to_owned(),
            (_, true) => format!("{}\n", serde_json::json!({ "text": text, "label": [n, null] })),
        }
    }

    #[test]
    fn batches_have_the_rows_of_the_file_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let columns = ["text", "label"].map(|name| Column::Name(name.to_owned())).to_vec();
        let layout = FileLayout { format: None, columns, form: TextForm::default(), commas: vec![] };
        for (name, head, tail) in [("a.csv", "text,label\n", ""), ("a.jsonl", "", ""), ("b.csv", "text,label\n", "\"x")]
        {
            let path = folder.path().join(name);
            let rows: String = (0..800).map(|n| row(n, name == "a.jsonl")).collect();
            fs::write(&path, [head, &rows, tail].concat()).expect("written");
            let text = |row: Result<FileRow, DataError>| row.map_err(|error| error.to_string());
            let expected: Vec<Result<FileRow, String>> = layout.rows(&path).expect("readable").map(text).collect();
            assert!(expected.len() > 700 && expected.iter().any(Result::is_err), "{name}");
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
                let mut found = vec![];
                let mut take = |row| {
                    found.push(text(row));
                    Ok(true)
                };
                pool.install(|| layout.batches(&path)?.each(|row| row, &mut take)).expect("no error is passed on");
                assert_eq!(found, expected, "{name} by {threads}");
                let mut found = vec![];
                let mut batches = layout.batches(&path).expect("readable");
                while batches.next_in_turn(|rows| found.extend(rows.map(text))).is_some() {}
                assert_eq!(found, expected, "{name} in turn");
            }
        }
    }
}
