//! The sequences of a prediction: the arguments, a file, or standard input; one per line.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;

use rtc_runtime::limits;
use rtc_runtime::task::sequence::{self, LineError};

use crate::failure::Failure;
use crate::terminal::Terminal;

/// Sequences that are computed together have so many bytes, and the last of them some more.
const MAX_HELD: usize = limits::PREDICTED;

/// A sequence as it was written.
pub(super) struct Line {
    pub(super) text: String,
    /// The line, where there are several.
    pub(super) number: Option<usize>,
}

/// Sequences, one after the other.
pub(super) struct Source {
    name: String,
    /// The one of the arguments.
    single: Option<Line>,
    lines: sequence::Lines<Box<dyn BufRead>>,
    /// Whether nothing comes any more.
    pub(super) ended: bool,
}

impl Source {
    pub(super) fn open(tokens: &[String], input: Option<&Path>, terminal: &Terminal) -> Result<Self, Failure> {
        let from = |name: String, single: Option<Line>, text: Box<dyn BufRead>| Self {
            name,
            single,
            lines: sequence::Lines::new(text),
            ended: false,
        };
        if let Some(path) = input {
            let failed = |error| Failure::io("read", path, error);
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_dir() {
                return Err(failed(std::io::Error::other("a folder is no file of sequences")));
            }
            return Ok(from(path.display().to_string(), None, Box::new(BufReader::new(file))));
        }
        if !tokens.is_empty() {
            let single = Line { text: tokens.join(" "), number: None };
            return Ok(from("arguments".to_owned(), Some(single), Box::new(std::io::empty())));
        }
        if std::io::stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        Ok(from("standard input".to_owned(), None, Box::new(BufReader::new(std::io::stdin()))))
    }

    /// The next sequences, at most `count`, and fewer where they are long; with what went wrong behind them, if something did.
    pub(super) fn some(&mut self, count: usize) -> (Vec<Line>, Result<(), Failure>) {
        let mut found: Vec<Line> = self.single.take().into_iter().collect();
        let mut held = 0;
        while found.len() < count && held < MAX_HELD {
            match self.lines.next() {
                None => {
                    self.ended = true;
                    break;
                }
                Some(Ok(sequence::Line { text, number })) => {
                    held += text.len();
                    found.push(Line { text, number: Some(number) });
                }
                Some(Err(LineError::Io(error))) => {
                    return (found, Err(Failure::io("read", Path::new(&self.name), error)));
                }
                Some(Err(LineError::Broken(line, why))) => {
                    return (found, Err(self.refused(Some(line), why.to_owned())));
                }
            }
        }
        (found, Ok(()))
    }

    /// A sequence that the model can't be given.
    pub(super) fn refused(&self, line: Option<usize>, why: String) -> Failure {
        Failure::data(&self.name, line, why)
    }
}
