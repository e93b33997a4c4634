//! The folder of a run: what was trained, with which settings, and how it went.
//!
//! | file | what |
//! |---|---|
//! | `spec.rt` | the complete spec; in its place `graph.rtir` where a graph was trained |
//! | `experiment.yaml` | the complete experiment |
//! | `task.json` | vocabulary and classes of a task on files of the user's own |
//! | `run.json` | seed, hashes, versions, threads, memory limit; written last, so it says that the others are complete |
//! | `metrics.jsonl` | a line per logged update and per evaluation; holds no time, so that equal runs have equal files |
//! | `timing.jsonl` | the wall-clock times |
//! | `events.out.tfevents.0.rtc` | the same numbers for TensorBoard |
//! | `checkpoints/` | see [`crate::checkpoint`] |
//! | `results.json` | the table with the hashes of what made it, at the end |
//! | `answers.json` | how many answers of every example of the evaluated splits are right |
//! | `lengths.json` | accuracy and depth by length, see [`Lengths`] |

mod answers;
mod append;
mod content;
pub mod history;
mod lengths;
pub mod tensorboard;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::checkpoint::{Checkpoints, Disk, FileSystem, Slot};
use crate::error::{CheckpointError, Error, ExperimentError, IoError};
use crate::experiment::{Experiment, ExperimentFile, Known};
use crate::task::open_task;
use crate::train::Table;
pub use answers::{Answers, Kept, SplitAnswers};
use append::Appender;
pub use content::Change;
use history::{Line, TimingLine};
pub use lengths::{Lengths, SplitLengths};
use tensorboard::Summary;

const EXPERIMENT: &str = "experiment.yaml";
const RUN: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const TIMING: &str = "timing.jsonl";
const EVENTS: &str = "events.out.tfevents.0.rtc";
const CHECKPOINTS: &str = "checkpoints";
const RESULTS: &str = "results.json";
const TASK: &str = "task.json";

/// What a run keeps of its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Written {
    /// The complete spec.
    #[default]
    Spec,
    /// The graph that was given in the place of a spec.
    Graph,
}

impl Written {
    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Spec => "spec.rt",
            Self::Graph => "graph.rtir",
        }
    }

    fn is_spec(&self) -> bool {
        *self == Self::Spec
    }
}

/// The identity of a run, as `run.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the model: `gut`, or `gut:no_gate`.
    pub model: String,
    /// Seed of parameters, dropout and order.
    pub seed: u64,
    /// Hash of the normalised spec, or of the graph in its place.
    pub spec_hash: String,
    /// Which of the two it is.
    #[serde(default, skip_serializing_if = "Written::is_spec")]
    pub written: Written,
    /// Hash of the graph.
    pub graph_hash: String,
    /// Fingerprint of the examples; the loop works it out where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_hash: Option<String>,
    /// Fingerprints of the examples of every split.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, String>,
    /// The weights with which it began, where it drew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Number of trainable numbers.
    pub parameters: usize,
    /// Threads at the start; they change no result on a CPU.
    pub threads: usize,
    /// The memory limit in bytes, if one was asked for; it changes no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The folders from which the paths of data start; they change no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
    /// Versions of the program and its parts; of all programs that took part, joined by [`THEN`].
    pub versions: BTreeMap<String, String>,
}

/// Weights with which a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The file as the user gave it; it means nothing for the identity of the run.
    pub file: String,
    /// Hash of their names, shapes and numbers.
    pub sha256: String,
}

/// Stands between the versions of programs that trained a run one after the other.
pub const THEN: &str = " then ";

/// Versions of the parts of a program in one line, as `code 3f2a, rtc 0.1.0`.
pub fn program(versions: &BTreeMap<String, String>) -> String {
    versions.iter().map(|(part, version)| format!("{part} {version}")).collect::<Vec<_>>().join(", ")
}

