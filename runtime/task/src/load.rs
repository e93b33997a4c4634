//! Loads the data of an experiment: reads splits with files, generates the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use zstd::stream::read::Decoder;

use super::files::open::regular;
use super::files::paths::matching;
use super::files::records::Records;
use super::pool::place;
use super::share::{Place, TRAIN, ranges, shares};
use super::{Example, Files, Folder, Objective, Options, Request, Stream, Target, Task, open_task};
use crate::DataSource;
use crate::TaskSettings;
use crate::error::DataError;
use rtc_base::memory;
use rtc_compiler::ir::formula::bytes;

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
    /// The splits that were generated; the others were read from files.
    pub generated: Vec<String>,
}

impl Dataset {
    /// A fingerprint of all examples, to notice that a data file or a generator has changed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Hasher(Sha256::new());
        self.splits.iter().for_each(|(name, examples)| hash.split(name, examples));
        for (name, Stream(rows)) in &self.streams {
            hash.0.update(name);
            hash.0.update(rows.fingerprint());
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

    /// The examples of a split that are held; none if it was not loaded, or is read while it is needed.
    pub fn split(&self, name: &str) -> &[Example] {
        self.splits.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The first bytes of a hash as text.
pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Feeds examples to SHA-256, every list behind its length.
#[derive(Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    fn split(&mut self, name: &str, examples: &[Example]) {
        self.numbers(&[name.len() as u32, examples.len() as u32]);
        self.0.update(name);
        examples.iter().for_each(|example| self.example(example));
    }

    /// The hash of all that was fed.
    pub(super) fn text(self) -> String {
        hex(&self.0.finalize())
    }

    fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.0.update(number.to_le_bytes());
        }
    }

    fn list(&mut self, numbers: &[u32]) {
        self.numbers(&[numbers.len() as u32]);
        self.numbers(numbers);
    }

    pub(super) fn example(&mut self, example: &Example) {
        self.list(&example.tokens);
        self.list(example.second.as_deref().unwrap_or(&[]));
        match &example.label {
            Target::Class(class) => self.numbers(&[0, *class]),
            Target::Each { class, weight } => {
                self.numbers(&[1]);
                self.list(class);
                self.list(&weight.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>());
            }
            Target::Number(number) => self.numbers(&[3, number.to_bits()]),
            Target::Several(labels) => {
                self.numbers(&[4]);
                self.list(&labels.iter().map(|label| u32::from(*label)).collect::<Vec<_>>());
            }
        }
        // Nothing is added where there is none, so that older fingerprints stay as they were.
        example.depth.iter().for_each(|depth| self.numbers(&[2, *depth]));
        for given in &example.given {
            self.numbers(&[5, given.name.len() as u32, given.numbers.len() as u32]);
            self.0.update(&*given.name);
            given.numbers.iter().for_each(|number| self.0.update(number.to_bits().to_le_bytes()));
        }
    }
}

/// Which splits are loaded, and what else there is in the experiment that they belong to.
///
/// What a split holds depends on the settings and on `used`, never on which splits are wanted together.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
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
    load_wanted(settings, Wanted { used: splits, splits, most: usize::MAX, whole: false, streamed: true })
}

/// Loads some splits of an experiment, with the examples that they have in [`load`] of all of them.
///
/// # Errors
/// As [`load`].
pub fn load_wanted(settings: &TaskSettings, wanted: Wanted<'_>) -> Result<Dataset, DataError> {
    let (task, options) = open_task(settings)?;
    let made = settings.made(wanted.splits)?;
    let settings: &TaskSettings = &made;
    let source = Source { task: &*task, settings, options: &options, used: wanted.used, whole: wanted.whole };
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
        let request = Request { split: name, count, options: &options, seed: settings.seed, exclude: &exclude };
        loaded.insert(name.to_string(), task.generate(&request)?);
    }
    let generated = missing.into_iter().map(str::to_owned).collect();
    let (vocabulary, classes) = (task.vocabulary(&options).len(), task.classes(&options).len());
    Ok(Dataset { objective: task.objective(), vocabulary, classes, splits: loaded, streams, generated })
}

/// Loads one split, as an experiment with all splits of the task has it.
pub fn load_split(settings: &TaskSettings, split: &str) -> Result<Vec<Example>, DataError> {
    let (task, _) = open_task(settings)?;
    let names = task.split_names();
    let used: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut dataset = load_wanted(
        settings,
        Wanted { used: &used, splits: &[split], most: usize::MAX, whole: false, streamed: false },
    )?;
    Ok(dataset.splits.remove(split).unwrap_or_default())
}

