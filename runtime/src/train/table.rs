//! The table at the end of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// How the best checkpoint does on one split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The split.
    pub split: String,
    /// Number of examples.
    pub examples: usize,
    /// Number of predictions that were scored.
    pub scored: u64,
    /// Share of them that were right.
    pub accuracy: f64,
    /// What the task reports besides: shares of right answers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
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
    /// Accuracy of always answering the split's most frequent class.
    pub majority: f64,
    /// The lengths one by one, where the task is one on strings of a length; shortest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthRow>,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Updates done when the best checkpoint was saved.
    pub best_update: u64,
    /// Its accuracy on the dev split.
    pub dev_accuracy: f64,
    /// One row per evaluation split, in the experiment's order.
    #[serde(rename = "splits")]
    pub rows: Vec<Row>,
    /// That the halting of the model does nothing, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting: Option<String>,
}

impl Table {
    /// The table as lines of text with aligned columns, percentages with one digit. What a task reports besides the accuracy
    /// stands before it.
    pub fn to_text(&self) -> String {
        let further: Vec<&String> = self.rows.first().into_iter().flat_map(|row| row.metrics.keys()).collect();
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let title = ["split".to_owned(), "examples".to_owned()].into_iter();
        let title = title.chain(further.iter().map(|name| name.replace('_', " ")));
        let mut cells: Vec<Vec<String>> =
            vec![title.chain(["accuracy", "majority", "loss", "depth"].map(String::from)).collect()];
        let perplexity = self.rows.iter().any(|row| row.perplexity.is_some());
        cells[0].extend(perplexity.then(|| "perplexity".to_owned()));
        for row in &self.rows {
            let mut line = vec![row.split.clone(), row.examples.to_string()];
            line.extend(further.iter().map(|name| row.metrics.get(*name).map_or("-".into(), |share| percent(*share))));
            line.extend([percent(row.accuracy), percent(row.majority), format!("{:.3}", row.loss)]);
            line.push(row.mean_depth.map_or("-".into(), |depth| format!("{depth:.2}")));
            let shown = |row: &Row| row.perplexity.map_or("-".into(), |number| format!("{number:.3}"));
            line.extend(perplexity.then(|| shown(row)));
            cells.push(line);
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

    /// The table for programs; it reads back through serde.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("names and numbers are valid JSON")
    }
}
