//! A first look at an unknown file: its columns and their content.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use serde_json::{Map, Value};

use super::form::guessed;
use super::records::{Delimited, FileRecord, FileRecords};
use super::{Column, FileCell, FileLayout, FileRow, Format, TextForm, cell, columnar, is_blank, object};
use crate::error::DataError;
use crate::reading::{broken, unreadable};

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
    /// The first rows that can't be read.
    pub problems: Vec<DataError>,
}

/// What is to be seen of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnLook {
    /// Its name.
    pub name: String,
    /// Its first value.
    pub first: String,
    /// Its different values, as far as they were counted.
    pub values: BTreeSet<String>,
    /// Whether a value came twice.
    pub repeats: bool,
    /// Words of all its values.
    pub words: usize,
    /// Its different words, or items of its lists, as far as they were counted.
    pub items: BTreeSet<String>,
    /// Rows without a value.
    pub missing: usize,
    /// Rows with a list.
    pub lists: usize,
    /// Rows with an object, or with lists in lists, which no task takes.
    pub nested: usize,
    /// Rows whose value is a finite number, or whose items all are; and of these the rows with whole numbers alone.
    pub numbers: usize,
    /// See `numbers`.
    pub whole: usize,
    /// Rows whose value is a number with a decimal comma, as `1,5`.
    pub commas: usize,
    /// Whether all of its values are numbers, of which none has a point and some a decimal comma: they count as numbers.
    pub has_commas: bool,
    /// The first rows without a number, with their values.
    pub odd: Vec<(usize, String)>,
    /// The smallest and the largest of these numbers.
    pub range: Option<[f64; 2]>,
    /// Whether every value is a whole number, one above that of the row before.
    pub counting: bool,
    /// Rows whose value has no blank, and has a digit, a slash or an `@`.
    pub codes: usize,
    /// Rows whose value is a date or a time.
    pub dates: usize,
    /// The most characters of a value.
    pub longest: usize,
    last: Option<f64>,
}

impl ColumnLook {
    /// More different values are not counted.
    pub const MOST: usize = 1_000;

    /// Rows with a value.
    pub fn filled(&self, rows: usize) -> usize {
        rows.saturating_sub(self.missing)
    }

    /// More rows without a number are not kept.
    pub const ODD: usize = 5;

    fn see(&mut self, cell: &FileCell, line: usize) {
        let texts: Vec<String> = match cell {
            FileCell::Missing => return self.missing += 1,
            FileCell::Text(text) if text.trim().is_empty() => return self.missing += 1,
            FileCell::Text(text) => vec![text.clone()],
            FileCell::List(items) => {
                self.lists += 1;
                items.iter().map(shown).collect()
            }
            FileCell::Lists(lists) => {
                self.lists += 1;
                self.nested += 1;
                lists.iter().flatten().map(shown).collect()
            }
        };
        let numbers: Option<Vec<f64>> = texts.iter().map(|text| number(text)).collect();
        let is_list = !matches!(cell, FileCell::Text(_));
        let text = texts.join(" ");
        self.see_numbers(numbers.as_deref().unwrap_or_default(), is_list);
        let split: Vec<&str> = match cell {
            FileCell::Text(text) => text.split_whitespace().collect(),
            _ => texts.iter().map(String::as_str).collect(),
        };
        self.words += split.len();
        for item in split {
            if self.items.len() <= Self::MOST && !self.items.contains(item) {
                self.items.insert(item.to_owned());
            }
        }
        let plain = text.trim();
        self.commas += usize::from(!is_list && has_decimal_comma(plain));
        if numbers.is_none() && self.odd.len() < Self::ODD {
            self.odd.push((line, plain.chars().take(40).collect()));
        }
        self.codes += usize::from(!plain.contains(char::is_whitespace) && plain.contains(is_of_a_code));
        self.dates += usize::from(is_date(plain));
        self.longest = self.longest.max(text.chars().count());
        if self.first.is_empty() {
            self.first.clone_from(&text);
        }
        if self.values.contains(&text) {
            self.repeats = true;
        } else if self.values.len() <= Self::MOST {
            self.values.insert(text);
        }
    }

    /// Takes numbers with a decimal comma as numbers, where all are.
    fn see_commas(&mut self, rows: usize) {
        let is_comma = self.commas > 0 && self.whole == self.numbers && self.commas + self.numbers == self.filled(rows);
        if is_comma {
            (self.has_commas, self.numbers) = (true, self.numbers + self.commas);
            self.odd.clear();
        }
    }

