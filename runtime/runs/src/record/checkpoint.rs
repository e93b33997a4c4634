//! Checkpoints: folders that are complete or absent, and verified before they are used.
//!
//! A folder holds `weights.safetensors` (parameters under their own names, f32), `optimiser.safetensors` (the arrays of the optimiser
//! under `ARRAY.NAME`, such as `first_moment.NAME`, and averaged parameters under `average.NAME`, if there are any), `state.json`
//! (where the run stands, and which run it is) and `manifest.json` (size and SHA-256 of the others). A run with an update after every
//! step has `carried.safetensors` besides: what the rows in its slots carry.
//!
//! Saving writes `SLOT.new`, syncing each file and the folder, then renames `SLOT` to `SLOT.previous` and `SLOT.new` to
//! `SLOT`, and syncs the parent. What was `SLOT.previous` is `SLOT.old` while it is removed. At every moment one of the
//! others is complete; [`Checkpoints::open`] finishes a swap that was cut off between the renames. No file of a saved
//! folder is ever written again, so that a reader which another process saves beside opens all files of one folder, and
//! begins anew if the folder was replaced while it did.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::error::{CheckpointError, Error};
use crate::record::watched::{HISTOGRAMS, SAMPLES, is_zero};
use crate::record::{EVENTS, METRICS, RunInfo, sha256};
use crate::schedule::Plateau;
use rtc_base::disk::Disk;
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, RECORD, SMALL};
use rtc_base::memory;
use rtc_exec::learner::{FlatArrays, LearnerState};
use rtc_task::batching::Cursor;

/// Version of the layout; a checkpoint of another one is refused.
const FORMAT: u32 = 2;
const WEIGHTS: &str = "weights.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
const CARRIED: &str = "carried.safetensors";
const STATE: &str = "state.json";
pub(crate) const MANIFEST: &str = "manifest.json";
/// The files that a manifest may name.
const FILES: [&str; 4] = [WEIGHTS, OPTIMISER, STATE, CARRIED];
/// Averaged parameters among the arrays of the optimiser.
pub(crate) const AVERAGE: &str = "average";
/// In the metadata of weights whose averages are among the arrays of the optimiser.
pub(crate) const NOT_AVERAGED: &str = "not_averaged";

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestEvaluation {
    /// Share of right predictions on the dev split; none where numbers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean task loss there, where that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Value of the metric that decides, if the experiment names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<f64>,
    /// Updates done by then.
    pub update: u64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Updates done.
    pub updates: u64,
    /// The next training batch.
    pub cursor: Cursor,
    /// The best evaluation, once there was one.
    pub best: Option<BestEvaluation>,
    /// Evaluations in a row without improvement.
    pub impatience: u64,
    /// What the dev split says to `schedule.kind: plateau`.
    #[serde(default)]
    pub plateau: Plateau,
    /// Number of updates at the last evaluation.
    pub evaluated: Option<u64>,
    /// Lengths of the files that grow with the updates.
    #[serde(flatten)]
    pub records: RecordLengths,
}

/// Lengths in bytes of the files of a run that grow with its updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLengths {
    /// That of `metrics.jsonl`.
    pub metrics: u64,
    /// That of the TensorBoard file.
    pub events: u64,
    /// That of `samples.jsonl`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub samples: u64,
    /// That of `histograms.jsonl`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub histograms: u64,
}

impl RecordLengths {
    /// The files with their lengths.
    pub fn by_name(self) -> [(&'static str, u64); 4] {
        let Self { metrics, events, samples, histograms } = self;
        [(METRICS, metrics), (EVENTS, events), (SAMPLES, samples), (HISTOGRAMS, histograms)]
    }
}

/// The place of an example in the order of training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingPosition {
    /// The batch that it would be in.
    #[serde(flatten)]
    pub cursor: Cursor,
    /// Its row there.
    pub row: usize,
}

/// Which examples are in the slots, and which comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlaces {
    /// The example of every slot.
    pub slots: Vec<TrainingPosition>,
    /// The one after those that were taken.
    pub next: TrainingPosition,
}

