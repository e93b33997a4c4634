//! A first look at an unknown file: its columns and their content.

mod column;
mod part;
mod shape;

use std::path::Path;

use super::batches::Batches;
use super::form::guessed;
use super::records::FileRecords;
use super::{Column, FileCell, FileLayout, FileRow, Format, SeenRow, TextForm, columnar};
use crate::error::DataError;
use crate::reading::{broken, unreadable};
use part::LookPart;
use shape::{Header, LineStatistics, header, other_delimiter, other_shape};

pub use column::ColumnLook;

/// What is to be seen of a file.
#[derive(Clone, Debug)]
pub struct FileLook {
    /// How it is written.
    pub format: Format,
    /// How its text is written, as it was said or found.
    pub form: TextForm,
    /// Rows, or lines of a text.
    pub rows: usize,
    /// Its columns; a text has none.
    pub columns: Vec<ColumnLook>,
    /// Whether its first row is a row as all others, so that columns are named by their places.
    pub headless: bool,
    /// Why the first row may be either.
    pub doubt: Option<String>,
    /// Pairs of columns, by their places, that have equally many items in every row.
    pub aligned: Vec<(usize, usize)>,
    /// Pairs of columns that have equally many items in all but a few rows.
    pub nearly_aligned: Vec<Alignment>,
    /// Pairs that go together so far, with the rows in which they do not.
    misaligned: Vec<Alignment>,
    /// The lines of the first row of a .tsv file that has several lines and tabs in a quoted cell.
    pub swallowed: Option<[usize; 2]>,
    /// The first rows that can't be read.
    pub problems: Vec<DataError>,
}

/// Two columns that have equally many items in most rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// The columns, by their places.
    pub columns: (usize, usize),
    /// Rows in which they have not.
    pub rows: usize,
    /// The line of the first of these, and the items of both columns there.
    pub first: Option<(usize, [usize; 2])>,
}

impl Alignment {
    /// Rows in which two columns that go together may differ.
    const MOST: usize = 3;

    /// Whether so few of all rows differ that these are mistakes.
    fn is_rare(&self, rows: usize) -> bool {
        self.rows > 0 && self.rows <= Self::MOST && rows >= 10 * self.rows
    }
}

/// The most different keys of JSON lines: every row is looked at for each of them.
pub const MAX_KEYS: usize = 4_096;
/// Problems that are listed.
const PROBLEMS: usize = 10;
/// Rows by which a header is told from a row.
const SAMPLE: usize = 200;

/// Looks at a file. What the form of its text does not say of delimiter and encoding is found out.
///
/// # Errors
/// A file that can't be opened or read more than once, or whose name does not say how it is written.
pub fn look(path: &Path, form: TextForm) -> Result<FileLook, DataError> {
    look_as(path, Format::of(path).map_err(|why| unreadable(path, why))?, form)
}

