//! A task: its description as data, and its generator and reader.

mod absent;
pub(crate) mod asked;
mod settings;
pub(crate) mod splits;
pub(crate) mod strings;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

pub use rtc_compiler::schema::Objective;
use serde_json::Value;

use crate::encoding::Encoding;
use crate::error::{DataError, unknown};
use crate::example::Example;
use crate::files::{Column, Format};
use crate::masking::Masking;
use crate::metric::Metric;
use crate::options::{OptionField, Options};
use crate::scale::Scale;
use crate::stream::Stream;
pub use absent::AbsentFile;
use asked::{AskedRow, AskedRows, Cuts};
pub use settings::{
    Answer, Asks, ClassNames, Columns, DataSource, DecimalMark, GivenColumns, Program, Quotes, TaskContext,
    TaskSettings, Unlabelled,
};
use strings::Formal;

/// One part of a task's data.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The name in experiments and tables.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// Number of examples in the published experiment.
    pub count: usize,
    /// File names under which a data folder may hold this split (each also with `.gz`).
    pub files: &'static [&'static str],
}

/// A row of a table of splits.
pub(crate) const fn split(
    name: &'static str,
    doc: &'static str,
    count: usize,
    files: &'static [&'static str],
) -> Split {
    Split { name, doc, count, files }
}

/// A request to generate a split.
#[derive(Clone, Copy, Debug)]
pub struct GenerationRequest<'a> {
    /// The split's name.
    pub split: &'a str,
    /// How many examples.
    pub count: usize,
    /// The complete options of the task.
    pub options: &'a Options,
    /// Seed of the data; independent of the seed of a run.
    pub seed: u64,
    /// Keys of examples that must not occur: those of splits that were read from files.
    pub exclude: &'a BTreeSet<Vec<u32>>,
}

impl GenerationRequest<'_> {
    /// Whether an example must not occur.
    pub fn excludes(&self, example: &Example) -> bool {
        !self.exclude.is_empty() && self.exclude.contains(&example.key())
    }
}

/// A folder of published files in which a split is looked for.
#[derive(Clone, Copy, Debug)]
pub struct DataFolder<'a> {
    /// Where it is. It exists.
    pub path: &'a Path,
    /// The split's name.
    pub split: &'a str,
    /// The most examples that will be used: no more need be read.
    pub most: usize,
    /// The complete options of the task.
    pub options: &'a Options,
    /// How many rows `dev` has where it is the head of the training file; 0 in an experiment that does not use `dev`.
    pub dev: usize,
}

/// A split that is looked for among the files that an experiment names.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// What the experiment says of every split that it names.
    pub named: &'a BTreeMap<String, String>,
    /// All settings of the task.
    pub settings: &'a TaskSettings,
    /// The complete options of the task.
    pub options: &'a Options,
    /// The split's name.
    pub split: &'a str,
    /// The most examples that will be used: no more need be read.
    pub most: usize,
    /// How many rows `dev` has where nothing is said of it and it is the head of the training file; 0 in an experiment that does
    /// not use `dev`.
    pub dev: usize,
}

/// The description of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskDescription {
    /// The name in experiments.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// Where it is defined: paper, section, arXiv id; `rtc` where this project defines it.
    pub source: &'static str,
    /// What a model predicts.
    pub objective: Objective,
    /// The options with their defaults and bounds.
    pub options: &'static [OptionField],
    /// The splits, training first.
    pub splits: &'static [Split],
    /// Measures besides the accuracy over all scored answers. The first, if there is one, is what papers compare, so tables show it
    /// before the accuracy. The best checkpoint is chosen by the accuracy, or by the loss where there is none.
    pub metrics: &'static [Metric],
}

/// An answer that a model writes token by token behind the tokens of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenAnswer {
    /// The token at which it ends.
    pub end: u32,
    /// The most tokens before its end.
    pub most: usize,
}

/// A value that comes with the rows of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenColumn {
    /// What models call it.
    pub name: Arc<str>,
    /// The column in which it stands.
    pub column: Column,
}

/// A task: its description as data, and its generator and reader.
pub trait Task: Send + Sync {
    /// What it is called and what it asks for.
    fn about(&self) -> TaskDescription;

