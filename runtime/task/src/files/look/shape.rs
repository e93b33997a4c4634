//! How the records of a file are written: with a header or without, and with which mark between cells.

use std::collections::BTreeSet;
use std::path::Path;

use super::SAMPLE;
use super::column::number;
use crate::error::DataError;
use crate::files::records::{Delimited, FileRecord, FileRecords};
use crate::files::{FileCell, FileRow, Format, TextForm, is_blank, object};

/// Common properties of the lines of a text; blank ones stand between them.
#[derive(Default)]
pub(super) struct LineStatistics {
    lines: usize,
    blank: usize,
    /// Lines that begin with a label of fastText, those whose first word has a colon as TREC's questions, those of libsvm, and those with one
    /// semicolon.
    labelled: usize,
    headed: usize,
    features: usize,
    semicolons: usize,
    /// What stands behind the only semicolon, as far as it was counted.
    behind: BTreeSet<Vec<u8>>,
    /// The text after the last comma of the first line, and of the lines below, as far as it was counted.
    last: Vec<u8>,
    lasts: BTreeSet<Vec<u8>>,
    /// The same in each line: each mark of [`MARKS`] outside of quotation marks, and words; nothing once two lines differ.
    marks: [Option<usize>; MARKS.len()],
    words: Option<usize>,
}

impl LineStatistics {
    pub(super) fn see(&mut self, line: &[u8]) {
        if is_blank(line) {
            self.blank += 1;
            return;
        }
        let marks = |mark: u8| {
            let outside = line.split(|byte| *byte == b'"').step_by(2);
            outside.flatten().filter(|byte| **byte == mark).count()
        };
        let words = || line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        self.labelled += usize::from(line.starts_with(b"__label__"));
        self.headed += usize::from(is_headed(line));
        self.features += usize::from(is_libsvm(line));
        let mut parts = line.split(|byte| *byte == b';');
        if let (Some(_), Some(label), None) = (parts.next(), parts.next(), parts.next()) {
            self.semicolons += 1;
            if self.behind.len() <= FEW {
                self.behind.insert(label.trim_ascii().to_vec());
            }
        }
        if self.lines == 0 {
            (self.marks, self.words) = (MARKS.map(|(mark, _)| Some(marks(mark))), Some(words()));
        }
        for (all, (mark, _)) in self.marks.iter_mut().zip(MARKS) {
            *all = all.filter(|all| *all > 0 && *all == marks(mark));
        }
        if self.marks[COMMA].is_some() && self.lasts.len() <= FEW {
            let last = line.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii().to_vec();
            if self.lines == 0 {
                self.last = last;
            } else {
                self.lasts.insert(last);
            }
        }
        self.words = self.words.filter(|all| *all == words());
        self.lines += 1;
    }

    /// The sentence about a text whose lines have columns.
    pub(super) fn doubt(&self) -> Option<String> {
        // Lines of a text may have a comma each; a table has a name above few labels.
        let has_labels =
            !self.lasts.contains(&self.last) && self.lasts.len() <= FEW && 2 * self.lasts.len() <= self.lines;
        let has = |mark: u8| match mark {
            b'\t' => self.lines > 1,
            b',' => self.lines > 20 && has_labels,
            _ => self.lines > 20,
        };
        let marked =
            self.marks.iter().zip(MARKS).find_map(|(all, (mark, name))| {
                all.filter(|all| *all > 0 && has(mark)).map(|all| (all + 1, name, mark))
            });
        // Lines of text do not all have as many words; those of tokens with their labels do.
        let has_words = self.words.is_some_and(|words| words > 1) && self.lines > 4 && self.blank > 0;
        if self.labelled == self.lines && self.lines > 1 {
            return Some(
                "every line begins with `__label__`, as files of fastText do: a table has the text and the label of a line in two columns, as \
                 `text` and `label` of a .csv file"
                    .to_owned(),
            );
        }
        if let Some(doubt) = self.labels() {
            return Some(doubt);
        }
        let (parts, between, mark) = match (marked, self.words) {
            (Some(marked), _) => marked,
            (_, Some(words)) if has_words => (words, "blanks", b' '),
            _ => return None,
        };
        let cure = if self.blank > 0 {
            "a line per token, with a blank line between texts, becomes a JSON line per text, as `{\"tokens\": [\"a\", \"b\"], \
             \"tags\": [\"X\", \"Y\"]}`"
        } else if mark == b'\t' {
            "a table is named .tsv, and `--format tsv` takes it with this name"
        } else {
            "a table is named .csv, and `--format csv` takes it with this name"
        };
        Some(format!("every line has {parts} parts with {between} between: {cure}"))
    }
}

/// The place of the comma in [`MARKS`].
const COMMA: usize = 3;

/// Marks between the cells of a table, with their names in messages.
const MARKS: [(u8, &str); 4] = [(b'\t', "tabs"), (b'|', "`|`"), (b';', "`;`"), (b',', "commas")];

/// More different labels behind a semicolon are texts.
const FEW: usize = 50;

/// Whether a line begins with a class and its part, as `DESC:manner How ..`.
fn is_headed(line: &[u8]) -> bool {
    let first = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let mut parts = first.split(|byte| *byte == b':');
    let upper = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_uppercase);
    let name = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_alphabetic);
    first.len() < line.trim_ascii().len()
        && parts.next().is_some_and(upper)
        && parts.next().is_some_and(name)
        && parts.next().is_none()
}

