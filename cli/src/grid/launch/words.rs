//! The command that trains one cell, made of the one that launches all.

use std::env;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
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
pub(super) fn for_cell(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = words;
    let mut kept = vec![];
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !(ALONE.contains(&name) || WITH_VALUE.contains(&name) || is_jobs(&word)) {
            kept.push(word);
        }
    }
    kept
}

/// `-j4`.
fn is_jobs(word: &str) -> bool {
    word.strip_prefix("-j").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The beginning of a command for a shell: the folder in which this one was given, and the program.
pub(super) fn start() -> Result<String, Failure> {
    let folder = env::current_dir().map_err(|error| Failure::io("find", Path::new("."), error))?;
    let program = env::current_exe().map_err(|error| Failure::io("find", Path::new("rtc"), error))?;
    Ok(format!("cd {} && {}", quoted(&folder), quoted(&program)))
}

/// Words as a shell takes them.
pub(super) fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")
}

/// The variables in which queues say which element of an array a job is, and the number of the first element.
const INDICES: [(&str, usize); 3] = [("SLURM_ARRAY_TASK_ID", 1), ("HQ_TASK_ID", 1), ("JOB_COMPLETION_INDEX", 0)];

/// The cell that `--cell` names: itself, or of a list, or of the lines of `@FILE`, the one of this element of an array.
pub(crate) fn line_of_variables(text: &str) -> Result<String, Failure> {
    let index = INDICES.iter().find_map(|(name, first)| {
        let number: usize = env::var(name).ok()?.parse().ok()?;
        number.checked_sub(*first)
    });
    let cells: Vec<String> = match text.strip_prefix('@') {
        Some(file) => {
            let list = fs::read_to_string(file).map_err(|error| Failure::io("read", Path::new(file), error))?;
            list.lines().map(str::to_owned).collect()
        }
        None if !text.contains(',') => return Ok(text.to_owned()),
        None => text.split(',').filter(|cell| !cell.is_empty()).map(str::to_owned).collect(),
    };
    let names = INDICES.map(|(name, _)| name).join("`, `");
    match index {
        None => Err(Failure::Usage(format!("`--cell {text}` is for jobs of an array: none of `{names}` is set"))),
        Some(index) => cells.get(index).cloned().ok_or_else(|| {
            Failure::Usage(format!("`--cell` has {} cells, and this job is number {}", cells.len(), index + 1))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        for_cell(line.split(' ').map(str::to_owned)).join(" ")
    }

    #[test]
    fn a_cell_has_what_decides_its_numbers() {
        let line = "ablate my.yaml --launcher slurm --launcher-option --partition=gpu --detach --set embed.width=8 -j 4 --mem=2G";
        assert_eq!(kept(line), "ablate my.yaml --set embed.width=8");
        assert_eq!(kept("-q ablate my.yaml --jobs=4 -j8 --json --grid g"), "-q ablate my.yaml --grid g");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell(&["a b".to_owned(), "x=1".to_owned(), "it's".to_owned()]), r"'a b' x=1 'it'\''s'");
    }
}
