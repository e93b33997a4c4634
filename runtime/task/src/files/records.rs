//! Records of a text file with the line and the byte on which each begins: lines, or rows of a table whose quoted cells may hold
//! line breaks (RFC 4180).
//!
//! A reader of its own, because it refuses what others accept in silence: a quotation mark that never closes takes the rest of a
//! file into one cell, and text behind a closing one is lost or moved.

use std::io::{BufRead, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use encoding_rs::Encoding;
use memchr::memchr;

use super::open::{open_objects, open_text};
use super::{Format, TextForm};
use crate::error::DataError;
use crate::reading::{MAX_LINE, broken};
use rtc_compiler::ir::formula::bytes as size;

/// What stands between the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delimited {
    /// The byte between two cells.
    pub(crate) delimiter: u8,
    /// Whether `"` stands around cells that hold delimiters, line breaks or marks, which are doubled inside; else it is a character
    /// like all others.
    pub(crate) quotes: bool,
}

impl Delimited {
    /// What the form says, or else commas or tabs; nothing for a format without cells.
    pub(crate) fn of_format(format: Format, form: TextForm) -> Option<Self> {
        let usual = match format {
            Format::Csv => b',',
            Format::Tsv => b'\t',
            Format::Json | Format::Parquet | Format::Text => return None,
        };
        Some(Self { delimiter: form.delimiter.unwrap_or(usual), quotes: form.quotes })
    }

    /// Commas for `.csv`, packed or not, tabs for others.
    pub(crate) fn of(path: &Path, quotes: bool) -> Self {
        let format = Format::of(path).unwrap_or(Format::Tsv);
        let form = TextForm { quotes, ..TextForm::default() };
        Self::of_format(format, form).unwrap_or(Self { delimiter: b'\t', quotes })
    }

    /// The cells of a record.
    ///
    /// # Errors
    /// Text behind a closing quotation mark.
    pub(crate) fn cells(&self, record: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.spans(record).map(|cell| cell.map(|cell| cell.bytes(record))).collect()
    }

    /// Where the cells of a record are; an item is an error if text follows the closing quotation mark of its cell.
    pub(crate) fn spans<'r>(&self, record: &'r [u8]) -> CellSpans<'r> {
        CellSpans { shape: *self, record, next: Some(0), count: 0 }
    }

    fn step(&self, at: At, byte: u8) -> At {
        match (at, byte) {
            (At::Start, b'"') if self.quotes => At::Quoted,
            (At::Quoted, b'"') => At::Closing,
            (At::Closing, b'"') | (At::Quoted, _) => At::Quoted,
            (_, byte) if byte == self.delimiter => At::Start,
            _ => At::Plain,
        }
    }

    /// Whether a carriage return stands in a record outside of quotation marks, which is an end of a line to other readers.
    pub(crate) fn ends_in_returns(&self, record: &[u8]) -> bool {
        let mut at = At::Start;
        record.iter().any(|byte| {
            let inside = at == At::Quoted;
            at = self.step(at, *byte);
            *byte == b'\r' && !inside
        })
    }

    /// What to say of a record of one cell, if other programs write its cells with something else between.
    pub(crate) fn other(&self, record: &[u8]) -> String {
        self.other_mark(record).map_or_else(String::new, |other| format!("; {}", self.wanted(other)))
    }

    /// A mark that other programs write between cells, in a record without this one.
    pub(crate) fn other_mark(&self, record: &[u8]) -> Option<u8> {
        let marks = [b';', b'\t', b'|', b','].into_iter();
        marks.filter(|_| !record.contains(&self.delimiter)).find(|other| record.contains(other))
    }

    /// The sentence about a file with another mark between its cells.
    pub(crate) fn wanted(&self, other: u8) -> String {
        let name = |byte: u8| if byte == b'\t' { "a tab".to_owned() } else { format!("`{}`", char::from(byte)) };
        let (own, other) = (name(self.delimiter), name(other));
        let said = if other == "a tab" { "\"\\t\"".to_owned() } else { other.replace('`', "'") };
        format!(
            "the cells have {other} between them, and {own} is wanted: say `delimiter: {said}` in `task`, or write the file with commas as \
             .csv, or with tabs as .tsv"
        )
    }

    /// Whether a record is inside of quotation marks after more of its bytes, which end with a line or the file.
    fn is_open_after(&self, mut is_open: bool, mut bytes: &[u8]) -> bool {
        if !self.quotes {
            return false;
        }
        // A mark opens a cell at the start of the record or behind a delimiter alone.
        let mut begins = true;
        while let Some(at) = memchr(b'"', bytes) {
            let rest = &bytes[at + 1..];
            bytes = match rest.strip_prefix(b"\"").filter(|_| is_open) {
                Some(rest) => rest,
                None => {
                    is_open = !is_open && if at == 0 { begins } else { bytes[at - 1] == self.delimiter };
                    rest
                }
            };
            begins = false;
        }
        is_open
    }
}

