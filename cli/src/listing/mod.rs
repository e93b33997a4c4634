//! What a list says of a run, from its small files alone: never from a checkpoint, and of a long record only from its ends.

mod ends;
mod fields;
mod query;

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rtc_base::disk::beneath::{self, RECORD, SMALL};
use rtc_runs::error::CheckpointError;
use rtc_runs::experiment::ExperimentFile;
use rtc_runs::grid::less_is_better;
use rtc_runs::record::TrainingFault;
use rtc_runs::record::fall::Fall;
use rtc_runs::record::history::{EvaluationLine, History};
use rtc_runs::record::table::ResultsTable;
use rtc_runs::record::{RunInfo, sha256, unsealed};
use rtc_session::failure::SessionFailure;
use rtc_session::folders;
use rtc_session::job::is_locked;
use rtc_session::labels::RunLabels;
use serde::Deserialize;
use serde_json::Value;

use ends::Ends;

pub(crate) use fields::{KNOWN, ListColumn, known, plain};
pub(crate) use query::{Condition, ListOrder};

const RESULTS: &str = "results.json";

/// Bytes of either end of `timing.jsonl`, whose lines are short.
const TIMING: u64 = 1 << 10;
/// Bytes of either end of `metrics.jsonl`.
const METRICS: u64 = 4 << 10;
/// The same where a measurement of dev is looked for, which may be some way up.
const MEASURED: u64 = 64 << 10;

/// The extent to which a run is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadExtent {
    /// What it says of itself, and the ends of its records.
    Records,
    /// Its experiment, too.
    Settings,
}

/// A run in a list.
#[derive(Debug, Default)]
pub(crate) struct ListedRun {
    /// Its folder.
    pub(crate) path: PathBuf,
    /// What the run says of itself, if that can be read.
    pub(crate) info: Option<RunInfo>,
    pub(crate) state: RunState,
    /// The last update that was logged.
    pub(crate) updates: Option<u64>,
    /// Updates of the whole run, if it does not stop early.
    pub(crate) total: Option<u64>,
    pub(crate) score: Option<RunScore>,
    /// That its training ended far below its best, where that is so.
    pub(crate) fall: Option<Fall>,
    pub(crate) begun: Option<SystemTime>,
    /// Bytes on the disk.
    pub(crate) size: Option<u64>,
    pub(crate) labels: RunLabels,
    /// The experiment, where it was asked for.
    pub(crate) settings: Value,
    /// Why it is damaged.
    pub(crate) fault: Option<SessionFailure>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunState {
    /// It has its results.
    Finished,
    /// A process trains it now.
    Running,
    /// Its training ended before its end, and the same command goes on.
    Stopped,
    /// A grid could not train it.
    Failed,
    /// A file that was read is not as it was written.
    #[default]
    Damaged,
}

impl RunState {
    /// One word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Damaged => "damaged",
        }
    }
}

/// The score of a run: on `test` or the first split of its results, before these on dev as it was measured last.
#[derive(Clone, Debug)]
pub(crate) struct RunScore {
    pub(crate) split: String,
    /// `perplexity`, `accuracy` or `rmse`.
    pub(crate) measure: &'static str,
    pub(crate) value: f64,
}

/// The measure that is a share of right answers.
const ACCURACY: &str = "accuracy";

impl RunScore {
    /// The order of two scores of one measure, the worse first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let order = self.value.total_cmp(&other.value);
        if less_is_better(self.measure) { order.reverse() } else { order }
    }

    /// Whether it is a share of right answers.
    pub(crate) fn is_share(&self) -> bool {
        self.measure == ACCURACY
    }

    fn of(line: &EvaluationLine) -> Option<Self> {
        let error = line.others.get("rmse").and_then(Value::as_f64);
        let measures = [("perplexity", line.perplexity), (ACCURACY, line.accuracy), ("rmse", error)];
        let (measure, value) = measures.into_iter().find_map(|(name, value)| Some((name, value?)))?;
        Some(Self { split: line.split.clone(), measure, value })
    }
}

impl ListedRun {
    /// Reads what a list says. What is damaged is said in `fault`; the rest is as far as it could be read.
    pub(crate) fn read(path: &Path, extent: ReadExtent) -> Self {
        let mut run = Self { path: path.to_owned(), begun: folders::begun(path), ..Self::default() };
        match run.fill(extent) {
            Ok(state) => run.state = state,
            Err(fault) => run.fault = Some(fault),
        }
        run
    }

