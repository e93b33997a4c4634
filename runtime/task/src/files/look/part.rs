//! A look at rows that follow one another, and what all such looks make together.
//!
//! Threads look at different rows at once. What depends on the rows before (the first values, numbers that count on, problems) is made
//! of the parts in their order, so that the result is that of one row after the other.

use std::collections::HashMap;
use std::iter;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Map, Value};

use super::column::{ColumnLook, ColumnPart};
use super::{Alignment, FileLook, MAX_KEYS, PROBLEMS};
use crate::error::DataError;
use crate::files::batches::{BatchRecord, Batches};
use crate::files::records::FileRecord;
use crate::files::{Column, FileCell, FileRow, cell, is_blank, object};
use crate::reading::broken;

/// Tables with more columns are not searched for columns of words that go together.
const MOST_PAIRED: usize = 64;

/// What is to be seen of rows that follow one another.
#[derive(Debug)]
pub(super) struct LookPart {
    rows: usize,
    columns: Vec<ColumnPart>,
    /// How many of the columns were known before, which are the first.
    known: usize,
    /// The places of the columns by their keys, in JSON.
    keys: Option<HashMap<String, usize>>,
    /// Pairs of known columns that have equally many items in most rows; those of the part alone are counted.
    aligned: Vec<Alignment>,
    /// See [`FileLook::swallowed`].
    swallowed: Option<[usize; 2]>,
    /// The problem behind the rows.
    problem: Option<RowProblem>,
}

/// A record that is no row.
#[derive(Debug)]
pub(super) struct RowProblem {
    error: DataError,
    kind: ProblemKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemKind {
    /// Other rows may be right.
    Row,
    /// All records are wrong if this is the first.
    First,
    /// The file can't be looked at.
    File,
}

impl From<DataError> for RowProblem {
    fn from(error: DataError) -> Self {
        Self { error, kind: ProblemKind::Row }
    }
}

impl LookPart {
    fn new(known: &FileLook) -> Self {
        let columns: Vec<ColumnPart> = known.columns.iter().map(|column| ColumnPart::new(&column.name, 0, 0)).collect();
        let none = |pair: &Alignment| Alignment { rows: 0, first: None, ..*pair };
        let aligned = known.misaligned.iter().map(none).collect();
        Self { rows: 0, known: columns.len(), columns, keys: None, aligned, swallowed: None, problem: None }
    }

    /// Counts a value that no task takes.
    pub(super) fn nested(&mut self, column: usize, is_nested: bool) {
        self.columns[column].look.nested += usize::from(is_nested);
    }

    /// Sees the cells of a row on a line.
    pub(super) fn see(&mut self, known: &FileLook, cells: &[FileCell], line: usize) {
        let unknown = ColumnLook::default();
        let looks = known.columns.iter().chain(iter::repeat(&unknown));
        let columns = self.columns.iter_mut().zip(cells).zip(looks);
        let counts: Vec<Option<usize>> = columns.map(|((column, cell), look)| column.see(cell, line, look)).collect();
        if known.rows == 0 && self.rows == 0 && counts.len() <= MOST_PAIRED {
            let pairs = (0..counts.len()).flat_map(|a| (a + 1..counts.len()).map(move |b| (a, b)));
            self.aligned = pairs.map(|columns| Alignment { columns, rows: 0, first: None }).collect();
        }
        self.aligned.retain_mut(|pair| {
            let (a, b) = pair.columns;
            let found = [counts[a], counts.get(b).copied().flatten()];
            let [Some(a), Some(b)] = found else { return false };
            if a != b {
                pair.rows += 1;
                pair.first = pair.first.or(Some((line, [a, b])));
            }
            pair.rows <= Alignment::MOST
        });
        self.rows += 1;
    }

    /// Sees whether a quoted cell of a row with tabs between cells holds tabs and line ends.
    pub(super) fn see_lines(&mut self, row: &FileRow) {
        let lines = |cell: &FileCell| match cell {
            FileCell::Text(text) if text.contains('\t') => text.matches('\n').count(),
            _ => 0,
        };
        let below: usize = row.cells.iter().map(lines).sum();
        if below > 0 && self.swallowed.is_none() {
            self.swallowed = Some([row.line, row.line + below]);
        }
    }

