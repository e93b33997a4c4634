//! The fields of a run in a list: those that every run has, and the settings of its experiment.

use std::time::SystemTime;

use rtc_session::folders;
use rtc_session::memory::bytes;
use rtc_session::text::number;
use serde_json::{Value, json};

use super::{ListedRun, RunScore};

/// A field that every run has.
pub(crate) struct RunField {
    pub(crate) name: &'static str,
    /// What it is, in a line.
    pub(crate) doc: &'static str,
    pub(super) kind: FieldValueKind,
    value: fn(&ListedRun) -> Value,
}

/// The kind of a field's values, besides being absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValueKind {
    Text,
    Number,
    /// A share of right answers, or another measure.
    Score,
    Bytes,
    /// Seconds.
    Age,
    List,
}

/// All of them, in the order in which they are printed.
pub(crate) const KNOWN: &[RunField] = &[
    field("name", "what commands call the run", FieldValueKind::Text, |run| folders::name(&run.path).into()),
    field("model", "the model: `gut`, or `gut:no_gate`", FieldValueKind::Text, |run| {
        of_info(run, |info| info.model.clone().into())
    }),
    field("experiment", "what the command that began it called its experiment", FieldValueKind::Text, |run| {
        json!(run.labels.experiment)
    }),
    field("task", "the task of the experiment", FieldValueKind::Text, |run| run.settings["task"]["name"].clone()),
    field("seed", "the seed", FieldValueKind::Number, |run| of_info(run, |info| info.seed.into())),
    field("state", "`finished`, `running`, `stopped`, `failed` or `damaged`", FieldValueKind::Text, |run| {
        run.state.word().into()
    }),
    field("updates", "the last update that was logged", FieldValueKind::Number, |run| json!(run.updates)),
    field("total", "updates of the whole run, if it does not stop early", FieldValueKind::Number, |run| {
        json!(run.total)
    }),
    field("score", "perplexity, accuracy or error", FieldValueKind::Score, |run| {
        of_score(run, |score| score.value.into())
    }),
    field("measure", "which of them", FieldValueKind::Text, |run| of_score(run, |score| score.measure.into())),
    field("split", "where it was measured", FieldValueKind::Text, |run| {
        of_score(run, |score| score.split.clone().into())
    }),
    field(
        "fall",
        "the best accuracy on dev, or `r2`, of a training that ended far below it",
        FieldValueKind::Number,
        |run| run.fall.as_ref().map_or(Value::Null, |fall| fall.best.into()),
    ),
    field("age", "the time since it was begun, in seconds", FieldValueKind::Age, |run| json!(age(run))),
    field("size", "bytes of its files", FieldValueKind::Bytes, |run| json!(run.size)),
    field("parameters", "trainable numbers", FieldValueKind::Number, |run| of_info(run, |info| info.parameters.into())),
    field("tags", "the words of `rtc runs tag`", FieldValueKind::List, |run| json!(run.labels.tags)),
    field("note", "the text of `rtc runs note`", FieldValueKind::Text, |run| json!(run.labels.note)),
];

const fn field(
    name: &'static str,
    doc: &'static str,
    kind: FieldValueKind,
    value: fn(&ListedRun) -> Value,
) -> RunField {
    RunField { name, doc, kind, value }
}

fn of_info(run: &ListedRun, value: impl Fn(&rtc_runs::record::RunInfo) -> Value) -> Value {
    run.info.as_ref().map_or(Value::Null, value)
}

fn of_score(run: &ListedRun, value: impl Fn(&RunScore) -> Value) -> Value {
    run.score.as_ref().map_or(Value::Null, value)
}

fn age(run: &ListedRun) -> Option<u64> {
    Some(SystemTime::now().duration_since(run.begun?).unwrap_or_default().as_secs())
}

/// A field that was asked for.
#[derive(Clone)]
pub(crate) enum ListColumn {
    Known(&'static RunField),
    /// A setting of the experiment, by its path: `optimiser.learning_rate`.
    Setting(String),
}

impl ListColumn {
    /// The field of this name. Whether a run has such a setting is known when runs were read.
    pub(crate) fn named(name: &str) -> Self {
        let known = KNOWN.iter().find(|field| field.name == name);
        known.map_or_else(|| Self::Setting(name.to_owned()), Self::Known)
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Known(field) => field.name,
            Self::Setting(path) => path,
        }
    }

    /// Whether the experiment must be read for it.
    pub(crate) fn needs_settings(&self) -> bool {
        matches!(self, Self::Setting(_)) || self.name() == "task"
    }

    pub(super) fn kind(&self) -> Option<FieldValueKind> {
        match self {
            Self::Known(field) => Some(field.kind),
            Self::Setting(_) => None,
        }
    }

    /// Its value in a run; null where it has none.
    pub(crate) fn value(&self, run: &ListedRun) -> Value {
        match self {
            Self::Known(field) => (field.value)(run),
            Self::Setting(path) => setting(&run.settings, path).cloned().unwrap_or_default(),
        }
    }

    /// Whether a run has such a field, whatever its value.
    pub(crate) fn is_in(&self, run: &ListedRun) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Setting(path) => setting(&run.settings, path).is_some(),
        }
    }

    /// Its value for people, in one line; `-` where there is none.
    pub(crate) fn text(&self, run: &ListedRun) -> String {
        let value = self.value(run);
        let shown = match (self.name(), self.kind(), &value) {
            (_, _, Value::Null) => String::new(),
            ("seed", ..) => value.to_string(),
            ("updates", ..) => match (run.updates, run.total) {
                (Some(done), Some(total)) => format!("{}/{}", number(done as f64), number(total as f64)),
                (done, _) => done.map_or_else(String::new, |done| number(done as f64)),
            },
            (_, Some(FieldValueKind::Score), _) => run.score.as_ref().map_or_else(String::new, score),
            (_, Some(FieldValueKind::Age), _) => value.as_u64().map_or_else(String::new, elapsed),
            (_, Some(FieldValueKind::Bytes), _) => value.as_u64().map_or_else(String::new, bytes),
            (_, Some(FieldValueKind::Number), _) => value.as_f64().map_or_else(String::new, number),
            _ => plain(&value),
        };
        // What is written into the folder of a run by others moves no cursor.
        let line: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line.is_empty() { "-".to_owned() } else { line }
    }
}

/// A value with all its digits; a list with commas.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn score(score: &RunScore) -> String {
    match score.measure {
        _ if score.is_share() => format!("{:.1} %", 100.0 * score.value),
        measure => format!("{measure} {:.3}", score.value),
    }
}

/// Whole seconds in the largest unit of which there are two: `90 s`, `45 min`, `30 h`, `12 d`.
fn elapsed(seconds: u64) -> String {
    let (unit, length) = super::query::AGES.iter().rev().find(|(_, length)| seconds >= 2 * length).unwrap_or(&("s", 1));
    format!("{} {unit}", seconds / length)
}

/// A setting by its path. Names of options and splits may hold points themselves.
fn setting<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let block = value.as_object()?;
    block.get(path).or_else(|| {
        let ends = path.match_indices('.').map(|(at, _)| at);
        ends.into_iter().find_map(|at| setting(block.get(&path[..at])?, &path[at + 1..]))
    })
}

/// The names of all fields, and of the settings that a run has.
pub(crate) fn known(run: &ListedRun) -> Vec<String> {
    fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
        match value.as_object() {
            Some(block) if !block.is_empty() => {
                for (key, value) in block {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    collect(value, &path, found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }
    let mut found: Vec<String> = KNOWN.iter().map(|field| field.name.to_owned()).collect();
    collect(&run.settings, "", &mut found);
    found
}
