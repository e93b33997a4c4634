//! The folder of a run: what was trained, with which settings, and how it went.
//!
//! | file | what |
//! |---|---|
//! | `spec.rt` | the complete spec; in its place `graph.rtir` where a graph was trained |
//! | `experiment.yaml` | the complete experiment |
//! | `task.json` | vocabulary and classes of a task on files of the user's own |
//! | `run.json` | format, seed, hashes, versions, threads, ranks, memory limit, SHA-256 of the files above; written after them, so it says that they are complete |
//! | `metrics.jsonl` | a line per logged update and per evaluation; holds no time, so that equal runs have equal files |
//! | `timing.jsonl` | the wall-clock times |
//! | `samples.jsonl`, `histograms.jsonl` | what the experiment asks for: texts that the model wrote, histograms of its parameters |
//! | `events.out.tfevents.0.rtc` | the same for TensorBoard |
//! | `checkpoints/` | see [`crate::record::checkpoint`] |
//! | `results.json` | the table with the hashes of what made it, at the end, and SHA-256 of the metrics, the answers and the checkpoints |
//! | `answers.json` | how many answers of every example of the evaluated splits are right |
//! | `lengths.json` | accuracy and depth by length, see [`LengthMeasurements`] |
//! | `evaluated_at.json` | results under edits of the model, see [`EvaluatedAt`] |
//!
//! Every file that is read again has a checksum, its own (see [`sealed`]) or one in `run.json`, `results.json` or the manifest of a
//! checkpoint, and all of them name the run that they belong to. A reader refuses what is not as it was written.

mod answers;
mod append;
pub mod checkpoint;
mod content;
mod evaluated_at;
mod failure;
pub mod fall;
mod files;
pub mod history;
mod lengths;
mod seal;
pub mod table;
pub mod tensorboard;
pub mod verify;
pub mod watched;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::checkpoint::{CheckpointSlot, Checkpoints, RecordLengths};
use self::table::ResultsTable;
use crate::error::{CheckpointError, Error, ExperimentError};
use crate::experiment::{Experiment, ExperimentFile};
pub use answers::{RunAnswers, SplitAnswers};
use append::{Appender, SealedLines};
pub use content::Change;
pub use evaluated_at::{EditResults, EvaluatedAt};
pub use failure::TrainingFault;
pub use files::RunFiles;
use history::{HistoryLine, TimingLine};
pub use lengths::{LengthMeasurements, OfLength, SplitLengths};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, RECORD, SMALL};
use rtc_base::disk::{Disk, FileSystem, drafted, folder_of, write_on};
use rtc_task::TaskContext;
use rtc_task::open_task;
pub use seal::{sealed, sha256, unsealed};
use tensorboard::{Summary, SummaryValue};
use watched::{HISTOGRAMS, HistogramLine, SAMPLES, SampleLine, WatchedFile, WatchedLine};

/// Version of the layout of a folder. That of folders without checksums was 1, and is not read any more.
const FORMAT: u32 = 2;

const EXPERIMENT: &str = "experiment.yaml";
const RUN: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const TIMING: &str = "timing.jsonl";
const EVENTS: &str = "events.out.tfevents.0.rtc";
const CHECKPOINTS: &str = "checkpoints";
const RESULTS: &str = "results.json";
const TASK: &str = "task.json";
const ANSWERS: &str = "answers.json";

/// The form in which a run keeps its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelForm {
    /// The complete spec.
    #[default]
    Spec,
    /// The graph that was given in the place of a spec.
    Graph,
}

impl ModelForm {
    /// The name of its file.
    pub const fn file(self) -> &'static str {
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
    /// Version of the layout of the folder.
    pub format: u32,
    /// What everything in the folder belongs to: the hash of all that decides the numbers of the run, see [`Self::content`], as it was
    /// known when the run began.
    pub run: String,
    /// Name of the model: `gut`, or `gut:no_gate`.
    pub model: String,
    /// Seed of parameters, dropout and order.
    pub seed: u64,
    /// Hash of the normalised spec, or of the graph in its place.
    pub spec_hash: String,
    /// Which of the two it is.
    #[serde(default, skip_serializing_if = "ModelForm::is_spec")]
    pub written: ModelForm,
    /// Hash of the graph.
    pub graph_hash: String,
    /// Hash of the graph up to the names of its parameters. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// Fingerprint of the examples; the loop works it out where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_hash: Option<String>,
    /// Fingerprints of the examples of every split.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, String>,
    /// The weights with which it began, where it drew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The update after which it ends, where it was trained on beyond the end of its experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Number of trainable numbers.
    pub parameters: usize,
    /// Threads at the start; they change no result on a CPU.
    pub threads: usize,
    /// Processes that shared its updates at the start, where there were several; they change no result.
    #[serde(default, skip_serializing_if = "is_alone")]
    pub ranks: usize,
    /// The memory limit in bytes, if one was asked for; it changes no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The folders from which the paths of data start; they change no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
    /// Versions of the program and its parts; of all programs that took part, joined by [`THEN`].
    pub versions: BTreeMap<String, String>,
    /// SHA-256 of the files of the run that never change.
    pub files: BTreeMap<String, String>,
}