/// The bytes of a record that are a cell, without the quotation marks around it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellSpan {
    range: Range<usize>,
    /// Whether quotation marks in it are doubled.
    is_doubled: bool,
}

impl CellSpan {
    /// The content in a record.
    fn bytes(self, record: &[u8]) -> Vec<u8> {
        let mut rest = &record[self.range];
        let mut content = Vec::with_capacity(rest.len());
        while let Some(at) = memchr(b'"', rest).filter(|_| self.is_doubled) {
            content.extend_from_slice(&rest[..=at]);
            rest = &rest[(at + 2).min(rest.len())..];
        }
        content.extend_from_slice(rest);
        content
    }

    /// The content in a record of text: cells end at ASCII characters.
    pub(crate) fn text(&self, record: &str) -> String {
        let mut text = &record[self.range.clone()];
        let mut content = String::with_capacity(text.len());
        while let Some(at) = memchr(b'"', text.as_bytes()).filter(|_| self.is_doubled) {
            content.push_str(&text[..=at]);
            text = &text[(at + 2).min(text.len())..];
        }
        content.push_str(text);
        content
    }
}

/// Finds the cells of a record.
#[derive(Clone, Debug)]
pub(crate) struct CellSpans<'r> {
    shape: Delimited,
    record: &'r [u8],
    /// The byte with which the next cell begins; nothing behind the last cell.
    next: Option<usize>,
    count: usize,
}

impl CellSpans<'_> {
    /// The quoted cell that begins at a byte behind its mark, and the byte behind its closing mark.
    fn quoted(&self, start: usize) -> (CellSpan, usize) {
        let (mut end, mut is_doubled) = (start, false);
        while let Some(found) = memchr(b'"', &self.record[end..]) {
            end += found;
            if self.record.get(end + 1) != Some(&b'"') {
                return (CellSpan { range: start..end, is_doubled }, end + 1);
            }
            (end, is_doubled) = (end + 2, true);
        }
        let end = self.record.len();
        (CellSpan { range: start..end, is_doubled }, end)
    }
}

impl Iterator for CellSpans<'_> {
    type Item = Result<CellSpan, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
        self.count += 1;
        if self.shape.quotes && self.record.get(start) == Some(&b'"') {
            let (cell, behind) = self.quoted(start + 1);
            self.next = self.record.get(behind).map(|_| behind + 1);
            return Some(match self.record.get(behind) {
                Some(byte) if *byte != self.shape.delimiter => Err(format!(
                    "behind the closing quotation mark of cell {} comes more text: a mark inside of a quoted cell is written \
                     twice, and `quotes: none` (`--quotes none` of `rtc task check`) takes marks as characters",
                    self.count
                )),
                _ => Ok(cell),
            });
        }
        let length = memchr(self.shape.delimiter, &self.record[start..]);
        self.next = length.map(|length| start + length + 1);
        let end = length.map_or(self.record.len(), |length| start + length);
        Some(Ok(CellSpan { range: start..end, is_doubled: false }))
    }
}

/// The cells of a row with the line on which it begins.
pub(crate) type RecordCells = (usize, Vec<Vec<u8>>);

