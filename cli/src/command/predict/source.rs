//! The sequences of a prediction: the arguments, a file, or standard input; one per line.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use rtc_runtime::limits;
use rtc_runtime::task::limits::MAX_LINE;

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
    lines: Box<dyn BufRead>,
    read: usize,
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
            let lines = Box::new(BufReader::new(file));
            return Ok(Self { name: path.display().to_string(), single: None, lines, read: 0, ended: false });
        }
        if !tokens.is_empty() {
            let single = Some(Line { text: tokens.join(" "), number: None });
            let lines = Box::new(std::io::empty());
            return Ok(Self { name: "arguments".to_owned(), single, lines, read: 0, ended: false });
        }
        if std::io::stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        let lines = Box::new(BufReader::new(std::io::stdin()));
        Ok(Self { name: "standard input".to_owned(), single: None, lines, read: 0, ended: false })
    }

    /// The next sequences, at most `count`, and fewer where they are long; with what went wrong behind them, if something did.
    pub(super) fn some(&mut self, count: usize) -> (Vec<Line>, Result<(), Failure>) {
        let mut found: Vec<Line> = self.single.take().into_iter().collect();
        let mut held = 0;
        while found.len() < count && held < MAX_HELD {
            let text = match self.line() {
                Ok(Some(text)) => text,
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(failure) => return (found, Err(failure)),
            };
            held += text.len();
            // A mark at the start of a file is no token.
            let mark = if self.read == 1 { "\u{feff}" } else { "" };
            let text = text.strip_prefix(mark).unwrap_or(&text).trim();
            if !text.is_empty() {
                found.push(Line { text: text.to_owned(), number: Some(self.read) });
            }
        }
        (found, Ok(()))
    }

    /// The next line; nothing at the end.
    fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut bytes = vec![];
        let read = self.lines.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
        if read.map_err(|error| Failure::io("read", Path::new(&self.name), error))? == 0 {
            return Ok(None);
        }
        self.read += 1;
        let refused = |why: &str| self.refused(Some(self.read), why.to_owned());
        if bytes.len() as u64 > MAX_LINE {
            return Err(refused("this line is longer than 16 MiB"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| refused("this line is not UTF-8 text"))
    }

    /// A sequence that the model can't be given.
    pub(super) fn refused(&self, line: Option<usize>, why: String) -> Failure {
        Failure::data(&self.name, line, why)
    }
}
