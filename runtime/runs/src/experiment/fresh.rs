//! Training on strings that are drawn for it, longer and longer ones; averaged weights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// Training on strings that are drawn for every update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fresh {
    /// What has one length.
    #[serde(default)]
    pub lengths: Lengths,
    /// Longer strings little by little.
    #[serde(default)]
    pub curriculum: Option<Curriculum>,
    /// Updates that count as a pass.
    #[serde(default = "number::<1000>")]
    pub pass: u64,
}

/// What has one length, drawn from those of training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lengths {
    /// All strings of an update.
    #[default]
    Batch,
    /// Every string its own.
    Each,
}

/// The longest strings begin short and get longer, up to the longest of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curriculum {
    /// The longest length at first.
    #[serde(default = "number::<1>")]
    pub from: u64,
    /// After so many updates it grows by one.
    pub every: u64,
}

/// Averaged weights: `a = decay a + (1 - decay) w` after every update, from the weights as they are then; no correction of the bias.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ema {
    /// How much of the average stays.
    pub decay: f64,
    /// Updates before the first one that is averaged.
    #[serde(default)]
    pub after: u64,
}

/// Which of the evaluated weights are measured at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Those with the best accuracy on the dev split; where numbers are asked for, with the smallest loss.
    #[default]
    Best,
    /// Those with the smallest loss on the dev split.
    Loss,
    /// Those of the last evaluation, as in publications without a dev split.
    Last,
}

impl Choice {
    /// Whether nothing was asked for.
    pub(super) fn is_best(&self) -> bool {
        *self == Self::Best
    }

    /// How good an evaluation is; more is better. A loss that falls by some share lets the score rise by about that share.
    pub fn score(&self, accuracy: Option<f64>, loss: f64) -> f64 {
        match (self, accuracy) {
            (Self::Best | Self::Last, Some(accuracy)) => accuracy,
            // A loss that is no number is the worst.
            _ if loss.is_nan() => 0.0,
            _ => 1.0 / loss.max(f64::MIN_POSITIVE),
        }
    }

    /// Says of the checkpoint that is measured at the end why it is, with its score on the dev split.
    pub fn sentence(&self, dev: &str, score: &str, update: &str) -> String {
        match self {
            Self::Best => format!("best on {dev}: {score} after update {update}"),
            Self::Loss => format!("smallest loss on {dev} ({score}) after update {update}"),
            Self::Last => format!("last checkpoint: {score} on {dev} after update {update}"),
        }
    }
}
