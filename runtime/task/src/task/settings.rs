//! The task of an experiment and its data, as the file says them, and what is known of them besides.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use rtc_compiler::pipeline::asked::ExternalInput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::DataError;
use crate::program::ProgramRequest;
use crate::{Column, Format, OptionValue, TaskHandle, there};

/// The task and its data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSettings {
    /// Name of the task.
    pub name: String,
    /// Options of the task.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub options: BTreeMap<String, OptionValue>,
    /// Number of examples per split; without one, that of the published experiment, or all rows of a file.
    #[serde(default)]
    pub sizes: BTreeMap<String, usize>,
    /// Files, for the splits that have any.
    #[serde(default)]
    pub data: Option<DataSource>,
    /// Seed of the generated data and of shares of a file, independent of the seeds of the runs.
    #[serde(default)]
    pub seed: u64,
    /// On files of one's own: the column of the input, or both of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Columns>,
    /// On files of one's own: the column of the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Column>,
    /// Of `table`: what the label is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Of `table` with several labels: what stands between them in a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
    /// On files of one's own: how texts become tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// On files of one's own: the most tokens of an input, or the tokens of a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// On files of one's own: the most tokens of the vocabulary; with a `tokenizer.json` the number of ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<usize>,
    /// On files of one's own: how they are written, where their names don't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// On files of one's own: what `"` means in CSV and TSV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Quotes>,
    /// On files of one's own: the character between cells of CSV and TSV, where it is another one, as `;`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// On files of one's own: the encoding of the text, where it is not UTF-8, as `windows-1252`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// On files of one's own: what stands before the fraction of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimal: Option<DecimalMark>,
    /// On files of one's own: what becomes of rows without a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlabelled: Option<Unlabelled>,
    /// On files of one's own: how the classes of Parquet files are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<ClassNames>,
    /// Of `masked`: the share of the tokens that are hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// On files of one's own with a class per row: whether every share of the training file has the same part of each class.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratify: bool,
    /// Of `language`: the token with which every window, prompt and text begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// Of `language`: the token that ends a document, so that models can take the number of the document of every token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<String>,
    /// On files of one's own: the columns of the values that models take by `given`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenColumns>,
    /// What is known besides; no part of the experiment.
    #[serde(skip)]
    pub known: TaskContext,
}

/// Where data is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DataSource {
    /// A folder that holds published files under their names.
    Folder(String),
    /// A program that prints the rows of every split.
    Program(Program),
    /// A file per split, or a share of the training file, as `10%`.
    Files(BTreeMap<String, String>),
}

/// A program that prints rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program and its first arguments.
    pub command: Vec<String>,
}

/// One column, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Columns {
    /// One.
    One(Column),
    /// Several.
    Several(Vec<Column>),
}

/// Where the values stand that come with the rows, by the names that models have for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GivenColumns {
    /// In columns of the same names.
    Same(Vec<String>),
    /// Each in the column that is named.
    Named(BTreeMap<String, Column>),
}

/// What the label of a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// One class.
    #[default]
    Class,
    /// Any of some labels, in a list or in a text with separators.
    Labels,
    /// A number.
    Number,
}

/// Names of classes in Parquet files whose schema names them, as those of Hugging Face's `datasets` do (`ClassLabel`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassNames {
    /// The numbers in the rows.
    #[default]
    Numbers,
    /// The names that the file has for them; -1 is a missing value.
    File,
}

/// What becomes of rows without a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unlabelled {
    /// The file is refused.
    #[default]
    Refuse,
    /// They are left out, and counted.
    Skip,
}

/// What stands before the fraction of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecimalMark {
    /// `1.5`
    #[default]
    Point,
    /// `1,5`
    Comma,
}

/// What `"` means in CSV and TSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quotes {
    /// It stands around cells.
    #[default]
    Around,
    /// It is a character like all others.
    None,
}

/// Knowledge of a task besides the experiment: the folders of its files, and what was learned from them.
///
/// Two settings are equal where they read alike, whatever is known; clones share what was learned.
#[derive(Clone, Debug, Default)]
pub struct TaskContext {
    /// The folders from which relative paths start, in the order in which they are tried; then the current one.
    pub folders: Vec<PathBuf>,
    /// Whether the program of the experiment may run: the command line says so, and no file.
    pub permitted: bool,
    /// What a run kept of its task.
    pub kept: Option<Arc<Value>>,
    /// The task, once it was opened.
    pub(crate) task: Arc<OnceLock<TaskHandle>>,
    /// What models take from the rows, as far as that was said.
    pub(crate) asked: Asks,
}

