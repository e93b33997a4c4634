//! Rows of a user's files by columns: CSV, TSV, JSON lines and Parquet, packed by gzip or Zstandard or not.

pub(crate) mod batches;
#[cfg(feature = "parquet")]
mod columnar;
#[cfg(not(feature = "parquet"))]
#[path = "no_columnar.rs"]
mod columnar;
mod decoded;
mod foreign;
pub(crate) mod form;
mod listed;
mod look;
mod object;
pub(crate) mod open;
#[cfg(feature = "parquet")]
mod pages;
pub(crate) mod paths;
pub(crate) mod records;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use memchr::memchr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{DataError, unknown};
use crate::reading::{broken, unreadable};
use object::object;
use records::{CellSpan, Delimited, FileRecord, FileRecords, NO_TEXT};

pub use form::{TextForm, delimiter, encoding};
pub use look::{Alignment, ColumnLook, FileLook, MAX_KEYS, look, look_as};
pub use records::{MAX_PACKED_ROWS, MAX_UNPACKED};

/// The most values of the columns that are read, the items of lists and missing ones among them.
pub const MAX_VALUES: u64 = 1 << 27;

/// The most bytes of one page, which is unpacked as a whole.
pub const MAX_PAGE: u64 = 1 << 28;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Cells with commas between them.
    Csv,
    /// Cells with tabs between them.
    Tsv,
    /// A JSON object per line.
    Json,
    /// Apache Parquet.
    Parquet,
    /// Text without columns.
    Text,
}

impl Format {
    /// The format of a file by the ending of its name, that of its packing left out.
    ///
    /// # Errors
    /// A sentence about an ending that says nothing, or about a packed Parquet file.
    pub(crate) fn of(path: &Path) -> Result<Self, String> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let plain = [".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
        match plain.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "csv" => Ok(Self::Csv),
            "tsv" | "tab" => Ok(Self::Tsv),
            "jsonl" | "ndjson" | "json" => Ok(Self::Json),
            "parquet" | "pq" if plain.len() < name.len() => {
                Err("a Parquet file is packed inside: unpack it".to_owned())
            }
            "parquet" | "pq" => Ok(Self::Parquet),
            "txt" | "text" | "md" => Ok(Self::Text),
            ending => Err(foreign::by_ending(ending)
                .unwrap_or(
                    "its name ends in none of .csv, .tsv, .jsonl, .parquet and .txt (also with .gz or .zst): `task.format` of an \
                     experiment, or `--format` of `rtc task check`, says how it is written, as `text`",
                )
                .to_owned()),
        }
    }
}

/// The format of a file, where the ending of its name says it.
pub fn format_of(path: &Path) -> Option<Format> {
    Format::of(path).ok()
}

/// A column by its name or, counted from 1, by its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Column {
    /// By its place, in a file without a header.
    Place(usize),
    /// By its name in the header.
    Name(String),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(place) => write!(f, "{place}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The content of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum FileCell {
    /// Text, or a number or a truth value as text.
    Text(String),
    /// A list of texts, with holes where it has `null`.
    List(ListTexts),
    /// A list of lists.
    Lists(Vec<ListTexts>),
    /// Nothing: `null`, or no such field.
    #[default]
    Missing,
}

impl FileCell {
    /// About the bytes of its texts.
    fn bytes(&self) -> usize {
        let list = |items: &ListTexts| items.iter().map(|item| 1 + item.as_ref().map_or(0, String::len)).sum();
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => list(items),
            Self::Lists(lists) => lists.iter().map(list).sum(),
            Self::Missing => 0,
        }
    }
}

/// The texts of a list, with holes where it has `null`.
pub(crate) type ListTexts = Vec<Option<String>>;

/// A row with the cells of the columns that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileRow {
    /// The number of its record in the file, from 1.
    pub(crate) number: usize,
    /// The line on which it begins; in a Parquet file its number. Both from 1.
    pub(crate) line: usize,
    /// The byte with which it begins; 0 where rows have none.
    pub(crate) offset: u64,
    /// Number of its bytes.
    pub(crate) bytes: u32,
    pub(crate) cells: Vec<FileCell>,
}