    /// The name in experiments.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// What a model predicts.
    fn objective(&self) -> Objective {
        self.about().objective
    }

    /// Whether the answers are later tokens, which a model must not see: so it is where every token has an answer, if the
    /// task does not say otherwise.
    fn next_token(&self, _options: &Options) -> bool {
        self.objective() == Objective::Each
    }

    /// The names of the tokens, by id.
    fn vocabulary(&self, options: &Options) -> Vec<String>;
    /// The names of the classes or of the labels, by id; none where a number is asked for.
    fn classes(&self, options: &Options) -> Vec<String>;
    /// How the numbers that it asks for are written.
    fn scale(&self, _options: &Options) -> Scale {
        Scale::default()
    }

    /// Whether the perplexity of a split, `exp` of its mean loss, is reported.
    fn perplexity(&self) -> bool {
        false
    }

    /// Whether examples know the bytes of their scored text ([`Example::text_bytes`]).
    fn knows_bytes(&self) -> bool {
        false
    }

    /// The draw of the hidden tokens of a row; `None` where none is hidden.
    fn masking(&self) -> Option<Masking> {
        None
    }

    /// How a model writes the answer of a row; `None` where an answer is given and not written.
    fn written_answer(&self) -> Option<WrittenAnswer> {
        None
    }