impl RunInfo {
    /// A short text that differs between runs of different models, seeds or experiments, for the names of folders.
    pub fn identity(&self, experiment: &Experiment) -> String {
        let mut text = format!("{}\n{}\n{}\n{}", self.spec_hash, self.graph_hash, self.seed, experiment.to_yaml());
        if let Some(start) = &self.start {
            text += &format!("\nweights {}", start.sha256);
        }
        hex(&Sha256::digest(text)[..4])
    }

    /// These versions after the older ones of a run that is gone on with.
    fn versions_after(&self, old: &Self) -> BTreeMap<String, String> {
        let mut versions = old.versions.clone();
        for (part, version) in &self.versions {
            let known = versions.entry(part.clone()).or_default();
            match known.rsplit(THEN).next() {
                Some(last) if last == version => {}
                Some(last) if !last.is_empty() => *known = format!("{known}{THEN}{version}"),
                _ => known.clone_from(version),
            }
        }
        versions
    }
}

/// What a run folder says about its run, read without changing anything in it.
#[derive(Clone, Debug)]
pub struct SavedRun {
    /// The identity.
    pub info: RunInfo,
    /// The complete spec, or the graph in its place.
    pub spec: String,
    /// The complete experiment.
    pub experiment: Experiment,
    /// The table, if the run is finished.
    pub results: Option<Table>,
    /// All of `results.json`, if the run is finished.
    pub measured: Option<Value>,
}

impl SavedRun {
    /// Reads a run folder, which another process may be writing to.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| CheckpointError { path: path.to_path_buf(), reason, previous: None };
        let text = |name: &str| {
            let file = path.join(name);
            fs::read_to_string(&file).map_err(IoError::at("read", &file))
        };
        let info: RunInfo = serde_json::from_str(&text(RUN)?).map_err(|error| refuse(format!("{RUN}: {error}")))?;
        let file = path.join(EXPERIMENT).display().to_string();
        let mut experiment = ExperimentFile::parse(&file, &text(EXPERIMENT)?)?.resolve(None, &[])?;
        let kept = text(TASK).ok().map(|text| serde_json::from_str(&text).map(Arc::new)).transpose();
        let kept = kept.map_err(|error| refuse(format!("{TASK}: {error}")))?;
        experiment.task.known = Known::new(info.folders.clone(), kept);
        let measured: Option<Value> = text(RESULTS).ok().and_then(|text| serde_json::from_str(&text).ok());
        let results = measured.as_ref().and_then(|measured| Table::deserialize(measured).ok());
        Ok(Self { spec: text(info.written.file())?, info, experiment, results, measured })
    }

    /// What of a run differs from that in this folder, if anything does; the order is that of importance.
    pub fn difference(&self, experiment: &Experiment, info: &RunInfo) -> Option<&'static str> {
        let data = |info: &RunInfo| info.data_hash.clone();
        let start = |info: &RunInfo| info.start.as_ref().map(|start| start.sha256.clone());
        let same = [
            ("the spec", self.info.spec_hash == info.spec_hash),
            ("the seed", self.info.seed == info.seed),
            ("the weights at its start", start(&self.info) == start(info)),
            ("the experiment", self.experiment.content() == experiment.content()),
            (DATA, data(&self.info).zip(data(info)).is_none_or(|(old, new)| old == new)),
            (GRAPH, self.info.graph_hash == info.graph_hash),
        ];
        same.iter().find(|(_, same)| !same).map(|(what, _)| *what)
    }

    /// Refuses the run at `path` if it is another one than that of the spec, the experiment and the identity.
    pub fn same(
        &self,
        path: &Path,
        spec: &str,
        experiment: &Experiment,
        info: &RunInfo,
    ) -> Result<(), CheckpointError> {
        let Some(what) = self.difference(experiment, info) else { return Ok(()) };
        let fields: Vec<String> = self.changes(spec, experiment, info).iter().map(Change::to_string).collect();
        let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
        let reason = match what {
            DATA => format!("its data has changed since the training began{}", self.changed(&info.splits)),
            what => format!("the run was started with another value of {what}{fields}"),
        };
        Err(CheckpointError { path: path.to_path_buf(), reason, previous: None })
    }

    /// The splits whose rows are others now, for a message.
    fn changed(&self, splits: &BTreeMap<String, String>) -> String {
        let other = |name: &&String| self.info.splits.get(*name).is_some_and(|old| *old != splits[*name]);
        let names: Vec<&str> = splits.keys().filter(other).map(String::as_str).collect();
        if names.is_empty() { String::new() } else { format!(": other rows in {}", names.join(", ")) }
    }

    /// The folder of a checkpoint of the run at `path`.
    pub fn checkpoint(path: &Path, slot: Slot) -> PathBuf {
        path.join(CHECKPOINTS).join(slot.name())
    }
}

