//! How the text of a file is written: its encoding, and what stands between and around cells.

use std::io::{BufRead, Read};
use std::path::Path;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::Format;
use super::open::{is_list, marked, open, open_text};
use crate::error::DataError;
use crate::reading::{MAX_LINE, broken};

/// How the text of a file is written, where its name does not say it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextForm {
    /// Whether `"` stands around cells that hold delimiters, line breaks or marks; else it is a character like all others.
    pub quotes: bool,
    /// The byte between two cells, where it is another one than that of the format.
    pub delimiter: Option<u8>,
    /// The encoding, where it is not UTF-8.
    pub encoding: Option<&'static Encoding>,
    /// Whether numbers of classes in a Parquet file are read as the names that it has for them.
    pub class_names: bool,
    /// Whether a comma in a number is decimal for a look, whatever else it might be.
    pub decimal_comma: bool,
}

impl Default for TextForm {
    fn default() -> Self {
        Self { quotes: true, delimiter: None, encoding: None, class_names: false, decimal_comma: false }
    }
}

impl TextForm {
    /// Whether a file is made into other text while it is read, so that its rows do not lie in it as they are read: it is packed, a list of
    /// objects, or in another encoding than UTF-8.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn is_made(&self, path: &Path, format: Format) -> Result<bool, DataError> {
        let packed = path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
        if packed || self.encoding.is_some() || format == Format::Parquet {
            return Ok(true);
        }
        let mut reader = open(path)?;
        let start = reader.fill_buf().map_err(|error| broken(path, 1, error.to_string()))?;
        Ok(marked(start).is_some() || format == Format::Json && is_list(start))
    }
}

impl TextForm {
    /// The form of another file than those of the training: that of the training where the file is written so, else the usual one. The two
    /// can't be mixed up: text in another encoding is no UTF-8, and a first line has one of two marks.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn fitting(self, path: &Path) -> Result<Self, DataError> {
        let usual = Self { quotes: self.quotes, class_names: self.class_names, ..Self::default() };
        if self == usual {
            return Ok(self);
        }
        let encoding = if guessed(path)?.is_some() { self.encoding } else { None };
        let mut first = vec![];
        let read = open_text(path, encoding)?.take(MAX_LINE).read_until(b'\n', &mut first);
        read.map_err(|error| broken(path, 1, error.to_string()))?;
        Ok(Self { encoding, delimiter: self.delimiter.filter(|mark| first.contains(mark)), ..self })
    }
}

/// The byte between cells that a setting names.
///
/// # Errors
/// A sentence about a text that can't stand between cells.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n\0".contains(byte) => Ok(*byte),
        _ => Err(format!(
            "`{text}` can't stand between cells: name one character that is no letter, digit, quotation mark or line end, as `;`, `|` or \
             `\"\\t\"`"
        )),
    }
}

/// The encoding of a name as the web has them; nothing for UTF-8. Source: <https://encoding.spec.whatwg.org/#names-and-labels>.
///
/// # Errors
/// A sentence about a name that is none.
pub fn encoding(name: &str) -> Result<Option<&'static Encoding>, String> {
    match Encoding::for_label_no_replacement(name.as_bytes()) {
        Some(found) => Ok(Some(found).filter(|found| *found != UTF_8)),
        None => Err(format!(
            "there is no encoding `{name}`: names are those of the web, as `utf-8`, `utf-16`, `windows-1252`, `iso-8859-2`, `koi8-r`, \
             `shift_jis`, `euc-kr` or `gb18030`"
        )),
    }
}

/// Bytes by which an encoding is guessed.
const SAMPLE: u64 = 1 << 22;

/// Whether most of what is not ASCII is UTF-8.
fn is_damaged(text: &[u8]) -> bool {
    let (mut right, mut wrong) = (0, 0);
    for chunk in text.utf8_chunks() {
        right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        wrong += usize::from(!chunk.invalid().is_empty());
    }
    right > wrong
}

/// The encoding of a file that is no UTF-8, by the frequencies of its letters; nothing of one whose first bytes are UTF-8, or say what they
/// are by a mark.
///
/// # Errors
/// The file can't be read.
pub(super) fn guessed(path: &Path) -> Result<Option<&'static Encoding>, DataError> {
    let mut start = vec![];
    open(path)?.take(SAMPLE).read_to_end(&mut start).map_err(|error| broken(path, 1, error.to_string()))?;
    if marked(&start).is_some() {
        return Ok(None);
    }
    let zeros = |from: usize| start.iter().skip(from).step_by(2).take(1 << 10).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match start.len().min(1 << 11) / 2 {
        pairs if pairs > 0 && 2 * odd > pairs && even == 0 => return Ok(Some(UTF_16LE)),
        pairs if pairs > 0 && 2 * even > pairs && odd == 0 => return Ok(Some(UTF_16BE)),
        _ => {}
    }
    match std::str::from_utf8(&start) {
        Ok(_) => Ok(None),
        // A character may be cut where the sample ends.
        Err(error) if error.error_len().is_none() && start.len() as u64 == SAMPLE => Ok(None),
        // Characters of several bytes are hardly UTF-8 by chance: such a file is damaged, and its lines are told where they are read.
        Err(_) if is_damaged(&start) => Ok(None),
        Err(_) => {
            let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
            detector.feed(&start, true);
            Ok(Some(detector.guess(None, chardetng::Utf8Detection::Deny)))
        }
    }
}
