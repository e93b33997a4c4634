//! The identity of a run: the settings that decide its numbers, and the differences of two runs, field by field.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{ModelForm, RunInfo, SavedRun};
use crate::experiment::{EvaluateAt, Experiment};

/// Statements that a path calls by their variant, as `--set` does: `depthwise.self.heads`.
const BY_VARIANT: [&str; 2] = ["recur", "attend"];

/// A field in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path.
    pub field: String,
    /// Its value in the older run; nothing where it had none.
    pub old: Option<String>,
    /// Its value in the newer one.
    pub new: Option<String>,
}

impl fmt::Display for Change {
    /// `batch.size was 16 and is 8 now`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, old, new } = self;
        let on_one_line = |value: &Option<String>| Some(value.as_ref()?.replace('\n', r"\n").replace('\t', r"\t"));
        match (on_one_line(old), on_one_line(new)) {
            (Some(old), Some(new)) => write!(f, "{field} was {old} and is {new} now"),
            (None, Some(new)) => write!(f, "{field} is {new} now and was not there"),
            (Some(old), None) => write!(f, "{field} was {old} and is gone"),
            (None, None) => f.write_str(field),
        }
    }
}

impl Experiment {
    /// What of the experiment decides the numbers of a run. Its seed stands apart, its model and edits of it are in the spec, and what
    /// is measured after the training, or recorded or kept of it, changes no run.
    pub fn content(&self) -> Self {
        let evaluate_at = EvaluateAt::default();
        let bare = Self { seeds: vec![], model: None, set: vec![], checkpoints: None, ..self.clone() };
        Self { evaluate_at, samples: None, histograms: None, ..bare }
    }
}

impl RunInfo {
    /// A hash of everything that decides the numbers of a run: spec, graph, seed, data, and the experiment but for its seeds.
    pub fn content(&self, experiment: &Experiment) -> String {
        self.content_of(&format!("{}\n{}", self.spec_hash, self.graph_hash), experiment)
    }

    /// The same for a cell of a grid, whose model counts up to the names of its bindings: one that is renamed keeps its cells.
    pub fn cell(&self, experiment: &Experiment) -> String {
        match &self.structure {
            Some(structure) => self.content_of(structure, experiment),
            None => self.content(experiment),
        }
    }

    /// Whether two models are one under other names.
    pub fn is_renamed(&self, other: &Self) -> bool {
        self.structure.is_some() && self.structure == other.structure && self.spec_hash != other.spec_hash
    }

