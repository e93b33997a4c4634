//! One run from its parts to its end, alone or as a cell of a grid.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rtc_base::disk::beneath;
use rtc_base::disk::{Disk, FileSystem};
use rtc_compiler::ir::hash;
use rtc_compiler::pipeline::asked::{ExternalInput, asked};
use rtc_compiler::pipeline::memory::{Fitted, LargestBatches};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_exec::Halting;
use rtc_exec::learner::{LearnError, Learner};
use rtc_exec::model::matrices;
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_runs::experiment::{Experiment, OptimiserKind, Supervision};
use rtc_runs::record::table::ResultsTable;
use rtc_runs::record::{self, DEVICE, RunFolder, RunInfo, SavedRun};
use rtc_task::{Audit, Dataset, audit, load, open_task};
use rtc_train::ranks::{Balance, Ranks, SharedLearner, begin, joined};
use rtc_train::{Observer, Outcome, train};

use crate::device::{Card, DeviceChoice, ExecutionTarget};
use crate::failure::SessionFailure;
use crate::following::TrainingDescription;
use crate::labels::RunLabels;
use crate::memory;
use crate::model::{AnyModel, Compiled, Computing};
use crate::rates::check_rates;
use crate::saved::generated;
use crate::text::{count, duration, number};
use crate::threads;
use crate::versions::versions;
use crate::weights::Weights;

/// What a slot keeps of a number that it carries, what the batch is given and what it leaves, and two copies in a checkpoint.
const BYTES_PER_CARRIED: u64 = 32;

/// What the batch of an update keeps of a number that comes with a row, and that of the next one.
const BYTES_PER_GIVEN: u64 = 16;

/// What a rank that is one of several keeps of a number of a gradient: its own sums, a slice of those of others, a message, and the whole.
const BYTES_PER_SHARED: u64 = 20;

/// The versions of this program with the device of a run, as they stand in results.
pub fn program_on(place: &ExecutionTarget) -> String {
    let device = place.record().map(|record| (DEVICE.to_owned(), record));
    record::program(&versions().clone().into_iter().chain(device).collect())
}

/// A run before it is trained: everything that decides its numbers.
///
/// Two updates of a small model, which is opened then:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
///
/// use rtc_exec::Halting;
/// use rtc_session::device::DeviceChoice;
/// use rtc_session::experiment_file::{ForModel, OpenedExperiment};
/// use rtc_session::job::{Data, Pace, TrainingJob};
/// use rtc_session::model::Compiled;
/// use rtc_session::saved::{ModelChoice, TrainedModel, catalog_in};
/// use rtc_session::spec_file::SpecArg;
/// use rtc_train::Silent;
/// use rtc_train::ranks::SingleRank;
///
/// let opened = OpenedExperiment::open("listops_smoke")?;
/// let arg = SpecArg::parse("ut");
/// let with = ["max_steps=2", "evaluate=[]", "task.sizes={train: 64, dev: 8}"].map(str::to_owned);
/// let ForModel { experiment, edits, .. } = opened.resolve_for(&arg, &arg.model_name()?, &with)?;
/// let facts = catalog_in(&experiment)?;
/// let compiled = Compiled::new(arg.check_edited(&edits, &facts)?.definition, &facts)?;
/// compiled.takes_from(&experiment)?;
///
/// let data = Data::of(&experiment)?;
/// let job = TrainingJob::new(Arc::new(compiled), (&opened.name, experiment), 1, None);
/// let run = std::env::temp_dir().join(format!("rtc-session-{}", std::process::id()));
/// let pace = Pace { memory: None, halting: Halting::Compact, device: DeviceChoice::default() };
/// let fitted = job.fit(&run, &data, pace, None)?;
/// let how = (fitted, pace.halting, pace.device.open()?);
/// job.train(&run, &data, how, &SingleRank, &AtomicBool::new(false), &mut Silent)?;
///
/// let trained = TrainedModel::open(&ModelChoice::of_run(&run))?;
/// assert_eq!(trained.state.progress.updates, 2);
/// # std::fs::remove_dir_all(&run).expect("the run can be removed");
/// # Ok::<(), rtc_session::failure::SessionFailure>(())
/// ```
pub struct TrainingJob {
    /// The model.
    pub compiled: Arc<Compiled>,
    /// The experiment for this model.
    pub experiment: Experiment,
    /// The identity of the run.
    pub info: RunInfo,
    /// The name of its experiment.
    named: String,
    /// The weights with which it begins, where it draws none.
    start: Option<Weights>,
}