/// A row of a Parquet file at a first look.
#[derive(Debug)]
struct SeenRow {
    /// Its number, from 1.
    number: usize,
    /// Its cells; nothing in place of a value of a kind that no task takes.
    cells: Vec<Option<FileCell>>,
}

/// The format and the columns that are read of files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileLayout {
    /// The format, where the names of the files don't say it.
    pub(crate) format: Option<Format>,
    pub(crate) columns: Vec<Column>,
    /// How their text is written.
    pub(crate) form: TextForm,
    /// The places among `columns` of those whose cells of CSV and TSV are numbers with a decimal comma.
    pub(crate) commas: Vec<usize>,
}

impl FileLayout {
    /// The format of a file.
    pub(crate) fn format(&self, path: &Path) -> Result<Format, DataError> {
        self.format.map_or_else(|| Format::of(path).map_err(|why| unreadable(path, why)), Ok)
    }

    /// The rows of a file.
    ///
    /// # Errors
    /// A file that can't be opened, or lacks a column.
    pub(crate) fn rows(&self, path: &Path) -> Result<Box<dyn Iterator<Item = Result<FileRow, DataError>>>, DataError> {
        if self.format(path)? == Format::Parquet {
            return Ok(Box::new(columnar::rows(path, &self.columns, self.form.class_names)?));
        }
        let (records, parser) = self.begin(path)?;
        let path = path.to_owned();
        Ok(Box::new(records.filter_map(move |record| parser.row(record, &path))))
    }

    /// The records of a file behind its header, and what makes rows of them.
    pub(crate) fn begin(&self, path: &Path) -> Result<(FileRecords, Parser), DataError> {
        let format = self.format(path)?;
        let encoding = self.form.encoding;
        let Some(shape) = Delimited::of_format(format, self.form) else {
            return match format {
                Format::Json => Ok((FileRecords::objects(path, encoding)?, Parser::Json(self.columns.clone()))),
                _ => Err(unreadable(path, "this format has no rows of text")),
            };
        };
        let mut records = FileRecords::open(path, Some(shape), encoding)?;
        if let Some(places) = self.numbered() {
            let commas = self.commas.clone();
            return Ok((records, Parser::Delimited { shape, width: None, places, commas, header: None }));
        }
        let header = records.next().ok_or_else(|| broken(path, 1, EMPTY.to_owned()))??;
        let parser = self.named(shape, &header).map_err(|fault| fault.at(path, &header))?;
        Ok((records, parser))
    }

    /// The columns by the names in the header.
    fn named(&self, shape: Delimited, header: &FileRecord) -> Result<Parser, RecordFault> {
        if header.bytes.contains(&b'\r') && shape.ends_in_returns(&header.bytes) {
            return Err(RETURNS.to_owned().into());
        }
        let names = texts(shape, &header.bytes)?;
        let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
        names.iter().enumerate().for_each(|(place, name)| known.entry(name).or_default().push(place));
        let place = |column: &Column| {
            let wanted = column.to_string();
            match known.get(&*wanted).map_or(&[][..], Vec::as_slice) {
                [] => Err(RecordFault::from(unknown("column", &wanted, &names) + &shape.other(&header.bytes))),
                [place] => Ok(*place),
                _ => Err(format!("the header names the column `{wanted}` twice: rename one of the two").into()),
            }
        };
        let places = self.columns.iter().map(place).collect::<Result<_, _>>()?;
        let (width, again) = (Some(names.len()), (names.len() > 1).then(|| (header.bytes.clone(), header.line)));
        Ok(Parser::Delimited { shape, width, places, commas: self.commas.clone(), header: again })
    }

    /// Whether a file has names for the classes of one of its columns that are read.
    pub(crate) fn has_class_names(&self, path: &Path) -> Result<bool, DataError> {
        Ok(self.format(path)? == Format::Parquet && columnar::class_names(path, &self.columns)?.contains(&true))
    }

    /// Whether a file has a column. Rows of JSON say it each for itself.
    pub(crate) fn has_column(&self, path: &Path, column: &Column) -> Result<bool, DataError> {
        let names = match self.format(path)? {
            Format::Json => return Ok(true),
            Format::Parquet => columnar::names(path)?,
            Format::Csv | Format::Tsv | Format::Text => self.names(path)?,
        };
        Ok(match column {
            Column::Place(place) => *place <= names.len(),
            Column::Name(name) => names.contains(name),
        })
    }

