//! The rows of a prediction: the arguments, a file, or standard input.

use std::ffi::OsString;
use std::fs::{File, metadata};
use std::io::{self, BufReader, IsTerminal, Read, stdin};
use std::path::Path;

use crate::limits;
use rtc_compiler::ir::formula;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::error::DataError;
use rtc_task::{AskedRow, AskedRows, Column, Format};
use tempfile::{Builder, NamedTempFile};

use super::InputFormat;
use crate::lines::InputLines;
use crate::terminal::Terminal;

/// The name of standard input in messages.
const STDIN: &str = "standard input";

/// The source of rows.
enum RowOrigin {
    /// The arguments, or a whole text.
    Single { text: Option<String>, objects: bool },
    /// A text or a JSON object per line; `plain` takes every line as a text. `begun` after the first line that is not blank.
    Lines { lines: InputLines, plain: bool, begun: bool },
    /// The rows of a file of columns. Standard input and pipes are copied into one, which is removed at the end: a file is opened
    /// more than once.
    Rows { rows: AskedRows, copy: Option<NamedTempFile> },
}

/// Rows, one after the other.
pub(super) struct RowSource {
    name: String,
    origin: RowOrigin,
    /// Whether all rows were read.
    pub(super) ended: bool,
}

impl RowSource {
    /// The sequence of the arguments.
    pub(super) fn of_arguments(tokens: &[String]) -> Self {
        Self::new("arguments".to_owned(), RowOrigin::Single { text: Some(tokens.join(" ")), objects: true })
    }

    /// A file, or standard input without one.
    pub(super) fn open(
        trained: &TrainedModel,
        input: Option<&Path>,
        format: Option<InputFormat>,
        terminal: &Terminal,
    ) -> Result<Self, SessionFailure> {
        if let Some(path) = input
            && metadata(path).map_err(|error| SessionFailure::io("read", path, error))?.is_dir()
        {
            return Err(SessionFailure::io("read", path, io::Error::other("a folder is no file of sequences")));
        }
        let rows = match format {
            Some(InputFormat::Lines | InputFormat::Text) => None,
            Some(InputFormat::Rows(format)) => Some(format),
            None => input.and_then(|path| trained.format(path)),
        };
        let name = input.map_or_else(|| STDIN.to_owned(), |path| path.display().to_string());
        if input.is_none() && stdin().is_terminal() {
            terminal.message("reading sequences from standard input, one per line");
        }
        let origin = match rows {
            Some(rows) => Self::rows(trained, input, &name, rows)?,
            None if format == Some(InputFormat::Text) => {
                if trained.takes_values() {
                    return Err(SessionFailure::Usage(
                        "the model takes values from its rows, which a whole text does not have: give a row as a JSON object"
                            .to_owned(),
                    ));
                }
                RowOrigin::Single { text: Some(trained.task.on_one_line(&whole(input, &name)?)), objects: false }
            }
            None => {
                let lines = match input {
                    None => InputLines::of_stdin(),
                    Some(path) => InputLines::new(name.clone(), BufReader::new(open(path)?)),
                };
                RowOrigin::Lines { lines, plain: format == Some(InputFormat::Lines), begun: false }
            }
        };
        Ok(Self::new(name, origin))
    }

    fn new(name: String, origin: RowOrigin) -> Self {
        Self { name, origin, ended: false }
    }

    fn rows(
        trained: &TrainedModel,
        input: Option<&Path>,
        name: &str,
        format: Format,
    ) -> Result<RowOrigin, SessionFailure> {
        let Some(path) = input.filter(|path| path.is_file()) else {
            let failed = |error| SessionFailure::io("copy", Path::new(name), error);
            let ending =
                input.and_then(Path::extension).map(|ending| [".".as_ref(), ending].into_iter().collect::<OsString>());
            let mut copy = Builder::new().suffix(&ending.unwrap_or_default()).tempfile().map_err(failed)?;
            io::copy(&mut reader(input)?, copy.as_file_mut()).map_err(failed)?;
            let rows = trained.rows(copy.path(), format).map_err(|error| of_copy(error, name))?;
            return Ok(RowOrigin::Rows { rows, copy: Some(copy) });
        };
        let published = trained.task.columns().is_empty();
        let rows = trained.rows(path, format).map_err(|mut error| {
            if published {
                error.message += "; `--input-format lines` reads a sequence per line";
            }
            error
        })?;
        Ok(RowOrigin::Rows { rows, copy: None })
    }

