//! The models that a grid compares: the list `compare` of an experiment.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_yaml::Value;

use super::layers::ExperimentLayers;
use super::place::word;
use crate::error::ExperimentError;
use rtc_task::error::{hint, unknown};

/// One model of a comparison: a row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedModel {
    /// The spec as it is written: `gut`, `gut:no_gate`, `models/mine.rt`.
    pub spec: String,
    /// What the table calls it.
    pub name: String,
    /// Edits of the spec, after those of the experiment.
    pub set: Vec<String>,
    /// Edits of the experiment for it, as with `--with` on the command line, which come after them.
    pub with: Vec<String>,
    /// The file that has the entry.
    pub file: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// The byte behind the name of the spec.
    pub(super) offset: usize,
}

/// An entry as it is written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its form is read")]
pub(super) enum Listed {
    /// A spec: `gut`, `gut:no_gate`, `models/mine.rt`.
    Spec(String),
    /// A spec with its edits.
    Edited(EditedModel),
}

/// An entry that says more than its spec.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Block")]
#[serde(deny_unknown_fields)]
pub(super) struct EditedModel {
    /// The spec: `gut`, `gut:no_gate`, `models/mine.rt`.
    spec: String,
    /// What the table calls it.
    name: Option<String>,
    /// Edits of the spec, after those of the experiment.
    #[serde(default)]
    set: Vec<String>,
    /// Edits of the experiment for it, as with `--with` on the command line.
    #[serde(default)]
    with: Vec<String>,
}

/// The key of the list.
const KEY: &str = "compare";

const FIELDS: [&str; 4] = ["spec", "name", "set", "with"];

impl ComparedModel {
    /// The `model` of an experiment as the only entry.
    pub(super) fn of_model(layers: &ExperimentLayers, model: &str) -> Self {
        let (layer, offset) = layers.key(&["model"]).unwrap_or((layers.own(), 0));
        let (file, line, name) = (layer.name.clone(), layer.line_at(offset), without_ending(model));
        Self { spec: model.to_owned(), name, set: vec![], with: vec![], file, line, offset }
    }

    /// The name as the name of a folder: what is no letter, digit, `-`, `_` or `.` is left out or becomes `.` or `-`.
    pub fn folder(&self) -> String {
        let mut out = String::new();
        for c in self.name.replace(':', ".").chars() {
            match c {
                _ if c.is_alphanumeric() || matches!(c, '_' | '.') => out.push(c),
                _ if !out.ends_with('-') => out.push('-'),
                _ => {}
            }
        }
        let name = out.trim_matches(['-', '.']);
        if name.is_empty() { "model".to_owned() } else { name.to_owned() }
    }
}