/// What `state.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Where the run stands.
    pub progress: TrainingProgress,
    /// What it belongs to: [`RunInfo::run`].
    pub run: String,
    /// Seed of the run; the generator needs nothing else, being counter-based.
    pub seed: u64,
    /// Hash of the normalised spec.
    pub spec_hash: String,
    /// Hash of the graph.
    pub graph_hash: String,
    /// Fingerprint of the examples.
    pub data_hash: String,
    /// Versions of the program and its parts.
    pub versions: BTreeMap<String, String>,
    /// The examples in the slots, where an update is made after every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotPlaces>,
}

impl CheckpointState {
    /// What the run that it was saved by has, if it is not this run: `another seed`.
    pub fn other_run(&self, info: &RunInfo) -> Option<&'static str> {
        let data = info.data_hash.as_ref().is_none_or(|data| *data == self.data_hash);
        let same = [
            ("another seed", self.seed == info.seed),
            ("another spec", self.spec_hash == info.spec_hash),
            ("another graph", self.graph_hash == info.graph_hash),
            ("other data", data),
            ("another experiment", self.run == info.run),
        ];
        same.iter().find(|(_, same)| !same).map(|(what, _)| *what)
    }

    /// Why it is not the best one of its run, if it is not.
    pub fn not_the_best(&self) -> Option<&'static str> {
        let is_best = self.progress.best.is_some_and(|best| best.update == self.progress.updates);
        (!is_best).then_some("it was saved as the last one, and is not the best")
    }
}

/// A checkpoint in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Parameters and moments.
    pub learner: LearnerState,
    /// What the rows in the slots carry, where there are slots.
    pub carried: FlatArrays,
    /// The rest.
    pub state: CheckpointState,
}

/// A checkpoint of a run: the last, the best, or one that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointSlot {
    /// The most recent one.
    Last,
    /// The one with the best dev accuracy.
    Best,
    /// That after this update, which the experiment asks to keep.
    Update(u64),
}

/// The name of a kept checkpoint before its update.
const UPDATE: &str = "update-";

impl CheckpointSlot {
    /// Its name in the folder of the checkpoints.
    pub fn name(self) -> String {
        match self {
            Self::Last => "last".to_owned(),
            Self::Best => "best".to_owned(),
            Self::Update(update) => format!("{UPDATE}{update}"),
        }
    }

    /// The slot of this name.
    pub fn named(name: &str) -> Option<Self> {
        let update = || name.strip_prefix(UPDATE)?.parse().ok().map(Self::Update);
        let found = [Self::Last, Self::Best].into_iter().find(|slot| slot.name() == name).or_else(update);
        found.filter(|slot| slot.name() == name)
    }
}

/// The updates of the checkpoints that are kept in the folder of a run, the first one first.
pub fn kept(run: &Path) -> Vec<u64> {
    let names = fs::read_dir(run.join(super::CHECKPOINTS)).into_iter().flatten().flatten();
    let update = |entry: fs::DirEntry| match CheckpointSlot::named(entry.file_name().to_str()?)? {
        CheckpointSlot::Update(update) => Some(update),
        CheckpointSlot::Last | CheckpointSlot::Best => None,
    };
    let mut updates: Vec<u64> = names.filter_map(update).collect();
    updates.sort_unstable();
    updates
}

#[derive(Serialize, Deserialize)]
struct CheckpointManifest {
    format: u32,
    files: BTreeMap<String, ManifestEntry>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct ManifestEntry {
    size: u64,
    sha256: String,
}

impl ManifestEntry {
    fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, sha256: sha256(bytes) }
    }
}

/// The checkpoints of one run.
pub struct Checkpoints {
    /// The folder of the run: nothing below it is reached through a link.
    root: PathBuf,
    folder: PathBuf,
    disk: Rc<dyn Disk>,
}

impl Checkpoints {
    /// Opens the folder `name` of the checkpoints of the run in `root`, which may not exist yet, and finishes an interrupted swap.
    pub fn open(root: &Path, name: &str, disk: Rc<dyn Disk>) -> Result<Self, IoError> {
        let store = Self { root: root.to_path_buf(), folder: root.join(name), disk };
        store.finish_swap()?;
        Ok(store)
    }

