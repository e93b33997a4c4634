//! The table at the end of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fall::Fall;

/// Errors, of which less is better; of all other metrics more is.
const ERRORS: [&str; 7] = ["loss", "perplexity", "rmse", "mae", "edit_distance", "calibration_error", "bits_per_byte"];

/// Ends of names of metrics of one's own, of which less is better.
pub const OWN_ERRORS: [&str; 2] = ["_error", "_cost"];
/// Those of which more is better.
pub const OWN_SCORES: [&str; 1] = ["_score"];

/// Whether less of a metric is better.
pub fn less_is_better(metric: &str) -> bool {
    ERRORS.contains(&metric) || OWN_ERRORS.iter().any(|end| metric.ends_with(end))
}

/// Whether the value of a metric is printed as a share, in percent.
pub fn is_share(metric: &str) -> bool {
    !less_is_better(metric) && metric != "r2" && !OWN_SCORES.iter().any(|end| metric.ends_with(end))
}

/// A metric with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedMetric {
    /// The name.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// How a model does on the strings of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthRow {
    /// The length, as the task counts it.
    pub length: usize,
    /// Number of examples.
    pub examples: u64,
    /// Share of the scored predictions that were right.
    pub accuracy: f64,
    /// What the task reports besides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// Results of the best checkpoint on one split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultsRow {
    /// The split.
    pub split: String,
    /// Number of examples.
    pub examples: usize,
    /// Number of predictions that were scored.
    pub scored: u64,
    /// Share of them that were right; none where numbers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What the task reports besides: shares of right answers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Metrics that are no shares: `rmse`, `mae` and `r2` of predicted numbers, `edit_distance`, `calibration_error`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// Mean task loss.
    pub loss: f64,
    /// `exp` of the loss, where the task reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// Accepted steps per halting unit, if the model halts.
    pub mean_depth: Option<f64>,
    /// How far the steps of the examples, each the mean over its units, are from that: the root of the mean square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_deviation: Option<f64>,
    /// Accuracy of always answering the split's most frequent class; none where numbers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub majority: Option<f64>,
    /// Accuracy of logistic regression on bags of tokens, trained on the same split, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bag_of_words: Option<f64>,
    /// Accuracy of a trigram of next tokens, counted on the same split, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigram: Option<f64>,
    /// Its perplexity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigram_perplexity: Option<f64>,
    /// The lengths one by one, where the task is one on strings of a length; shortest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthRow>,
    /// The classes or labels one by one, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassRow>,
}

/// How often a class, or one of several labels, is right, said and there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    /// Answers that are of it.
    pub labelled: u64,
    /// Answers that the model takes for it.
    pub predicted: u64,
    /// Answers that are of it and taken for it.
    pub right: u64,
}

impl ClassRow {
    /// The share of right ones among what is taken for it; nothing where nothing is.
    pub fn precision(self) -> Option<f64> {
        (self.predicted > 0).then(|| self.right as f64 / self.predicted as f64)
    }

    /// The share of right ones among what is of it; nothing where nothing is.
    pub fn recall(self) -> Option<f64> {
        (self.labelled > 0).then(|| self.right as f64 / self.labelled as f64)
    }

