//! All mistakes of an experiment at once.
//!
//! The YAML reader stops at the first mistake. Each one is put right, by a value of [`RIGHT`] or by leaving the field out, so that the
//! reader finds the next one. The result of a repair is never returned: it finds further mistakes only.

use serde_yaml::{Mapping, Value};

use super::Experiment;
use rtc_task::error::hint;

/// The most mistakes that are reported at once.
const MOST: usize = 20;

/// A right value of every required field.
const RIGHT: &str = "{ task: { name: listops }, optimiser: { learning_rate: 0.1 }, schedule: { kind: constant }, \
                     batch: { size: 1 }, max_steps: 1, evaluate: [] }";

/// A mistake of an experiment: the path of a field, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

/// The fields of an experiment, as far as they can be read.
pub(super) struct Repaired {
    /// The experiment with every mistake put right; `None` if one of them can't be.
    pub(super) experiment: Option<Experiment>,
    /// What was put right. Without a mistake the experiment is the one that the fields say.
    pub(super) mistakes: Vec<Mistake>,
}

impl Repaired {
    /// Reads the fields of an experiment.
    pub(super) fn read(mut fields: Mapping) -> Self {
        let right: Mapping = serde_yaml::from_str(RIGHT).expect("the text above is YAML");
        let mut mistakes: Vec<Mistake> = vec![];
        loop {
            // Read from text, because an error of the reader names the path of the field only then.
            let read = serde_yaml::to_string(&fields).and_then(|text| serde_yaml::from_str::<Experiment>(&text));
            let error = match read {
                Ok(experiment) => return Self { experiment: Some(experiment), mistakes },
                Err(error) => error,
            };
            let mistake = Mistake::of(&error);
            let path: Vec<&str> = mistake.path.iter().map(String::as_str).collect();
            let is_right = repair(&mut fields, &path, find(&right, &path));
            let is_new = !mistakes.iter().any(|known| known.covers(&mistake.path));
            mistakes.extend(Some(mistake).filter(|_| is_new));
            if !is_right || mistakes.len() >= MOST {
                return Self { experiment: None, mistakes };
            }
        }
    }

    /// Whether a field was put right, a field of it, or the block that it is in.
    pub(super) fn touches(&self, path: &[&str]) -> bool {
        let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        self.mistakes.iter().any(|mistake| mistake.covers(&path) || path.iter().zip(&mistake.path).all(|(a, b)| a == b))
    }
}

/// Returns the value at a path.
fn find<'a>(fields: &'a Mapping, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = fields.get(*first)?;
    if rest.is_empty() { Some(value) } else { find(value.as_mapping()?, rest) }
}

/// Puts a right value at a path, or leaves the field out; whether that changed anything.
fn repair(fields: &mut Mapping, path: &[&str], right: Option<&Value>) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if !rest.is_empty() {
        // A block that is no block is a mistake by itself.
        return fields.get_mut(*first).and_then(Value::as_mapping_mut).is_some_and(|block| repair(block, rest, right));
    }
    match right {
        Some(right) => fields.insert((*first).into(), right.clone()).as_ref() != Some(right),
        None => fields.remove(*first).is_some(),
    }
}

impl Mistake {
    /// Whether the mistake is about this field, or about the block that it is in.
    fn covers(&self, path: &[String]) -> bool {
        path.starts_with(&self.path)
    }

    /// Explains an error of the YAML reader, which reads `path.to.block: what is wrong at line 1 column 2`.
    fn of(error: &serde_yaml::Error) -> Self {
        let text = error.to_string();
        let message = in_words(text.split(" at line ").next().unwrap_or(&text));
        let head = message.split(": ").next().unwrap_or_default();
        let path = if head == message || head.contains([' ', '`']) { "" } else { head };
        let keys = path.split(['.', '[']).filter(|key| !key.is_empty() && !key.ends_with(']'));
        let mut path: Vec<String> = keys.map(str::to_owned).collect();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let mut near = String::new();
        if let Some((name, known)) = quoted.split_first() {
            if message.contains("unknown ") {
                near = hint(name, known);
                let same = SYNONYMS.iter().find(|(other, _)| other == name);
                if let Some((_, field)) = same.filter(|_| near.is_empty()) {
                    near = format!("; it is `{field}` here");
                }
            }
            if message.contains("unknown field") || message.contains("missing field") {
                path.push((*name).to_owned());
            }
        }
        Self { path, message: format!("{message}{near}") }
    }
}

/// The message of the YAML reader with what it calls types of the program in words of the experiment.
fn in_words(message: &str) -> String {
    let (what, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let words = match expected {
        "usize" | "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        "a string" if what.contains("integer") || what.contains("float") || what.contains("boolean") => {
            "a text: put it in quotation marks"
        }
        "a sequence" => "a list, as in `[a, b]`",
        block if block.starts_with("struct ") => "a block of fields",
        _ if what == "task: data did not match any variant of untagged enum DataSource" => {
            return "task.data: takes a folder, a file per split, or `command` with a program and its arguments"
                .to_owned();
        }
        _ if what.ends_with("did not match any variant of untagged enum Columns") => {
            return "task.input: takes a column by its name or number, or a list of two".to_owned();
        }
        _ if what.ends_with("did not match any variant of untagged enum GivenColumns") => {
            return "task.given: takes a column for each value that a model takes by `given`, as `{ puzzle: puzzle_id }`, or a list of \
                    values that stand in columns of the same names, as `[puzzle]`"
                .to_owned();
        }
        _ if what.ends_with("did not match any variant of untagged enum Column") => {
            return "task.label: takes a column by its name or number".to_owned();
        }
        _ => return message.to_owned(),
    };
    format!("{what}, expected {words}")
}

/// Fields as other programs name them.
const SYNONYMS: [(&str, &str); 18] = [
    ("lr", "learning_rate"),
    ("wd", "weight_decay"),
    ("eps", "epsilon"),
    ("grad_clip", "clip"),
    ("max_grad_norm", "clip"),
    ("steps", "max_steps"),
    ("num_steps", "max_steps"),
    ("num_epochs", "epochs"),
    ("batch_size", "batch.size"),
    ("scheduler", "schedule"),
    ("lr_scheduler", "schedule"),
    ("param_groups", "groups"),
    ("parameter_groups", "groups"),
    ("label_smoothing", "set: [label_smoothing=0.1]"),
    ("dropout", "set: [dropout=0.1]"),
    ("dataset", "task"),
    ("save_every", "checkpoints.every"),
    ("class_weights", "batch.sampling"),
];