    fn content_of(&self, model: &str, experiment: &Experiment) -> String {
        let Self { seed, data_hash, start, .. } = self;
        let data = data_hash.as_deref().unwrap_or_default();
        let start = start.as_ref().map_or("", |start| &start.sha256);
        let text = format!("{model}\n{seed}\n{data}\n{start}\n{}", experiment.content().to_yaml());
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl SavedRun {
    /// In which fields a run of this spec, experiment and identity differs from that in the folder.
    pub fn changes(&self, spec: &str, experiment: &Experiment, info: &RunInfo) -> Vec<Change> {
        let mut found = vec![];
        let specs = [self.info.written, info.written] == [ModelForm::Spec; 2];
        if specs && self.info.spec_hash != info.spec_hash {
            found.extend(changes(&spec_fields(&self.spec), &spec_fields(spec)));
        }
        found.extend(experiment_changes(&self.experiment, experiment));
        let until = |info: &RunInfo| info.until.map(|until| until.to_string());
        let weights = |info: &RunInfo| start(info.start.as_ref().map(|start| &start.sha256));
        let hashes = [
            ("weights at its start", weights(&self.info), weights(info)),
            ("seed", Some(self.info.seed.to_string()), Some(info.seed.to_string())),
            ("trained on to update", until(&self.info), until(info)),
            ("data", start(self.info.data_hash.as_ref()), start(info.data_hash.as_ref())),
            ("graph", start(Some(&self.info.graph_hash)), start(Some(&info.graph_hash))),
        ];
        // The graph follows from the spec, and data that are not known are no others.
        let stands_alone = found.is_empty();
        for (field, old, new) in hashes {
            let tells = match field {
                "data" => old.is_some() && new.is_some(),
                "graph" => stands_alone,
                _ => true,
            };
            if tells && old != new {
                found.push(Change { field: field.to_owned(), old, new });
            }
        }
        found
    }
}

/// The start of a hash.
fn start(hash: Option<&String>) -> Option<String> {
    hash.map(|hash| hash.chars().take(8).collect())
}

/// In which fields the newer of two experiments differs, their seeds not counted.
fn experiment_changes(old: &Experiment, new: &Experiment) -> Vec<Change> {
    changes(&experiment_fields(old), &experiment_fields(new))
}

fn changes(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Change> {
    let mut fields: Vec<&String> = old.keys().chain(new.keys()).collect();
    fields.sort();
    fields.dedup();
    let of =
        |field: &String| Change { field: field.clone(), old: old.get(field).cloned(), new: new.get(field).cloned() };
    fields.into_iter().map(of).filter(|change| change.old != change.new).collect()
}

/// The fields of an experiment by their paths; those without a value are left out.
fn experiment_fields(experiment: &Experiment) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let value = serde_json::to_value(experiment.content()).expect("an experiment holds nothing that JSON can't");
    flatten(&value, "", &mut fields);
    fields
}

fn flatten(value: &Value, path: &str, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(block) => {
            for (key, value) in block {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(value, &path, fields);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(fields.insert(path.to_owned(), text.clone())),
        Value::Array(items) if items.is_empty() => {}
        other => drop(fields.insert(path.to_owned(), other.to_string())),
    }
}

/// The fields of a complete spec by their paths: of `recur depthwise { gate mlp { hidden: 16 } }` they are `depthwise.gate`, which
/// is `mlp`, and `depthwise.gate.hidden`.
fn spec_fields(text: &str) -> BTreeMap<String, String> {
    let (mut fields, mut path): (_, Vec<String>) = (BTreeMap::new(), vec![]);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    for line in lines {
        if line == "}" {
            path.pop();
            continue;
        }
        if let Some((field, value)) = line.split_once(": ").filter(|(field, _)| is_name(field)) {
            fields.insert(joined(&path, field), value.to_owned());
            continue;
        }
        let (head, inside) = line.split_once('{').map_or((line, None), |(head, inside)| (head, Some(inside)));
        let block = opened(&mut fields, &path, head.trim());
        match inside.map(str::trim) {
            None => {}
            Some("") => path.push(block),
            Some(inside) => {
                path.push(block);
                for part in parts(inside.trim_end_matches('}')) {
                    if let Some((field, value)) = part.split_once(": ") {
                        fields.insert(joined(&path, field), value.to_owned());
                    }
                }
                path.pop();
            }
        }
    }
    fields
}

/// Notes a statement with its variant, and gives what its fields stand below; nothing of the model itself.
fn opened(fields: &mut BTreeMap<String, String>, path: &[String], head: &str) -> String {
    let (slot, variant) = head.split_once(' ').unwrap_or((head, ""));
    if slot == "model" {
        return String::new();
    }
    let name = if BY_VARIANT.contains(&slot) && !variant.is_empty() { variant } else { slot };
    let numbered = |n: usize| if n == 1 { name.to_owned() } else { format!("{name}[{n}]") };
    let name = (1..).map(numbered).find(|name| !fields.contains_key(&joined(path, name)));
    let name = name.expect("there is always another number");
    fields.insert(joined(path, &name), if variant.is_empty() { slot } else { variant }.to_owned());
    name
}

fn joined(path: &[String], name: &str) -> String {
    let parts = path.iter().map(String::as_str).filter(|part| !part.is_empty());
    parts.chain([name]).collect::<Vec<_>>().join(".")
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The parts of a text between commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0_i32, 0, vec![]);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(text[from..].trim());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "\
/// A model.
model tiny {
    dropout: 0.1
    embed { tokens: start_end, width: 16 }
    recur depthwise {
        depth: min(log(length, 2), 8)
        gate mlp { hidden: 16 }
        attend self { bias: alibi(1, 2), heads: 2 }
        feedforward { hidden: 16 }
        feedforward { hidden: 32 }
    }
    readout end
}
";

    #[test]
    fn fields_of_a_spec_have_the_paths_of_its_edits() {
        let fields = spec_fields(SPEC);
        let at = |path: &str| fields.get(path).map(String::as_str);
        assert_eq!(at("dropout"), Some("0.1"));
        assert_eq!(at("depthwise.depth"), Some("min(log(length, 2), 8)"));
        assert_eq!((at("depthwise.gate"), at("depthwise.gate.hidden")), (Some("mlp"), Some("16")));
        assert_eq!((at("depthwise.self.bias"), at("depthwise.self.heads")), (Some("alibi(1, 2)"), Some("2")));
        assert_eq!(
            (at("depthwise.feedforward.hidden"), at("depthwise.feedforward[2].hidden")),
            (Some("16"), Some("32"))
        );
        assert_eq!((at("readout"), at("embed.width")), (Some("end"), Some("16")));
    }

    #[test]
    fn changes_say_the_field_and_both_values() {
        let other = SPEC.replace("gate mlp { hidden: 16 }", "gate none").replace("width: 16", "width: 8");
        let text = |found: Vec<Change>| found.iter().map(Change::to_string).collect::<Vec<_>>();
        assert_eq!(
            text(changes(&spec_fields(SPEC), &spec_fields(&other))),
            [
                "depthwise.gate was mlp and is none now",
                "depthwise.gate.hidden was 16 and is gone",
                "embed.width was 16 and is 8 now"
            ]
        );
        let old = crate::experiment::ExperimentFile::embedded("listops_smoke").expect("embedded");
        let of = |edits: &[&str]| {
            let edits: Vec<String> = edits.iter().map(|edit| (*edit).to_owned()).collect();
            old.resolve(None, &edits).expect("valid")
        };
        let new = of(&["batch.size=7", "patience=3", "seeds=[5]", "set=[embed.width=8]"]);
        let found = text(experiment_changes(&of(&["patience=null"]), &new));
        assert!(found[0].starts_with("batch.size was ") && found[0].ends_with(" and is 7 now"), "{found:?}");
        assert_eq!(found[1..], ["patience is 3 now and was not there".to_owned()]);
    }

    #[test]
    fn seeds_of_others_and_edits_are_no_content() {
        let file = crate::experiment::ExperimentFile::embedded("listops_smoke").expect("embedded");
        let of = |edit: &str| file.resolve(None, &[edit.to_owned()]).expect("valid");
        let info = RunInfo { seed: 3, ..RunInfo::default() };
        let content = info.content(&of("seeds=[3]"));
        assert_eq!(content, info.content(&of("seeds=[1, 2, 3]")));
        assert_eq!(content, info.content(&of("set=[embed.width=8]")));
        assert_ne!(content, info.content(&of("batch.size=7")));
        assert_ne!(content, RunInfo { seed: 4, ..info.clone() }.content(&of("seeds=[3]")));
        assert_ne!(content, RunInfo { data_hash: Some("d".to_owned()), ..info }.content(&of("seeds=[3]")));
    }
}
