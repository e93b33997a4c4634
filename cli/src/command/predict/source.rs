//! The rows of a prediction: the arguments, a file, or standard input.

use std::fs::{File, metadata};
use std::io::{self, BufReader, IsTerminal, Read, stdin};
use std::path::Path;

use rtc_runtime::error::DataError;
use rtc_runtime::limits;
use rtc_runtime::task::{AskedRow, AskedRows, Format, file_format};
use tempfile::NamedTempFile;

use super::InputFormat;
use crate::failure::Failure;
use crate::lines::Lines;
use crate::saved::Trained;
use crate::terminal::Terminal;

/// The name of standard input in messages.
const STDIN: &str = "standard input";

/// The source of rows.
enum Origin {
    /// The arguments, or a whole text.
    Single { text: Option<String>, objects: bool },
    /// A text or a JSON object per line; `plain` takes every line as a text.
    Lines { lines: Lines, plain: bool },
    /// The rows of a file of columns; standard input is copied into one, which is removed at the end.
    Rows { rows: AskedRows, copy: Option<NamedTempFile> },
}

/// Rows, one after the other.
pub(super) struct Source {
    name: String,
    origin: Origin,
    /// Whether all rows were read.
    pub(super) ended: bool,
}

impl Source {
    /// The sequence of the arguments.
    pub(super) fn of_arguments(tokens: &[String]) -> Self {
        Self::new("arguments".to_owned(), Origin::Single { text: Some(tokens.join(" ")), objects: true })
    }

    /// A file, or standard input without one.
    pub(super) fn open(
        trained: &Trained,
        input: Option<&Path>,
        format: Option<InputFormat>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        if let Some(path) = input
            && metadata(path).map_err(|error| Failure::io("read", path, error))?.is_dir()
        {
            return Err(Failure::io("read", path, io::Error::other("a folder is no file of sequences")));
        }
        let rows = match format {
            Some(InputFormat::Lines | InputFormat::Text) => None,
            Some(InputFormat::Rows(format)) => Some(format),
            None => input.and_then(file_format).filter(|format| *format != Format::Text),
        };
        let name = input.map_or_else(|| STDIN.to_owned(), |path| path.display().to_string());
        if input.is_none() && stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        let origin = match rows {
            Some(rows) => Self::rows(trained, input, rows)?,
            None if format == Some(InputFormat::Text) => {
                if trained.takes_values() {
                    return Err(Failure::Usage(
                        "the model takes values from its rows, which a whole text does not have: give a row as a JSON object"
                            .to_owned(),
                    ));
                }
                Origin::Single { text: Some(trained.task.on_one_line(&whole(input, &name)?)), objects: false }
            }
            None => {
                let lines = match input {
                    None => Lines::of_stdin(),
                    Some(path) => Lines::new(name.clone(), BufReader::new(open(path)?)),
                };
                Origin::Lines { lines, plain: format == Some(InputFormat::Lines) }
            }
        };
        Ok(Self::new(name, origin))
    }

    fn new(name: String, origin: Origin) -> Self {
        Self { name, origin, ended: false }
    }

    fn rows(trained: &Trained, input: Option<&Path>, format: Format) -> Result<Origin, Failure> {
        let Some(path) = input else {
            let failed = |error| Failure::io("copy", Path::new(STDIN), error);
            let mut copy = NamedTempFile::new().map_err(failed)?;
            io::copy(&mut stdin().lock(), copy.as_file_mut()).map_err(failed)?;
            let rows = trained.rows(copy.path(), format).map_err(of_stdin)?;
            return Ok(Origin::Rows { rows, copy: Some(copy) });
        };
        let published = trained.task.columns().is_empty();
        let rows = trained.rows(path, format).map_err(|mut error| {
            if published {
                error.message += "; `--input-format lines` reads a sequence per line";
            }
            error
        })?;
        Ok(Origin::Rows { rows, copy: None })
    }

    /// The next rows, at most `count`, and fewer where they are long; with the failure behind them, if there is one.
    pub(super) fn some(&mut self, count: usize, trained: &Trained) -> (Vec<AskedRow>, Result<(), Failure>) {
        let (mut found, mut held) = (vec![], 0);
        while found.len() < count && held < limits::PREDICTED {
            match self.next(trained) {
                Ok(Some(row)) => {
                    held += row.text.len() + row.example.bytes();
                    found.push(row);
                }
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(failure) => return (found, Err(failure)),
            }
        }
        (found, Ok(()))
    }

    fn next(&mut self, trained: &Trained) -> Result<Option<AskedRow>, Failure> {
        let (lines, plain) = match &mut self.origin {
            Origin::Single { text, objects } => {
                let objects = *objects;
                let row = text.take().map(|text| trained.asked(&text, objects));
                return row.transpose().map_err(|why| self.refused(0, why));
            }
            Origin::Rows { rows, copy } => {
                let copied = copy.is_some();
                let place = |error| if copied { of_stdin(error) } else { error };
                return rows.next().transpose().map_err(|error| place(error).into());
            }
            Origin::Lines { lines, plain } => (lines, *plain),
        };
        loop {
            let Some(line) = lines.next()? else { return Ok(None) };
            let text = line.text.trim();
            if text.is_empty() {
                continue;
            }
            if line.number == 1 && !plain && is_header(text, trained) {
                return Err(Failure::Usage(format!(
                    "{}:1: `{text}` names the columns of the task: `--input-format csv` (or tsv) reads the rows below it, \
                     `--input-format lines` reads it as a text",
                    self.name
                )));
            }
            let row = trained.asked(text, !plain).map_err(|why| self.refused(line.number, why))?;
            return Ok(Some(AskedRow { line: line.number, ..row }));
        }
    }

    /// A row that the model can't be given.
    pub(super) fn refused(&self, line: usize, why: String) -> Failure {
        Failure::data(&self.name, Some(line).filter(|line| *line > 0), why)
    }
}

/// Whether a line is the header of a table with the columns of the task.
fn is_header(line: &str, trained: &Trained) -> bool {
    let columns = trained.task.columns();
    let has = |cells: Vec<&str>| {
        let named = |name: &str| cells.iter().any(|cell| cell.trim().trim_matches('"') == name);
        cells.len() > 1 && columns.iter().all(|column| named(&column.to_string()))
    };
    !columns.is_empty() && [',', '\t', ';'].iter().any(|between| has(line.split(*between).collect()))
}

fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let file = File::open(path).map_err(|error| Failure::io("read", path, error))?;
    Ok(Box::new(file))
}

/// The error of the copy of standard input.
fn of_stdin(error: DataError) -> DataError {
    DataError { file: STDIN.to_owned(), ..error }
}

/// A whole input as one text.
fn whole(input: Option<&Path>, name: &str) -> Result<String, Failure> {
    let failed = |error| Failure::io("read", Path::new(name), error);
    let mut bytes = vec![];
    let most = limits::PREDICTED as u64;
    let reader: Box<dyn Read> = match input {
        Some(path) => open(path)?,
        None => Box::new(stdin()),
    };
    reader.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(Failure::data(name, None, format!("this text is longer than {}", limits::bytes(most))));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Failure::data(name, Some(line), "this line is not UTF-8 text")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).trim().replace("\r\n", "\n"))
}