/// The device and the speed of a run; its identity depends on neither.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The most bytes to take.
    pub memory: Option<u64>,
    /// What rows that have halted cost.
    pub halting: Halting,
    /// Where it computes.
    pub device: DeviceChoice,
}

/// Examples with their fingerprint.
pub struct Data {
    /// The examples.
    pub set: Dataset,
    /// Their fingerprint.
    pub hash: String,
    /// The fingerprints of the splits.
    pub splits: BTreeMap<String, String>,
    /// Remarks for people: how many examples there are, and what is worth knowing of them.
    pub remarks: Vec<String>,
}

impl Data {
    /// Loads or generates the data of an experiment.
    pub fn of(experiment: &Experiment) -> Result<Self, SessionFailure> {
        let start = Instant::now();
        let set = load(&experiment.task, &experiment.splits())?;
        let mut all: Vec<String> = generated(&experiment.task, &set).into_iter().collect();
        let sizes = experiment.splits().into_iter().map(|split| format!("{split} {}", number(set.count(split) as f64)));
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        all.push(format!("data: {sizes} ({})", duration(start.elapsed().as_secs_f64())));
        all.extend(remarks(experiment, &set)?);
        Ok(Self { hash: set.fingerprint(), splits: set.fingerprints(), set, remarks: all })
    }
}

impl TrainingJob {
    /// A run of a model in its experiment.
    pub fn new(
        compiled: Arc<Compiled>,
        (named, experiment): (&str, Experiment),
        seed: u64,
        memory: Option<u64>,
    ) -> Self {
        let info = RunInfo {
            model: compiled.name().to_owned(),
            seed,
            spec_hash: compiled.spec_hash(),
            written: compiled.definition.written(),
            graph_hash: compiled.graph_hash(),
            structure: Some(hash::structure(&compiled.graph)),
            data_hash: None,
            splits: BTreeMap::new(),
            start: None,
            parameters: compiled.parameter_count(),
            threads: threads::count(),
            memory,
            folders: experiment.task.folders(),
            versions: versions().clone(),
            ..RunInfo::default()
        };
        Self { compiled, experiment, info, named: named.to_owned(), start: None }
    }

    /// Begins with these weights.
    pub fn begins_with(&mut self, weights: Weights) {
        self.info.start = Some(weights.start.clone());
        self.start = Some(weights);
    }

    /// Records where and how exactly the run computes, if that is not the processor in single precision.
    pub fn computes_on(&mut self, place: &ExecutionTarget) {
        self.info.versions.extend(place.record().map(|record| (DEVICE.to_owned(), record)));
    }

    /// Makes the data a part of the identity.
    pub fn is_on(&mut self, data: &Data) {
        self.info.data_hash = Some(data.hash.clone());
        self.info.splits = data.splits.clone();
    }

    /// The table of a run that is finished. A folder that holds another run is refused.
    pub fn finished(&self, path: &Path) -> Result<Option<ResultsTable>, SessionFailure> {
        let saved = SavedRun::read(path)?;
        // A run that is to be trained on is the one that ended before.
        let until = if self.info.until.is_some() { saved.info.until } else { None };
        let info = RunInfo { until, ..self.info.clone() };
        saved.same(path, &self.compiled.definition.text(), &self.experiment, &info)?;
        Ok(saved.results.filter(|_| self.info.until == saved.info.until))
    }

