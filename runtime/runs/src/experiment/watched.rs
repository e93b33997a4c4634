//! Records of a training that change no number of it: sampled texts, histograms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// The most prompts.
const MOST_PROMPTS: usize = 16;
/// The most tokens of a sampled text: each of them costs a forward pass.
const MOST_TOKENS: u32 = 1000;

/// Texts that the model writes during the training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleSettings {
    /// Updates between two texts of a prompt.
    pub every: u64,
    /// The texts to continue.
    pub prompts: Vec<String>,
    /// Most tokens to write.
    #[serde(default = "length")]
    pub length: u32,
    /// Divisor of the logits; 0 writes the most probable token.
    #[serde(default = "temperature")]
    pub temperature: f64,
    /// How many of the most probable tokens may be written; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Probability that the most probable tokens which may be written sum to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed of the draws, which are the same after every update.
    #[serde(default = "number::<1>")]
    pub seed: u64,
}

/// Histograms of the weights and the gradients of every parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistogramSettings {
    /// Updates between two histograms of a parameter.
    pub every: u64,
}

fn length() -> u32 {
    40
}

fn temperature() -> f64 {
    1.0
}

impl SampleSettings {
    /// Returns the broken rules: the field, and the sentence.
    pub(super) fn broken(&self) -> Vec<(&'static str, String)> {
        let Self { every, prompts, length, temperature, top_k, top_p, seed: _ } = self;
        let rules = [
            (*every > 0, "every", "`every` must be at least 1".to_owned()),
            (
                (1..=MOST_PROMPTS).contains(&prompts.len()),
                "prompts",
                format!("`prompts` must have 1 to {MOST_PROMPTS} texts: got {}", prompts.len()),
            ),
            (
                (1..=MOST_TOKENS).contains(length),
                "length",
                format!("`length` must lie between 1 and {MOST_TOKENS}: got {length}"),
            ),
            (
                *temperature >= 0.0 && temperature.is_finite(),
                "temperature",
                format!("`temperature` must be a number from 0 on: got {temperature}"),
            ),
            (*top_k != Some(0), "top_k", "`top_k` must be at least 1; leave it out for all tokens".to_owned()),
            (
                top_p.is_none_or(|p| p > 0.0 && p <= 1.0),
                "top_p",
                "`top_p` must lie above 0 and be at most 1; leave it out for all tokens".to_owned(),
            ),
        ];
        rules.into_iter().filter(|(holds, ..)| !holds).map(|(_, field, message)| (field, message)).collect()
    }
}
