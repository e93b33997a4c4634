//! Loads the data of an experiment: reads splits with files, generates the others.

use std::collections::{BTreeMap, BTreeSet};

use super::share::TRAIN;
use super::{DataFolder, Example, Files, GenerationRequest, Objective, Options, Stream, Task, open_task};
use crate::DataSource;
use crate::TaskSettings;
use crate::error::DataError;
use crate::fingerprint::Hasher;
use crate::masking::Masking;
use crate::reading::unreadable;
use crate::summary::label_shares;

/// The examples of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// What a model has to predict.
    pub objective: Objective,
    /// Number of token ids.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
    /// The examples of every split that was asked for.
    pub splits: BTreeMap<String, Vec<Example>>,
    /// The splits that are read while they are needed.
    pub streams: BTreeMap<String, Stream>,
    /// The draw of hidden tokens, anew in every pass over the training rows.
    pub masking: Option<Masking>,
    /// The splits that were generated; the others were read from files.
    pub generated: Vec<String>,
}

impl Dataset {
    /// A fingerprint of all examples, to notice that a data file or a generator has changed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Hasher::default();
        self.splits.iter().for_each(|(name, examples)| hash.split(name, examples));
        for (name, Stream(rows)) in &self.streams {
            hash.feed(name);
            hash.feed(rows.fingerprint());
        }
        hash.text()
    }

    /// A fingerprint of the examples of one split: runs that agree in it were measured on the same examples.
    pub fn fingerprint_of(&self, split: &str) -> String {
        if let Some(Stream(rows)) = self.streams.get(split) {
            return rows.fingerprint().to_owned();
        }
        let mut hash = Hasher::default();
        self.split(split).iter().for_each(|example| hash.example(example));
        hash.text()
    }

    /// The same of every split.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let names = self.splits.keys().chain(self.streams.keys());
        names.map(|name| (name.clone(), self.fingerprint_of(name))).collect()
    }

    /// Number of examples of a split, held or not.
    pub fn count(&self, name: &str) -> usize {
        self.streams.get(name).map_or_else(|| self.split(name).len(), |Stream(rows)| rows.count())
    }

    /// The share of every class among the answers of a split that count; of several labels the share of the examples that have each.
    pub fn label_shares(&self, name: &str) -> BTreeMap<u32, f64> {
        let held = || label_shares(self.split(name));
        self.streams.get(name).map_or_else(held, |Stream(rows)| rows.label_shares())
    }

    /// The examples of a split that are held; none if it was not loaded, or is read while it is needed.
    pub fn split(&self, name: &str) -> &[Example] {
        self.splits.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The splits to load, and the rest of the experiment that they belong to.
///
/// What a split holds depends on the settings and on `used`, never on which splits are wanted together.
#[derive(Clone, Copy, Debug)]
pub struct WantedSplits<'a> {
    /// All splits of the experiment: generated splits leave out the rows of those that have files, and the head of the
    /// training file is only taken for `dev` if that is among them.
    pub used: &'a [&'a str],
    /// The splits to give; they need not be used.
    pub splits: &'a [&'a str],
    /// The most examples of each, the first.
    pub most: usize,
    /// Whether `task.sizes` is left aside where there is a file: all its rows are taken. A dev that is the head of a training file
    /// keeps its size.
    pub whole: bool,
    /// Whether the training split may be read while it is needed, where it is large.
    pub streamed: bool,
}

/// Loads all splits of an experiment.
///
/// # Errors
/// A name that is none, a broken file, or a split that can't be filled.
pub fn load(settings: &TaskSettings, splits: &[&str]) -> Result<Dataset, DataError> {
    load_wanted(settings, WantedSplits { used: splits, splits, most: usize::MAX, whole: false, streamed: true })
}

