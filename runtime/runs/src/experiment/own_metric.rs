//! Metrics as formulas of an answer.

use rtc_compiler::diag::list;
use rtc_compiler::formula::NumberFormula;
use rtc_task::error::hint;

use super::choice::Choice;
use crate::record::table::{OWN_ERRORS, OWN_SCORES};

/// The answer that is asked for: the number of a class, or a number.
pub const LABEL: &str = "label";
/// The answer of the model.
pub const PREDICTED: &str = "predicted";
/// The probability of the answer of the model.
pub const CONFIDENCE: &str = "confidence";
/// The probability of the label.
pub const PROBABILITY: &str = "probability";
/// How many tokens the row has.
pub const LENGTH: &str = "length";

/// The names of metrics of one's own, as a regular expression.
pub(super) const OWN_PATTERN: &str = "^[a-z][a-z0-9_]*_(error|cost|score)$";

/// A metric of one's own: the mean of a formula over all scored answers. The end of its name says which values are better.
///
/// ```
/// use rtc_runs::experiment::OwnMetric;
///
/// let cost = OwnMetric::new("missed_cost", "when(label == 1 and predicted == 0, 10, 0)")?;
/// let value = cost.formula().value(&|name| if name == "label" { 1.0 } else { 0.0 });
/// assert_eq!(value, Ok(10.0));
/// assert!(OwnMetric::new("missed", "label").is_err(), "does more of it please, or less?");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnMetric {
    name: String,
    text: String,
}

impl OwnMetric {
    /// Reads a metric.
    ///
    /// # Errors
    /// A sentence: a name that says nothing of which values are better, or that another metric has; a syntax error or an unknown
    /// function of the formula. Its names are [required](Self::require_names) with the answers.
    pub fn new(name: &str, text: &str) -> Result<Self, String> {
        let own = |error: String| format!("the metric `{name}`: {error}");
        let mut letters = name.chars();
        let is_plain = letters.next().is_some_and(|c| c.is_ascii_lowercase())
            && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let mut ends = OWN_ERRORS.iter().chain(&OWN_SCORES);
        if !is_plain || !ends.any(|end| name.strip_suffix(end).is_some_and(|begin| !begin.is_empty())) {
            return Err(own("the name of a metric of your own has small letters, digits and `_`, and ends in `_error` or `_cost` if \
                            less is better, in `_score` if more is"
                .to_owned()));
        }
        if Choice::names().iter().any(|known| known == name) {
            return Err(own("rtc has a metric of this name, so yours needs another one".to_owned()));
        }
        if NumberFormula::of_any_names(text).map_err(own)?.is_condition() {
            return Err(own("its value is a condition: `when(condition, 1, 0)` makes a number of it".to_owned()));
        }
        Ok(Self { name: name.to_owned(), text: text.to_owned() })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its formula as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns its formula.
    pub fn formula(&self) -> NumberFormula {
        NumberFormula::of_any_names(&self.text).expect("it was read when the metric was made")
    }

    /// Refuses a formula with other names than these and those of classes.
    ///
    /// # Errors
    /// A sentence with the name.
    pub fn require_names(&self, known: &[&str], classes: &[String]) -> Result<(), String> {
        let formula = self.formula();
        let is_known = |name: &&str| known.contains(name) || classes.iter().any(|class| class == name);
        let Some(name) = formula.names().find(|name| !is_known(name)) else { return Ok(()) };
        let all: Vec<&str> = known.iter().copied().chain(classes.iter().map(String::as_str)).collect();
        let near = hint(name, &all);
        let all = list(known.iter().copied(), "and");
        let classes = if classes.is_empty() { "" } else { ", and the names of classes for their numbers" };
        Err(format!("the metric `{}`: `{name}` is unknown here: it may use {all}{classes}{near}", self.name))
    }
}