/// How many examples the split should have: the experiment's number, or the published one.
fn count(task: &dyn Task, settings: &TaskSettings, split: &str) -> Result<usize, DataError> {
    let row = task.split(split).map_err(|message| DataError { file: settings.name.clone(), line: None, message })?;
    Ok(settings.sizes.get(split).copied().unwrap_or(row.count))
}

/// Where the files of an experiment are, and which splits it has.
struct Source<'a> {
    task: &'a dyn Task,
    settings: &'a TaskSettings,
    options: &'a Options,
    used: &'a [&'a str],
    whole: bool,
}

impl Source<'_> {
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
                task.read_folder(&Folder { path, split, most, options, dev: self.dev()? })?
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

/// Reads a split from the first file there is of those that its row names.
///
/// In a folder without a file for dev, dev is the first rows of the training file, and training the rest; in an experiment
/// without dev, training is all of them.
pub(super) fn by_name<T: Task + ?Sized>(task: &T, folder: &Folder<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let find = |name: &str| find(folder.path, task.about().splits.iter().find(|row| row.name == name)?.files);
    if task.about().splits.iter().all(|row| find(row.name).is_none()) {
        let names: Vec<&str> = task.about().splits.iter().flat_map(|row| row.files.first()).copied().collect();
        return Err(nothing_published(folder.path, &names.join(", ")));
    }
    let read = |path: &Path| task.read(path, folder.options);
    match (folder.split, find(folder.split), find("train")) {
        ("train", Some(path), _) if find("dev").is_none() => {
            let mut rows = read(&path)?;
            if (1..=folder.dev).contains(&rows.len()) {
                return Err(no_training_row(&path, rows.len(), folder.dev));
            }
            Ok(Some(rows.split_off(folder.dev.min(rows.len()))))
        }
        (_, Some(path), _) => read(&path).map(Some),
        ("dev", None, Some(path)) if folder.dev > 0 => Ok(Some(read(&path)?.into_iter().take(folder.dev).collect())),
        _ => Ok(None),
    }
}

/// Reads a split as an experiment with a file per split says it.
pub(super) fn by_file<T: Task + ?Sized>(task: &T, files: &Files<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let fail = |message| DataError { file: task.name().to_owned(), line: None, message };
    let said = |split: &str| files.named.get(split).map(|text| Place::parse(text)).transpose().map_err(fail);
    let read = |file: &str| -> Result<Vec<Example>, DataError> {
        let mut rows = vec![];
        for path in matching(&files.settings.locate(file))? {
            rows.extend(task.read(&path, files.options)?);
        }
        Ok(rows)
    };
    let head = said("dev")?.is_none() && files.dev > 0;
    match (files.split, said(files.split)?, said(TRAIN)?) {
        (TRAIN, Some(Place::File(file)), _) => {
            let mut rows = read(file)?;
            if head && (1..=files.dev).contains(&rows.len()) {
                return Err(no_training_row(&files.settings.locate(file), rows.len(), files.dev));
            }
            let rows = if head { rows.split_off(files.dev.min(rows.len())) } else { rows };
            part(rows, files, None).map(Some).map_err(fail)
        }
        (_, Some(Place::File(file)), _) => read(file).map(Some),
        (split, Some(Place::Share(_)), Some(Place::File(train))) => {
            part(read(train)?, files, Some(split)).map(Some).map_err(fail)
        }
        ("dev", None, Some(Place::File(train))) if head => Ok(Some(read(train)?.into_iter().take(files.dev).collect())),
        (_, Some(Place::Generated), _) => Ok(None),
        (split, ..) => Err(fail(format!(
            "files are named, and none for `{split}`: name one under `task.data`, a share of `train` as `10%`, or say `generated`"
        ))),
    }
}

/// The rows of a training file that a share of it has; without a split, those that no share has.
fn part(rows: Vec<Example>, files: &Files<'_>, split: Option<&str>) -> Result<Vec<Example>, String> {
    let shares = shares(files.named)?;
    let hash = |row: &Example| place(&row.key()).to_bits();
    let ranges = ranges(rows.iter().map(hash).collect(), &shares);
    let of = |row: &Example| {
        let own = |range: &Option<[u64; 2]>| range.is_some_and(|[first, last]| (first..=last).contains(&hash(row)));
        ranges.iter().position(own).map(|at| shares[at].0)
    };
    Ok(rows.into_iter().filter(|row| of(row) == split).collect())
}

