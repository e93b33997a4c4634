//! Checkpoints: folders that are complete or absent, and verified before they are used.
//!
//! A folder holds `weights.safetensors` (parameters under their own names, f32), `optimiser.safetensors` (the arrays of the optimiser
//! under `ARRAY.NAME`, such as `first_moment.NAME`, and averaged parameters under `average.NAME`, if there are any), `state.json`
//! (where the run stands) and `manifest.json` (size and SHA-256 of the others). A run with an update after every step has
//! `carried.safetensors` besides: what the rows in its slots carry.
//!
//! Saving writes `SLOT.new`, syncing each file and the folder, then renames `SLOT` to `SLOT.previous` and `SLOT.new` to
//! `SLOT`, and syncs the parent. At every moment one of the three folders is complete; [`Checkpoints::open`] finishes
//! a swap that was cut off between the renames.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::batching::Cursor;
use crate::error::{CheckpointError, Error, IoError};
use crate::learner::{Arrays, LearnerState};
use crate::schedule::Plateau;
use crate::train::SlotPlaces;

/// Version of the layout; a checkpoint of another one is refused.
const FORMAT: u32 = 1;
const WEIGHTS: &str = "weights.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
const CARRIED: &str = "carried.safetensors";
const STATE: &str = "state.json";
const MANIFEST: &str = "manifest.json";
/// Averaged parameters among the arrays of the optimiser.
const AVERAGE: &str = "average";

/// The operations on files that saving needs; a test replaces them to let the disk fill up.
pub trait Disk {
    /// Makes a folder and its parents.
    fn create_folder(&mut self, path: &Path) -> io::Result<()>;
    /// Writes a new file and syncs it.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Renames a folder.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it; it may be absent.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Share of right predictions on the dev split; none where numbers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean task loss there, where that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Updates done by then.
    pub update: u64,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Updates done.
    pub updates: u64,
    /// The next training batch.
    pub cursor: Cursor,
    /// The best evaluation, once there was one.
    pub best: Option<Best>,
    /// Evaluations in a row without improvement.
    pub impatience: u64,
    /// What the dev split says to `schedule.kind: plateau`.
    #[serde(default)]
    pub plateau: Plateau,
    /// Number of updates at the last evaluation.
    pub evaluated: Option<u64>,
    /// Length of `metrics.jsonl` in bytes.
    pub metrics: u64,
    /// Length of the TensorBoard file in bytes.
    pub events: u64,
}

/// What `state.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Where the run stands.
    pub progress: Progress,
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

/// A checkpoint in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Parameters and moments.
    pub learner: LearnerState,
    /// What the rows in the slots carry, where there are slots.
    pub carried: Arrays,
    /// The rest.
    pub state: CheckpointState,
}

/// Which checkpoint of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The most recent one.
    Last,
    /// The one with the best dev accuracy.
    Best,
}

impl Slot {
    /// Its name in the folder of the checkpoints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Best => "best",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: BTreeMap<String, Entry>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Entry {
    size: u64,
    sha256: String,
}

impl Entry {
    fn of(bytes: &[u8]) -> Self {
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { size: bytes.len() as u64, sha256 }
    }
}

/// The checkpoints of one run.
pub struct Checkpoints {
    folder: PathBuf,
    disk: Box<dyn Disk>,
}

impl Checkpoints {
    /// Opens the folder of a run's checkpoints, which may not exist yet, and finishes an interrupted swap.
    pub fn open(folder: &Path, disk: Box<dyn Disk>) -> Result<Self, IoError> {
        let mut store = Self { folder: folder.to_path_buf(), disk };
        store.finish_swap()?;
        Ok(store)
    }

    /// Puts a complete new checkpoint into the place of a slot that was moved away for it.
    pub fn finish_swap(&mut self) -> Result<(), IoError> {
        for slot in [Slot::Last, Slot::Best] {
            let (path, fresh) = (self.path(slot), self.beside(slot, "new"));
            if !path.exists() && load(&fresh).is_ok() {
                self.disk.rename(&fresh, &path).map_err(IoError::at("rename", &fresh))?;
                self.disk.sync_folder(&self.folder).map_err(IoError::at("sync", &self.folder))?;
            }
        }
        Ok(())
    }

    /// The folder of a slot.
    pub fn path(&self, slot: Slot) -> PathBuf {
        self.folder.join(slot.name())
    }

    fn beside(&self, slot: Slot, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}.{suffix}", slot.name()))
    }

    /// Whether the slot was ever saved, damaged or not.
    pub fn exists(&self, slot: Slot) -> bool {
        self.path(slot).exists() || self.beside(slot, "previous").exists()
    }

    /// Saves a checkpoint. After an error the slot holds what it held before, or what was being saved.
    pub fn save(&mut self, slot: Slot, checkpoint: &Checkpoint) -> Result<(), Error> {
        let (path, fresh, previous) = (self.path(slot), self.beside(slot, "new"), self.beside(slot, "previous"));
        let files = encode(checkpoint)?;
        self.disk.remove(&fresh).map_err(IoError::at("remove", &fresh))?;
        self.disk.create_folder(&fresh).map_err(IoError::at("create", &fresh))?;
        for (name, bytes) in files {
            let file = fresh.join(name);
            self.disk.write(&file, &bytes).map_err(IoError::at("write", &file))?;
        }
        self.disk.sync_folder(&fresh).map_err(IoError::at("sync", &fresh))?;
        // A damaged slot must not replace a good previous one.
        if path.exists() && load(&path).is_ok() {
            self.disk.remove(&previous).map_err(IoError::at("remove", &previous))?;
            self.disk.rename(&path, &previous).map_err(IoError::at("rename", &path))?;
        } else {
            self.disk.remove(&path).map_err(IoError::at("remove", &path))?;
        }
        self.disk.rename(&fresh, &path).map_err(IoError::at("rename", &fresh))?;
        self.disk.sync_folder(&self.folder).map_err(IoError::at("sync", &self.folder))?;
        Ok(())
    }

    /// Loads and verifies a slot. A damaged one is refused, with the name of a good one if there is any.
    pub fn load(&self, slot: Slot) -> Result<Checkpoint, CheckpointError> {
        load(&self.path(slot))
    }
}

