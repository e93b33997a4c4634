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