/// What differs where files of data have changed, or a generator.
const DATA: &str = "the data";

/// What differs where the program makes another graph of the same spec.
pub const GRAPH: &str = "the graph";

/// An open run folder.
pub struct RunFolder {
    path: PathBuf,
    info: RunInfo,
    metrics: Appender,
    timing: Appender,
    events: Appender,
    checkpoints: Checkpoints,
    opened: Instant,
}

impl RunFolder {
    /// Whether there is a run in this folder.
    pub fn exists(path: &Path) -> bool {
        path.join(RUN).exists()
    }

    /// What a run is, if it is finished and can be read.
    pub fn finished(path: &Path) -> Option<RunInfo> {
        let info = fs::read_to_string(path.join(RUN)).ok()?;
        path.join(RESULTS).exists().then(|| serde_json::from_str(&info).ok()).flatten()
    }

    /// Makes the folder of a new run. A folder that holds a run already is refused.
    pub fn create(path: &Path, spec: &str, experiment: &Experiment, info: RunInfo) -> Result<Self, Error> {
        if Self::exists(path) || path.join(CHECKPOINTS).exists() {
            let message = "there is a run in this folder already: resume it, or choose another name".to_string();
            return Err(ExperimentError { file: path.display().to_string(), line: None, message }.into());
        }
        fs::create_dir_all(path).map_err(IoError::at("create", path))?;
        write_file(&path.join(info.written.file()), spec)?;
        write_file(&path.join(EXPERIMENT), &experiment.to_yaml())?;
        if let Some(kept) = open_task(&experiment.task)?.0.kept() {
            write_file(&path.join(TASK), &format!("{kept}\n"))?;
        }
        write_info(path, &info)?;
        Self::open(path, info)
    }

    /// Opens the folder of a run in order to go on with it. It must be of the same model, seed, experiment and data.
    pub fn resume(path: &Path, spec: &str, experiment: &Experiment, mut info: RunInfo) -> Result<Self, Error> {
        let saved = SavedRun::read(path)?;
        saved.same(path, spec, experiment, &info)?;
        let versions = info.versions_after(&saved.info);
        if versions != saved.info.versions {
            write_info(path, &RunInfo { versions: versions.clone(), ..saved.info })?;
        }
        info.versions = versions;
        Self::open(path, info)
    }

    fn open(path: &Path, info: RunInfo) -> Result<Self, Error> {
        let mut timing = Appender::open(&path.join(TIMING))?;
        timing.cut_broken_line()?;
        Ok(Self {
            info,
            metrics: Appender::open(&path.join(METRICS))?,
            timing,
            events: Appender::open(&path.join(EVENTS))?,
            checkpoints: Checkpoints::open(&path.join(CHECKPOINTS), Box::new(FileSystem))?,
            opened: Instant::now(),
            path: path.to_path_buf(),
        })
    }