    /// Refuses a file without a header whose first rows have at least `columns` cells if another mark stands between them.
    ///
    /// # Errors
    /// The first row of such a file, or one that can't be read.
    pub(crate) fn refuse_other_marks(&self, path: &Path, columns: usize) -> Result<(), DataError> {
        let shape = Delimited::of_format(self.format(path)?, self.form).filter(|_| columns > 1);
        let Some(shape) = shape.filter(|_| self.numbered().is_some()) else { return Ok(()) };
        let records = FileRecords::open(path, Some(shape), self.form.encoding)?;
        let rows: Vec<FileRecord> = records.take(SAMPLE).collect::<Result<_, _>>()?;
        let cells = |row: &FileRecord, mark: u8| row.bytes.split(|byte| *byte == mark).count();
        let Some((first, mark)) = rows.first().and_then(|row| Some((row, shape.other_mark(&row.bytes)?))) else {
            return Ok(());
        };
        if rows.iter().all(|row| shape.other_mark(&row.bytes) == Some(mark) && cells(row, mark) >= columns) {
            let why = shape.wanted(mark) + "; `--input-format lines` takes every line as a text";
            return Err(broken(path, first.line, why));
        }
        Ok(())
    }

    /// The names of all columns of a file of text: those of the header, or of the first object.
    fn names(&self, path: &Path) -> Result<Vec<String>, DataError> {
        let shape = Delimited::of_format(self.format(path)?, self.form);
        let mut records = match shape {
            Some(shape) => FileRecords::open(path, Some(shape), self.form.encoding)?,
            None => FileRecords::objects(path, self.form.encoding)?,
        };
        let first = records.find(|record| record.as_ref().map_or(true, |record| !is_blank(&record.bytes)));
        let first = first.ok_or_else(|| broken(path, 1, EMPTY.to_owned()))??;
        let names = match shape {
            Some(shape) => texts(shape, &first.bytes),
            None => text(&first.bytes).and_then(|line| Ok(object(line)?.keys().cloned().collect())),
        };
        names.map_err(|fault| fault.at(path, &first))
    }

    /// The places of the columns, if there are some and all are named by theirs.
    fn numbered(&self) -> Option<Vec<usize>> {
        if self.columns.is_empty() {
            return None;
        }
        let place = |column: &Column| if let Column::Place(place) = column { place.checked_sub(1) } else { None };
        self.columns.iter().map(place).collect()
    }
}

const EMPTY: &str = "the file is empty";
/// Rows by which the mark between cells is told from one of a text.
const SAMPLE: usize = 20;

fn is_blank(record: &[u8]) -> bool {
    record.iter().all(u8::is_ascii_whitespace)
}

/// The reason why a record is no row: lines below the one on which it begins, and a sentence.
#[derive(Clone, Debug)]
pub(crate) struct RecordFault {
    below: usize,
    message: String,
}

impl From<String> for RecordFault {
    fn from(message: String) -> Self {
        Self { below: 0, message }
    }
}

impl RecordFault {
    pub(crate) fn at(self, path: &Path, record: &FileRecord) -> DataError {
        broken(path, record.line + self.below, self.message)
    }
}

fn text(bytes: &[u8]) -> Result<&str, RecordFault> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| {
        let below = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        RecordFault { below, message: NO_TEXT.to_owned() }
    })
}

fn texts(shape: Delimited, record: &[u8]) -> Result<Vec<String>, RecordFault> {
    let record = text(record)?;
    let cells = shape.spans(record.as_bytes()).map(|cell| cell.map(|cell| cell.text(record)));
    Ok(cells.collect::<Result<_, _>>()?)
}

/// Makes rows of records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parser {
    Delimited {
        shape: Delimited,
        /// Number of cells of a row, where a header says it.
        width: Option<usize>,
        /// Where the columns stand.
        places: Vec<usize>,
        /// See [`FileLayout::commas`].
        commas: Vec<usize>,
        /// The header with its line, which no row below repeats.
        header: Option<(Vec<u8>, usize)>,
    },
    Json(Vec<Column>),
}

