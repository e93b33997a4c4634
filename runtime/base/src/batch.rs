//! A batch of examples, packed without padding.

use std::sync::Arc;

/// Rows of different lengths laid end to end: row r is `tokens[offsets[r]..offsets[r + 1]]`.
///
/// There is no padding to mask: a batch holds real tokens only, so the length of one row cannot touch another.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Where each row starts, and the total: rows + 1 numbers, rising, from 0.
    pub offsets: Vec<usize>,
    /// Token ids of all rows.
    pub tokens: Vec<u32>,
    /// What the rows should give.
    pub labels: Labels,
    /// The width that a padded batch would have: the longest row, or more. Only `cut: balanced` and `plan: batch` read it.
    pub width: usize,
    /// Steps of a recurrence whose depth comes with each example, one number per row; `None` where the examples have none.
    pub depths: Option<Vec<u32>>,
    /// Further values that come with the examples, each of which a model takes by its name.
    pub given: Vec<Given>,
}

/// A value that comes with the examples of a batch: what all of them have, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// What the model calls it.
    pub name: Arc<str>,
    /// The numbers; where the model takes numbers of things, whole ones from 0 on.
    pub numbers: Vec<f64>,
}

/// The targets of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// One class per row (for pairs: per pair; first sentences are the first half of the rows, second ones the rest).
    Class(Vec<u32>),
    /// One class per token, and which of them count (1) or not (0).
    Each {
        /// The class of every token.
        class: Vec<u32>,
        /// Weight of every token in the loss.
        weight: Vec<f32>,
    },
    /// One number per row, in the unit of the model.
    Number(Vec<f32>),
    /// For every row one 1 (yes) or 0 (no) per label, row after row.
    Several(Vec<u32>),
}

impl Labels {
    /// The classes that are asked for, for labels 1 and 0 each; none where numbers are.
    pub fn classes(&self) -> &[u32] {
        match self {
            Self::Class(class) | Self::Each { class, .. } | Self::Several(class) => class,
            Self::Number(_) => &[],
        }
    }

    /// How many answers they ask for.
    pub fn answers(&self) -> usize {
        match self {
            Self::Number(numbers) => numbers.len(),
            _ => self.classes().len(),
        }
    }
}

impl Batch {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The tokens of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.tokens[self.offsets[row]..self.offsets[row + 1]]
    }
}