/// What all models of an experiment take from its rows: rows are held to it while they are read.
#[derive(Clone, Default)]
pub struct Asks(Arc<RwLock<Vec<ExternalInput>>>);

impl Asks {
    /// All of it.
    pub(crate) fn all(&self) -> RwLockReadGuard<'_, Vec<ExternalInput>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Data is the same whatever is made of it.
impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asks")
    }
}

impl TaskContext {
    /// What is known before a task was opened.
    pub fn new(folders: Vec<PathBuf>, kept: Option<Arc<Value>>) -> Self {
        Self { folders, kept, ..Self::default() }
    }

    /// Notes what a model takes from the rows.
    pub fn ask(&self, asked: Vec<ExternalInput>) {
        let mut all = self.asked.0.write().unwrap_or_else(PoisonError::into_inner);
        for one in asked {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
}

impl PartialEq for TaskContext {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl TaskSettings {
    /// Where a file, a folder or a pattern is that the experiment names: from the folder of the experiment, or else from the
    /// current one.
    pub fn locate(&self, file: &str) -> PathBuf {
        let mut places = self.known.folders.iter().map(|folder| folder.join(file)).chain([PathBuf::from(file)]);
        let first = places.next().unwrap_or_else(|| PathBuf::from(file));
        let found = if there(&first) { None } else { places.find(|path| there(path)) };
        found.unwrap_or(first)
    }

    /// Why rows of some splits can't be had: a program makes them, and may not run.
    pub fn refusal(&self, splits: &[&str]) -> Option<String> {
        let Some(DataSource::Program(program)) = &self.data else { return None };
        let folder = self.folder_of(program);
        let mut requests = splits.iter().filter_map(|split| self.request(program, &folder, split).ok());
        requests.find(|request| !request.is_permitted()).map(|request| request.refusal())
    }

    /// The settings with the files of some splits that its program makes, where a program makes them.
    ///
    /// # Errors
    /// As [`ProgramRequest::file`].
    pub(crate) fn made(&self, splits: &[&str]) -> Result<Cow<'_, Self>, DataError> {
        let Some(DataSource::Program(program)) = &self.data else { return Ok(Cow::Borrowed(self)) };
        let (folder, mut files) = (self.folder_of(program), BTreeMap::new());
        for split in splits {
            let file = self.request(program, &folder, split)?.file()?;
            files.insert((*split).to_owned(), file.display().to_string());
        }
        Ok(Cow::Owned(Self { data: Some(DataSource::Files(files)), format: Some(Format::Json), ..self.clone() }))
    }

    fn request<'a>(
        &self,
        program: &'a Program,
        folder: &'a Path,
        split: &'a str,
    ) -> Result<ProgramRequest<'a>, DataError> {
        let none = || DataError {
            file: self.name.clone(),
            line: None,
            message: format!("`task.sizes` does not say how many rows the program makes for the split `{split}`"),
        };
        let count = *self.sizes.get(split).ok_or_else(none)?;
        Ok(ProgramRequest {
            command: &program.command,
            folder,
            split,
            seed: self.seed,
            count,
            permitted: self.known.permitted,
        })
    }

    /// The folder in which a program runs: that of the experiment, where a file of the command is, or else the current one.
    fn folder_of(&self, program: &Program) -> PathBuf {
        let holds = |folder: &&PathBuf| program.command.iter().any(|argument| folder.join(argument).is_file());
        let found = self.known.folders.iter().find(holds).or(self.known.folders.first());
        found.filter(|folder| !folder.as_os_str().is_empty()).cloned().unwrap_or_else(|| PathBuf::from("."))
    }

    /// The folders of files as a run remembers them: complete paths.
    pub fn folders(&self) -> Vec<PathBuf> {
        if self.data.is_none() {
            return vec![];
        }
        let folders = self.known.folders.iter().map(PathBuf::as_path).chain([Path::new("")]);
        let mut found: Vec<PathBuf> = vec![];
        for folder in folders {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            found.extend(folder.canonicalize().ok().filter(|folder| !found.contains(folder)));
        }
        found
    }
}