    /// Replaces the file operations of the checkpoints.
    pub fn with_disk(mut self, disk: Box<dyn Disk>) -> Result<Self, Error> {
        self.checkpoints = Checkpoints::open(&self.path.join(CHECKPOINTS), disk)?;
        Ok(self)
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the run.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The checkpoints of the run.
    pub fn checkpoints(&mut self) -> &mut Checkpoints {
        &mut self.checkpoints
    }

    /// Appends a line to `metrics.jsonl`, and its numbers below `train` or the split to the TensorBoard file.
    pub fn metric(&mut self, line: &Line) -> Result<(), IoError> {
        let (group, update) = match line {
            Line::Step(step) => ("train", step.update),
            Line::Evaluation(evaluation) => (evaluation.split.as_str(), evaluation.update),
            Line::Other => return Ok(()),
        };
        let line = json(line);
        self.metrics.append(format!("{line}\n").as_bytes())?;
        let numbers = line.as_object().into_iter().flatten();
        let shown = numbers.filter(|(key, _)| !matches!(key.as_str(), "update" | "epoch" | "scored"));
        let scalars: Vec<(String, f32)> =
            shown.filter_map(|(key, value)| Some((format!("{group}/{key}"), value.as_f64()? as f32))).collect();
        if self.events.position() == 0 {
            self.events.append(&tensorboard::record(&tensorboard::version_event(now())))?;
        }
        let event = tensorboard::event(&Summary { wall_time: now(), step: update, scalars: &scalars });
        self.events.append(&tensorboard::record(&event))
    }

    /// Appends a line to `timing.jsonl`: what, at which update, and the seconds since the folder was opened.
    pub fn time(&mut self, what: &str, update: u64, tokens_per_second: Option<f64>) -> Result<(), IoError> {
        self.timed(what, update, None, tokens_per_second)
    }

    /// Notes in `timing.jsonl` that the loop begins after so many updates of so many.
    pub fn begins(&mut self, done: u64, total: u64) -> Result<(), IoError> {
        self.timed(history::BEGINS, done, Some(total), None)
    }

    fn timed(
        &mut self,
        what: &str,
        update: u64,
        total: Option<u64>,
        tokens_per_second: Option<f64>,
    ) -> Result<(), IoError> {
        let (what, seconds) = (what.to_owned(), self.opened.elapsed().as_secs_f64());
        let line = json(&TimingLine { what, update, seconds, total, tokens_per_second });
        self.timing.append(format!("{line}\n").as_bytes())
    }

    /// Lengths of the metrics and the TensorBoard file, after making them durable.
    pub fn positions(&mut self) -> Result<(u64, u64), IoError> {
        self.metrics.sync()?;
        self.events.sync()?;
        Ok((self.metrics.position(), self.events.position()))
    }

    /// Cuts both files back to where a checkpoint left them; what came later will be written again.
    pub fn rewind(&mut self, metrics: u64, events: u64) -> Result<(), Error> {
        for (file, length) in [(&mut self.metrics, metrics), (&mut self.events, events)] {
            if file.position() < length {
                let reason = format!("{} is shorter than when the checkpoint was saved", file.path().display());
                return Err(CheckpointError { path: self.path.clone(), reason, previous: None }.into());
            }
            file.truncate(length)?;
        }
        Ok(())
    }

    /// Writes `answers.json`, and then `results.json` with its hash, which ends the run.
    pub fn results(&mut self, mut results: Value, answers: &Answers) -> Result<(), IoError> {
        results["answers"] = answers.write(&self.path)?.into();
        write_file(&self.path.join(RESULTS), &format!("{results:#}\n"))
    }
}

/// Bytes as digits of base 16.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line of a record, its keys in the order of its fields.
fn json(line: &impl Serialize) -> Value {
    serde_json::to_value(line).expect("names and numbers are valid JSON")
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn write_info(path: &Path, info: &RunInfo) -> Result<(), IoError> {
    let text = serde_json::to_string_pretty(info).expect("strings and numbers are valid JSON");
    write_file(&path.join(RUN), &(text + "\n"))
}

/// Writes a file so that it is there completely or not at all.
///
/// # Errors
/// What the system says, with the path.
pub fn write_file(path: &Path, text: &str) -> Result<(), IoError> {
    let fresh = path.with_extension("new");
    FileSystem.write(&fresh, text.as_bytes()).map_err(IoError::at("write", &fresh))?;
    FileSystem.rename(&fresh, path).map_err(IoError::at("rename", &fresh))
}
