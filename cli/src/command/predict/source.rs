//! The sequences of a prediction: the arguments, a file, or standard input; one per line.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal};
use std::path::Path;

use crate::failure::Failure;
use crate::terminal::Terminal;

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
    lines: Box<dyn BufRead>,
    read: usize,
}

impl Source {
    pub(super) fn open(tokens: &[String], input: Option<&Path>, terminal: &Terminal) -> Result<Self, Failure> {
        if let Some(path) = input {
            let failed = |error| Failure::io("read", path, error);
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_dir() {
                return Err(failed(std::io::Error::other("a folder is no file of sequences")));
            }
            let lines = Box::new(BufReader::new(file));
            return Ok(Self { name: path.display().to_string(), single: None, lines, read: 0 });
        }
        if !tokens.is_empty() {
            let single = Some(Line { text: tokens.join(" "), number: None });
            return Ok(Self { name: "arguments".to_owned(), single, lines: Box::new(std::io::empty()), read: 0 });
        }
        if std::io::stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        let lines = Box::new(BufReader::new(std::io::stdin()));
        Ok(Self { name: "standard input".to_owned(), single: None, lines, read: 0 })
    }

    /// The next sequences, at most `count`; with what went wrong behind them, if something did. Fewer are the last ones.
    pub(super) fn some(&mut self, count: usize) -> (Vec<Line>, Result<(), Failure>) {
        let mut found: Vec<Line> = self.single.take().into_iter().collect();
        while found.len() < count {
            let mut text = String::new();
            match self.lines.read_line(&mut text) {
                Ok(0) => break,
                Ok(_) => self.read += 1,
                Err(error) => return (found, Err(self.unreadable(error))),
            }
            // A mark at the start of a file is no token.
            let mark = if self.read == 1 { "\u{feff}" } else { "" };
            let text = text.strip_prefix(mark).unwrap_or(&text).trim();
            if !text.is_empty() {
                found.push(Line { text: text.to_owned(), number: Some(self.read) });
            }
        }
        (found, Ok(()))
    }

    fn unreadable(&self, error: std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::InvalidData => self.refused(Some(self.read + 1), "this line is not UTF-8 text".to_owned()),
            _ => Failure::io("read", Path::new(&self.name), error),
        }
    }

    /// A sequence that the model can't be given.
    pub(super) fn refused(&self, line: Option<usize>, why: String) -> Failure {
        Failure::data(&self.name, line, why)
    }
}