    /// Ends where the run in the folder was trained on to, if it was.
    pub fn ends_as_before(&mut self, path: &Path) -> Result<(), SessionFailure> {
        if RunFolder::exists(path) {
            self.info.until = SavedRun::read(path)?.info.until;
        }
        Ok(())
    }

    /// Is trained by so many ranks.
    pub fn is_shared_by(&mut self, ranks: usize) {
        self.info.ranks = ranks;
    }

    /// The plans of the model for the largest batches of the data on the card, or else on the processor, within a limit: that of the run
    /// in the folder, if none is given.
    pub fn fit(&self, path: &Path, data: &Data, pace: Pace, card: Option<&Card>) -> Result<Fitted, SessionFailure> {
        let form = self.compiled.form(&self.experiment)?;
        self.compiled.fit(&self.work_on(card, data)?, self.limit(path, pace)?, form, card)
    }

    /// The largest batches of the data there.
    fn work_on(&self, card: Option<&Card>, data: &Data) -> Result<LargestBatches, SessionFailure> {
        let mut work = self.work(data)?;
        if let Some(card) = card {
            work.target = MemoryTarget::Device;
            let beside = memory::beside_on_device(&self.experiment, card.precision, self.info.parameters);
            work.fixed_bytes = beside.saturating_add(self.beside_matrices());
        }
        Ok(work)
    }

    /// The most bytes that the run may take: as asked, or else as it was begun.
    pub fn limit(&self, path: &Path, pace: Pace) -> Result<Option<u64>, SessionFailure> {
        if pace.memory.is_some() || !RunFolder::exists(path) {
            return Ok(pace.memory);
        }
        Ok(SavedRun::read(path)?.info.memory)
    }

    /// What a run on a device holds on the host.
    pub fn on_host(&self, data: &Data, fitted: &Fitted) -> Result<u64, SessionFailure> {
        Ok(self.work(data)?.fixed_bytes.saturating_add(fitted.need.lists()).saturating_add(memory::STAGED))
    }

    /// Bytes beside the matrices of Muon.
    fn beside_matrices(&self) -> u64 {
        if self.experiment.optimiser.kind != OptimiserKind::Muon {
            return 0;
        }
        let beside: usize = matrices(&self.compiled.graph).iter().map(ParameterMatrix::beside).sum();
        4 * beside as u64
    }

    /// The largest batches of the data, on the processor.
    fn work(&self, data: &Data) -> Result<LargestBatches, SessionFailure> {
        let mut work = memory::work(&self.experiment, &data.set, self.info.parameters);
        work.fixed_bytes = work.fixed_bytes.saturating_add(self.beside_matrices());
        let numbers = |shape: &BatchShape| {
            let of = |asked: &ExternalInput| {
                shape.lengths.iter().map(|length| asked.values(*length) * asked.width()).sum::<usize>()
            };
            asked(&self.compiled.graph).iter().map(of).sum::<usize>() as u64
        };
        let given = numbers(&work.training).saturating_mul(self.experiment.batch.accumulate as u64);
        let given = given.saturating_add(work.evaluation.as_ref().map_or(0, numbers));
        work.fixed_bytes = work.fixed_bytes.saturating_add(given.saturating_mul(BYTES_PER_GIVEN));
        let parts = self.experiment.batch.accumulate as u64;
        // Sums of micro-batches are put aside, one for every power of two.
        let sums = u64::from(parts.max(1).ilog2()) * 4 + if self.info.ranks > 1 { BYTES_PER_SHARED } else { 0 };
        work.fixed_bytes = work.fixed_bytes.saturating_add(sums.saturating_mul(self.info.parameters as u64));
        if self.experiment.supervision == Supervision::EachStep {
            let numbers = self.compiled.each_step()?.numbers(&work.training.lengths) as u64;
            work.fixed_bytes = work.fixed_bytes.saturating_add(numbers.saturating_mul(parts * BYTES_PER_CARRIED));
        }
        Ok(work)
    }