    fn see_numbers(&mut self, numbers: &[f64], is_list: bool) {
        let next = numbers.first().filter(|_| !is_list).copied();
        let begins = self.last.is_none() && self.numbers == 0;
        self.counting = next.is_some_and(|next| {
            next.fract() == 0.0
                && if begins { next.abs() <= 1.0 } else { self.counting && self.last == Some(next - 1.0) }
        });
        self.last = next;
        if numbers.is_empty() {
            return;
        }
        self.numbers += 1;
        self.whole += usize::from(numbers.iter().all(|number| number.fract() == 0.0));
        for number in numbers {
            let [low, high] = self.range.unwrap_or([*number; 2]);
            self.range = Some([low.min(*number), high.max(*number)]);
        }
    }
}

fn shown(item: &Option<String>) -> String {
    item.clone().unwrap_or_else(|| "null".to_owned())
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

fn has_decimal_comma(text: &str) -> bool {
    text.split_once(',').is_some_and(|(whole, part)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole.trim_start_matches(['-', '+'])) && digits(part)
    })
}

fn is_of_a_code(c: char) -> bool {
    c.is_ascii_digit() || c == '/' || c == '@'
}

/// Whether a text is a date or a time as `2024-01-31`, `31/01/2024` or `2024-01-31 10:00:00`.
fn is_date(text: &str) -> bool {
    let day = text.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split(['-', '/', '.']).collect();
    let digits = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3
        && parts.iter().all(digits)
        && parts.iter().filter(|part| part.len() == 4).count() <= 1
        && day.len() >= 6
}

/// The most different keys of JSON lines: every row is looked at for each of them.
pub const MAX_KEYS: usize = 4_096;
/// Problems that are listed.
const PROBLEMS: usize = 10;
/// Rows by which a header is told from a row.
const SAMPLE: usize = 200;
/// Tables with more columns are not searched for columns of words that go together.
const MOST_PAIRED: usize = 64;

/// Looks at a file. What the form of its text does not say of delimiter and encoding is found out.
///
/// # Errors
/// A file that can't be opened or read more than once, or whose name does not say how it is written.
pub fn look(path: &Path, mut form: TextForm) -> Result<FileLook, DataError> {
    let format = Format::of(path).map_err(|why| unreadable(path, why))?;
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
    look.columns.iter_mut().for_each(|column| column.see_commas(rows));
    Ok(look)
}

/// Common properties of the lines of a text; blank ones stand between them.
#[derive(Default)]
struct LineStatistics {
    lines: usize,
    blank: usize,
    /// Lines that begin with a label of fastText.
    labelled: usize,
    /// Tabs in each line, and its words; nothing once two lines differ.
    tabs: Option<usize>,
    words: Option<usize>,
}

impl LineStatistics {
    fn see(&mut self, line: &[u8]) {
        if is_blank(line) {
            self.blank += 1;
            return;
        }
        let tabs = line.iter().filter(|byte| **byte == b'\t').count();
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        let is_first = self.lines == 0;
        self.labelled += usize::from(line.starts_with(b"__label__"));
        let same = |all: Option<usize>, own: usize| if is_first { Some(own) } else { all.filter(|all| *all == own) };
        (self.tabs, self.words) = (same(self.tabs, tabs), same(self.words, words));
        self.lines += 1;
    }

    /// The sentence about a text whose lines have columns.
    fn doubt(&self) -> Option<String> {
        let has_tabs = self.tabs.is_some_and(|tabs| tabs > 0) && self.lines > 1;
        // Lines of text do not all have as many words; those of tokens with their labels do.
        let has_words = self.words.is_some_and(|words| words > 1) && self.lines > 4 && self.blank > 0;
        if self.labelled == self.lines && self.lines > 1 {
            return Some(
                "every line begins with `__label__`, as files of fastText do: a table has the text and the label of a line in two columns, as \
                 `text` and `label` of a .csv file"
                    .to_owned(),
            );
        }
        let (parts, between) = match (self.tabs, self.words) {
            (Some(tabs), _) if has_tabs => (tabs + 1, "tabs"),
            (_, Some(words)) if has_words => (words, "blanks"),
            _ => return None,
        };
        let cure = if self.blank > 0 {
            "a line per token, with a blank line between texts, becomes a JSON line per text, as `{\"tokens\": [\"a\", \"b\"], \
             \"tags\": [\"X\", \"Y\"]}`"
        } else {
            "a table is named .tsv"
        };
        Some(format!("every line has {parts} parts with {between} between: {cure}"))
    }
}