/// What is wrong with a row in which a carriage return stands by itself, outside of quotation marks.
const RETURNS: &str = "this row has a carriage return without a line feed, and lines end with a line feed, with or without a carriage \
                       return before it: write the file with such line ends, or quote the cell";

impl Parser {
    /// Whether a record is no row: one of blanks alone, unless these are cells.
    fn skips(&self, record: &[u8]) -> bool {
        let has_cells = || matches!(self, Self::Delimited { shape, .. } if record.contains(&shape.delimiter));
        is_blank(record) && !has_cells()
    }

    /// The row of a record that was read; nothing of one that is skipped.
    fn row(&self, record: Result<FileRecord, DataError>, path: &Path) -> Option<Result<FileRow, DataError>> {
        let record = match record {
            Ok(record) if self.skips(&record.bytes) => return None,
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let cells = self.cells(&record.bytes).map_err(|fault| fault.at(path, &record));
        let FileRecord { number, line, offset, length: bytes, .. } = record;
        Some(cells.map(|cells| FileRow { number, line, offset, bytes, cells }))
    }

    /// The cells of a record, in the order of the columns.
    pub(crate) fn cells(&self, record: &[u8]) -> Result<Vec<FileCell>, RecordFault> {
        match self {
            Self::Delimited { shape, width, places, commas, header } => {
                if let Some((_, line)) = header.as_ref().filter(|(names, _)| names == record) {
                    return Err(format!("this row repeats the header of line {line}: remove it").into());
                }
                if shape.quotes && memchr(b'\r', record).is_some() && shape.ends_in_returns(record) {
                    return Err(RETURNS.to_owned().into());
                }
                let record = text(record)?;
                let spans: Vec<CellSpan> = shape.spans(record.as_bytes()).collect::<Result<_, _>>()?;
                if let Some(width) = width.filter(|width| *width != spans.len()) {
                    return Err(format!("the header has {width} columns, and this row has {}", spans.len()).into());
                }
                let cell = |place: &usize| {
                    let few = || {
                        let (wanted, found) = (place + 1, spans.len());
                        format!("column {wanted} is wanted, and this row has {found}{}", shape.other(record.as_bytes()))
                    };
                    let cell = spans.get(*place).map(|span| FileCell::Text(span.text(record)));
                    cell.ok_or_else(|| few().into())
                };
                let mut cells: Vec<FileCell> = places.iter().map(cell).collect::<Result<_, RecordFault>>()?;
                for at in commas {
                    if let FileCell::Text(text) = &mut cells[*at] {
                        *text = with_point(text)?;
                    }
                }
                Ok(cells)
            }
            Self::Json(columns) => Ok(json(text(record)?, columns)?),
        }
    }
}

/// A number with a decimal comma as one with a point, and other texts as they are.
fn with_point(text: &str) -> Result<String, String> {
    if text.contains('.') {
        return Err(format!("`{text}` has a point, and `decimal: comma` says that numbers are written as `1234,5`"));
    }
    Ok(text.replacen(',', ".", 1))
}

/// The cells of an object, in the order of the columns.
pub(crate) fn json(line: &str, columns: &[Column]) -> Result<Vec<FileCell>, String> {
    let fields = object(line)?;
    // Several columns may be the same.
    columns.iter().map(|column| cell(fields.get(&column.to_string()).unwrap_or(&Value::Null), column)).collect()
}

fn cell(value: &Value, column: &Column) -> Result<FileCell, String> {
    let items = |items: &[Value]| items.iter().map(|item| plain(item, column)).collect::<Result<ListTexts, _>>();
    let list = |item: &Value| if let Value::Array(own) = item { Some(items(own)) } else { None };
    match value {
        Value::Null => Ok(FileCell::Missing),
        Value::Array(all) => match all.iter().map(list).collect::<Option<Result<Vec<_>, _>>>() {
            Some(lists) if !all.is_empty() => lists.map(FileCell::Lists),
            _ => items(all).map(FileCell::List),
        },
        value => Ok(plain(value, column)?.map_or(FileCell::Missing, FileCell::Text)),
    }
}

fn plain(value: &Value, column: &Column) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        // Numbers are texts by now, see `object`.
        value @ (Value::Bool(_) | Value::Number(_)) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => {
            Err(format!("`{column}` holds a block, or lists in lists; text, a number or a list of these is wanted"))
        }
    }
}
