//! The kind of a column: by its values, and by its name where values alone do not tell.

use rtc_task::ColumnLook;

use super::names;

/// The kind of values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// No value at all.
    Empty,
    /// The same value in all rows.
    Same,
    /// Objects, or lists in lists.
    Nested,
    /// Lists of words.
    Words,
    /// Lists of numbers.
    Numbers,
    /// One number, whole in all rows or not.
    Number {
        /// Whether all are whole.
        whole: bool,
    },
    /// Numbers as people write them, with separators of thousands, commas or signs.
    Written,
    /// Yes or no.
    Truth,
    /// The split that a row belongs to.
    Split,
    /// A date or a time.
    Date,
    /// A name or a number of the row itself, or of another thing.
    Key,
    /// Few texts, each in several rows.
    Category,
    /// Free text.
    Text,
}

/// Words for yes and no.
const TRUTHS: [&str; 10] = ["true", "false", "yes", "no", "t", "f", "y", "n", "on", "off"];

/// Names of splits, as values of a column.
const SPLITS: [&str; 9] = ["train", "training", "dev", "val", "valid", "validation", "eval", "test", "testing"];

/// A text of more words, on average, is no name of a class.
pub(super) const FEW_WORDS: usize = 4;
/// So many whole numbers are classes, where each comes several times.
pub(super) const FEW_NUMBERS: usize = 20;

impl Kind {
    /// The kind of a column at a place of a table with so many rows.
    pub(in super::super) fn of(column: &ColumnLook, at: usize, rows: usize) -> Self {
        let filled = column.filled(rows);
        if filled == 0 {
            return Self::Empty;
        }
        if column.nested > 0 {
            return Self::Nested;
        }
        if column.lists > 0 {
            return if column.numbers == filled { Self::Numbers } else { Self::Words };
        }
        let index = column.counting && column.missing == 0 && at == 0 && rows > 2 && !names::is_feature(&column.name);
        if names::is_key(&column.name) || index {
            return Self::Key;
        }
        if column.values.len() == 1 && filled > 1 {
            return Self::Same;
        }
        // Some tables write `?` or `NA` where a number is missing.
        if column.numbers == filled || column.numbers > 4 * (filled - column.numbers) {
            return Self::Number { whole: column.whole == filled };
        }
        if column.dates == filled {
            return Self::Date;
        }
        if column.written > 0 && column.written + column.numbers == filled {
            return Self::Written;
        }
        let is_split = |value: &String| SPLITS.contains(&value.trim().to_lowercase().as_str());
        if column.values.len() > 1 && column.values.keys().all(is_split) {
            return Self::Split;
        }
        let is_truth = |value: &String| TRUTHS.contains(&value.trim().to_lowercase().as_str());
        if column.values.len() == 2 && column.values.keys().all(is_truth) {
            return Self::Truth;
        }
        if names::is_text(&column.name) {
            return Self::Text;
        }
        if column.codes == filled && !column.repeats && filled > 4 {
            return Self::Key;
        }
        if has_few_values(column, filled) && column.words <= FEW_WORDS * filled {
            return Self::Category;
        }
        Self::Text
    }

    /// Name of the kind in messages.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Same => "the same in all rows",
            Self::Nested => "objects",
            Self::Words => "lists of words",
            Self::Numbers => "lists of numbers",
            Self::Number { whole: true } => "whole numbers",
            Self::Number { whole: false } => "numbers",
            Self::Written => "numbers with commas or signs",
            Self::Truth => "yes or no",
            Self::Split => "names of splits",
            Self::Date => "dates",
            Self::Key => "keys",
            Self::Category => "few values",
            Self::Text => "text",
        }
    }

    /// Whether it may be one feature among others.
    pub(super) fn is_feature(self) -> bool {
        matches!(self, Self::Number { .. } | Self::Written | Self::Truth | Self::Category)
    }
}

/// Whether each value comes in two rows or more, on average.
pub(super) fn has_few_values(column: &ColumnLook, filled: usize) -> bool {
    column.values.len() <= ColumnLook::MOST && 2 * column.values.len() <= filled
}
