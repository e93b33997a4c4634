//! The complete experiment with where every value stands, for `rtc show`.

use serde_yaml::{Mapping, Value};

use super::ExperimentFile;
use crate::error::ExperimentError;

/// A value of the complete experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSetting {
    /// The keys that lead to it.
    pub path: Vec<String>,
    /// A number, a text, a list, or a block without fields.
    pub value: Value,
    /// The file and the line that give it; none for a default.
    pub place: Option<(String, usize)>,
}

/// Lists that are longer have a line for each of their values.
const WIDTH: usize = 120;

impl ExperimentFile {
    /// All settings of the file, what is different for models and what is compared included.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn settings(&self) -> Result<Vec<ExperimentSetting>, ExperimentError> {
        let experiment = self.resolve(None, &[])?;
        let mut all: Mapping = serde_yaml::to_value(experiment)
            .and_then(serde_yaml::from_value)
            .expect("an experiment is a block of fields");
        for (key, value) in self.layers.fields() {
            if !all.contains_key(&key) {
                all.insert(key, value);
            }
        }
        let mut found = vec![];
        self.collect(&mut vec![], &Value::Mapping(all), &mut found);
        Ok(found)
    }

    fn collect(&self, path: &mut Vec<String>, value: &Value, found: &mut Vec<ExperimentSetting>) {
        match value {
            Value::Mapping(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    path.push(key.as_str().map_or_else(|| scalar(key), str::to_owned));
                    self.collect(path, value, found);
                    path.pop();
                }
            }
            value => {
                let keys: Vec<&str> = path.iter().map(String::as_str).collect();
                // `task.command` is short for this path.
                let keys = if keys == ["task", "data", "command"] { vec!["task", "command"] } else { keys };
                let place = self.layers.line(&keys).map(|(layer, line)| (layer.name.clone(), line));
                found.push(ExperimentSetting { path: path.clone(), value: value.clone(), place });
            }
        }
    }

    /// The complete experiment as YAML, with a comment on every value that says where it stands.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn text_with_places(&self) -> Result<String, ExperimentError> {
        let (mut text, mut open): (String, Vec<String>) = (String::new(), vec![]);
        for ExperimentSetting { path, value, place } in self.settings()? {
            let (last, blocks) = path.split_last().expect("a setting has a key");
            let shared = open.iter().zip(blocks).take_while(|(a, b)| a == b).count();
            for (depth, key) in blocks.iter().enumerate().skip(shared) {
                text += &format!("{}{}:\n", "  ".repeat(depth), word(key));
            }
            open = blocks.to_vec();
            let pad = "  ".repeat(blocks.len());
            let place = place.map_or("default".to_owned(), |(file, line)| format!("{file}:{line}"));
            let last = word(last);
            let line = format!("{pad}{last}: {}", inline(&value));
            match value {
                Value::Sequence(items) if line.len() > WIDTH => {
                    let items: String = items.iter().map(|item| format!("{pad}  - {}\n", inline(item))).collect();
                    text += &format!("{pad}{last}:  # {place}\n{items}");
                }
                _ => text += &format!("{line}  # {place}\n"),
            }
        }
        Ok(text)
    }
}

/// A value in one line, as blocks in braces hold it.
fn inline(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Value::Sequence(items) => format!("[{}]", joined(items.iter().map(inline).collect())),
        Value::Mapping(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Mapping(fields) => {
            let field = |(key, value): (&Value, &Value)| format!("{}: {}", scalar(key), inline(value));
            format!("{{ {} }}", joined(fields.iter().map(field).collect()))
        }
        value => scalar(value),
    }
}

/// A text, a number, or another value without parts.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        value => serde_yaml::to_string(value).unwrap_or_default().trim_end().to_owned(),
    }
}

/// A text, quoted where YAML would read something else, also inside of braces.
fn word(text: &str) -> String {
    let is_special =
        text.contains(['[', ']', '{', '}', ',', '#', '\n', '"', '\'']) || text.contains(": ") || text.ends_with(':');
    let plain = || serde_yaml::to_string(text).unwrap_or_default().trim_end().to_owned();
    if is_special { serde_json::to_string(text).unwrap_or_else(|_| plain()) } else { plain() }
}