    /// Generates a split. The same request gives the same examples, and a smaller count gives a prefix of a larger one.
    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError>;
    /// Reads a published file (`.gz` too), in its order. Every label is checked where the task can compute it.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError>;
    /// Reads a split from a folder of published files; nothing if the folder has no file for it.
    ///
    /// Looks for the names of the splits. Without a file for dev, dev is the first [`DataFolder::dev`] rows of the training file,
    /// and training the rest.
    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        splits::by_name(self, folder)
    }

    /// Reads a split from the files that an experiment names; nothing where it is to be generated.
    ///
    /// A split of which nothing is said is refused, but for dev, which is the first [`Files::dev`] rows of the training file then.
    fn read_files(&self, files: &Files<'_>) -> Result<Option<Vec<Example>>, DataError> {
        splits::by_file(self, files)
    }

    /// The rows of a split that is too large to be held in memory, to be read while a training needs them; nothing where they are
    /// held.
    fn stream(&self, _files: &Files<'_>) -> Result<Option<Stream>, DataError> {
        Ok(None)
    }

    /// What a run must keep, where the task is not known from the experiment alone.
    fn kept(&self) -> Option<Value> {
        None
    }

    /// The first problems, `most` of them at most, of the files that an experiment names, where a task can say more than the first.
    fn problems(&self, _settings: &TaskSettings, _most: usize) -> Vec<DataError> {
        vec![]
    }

    /// The token with which every window, prompt and text begins.
    fn begin(&self) -> Option<u32> {
        None
    }

    /// The token that ends a document, where rows come with the number of the document of every token ([`crate::documents`]).
    fn document_end(&self) -> Option<u32> {
        None
    }

    /// The values that come with its rows besides tokens and labels.
    fn given(&self) -> Vec<GivenColumn> {
        vec![]
    }

    /// The columns of the input, where the rows are those of a user's files.
    fn columns(&self) -> Vec<Column> {
        vec![]
    }

    /// The row that a JSON object holds, where rows have columns; the values of these names must be there.
    ///
    /// # Errors
    /// A sentence about what is missing, or can't be taken.
    fn object(&self, _text: &str, _wanted: &[&str]) -> Result<AskedRow, String> {
        Err(format!("the rows of {} have no columns", self.name()))
    }

    /// The column of the label, where the rows are those of a user's files and have one.
    fn label_column(&self) -> Option<Column> {
        None
    }

    /// Format of its files, where the experiment says it in place of their names.
    fn format(&self) -> Option<Format> {
        None
    }

    /// The rows of a file of which a model is asked that takes the values of these names. Files of the user's own need no label;
    /// `format` says how such a file is written.
    ///
    /// # Errors
    /// A file that can't be opened, or lacks a column.
    fn rows_asked(
        &self,
        path: &Path,
        _format: Format,
        _wanted: &[&str],
        options: &Options,
    ) -> Result<AskedRows, DataError> {
        asked::published(self, path, options)
    }

    /// Number of tokens that [`Task::encode`] cuts off a text.
    ///
    /// # Errors
    /// As [`Task::encode`].
    fn cut(&self, _text: &str) -> Result<usize, String> {
        Ok(0)
    }

    /// The rows of a split that were cut when it was read.
    fn cuts(&self, _split: &str) -> Cuts {
        Cuts::default()
    }

    /// The token that stands for all that the vocabulary does not have, if there is one.
    fn unknown(&self) -> Option<u32> {
        None
    }

    /// Whether an example read from a file belongs into the split (a limit on length, say).
    fn keeps(&self, _split: &str, _example: &Example, _options: &Options) -> bool {
        true
    }

    /// The tokens of a sequence as a person writes it: names of tokens with blanks between them.
    fn encode(&self, text: &str, options: &Options) -> Result<Vec<u32>, String> {
        ids(text.split_whitespace(), &self.vocabulary(options), &format!("token of {}", self.name()))
    }

    /// How [`Task::encode`] makes tokens of a text that stands by itself.
    fn encoding(&self, options: &Options) -> Encoding {
        Encoding::blanks(self.vocabulary(options), &[])
    }

    /// A text of several lines as [`Task::encode`] takes it: on one line.
    fn on_one_line(&self, text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A sequence as a person reads it, and as [`Task::encode`] takes it.
    fn decode(&self, tokens: &[u32], options: &Options) -> String {
        let names = self.vocabulary(options);
        let name = |id: &u32| names.get(*id as usize).cloned().unwrap_or_else(|| format!("?{id}"));
        tokens.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// A sequence as a text that stands by itself, with line ends as they are.
    fn written(&self, tokens: &[u32], options: &Options) -> String {
        self.decode(tokens, options)
    }

    /// The task as one on strings of a chosen length, if it is one: its examples can be drawn anew for every update.
    fn formal(&self) -> Option<&Formal> {
        None
    }

    /// The names of the splits, training first.
    fn split_names(&self) -> Vec<String> {
        self.about().splits.iter().map(|split| split.name.to_owned()).collect()
    }

    /// The split of this name, or a sentence that lists the splits. A task on strings has one for every range of lengths.
    fn split(&self, name: &str) -> Result<Split, String> {
        let range = || self.formal().and_then(|_| strings::range_split(name));
        self.about().splits.iter().find(|split| split.name == name).copied().or_else(range).ok_or_else(|| {
            let names = self.about().splits.iter().map(|split| split.name);
            let lengths = self.formal().map_or("", |_| strings::RANGES);
            unknown(&format!("split of {}", self.name()), name, names) + lengths
        })
    }
}

/// The task of an experiment: one of the program, or one with a vocabulary and classes of its own.
#[derive(Clone)]
pub enum TaskHandle {
    /// One of [`TASKS`](crate::TASKS).
    BuiltIn(&'static dyn Task),
    /// One that was made for the experiment.
    Own(Arc<dyn Task>),
}

impl Deref for TaskHandle {
    type Target = dyn Task;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(task) => *task,
            Self::Own(task) => &**task,
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskHandle").field(&self.name()).finish()
    }
}

/// The splits of a table that says more of each.
pub(crate) const fn splits<X: Copy, const N: usize>(table: &[(Split, X); N]) -> [Split; N] {
    let mut splits = [table[0].0; N];
    let mut index = 0;
    while index < N {
        splits[index] = table[index].0;
        index += 1;
    }
    splits
}

/// The ids of words, which are their places among the symbols; `what` says what each of them should be.
pub(crate) fn ids<'w>(
    words: impl Iterator<Item = &'w str>,
    symbols: &[impl AsRef<str>],
    what: &str,
) -> Result<Vec<u32>, String> {
    let id = |word: &str| symbols.iter().position(|symbol| symbol.as_ref() == word).map(|id| id as u32);
    words.map(|word| id(word).ok_or_else(|| format!("`{word}` is no {what}"))).collect()
}
