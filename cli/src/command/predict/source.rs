//! The sequences of a prediction: the arguments, a file, or standard input; one per line.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::Path;

use rtc_runtime::limits;

use crate::failure::Failure;
use crate::lines::Lines;
use crate::terminal::Terminal;

/// A sequence as it was written.
pub(super) struct Line {
    pub(super) text: String,
    /// The line, where there are several.
    pub(super) number: Option<usize>,
}

/// Sequences, one after the other.
pub(super) struct Source {
    /// The one of the arguments.
    single: Option<Line>,
    lines: Lines,
    /// Whether nothing comes any more.
    pub(super) ended: bool,
}

impl Source {
    pub(super) fn open(tokens: &[String], input: Option<&Path>, terminal: &Terminal) -> Result<Self, Failure> {
        if let Some(path) = input {
            let failed = |error| Failure::io("read", path, error);
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_dir() {
                return Err(failed(std::io::Error::other("a folder is no file of sequences")));
            }
            let lines = Lines::new(path.display().to_string(), BufReader::new(file));
            return Ok(Self { single: None, lines, ended: false });
        }
        if !tokens.is_empty() {
            let single = Some(Line { text: tokens.join(" "), number: None });
            return Ok(Self { single, lines: Lines::new("arguments".to_owned(), std::io::empty()), ended: false });
        }
        if std::io::stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        Ok(Self { single: None, lines: Lines::of_stdin(), ended: false })
    }

    /// The next sequences, at most `count`, and fewer where they are long; with what went wrong behind them, if something did.
    pub(super) fn some(&mut self, count: usize) -> (Vec<Line>, Result<(), Failure>) {
        let mut found: Vec<Line> = self.single.take().into_iter().collect();
        let mut held = 0;
        while found.len() < count && held < limits::PREDICTED {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(failure) => return (found, Err(failure)),
            };
            held += line.text.len();
            let text = line.text.trim();
            if !text.is_empty() {
                found.push(Line { text: text.to_owned(), number: Some(line.number) });
            }
        }
        (found, Ok(()))
    }

    /// A sequence that the model can't be given.
    pub(super) fn refused(&self, line: Option<usize>, why: String) -> Failure {
        Failure::data(&self.lines.name, line, why)
    }
}
