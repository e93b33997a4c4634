//! The task of an experiment and its data, as the file says them, and what is known of them besides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::{Column, Format, OptionValue, TaskHandle, there};

/// The task and its data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSettings {
    /// Name of the task.
    pub name: String,
    /// Options of the task.
    #[serde(default)]
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
    /// On files of one's own: how texts become tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// On files of one's own: the most tokens of an input, or the tokens of a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// On files of one's own: the most tokens of the vocabulary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<usize>,
    /// On files of one's own: how they are written, where their names don't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// On files of one's own: what `"` means in CSV and TSV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Quotes>,
    /// What is known besides; no part of the experiment.
    #[serde(skip)]
    pub known: Known,
}

/// Where data is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DataSource {
    /// A folder that holds published files under their names.
    Folder(String),
    /// A file per split, or a share of the training file, as `10%`.
    Files(BTreeMap<String, String>),
}

/// One column, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Columns {
    /// One.
    One(Column),
    /// Several.
    Several(Vec<Column>),
}

/// What `"` means in CSV and TSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quotes {
    /// It stands around cells.
    #[default]
    Around,
    /// It is a character like all others.
    None,
}

/// What is known of a task besides what the experiment says: where its files are looked for, and what was learned from them.
///
/// Two settings are equal where they read alike, whatever is known; clones share what was learned.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The folders from which relative paths start, in the order in which they are tried; then the current one.
    pub folders: Vec<PathBuf>,
    /// What a run kept of its task.
    pub kept: Option<Arc<Value>>,
    /// The task, once it was opened.
    pub(crate) task: Arc<OnceLock<TaskHandle>>,
}

impl Known {
    /// What is known before a task was opened.
    pub fn new(folders: Vec<PathBuf>, kept: Option<Arc<Value>>) -> Self {
        Self { folders, kept, task: Arc::default() }
    }
}

impl PartialEq for Known {
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
