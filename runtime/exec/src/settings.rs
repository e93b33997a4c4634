//! How an executor runs, and why it can fail.

use std::fmt::Display;

use rtc_kernel::Precision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What rows that have halted cost in the forward run; the backward run never sees them. The results are the same for
/// all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Halting {
    /// They leave the batch: the work follows the mean depth.
    #[default]
    Compact,
    /// They stay until every row has halted: the work follows the deepest row, as in the papers' code.
    Batch,
    /// Every recurrence runs to its bound.
    Never,
}

/// Whether rows are folded as the model was trained, or the outer recursion is left out. The weights are the same, the results
/// are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Inference {
    /// Chunks, and chunks of their vectors.
    #[default]
    Recursive,
    /// The outermost balanced fold takes every row as one chunk, where what runs on a chunk can do that.
    Flat,
}

impl Inference {
    /// Whether rows are folded as in training.
    pub fn is_recursive(&self) -> bool {
        *self == Self::Recursive
    }
}

/// How an executor runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What halted rows cost.
    pub halting: Halting,
    /// Steps of every row in place of those that come with the examples.
    pub depth: Option<usize>,
    /// Whether the outer recursion is left out.
    pub inference: Inference,
    /// How exact the products of linear maps and their gradients are.
    pub precision: Precision,
    /// Whether every node's results are checked, and the first one that is not finite is named.
    pub check_finite: bool,
}

/// The reason why a plan can't run on a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionFault {
    /// The batch does not fit the model.
    #[error("{0}")]
    Batch(String),
    /// A node gave a value that is not finite, or was asked to decide by one.
    #[error("{0} is not finite")]
    NonFinite(String),
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

impl ExecutionFault {
    /// The same with the place of a number that is not finite, from the inside out.
    #[must_use]
    pub fn within(self, place: impl Display) -> Self {
        match self {
            Self::NonFinite(what) => Self::NonFinite(format!("{what}, {place}")),
            other => other,
        }
    }
}