/// Whether so many processes are one.
fn is_alone(ranks: &usize) -> bool {
    *ranks < 2
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

/// The part of [`RunInfo::versions`] that says where a run was computed, and how exactly.
pub const DEVICE: &str = "device";

/// What it is where nothing is recorded.
pub const ON_CPU: &str = "cpu, f32";

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
        sha256(text)[..8].to_owned()
    }

    /// Reads it from a folder.
    ///
    /// # Errors
    /// There is no run, or it is not as it was written.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| CheckpointError { path: folder.to_path_buf(), reason, previous: None };
        let found: Self =
            unsealed(&beneath::read_named(folder, RUN, SMALL)?).map_err(|why| refuse(format!("its {RUN} {why}")))?;
        match found.format {
            FORMAT => Ok(found),
            other => Err(refuse(format!("its format is {other}, and this program reads {FORMAT}")).into()),
        }
    }

    /// Reads a file that never changes.
    fn file(&self, folder: &Path, name: &str) -> Result<String, Error> {
        let bytes = read(folder, name)?;
        let written = self.files.get(name).is_some_and(|written| *written == sha256(&bytes));
        written.then(|| String::from_utf8(bytes).ok()).flatten().ok_or_else(|| {
            let reason = format!(
                "its {name} was changed after the training began: put back the {name} of the training, or train again"
            );
            CheckpointError { path: folder.to_path_buf(), reason, previous: None }.into()
        })
    }

    /// These versions after the older ones of a run that is gone on with.
    fn versions_after(&self, old: &Self) -> BTreeMap<String, String> {
        let (mut versions, mut present) = (old.versions.clone(), self.versions.clone());
        if versions.contains_key(DEVICE) || present.contains_key(DEVICE) {
            for each in [&mut versions, &mut present] {
                each.entry(DEVICE.to_owned()).or_insert_with(|| ON_CPU.to_owned());
            }
        }
        for (part, version) in &present {
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
    pub results: Option<ResultsTable>,
    /// All of `results.json`, if the run is finished.
    pub measured: Option<Value>,
}

impl SavedRun {
    /// Reads a run folder, which another process may be writing to.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| CheckpointError { path: path.to_path_buf(), reason, previous: None };
        let info = RunInfo::read(path)?;
        let file = path.join(EXPERIMENT).display().to_string();
        let mut experiment = ExperimentFile::recorded(&file, &info.file(path, EXPERIMENT)?)?.resolve(None, &[])?;
        let kept = info.files.contains_key(TASK).then(|| info.file(path, TASK)).transpose()?;
        let kept = kept.map(|text| serde_json::from_str(&text).map(Arc::new)).transpose();
        let kept = kept.map_err(|error| refuse(format!("{TASK}: {error}")))?;
        experiment.task.known = TaskContext::new(info.folders.clone(), kept);
        let measured = results(path, &info)?;
        measured.as_ref().map_or(Ok(()), |measured| RunAnswers::check(path, measured))?;
        let results = measured.as_ref().map(ResultsTable::deserialize).transpose();
        let results = results.map_err(|error| refuse(format!("{RESULTS}: {error}")))?;
        Ok(Self { spec: info.file(path, info.written.file())?, info, experiment, results, measured })
    }

    /// The SHA-256 of the manifest that a checkpoint had when the results were written, if they are.
    pub fn measured_checkpoint(&self, slot: CheckpointSlot) -> Option<&str> {
        self.measured.as_ref()?["files"][checkpoint_name(slot)].as_str()
    }

    /// Checks that a checkpoint is of the run in this folder, and where it is the one of a slot, that it is the right one.
    ///
    /// # Errors
    /// How it is another one.
    pub fn check_checkpoint(
        &self,
        found: &checkpoint::LoadedCheckpoint,
        slot: Option<CheckpointSlot>,
    ) -> Result<(), CheckpointError> {
        let refuse = |reason: String| Err(CheckpointError { path: found.path.clone(), reason, previous: None });
        if let Some(what) = found.checkpoint.state.other_run(&self.info) {
            return refuse(format!("it belongs to a run with {what}"));
        }
        let written = slot.and_then(|slot| self.measured_checkpoint(slot));
        if written.is_some_and(|written| written != found.manifest) {
            return refuse(format!("it is not the one that {RESULTS} was written with"));
        }
        match found.checkpoint.state.not_the_best().filter(|_| slot == Some(CheckpointSlot::Best)) {
            Some(why) => refuse(why.to_owned()),
            None => Ok(()),
        }
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
            (UNTIL, self.info.until == info.until),
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
            UNTIL => {
                let until = self.info.until.map_or_else(String::new, |until| format!(", to update {until}"));
                format!("it was trained on beyond the end of its experiment{until}")
            }
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
    pub fn checkpoint(path: &Path, slot: CheckpointSlot) -> PathBuf {
        path.join(CHECKPOINTS).join(slot.name())
    }
}

/// What differs where files of data have changed, or a generator.
const DATA: &str = "the data";

/// What differs where one of two runs was trained on beyond the end of its experiment.
const UNTIL: &str = "the update that it was trained on to";

/// What differs where the program makes another graph of the same spec.
pub const GRAPH: &str = "the graph";

/// An open run folder.
pub struct RunFolder {
    path: PathBuf,
    info: RunInfo,
    metrics: SealedLines,
    timing: SealedLines,
    events: Appender,
    samples: WatchedFile,
    histograms: WatchedFile,
    checkpoints: Checkpoints,
    disk: Rc<dyn Disk>,
    opened: Instant,
}

impl RunFolder {
    /// Whether there is a run in this folder.
    pub fn exists(path: &Path) -> bool {
        beneath::exists(&path.join(RUN))
    }

    /// What a run is, if it is finished and can be read.
    pub fn finished(path: &Path) -> Option<RunInfo> {
        beneath::exists(&path.join(RESULTS)).then(|| RunInfo::read(path).ok()).flatten()
    }

    /// Makes the folder of a new run. A folder that holds a run already is refused.
    pub fn create(path: &Path, spec: &str, experiment: &Experiment, info: RunInfo) -> Result<Self, Error> {
        Self::create_on(Rc::new(FileSystem::below(path)), path, spec, experiment, info)
    }

    /// The same on any disk.
    pub fn create_on(
        disk: Rc<dyn Disk>,
        path: &Path,
        spec: &str,
        experiment: &Experiment,
        info: RunInfo,
    ) -> Result<Self, Error> {
        let kept = open_task(&experiment.task)?.0.kept().map(|kept| (TASK, format!("{kept}\n")));
        let texts = [(info.written.file(), spec.to_owned()), (EXPERIMENT, experiment.to_yaml())];
        let texts: Vec<_> = texts.into_iter().chain(kept).collect();
        if let Some(message) = occupied(path, &texts) {
            return Err(
                ExperimentError { file: path.display().to_string(), line: None, message, others: vec![] }.into()
            );
        }
        disk.create_folder(path).map_err(IoError::at("create", path))?;
        let above = folder_of(path);
        disk.sync_folder(above).map_err(IoError::at("sync", above))?;
        let mut files = BTreeMap::new();
        for (name, text) in texts {
            write_on(&*disk, &path.join(name), &text)?;
            files.insert(name.to_owned(), sha256(text));
        }
        let info = RunInfo { format: FORMAT, run: info.content(experiment), files, ..info };
        write_on(&*disk, &path.join(RUN), sealed(&info))?;
        Self::open(disk, path, info)
    }

    /// Opens the folder of a run in order to go on with it. It must be of the same model, seed, experiment and data. Where `info` names
    /// the update to train on to, a run that ended before is not finished any more.
    pub fn resume(path: &Path, spec: &str, experiment: &Experiment, info: RunInfo) -> Result<Self, Error> {
        Self::resume_on(Rc::new(FileSystem::below(path)), path, spec, experiment, info)
    }

    /// The same on any disk.
    pub fn resume_on(
        disk: Rc<dyn Disk>,
        path: &Path,
        spec: &str,
        experiment: &Experiment,
        info: RunInfo,
    ) -> Result<Self, Error> {
        let saved = SavedRun::read(path)?;
        let until = info.until.max(saved.info.until);
        let as_it_was = if info.until.is_some() { saved.info.until } else { None };
        saved.same(path, spec, experiment, &RunInfo { until: as_it_was, ..info.clone() })?;
        // Without its results the run is one that was stopped, whenever a process ends here.
        if until != saved.info.until && saved.results.is_some() {
            let results = path.join(RESULTS);
            disk.remove(&results).map_err(IoError::at("remove", &results))?;
            disk.sync_folder(path).map_err(IoError::at("sync", path))?;
        }
        let versions = info.versions_after(&saved.info);
        if versions != saved.info.versions || until != saved.info.until {
            let info = RunInfo { versions: versions.clone(), until, ..saved.info.clone() };
            write_on(&*disk, &path.join(RUN), sealed(&info))?;
        }
        let info = RunInfo { until, ..info };
        let RunInfo { format, run, files, .. } = saved.info;
        Self::open(disk, path, RunInfo { format, run, files, versions, ..info })
    }

    fn open(disk: Rc<dyn Disk>, path: &Path, info: RunInfo) -> Result<Self, Error> {
        remove_drafts(&*disk, path)?;
        let mut timing = SealedLines::open(&disk, &path.join(TIMING), &info.run)?;
        timing.keep_whole().map_err(|error| match error {
            Error::Checkpoint(CheckpointError { path, reason, .. }) => {
                let reason = format!("{reason}; without this file the run goes on, and the times until now are lost");
                Error::Checkpoint(CheckpointError { path, reason, previous: None })
            }
            other => other,
        })?;
        let metrics = SealedLines::open(&disk, &path.join(METRICS), &info.run)?;
        let [samples, histograms] = [SAMPLES, HISTOGRAMS].map(|name| WatchedFile::open(&disk, path, name, &info.run));
        Ok(Self {
            samples: samples?,
            histograms: histograms?,
            info,
            metrics,
            timing,
            events: Appender::open(&disk, &path.join(EVENTS))?,
            checkpoints: Checkpoints::open(path, CHECKPOINTS, disk.clone())?,
            disk,
            opened: Instant::now(),
            path: path.to_path_buf(),
        })
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
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Appends a line to `metrics.jsonl`, and its numbers below `train` or the split to the TensorBoard file.
    pub fn metric(&mut self, line: &HistoryLine) -> Result<(), IoError> {
        let (group, update) = match line {
            HistoryLine::Step(step) => ("train", step.update),
            HistoryLine::Evaluation(evaluation) => (evaluation.split.as_str(), evaluation.update),
            HistoryLine::Other => return Ok(()),
        };
        let line = json_line(line);
        self.metrics.append(&line)?;
        let numbers = line.as_object().into_iter().flatten();
        let shown = numbers.filter(|(key, _)| !matches!(key.as_str(), "update" | "epoch" | "scored"));
        let scalar = |value: &Value| Some(SummaryValue::Scalar(value.as_f64()? as f32));
        let values: Vec<_> =
            shown.filter_map(|(key, value)| Some((format!("{group}/{key}"), scalar(value)?))).collect();
        self.event(update, &values)
    }

    /// Appends values to the TensorBoard file.
    fn event(&mut self, step: u64, values: &[(String, SummaryValue<'_>)]) -> Result<(), IoError> {
        if self.events.position() == 0 {
            self.events.append(&tensorboard::record(&tensorboard::version_event(now())))?;
        }
        let event = tensorboard::event(&Summary { wall_time: now(), step, values });
        self.events.append(&tensorboard::record(&event))
    }

    /// Appends a line to `samples.jsonl`, and its text to the TensorBoard file.
    pub fn sample(&mut self, line: &SampleLine) -> Result<(), IoError> {
        self.samples.append((&self.disk, &self.path, &self.info.run), line)?;
        self.event(line.update, &line.values())
    }

    /// Appends a line to `histograms.jsonl`, and its histograms to the TensorBoard file.
    pub fn histogram(&mut self, line: &HistogramLine) -> Result<(), IoError> {
        self.histograms.append((&self.disk, &self.path, &self.info.run), line)?;
        self.event(line.update, &line.values())
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
        self.timing.append(&json_line(&TimingLine { what, update, seconds, total, tokens_per_second }))
    }

    /// Lengths of the files that grow with the updates, after making them durable.
    pub fn positions(&mut self) -> Result<RecordLengths, IoError> {
        self.metrics.sync()?;
        self.samples.sync()?;
        self.histograms.sync()?;
        self.events.sync()?;
        Ok(self.lengths())
    }

    fn lengths(&self) -> RecordLengths {
        RecordLengths {
            metrics: self.metrics.position(),
            events: self.events.position(),
            samples: self.samples.position(),
            histograms: self.histograms.position(),
        }
    }

    /// Cuts these files back to where a checkpoint left them; what came later will be written again.
    pub fn rewind(&mut self, saved: RecordLengths) -> Result<(), Error> {
        let found = self.lengths().by_name();
        if let Some(((name, _), _)) = found.iter().zip(saved.by_name()).find(|((_, length), (_, saved))| length < saved)
        {
            let file = self.path.join(name);
            let reason = format!("{} is shorter than when the checkpoint was saved", file.display());
            return Err(CheckpointError { path: self.path.clone(), reason, previous: None }.into());
        }
        self.metrics.keep(saved.metrics)?;
        self.samples.keep(saved.samples)?;
        self.histograms.keep(saved.histograms)?;
        Ok(self.events.truncate(saved.events)?)
    }

    /// Writes `answers.json`, and then `results.json` with the SHA-256 of what they were made of, which ends the run.
    ///
    /// # Errors
    /// A file can't be read or written.
    pub fn results(&mut self, mut results: Value, answers: &RunAnswers) -> Result<(), IoError> {
        self.positions()?;
        let mut files = BTreeMap::from([(ANSWERS.to_owned(), answers.write(&*self.disk, &self.path)?)]);
        let manifests = [CheckpointSlot::Best, CheckpointSlot::Last].map(checkpoint_name);
        let watched = [&self.samples, &self.histograms].into_iter().filter(|file| file.exists());
        let lines = std::iter::once(METRICS).chain(watched.map(WatchedFile::name)).map(str::to_owned);
        for name in lines.chain(manifests) {
            let hash = sha256(read(&self.path, &name)?);
            files.insert(name, hash);
        }
        results["run"] = self.info.run.clone().into();
        results["files"] = json!(files);
        write_on(&*self.disk, &self.path.join(RESULTS), sealed(&results))
    }
}

/// Files that a run has only after its [`RUN`].
const LATER: [&str; 8] = [CHECKPOINTS, METRICS, TIMING, EVENTS, SAMPLES, HISTOGRAMS, RESULTS, ANSWERS];

/// Why no run with these first files can begin in a folder, if none can. The first files may be there: a process that was killed while it
/// began a run leaves them.
fn occupied(path: &Path, first: &[(&str, String)]) -> Option<String> {
    if RunFolder::exists(path) {
        return Some("there is a run in this folder already: resume it, or choose another name".to_owned());
    }
    if let Some(later) = LATER.into_iter().find(|name| beneath::exists(&path.join(name))) {
        return Some(format!(
            "the folder has {later} and no {RUN}, so their run can't be resumed: put {RUN} back, or choose another name"
        ));
    }
    let differs = |(name, text): &&(&str, String)| {
        beneath::exists(&path.join(name)) && read(path, name).ok().as_deref() != Some(text.as_bytes())
    };
    first.iter().find(differs).map(|(name, _)| {
        format!("the folder has a file {name} that is not of this run, which would replace it: move it, or choose another name")
    })
}

/// Removes drafts of files that a process left which was killed while it wrote them. The caller holds the lock of the run.
fn remove_drafts(disk: &dyn Disk, path: &Path) -> Result<(), IoError> {
    for entry in fs::read_dir(path).map_err(IoError::at("read", path))? {
        let file = entry.map_err(IoError::at("read", path))?;
        if drafted(&file.file_name().to_string_lossy()).is_some() {
            disk.remove(&file.path()).map_err(IoError::at("remove", &file.path()))?;
        }
    }
    Ok(())
}

/// How results are made again.
const MEASURE: &str = "without `results.json`, `rtc train` measures the best checkpoint again";

/// The results in the folder of a run, if it is finished.
fn results(folder: &Path, info: &RunInfo) -> Result<Option<Value>, Error> {
    let refuse = |reason: String| CheckpointError { path: folder.to_path_buf(), reason, previous: None };
    let bytes = match read(folder, RESULTS) {
        Ok(bytes) => bytes,
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found: Value = unsealed(&bytes).map_err(|why| refuse(format!("its {RESULTS} {why}; {MEASURE}")))?;
    if found["run"] != info.run.as_str() {
        return Err(refuse(format!("its {RESULTS} belongs to another run; {MEASURE}")).into());
    }
    Ok(Some(found))
}

/// The manifest of a checkpoint from the folder of its run.
fn checkpoint_name(slot: CheckpointSlot) -> String {
    format!("{CHECKPOINTS}/{}/{}", slot.name(), checkpoint::MANIFEST)
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, IoError> {
    beneath::read_named(folder, name, RECORD)
}

/// A line of a record, its keys in the order of its fields.
fn json_line(line: &impl Serialize) -> Value {
    serde_json::to_value(line).expect("names and numbers are valid JSON")
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