/// The rows of a table with the lines on which they begin, empty ones left out.
///
/// # Errors
/// A file that can't be opened.
pub(crate) fn rows(
    path: &Path,
    quotes: bool,
) -> Result<impl Iterator<Item = Result<RecordCells, DataError>>, DataError> {
    let shape = Delimited::of(path, quotes);
    let records = FileRecords::open(path, Some(shape), None)?;
    let path = path.to_owned();
    let row = move |record: FileRecord| {
        let cells = shape.cells(&record.bytes).map_err(|message| broken(&path, record.line, message))?;
        Ok((record.line, cells))
    };
    let records = records.filter(|record| record.as_ref().map_or(true, |record| !record.bytes.is_empty()));
    Ok(records.map(move |record| record.and_then(&row)))
}

/// Where in a cell a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Plain,
    Quoted,
    /// Behind a mark that closes the cell, unless another one follows.
    Closing,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// Its number in the file, from 1.
    pub(crate) number: usize,
    /// The line on which it begins, from 1.
    pub(crate) line: usize,
    /// The byte with which it begins, of the unpacked file.
    pub(crate) offset: u64,
    /// Its bytes without the end of the line.
    pub(crate) bytes: Vec<u8>,
    /// Number of its bytes in the file, with the end of the line.
    pub(crate) length: u32,
}

/// The mark with which some programs begin a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl FileRecord {
    /// A record from its bytes in the file, which may end with the end of the line.
    pub(crate) fn new(line: usize, offset: u64, mut bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u32;
        // The last line may have lost its line feed.
        let content = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        bytes.truncate(content.len());
        if offset == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Self { number: 1, line, offset, bytes, length }
    }

    /// The record as text.
    pub(crate) fn text(&self) -> Result<&str, String> {
        simdutf8::basic::from_utf8(&self.bytes).map_err(|_| NO_TEXT.to_owned())
    }
}

/// What is wrong with bytes that are no text.
pub(crate) const NO_TEXT: &str = "this line is not UTF-8 text: correct it if the others are, or say the encoding of a file that is in another one, as `encoding: windows-1252`";

/// The records of a file, unpacked if its name ends in `.gz` or `.zst`. Ends of lines are `\n` or `\r\n`.
pub(crate) struct FileRecords {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    shape: Option<Delimited>,
    /// Records, lines and bytes that were read.
    number: usize,
    lines: usize,
    bytes: u64,
    /// Records that were read, where they are counted: a small packed file may have any number of them.
    records: Option<usize>,
    packed: bool,
    /// Whether something could not be read. Where the next record begins is not known then, and a packed file that is broken would be so
    /// again and again.
    broken: bool,
}

impl FileRecords {
    /// Opens a file of lines, or of rows if they have a shape.
    pub(crate) fn open(
        path: &Path,
        shape: Option<Delimited>,
        encoding: Option<&'static Encoding>,
    ) -> Result<Self, DataError> {
        Self::from_reader(path, shape, open_text(path, encoding)?)
    }

    /// Opens a file of JSON objects, one on each line or in a list; of a list the number of an object is its line.
    pub(crate) fn objects(path: &Path, encoding: Option<&'static Encoding>) -> Result<Self, DataError> {
        Self::from_reader(path, None, open_objects(path, encoding)?)
    }

    fn from_reader(path: &Path, shape: Option<Delimited>, reader: Box<dyn BufRead + Send>) -> Result<Self, DataError> {
        let packed = path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
        // The lines of a text are no rows: only its bytes are counted.
        let records = (packed && Format::of(path) != Ok(Format::Text)).then_some(0);
        Ok(Self {
            path: path.to_path_buf(),
            reader,
            shape,
            number: 0,
            lines: 0,
            bytes: 0,
            records,
            packed,
            broken: false,
        })
    }