    /// Puts a complete new checkpoint into the place of a slot that was moved away for it, and ends a removal.
    fn finish_swap(&self) -> Result<(), IoError> {
        for slot in [CheckpointSlot::Last, CheckpointSlot::Best] {
            let (path, fresh, old) = (self.path(slot), self.beside(slot, NEW), self.beside(slot, OLD));
            if beneath::exists(&old) {
                self.disk.remove(&old).map_err(IoError::at("remove", &old))?;
            }
            if !beneath::exists(&path) && decode(&self.root, &fresh).is_ok() {
                self.disk.rename(&fresh, &path).map_err(IoError::at("rename", &fresh))?;
                self.disk.sync_folder(&self.folder).map_err(IoError::at("sync", &self.folder))?;
            }
        }
        // Of a kept checkpoint that was being saved the training makes another one.
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(UPDATE) && is_slot(&name) && is_unfinished(&name) {
                self.disk.remove(&entry.path()).map_err(IoError::at("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// The folder of a slot.
    pub fn path(&self, slot: CheckpointSlot) -> PathBuf {
        self.folder.join(slot.name())
    }

    fn beside(&self, slot: CheckpointSlot, suffix: &str) -> PathBuf {
        beside(&self.path(slot), suffix)
    }

    /// Whether the slot was ever saved, damaged or not.
    pub fn exists(&self, slot: CheckpointSlot) -> bool {
        beneath::exists(&self.path(slot)) || beneath::exists(&self.beside(slot, PREVIOUS))
    }

    /// Saves a checkpoint. After an error the slot holds what it held before, or what was being saved.
    pub fn save(&self, slot: CheckpointSlot, checkpoint: &Checkpoint) -> Result<(), Error> {
        let (path, fresh) = (self.path(slot), self.beside(slot, NEW));
        let (previous, old) = (self.beside(slot, PREVIOUS), self.beside(slot, OLD));
        if let Err(error) = self.write_fresh(&fresh, checkpoint) {
            // The disk may be full. What can't be removed goes with the next save.
            let _ = self.disk.remove(&fresh);
            return Err(error);
        }
        // A damaged slot must not replace a good previous one.
        match decode(&self.root, &path) {
            Ok(_) => {
                // A reader, and a kill, find the previous one whole or not at all.
                self.disk.remove(&old).map_err(IoError::at("remove", &old))?;
                if beneath::exists(&previous) {
                    self.disk.rename(&previous, &old).map_err(IoError::at("rename", &previous))?;
                }
                self.disk.rename(&path, &previous).map_err(IoError::at("rename", &path))?;
            }
            Err(CheckpointFault::Damaged(_) | CheckpointFault::Missing(_)) => {
                self.disk.remove(&path).map_err(IoError::at("remove", &path))?
            }
            Err(CheckpointFault::Io(error)) => return Err(error.into()),
        }
        self.disk.rename(&fresh, &path).map_err(IoError::at("rename", &fresh))?;
        self.disk.sync_folder(&self.folder).map_err(IoError::at("sync", &self.folder))?;
        self.disk.remove(&old).map_err(IoError::at("remove", &old))?;
        Ok(())
    }

    /// Removes the checkpoints that are kept, but for the newest so many. A process that is killed leaves each whole or a removal that the
    /// next call ends.
    pub fn keep_newest(&self, count: usize) -> Result<(), IoError> {
        let updates = kept(&self.root);
        for update in &updates[..updates.len().saturating_sub(count)] {
            let (path, old) =
                (self.path(CheckpointSlot::Update(*update)), self.beside(CheckpointSlot::Update(*update), OLD));
            self.disk.remove(&old).map_err(IoError::at("remove", &old))?;
            self.disk.rename(&path, &old).map_err(IoError::at("rename", &path))?;
            self.disk.sync_folder(&self.folder).map_err(IoError::at("sync", &self.folder))?;
            self.disk.remove(&old).map_err(IoError::at("remove", &old))?;
        }
        Ok(())
    }

    /// Writes the files of a checkpoint into a new folder.
    fn write_fresh(&self, fresh: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
        let files = encode(checkpoint)?;
        let is_first = !beneath::exists(&self.folder);
        self.disk.remove(fresh).map_err(IoError::at("remove", fresh))?;
        self.disk.create_folder(fresh).map_err(IoError::at("create", fresh))?;
        for (name, bytes) in files {
            let file = fresh.join(name);
            self.disk.write(&file, &bytes).map_err(IoError::at("write", &file))?;
        }
        self.disk.sync_folder(fresh).map_err(IoError::at("sync", fresh))?;
        if is_first {
            self.disk.sync_folder(&self.root).map_err(IoError::at("sync", &self.root))?;
        }
        Ok(())
    }

    /// Loads and verifies a slot, see [`load`].
    pub fn load(&self, slot: CheckpointSlot) -> Result<Checkpoint, Error> {
        load(&self.root, &self.path(slot))
    }
}

/// A checkpoint that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedCheckpoint {
    /// Its folder.
    pub path: PathBuf,
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// The SHA-256 of its manifest, which names that of everything else in it.
    pub manifest: String,
}

/// Loads the checkpoint in a folder at or below `root`, after checking that every file is as it was saved. Another process may be saving
/// meanwhile.
///
/// # Errors
/// The system does not give the files; or they are refused, with what can be done about it.
pub fn load(root: &Path, path: &Path) -> Result<Checkpoint, Error> {
    Ok(find(root, path)?.checkpoint)
}

/// The same, with what it is known by.
///
/// # Errors
/// As those of [`load`].
pub fn find(root: &Path, path: &Path) -> Result<LoadedCheckpoint, Error> {
    let reason = match settled(root, path) {
        Ok(found) => return Ok(found),
        Err(CheckpointFault::Io(error)) => return Err(error.into()),
        Err(CheckpointFault::Damaged(reason) | CheckpointFault::Missing(reason)) => reason,
    };
    let name = path.file_name().unwrap_or_default();
    let mut error = CheckpointError { path: path.to_path_buf(), reason, previous: None };
    if name == &*CheckpointSlot::Last.name() {
        // An earlier state of the same run leads to the same numbers.
        let previous = beside(path, PREVIOUS);
        error.previous = decode(root, &previous).is_ok().then_some(previous);
    } else if name == &*CheckpointSlot::Best.name() {
        // No other one is the best: with another one in its place a table would have the numbers of that one.
        error.reason += "; no other one can stand in its place: without the folder of the checkpoints and `results.json` `rtc train` trains the run again";
    }
    Err(error.into())
}

/// Checks that a file of weights that lies in a checkpoint is as it was saved; the error is a reason to print. Where the checkpoint
/// has averaged weights, which are what a run is measured by, gives the file with them.
pub(crate) fn averages_beside(path: &Path, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    // A link leads to the folder of the checkpoint.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.file_name().is_none_or(|name| name != WEIGHTS) || !path.with_file_name(STATE).is_file() {
        return Ok(None);
    }
    let beside = |name: &str, most: u64| {
        let folder = path.parent().unwrap_or(Path::new("."));
        beneath::read(folder, Path::new(name), most).map_err(|error| format!("{name} beside it: {error}"))
    };
    let manifest: CheckpointManifest =
        serde_json::from_slice(&beside(MANIFEST, SMALL)?).map_err(|error| format!("{MANIFEST} beside it: {error}"))?;
    let check = |name: &str, bytes: &[u8]| match manifest.files.get(name) {
        Some(entry) if *entry == ManifestEntry::of(bytes) => Ok(()),
        _ => Err(format!("{name} is not the one that {MANIFEST} beside it names: the checkpoint was changed")),
    };
    check(WEIGHTS, bytes)?;
    let optimiser = beside(OPTIMISER, most(OPTIMISER))?;
    check(OPTIMISER, &optimiser)?;
    let arrays = SafeTensors::deserialize(&optimiser).map_err(|error| format!("{OPTIMISER} beside it: {error}"))?;
    let is_average = |name: &&str| name.strip_prefix(AVERAGE).is_some_and(|name| name.starts_with('.'));
    let averaged = arrays.names().iter().any(is_average);
    Ok(averaged.then_some(optimiser))
}

/// The reason why a folder can't be read as a checkpoint.
enum CheckpointFault {
    /// The system does not give it.
    Io(IoError),
    /// It is not as it was saved; the reason is to be printed.
    Damaged(String),
    /// It, or a part of it, is not there.
    Missing(String),
}

impl From<String> for CheckpointFault {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

/// The last word in the name of a slot that is being saved, of one that was replaced, and of one that is being removed.
const NEW: &str = "new";
const PREVIOUS: &str = "previous";
const OLD: &str = "old";

/// Whether a folder of checkpoints may have a folder of this name.
pub(crate) fn is_slot(name: &str) -> bool {
    let (slot, end) = name.split_once('.').unwrap_or((name, ""));
    CheckpointSlot::named(slot).is_some() && ["", NEW, PREVIOUS, OLD].contains(&end)
}

/// Whether a checkpoint may have a file of this name.
pub(crate) fn is_file(name: &str) -> bool {
    name == MANIFEST || FILES.contains(&name)
}

/// Whether a folder of this name is a save or a removal that was not ended.
pub(crate) fn is_unfinished(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == NEW || end == OLD)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{suffix}"))
}

/// Times that a folder is looked at again in which something is missing, or is not as it was saved, and the time between two of them.
const MISSING: usize = 25;
const DAMAGED: usize = 2;
const PAUSE: Duration = Duration::from_millis(4);

/// Reads a slot that another process may be saving to: what is read is one save, and what is refused is so when it is read again.
fn settled(root: &Path, path: &Path) -> Result<LoadedCheckpoint, CheckpointFault> {
    let now = |path: &Path| beneath::read(root, &below(root, path).join(MANIFEST), SMALL).ok();
    let mut looks = 0;
    loop {
        let before = now(path);
        let fault = match decode(root, path) {
            Ok(found) => return Ok(found),
            Err(fault) => fault,
        };
        // Between its two renames a save has the slot in `new`. Beside a folder that is there, `new` is a save that was not ended.
        if before.is_none()
            && !beneath::exists(path)
            && let Ok(found) = decode(root, &beside(path, NEW))
        {
            return Ok(found);
        }
        if before != now(path) {
            continue;
        }
        // What is missing may be about to come, or the folder about to go for the next one. What does not fit together may be parts of
        // two saves between which the same was saved twice.
        let most = match fault {
            CheckpointFault::Io(_) => 0,
            CheckpointFault::Damaged(_) => DAMAGED,
            CheckpointFault::Missing(_) => MISSING,
        };
        if looks >= most {
            return Err(fault);
        }
        looks += 1;
        sleep(PAUSE);
    }
}

/// Most bytes of a file of a checkpoint: arrays have to fit into memory.
fn most(name: &str) -> u64 {
    if name == STATE { RECORD } else { memory::machine().unwrap_or(u64::MAX) }
}

/// The name of a path below a folder; of one that is elsewhere, itself, which is refused when it is opened.
fn below<'p>(root: &Path, path: &'p Path) -> &'p Path {
    path.strip_prefix(root).unwrap_or(path)
}