/// Loads some splits of an experiment, with the examples that they have in [`load`] of all of them.
///
/// # Errors
/// As [`load`].
pub fn load_wanted(settings: &TaskSettings, wanted: WantedSplits<'_>) -> Result<Dataset, DataError> {
    let (task, options) = open_task(settings)?;
    let made = settings.made(wanted.splits)?;
    let settings: &TaskSettings = &made;
    let source = SplitFiles { task: &*task, settings, options: &options, used: wanted.used, whole: wanted.whole };
    let (mut loaded, mut streams) = (BTreeMap::new(), BTreeMap::new());
    let mut missing: Vec<&str> = vec![];
    for &name in wanted.splits {
        let stream = if wanted.streamed && name == TRAIN { source.stream()? } else { None };
        if let Some(stream) = stream {
            streams.insert(name.to_owned(), stream);
            continue;
        }
        match source.read(name)? {
            Some(examples) => drop(loaded.insert(name.to_string(), examples)),
            None if missing.contains(&name) => {}
            None => missing.push(name),
        }
    }
    let exclude = if missing.is_empty() { BTreeSet::new() } else { source.keys(&loaded)? };
    loaded.values_mut().for_each(|examples| examples.truncate(wanted.most));
    for &name in &missing {
        // A smaller count gives a prefix.
        let count = count(&*task, settings, name)?.min(wanted.most);
        let request =
            GenerationRequest { split: name, count, options: &options, seed: settings.seed, exclude: &exclude };
        loaded.insert(name.to_string(), task.generate(&request)?);
    }
    let generated = missing.into_iter().map(str::to_owned).collect();
    let (vocabulary, classes) = (task.vocabulary(&options).len(), task.classes(&options).len());
    let (objective, masking) = (task.objective(), task.masking());
    Ok(Dataset { objective, vocabulary, classes, splits: loaded, streams, masking, generated })
}

/// Loads one split, as an experiment with all splits of the task has it.
pub fn load_split(settings: &TaskSettings, split: &str) -> Result<Vec<Example>, DataError> {
    let (task, _) = open_task(settings)?;
    let names = task.split_names();
    let used: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut dataset = load_wanted(
        settings,
        WantedSplits { used: &used, splits: &[split], most: usize::MAX, whole: false, streamed: false },
    )?;
    Ok(dataset.splits.remove(split).unwrap_or_default())
}

/// How many examples the split should have: the experiment's number, or the published one.
fn count(task: &dyn Task, settings: &TaskSettings, split: &str) -> Result<usize, DataError> {
    let row = task.split(split).map_err(|message| DataError { file: settings.name.clone(), line: None, message })?;
    Ok(settings.sizes.get(split).copied().unwrap_or(row.count))
}

/// The files of an experiment, with its splits.
struct SplitFiles<'a> {
    task: &'a dyn Task,
    settings: &'a TaskSettings,
    options: &'a Options,
    used: &'a [&'a str],
    whole: bool,
}

impl SplitFiles<'_> {
    /// The rows of a split that has a file: those that belong into it, up to its size.
    fn read(&self, split: &str) -> Result<Option<Vec<Example>>, DataError> {
        let Self { task, settings, options, .. } = self;
        let most = if self.whole { usize::MAX } else { count(*task, settings, split)? };
        let found = match &settings.data {
            // The rows of a program are files by now.
            None | Some(DataSource::Program(_)) => None,
            Some(DataSource::Files(named)) => {
                task.read_files(&Files { named, settings, options, split, most, dev: self.dev()? })?
            }
            Some(DataSource::Folder(folder)) => {
                let path = &settings.locate(folder);
                if !path.is_dir() {
                    return Err(unreadable(path, "there is no such folder"));
                }
                task.read_folder(&DataFolder { path, split, most, options, dev: self.dev()? })?
            }
        };
        Ok(found.map(|rows| rows.into_iter().filter(|row| task.keeps(split, row, options)).take(most).collect()))
    }

    /// The rows of the training split, where they are too large to be held.
    fn stream(&self) -> Result<Option<Stream>, DataError> {
        let Self { task, settings, options, .. } = self;
        let Some(DataSource::Files(named)) = &settings.data else { return Ok(None) };
        let most = count(*task, settings, TRAIN)?;
        task.stream(&Files { named, settings, options, split: TRAIN, most, dev: self.dev()? })
    }

    /// How many rows of the training file are `dev`, where it has no file.
    fn dev(&self) -> Result<usize, DataError> {
        if self.used.contains(&"dev") { count(self.task, self.settings, "dev") } else { Ok(0) }
    }

    /// The keys of all rows that the experiment reads; those of `loaded` are read already.
    fn keys(&self, loaded: &BTreeMap<String, Vec<Example>>) -> Result<BTreeSet<Vec<u32>>, DataError> {
        let mut keys = BTreeSet::new();
        for &split in self.used {
            match loaded.get(split) {
                Some(examples) => keys.extend(examples.iter().map(Example::key)),
                None => keys.extend(self.read(split)?.iter().flatten().map(Example::key)),
            }
        }
        Ok(keys)
    }
}