    fn fill(&mut self, extent: ReadExtent) -> Result<RunState, SessionFailure> {
        self.size = Some(folders::size(&self.path)?);
        let info = RunInfo::read(&self.path)?;
        let run = info.run.clone();
        let info = &*self.info.insert(info);
        self.labels = RunLabels::read(&self.path, info)?;
        if extent == ReadExtent::Settings {
            self.settings = experiment(&self.path, info)?;
        }
        let timing = self.ends("timing.jsonl", &run, TIMING)?;
        let begins = timing.first().map_err(|why| self.refused("timing.jsonl", why))?;
        self.total = begins.and_then(|line| line["total"].as_u64());
        let metrics = self.ends("metrics.jsonl", &run, METRICS)?;
        let last = metrics.last("").map_err(|why| self.refused("metrics.jsonl", why))?;
        self.updates = last.map_or(metrics.is_whole().then_some(0), |line| line["update"].as_u64());
        // A training writes its results before it lets go of its folder.
        let trains = !beneath::exists(&self.path.join(RESULTS)) && is_locked(&self.path);
        if let Some(table) = results(&self.path, &run)? {
            let row = table.rows.iter().find(|row| row.split == "test").or(table.rows.first());
            self.score = row.and_then(|row| RunScore::of(&EvaluationLine::new(0, row)));
            self.fall = table.fall;
            return Ok(RunState::Finished);
        }
        self.score = self.on_dev()?;
        Ok(match TrainingFault::read(&self.path)? {
            _ if trains => RunState::Running,
            Some(_) => RunState::Failed,
            None => RunState::Stopped,
        })
    }

    /// The last measurement of dev.
    fn on_dev(&self) -> Result<Option<RunScore>, SessionFailure> {
        let Some(info) = &self.info else { return Ok(None) };
        let read = || experiment(&self.path, info);
        let experiment = if self.settings.is_null() { read()? } else { self.settings.clone() };
        let ends = self.ends("metrics.jsonl", &info.run, MEASURED)?;
        // Of all lines, those of measurements alone name a split.
        let found = ends.last(&format!("\"split\":{}", experiment["dev"]));
        let found = found.map_err(|why| self.refused("metrics.jsonl", why))?;
        let line = match found {
            Some(line) => EvaluationLine::deserialize(line).ok(),
            None if ends.is_whole() => None,
            None => History::read(&self.path)?.evaluations.into_iter().rfind(|line| experiment["dev"] == line.split),
        };
        Ok(line.as_ref().and_then(RunScore::of))
    }

    fn ends(&self, file: &str, run: &str, most: u64) -> Result<Ends, SessionFailure> {
        Ends::read(&self.path, file, run, most)
            .map_err(|error| SessionFailure::io("read", &self.path.join(file), error))
    }

    fn refused(&self, file: &str, why: &str) -> SessionFailure {
        refused(&self.path, file, why)
    }
}

fn refused(path: &Path, file: &str, why: &str) -> SessionFailure {
    CheckpointError { path: path.to_owned(), reason: format!("its {file} {why}"), previous: None }.into()
}

/// The experiment of a run as it was written.
fn experiment(path: &Path, info: &RunInfo) -> Result<Value, SessionFailure> {
    let file = path.join("experiment.yaml");
    let bytes = beneath::read_named(path, "experiment.yaml", SMALL)?;
    let text = String::from_utf8(bytes).ok().filter(|text| info.files.get("experiment.yaml") == Some(&sha256(text)));
    let text = text.ok_or_else(|| refused(path, "experiment.yaml", "was changed after the training began"))?;
    let experiment = ExperimentFile::recorded(&file.display().to_string(), &text)?.resolve(None, &[])?;
    Ok(serde_json::to_value(experiment).expect("an experiment holds nothing that JSON can't"))
}

/// The table of a run that is finished.
fn results(path: &Path, run: &str) -> Result<Option<ResultsTable>, SessionFailure> {
    let bytes = match beneath::read_named(path, RESULTS, RECORD) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let found: Value = unsealed(&bytes).map_err(|why| refused(path, RESULTS, &why))?;
    if found["run"] != run {
        return Err(refused(path, RESULTS, "belongs to another run"));
    }
    ResultsTable::deserialize(found).map(Some).map_err(|error| refused(path, RESULTS, &error.to_string()))
}
