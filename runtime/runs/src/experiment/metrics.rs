//! Metrics that an experiment asks for besides the accuracy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_yaml::Value;

use super::own_metric::{OWN_PATTERN, OwnMetric, PROBABILITY};
use crate::record::table::{ClassRow, is_share};
use rtc_task::error::unknown;

/// A metric that an experiment may ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "MetricSyntax", into = "MetricSyntax")]
pub enum MetricKind {
    /// The mean F1 of all classes that are there or predicted.
    MacroF1,
    /// The mean recall of all classes that are there.
    BalancedAccuracy,
    /// The mean area under the ROC curve of all classes, each against the rest.
    Auc,
    /// The share of answers whose class is among the given number of likeliest ones.
    Top(u32),
    /// The share of sequences without a wrong answer.
    Exact,
    /// Edits from the predicted answers of a sequence to the labels, per label (Levenshtein).
    EditDistance,
    /// The expected calibration error over 15 equal bins of confidence (Guo et al. 2017, arXiv 1706.04599).
    CalibrationError,
    /// The loss in bits per byte of the text that the scored tokens stand for, whatever the tokens are.
    BitsPerByte,
    /// The mean of a formula over all scored answers.
    Own(OwnMetric),
}

/// A metric as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum MetricSyntax {
    Name(String),
    Own(BTreeMap<String, Value>),
    /// Neither: it is refused with a sentence.
    Other(Value),
}

/// All metrics with a fixed name.
const NAMED: [MetricKind; 7] = [
    MetricKind::MacroF1,
    MetricKind::BalancedAccuracy,
    MetricKind::Auc,
    MetricKind::Exact,
    MetricKind::EditDistance,
    MetricKind::CalibrationError,
    MetricKind::BitsPerByte,
];

/// Begins the name of the metric of the likeliest classes.
const TOP: &str = "top_";
/// The names that begin so, as a regular expression.
pub(super) const TOP_PATTERN: &str = "^top_[1-9][0-9]*$";

impl MetricKind {
    /// Returns the metric of this name.
    pub fn named(name: &str) -> Option<Self> {
        let top = || name.strip_prefix(TOP)?.parse().ok().filter(|count| *count > 0).map(Self::Top);
        NAMED.into_iter().find(|kind| kind.to_string() == name).or_else(top).filter(|kind| kind.to_string() == name)
    }

    /// Returns the names of all metrics, with 5 as an example of a count.
    pub fn names() -> Vec<String> {
        NAMED.into_iter().chain([Self::Top(5)]).map(|kind| kind.to_string()).collect()
    }

    /// Whether the metric is a share of answers; else it is an error, of which less is better.
    pub fn is_share(&self) -> bool {
        is_share(&self.to_string())
    }

    /// Whether the metric needs the probabilities of all classes.
    pub fn needs_probabilities(&self) -> bool {
        match self {
            Self::Auc | Self::Top(_) => true,
            Self::Own(own) => own.formula().uses(PROBABILITY),
            Self::MacroF1
            | Self::BalancedAccuracy
            | Self::Exact
            | Self::EditDistance
            | Self::CalibrationError
            | Self::BitsPerByte => false,
        }
    }

    /// Returns the mean over some classes; `None` for a metric that is no such mean, and if no class counts.
    pub fn of_classes(&self, classes: &[ClassRow]) -> Option<f64> {
        let share = match self {
            Self::MacroF1 => ClassRow::f1,
            Self::BalancedAccuracy => ClassRow::recall,
            Self::Auc
            | Self::Top(_)
            | Self::Exact
            | Self::EditDistance
            | Self::CalibrationError
            | Self::BitsPerByte
            | Self::Own(_) => return None,
        };
        let shares: Vec<f64> = classes.iter().filter_map(|row| share(*row)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MacroF1 => f.write_str("macro_f1"),
            Self::BalancedAccuracy => f.write_str("balanced_accuracy"),
            Self::Auc => f.write_str("auc"),
            Self::Top(count) => write!(f, "{TOP}{count}"),
            Self::Exact => f.write_str("exact"),
            Self::EditDistance => f.write_str("edit_distance"),
            Self::CalibrationError => f.write_str("calibration_error"),
            Self::BitsPerByte => f.write_str("bits_per_byte"),
            Self::Own(own) => f.write_str(own.name()),
        }
    }
}

impl From<MetricKind> for MetricSyntax {
    fn from(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Own(own) => Self::Own(BTreeMap::from([(own.name().to_owned(), own.text().into())])),
            other => Self::Name(other.to_string()),
        }
    }
}

impl TryFrom<MetricSyntax> for MetricKind {
    type Error = String;

    fn try_from(written: MetricSyntax) -> Result<Self, String> {
        match written {
            MetricSyntax::Name(name) => Self::named(&name).ok_or_else(|| unknown("metric", &name, Self::names())),
            MetricSyntax::Own(own) => {
                let mut own = own.into_iter();
                match (own.next(), own.next()) {
                    (Some((name, Value::String(text))), None) => OwnMetric::new(&name, &text).map(Self::Own),
                    (Some((name, _)), None) => {
                        Err(format!("the formula of `{name}` is a text, as `abs(predicted - label)`"))
                    }
                    _ => Err("a metric of your own is one `name: formula`".to_owned()),
                }
            }
            MetricSyntax::Other(_) => Err("a metric is a name, as `macro_f1`, or one `name: formula`".to_owned()),
        }
    }
}

impl JsonSchema for MetricKind {
    fn schema_name() -> Cow<'static, str> {
        "MetricKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let named: Vec<String> = NAMED.into_iter().map(|kind| kind.to_string()).collect();
        json_schema!({
            "description": "A metric besides the accuracy.",
            "anyOf": [
                { "enum": named },
                { "type": "string", "pattern": TOP_PATTERN },
                {
                    "type": "object",
                    "propertyNames": { "pattern": OWN_PATTERN },
                    "additionalProperties": { "type": "string" },
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for name in MetricKind::names() {
            assert_eq!(MetricKind::named(&name).map(|kind| kind.to_string()), Some(name));
        }
        for name in ["top_0", "top_05", "top_", "top_-1", "auroc"] {
            assert_eq!(MetricKind::named(name), None, "{name}");
        }
        let error = MetricKind::try_from(MetricSyntax::Name("macro_f".to_owned())).expect_err("no such metric");
        assert!(error.contains("did you mean `macro_f1`?"), "{error}");
    }
}
