//! One run from its parts to its end: what `rtc train` does, and what every cell of a grid does.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rtc_compiler::pipeline::memory::Fitted;
use rtc_compiler::spec;
use rtc_runtime::cuda::device::Device;
use rtc_runtime::exec::Halting;
use rtc_runtime::experiment::Experiment;
use rtc_runtime::learner::Learner;
use rtc_runtime::record::{self, RunFolder, RunInfo, SavedRun};
use rtc_runtime::task::{Audit, Dataset, audit, load, open_task};
use rtc_runtime::train::{Observer, Outcome as Ended, Table, train};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;
use crate::memory;
use crate::model::Compiled;
use crate::saved::{generated, infer};
use crate::terminal::Terminal;
use crate::text::{count, duration, number};
use crate::threads;
use crate::weights::Weights;

/// A hash of what of this program decides numbers.
pub(crate) const CODE: &str = env!("RTC_CODE");

/// The versions of this program as they stand in the results of runs: `code 3f2a, rtc 0.1.0`.
pub(crate) fn program() -> String {
    record::program(&versions())
}

fn versions() -> BTreeMap<String, String> {
    let parts = [("rtc", env!("CARGO_PKG_VERSION")), ("code", CODE)];
    BTreeMap::from(parts.map(|(part, version)| (part.to_owned(), version.to_owned())))
}

/// Everything that decides the numbers of a run.
pub(crate) struct Job {
    /// The model.
    pub(crate) compiled: Arc<Compiled>,
    /// The experiment for this model.
    pub(crate) experiment: Experiment,
    /// The identity of the run.
    pub(crate) info: RunInfo,
    /// The weights with which it begins, where it draws none.
    start: Option<Weights>,
}

/// What changes the speed of a run alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The most bytes to take.
    pub(crate) memory: Option<u64>,
    /// What rows that have halted cost.
    pub(crate) halting: Halting,
}

/// Examples with their fingerprint.
pub(crate) struct Data {
    /// The examples.
    pub(crate) set: Dataset,
    /// Their fingerprint.
    pub(crate) hash: String,
    /// The fingerprints of the splits.
    pub(crate) splits: BTreeMap<String, String>,
}

impl Job {
    /// A run of a model in its experiment.
    pub(crate) fn new(compiled: Arc<Compiled>, experiment: Experiment, seed: u64, memory: Option<u64>) -> Self {
        let info = RunInfo {
            model: compiled.spec.name.clone(),
            seed,
            spec_hash: compiled.spec_hash(),
            graph_hash: compiled.graph_hash(),
            data_hash: None,
            splits: BTreeMap::new(),
            start: None,
            parameters: compiled.parameter_count(),
            threads: threads::count(),
            memory,
            folders: experiment.task.folders(),
            versions: versions(),
        };
        Self { compiled, experiment, info, start: None }
    }

    /// Begins with these weights.
    pub(crate) fn begins_with(&mut self, weights: Weights) {
        self.info.start = Some(weights.start.clone());
        self.start = Some(weights);
    }

    /// Records where the run computes, if that is not the processor.
    pub(crate) fn computes_on(&mut self, device: String) {
        self.info.versions.insert("device".to_owned(), device);
    }

    /// Makes the data a part of the identity.
    pub(crate) fn is_on(&mut self, data: &Data) {
        self.info.data_hash = Some(data.hash.clone());
        self.info.splits = data.splits.clone();
    }

    /// The table of a run that is finished. A folder that holds another run is refused.
    pub(crate) fn finished(&self, path: &Path) -> Result<Option<Table>, Failure> {
        let saved = SavedRun::read(path)?;
        saved.same(path, &self.experiment, &self.info).map_err(Failure::from)?;
        Ok(saved.results)
    }

