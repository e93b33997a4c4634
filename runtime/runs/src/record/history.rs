//! The history of a run: the lines of `metrics.jsonl` and `timing.jsonl`, as they are written and read back, also while another process
//! writes to them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seal::{ChecksumChain, sha256};
use super::verify::timing;
use super::{METRICS, RESULTS, RunFolder, RunInfo, TIMING, read, results};
use crate::error::{CheckpointError, Error};
use crate::record::table::{ResultsRow, ResultsTable};
use rtc_base::disk::IoError;
use rtc_exec::learner::StepReport;

/// The lines of `metrics.jsonl`. A number that was not finite, or that the model has not, is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The logged updates, in order.
    pub steps: Vec<StepLine>,
    /// The evaluations, in order.
    pub evaluations: Vec<EvaluationLine>,
}

/// A logged update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// Its number, from 1.
    pub update: u64,
    /// The pass over the training data, from 0.
    #[serde(default)]
    pub epoch: u64,
    /// Task loss plus halting cost.
    pub loss: Option<f64>,
    /// Task loss alone.
    pub task_loss: Option<f64>,
    /// Share of right answers in the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Norm of the gradient before clipping.
    pub gradient_norm: Option<f64>,
    /// Its learning rate.
    pub learning_rate: Option<f64>,
    /// The ponder cost, if the model halts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting_cost: Option<f64>,
    /// Accepted steps per unit, if the model halts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_depth: Option<f64>,
}

/// A measured split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationLine {
    /// The split.
    pub split: String,
    /// Updates done.
    pub update: u64,
    /// Share of right answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean task loss.
    pub loss: Option<f64>,
    /// Number of predictions that were scored.
    #[serde(default)]
    pub scored: u64,
    /// What the task reports besides, by name.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
    /// `exp` of the loss, where the task reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// Accepted steps per unit, if the model halts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_depth: Option<f64>,
}

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HistoryLine {
    /// Of an update.
    Step(StepLine),
    /// Of an evaluation.
    Evaluation(EvaluationLine),
    /// What a later version may write.
    #[serde(other)]
    Other,
}

impl StepLine {
    /// The line of an update.
    pub fn new(update: u64, epoch: u64, report: &StepReport, learning_rate: f64) -> Self {
        Self {
            update,
            epoch,
            loss: Some(report.loss),
            task_loss: Some(report.task_loss),
            accuracy: report.accuracy(),
            gradient_norm: Some(report.gradient_norm),
            learning_rate: Some(learning_rate),
            halting_cost: report.halting_cost,
            mean_depth: report.mean_depth,
        }
    }
}

impl EvaluationLine {
    /// The line of a split that was measured after so many updates.
    pub fn new(update: u64, row: &ResultsRow) -> Self {
        let others = row.metrics.iter().chain(&row.numbers).map(|(name, number)| (name.clone(), (*number).into()));
        Self {
            split: row.split.clone(),
            update,
            accuracy: row.accuracy,
            loss: Some(row.loss),
            scored: row.scored,
            others: others.collect(),
            perplexity: row.perplexity,
            mean_depth: row.mean_depth,
        }
    }
}

impl History {
    /// Reads the metrics of a run folder, of which nothing may be there yet. The last line may be half of one.
    ///
    /// # Errors
    /// A file that can't be read; lines that are not those that were written.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        if !RunFolder::exists(folder) {
            return Ok(Self::default());
        }
        let info = RunInfo::read(folder)?;
        Self::of(folder, &current(folder, METRICS, &info)?, &info)
    }

    /// Reads the metrics of a run that is being trained: results that an earlier end has left may belong to other lines.
    ///
    /// # Errors
    /// As [`History::read`].
    pub fn read_open(folder: &Path) -> Result<Self, Error> {
        Self::of(folder, &bytes(folder, METRICS)?, &RunInfo::read(folder)?)
    }

    fn of(folder: &Path, bytes: &[u8], info: &RunInfo) -> Result<Self, Error> {
        let mut history = Self::default();
        for line in lines(folder, METRICS, bytes, &info.run)? {
            match line {
                HistoryLine::Step(step) => history.steps.push(step),
                HistoryLine::Evaluation(evaluation) => history.evaluations.push(evaluation),
                HistoryLine::Other => {}
            }
        }
        Ok(history)
    }
}

/// A file of lines of a run, empty where it is not there; of a finished run the one that its results name.
pub(super) fn current(folder: &Path, file: &str, info: &RunInfo) -> Result<Vec<u8>, Error> {
    // Whoever finds results finds the lines complete: they were written before.
    let written = results(folder, info)?.map(|results| results["files"][file].as_str().map(str::to_owned));
    let found = bytes(folder, file)?;
    let is_absent = file != METRICS && found.is_empty() && written == Some(None);
    if written.is_some_and(|written| written != Some(sha256(&found))) && !is_absent {
        return Err(refused(folder, &format!("{file} is not the one that the results were written with")).into());
    }
    Ok(found)
}