/// The files of a checkpoint, the manifest last.
fn encode(checkpoint: &Checkpoint) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
    let refuse = |reason: String| CheckpointError { path: PathBuf::new(), reason, previous: None };
    let learner = &checkpoint.learner;
    let kept = learner.optimiser.iter().map(|(name, arrays)| (name.as_str(), arrays));
    let kept: Vec<_> = kept.chain([(AVERAGE, &learner.average)]).collect();
    // A copy of the file alone tells that it is not what the run is measured by.
    let averaged = !learner.average.items.is_empty();
    let about = averaged.then(|| [(NOT_AVERAGED.to_owned(), format!("the averages are in {OPTIMISER}"))].into());
    let json = |text: serde_json::Result<String>| text.map(String::into_bytes).map_err(|e| refuse(e.to_string()));
    let mut files = vec![
        (WEIGHTS, pack(&[("", &learner.parameters)], about).map_err(refuse)?),
        (OPTIMISER, pack(&kept, None).map_err(refuse)?),
        (STATE, json(serde_json::to_string_pretty(&checkpoint.state))?),
    ];
    if checkpoint.state.slots.is_some() {
        files.push((CARRIED, pack(&[("", &checkpoint.carried)], None).map_err(refuse)?));
    }
    let entries = files.iter().map(|(name, bytes)| (name.to_string(), ManifestEntry::of(bytes))).collect();
    let manifest = CheckpointManifest { format: FORMAT, files: entries };
    files.push((MANIFEST, json(serde_json::to_string_pretty(&manifest))?));
    Ok(files)
}

