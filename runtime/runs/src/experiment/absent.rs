//! Files of a task that are not there, with their lines in the experiment.

use rtc_task::error::DataError;
use rtc_task::{AbsentFile, check_own};

use super::{Experiment, ExperimentFile};

/// The split from which a task on files of the user learns.
const TRAIN: &str = "train";

impl ExperimentFile {
    /// Returns the error of the first file that the splits of a resolved experiment need and that is not there.
    pub fn absent(&self, experiment: &Experiment) -> Option<DataError> {
        let mut splits = experiment.splits();
        if check_own(&experiment.task).is_some() && !splits.contains(&TRAIN) {
            splits.push(TRAIN);
        }
        let AbsentFile { path, name, message } = experiment.task.absent(&splits)?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let found = self.error_at(&path, message);
        // An edit of the command line may name another file than the line.
        let is_written = self.layers.key(&path).is_some_and(|(layer, at)| {
            let line = layer.text[at..].lines().next().unwrap_or_default();
            line.contains(&name)
        });
        Some(DataError { file: found.file, line: found.line.filter(|_| is_written), message: found.message })
    }
}
