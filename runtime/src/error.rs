//! Every way in which a run can fail, with the exit code that the command gives for it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::learner::LearnError;
use crate::weights::WeightsError;

/// Exit code of a run that was asked to stop and can go on later.
pub const STOPPED: u8 = 75;

/// The failure of a task, an experiment, a record, a checkpoint or the model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment file, or an edit of it, is not valid.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A data file is broken, or a split can't be made.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model failed.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// Reading or writing failed; nothing that was complete before is lost.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A checkpoint is damaged or belongs to another run.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Weights from elsewhere do not fit the model, or their file is broken.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl Error {
    /// The exit code of the command: 2 usage, 4 data, 5 non-finite, 6 input, output, devices and ranks, 7 checkpoint refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Experiment(_) => 2,
            Self::Data(_) | Self::Learn(LearnError::Batch(_)) => 4,
            Self::Learn(LearnError::NonFinite { .. }) => 5,
            Self::Io(_) | Self::Learn(LearnError::Device(_) | LearnError::Ranks(_)) => 6,
            Self::Checkpoint(_) | Self::Weights(_) | Self::Learn(LearnError::Mismatch(_)) => 7,
        }
    }
}

/// A mistake in an experiment, with the line where one is known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", located(file, *line, message))]
pub struct ExperimentError {
    /// The file's name as the user gave it, or the name of an embedded experiment.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong, with a suggestion where a name is close to a valid one.
    pub message: String,
}

/// A broken row of a data file, or a split that can't be filled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", located(file, *line, message))]
pub struct DataError {
    /// The file, or the task for generated data.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

/// `file:line: message`, the form that editors turn into a link.
fn located(file: &str, line: Option<usize>, message: &str) -> String {
    line.map_or_else(|| format!("{file}: {message}"), |line| format!("{file}:{line}: {message}"))
}

/// An operation of the file system that failed.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {}: {source}", path.display())]
pub struct IoError {
    /// What was tried: `write`, `read`, `rename`, ...
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The answer of the system.
    pub source: io::Error,
}

impl IoError {
    /// For `map_err`: names the action and the path of a failed operation.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { action, path, source }
    }
}

/// A checkpoint or run folder that can't be used.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointError {
    /// The folder that was asked for.
    pub path: PathBuf,
    /// Why it is refused.
    pub reason: String,
    /// A complete older checkpoint that may stand in its place, if there is one.
    pub previous: Option<PathBuf>,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused: {}", self.path.display(), self.reason)?;
        match &self.previous {
            Some(previous) => {
                let (good, bad) = (previous.display(), self.path.display());
                write!(f, "; the last good one is {good}: put it in the place of {bad} to go on from there")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for CheckpointError {}

/// The candidate that `name` was probably meant to be: the nearest by edits, if at most a third of it differs.
pub(crate) fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The sentence for a name that is none of the candidates: what it is, the near one, and the whole list.
pub fn unknown<N: AsRef<str>>(what: &str, name: &str, candidates: impl IntoIterator<Item = N>) -> String {
    let candidates: Vec<N> = candidates.into_iter().collect();
    let known: Vec<&str> = candidates.iter().map(N::as_ref).collect();
    format!("there is no {what} `{name}`{} (known: {})", hint(name, &known), known.join(", "))
}

/// The end of a sentence about a wrong name, where one of the candidates is near.
pub fn hint(name: &str, candidates: &[&str]) -> String {
    suggest(name, candidates.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(suggest("learning_rat", ["batch", "learning_rate"]), Some("learning_rate"));
        assert_eq!(suggest("wamup", ["warmup", "total"]), Some("warmup"));
        assert_eq!(suggest("xyz", ["warmup", "total"]), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
