//! Puts the data of an experiment together: reads what there are files for, generates the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Example, Folder, Objective, Options, Request, Target, Task, resolve_options, task_named};
use crate::error::DataError;
use crate::experiment::{DataSource, TaskSettings};

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
    /// The splits that were generated; the others were read from files.
    pub generated: Vec<String>,
}

impl Dataset {
    /// A fingerprint of all examples, to notice that a data file or a generator has changed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Hasher(Sha256::new());
        for (name, examples) in &self.splits {
            hash.numbers(&[name.len() as u32, examples.len() as u32]);
            hash.0.update(name);
            examples.iter().for_each(|example| hash.example(example));
        }
        hash.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples of a split; none if it was not loaded.
    pub fn split(&self, name: &str) -> &[Example] {
        self.splits.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Feeds examples to SHA-256, every list behind its length.
struct Hasher(Sha256);

impl Hasher {
    fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.0.update(number.to_le_bytes());
        }
    }

    fn list(&mut self, numbers: &[u32]) {
        self.numbers(&[numbers.len() as u32]);
        self.numbers(numbers);
    }

    fn example(&mut self, example: &Example) {
        self.list(&example.tokens);
        self.list(example.second.as_deref().unwrap_or(&[]));
        match &example.label {
            Target::Class(class) => self.numbers(&[0, *class]),
            Target::Each { class, weight } => {
                self.numbers(&[1]);
                self.list(class);
                self.list(&weight.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>());
            }
        }
        // Nothing is added where there is none, so that older fingerprints stay as they were.
        example.depth.iter().for_each(|depth| self.numbers(&[2, *depth]));
    }
}

/// Loads the named splits. Splits read from files are read first, so that generated ones can leave out their rows.
pub fn load(settings: &TaskSettings, splits: &[&str]) -> Result<Dataset, DataError> {
    let plain = |message| DataError { file: settings.name.clone(), line: None, message };
    let task = task_named(&settings.name).map_err(plain)?;
    let options = resolve_options(task.options(), &settings.options).map_err(plain)?;
    let mut loaded = BTreeMap::new();
    for &name in splits {
        if let Some(examples) = read_split(task, settings, &options, name)? {
            let kept: Vec<Example> = examples.into_iter().filter(|e| task.keeps(name, e, &options)).collect();
            let kept: Vec<Example> = kept.into_iter().take(count(task, settings, name)?).collect();
            loaded.insert(name.to_string(), kept);
        }
    }
    let mut missing: Vec<&str> = vec![];
    for &name in splits {
        if !loaded.contains_key(name) && !missing.contains(&name) {
            missing.push(name);
        }
    }
    let read = loaded.values().flatten().filter(|_| !missing.is_empty());
    let exclude: BTreeSet<Vec<u32>> = read.map(Example::key).collect();
    for &name in &missing {
        let count = count(task, settings, name)?;
        let request = Request { split: name, count, options: &options, seed: settings.seed, exclude: &exclude };
        loaded.insert(name.to_string(), task.generate(&request)?);
    }
    let generated = missing.into_iter().map(str::to_owned).collect();
    let (vocabulary, classes) = (task.vocabulary(&options).len(), task.classes(&options).len());
    Ok(Dataset { objective: task.objective(), vocabulary, classes, splits: loaded, generated })
}

/// Loads one split.
pub fn load_split(settings: &TaskSettings, split: &str) -> Result<Vec<Example>, DataError> {
    let mut dataset = load(settings, &[split])?;
    Ok(dataset.splits.remove(split).unwrap_or_default())
}

/// How many examples the split should have: the experiment's number, or the published one.
fn count(task: &dyn Task, settings: &TaskSettings, split: &str) -> Result<usize, DataError> {
    let row = task.split(split).map_err(|message| DataError { file: settings.name.clone(), line: None, message })?;
    Ok(settings.sizes.get(split).copied().unwrap_or(row.count))
}

/// The rows of a split's file, if there is one.
fn read_split(
    task: &dyn Task,
    settings: &TaskSettings,
    options: &Options,
    split: &str,
) -> Result<Option<Vec<Example>>, DataError> {
    let path = match &settings.data {
        None => return Ok(None),
        Some(DataSource::Files(files)) => {
            return files.get(split).map(|file| task.read(Path::new(file), options)).transpose();
        }
        Some(DataSource::Folder(folder)) => Path::new(folder),
    };
    if !path.is_dir() {
        return Err(unreadable(path, "there is no such folder"));
    }
    let dev = if task.split("dev").is_ok() { count(task, settings, "dev")? } else { 0 };
    let most = count(task, settings, split)?;
    task.read_folder(&Folder { path, split, most, options, dev })
}

/// Reads a split from the first file there is of those that its row names.
///
/// In a folder without a file for dev, dev is the first rows of the training file, and training the rest.
pub(super) fn by_name<T: Task + ?Sized>(task: &T, folder: &Folder<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let find = |name: &str| find(folder.path, task.splits().iter().find(|row| row.name == name)?.files);
    if task.splits().iter().all(|row| find(row.name).is_none()) {
        let names: Vec<&str> = task.splits().iter().flat_map(|row| row.files.first()).copied().collect();
        return Err(nothing_published(folder.path, &names.join(", ")));
    }
    let read = |path: &Path| task.read(path, folder.options);
    match (folder.split, find(folder.split), find("train")) {
        ("train", Some(path), _) if find("dev").is_none() => {
            Ok(Some(read(&path)?.into_iter().skip(folder.dev).collect()))
        }
        (_, Some(path), _) => read(&path).map(Some),
        ("dev", None, Some(path)) => Ok(Some(read(&path)?.into_iter().take(folder.dev).collect())),
        _ => Ok(None),
    }
}

/// The first of the files, each also with `.gz`, that the folder holds.
pub(super) fn find(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    let paths = files.iter().flat_map(|file| [folder.join(file), folder.join(format!("{file}.gz"))]);
    paths.into_iter().find(|path| path.is_file())
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
pub(super) const MAX_LINE: u64 = 1 << 24;

/// The lines of a text file, unpacked if its name ends in `.gz`, with their numbers from 1.
pub(super) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    number: usize,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self { path: path.to_path_buf(), reader: open(path)?, number: 0 })
    }
}

/// The bytes of a file, unpacked if its name ends in `.gz`.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, DataError> {
    let file = BufReader::new(File::open(path).map_err(|error| unreadable(path, error))?);
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    Ok(if packed { Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(file))) } else { Box::new(file) })
}

impl Iterator for Lines {
    type Item = Result<(usize, String), DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut text = String::new();
        self.number += 1;
        match self.reader.by_ref().take(MAX_LINE).read_line(&mut text) {
            Ok(0) => None,
            Ok(read) if read as u64 == MAX_LINE && !text.ends_with('\n') => {
                Some(Err(broken(&self.path, self.number, "the line is longer than 16 MiB".into())))
            }
            Ok(_) => {
                text.truncate(text.trim_end_matches(['\n', '\r']).len());
                Some(Ok((self.number, text)))
            }
            Err(error) => Some(Err(broken(&self.path, self.number, error.to_string()))),
        }
    }
}