/// Reads the list.
pub(super) fn read(layers: &ExperimentLayers, list: &Value) -> Result<Vec<ComparedModel>, ExperimentError> {
    let (layer, start) = layers.key(&[KEY]).unwrap_or((layers.own(), 0));
    let text = &layer.text;
    let Some(items) = list.as_sequence().filter(|items| !items.is_empty()) else {
        let message = "`compare` is a list of models, as in `[gut, gut:no_gate]`";
        return Err(layer.error(Some(layer.line_at(start)), message));
    };
    // The key may stand anywhere in its line, or be written with escapes.
    let mut from = text[start..].find(KEY).map_or(start, |at| start + at + KEY.len());
    let mut entries: Vec<ComparedModel> = vec![];
    for item in items {
        let fail = |line, message: String| Err(layer.error(Some(line), format!("`compare`: {message}")));
        let block = match block(item) {
            Ok(block) => block,
            Err((at, message)) => {
                let place = at.and_then(|at| word(text, from, &at)).unwrap_or(from);
                return fail(layer.line_at(place), message);
            }
        };
        let place = word(text, from, &block.spec);
        from = place.map_or(from, |place| place + block.spec.len());
        let line = layer.line_at(place.unwrap_or(start));
        let name = block.name.unwrap_or_else(|| {
            let words = [std::slice::from_ref(&block.spec), &block.set, &block.with].concat();
            without_ending(&words.join(" "))
        });
        let EditedModel { spec, set, with, .. } = block;
        let entry = ComparedModel { spec, name, set, with, file: layer.name.clone(), line, offset: from };
        if let Some(same) = entries.iter().find(|other| other.folder() == entry.folder()) {
            let message = format!("`{}` and `{}` need names that differ: add `name`", same.name, entry.name);
            return fail(line, message);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Names of specs without their ending; that of a graph tells it from its spec.
fn without_ending(text: &str) -> String {
    let word = |word: &str| if word.ends_with(".rtir") { word.to_owned() } else { word.replace(".rt", "") };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Reads `baseline`: the name of an entry.
pub(super) fn baseline(row: &Value, entries: &[ComparedModel]) -> Result<String, String> {
    let name = row.as_str().ok_or("`baseline` is the name of an entry of `compare`")?;
    let known = entries.iter().map(|entry| &entry.name);
    match known.clone().any(|entry| entry == name) {
        true => Ok(name.to_owned()),
        false => Err(format!("`baseline`: {}", unknown("entry of `compare`", name, known))),
    }
}

/// A spec's name alone, or a block with its edits. The error is the word that is wrong, if it is one, and a sentence.
fn block(item: &Value) -> Result<EditedModel, (Option<String>, String)> {
    if let Some(spec) = item.as_str() {
        return Ok(EditedModel { spec: spec.to_owned(), name: None, set: vec![], with: vec![] });
    }
    let Some(fields) = item.as_mapping() else {
        return Err((
            None,
            "an entry is the name of a spec, or a block with `spec`, `name`, `set` and `with`".to_owned(),
        ));
    };
    for field in fields.keys().map(|key| key.as_str().unwrap_or_default()) {
        if !FIELDS.contains(&field) {
            let message =
                format!("an entry has no field `{field}`{} (known: {})", hint(field, &FIELDS), FIELDS.join(", "));
            return Err((Some(format!("{field}:")), message));
        }
    }
    if !fields.contains_key("spec") {
        return Err((None, "an entry needs a `spec`".to_owned()));
    }
    let spec = fields.get("spec").and_then(Value::as_str).map(str::to_owned);
    let message = "`spec` and `name` are texts, `set` and `with` are lists of texts".to_owned();
    serde_yaml::from_value(item.clone()).map_err(|_| (spec, message))
}

#[cfg(test)]
mod tests {
    use super::super::ExperimentFile;

    const REST: &str = "task: { name: listops }\noptimiser: { learning_rate: 0.1 }\nschedule: { kind: constant }\n\
                        batch: { size: 2 }\nepochs: 1\nevaluate: [test]\n";

    fn parse(list: &str) -> Result<ExperimentFile, String> {
        ExperimentFile::parse("x.yaml", &format!("{REST}compare:{list}\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn entries_are_names_or_blocks_with_their_lines() {
        let list = "\n  - ut\n  - gut:no_gate\n  - { spec: gut, name: \"GUT, 20 steps\", set: [depthwise.depth=20] }\n  \
                - spec: lib/a.rt\n    set:\n      - embed.width=8\n  - { spec: ut, with: [epochs=2] }\n";
        let file = parse(list).expect("valid");
        let seen: Vec<_> = file.compare().iter().map(|e| (e.spec.as_str(), e.name.as_str(), e.line)).collect();
        assert_eq!(file.compare()[4].with, ["epochs=2"]);
        let expected = [
            ("ut", "ut", 8),
            ("gut:no_gate", "gut:no_gate", 9),
            ("gut", "GUT, 20 steps", 10),
            ("lib/a.rt", "lib/a embed.width=8", 11),
            ("ut", "ut epochs=2", 14),
        ];
        assert_eq!(seen, expected);
        let folders: Vec<_> = file.compare().iter().map(super::ComparedModel::folder).collect();
        assert_eq!(folders, ["ut", "gut.no_gate", "GUT-20-steps", "lib-a-embed.width-8", "ut-epochs-2"]);
        let line = |entry| file.written_in(entry)[0].as_ref().map(|found| found.line);
        assert_eq!((line(&file.compare()[2]), line(&file.compare()[3])), (Some(10), Some(13)));
    }

    #[test]
    fn mistakes_have_a_line_and_a_cure() {
        let cases = [
            (" gut", "`compare` is a list"),
            (" []", "`compare` is a list"),
            ("\n  - gut\n  - 7", "x.yaml:8: `compare`: an entry is the name of a spec"),
            ("\n  - gut\n  - { name: x }", "an entry needs a `spec`"),
            (
                "\n  - ut\n  - { spec: gut, nam: x }",
                "x.yaml:9: `compare`: an entry has no field `nam`; did you mean `name`?",
            ),
            (
                "\n  - { spec: gut, set: x=1 }",
                "x.yaml:8: `compare`: `spec` and `name` are texts, `set` and `with` are lists of texts",
            ),
            ("\n  - gut\n  - ut\n  - gut", "x.yaml:10: `compare`: `gut` and `gut` need names that differ"),
        ];
        for (list, expected) in cases {
            let error = parse(list).expect_err(expected);
            assert!(error.contains(expected), "{error} should say {expected}");
        }
    }

    #[test]
    fn the_baseline_is_an_entry() {
        let file = parse(" [gut, ut]\nbaseline: ut").expect("valid");
        assert_eq!(file.baseline(), Some("ut"));
        assert_eq!(parse(" [gut]").expect("valid").baseline(), None);
        let error = parse(" [gut, gut:no_gate]\nbaseline: gut:no_gat").expect_err("a slip");
        assert!(
            error.contains("x.yaml:8: `baseline`: there is no entry of `compare` `gut:no_gat`; did you mean"),
            "{error}"
        );
        assert!(parse(" [gut]\nbaseline: [gut]").expect_err("a list").contains("is the name of an entry"));
    }

    #[test]
    fn blocks_of_no_model_are_refused_with_a_suggestion() {
        let file = parse(" [gut]\nmodels:\n  gut: {}\n  gut:no_gat: { epochs: 2 }").expect("valid");
        let error = file.check_models(&["gut", "gut:no_gate"]).expect_err("a slip");
        assert_eq!(error.line, Some(10));
        assert!(error.message.contains("did you mean `gut:no_gate`?"), "{error}");
        assert_eq!(file.check_models(&["gut:no_gat"]), Ok(()));
    }
}