impl FileLook {
    fn count(&mut self, row: Result<(), DataError>) {
        match row {
            Ok(()) => self.rows += 1,
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Sees the cells of a row on a line.
    fn see(&mut self, cells: &[FileCell], line: usize) {
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.see(cell, line));
        let count = |cell: &FileCell| match cell {
            FileCell::Missing => None,
            FileCell::Text(text) => Some(text.split_whitespace().count()),
            FileCell::List(items) => Some(items.len()),
            FileCell::Lists(_) => None,
        };
        let counts: Vec<Option<usize>> = cells.iter().map(count).collect();
        if self.rows == 0 && counts.len() <= MOST_PAIRED {
            let pairs = (0..counts.len()).flat_map(|a| (a + 1..counts.len()).map(move |b| (a, b)));
            self.aligned = pairs.collect();
        }
        self.aligned.retain(|(a, b)| counts[*a].is_some() && counts[*a] == counts.get(*b).copied().flatten());
    }

    /// Looks at JSON lines: a column is a key of any object.
    fn objects(&mut self, path: &Path) -> Result<(), DataError> {
        let mut known = HashSet::new();
        for record in FileRecords::objects(path, self.form.encoding)? {
            let record = record?;
            if is_blank(&record.bytes) {
                continue;
            }
            let fields = match record.text().and_then(object) {
                Ok(fields) => fields,
                Err(why) => {
                    // What begins as a list, or as an object on several lines, is that in all of its lines.
                    let is_other = self.rows == 0 && matches!(record.bytes.trim_ascii(), [b'[', ..] | [b'{']);
                    self.problems.push(broken(path, record.line, why));
                    if is_other || self.problems.len() >= PROBLEMS {
                        break;
                    }
                    continue;
                }
            };
            self.meet(&fields, &mut known).map_err(|why| broken(path, record.line, why))?;
            let mut cells = vec![];
            for column in &mut self.columns {
                let value = fields.get(&column.name).unwrap_or(&Value::Null);
                let found = cell(value, &Column::Name(column.name.clone()));
                column.nested += usize::from(found.is_err());
                cells.push(found.unwrap_or_else(|_| FileCell::Text(value.to_string())));
            }
            self.see(&cells, record.line);
            self.rows += 1;
        }
        if self.rows == 0 && self.problems.is_empty() {
            return Err(broken(path, 1, super::EMPTY.to_owned()));
        }
        Ok(())
    }

    /// Adds the keys of an object that are not known.
    fn meet(&mut self, fields: &Map<String, Value>, known: &mut HashSet<String>) -> Result<(), String> {
        for name in fields.keys().filter(|name| known.insert((*name).clone())) {
            self.columns.push(ColumnLook { name: name.clone(), missing: self.rows, ..ColumnLook::default() });
        }
        match known.len() {
            count if count > MAX_KEYS => Err(format!(
                "up to here the rows have {count} different keys, and at most {MAX_KEYS} are looked at: write what a task reads into a \
                 file of its own"
            )),
            _ => Ok(()),
        }
    }

    /// Looks at the rows of a Parquet file.
    fn columnar(&mut self, path: &Path) -> Result<(), DataError> {
        let names = columnar::names(path)?;
        let columns: Vec<Column> = names.iter().cloned().map(Column::Name).collect();
        self.columns = names.into_iter().map(|name| ColumnLook { name, ..ColumnLook::default() }).collect();
        for row in columnar::rows(path, &columns)?.seen() {
            if let Ok((number, cells)) = &row {
                self.columns
                    .iter_mut()
                    .zip(cells)
                    .for_each(|(column, cell)| column.nested += usize::from(cell.is_none()));
                let other = || FileCell::Text("{..}".to_owned());
                let cells: Vec<FileCell> = cells.iter().map(|cell| cell.clone().unwrap_or_else(other)).collect();
                self.see(&cells, *number);
            }
            self.count(row.map(|_| ()));
        }
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
            Header::Names => {}
            Header::Row => {
                self.headless = true;
                names = places.iter().map(Column::to_string).collect();
                columns = places;
            }
            Header::Doubt(why) => self.doubt = Some(why),
        }
        self.columns = names.into_iter().map(|name| ColumnLook { name, ..ColumnLook::default() }).collect();
        for row in layout(columns).rows(path)? {
            if let Ok(row) = &row {
                self.see(&row.cells, row.line);
            }
            self.count(row.map(|_| ()));
            if self.problems.len() >= PROBLEMS {
                break;
            }
        }
        self.has_rows(path);
        Ok(())
    }
}

