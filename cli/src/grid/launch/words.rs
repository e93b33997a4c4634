//! The command that trains one cell, made of the one that launches all.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use rtc_session::failure::SessionFailure;
use rtc_session::folders::check_name;

use crate::terminal::quoted;

/// Options of the launching command that a cell has not, with a value.
const WITH_VALUE: [&str; 12] = [
    "--launcher",
    "--launcher-option",
    "--time",
    "--mem",
    "--image",
    "--volume",
    "--jobs",
    "-j",
    "--format",
    "--metric",
    "--baseline",
    "--cell",
];

/// The same without a value.
const ALONE: [&str; 7] = ["--detach", "--json", "--watch", "--plain", "--parameters", "--depth", "--max"];

/// The words of the launching command, without the program, that stay for a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellWords {
    /// Subcommand and options.
    before: Vec<String>,
    /// Names behind `--`, which they need where they begin with `-`.
    behind: Vec<String>,
}

impl CellWords {
    /// The words with the option that names the cell, or says where it is named.
    pub(super) fn with_cell(&self, cell: &str) -> Vec<String> {
        let cell = ["--cell".to_owned(), cell.to_owned()];
        let end = if self.behind.is_empty() { None } else { Some("--".to_owned()) };
        self.before.iter().chain(&cell).chain(&end).chain(&self.behind).cloned().collect()
    }
}

/// The words of this command for a cell; each must be a line of text.
pub(super) fn of_this_command() -> Result<CellWords, SessionFailure> {
    let words = env::args_os().skip(1).map(|word| in_script("a word of the command", Path::new(&word)));
    Ok(for_cell(words.collect::<Result<Vec<_>, _>>()?.into_iter()))
}

fn for_cell(words: impl Iterator<Item = String>) -> CellWords {
    let mut words = words;
    let mut kept = vec![];
    while let Some(word) = words.next().filter(|word| word != "--") {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !(ALONE.contains(&name) || WITH_VALUE.contains(&name) || is_jobs(&word)) {
            kept.push(word);
        }
    }
    CellWords { before: kept, behind: words.collect() }
}

/// `-j4`.
fn is_jobs(word: &str) -> bool {
    word.strip_prefix("-j").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The folder in which this command was given, and its program.
pub(super) fn start() -> Result<[PathBuf; 2], SessionFailure> {
    let folder = env::current_dir().map_err(|error| SessionFailure::io("find", Path::new("."), error))?;
    let program = env::current_exe().map_err(|error| SessionFailure::io("find", Path::new("rtc"), error))?;
    in_script("the path of the folder", &folder)?;
    in_script("the path of the program", &program)?;
    Ok([folder, program])
}

/// A path or a word as text for a script, which holds a word in a line.
pub(super) fn in_script(what: &str, path: &Path) -> Result<String, SessionFailure> {
    let Some(text) = path.to_str() else {
        return Err(SessionFailure::Usage(format!("{what} must be UTF-8 text: got {path:?}. Give another name")));
    };
    check_name(what, text)?;
    Ok(text.to_owned())
}

/// Words as a shell takes them.
pub(super) fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")
}

/// The variables in which queues say which element of an array a job is, and the number of the first element.
const INDICES: [(&str, usize); 3] = [("SLURM_ARRAY_TASK_ID", 1), ("HQ_TASK_ID", 1), ("JOB_COMPLETION_INDEX", 0)];

/// The cell that `--cell` names: itself, or of a list, or of the lines of `@FILE`, the one of this element of an array.
pub(crate) fn line_of_variables(text: &str) -> Result<String, SessionFailure> {
    let index = INDICES.iter().find_map(|(name, first)| {
        let number: usize = env::var(name).ok()?.parse().ok()?;
        number.checked_sub(*first)
    });
    let cells: Vec<String> = match text.strip_prefix('@') {
        Some(file) => {
            let list = fs::read_to_string(file).map_err(|error| SessionFailure::io("read", Path::new(file), error))?;
            list.lines().map(str::to_owned).collect()
        }
        None if !text.contains(',') => return Ok(text.to_owned()),
        None => text.split(',').filter(|cell| !cell.is_empty()).map(str::to_owned).collect(),
    };
    let names = INDICES.map(|(name, _)| name).join("`, `");
    match index {
        None => {
            Err(SessionFailure::Usage(format!("`--cell {text}` is for jobs of an array: none of `{names}` is set")))
        }
        Some(index) => cells.get(index).cloned().ok_or_else(|| {
            SessionFailure::Usage(format!("`--cell` has {} cells, and this job is number {}", cells.len(), index + 1))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        for_cell(line.split(' ').map(str::to_owned)).with_cell("@l").join(" ")
    }

    #[test]
    fn a_cell_has_what_decides_its_numbers() {
        let line = "ablate my.yaml --launcher slurm --launcher-option --partition=gpu --detach --set embed.width=8 -j 4 --mem=2G";
        assert_eq!(kept(line), "ablate my.yaml --set embed.width=8 --cell @l");
        assert_eq!(kept("-q ablate my.yaml --jobs=4 -j8 --json --grid g"), "-q ablate my.yaml --grid g --cell @l");
        assert_eq!(kept("ablate --grid g -j2 -- --json"), "ablate --grid g --cell @l -- --json");
        assert_eq!(kept("ablate --launcher-option -- --jobs 2 -- -j4"), "ablate --cell @l -- -j4");
    }

    #[test]
    fn a_word_of_a_script_is_a_line_of_text() {
        assert_eq!(in_script("it", Path::new("a b")).ok().as_deref(), Some("a b"));
        for wrong in ["a\nb", "a\rb", "\u{1b}", "\u{85}"] {
            let refused = in_script("the name", Path::new(wrong)).expect_err(wrong);
            assert_eq!(refused.code(), 2);
            assert!(refused.to_string().starts_with("the name must have no control characters: got "), "{refused}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let hostile = "$(id) `id` && ; | > * ? # ! \\ \" ' ~".to_owned();
        assert_eq!(shell(std::slice::from_ref(&hostile)), format!("'{}'", hostile.replace('\'', r"'\''")));
        assert_eq!(shell(&["a b".to_owned(), "x=1".to_owned(), "it's".to_owned()]), r"'a b' x=1 'it'\''s'");
    }
}