/// Looks at a file of this format, whatever its name is.
///
/// # Errors
/// A file that can't be opened or read more than once.
pub fn look_as(path: &Path, format: Format, mut form: TextForm) -> Result<FileLook, DataError> {
    if path.exists() && !path.is_file() {
        return Err(unreadable(path, "a file that is looked at is read several times: copy this into a file first"));
    }
    if form.encoding.is_none() && format != Format::Parquet {
        form.encoding = guessed(path)?;
    }
    if form.delimiter.is_none() {
        form.delimiter = other_delimiter(path, format, form)?;
    }
    let mut look = FileLook {
        format,
        form,
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
    match format {
        Format::Text => {
            let mut shape = LineStatistics::default();
            for record in FileRecords::open(path, None, form.encoding)? {
                if let Ok(record) = &record {
                    shape.see(&record.bytes);
                }
                look.count(record.map(|_| ()));
            }
            look.doubt = shape.doubt();
        }
        Format::Json => look.objects(path)?,
        Format::Csv | Format::Tsv => look.table(path)?,
        Format::Parquet => look.columnar(path)?,
    }
    let rows = look.rows;
    let commas = (look.form.delimiter == Some(b';'), look.form.decimal_comma);
    look.columns.iter_mut().for_each(|column| column.see_commas(rows, commas));
    look.nearly_aligned = look.misaligned.iter().filter(|pair| pair.is_rare(rows)).cloned().collect();
    look.aligned = look.misaligned.iter().filter(|pair| pair.rows == 0).map(|pair| pair.columns).collect();
    Ok(look)
}

impl FileLook {
    fn count(&mut self, row: Result<(), DataError>) {
        match row {
            Ok(()) => self.rows += 1,
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Looks at JSON lines: a column is a key of any object.
    fn objects(&mut self, path: &Path) -> Result<(), DataError> {
        let records = Batches::new(FileRecords::objects(path, self.form.encoding)?);
        let see = |known: &Self, part: &mut LookPart, record| part.see_object(known, record, path);
        self.see_all(records, path, see)?;
        if self.rows == 0 && self.problems.is_empty() {
            return Err(broken(path, 1, super::EMPTY.to_owned()));
        }
        Ok(())
    }

    /// Looks at the rows of a Parquet file.
    fn columnar(&mut self, path: &Path) -> Result<(), DataError> {
        let names = columnar::names(path)?;
        let columns: Vec<Column> = names.iter().cloned().map(Column::Name).collect();
        self.columns = names.iter().map(|name| ColumnLook::new(name, 0)).collect();
        let named = columnar::class_names(path, &columns)?;
        self.columns.iter_mut().zip(&named).for_each(|(column, named)| column.class_names = *named);
        self.form.class_names = named.contains(&true);
        let rows = Batches::new(columnar::rows(path, &columns, self.form.class_names)?.seen());
        let see = |known: &Self, part: &mut LookPart, row: Result<SeenRow, DataError>| {
            let SeenRow { number, cells } = row?;
            let other = || FileCell::Text("{..}".to_owned());
            cells.iter().enumerate().for_each(|(at, cell)| part.nested(at, cell.is_none()));
            let cells: Vec<FileCell> = cells.into_iter().map(|cell| cell.unwrap_or_else(other)).collect();
            part.see(known, &cells, number);
            Ok(())
        };
        self.see_all(rows, path, see)?;
        self.has_rows(path);
        Ok(())
    }

    /// A table without rows is a problem.
    fn has_rows(&mut self, path: &Path) {
        if self.rows == 0 && self.problems.is_empty() && self.doubt.is_none() {
            self.problems.push(unreadable(path, "the file has no rows below the names of its columns: add some"));
        }
    }

    /// Looks at rows of cells.
    fn table(&mut self, path: &Path) -> Result<(), DataError> {
        let form = self.form;
        if let Some((rows, doubt)) = other_shape(path, self.format, form)? {
            (self.rows, self.doubt) = (rows, Some(doubt));
            return Ok(());
        }
        let layout = |columns| FileLayout { format: Some(self.format), columns, form, commas: vec![] };
        let mut names = layout(vec![]).names(path)?;
        let mut columns: Vec<Column> = names.iter().cloned().map(Column::Name).collect();
        let places: Vec<Column> = (1..=names.len()).map(Column::Place).collect();
        let rows = layout(places.clone()).rows(path)?.skip(1).take(SAMPLE);
        let rows: Vec<FileRow> = rows.filter_map(Result::ok).collect();
        match header(&names, &rows) {
            Header::Row => {
                self.headless = true;
                names = places.iter().map(Column::to_string).collect();
                columns = places;
            }
            // Several columns without a name can't be told apart by it: spreadsheets leave them at the end.
            Header::Names if names.iter().filter(|name| name.is_empty()).count() > 1 => {
                names.retain(|name| !name.is_empty());
                columns.retain(|column| *column != Column::Name(String::new()));
            }
            Header::Names => {}
            Header::Doubt(why) => self.doubt = Some(why),
        }
        let (records, parser) = layout(columns).begin(path)?;
        self.columns = names.iter().map(|name| ColumnLook::new(name, 0)).collect();
        let see = |known: &Self, part: &mut LookPart, record| {
            if let Some(row) = parser.row(record, path).transpose()? {
                if known.format == Format::Tsv {
                    part.see_lines(&row);
                }
                part.see(known, &row.cells, row.line);
            }
            Ok(())
        };
        self.see_all(Batches::new(records), path, see)?;
        self.has_rows(path);
        Ok(())
    }
}
