//! The results of a finished run, whatever its task measures.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::fall::Fall;
use crate::record::{RunAnswers, program};

/// Fields of a split that count examples and measure nothing.
const COUNTS: [&str; 2] = ["examples", "scored"];

/// The accuracy of always answering the most frequent class, in the table and in the results of a run.
pub(super) const MAJORITY: &str = "majority";

/// The accuracy of logistic regression on bags of tokens, in the table and in the results of a run.
const BAG_OF_WORDS: &str = "bag_of_words";

/// The accuracy of a trigram of next tokens, in the table and in the results of a run, and its perplexity.
const TRIGRAM: &str = "trigram";
const TRIGRAM_PERPLEXITY: &str = "trigram_perplexity";

/// Fields of a split that tell of no model of the grid.
pub(super) const BASELINES: [&str; 4] = [MAJORITY, BAG_OF_WORDS, TRIGRAM, TRIGRAM_PERPLEXITY];

/// Fields of a split that are shares.
const SHARES: [&str; 4] = ["accuracy", MAJORITY, BAG_OF_WORDS, TRIGRAM];

/// The field of a split with a metric of a baseline; `None` where it has none.
pub(super) fn of_baseline(baseline: &'static str, metric: &str) -> Option<&'static str> {
    match (baseline, metric) {
        (TRIGRAM_PERPLEXITY, _) => None,
        (_, "accuracy") => Some(baseline),
        (TRIGRAM, "perplexity") => Some(TRIGRAM_PERPLEXITY),
        _ => None,
    }
}

/// The results of a finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// The splits in the experiment's order, each with what was measured on it.
    pub splits: Vec<(String, Vec<Measure>)>,
    /// Fingerprint of the data.
    pub data: String,
    /// The program: its version, its code, and the graph that it makes of the spec.
    pub program: ProgramVersion,
    /// What was right of every example, where `answers.json` is as it was written.
    pub answers: Option<RunAnswers>,
    /// That the training ended far below its best, where that is so.
    pub fall: Option<Fall>,
}

/// One number of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Its name: `accuracy`, `loss`, or what the task calls it.
    pub name: String,
    /// The number.
    pub number: f64,
    /// Whether it is a share of right answers.
    pub share: bool,
    /// Whether it says how good the answers are: shares do, and what stands in the block of numbers.
    pub own: bool,
}

/// The version of the program that made results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramVersion {
    /// Versions of its parts as `code 3f2a, rtc 0.1.0`.
    pub versions: String,
    /// Hash of the graph of the spec.
    pub graph: String,
}

impl MeasuredRun {
    /// Reads the `results.json` of a run in a folder, and what the folder has of its answers; nothing if it holds no results.
    pub fn read(folder: &Path, results: &Value) -> Option<Self> {
        Some(Self { answers: RunAnswers::read(folder, results), ..Self::of(results)? })
    }

    /// Reads `results.json` alone; nothing if it holds no results.
    pub fn of(results: &Value) -> Option<Self> {
        let splits = results["splits"].as_array()?;
        let named = |split: &Value| Some((split["split"].as_str()?.to_owned(), measures(split, "")));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let identity = &results["identity"];
        let versions = BTreeMap::deserialize(&identity["versions"]).unwrap_or_default();
        Some(Self {
            splits: splits.iter().map(named).collect::<Option<_>>()?,
            data: text(&identity["data_hash"]),
            program: ProgramVersion { versions: program(&versions), graph: text(&identity["graph_hash"]) },
            answers: None,
            fall: Fall::deserialize(&results["fall"]).ok(),
        })
    }

    /// What was measured on a split.
    pub fn get(&self, split: &str, metric: &str) -> Option<f64> {
        let (_, measures) = self.splits.iter().find(|(name, _)| name == split)?;
        measures.iter().find(|measure| measure.name == metric).map(|measure| measure.number)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let numbers = |found: &[Measure]| -> Value {
            found.iter().map(|m| (m.name.clone(), json!(m.number))).collect::<serde_json::Map<_, _>>().into()
        };
        let splits = self.splits.iter().map(|(split, found)| (split.clone(), numbers(found)));
        json!({
            "splits": Value::from(splits.collect::<serde_json::Map<_, _>>()), "data_hash": self.data,
            "graph_hash": self.program.graph, "versions": self.program.versions,
        })
    }
}

/// All numbers of a split but counts. What a task measures besides stands in a block of shares of right answers, or in one of
/// numbers.
pub(super) fn measures(split: &Value, block: &str) -> Vec<Measure> {
    let mut found = vec![];
    for (name, value) in split.as_object().into_iter().flatten().filter(|(name, _)| !COUNTS.contains(&name.as_str())) {
        match value {
            Value::Object(_) => found.extend(measures(value, name)),
            _ => found.extend(value.as_f64().map(|number| {
                let share = block == "metrics" || SHARES.contains(&name.as_str());
                Measure { name: name.clone(), number, share, own: share || block == "numbers" }
            })),
        }
    }
    found
}