    fn read(&mut self) -> Result<Option<FileRecord>, (usize, String)> {
        let (line, offset) = (self.lines + 1, self.bytes);
        let (mut bytes, mut is_open) = (vec![], false);
        loop {
            let from = bytes.len();
            let room = (MAX_LINE + 1).saturating_sub(from as u64);
            let read = self.reader.by_ref().take(room).read_until(b'\n', &mut bytes);
            let read = read.map_err(|error| (self.lines + 1, error.to_string()))?;
            if read == 0 && from == 0 {
                return Ok(None);
            }
            if read == 0 {
                return Err((line, UNCLOSED.to_owned()));
            }
            self.lines += 1;
            self.bytes += read as u64;
            if bytes.len() as u64 > MAX_LINE {
                return Err((line, "the line is longer than 16 MiB".to_owned()));
            }
            if self.packed && self.bytes > MAX_UNPACKED {
                return Err((line, format!("up to here the file unpacks to more than {}{UNPACK}", size(MAX_UNPACKED))));
            }
            // The mark at the start of a file is no part of the first cell.
            let mark =
                if offset == 0 && from == 0 && bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            is_open = self.shape.is_some_and(|shape| shape.is_open_after(is_open, &bytes[from + mark..]));
            if !is_open {
                self.count(line)?;
                self.number += 1;
                return Ok(Some(FileRecord { number: self.number, ..FileRecord::new(line, offset, bytes) }));
            }
        }
    }

    /// Counts a record of a packed file.
    fn count(&mut self, line: usize) -> Result<(), (usize, String)> {
        let Some(records) = &mut self.records else { return Ok(()) };
        *records += 1;
        if *records <= MAX_PACKED_ROWS {
            return Ok(());
        }
        Err((line, format!("up to here the file has more than {MAX_PACKED_ROWS} rows{UNPACK}")))
    }
}

/// The most rows of a file that is packed, or of Parquet: such files are held in memory.
pub const MAX_PACKED_ROWS: usize = 1 << 24;

/// The most bytes of rows to which a packed file unpacks.
pub const MAX_UNPACKED: u64 = 1 << 33;

const UNPACK: &str = ", the most that is read of a packed one: unpack it, and it is read as it is needed";

const UNCLOSED: &str = "a quotation mark that opens in this row never closes: a mark inside of a quoted cell is written twice, and \
                        `quotes: none` (`--quotes none` of `rtc task check`) takes marks as characters";