    /// The model with freshly drawn parameters.
    pub fn model(&self, fitted: Fitted, halting: Halting, place: ExecutionTarget) -> Result<AnyModel, SessionFailure> {
        let how = Computing { place, memory: fitted.limit, halting, ..self.compiled.computing(&self.experiment)? };
        self.compiled.model((fitted.training, fitted.inference), self.info.seed, how)
    }

    /// The model on every rank; this is that of rank 0. The others have no data, which takes none of their memory.
    fn model_of_all(
        &self,
        data: &Data,
        (fitted, halting, place): (Fitted, Halting, ExecutionTarget),
        ranks: &dyn Ranks,
    ) -> Result<AnyModel, SessionFailure> {
        if ranks.size() == 1 {
            return self.model(fitted, halting, place);
        }
        let mut work = self.work_on(place.card()?.as_ref(), data)?;
        if work.target == MemoryTarget::Processor {
            work.fixed_bytes = work.fixed_bytes.saturating_sub(memory::shared(&data.set));
        }
        let allowed = (work, fitted.limit);
        let described = TrainingDescription::new(&self.compiled, &self.experiment, self.info.seed, allowed, &place)?;
        begin(ranks, &described.to_text()).map_err(LearnError::from)?;
        let model = self.model(fitted, halting, place);
        // The others answer in any case, and must be heard before they are told anything else.
        let all = joined(ranks);
        let model = model?;
        all?;
        Ok(model)
    }

    /// Trains to the end, from the last checkpoint in the folder if there is one, and says how evenly the ranks have worked.
    pub fn train(
        &self,
        path: &Path,
        data: &Data,
        how: (Fitted, Halting, ExecutionTarget),
        ranks: &dyn Ranks,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Balance), SessionFailure> {
        self.train_on((Rc::new(FileSystem::below(path)), path), data, how, ranks, stop, observer)
    }

    /// The same with a folder on any disk.
    pub fn train_on(
        &self,
        (disk, path): (Rc<dyn Disk>, &Path),
        data: &Data,
        how: (Fitted, Halting, ExecutionTarget),
        ranks: &dyn Ranks,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Balance), SessionFailure> {
        check_rates(&self.experiment, &data.set, (self.info.seed, self.info.until))?;
        let mut model = self.model_of_all(data, how, ranks)?;
        let mut shared = SharedLearner::new(&mut *model, ranks, stop);
        if let Some(weights) = &self.start {
            shared.restore(&weights.state())?;
        }
        let (hash, splits) = (Some(data.hash.clone()), data.splits.clone());
        let info = RunInfo { data_hash: hash, splits, ..self.info.clone() };
        let text = self.compiled.definition.text();
        let mut run = if RunFolder::exists(path) {
            RunFolder::resume_on(disk, path, &text, &self.experiment, info)?
        } else {
            let run = RunFolder::create_on(disk, path, &text, &self.experiment, info)?;
            RunLabels::of(run.info(), &self.named).write(path)?;
            run
        };
        let ended = train(&mut shared, &data.set, &self.experiment, &mut run, stop, observer)?;
        Ok((ended, shared.balance()))
    }
}

/// A folder that no other process trains in for as long as this exists. If nothing was written into it, it is gone then.
#[derive(Debug)]
pub struct Lock {
    /// Held, and never read.
    _file: File,
    folder: PathBuf,
    /// The folders that were made for it, the outermost first.
    made: Vec<PathBuf>,
}

/// The name of the file that is locked.
pub const LOCK: &str = ".lock";