    /// Sees an object of JSON.
    pub(super) fn see_object(
        &mut self,
        known: &FileLook,
        record: Result<FileRecord, DataError>,
        path: &Path,
    ) -> Result<(), RowProblem> {
        let record = record.map_err(|error| RowProblem { error, kind: ProblemKind::File })?;
        if is_blank(&record.bytes) {
            return Ok(());
        }
        let fields = record.text().and_then(object).map_err(|why| {
            // What begins as a list, or as an object on several lines, is that in all of its lines.
            let is_other = matches!(record.bytes.trim_ascii(), [b'[', ..] | [b'{']);
            let kind = if is_other { ProblemKind::First } else { ProblemKind::Row };
            RowProblem { error: broken(path, record.line, why), kind }
        })?;
        self.meet(&fields, record.line);
        if self.columns.len() > MAX_KEYS {
            let error = broken(path, record.line, many_keys(self.columns.len()));
            return Err(RowProblem { error, kind: ProblemKind::File });
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let value = fields.get(&column.look.name).unwrap_or(&Value::Null);
            let found = cell(value, &Column::Name(column.look.name.clone()));
            column.look.nested += usize::from(found.is_err());
            cells.push(found.unwrap_or_else(|_| FileCell::Text(value.to_string())));
        }
        self.see(known, &cells, record.line);
        Ok(())
    }

    /// Adds the keys of an object that are not known.
    fn meet(&mut self, fields: &Map<String, Value>, line: usize) {
        let columns = &mut self.columns;
        let keys = self.keys.get_or_insert_with(|| {
            columns.iter().enumerate().map(|(at, column)| (column.look.name.clone(), at)).collect()
        });
        for name in fields.keys() {
            if !keys.contains_key(name) {
                keys.insert(name.clone(), columns.len());
                columns.push(ColumnPart::new(name, line, self.rows));
            }
        }
    }
}

impl FileLook {
    /// Looks at all records, each of which `see` adds to a part.
    ///
    /// # Errors
    /// A file that can't be looked at.
    pub(super) fn see_all<R: BatchRecord>(
        &mut self,
        mut records: Batches<'_, R>,
        path: &Path,
        see: impl Fn(&Self, &mut LookPart, Result<R, DataError>) -> Result<(), RowProblem> + Sync,
    ) -> Result<(), DataError> {
        loop {
            let found = if self.rows == 0 {
                // The first row says which columns go together.
                let one = |look: &mut Self, record| look.add_all(look.parts(iter::once(record), &see), path);
                let found = records.next_in_turn(|mut records| records.try_for_each(|record| one(self, record)));
                found.map(|found| found.into_iter().find(ControlFlow::is_break))
            } else {
                let found = records.next(|_, records| self.parts(records, &see));
                found.map(|found| Some(self.add_all(found.into_iter().flatten(), path)))
            };
            match found {
                None => return Ok(()),
                Some(Some(ControlFlow::Break(end))) => return end,
                Some(_) => {}
            }
        }
    }

    /// The parts of some records, of which each ends at a problem.
    fn parts<R>(
        &self,
        mut records: impl Iterator<Item = Result<R, DataError>>,
        see: &impl Fn(&Self, &mut LookPart, Result<R, DataError>) -> Result<(), RowProblem>,
    ) -> Vec<LookPart> {
        let mut parts = vec![];
        while parts.len() < PROBLEMS {
            let mut part = LookPart::new(self);
            part.problem = records.find_map(|record| see(self, &mut part, record).err());
            let is_last = part.problem.is_none();
            parts.push(part);
            if is_last {
                break;
            }
        }
        parts
    }

    /// Adds parts that follow, up to the one with which the look ends.
    fn add_all(
        &mut self,
        parts: impl IntoIterator<Item = LookPart>,
        path: &Path,
    ) -> ControlFlow<Result<(), DataError>> {
        parts.into_iter().try_for_each(|part| self.add(part, path))
    }

