//! The history of a run: the lines of `metrics.jsonl` and `timing.jsonl`, as they are written and read back, also while another process
//! writes to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{METRICS, TIMING};
use crate::error::{DataError, Error, IoError};
use crate::learner::StepReport;
use crate::train::Row;

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
pub enum Line {
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
    pub fn new(update: u64, row: &Row) -> Self {
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
    /// Reads the metrics of a run folder. The last line may be half of one, and the file may not be there yet.
    ///
    /// # Errors
    /// A file that can't be read; a line before the last one that is none of the metrics, with its number.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(METRICS);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(IoError::at("read", &path)(error).into()),
        };
        let (mut reader, mut line, mut history) = (BufReader::new(file), vec![], Self::default());
        for number in 1.. {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(IoError::at("read", &path))?;
            if length == 0 || line.last() != Some(&b'\n') {
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(Line::Step(step)) => history.steps.push(step),
                Ok(Line::Evaluation(evaluation)) => history.evaluations.push(evaluation),
                Ok(Line::Other) => {}
                Err(error) => {
                    let message = format!("this is no line of metrics: {error}");
                    let file = path.display().to_string();
                    return Err(DataError { file, line: Some(number), message }.into());
                }
            }
        }
        Ok(history)
    }
}

/// What `timing.jsonl` calls the beginning of the loop.
pub(super) const BEGINS: &str = "begins";

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The last update that was logged.
    pub update: u64,
    /// Updates of the whole run, if it does not stop early.
    pub total: u64,
    /// The loss of that update.
    pub loss: Option<f64>,
    /// Seconds that the others will take, if some were made since it was begun the last time.
    pub seconds: Option<f64>,
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

impl Progress {
    /// Reads the records of a run folder, which another process may be writing to. Nothing is known of a run that logged no update, or
    /// whose program did not note where it begins.
    ///
    /// # Errors
    /// A file that can't be read; a line of the metrics that is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(TIMING);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IoError::at("read", &path)(error).into()),
        };
        // The last line may be half of one.
        let lines: Vec<TimingLine> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
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
