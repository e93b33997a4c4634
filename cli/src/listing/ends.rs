//! The two ends of a record of a run, which may be long: its first line, and the last ones.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use rtc_base::disk::beneath;
use rtc_runs::record::sha256;
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
    pub(super) fn read(folder: &Path, name: &str, run: &str, most: u64) -> io::Result<Self> {
        let mut ends = Self { run: run.to_owned(), first: vec![], last: vec![], is_whole: true };
        let mut file = match beneath::open(folder, Path::new(name)) {
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
    pub(super) fn first(&self) -> Result<Option<Value>, &'static str> {
        self.first.split_inclusive(|byte| *byte == b'\n').find_map(whole).map(|line| open(&self.run, line)).transpose()
    }

    /// The last line with this text in it; nothing if there is none among those that were read.
    ///
    /// # Errors
    /// It is not as it was written.
    pub(super) fn last(&self, part: &str) -> Result<Option<Value>, &'static str> {
        let lines = self.last.split_inclusive(|byte| *byte == b'\n').filter_map(whole);
        // The first of some lines may be a part of one.
        let lines: Vec<&[u8]> = lines.skip(usize::from(!self.is_whole)).collect();
        let has_part = |line: &[u8]| part.is_empty() || line.windows(part.len()).any(|bytes| bytes == part.as_bytes());
        let Some((n, line)) = lines.iter().enumerate().rfind(|(_, line)| has_part(line)) else { return Ok(None) };
        match n.checked_sub(1) {
            Some(before) => open(parts(lines[before])?.1, line).map(Some),
            None if self.is_whole => open(&self.run, line).map(Some),
            // What it follows was not read.
            None => Ok(None),
        }
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
fn parts(line: &[u8]) -> Result<(&[u8], &str), &'static str> {
    let cut = || {
        let (text, rest) = line.split_at_checked(line.len().checked_sub(DIGITS + ",\"check\":\"\"}".len())?)?;
        let check = rest.strip_prefix(b",\"check\":\"")?.strip_suffix(b"\"}")?;
        Some((text, str::from_utf8(check).ok()?))
    };
    cut().ok_or("has a line without its `check`")
}

fn open(before: &str, line: &[u8]) -> Result<Value, &'static str> {
    let (text, check) = parts(line)?;
    if sha256([before.as_bytes(), text].concat())[..DIGITS] != *check {
        return Err("was changed: the `check` of a line is not the one that it was written with");
    }
    serde_json::from_slice(line).map_err(|_| "has a line that is no JSON")
}