/// The error of a training file that is all head.
fn no_training_row(path: &Path, rows: usize, dev: usize) -> DataError {
    let cure = match rows {
        1 => "name a file for `dev`".to_owned(),
        _ => format!("set `task.sizes.dev` below {rows}, or name a file for `dev`"),
    };
    let plural = if rows == 1 { "row" } else { "rows" };
    let why = format!(
        "it has {rows} {plural}, the first {dev} (`task.sizes.dev`) are `dev`, and none is left to train on: {cure}"
    );
    unreadable(path, why)
}

/// The first of the files, each also with `.gz`, that the folder holds.
pub(super) fn find(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    let paths = files.iter().flat_map(|file| [folder.join(file), folder.join(format!("{file}.gz"))]);
    paths.into_iter().find(|path| path.is_file())
}

/// The rows of the files of a folder, each also with `.gz`, that are training together.
pub(super) fn joined<N: AsRef<str>>(
    folder: &Path,
    names: impl IntoIterator<Item = N>,
    mut read: impl FnMut(&Path) -> Result<Vec<Example>, DataError>,
) -> Result<Vec<Example>, DataError> {
    let mut rows = vec![];
    for name in names {
        let name = name.as_ref();
        let missing = || unreadable(folder, format!("there is no file {name}, which is a part of training"));
        rows.extend(read(&find(folder, &[name]).ok_or_else(missing)?)?);
    }
    Ok(rows)
}

/// What lies in a folder, in any order.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = folder.read_dir().and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.map_err(|error| unreadable(folder, error))
}

/// The error of a folder without any file of the task.
pub(super) fn nothing_published(folder: &Path, wanted: &str) -> DataError {
    unreadable(folder, format!("this folder holds no published file of the task, as {wanted}"))
}

/// The error of a file or folder as a whole.
pub(super) fn unreadable(path: &Path, why: impl ToString) -> DataError {
    DataError { file: path.display().to_string(), line: None, message: why.to_string() }
}

/// The error of a broken row.
pub(super) fn broken(path: &Path, line: usize, message: String) -> DataError {
    DataError { file: path.display().to_string(), line: Some(line), message }
}

/// The most bytes of a line: what has no end, as a device, is an error so.
pub const MAX_LINE: u64 = 1 << 24;

/// The most bytes that the examples of a file take in memory, if the machine has so many.
pub const MAX_HELD: u64 = 1 << 33;

/// What `read` makes of the lines of a text file, each with its number from 1; nothing for a line that it leaves out. The file is
/// unpacked if its name ends in `.gz` or `.zst`.
pub(super) fn lines<T: Row>(
    path: &Path,
    mut read: impl FnMut(usize, &str) -> Result<Option<T>, String>,
) -> Result<Vec<T>, DataError> {
    let mut held = Held::default();
    for record in Records::open(path, None)? {
        let record = record?;
        let found = record.text().and_then(|text| read(record.line, text));
        if let Some(row) = found.map_err(|message| broken(path, record.line, message))? {
            held.add(row, path, record.line)?;
        }
    }
    Ok(held.rows)
}

/// What is made of a row of a file, and held.
pub(super) trait Row {
    /// The bytes that it takes in memory.
    fn bytes(&self) -> usize;
}

impl Row for Example {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// The rows of a file.
pub(super) struct Held<T> {
    pub(super) rows: Vec<T>,
    bytes: u64,
    most: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { rows: vec![], bytes: 0, most: memory::machine().map_or(MAX_HELD, |machine| machine.min(MAX_HELD)) }
    }
}

impl<T: Row> Held<T> {
    /// Keeps one more, which stands on this line.
    ///
    /// # Errors
    /// All of them take more memory than there is, or than is ever taken.
    pub(super) fn add(&mut self, row: T, path: &Path, line: usize) -> Result<(), DataError> {
        self.bytes += row.bytes() as u64;
        if self.bytes > self.most {
            let most = bytes(self.most);
            let message = format!("the rows up to here take more than {most} of memory: give a file with fewer rows");
            return Err(broken(path, line, message));
        }
        self.rows.push(row);
        Ok(())
    }
}

/// The bytes of a file, unpacked if its name ends in `.gz` or `.zst`.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, DataError> {
    let file = BufReader::new(regular(path).map_err(|error| unreadable(path, error))?);
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        Some("zst") => {
            let decoder = Decoder::with_buffer(file).map_err(|error| unreadable(path, error))?;
            Box::new(BufReader::new(decoder))
        }
        _ => Box::new(file),
    })
}