impl Iterator for FileRecords {
    type Item = Result<FileRecord, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let read = self.read();
        self.broken = read.is_err();
        read.map_err(|(line, message)| broken(&self.path, line, message)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(name: &str, text: &[u8]) -> Result<Vec<(usize, u64, Vec<String>)>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, text).expect("writable");
        let shape = Delimited::of(&path, true);
        let row = |record: FileRecord| {
            let cells = shape.cells(&record.bytes).map_err(|why| format!("{}: {why}", record.line))?;
            let cells = cells.into_iter().map(|cell| String::from_utf8(cell).expect("UTF-8")).collect();
            Ok((record.line, record.offset, cells))
        };
        let records = FileRecords::open(&path, Some(shape), None).expect("it is there");
        records.map(|record| record.map_err(|error| error.to_string()).and_then(row)).collect()
    }

    fn cells(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn rows_have_lines_bytes_and_cells() {
        let text = b"\xEF\xBB\xBFa,b\r\n\"x, \"\"y\"\"\r\nz\",2\r\n5\" pipe,\n";
        let expected =
            [(1, 0, cells(&["a", "b"])), (2, 8, cells(&["x, \"y\"\r\nz", "2"])), (4, 25, cells(&["5\" pipe", ""]))];
        assert_eq!(read("a.csv", text).expect("valid"), expected);
        assert_eq!(read("a.tsv", b"a,b\tc").expect("valid"), [(1, 0, cells(&["a,b", "c"]))]);
        let quoted = b"\xEF\xBB\xBF\"a\nb\",c\n";
        assert_eq!(read("a.csv", quoted).expect("valid"), [(1, 0, cells(&["a\nb", "c"]))]);
    }

    /// What the csv crate reads of a table, which is what is read of it here.
    #[test]
    fn tables_are_read_as_others_read_them() {
        let pieces: [&[u8]; 9] = [b"a", b" ", b",", b"\"\"", b"\n", b"\r\n", b"\xc3\xa9", b"\t", b"b c"];
        for n in 0..300 {
            let mut draws = rtc_base::rng::Key::new(n).draws();
            let mut text = vec![];
            for _ in 0..1 + draws.below(5) {
                for cell in 0..3 {
                    let quoted = draws.below(2) == 0;
                    let inside = (0..draws.below(4)).map(|_| pieces[draws.below(9) as usize]);
                    let plain = |piece: &&[u8]| quoted || ![&b","[..], b"\"\"", b"\n", b"\r\n"].contains(piece);
                    let inside = inside.collect::<Vec<_>>().into_iter().filter(plain).collect::<Vec<_>>().concat();
                    let mark: &[u8] = if quoted { b"\"" } else { b"" };
                    text.extend([mark, &inside, mark, if cell < 2 { b"," } else { b"" }].concat());
                }
                text.extend_from_slice(if draws.below(2) == 0 { b"\n" } else { b"\r\n" });
            }
            let mut oracle = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&text[..]);
            let row = |row: csv::StringRecord| row.iter().map(str::to_owned).collect::<Vec<_>>();
            let expected: Vec<_> = oracle.records().map(|record| row(record.expect("valid"))).collect();
            let found: Vec<_> = read("a.csv", &text).expect("valid").into_iter().map(|(_, _, cells)| cells).collect();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&text));
        }
    }

    /// A packed file of a few bytes may have any number of rows; as many lines of a packed text are no rows.
    #[test]
    fn rows_of_a_packed_file_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let lines = vec![b'\n'; MAX_PACKED_ROWS + 1];
        let packed = zstd::encode_all(&lines[..], 1).expect("packed");
        assert!(packed.len() < 10_000, "{}", packed.len());
        for (name, many) in [("a.csv.zst", true), ("a.txt.zst", false)] {
            let path = folder.path().join(name);
            fs::write(&path, &packed).expect("writable");
            let last = FileRecords::open(&path, None, None).expect("it is there").last().expect("it has lines");
            match last {
                Ok(record) => assert!(!many && record.line == lines.len(), "{name}: {}", record.line),
                Err(error) => {
                    let error = error.to_string();
                    assert!(many && error.contains("a.csv.zst:16777217: up to here the file has more than"), "{error}");
                }
            }
        }
    }

    /// The cells of a record, byte by byte.
    fn cells_by_bytes(shape: Delimited, record: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (mut cells, mut at) = (vec![vec![]], At::Start);
        for &byte in record {
            let next = shape.step(at, byte);
            match (at, next) {
                (At::Start, At::Quoted) | (At::Quoted, At::Closing) => {}
                (At::Closing, At::Plain) => return None,
                (_, At::Start) => cells.push(vec![]),
                _ => cells.last_mut()?.push(byte),
            }
            at = next;
        }
        Some(cells)
    }

    #[test]
    fn cells_and_ends_of_records_are_those_of_every_byte() {
        for n in 0..20_000 {
            let mut draws = rtc_base::rng::Key::new(n).draws();
            let shape = Delimited { delimiter: b",;"[draws.below(2) as usize], quotes: draws.below(4) > 0 };
            let bytes: Vec<u8> = (0..draws.below(14)).map(|_| b"\"\",,;a\r"[draws.below(7) as usize]).collect();
            assert_eq!(shape.cells(&bytes).ok(), cells_by_bytes(shape, &bytes), "{shape:?} {bytes:?}");
            let is_open = draws.below(2) == 0 && shape.quotes;
            let start = if is_open { At::Quoted } else { At::Start };
            let end = bytes.iter().fold(start, |at, byte| shape.step(at, *byte));
            assert_eq!(shape.is_open_after(is_open, &bytes), end == At::Quoted, "{shape:?} {is_open} {bytes:?}");
        }
    }

    #[test]
    fn marks_that_make_no_sense_are_refused_with_the_line() {
        let error = read("a.csv", b"a,b\n\"c,d\ne,f\n").expect_err("it never closes");
        assert!(error.contains("a.csv:2: a quotation mark that opens in this row never closes"), "{error}");
        let error = read("a.csv", b"a,b\n1,\"c\"d\n").expect_err("text behind");
        assert!(error.starts_with("2: behind the closing quotation mark of cell 2"), "{error}");
    }
}
