//! Rows of which a trained model is asked.

use std::path::Path;

use serde_json::Value;

use crate::error::DataError;
use crate::{Example, ExampleTarget, Options, SIDES, Task};

/// One row: its label, if it has one, is for the reader alone.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedRow {
    /// The line on which it begins, or its number in a file without lines; 0 for a row that stands alone.
    pub line: usize,
    /// Its text on one line, as [`Task::encode`](crate::Task::encode) takes it.
    pub text: String,
    /// What the model is given. The answer in it says nothing.
    pub example: Example,
    /// The label of the file: a text, a number, or a list of these; `null` in a row without one, nothing where rows have no column for it.
    pub label: Option<Value>,
    /// Tokens that were cut off.
    pub cut: usize,
}

/// Rows of a file, one after the other.
pub type AskedRows = Box<dyn Iterator<Item = Result<AskedRow, DataError>>>;

/// What was left out of a split: ends of inputs that are longer than the task takes, and rows without a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Rows that were cut.
    pub rows: usize,
    /// Tokens that were cut off.
    pub tokens: usize,
    /// Rows that were skipped because they have no label.
    pub unlabelled: usize,
}

impl Cuts {
    /// Counts a row.
    pub fn add(&mut self, tokens: usize) {
        self.rows += usize::from(tokens > 0);
        self.tokens += tokens;
    }
}

/// The rows of a published file, with the labels that it has.
pub(crate) fn published<T: Task + ?Sized>(task: &T, path: &Path, options: &Options) -> Result<AskedRows, DataError> {
    let classes = task.classes(options);
    let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
    let label = |label: &ExampleTarget| match label {
        ExampleTarget::Class(class) => Value::from(name(class)),
        ExampleTarget::Each { class, weight } => {
            let scored = class.iter().zip(weight).map(|(class, weight)| (*weight > 0.0).then(|| name(class)));
            scored.collect::<Vec<_>>().into()
        }
        ExampleTarget::Number(number) => Value::from(task.scale(options).of_model(f64::from(*number))),
        ExampleTarget::Several(labels) => {
            let there = classes.iter().zip(labels).filter(|(_, there)| **there);
            there.map(|(name, _)| name.as_str()).collect()
        }
    };
    let row = |(n, example): (usize, Example)| {
        let second = example.second.as_ref().map(|second| format!(" {SIDES} {}", task.decode(second, options)));
        let text = task.decode(&example.tokens, options) + &second.unwrap_or_default();
        AskedRow { line: n + 1, text, label: Some(label(&example.label)), example, cut: 0 }
    };
    let rows: Vec<_> = task.read(path, options)?.into_iter().enumerate().map(row).map(Ok).collect();
    Ok(Box::new(rows.into_iter()))
}