/// Reads and verifies a folder.
fn decode(root: &Path, path: &Path) -> Result<LoadedCheckpoint, CheckpointFault> {
    // Beside a folder that was named by itself, its earlier saves are named by themselves, too.
    let root = if path.starts_with(root) { root } else { path };
    let unread = |error| CheckpointFault::Io(IoError::at("read", path)(error));
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() || found.is_symlink() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unread(error)),
        _ => return Err(CheckpointFault::Missing("there is no such folder".into())),
    }
    match beneath::open_folder(root, below(root, path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unread(error)),
        _ => {}
    }
    // All files that are there are opened before any is read: the folder may be replaced meanwhile.
    let mut files = BTreeMap::new();
    for name in std::iter::once(MANIFEST).chain(FILES) {
        let file = path.join(name);
        match beneath::open(root, below(root, &file)) {
            Ok(open) => drop(files.insert(name, open)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(CheckpointFault::Io(IoError::at("open", &file)(error))),
        }
    }
    let mut read = |name: &str, most: u64| {
        let file = files.remove(name).ok_or_else(|| CheckpointFault::Missing(format!("{name} is missing")))?;
        beneath::whole(file, most).map_err(IoError::at("read", &path.join(name))).map_err(CheckpointFault::Io)
    };
    let bytes = read(MANIFEST, SMALL)?;
    let manifest: CheckpointManifest =
        serde_json::from_slice(&bytes).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if manifest.format != FORMAT {
        return Err(format!("its layout has version {}, and this program reads {FORMAT}", manifest.format).into());
    }
    if let Some(name) = manifest.files.keys().find(|name| !FILES.contains(&name.as_str())) {
        return Err(format!("{MANIFEST} names {name}, which this program does not know").into());
    }
    let mut verified = |name: &str| {
        let entry = manifest.files.get(name).ok_or_else(|| format!("{MANIFEST} does not name {name}"))?;
        let bytes = read(name, most(name))?;
        match ManifestEntry::of(&bytes) {
            found if found == *entry => Ok(bytes),
            found if found.size != entry.size => {
                Err(CheckpointFault::Damaged(format!("{name} has {} bytes instead of {}", found.size, entry.size)))
            }
            _ => Err(CheckpointFault::Damaged(format!("{name} was changed: its SHA-256 is not the saved one"))),
        }
    };
    let state: CheckpointState =
        serde_json::from_slice(&verified(STATE)?).map_err(|error| format!("{STATE}: {error}"))?;
    let mut tensors = |name: &str| -> Result<NamedTensors, CheckpointFault> {
        Ok(unpack(&verified(name)?).map_err(|error| format!("{name}: {error}"))?)
    };
    let mut optimiser: BTreeMap<String, FlatArrays> = BTreeMap::new();
    for (name, values) in tensors(OPTIMISER)? {
        let (kept, name) = name.split_once('.').ok_or_else(|| format!("{OPTIMISER}: `{name}` belongs to nothing"))?;
        optimiser.entry(kept.to_owned()).or_default().items.insert(name.to_owned(), values);
    }
    let learner = LearnerState {
        parameters: FlatArrays { items: tensors(WEIGHTS)? },
        average: optimiser.remove(AVERAGE).unwrap_or_default(),
        optimiser,
        updates: state.progress.updates,
    };
    let items = if state.slots.is_some() { tensors(CARRIED)? } else { BTreeMap::new() };
    let checkpoint = Checkpoint { learner, carried: FlatArrays { items }, state };
    Ok(LoadedCheckpoint { path: path.to_path_buf(), checkpoint, manifest: sha256(&bytes) })
}

/// Arrays as a safetensors file, each group's names behind its prefix and a dot, where it has one; `about` is its metadata.
pub(crate) fn pack(groups: &[(&str, &FlatArrays)], about: Option<HashMap<String, String>>) -> Result<Vec<u8>, String> {
    let mut tensors = Vec::new();
    for (prefix, arrays) in groups {
        for (name, (shape, values)) in &arrays.items {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            tensors.push((name, shape.clone(), bytes));
        }
    }
    let mut views = Vec::new();
    for (name, shape, bytes) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(|error| format!("{name}: {error}"))?;
        views.push((name.as_str(), view));
    }
    safetensors::serialize(views, about).map_err(|error| error.to_string())
}

/// Shape and numbers of each tensor, by name.
type NamedTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The tensors of a safetensors file.
fn unpack(bytes: &[u8]) -> Result<NamedTensors, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(format!("`{name}` is not f32"));
        }
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        tensors.insert(name.to_owned(), (view.shape().to_vec(), values));
    }
    Ok(tensors)
}
