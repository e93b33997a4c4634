//! The two ends of a record of a run, which may be long: its first line, and the last ones.

use std::fs::File;
use std::io::{ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::Path;

use rtc_runtime::record::sha256;
use serde_json::Value;

/// Digits in the `check` of a line.
const DIGITS: usize = 16;

/// Lines of a file whose last field is a `check`, the first digits of the SHA-256 of the `check` of the line before it and of its own text.
/// A line is read after it was checked against the line before it.
pub(super) struct Ends {
    /// What the `check` of the first line begins with.
    run: String,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether the last lines are all.
    is_whole: bool,
}

impl Ends {
    /// Reads so many bytes of each end; nothing of a file that is not there.
    pub(super) fn read(path: &Path, run: &str, most: u64) -> Result<Self> {
        let mut ends = Self { run: run.to_owned(), first: vec![], last: vec![], is_whole: true };
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ends),
            file => file?,
        };
        let length = file.metadata()?.len();
        ends.first.reserve(length.min(most) as usize + 1);
        (&mut file).take(most).read_to_end(&mut ends.first)?;
        if length > most {
            ends.is_whole = false;
            file.seek(SeekFrom::Start(length - most))?;
            ends.last.reserve(most as usize + 1);
            file.read_to_end(&mut ends.last)?;
        } else {
            ends.last.clone_from(&ends.first);
        }
        Ok(ends)
    }

    /// The first line; nothing if there is none.
    ///
    /// # Errors
    /// It is not as it was written.
    pub(super) fn first(&self) -> std::result::Result<Option<Value>, &'static str> {
        self.first.split_inclusive(|byte| *byte == b'\n').find_map(whole).map(|line| open(&self.run, line)).transpose()
    }

    /// The last line of this kind; nothing if there is none among those that were read.
    ///
    /// # Errors
    /// It is not as it was written.
    pub(super) fn last(&self, is_wanted: impl Fn(&Value) -> bool) -> std::result::Result<Option<Value>, &'static str> {
        let lines: Vec<&[u8]> = self.last.split_inclusive(|byte| *byte == b'\n').filter_map(whole).collect();
        for (n, line) in lines.iter().enumerate().rev() {
            let before = match n.checked_sub(1) {
                Some(before) => parts(lines[before]).map(|(_, check)| check),
                None => self.is_whole.then_some(self.run.as_str()),
            };
            let Some(before) = before else { break };
            if is_wanted(&serde_json::from_slice(line).unwrap_or_default()) {
                return open(before, line).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the last lines are all that there are.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// A line without its end; half a line is none.
fn whole(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix(b"\n")
}

/// The text of a line before its `check`, and that.
fn parts(line: &[u8]) -> Option<(&[u8], &str)> {
    let (text, rest) = line.split_at_checked(line.len().checked_sub(DIGITS + ",\"check\":\"\"}".len())?)?;
    let check = rest.strip_prefix(b",\"check\":\"")?.strip_suffix(b"\"}")?;
    Some((text, std::str::from_utf8(check).ok()?))
}

fn open(before: &str, line: &[u8]) -> std::result::Result<Value, &'static str> {
    let (text, check) = parts(line).ok_or("has a line without its `check`")?;
    if sha256([before.as_bytes(), text].concat())[..DIGITS] != *check {
        return Err("was changed: the `check` of a line is not the one that it was written with");
    }
    serde_json::from_slice(line).map_err(|_| "has a line that is no JSON")
}