    /// The next rows, at most `count`, and fewer where they are long; with the failure behind them, if there is one.
    pub(super) fn some(&mut self, count: usize, trained: &TrainedModel) -> (Vec<AskedRow>, Result<(), SessionFailure>) {
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

    fn next(&mut self, trained: &TrainedModel) -> Result<Option<AskedRow>, SessionFailure> {
        let (lines, plain, begun) = match &mut self.origin {
            RowOrigin::Single { text, objects } => {
                let objects = *objects;
                let row = text.take().map(|text| trained.asked(&text, objects));
                return row.transpose().map_err(|why| self.refused(0, why));
            }
            RowOrigin::Rows { rows, copy } => {
                let (copied, name) = (copy.is_some(), &self.name);
                let place = |error| if copied { of_copy(error, name) } else { error };
                return rows.next().transpose().map_err(|error| place(error).into());
            }
            RowOrigin::Lines { lines, plain, begun } => (lines, *plain, begun),
        };
        loop {
            let Some(line) = lines.next()? else { return Ok(None) };
            let text = line.text.trim();
            if text.is_empty() {
                continue;
            }
            let is_first = !std::mem::replace(begun, true);
            if is_first && !plain && is_header(text, &trained.task.columns(), trained.task.label_column().as_ref()) {
                return Err(SessionFailure::Usage(format!(
                    "{}:{}: `{text}` names the columns of the task: `--input-format csv` (or tsv) reads the rows below it, \
                     `--input-format lines` reads it as a text",
                    self.name, line.number
                )));
            }
            let row = trained.asked(text, !plain).map_err(|why| self.refused(line.number, why))?;
            return Ok(Some(AskedRow { line: line.number, ..row }));
        }
    }

    /// A row that the model can't be given.
    pub(super) fn refused(&self, line: usize, why: String) -> SessionFailure {
        SessionFailure::data(&self.name, Some(line).filter(|line| *line > 0), why)
    }
}

/// Words of the longest name of a column that is not one of the task.
const WORDS: usize = 3;

/// Whether a line is the header of a table with these columns of the input: all of them are there by their names, and every other cell is
/// the label or may be a name. A column that is named by its place has no name in a header.
fn is_header(line: &str, inputs: &[Column], label: Option<&Column>) -> bool {
    let name = |column: &Column| if let Column::Name(name) = column { Some(name.clone()) } else { None };
    let Some(inputs) = inputs.iter().map(name).collect::<Option<Vec<String>>>().filter(|names| !names.is_empty())
    else {
        return false;
    };
    let label = label.and_then(name);
    let known = |cell: &str| inputs.iter().chain(&label).any(|name| name == cell.trim().trim_matches('"'));
    [',', '\t', ';', '|'].iter().any(|between| {
        let cells: Vec<&str> = line.split(*between).collect();
        let has = |name: &String| cells.iter().any(|cell| cell.trim().trim_matches('"') == name);
        inputs.iter().all(has) && cells.iter().all(|cell| known(cell) || is_name(cell.trim_matches('"')))
    })
}

/// Whether a cell of a first line may be the name of a column: a few words of letters and digits, without blanks around.
fn is_name(cell: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_- .:()".contains(c);
    cell.trim() == cell && cell.chars().all(part) && cell.split_whitespace().count() <= WORDS
}

fn open(path: &Path) -> Result<File, SessionFailure> {
    File::open(path).map_err(|error| SessionFailure::io("read", path, error))
}

/// A file, or standard input without one.
fn reader(input: Option<&Path>) -> Result<Box<dyn Read>, SessionFailure> {
    Ok(match input {
        Some(path) => Box::new(open(path)?),
        None => Box::new(stdin()),
    })
}

/// The error of the copy of an input of this name.
fn of_copy(error: DataError, name: &str) -> DataError {
    DataError { file: name.to_owned(), ..error }
}

/// A whole input as one text.
fn whole(input: Option<&Path>, name: &str) -> Result<String, SessionFailure> {
    let failed = |error| SessionFailure::io("read", Path::new(name), error);
    let mut bytes = vec![];
    let most = limits::PREDICTED as u64;
    reader(input)?.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(SessionFailure::data(name, None, format!("this text is longer than {}", formula::bytes(most))));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        SessionFailure::data(name, Some(line), "this line is not UTF-8 text")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).trim().replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_from_texts() {
        let column = |name: &str| Column::Name(name.to_owned());
        let (text, pair, label) = ([column("text")], [column("premise"), column("hypothesis")], column("label"));
        let is = |line: &str| is_header(line, &text, Some(&label));
        for header in [
            "text",
            "\"text\"",
            "text,label",
            "text, label",
            "id|text|label",
            "id;text;my label",
            "label\ttext",
            "\"id\",\"text\"",
            ",text,label",
            "text,Unnamed: 0",
        ] {
            assert!(is(header), "{header}");
        }
        for line in ["text, and more", "a text", "the text,good", "text,what is this?", "text,a,b c d e", "text label"]
        {
            assert!(!is(line), "{line}");
        }
        assert!(is_header("id,premise,hypothesis", &pair, None) && !is_header("premise,label", &pair, None));
        assert!(!is_header("1, 2, good", &[Column::Place(1)], None) && !is_header("1,2", &[Column::Place(1)], None));
        assert!(!is_header("text,label", &[], None));
    }
}