/// The rows of a table that is written otherwise than its name says, with the sentence about it: as JSON, or with another mark between
/// cells, which stands in the first record and in those below, and the own one not in the first.
fn other_shape(path: &Path, format: Format, form: TextForm) -> Result<Option<(usize, String)>, DataError> {
    let Some(shape) = Delimited::of_format(format, form) else { return Ok(None) };
    let records = FileRecords::open(path, Some(shape), form.encoding)?;
    let mut records = records.filter_map(Result::ok).filter(|record| !is_blank(&record.bytes));
    let Some(first) = records.next() else { return Ok(None) };
    if matches!(first.bytes[..], [b's', b'e', b'p', b'=', _]) {
        let doubt = "the first line is only for spreadsheets, and no header: remove it";
        return Ok(Some((records.count(), doubt.to_owned())));
    }
    if first.bytes.starts_with(b"{") && first.text().is_ok_and(|line| object(line).is_ok()) {
        return Ok(Some((1 + records.count(), "its rows are JSON objects: name the file .jsonl".to_owned())));
    }
    let Some(mark) = shape.other_mark(&first.bytes) else { return Ok(None) };
    let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == mark).count();
    let marks = count(&first.bytes);
    // A text in the only column of a .tsv has commas as it likes.
    let has = |record: &FileRecord| {
        let own = count(&record.bytes);
        own == marks || own > 0 && mark != b','
    };
    let sample: Vec<FileRecord> = records.by_ref().take(SAMPLE).collect();
    if !sample.iter().all(has) {
        return Ok(None);
    }
    Ok(Some((sample.len() + records.count(), shape.wanted(mark))))
}

/// The mark between the cells of a table, where it is another one than its name says, and all of its first rows have as many cells by it.
fn other_delimiter(path: &Path, format: Format, form: TextForm) -> Result<Option<u8>, DataError> {
    let Some(shape) = Delimited::of_format(format, form) else { return Ok(None) };
    let records = |shape| FileRecords::open(path, Some(shape), form.encoding);
    let first =
        records(Delimited { quotes: false, ..shape })?.filter_map(Result::ok).find(|record| !is_blank(&record.bytes));
    let Some(mark) = first.and_then(|first| shape.other_mark(&first.bytes)) else { return Ok(None) };
    let other = Delimited { delimiter: mark, ..shape };
    let rows = records(other)?.filter_map(Result::ok).filter(|record| !is_blank(&record.bytes)).take(SAMPLE);
    let widths = rows.map(|row| other.cells(&row.bytes).map(|cells| cells.len())).collect::<Result<BTreeSet<_>, _>>();
    Ok(widths.is_ok_and(|widths| widths.len() == 1 && widths.first() > Some(&1)).then_some(mark))
}

/// What the first row of a table is.
enum Header {
    Names,
    Row,
    Doubt(String),
}

/// Tells names of columns from values: a text above numbers is a name, a number above numbers a value; where all columns are texts, a
/// text that stands below, too, is a value.
fn header(first: &[String], rows: &[FileRow]) -> Header {
    let below = |at: usize| {
        rows.iter().filter_map(move |row| match row.cells.get(at) {
            Some(FileCell::Text(text)) if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
    };
    let (mut names, mut values) = (vec![], vec![]);
    for (at, cell) in first.iter().enumerate() {
        if below(at).next().is_none() || !below(at).all(|text| number(text).is_some()) {
            continue;
        }
        match number(cell) {
            Some(_) => values.push(cell),
            None if cell.trim().is_empty() => {}
            None => names.push(cell),
        }
    }
    match (&names[..], &values[..]) {
        ([], []) => {}
        (_, []) => return Header::Names,
        ([], _) => return Header::Row,
        ([name, ..], [value, ..]) => {
            return Header::Doubt(format!(
                "the first row is neither a header nor a row: above columns of numbers it has `{name}`, which is no number, and \
                 `{value}`, which is no name: remove it, or write the names of the columns there"
            ));
        }
    }
    let again = |(at, cell): (usize, &String)| {
        let values: BTreeSet<&str> = below(at).collect();
        !cell.trim().is_empty() && values.contains(cell.as_str()) && 2 * values.len() <= below(at).count()
    };
    let long = |cell: &String| cell.split_whitespace().count() > 8 || cell.chars().count() > 80;
    if first.iter().enumerate().any(again) || first.iter().any(long) { Header::Row } else { Header::Names }
}