/// Loads the checkpoint in a folder, after checking that every file is as it was saved.
///
/// If it is refused, complete checkpoints beside it are looked for: the previous one of its slot, then the best.
pub fn load(path: &Path) -> Result<Checkpoint, CheckpointError> {
    decode(path).map_err(|reason| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = [format!("{name}.previous"), Slot::Last.name().into(), Slot::Best.name().into()];
        let candidates = beside.iter().map(|name| path.with_file_name(name));
        let previous = candidates.into_iter().find(|candidate| candidate != path && decode(candidate).is_ok());
        CheckpointError { path: path.to_path_buf(), reason, previous }
    })
}

/// The files of a checkpoint, the manifest last.
fn encode(checkpoint: &Checkpoint) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
    let refuse = |reason: String| CheckpointError { path: PathBuf::new(), reason, previous: None };
    let learner = &checkpoint.learner;
    let kept = learner.optimiser.iter().map(|(name, arrays)| (name.as_str(), arrays));
    let kept: Vec<_> = kept.chain([(AVERAGE, &learner.average)]).collect();
    let json = |text: serde_json::Result<String>| text.map(String::into_bytes).map_err(|e| refuse(e.to_string()));
    let mut files = vec![
        (WEIGHTS, pack(&[("", &learner.parameters)]).map_err(refuse)?),
        (OPTIMISER, pack(&kept).map_err(refuse)?),
        (STATE, json(serde_json::to_string_pretty(&checkpoint.state))?),
    ];
    if checkpoint.state.slots.is_some() {
        files.push((CARRIED, pack(&[("", &checkpoint.carried)]).map_err(refuse)?));
    }
    let entries = files.iter().map(|(name, bytes)| (name.to_string(), Entry::of(bytes))).collect();
    let manifest = Manifest { format: FORMAT, files: entries };
    files.push((MANIFEST, json(serde_json::to_string_pretty(&manifest))?));
    Ok(files)
}

/// Reads and verifies a folder; the error is a reason to print.
fn decode(path: &Path) -> Result<Checkpoint, String> {
    if !path.is_dir() {
        return Err("there is no such folder".into());
    }
    let read = |name: &str| fs::read(path.join(name)).map_err(|error| format!("{name}: {error}"));
    let manifest: Manifest =
        serde_json::from_slice(&read(MANIFEST)?).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if manifest.format != FORMAT {
        return Err(format!("its layout has version {}, and this program reads {FORMAT}", manifest.format));
    }
    let verified = |name: &str| {
        let entry = manifest.files.get(name).ok_or_else(|| format!("{MANIFEST} does not name {name}"))?;
        let bytes = read(name)?;
        match Entry::of(&bytes) {
            found if found == *entry => Ok(bytes),
            found if found.size != entry.size => {
                Err(format!("{name} has {} bytes instead of {}", found.size, entry.size))
            }
            _ => Err(format!("{name} was changed: its SHA-256 is not the saved one")),
        }
    };
    let state: CheckpointState =
        serde_json::from_slice(&verified(STATE)?).map_err(|error| format!("{STATE}: {error}"))?;
    let tensors = |name: &str| unpack(&verified(name)?).map_err(|error| format!("{name}: {error}"));
    let mut optimiser: BTreeMap<String, Arrays> = BTreeMap::new();
    for (name, values) in tensors(OPTIMISER)? {
        let (kept, name) = name.split_once('.').ok_or_else(|| format!("{OPTIMISER}: `{name}` belongs to nothing"))?;
        optimiser.entry(kept.to_owned()).or_default().items.insert(name.to_owned(), values);
    }
    let learner = LearnerState {
        parameters: Arrays { items: tensors(WEIGHTS)? },
        average: optimiser.remove(AVERAGE).unwrap_or_default(),
        optimiser,
        updates: state.progress.updates,
    };
    let items = if state.slots.is_some() { tensors(CARRIED)? } else { BTreeMap::new() };
    Ok(Checkpoint { learner, carried: Arrays { items }, state })
}

/// Arrays as a safetensors file, each group's names behind its prefix and a dot, where it has one.
fn pack(groups: &[(&str, &Arrays)]) -> Result<Vec<u8>, String> {
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
    safetensors::serialize(views, None).map_err(|error| error.to_string())
}

/// Shape and numbers of each tensor, by name.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The tensors of a safetensors file.
fn unpack(bytes: &[u8]) -> Result<Tensors, String> {
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