    /// The plans of the model for the largest batches of the data, within a limit: that of the run in the folder, if
    /// none is given.
    pub(crate) fn fit(&self, path: &Path, data: &Data, pace: Pace) -> Result<Fitted, Failure> {
        let saved = || if RunFolder::exists(path) { SavedRun::read(path).map(|run| run.info.memory) } else { Ok(None) };
        let limit = if pace.memory.is_some() { pace.memory } else { saved()? };
        self.compiled.fit(&memory::work(&self.experiment, &data.set, self.info.parameters), limit)
    }

    /// Trains to the end, from the last checkpoint in the folder if there is one.
    pub(crate) fn train(
        &self,
        path: &Path,
        data: &Data,
        (fitted, halting, device): (Fitted, Halting, Option<Rc<dyn Device>>),
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Ended, Failure> {
        let (seed, inference, name) = (self.info.seed, self.experiment.inference, &self.compiled.spec.name);
        let mut model: Box<dyn Learner> = match device {
            Some(device) => {
                let mut model = self.compiled.model_on(device, fitted, seed, halting)?;
                infer(model.set_inference(inference), name)?;
                Box::new(model)
            }
            None => {
                let mut model = self.compiled.model(fitted, seed, halting);
                infer(model.set_inference(inference), name)?;
                Box::new(model)
            }
        };
        if let Some(weights) = &self.start {
            model.restore(&weights.state())?;
        }
        let (hash, splits) = (Some(data.hash.clone()), data.splits.clone());
        let info = RunInfo { data_hash: hash, splits, ..self.info.clone() };
        let mut run = if RunFolder::exists(path) {
            RunFolder::resume(path, &self.experiment, info)?
        } else {
            RunFolder::create(path, &spec::text(&self.compiled.spec), &self.experiment, info)?
        };
        Ok(train(&mut *model, &data.set, &self.experiment, &mut run, stop, observer)?)
    }
}

/// Makes a folder, and keeps a second process out of it for as long as the file is open.
pub(crate) fn lock(folder: &Path) -> Result<File, Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, error))?;
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(|error| Failure::io("create", &path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::io("use", folder, std::io::Error::other("another process is training in this folder")))
        }
        Err(TryLockError::Error(error)) => Err(Failure::io("lock", &path, error)),
    }
}

/// Loads or generates the data of an experiment, and says how much of it there is.
pub(crate) fn make_data(experiment: &Experiment, terminal: &Terminal) -> Result<Data, Failure> {
    let start = Instant::now();
    let spinner = terminal.spinner("making the data");
    let set = load(&experiment.task, &experiment.splits());
    drop(spinner);
    let set = set?;
    if let Some(message) = generated(&experiment.task, &set) {
        terminal.message(&message);
    }
    let sizes = experiment.splits().into_iter().map(|split| format!("{split} {}", number(set.count(split) as f64)));
    let sizes = sizes.collect::<Vec<_>>().join(", ");
    terminal.message(&format!("data: {sizes} ({})", duration(start.elapsed().as_secs_f64())));
    remarks(experiment, &set)?.iter().for_each(|remark| terminal.message(remark));
    Ok(Data { hash: set.fingerprint(), splits: set.fingerprints(), set })
}

/// What is worth knowing of rows of the user's own before a training: the vocabulary, what it does not have, and rows that are
/// measured although they were trained on.
fn remarks(experiment: &Experiment, set: &Dataset) -> Result<Vec<String>, Failure> {
    let (task, _) = open_task(&experiment.task)?;
    if task.kept().is_none() {
        return Ok(vec![]);
    }
    let mut remarks = vec![format!("vocabulary: {}", count(set.vocabulary, "token"))];
    for Audit { split, description, unknown, trained, .. } in audit(&*task, set, &experiment.train) {
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

/// A flag that the first SIGINT or SIGTERM sets; the second ends the process at once.
pub(crate) fn on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: at the first signal the flag is still clear when this looks at it.
        let registered = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)));
        registered.map_err(|error| Failure::io("handle", Path::new("signals"), error))?;
    }
    Ok(stop)
}
