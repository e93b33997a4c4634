//! Every way in which a run can fail, with the exit code that the command gives for it.

use std::fmt;
use std::path::PathBuf;

use rtc_base::disk::IoError;
use rtc_exec::learner::LearnError;
use rtc_task::error::{DataError, located};

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

/// The mistakes in an experiment, each with the line where one is known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{}", located(file, *line, message), more(others.len()))]
pub struct ExperimentError {
    /// The file's name as the user gave it, or the name of an embedded experiment.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong, with a suggestion where a name is close to a valid one.
    pub message: String,
    /// Further mistakes, each without others.
    pub others: Vec<ExperimentError>,
}

/// The end of a sentence that tells the first of several mistakes.
fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (and one more mistake)".to_owned(),
        others => format!(" (and {others} more mistakes)"),
    }
}

impl ExperimentError {
    /// Joins mistakes, each once, in the order of their lines; `None` without any.
    pub fn all(errors: Vec<Self>) -> Option<Self> {
        let mut each: Vec<Self> = vec![];
        for error in errors.iter().flat_map(Self::each) {
            if !each.contains(&error) {
                each.push(error);
            }
        }
        each.sort_by_key(|error| error.line);
        let mut each = each.into_iter();
        let first = each.next()?;
        Some(Self { others: each.collect(), ..first })
    }

    /// The mistakes one by one.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        let first = Self { others: vec![], ..self.clone() };
        std::iter::once(first).chain(self.others.iter().cloned())
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

/// A file with weights that is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightsError {
    /// The file as the user gave it.
    pub file: String,
    /// All that is wrong with it.
    pub faults: Vec<String>,
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.faults[..] {
            [fault] => write!(f, "{}: {fault}", self.file),
            faults => write!(f, "{}: {} faults\n  {}", self.file, faults.len(), faults.join("\n  ")),
        }
    }
}

impl std::error::Error for WeightsError {}