    fn add(&mut self, part: LookPart, path: &Path) -> ControlFlow<Result<(), DataError>> {
        let LookPart { rows, columns, known, aligned, problem, swallowed, .. } = part;
        self.swallowed = self.swallowed.or(swallowed);
        if rows > 0 {
            if self.rows == 0 {
                self.misaligned = aligned;
            } else if !self.misaligned.is_empty() {
                let mut found: HashMap<(usize, usize), Alignment> =
                    aligned.into_iter().map(|pair| (pair.columns, pair)).collect();
                self.misaligned.retain_mut(|pair| {
                    let Some(part) = found.remove(&pair.columns) else { return false };
                    pair.rows += part.rows;
                    pair.first = pair.first.or(part.first);
                    pair.rows <= Alignment::MOST
                });
            }
        }
        let mut columns = columns.into_iter();
        self.columns.iter_mut().zip(columns.by_ref().take(known)).for_each(|(column, part)| column.add(part));
        if let Err(error) = self.add_new(columns, known, rows) {
            return ControlFlow::Break(Err(broken(path, error.0, error.1)));
        }
        self.rows += rows;
        let Some(RowProblem { error, kind }) = problem else { return ControlFlow::Continue(()) };
        if kind == ProblemKind::File {
            return ControlFlow::Break(Err(error));
        }
        self.problems.push(error);
        let is_end = kind == ProblemKind::First && self.rows == 0 || self.problems.len() >= PROBLEMS;
        if is_end { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    }

    /// Adds columns that were not known when their part was looked at; the first `known` were.
    ///
    /// # Errors
    /// More keys than are looked at: the line, and a sentence.
    fn add_new(
        &mut self,
        parts: impl Iterator<Item = ColumnPart>,
        known: usize,
        rows: usize,
    ) -> Result<(), (usize, String)> {
        let (before, mut lines) = (self.columns.len(), vec![]);
        let mut without: HashMap<String, usize> =
            self.columns.iter().enumerate().skip(known).map(|(at, column)| (column.name.clone(), at)).collect();
        for part in parts {
            let at = without.remove(&part.look.name).unwrap_or_else(|| {
                self.columns.push(ColumnLook::new(&part.look.name, self.rows));
                lines.push(part.line);
                self.columns.len() - 1
            });
            self.columns[at].add(part);
        }
        without.into_values().for_each(|at| self.columns[at].missing += rows);
        let Some(line) = lines.get(MAX_KEYS.saturating_sub(before)) else { return Ok(()) };
        let count = before + lines.iter().filter(|own| *own <= line).count();
        Err((*line, many_keys(count)))
    }
}

fn many_keys(count: usize) -> String {
    format!(
        "up to here the rows have {count} different keys, and at most {MAX_KEYS} are looked at: write what a task reads into a file of its \
         own"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rtc_base::rng::Key;

    use super::*;
    use crate::files::records::FileRecords;
    use crate::files::{Format, TextForm};

    /// An object with values of any kind, or a line that is none.
    fn line(n: u64, keys: u64) -> String {
        let mut draws = Key::new(n).draws();
        let mut fields = vec![];
        for _ in 0..draws.below(4) {
            let key = format!("k{}", draws.below(keys));
            let number = draws.below(5);
            let value = [
                "null".to_owned(),
                number.to_string(),
                format!("{n}"),
                format!("\"a{number} b\""),
                format!("[{number}, null]"),
                format!("[[{number}], [2.5]]"),
                "{\"x\": 1}".to_owned(),
                "\" \"".to_owned(),
                "-0.0".to_owned(),
                format!("\"w{n} 2024-01-31\""),
            ][draws.below(10) as usize]
                .clone();
            fields.push(format!("\"{key}\": {value}"));
        }
        // A key that stands twice makes a problem.
        format!("{{\"all\": \"x {n}\", \"two\": \"y z\", {}}}\n", fields.join(", ")).replace(", }", "}")
    }

    #[test]
    fn parts_make_what_one_row_after_the_other_makes() {
        let folder = tempfile::tempdir().expect("a folder");
        for (n, keys) in [(0, 3), (1, 200), (2, 20), (3, 1_000_000)] {
            let path = folder.path().join("a.jsonl");
            let broken = if n == 2 { "{\n" } else { "" };
            let lines: String = (0..6_000).map(|row| line(row * 10 + n, keys)).collect();
            fs::write(&path, [broken, &lines].concat()).expect("written");
            let records = || FileRecords::objects(&path, None).expect("readable");
            let see = |known: &FileLook, part: &mut LookPart, record| part.see_object(known, record, &path);
            let empty = || FileLook {
                format: Format::Json,
                form: TextForm::default(),
                rows: 0,
                columns: vec![],
                headless: false,
                doubt: None,
                aligned: vec![],
                nearly_aligned: vec![],
                misaligned: vec![],
                swallowed: None,
                problems: vec![],
            };
            let mut expected = empty();
            let mut add = |record| expected.add_all(expected.parts(iter::once(record), &see), &path);
            let end = match records().try_for_each(&mut add) {
                ControlFlow::Break(end) => end,
                ControlFlow::Continue(()) => Ok(()),
            };
            let expected = format!("{expected:?} {:?}", end.map_err(|error| error.to_string()));
            for threads in [1, 4] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
                let mut found = empty();
                let end = pool.install(|| found.see_all(Batches::new(records()), &path, see));
                let end = end.map_err(|error| error.to_string());
                if end.is_err() {
                    assert!(expected.ends_with(&format!("{end:?}")), "{end:?}");
                } else {
                    assert_eq!(format!("{found:?} {end:?}"), expected, "{keys} keys by {threads}");
                }
            }
        }
    }
}
