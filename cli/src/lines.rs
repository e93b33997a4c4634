//! Lines of text that a command is given, of a file or of standard input.

use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use rtc_session::failure::SessionFailure;
use rtc_task::sequence::{self, LineError, NumberedLine};

/// Lines, one after the other.
pub(crate) struct InputLines {
    /// Where they come from.
    pub(crate) name: String,
    lines: sequence::Lines<Box<dyn BufRead>>,
}

impl InputLines {
    /// The lines of an input of this name.
    pub(crate) fn new(name: String, input: impl BufRead + 'static) -> Self {
        Self { name, lines: sequence::Lines::new(Box::new(input)) }
    }

    /// Those of standard input.
    pub(crate) fn of_stdin() -> Self {
        Self::new("standard input".to_owned(), BufReader::new(stdin()))
    }

    /// The next line; nothing at the end. A line that is too long, or no text, is refused.
    pub(crate) fn next(&mut self) -> Result<Option<NumberedLine>, SessionFailure> {
        self.lines.next().transpose().map_err(|error| match error {
            LineError::Io(error) => SessionFailure::io("read", Path::new(&self.name), error),
            LineError::Broken(line, why) => SessionFailure::data(&self.name, Some(line), why),
        })
    }
}