    /// Twice the right ones, by those that are of it and those that are taken for it; nothing where there are none of either.
    pub fn f1(self) -> Option<f64> {
        let both = self.labelled + self.predicted;
        (both > 0).then(|| 2.0 * self.right as f64 / both as f64)
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsTable {
    /// Updates done when the best checkpoint was saved.
    pub best_update: u64,
    /// Its accuracy on the dev split; none where numbers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_accuracy: Option<f64>,
    /// Its loss on the dev split, where that chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_loss: Option<f64>,
    /// Its value of the metric that chose it, on the dev split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_metric: Option<NamedMetric>,
    /// One row per evaluation split, in the experiment's order.
    #[serde(rename = "splits")]
    pub rows: Vec<ResultsRow>,
    /// That the halting of the model does nothing, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting: Option<String>,
    /// That the training ended far below its best, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fall: Option<Fall>,
}

impl ResultsRow {
    /// What tells how good it is: `accuracy 57.1 %`, or without classes `rmse 0.31`.
    pub fn score(&self) -> String {
        let error = || self.numbers.get("rmse").map_or_else(String::new, |error| format!("rmse {}", figure(*error)));
        self.accuracy.map_or_else(error, |share| format!("accuracy {}", percent(share)))
    }
}

impl ResultsTable {
    /// What the best checkpoint was chosen by, on dev: `57.1 %`, or without classes `loss 0.310`.
    pub fn best(&self) -> String {
        if let Some(NamedMetric { name, value }) = &self.dev_metric {
            return if is_share(name) { percent(*value) } else { figure(*value) };
        }
        let loss = || self.dev_loss.map_or_else(|| "-".to_owned(), |loss| format!("loss {loss:.3}"));
        self.dev_accuracy.map_or_else(loss, percent)
    }

    /// The table as lines of text with aligned columns, percentages with one digit. What a task reports besides the accuracy
    /// stands before it.
    pub fn to_text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns = self.columns();
        let title = ["split", "examples"].into_iter().chain(columns.iter().map(|column| column.title.as_str()));
        let mut cells: Vec<Vec<String>> = vec![title.map(str::to_owned).collect()];
        for row in &self.rows {
            let shown = columns.iter().map(|column| (column.of)(row).map_or("-".to_owned(), column.look));
            cells.push([row.split.clone(), row.examples.to_string()].into_iter().chain(shown).collect());
        }
        let columns = cells.first().map_or(0, Vec::len);
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let rest = row.iter().zip(&widths).skip(1).map(|(cell, width)| format!("  {cell:>width$}"));
            format!("{:<width$}{}\n", row[0], rest.collect::<String>(), width = widths[0])
        };
        cells.iter().map(line).collect()
    }

    /// What the rows have, in the order of the table; the depth of a model that does not halt is a `-`.
    fn columns(&self) -> Vec<ResultsColumn<'_>> {
        let has = |of: fn(&ResultsRow) -> Option<f64>| self.rows.iter().any(|row| of(row).is_some());
        let plain = |title: &str, of: fn(&ResultsRow) -> Option<f64>, look: fn(f64) -> String| ResultsColumn {
            title: title.to_owned(),
            of: Box::new(of),
            look,
        };
        let mut columns = self.named_columns();
        if has(|row| row.accuracy) {
            columns.push(plain("accuracy", |row| row.accuracy, percent));
            columns.push(plain("majority", |row| row.majority, percent));
        }
        if has(|row| row.bag_of_words) {
            columns.push(plain("bag of words", |row| row.bag_of_words, percent));
        }
        if has(|row| row.trigram) {
            columns.push(plain("trigram", |row| row.trigram, percent));
        }
        columns.push(plain("loss", |row| Some(row.loss), |loss| format!("{loss:.3}")));
        columns.push(plain("depth", |row| row.mean_depth, |depth| format!("{depth:.2}")));
        if has(|row| row.perplexity) {
            columns.push(plain("perplexity", |row| row.perplexity, |number| format!("{number:.3}")));
        }
        if has(|row| row.trigram_perplexity) {
            columns.push(plain("trigram perplexity", |row| row.trigram_perplexity, |number| format!("{number:.3}")));
        }
        columns
    }

    /// Metrics of the task and those that were asked for, by their names.
    fn named_columns(&self) -> Vec<ResultsColumn<'_>> {
        // A split may lack a number that others have.
        let names = |of: fn(&ResultsRow) -> &BTreeMap<String, f64>| {
            self.rows.iter().flat_map(|row| of(row).keys()).collect::<BTreeSet<&String>>().into_iter()
        };
        let title = |name: &str| name.replace('_', " ");
        let shares = names(|row| &row.metrics).map(|name| ResultsColumn {
            title: title(name),
            of: Box::new(move |row| row.metrics.get(name).copied()),
            look: percent,
        });
        let numbers = names(|row| &row.numbers).map(|name| ResultsColumn {
            title: title(name),
            of: Box::new(move |row| row.numbers.get(name).copied()),
            look: figure,
        });
        shares.chain(numbers).collect()
    }

    /// The table for programs; it reads back through serde.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("names and numbers are valid JSON")
    }
}

/// The number of a row.
type RowNumber<'a> = Box<dyn Fn(&ResultsRow) -> Option<f64> + 'a>;

/// A column of the table behind the split and its size.
struct ResultsColumn<'a> {
    title: String,
    of: RowNumber<'a>,
    look: fn(f64) -> String,
}

/// A share as a percentage with one digit behind the point.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A number of any size, with at least three digits of it.
fn figure(number: f64) -> String {
    match number.abs() {
        size if size == 0.0 || (0.01..100_000.0).contains(&size) => format!("{number:.3}"),
        _ => format!("{number:.2e}"),
    }
}