/// Whether a line is a number and pairs of a place and a number, as `1 3:0.5 7:1`.
fn is_libsvm(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let mut words = line.split_whitespace();
    let is_pair = |word: &str| {
        word.split_once(':').is_some_and(|(place, value)| place.parse::<u32>().is_ok() && number(value).is_some())
    };
    let label = words.next().is_some_and(|label| label.split(',').all(|label| number(label).is_some()));
    label && words.clone().next().is_some() && words.all(is_pair)
}

impl LineStatistics {
    /// The sentence about a text whose lines have labels.
    fn labels(&self) -> Option<String> {
        let all = |count: usize| self.lines > 1 && count == self.lines;
        let cure = "a table has the text and the label of a line in two columns, as `text` and `label` of a .csv file";
        if all(self.features) {
            let why = "every line is a number and pairs `place:value`, as files of libsvm have them: ";
            return Some(why.to_owned() + "write a column for each place in a .csv file");
        }
        if all(self.headed) {
            return Some(format!(
                "every line begins with a label and a colon, as `{}` do: {cure}",
                "DESC:manner How .."
            ));
        }
        let few = !self.behind.is_empty() && self.behind.len() <= FEW && 2 * self.behind.len() <= self.lines;
        (all(self.semicolons) && few).then(|| {
            "every line has a text and one of few labels with `;` between: name the file .csv, with a first line `text;label`".to_owned()
        })
    }
}

/// The rows of a table that is written otherwise than its name says, with the sentence about it: as JSON, or with another mark between
/// cells, which stands in the first record and in those below, and the own one not in the first.
pub(super) fn other_shape(path: &Path, format: Format, form: TextForm) -> Result<Option<(usize, String)>, DataError> {
    let Some(shape) = Delimited::of_format(format, form) else { return Ok(None) };
    let records = FileRecords::open(path, Some(shape), form.encoding)?;
    let mut records = records.filter_map(Result::ok).filter(|record| !is_blank(&record.bytes));
    let Some(first) = records.next() else { return Ok(None) };
    if matches!(first.bytes[..], [b's', b'e', b'p', b'=', _]) {
        let doubt = "the first line is only for spreadsheets, and no header: remove it";
        return Ok(Some((records.count(), doubt.to_owned())));
    }
    if first.bytes.starts_with(b"# ") {
        let comments = 1 + records.by_ref().take_while(|record| record.bytes.starts_with(b"#")).count();
        let doubt = format!(
            "the file begins with {comments} {} with `#`, as comments do: remove them",
            if comments == 1 { "line" } else { "lines" }
        );
        return Ok(Some((records.count(), doubt)));
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
pub(super) fn other_delimiter(path: &Path, format: Format, form: TextForm) -> Result<Option<u8>, DataError> {
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
pub(super) enum Header {
    Names,
    Row,
    Doubt(String),
}

/// Tells names of columns from values: a text above numbers is a name, a number above numbers a value; where all columns are texts, a
/// text that stands below, too, is a value.
pub(super) fn header(first: &[String], rows: &[FileRow]) -> Header {
    let repeats: Vec<bool> = rows.iter().map(|row| repeats(first, row)).collect();
    if repeats.contains(&true) && first.len() > 1 && is_only_header(first, rows, &repeats) {
        return Header::Names;
    }
    let counts = first.len() > 1 && first.iter().enumerate().all(|(n, cell)| cell.trim() == n.to_string());
    if counts && !rows.is_empty() {
        return match first.len() {
            2 => Header::Doubt(
                "the first row is `0` and `1`, which may be names of columns or values: write names there, or remove it".to_owned(),
            ),
            _ => Header::Names,
        };
    }
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
    let words = |cell: &String| cell.split_whitespace().count();
    // A sentence is no name, and neither are several words above a single column.
    let is_sentence =
        |cell: &String| words(cell) > 2 && (cell.trim_end().ends_with(['.', '!', '?']) || first.len() == 1);
    let long = |cell: &String| words(cell) > 8 || cell.chars().count() > 80 || is_sentence(cell);
    let listed = |(at, cell): (usize, &String)| is_list(cell) && cell.contains(',') && below(at).all(is_list);
    let is_row = first.iter().any(long) || first.iter().enumerate().any(|cell| again(cell) || listed(cell));
    if is_row { Header::Row } else { Header::Names }
}

/// Whether a row has the cells of the first one.
fn repeats(first: &[String], row: &FileRow) -> bool {
    let same = |(name, cell): (&String, &FileCell)| matches!(cell, FileCell::Text(text) if text == name);
    first.len() == row.cells.len() && first.iter().zip(&row.cells).all(same)
}

/// Whether the cells of the first row come in rows that repeat it and in no others, so that it is a header, written again.
fn is_only_header(first: &[String], rows: &[FileRow], repeats: &[bool]) -> bool {
    let others = || rows.iter().zip(repeats).filter(|(_, repeats)| !**repeats);
    let comes = |(at, name): (usize, &String)| {
        others().any(|(row, _)| matches!(row.cells.get(at), Some(FileCell::Text(text)) if text == name))
    };
    others().next().is_some() && !first.iter().enumerate().any(comes)
}

/// Whether a text is a whole number, or several with commas between.
fn is_list(text: &str) -> bool {
    text.split(',').all(|item| !item.is_empty() && item.len() < 7 && item.bytes().all(|byte| byte.is_ascii_digit()))
}
