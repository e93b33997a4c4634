//! The evaluation whose weights are measured at the end.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metrics::{MetricKind, TOP_PATTERN};
use super::own_metric::OWN_PATTERN;
use crate::record::history::EvaluationLine;
use crate::record::table::{NamedMetric, less_is_better};
use rtc_task::{SEVERAL, TASKS};

/// What decides which of the evaluated weights are measured at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Choice {
    /// The best accuracy on the dev split; where numbers are predicted, the smallest loss.
    #[default]
    Best,
    /// The smallest loss on the dev split.
    Loss,
    /// The last evaluation, as in publications without a dev split.
    Last,
    /// The best value of the metric of this name on the dev split.
    Metric(String),
}

impl From<String> for Choice {
    fn from(name: String) -> Self {
        match name.as_str() {
            "best" => Self::Best,
            "loss" => Self::Loss,
            "last" => Self::Last,
            _ => Self::Metric(name),
        }
    }
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Best => "best".to_owned(),
            Choice::Loss => "loss".to_owned(),
            Choice::Last => "last".to_owned(),
            Choice::Metric(name) => name,
        }
    }
}

impl JsonSchema for Choice {
    fn schema_name() -> Cow<'static, str> {
        "Choice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What decides which weights are measured at the end: `best`, `loss`, `last`, or the name of a metric.",
            "anyOf": [
                { "enum": Self::names() },
                { "type": "string", "pattern": TOP_PATTERN },
                { "type": "string", "pattern": OWN_PATTERN },
            ],
        })
    }
}

impl Choice {
    /// Returns the names of all choices, with 5 as an example of a count.
    pub(super) fn names() -> Vec<String> {
        let fixed = ["best", "loss", "last", "accuracy", "perplexity", "rmse", "mae", "r2"].map(str::to_owned);
        let mut names: Vec<String> = fixed.into_iter().chain(MetricKind::names()).collect();
        for metric in TASKS.iter().flat_map(|task| task.about().metrics).chain(SEVERAL) {
            if !names.iter().any(|name| name == metric.name) {
                names.push(metric.name.to_owned());
            }
        }
        names
    }

    /// Whether the experiment leaves the choice to the default.
    pub(super) fn is_best(&self) -> bool {
        *self == Self::Best
    }

    /// Returns the name of the metric that decides, if the experiment names one.
    pub fn metric(&self) -> Option<&str> {
        if let Self::Metric(name) = self { Some(name) } else { None }
    }

    /// Whether the loss decides, for an evaluation with or without an accuracy.
    pub fn is_by_loss(&self, accuracy: Option<f64>) -> bool {
        match self {
            Self::Metric(_) => false,
            Self::Loss => true,
            Self::Best | Self::Last => accuracy.is_none(),
        }
    }

    /// Returns the value that decides; `None` if the evaluation lacks it.
    pub fn value(&self, line: &EvaluationLine) -> Option<f64> {
        match self {
            Self::Best | Self::Last => line.accuracy.or(line.loss),
            Self::Loss => line.loss,
            Self::Metric(name) => match name.as_str() {
                "accuracy" => line.accuracy,
                "perplexity" => line.perplexity,
                name => line.others.get(name).and_then(Value::as_f64),
            },
        }
    }

    /// Whether less of the deciding value is better.
    fn falls(&self, accuracy: Option<f64>) -> bool {
        self.metric().map_or_else(|| self.is_by_loss(accuracy), less_is_better)
    }

    /// Returns the score of an evaluation, of which more is better; `None` if the evaluation lacks the deciding value.
    pub fn score(&self, line: &EvaluationLine) -> Option<f64> {
        Some(self.scored(line.accuracy, self.value(line)?))
    }

    /// Returns the score of a saved evaluation, whose loss or metric is missing where it does not decide.
    pub fn score_of(&self, accuracy: Option<f64>, loss: Option<f64>, metric: Option<f64>) -> f64 {
        let value = match self {
            Self::Best | Self::Last => accuracy.or(loss),
            Self::Loss => loss,
            Self::Metric(_) => metric,
        };
        self.scored(accuracy, value.unwrap_or(if self.falls(accuracy) { f64::INFINITY } else { f64::NEG_INFINITY }))
    }

    /// An error scores its inverse, so that an error that falls by some share lets the score rise by about that share.
    fn scored(&self, accuracy: Option<f64>, value: f64) -> f64 {
        match self.falls(accuracy) {
            false => value,
            // A loss that is no number is the worst.
            true if value.is_nan() => 0.0,
            true => 1.0 / value.max(f64::MIN_POSITIVE),
        }
    }

    /// Names the value of the metric that decides, if the experiment names one.
    pub fn named(&self, value: Option<f64>) -> Option<NamedMetric> {
        Some(NamedMetric { name: self.metric()?.to_owned(), value: value? })
    }

    /// By how much a score must exceed another one: a share of it for errors, which may have any size.
    pub fn margin(&self, accuracy: Option<f64>, score: f64, share: f64) -> f64 {
        share * if self.falls(accuracy) { score } else { 1.0 }
    }

    /// Says which checkpoint is measured at the end, with its score on the dev split.
    pub fn sentence(&self, dev: &str, score: &str, update: &str) -> String {
        match self {
            Self::Best => format!("best on {dev}: {score} after update {update}"),
            Self::Loss => format!("smallest loss on {dev} ({score}) after update {update}"),
            Self::Last => format!("last checkpoint: {score} on {dev} after update {update}"),
            Self::Metric(name) => format!("best {} on {dev}: {score} after update {update}", name.replace('_', " ")),
        }
    }
}
