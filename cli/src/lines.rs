//! Lines of text that a command is given, of a file or of standard input.

use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;

use rtc_runtime::limits;
use rtc_runtime::task::limits::MAX_LINE;

use crate::failure::Failure;

/// Lines, one after the other.
pub(crate) struct Lines {
    /// Where they come from.
    pub(crate) name: String,
    input: Box<dyn BufRead>,
    read: usize,
}

impl Lines {
    /// The lines of an input of this name.
    pub(crate) fn new(name: String, input: impl BufRead + 'static) -> Self {
        Self { name, input: Box::new(input), read: 0 }
    }

    /// Those of standard input.
    pub(crate) fn of_stdin() -> Self {
        Self::new("standard input".to_owned(), BufReader::new(stdin()))
    }

    /// The next line with its number from 1, without its end; nothing at the end. A line that is too long, or no text, is refused.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, String)>, Failure> {
        let mut bytes = vec![];
        let read = self.input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
        if read.map_err(|error| Failure::io("read", Path::new(&self.name), error))? == 0 {
            return Ok(None);
        }
        self.read += 1;
        let refused = |why: &str| Failure::data(&self.name, Some(self.read), why);
        if bytes.len() as u64 > MAX_LINE {
            return Err(refused(&format!("this line is longer than {}", limits::bytes(MAX_LINE))));
        }
        let text = String::from_utf8(bytes).map_err(|_| refused("this line is not UTF-8 text"))?;
        let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
        // A mark at the start of a file is no token.
        let mark = if self.read == 1 { "\u{feff}" } else { "" };
        Ok(Some((self.read, text.strip_prefix(mark).unwrap_or(text).to_owned())))
    }
}
