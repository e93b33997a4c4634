//! Tasks: generators and readers of examples, names of tokens and classes, and splits.
//!
//! One file (or folder) per task; [`TASKS`] lists them. A task generates its splits from a seed, and reads the
//! published files of its data set in their own format.
//!
//! ```
//! use rtc_task::{TaskSettings, load_split};
//!
//! let sizes = [("train", 4), ("dev", 2), ("test", 3)].map(|(split, count)| (split.to_owned(), count));
//! let settings = TaskSettings { name: "listops".to_owned(), sizes: sizes.into(), ..TaskSettings::default() };
//! let examples = load_split(&settings, "test")?;
//! assert_eq!(examples.len(), 3);
//! assert_eq!(examples, load_split(&settings, "test")?);
//! # Ok::<(), rtc_task::error::DataError>(())
//! ```

mod alike;
mod audit;
mod bag_of_words;
pub mod batching;
pub mod characters;
pub mod class_weights;
mod documents;
mod encoding;
pub mod error;
mod example;
mod files;
mod fingerprint;
pub mod flip_flop;
pub mod formal;
mod held;
mod line;
pub mod listops;
mod load;
pub mod logic;
pub mod lra;
mod masking;
mod metric;
mod options;
mod own;
mod pool;
pub mod program;
mod reading;
mod registry;
mod scale;
pub mod sequence;
mod share;
mod stream;
pub mod sudoku;
mod summary;
mod task;
mod trigram;

pub use alike::alike;
pub use audit::{Audit, audit};
pub use bag_of_words::BagOfWords;
pub use documents::{DOCUMENT, documents};
pub use encoding::Encoding;
pub use example::{Example, ExampleTarget, SIDES};
pub use files::format_of as file_format;
pub use files::paths::there;
pub use files::{Alignment, Column, ColumnLook, FileLook, Format, TextForm, delimiter, encoding, look, look_as};
pub use load::{Dataset, WantedSplits, load, load_split, load_wanted};
pub use masking::Masking;
pub use metric::{Metric, SEVERAL, Tally, scored, whole};
pub(crate) use options::option;
pub use options::{OptionField, OptionValue, Options, resolve_options};
pub use own::NAMES as OWN_TASKS;

/// What is read of files of rows at most.
pub mod limits {
    pub use super::files::{MAX_KEYS, MAX_PACKED_ROWS, MAX_PAGE, MAX_UNPACKED, MAX_VALUES};
    pub use super::held::MAX_HELD as MAX_HELD_BYTES;
    pub use super::own::{
        MAX_CLASSES, MAX_GROWN, MAX_HELD as MAX_HELD_TOKENS, MAX_LENGTH, MAX_PIECES, MAX_ROWS, MAX_TEXT, MAX_TOKENIZER,
    };
    pub use super::reading::MAX_LINE;
}
pub use own::check as check_own;
pub use registry::{TASKS, catalog, check_name, check_shares, formal_named, open_task, own_split, task_named};
pub use scale::Scale;
pub use stream::{Stream, StreamedRows};
pub use summary::{GivenLook, SampleRow, SplitDescription, describe, majority_share, sample, set_text};
pub use task::asked::{AskedRow, AskedRows, Cuts};
pub use task::{
    AbsentFile, Answer, Asks, ClassNames, Columns, DataFolder, DataSource, DecimalMark, Files, GenerationRequest,
    GivenColumn, GivenColumns, Objective, Program, Quotes, Split, Task, TaskContext, TaskDescription, TaskHandle,
    TaskSettings, Unlabelled, WrittenAnswer,
};
pub(crate) use task::{ids, split, splits};
pub use trigram::{Trigram, TrigramScore};

/// The most examples of a split: all are held in memory.
pub const MAX_EXAMPLES: usize = 10_000_000;