/// How often a lock is tried to get, and what lies between: a command that only looks whether it is held has it for a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Whether another process trains in a folder.
pub fn is_locked(folder: &Path) -> bool {
    let file = beneath::open(folder, Path::new(LOCK));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Makes a folder, and keeps a second process out of it.
pub fn lock(folder: &Path) -> Result<Lock, SessionFailure> {
    lock_by(folder, File::try_lock)
}

/// Makes a folder, and keeps those out of it that want it for themselves alone: several processes train the cells of a grid. Where the
/// file system has no locks nobody is kept out.
pub fn share(folder: &Path) -> Result<Option<Lock>, SessionFailure> {
    match lock_by(folder, File::try_lock_shared) {
        Ok(lock) => Ok(Some(lock)),
        Err(failure) if is_locked(folder) => Err(failure),
        Err(_) => Ok(None),
    }
}

/// Locks the folder of a cell whose claim this process holds. A process that the cell was taken over from may be suspended and still
/// have the lock: it writes no more. Where the file system has no locks the claim is enough.
pub fn lock_claimed(folder: &Path, taken_over: bool) -> Result<Option<Lock>, SessionFailure> {
    match lock(folder) {
        Ok(lock) => Ok(Some(lock)),
        Err(failure) if is_locked(folder) && !taken_over => Err(failure),
        Err(_) => Ok(None),
    }
}

fn lock_by(folder: &Path, how: fn(&File) -> Result<(), TryLockError>) -> Result<Lock, SessionFailure> {
    let mut tries = 1;
    let mut made: Vec<PathBuf> = folder.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
    made.reverse();
    loop {
        fs::create_dir_all(folder).map_err(|error| SessionFailure::io("create", folder, error))?;
        let path = folder.join(LOCK);
        let file = match beneath::append_or_create(folder, Path::new(LOCK)) {
            Ok(file) => file,
            // Another process has just left, and removed the folder behind it.
            Err(error) if error.kind() == ErrorKind::NotFound && !folder.exists() => continue,
            Err(error) => return Err(SessionFailure::io("create", &path, error)),
        };
        match how(&file) {
            Ok(()) if is_at(&file, &path) => return Ok(Lock { _file: file, folder: folder.to_owned(), made }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if tries < TRIES => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let other = std::io::Error::other("another process is training in this folder, or moves it");
                return Err(SessionFailure::io("use", folder, other));
            }
            Err(TryLockError::Error(error)) => return Err(SessionFailure::io("lock", &path, error)),
        }
    }
}

/// Whether the file is still the one at this path: a process that leaves may have removed it before it was locked.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    file.metadata().map(place).ok() == fs::symlink_metadata(path).map(place).ok()
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

impl Drop for Lock {
    fn drop(&mut self) {
        let inside = fs::read_dir(&self.folder).map(|entries| entries.count());
        if inside.is_ok_and(|count| count == 1) {
            // What can't be removed is left: there is nobody to tell.
            let _ = fs::remove_file(self.folder.join(LOCK));
            let _ = fs::remove_dir(&self.folder);
            self.made.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
        }
    }
}

/// What is worth knowing of rows of the user's own before a training: the vocabulary, what it does not have, and rows that are
/// measured although they were trained on.
fn remarks(experiment: &Experiment, set: &Dataset) -> Result<Vec<String>, SessionFailure> {
    let (task, _) = open_task(&experiment.task)?;
    if task.kept().is_none() {
        return Ok(vec![]);
    }
    let mut remarks = vec![format!("vocabulary: {}", count(set.vocabulary, "token"))];
    for found in audit(&*task, set, &experiment.train) {
        remarks.extend(found.left_out().iter().map(|what| format!("{}: {what}", found.split)));
        let Audit { split, description, unknown, trained, .. } = found;
        if let Some(unknown) = unknown.filter(|unknown| *unknown > 0.0) {
            remarks.push(format!("{split}: the vocabulary does not have {:.1} % of the tokens", 100.0 * unknown));
        }
        if let Some(trained) = trained.filter(|trained| *trained > 0) {
            let (trained, all) = (number(trained as f64), number(description.examples as f64));
            remarks.push(format!("{split}: {trained} of {all} rows are in {}, too", experiment.train));
        }
    }
    Ok(remarks)
}