/// A file of a run; empty where it is not there.
fn bytes(folder: &Path, file: &str) -> Result<Vec<u8>, IoError> {
    match read(folder, file) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(vec![]),
        read => read,
    }
}

/// The lines of a file of a run, but for half a one at its end.
pub(super) fn lines<T: DeserializeOwned>(
    folder: &Path,
    file: &str,
    bytes: &[u8],
    run: &str,
) -> Result<Vec<T>, CheckpointError> {
    let mut chain = ChecksumChain::of(run);
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let open = |(number, line): (usize, &[u8])| {
        chain.open(line).map_err(|why| refused(folder, &format!("{file}:{number}: this line {why}")))
    };
    (1..).zip(whole).map(open).collect()
}

fn refused(folder: &Path, reason: &str) -> CheckpointError {
    CheckpointError { path: folder.to_path_buf(), reason: reason.to_owned(), previous: None }
}

/// What `timing.jsonl` calls the beginning of the loop.
pub(super) const BEGINS: &str = "begins";

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// The last update that was logged.
    pub update: u64,
    /// Updates of the whole run, if it does not stop early.
    pub total: u64,
    /// The loss of that update.
    pub loss: Option<f64>,
    /// Seconds that the others will take, if some were made since it was begun the last time.
    pub seconds: Option<f64>,
}

/// How long the trainings of a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Seconds from the beginning of every program that trained it to the last line that it wrote, together.
    pub seconds: Option<f64>,
    /// Updates of the whole run, if it does not stop early.
    pub total: Option<u64>,
}

impl Times {
    /// Reads `timing.jsonl`, of which nothing may be there yet.
    ///
    /// # Errors
    /// A file that can't be read; one that was changed, or cut off behind the end of the training.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let info = RunInfo::read(folder)?;
        let table = results(folder, &info)?.map(ResultsTable::deserialize).transpose().map_err(|error| {
            CheckpointError { path: folder.to_path_buf(), reason: format!("{RESULTS}: {error}"), previous: None }
        })?;
        Ok(Self::of(&timing(folder, &info.run, table.as_ref())?))
    }

    fn of(lines: &[TimingLine]) -> Self {
        // Where the clock goes back another program went on.
        let last = |n: &usize| lines.get(n + 1).is_none_or(|next| next.seconds < lines[*n].seconds);
        let seconds = (0..lines.len()).filter(last).map(|n| lines[n].seconds);
        Self {
            seconds: (!lines.is_empty()).then(|| seconds.sum()),
            total: lines.iter().rev().find_map(|line| line.total),
        }
    }
}

/// A line of `timing.jsonl`.
#[derive(Serialize, Deserialize)]
pub(super) struct TimingLine {
    /// `begins`, or what was done: `train`, or a split that was measured.
    pub(super) what: String,
    /// Updates done.
    pub(super) update: u64,
    /// Seconds since the folder was opened.
    pub(super) seconds: f64,
    /// Updates of the whole run, where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
    /// How fast it was trained since the line before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens_per_second: Option<f64>,
}

impl RunProgress {
    /// Reads the records of a run folder, which another process may be writing to. Nothing is known of a run that logged no update, or
    /// whose program did not note where it begins.
    ///
    /// # Errors
    /// A file that can't be read; a line of the metrics that is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        if !RunFolder::exists(folder) {
            return Ok(None);
        }
        let run = RunInfo::read(folder)?.run;
        let lines: Vec<TimingLine> = lines(folder, TIMING, &bytes(folder, TIMING)?, &run)?;
        let begins = lines.iter().rposition(|line| line.what == BEGINS);
        let Some((from, last)) = begins.map(|at| &lines[at]).zip(lines.last()) else { return Ok(None) };
        let history = History::read(folder)?;
        let (Some(step), Some(total)) = (history.steps.last(), from.total) else { return Ok(None) };
        let made = last.update.saturating_sub(from.update);
        let seconds = (made > 0).then(|| (last.seconds - from.seconds) / made as f64);
        let left = total.saturating_sub(step.update) as f64;
        Ok(Some(Self { update: step.update, total, loss: step.loss, seconds: seconds.map(|each| each * left) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_run_are_added_up() {
        let line = |what: &str, seconds: f64, total| TimingLine {
            what: what.to_owned(),
            update: 1,
            seconds,
            total,
            tokens_per_second: None,
        };
        let begins = || line(BEGINS, 0.5, Some(30));
        let train = |seconds| line("train", seconds, None);
        let lines = [begins(), train(2.0), train(4.0), begins(), train(3.0)];
        assert_eq!(Times::of(&lines), Times { seconds: Some(7.0), total: Some(30) });
        assert_eq!(Times::of(&[]), Times::default());
    }
}
