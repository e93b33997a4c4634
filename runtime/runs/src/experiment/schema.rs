//! The JSON Schema of experiment files, for editors: derived from the types that the files are read into.
//!
//! A file may extend another one, so nothing is required in it unless it stands alone, and `null` is the default again.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::compare::Listed;
use super::halving::Halved;
use super::sweep::Swept;
use super::{EMBEDDED, Experiment};
use rtc_task::{OWN_TASKS, TASKS, TaskDescription};

/// What a file says besides the settings of a model.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its form is read")]
struct Beside {
    /// The experiment that this one is laid over: one of the program, or a file in the same folder.
    extends: String,
    /// What is different for some models, by their names.
    models: BTreeMap<String, Experiment>,
    /// The models that a grid compares.
    compare: Vec<Listed>,
    /// The name of the entry of `compare` that the others are compared with.
    baseline: String,
    /// Several rows of every entry of `compare`, or of `model`.
    grid: Swept,
    /// Stops the worst rows of a grid.
    halving: Halved,
}

/// The schema (draft 2020-12) of an experiment file.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let beside = generator.root_schema_for::<Beside>().to_value();
    let root = generator.into_root_schema_for::<Experiment>().to_value();
    let (mut alone, mut fields) = (required(&root, &root), properties(&root));
    alone["properties"]["halving"] = required(&beside, &beside["properties"]["halving"]);
    fields.extend(properties(&beside));
    fields["extends"]["examples"] = EMBEDDED.iter().map(|(name, _)| *name).collect();
    // A program that makes the rows is a task without a name.
    alone["properties"]["task"] = json!({ "anyOf": [{ "required": ["name"] }, { "required": ["command"] }] });
    let mut whole = json!({
        "$schema": root["$schema"], "title": "An experiment of rtc", "type": "object",
        "properties": fields, "additionalProperties": false, "$defs": root["$defs"],
    });
    loosen(&mut whole);
    tasks(&mut whole["$defs"]["TaskSettings"]);
    whole["if"] = json!({ "not": { "required": ["extends"] } });
    whole["then"] = alone;
    whole
}

/// The numbers that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedNumbers {
    /// Whole ones alone.
    Whole,
    /// Any.
    Any,
}

/// Which numbers the setting of this path takes; nothing of one that takes none, or that is not known.
pub(super) fn numbers(path: &str) -> Option<AcceptedNumbers> {
    let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Experiment>().to_value();
    let mut form = form(&root, &root);
    for key in path.split('.') {
        let field = form.get("properties").and_then(|fields| fields.get(key));
        // Options of tasks are whole; the names of other blocks are the user's.
        form = self::form(&root, field.or_else(|| form.get("additionalProperties"))?);
    }
    let is =
        |kind: &str| form["type"] == kind || form["type"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()));
    if is("integer") { Some(AcceptedNumbers::Whole) } else { is("number").then_some(AcceptedNumbers::Any) }
}

/// Returns the paths of all fields of an experiment that have this name, outer blocks first.
pub(super) fn paths(name: &str) -> Vec<String> {
    let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Experiment>().to_value();
    let (mut found, mut open) = (vec![], VecDeque::from([(String::new(), &root)]));
    while let Some((path, schema)) = open.pop_front() {
        let fields = form(&root, schema).get("properties").and_then(Value::as_object);
        for (key, field) in fields.into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            found.extend((key == name).then(|| path.clone()));
            open.push_back((path, field));
        }
    }
    found
}

/// A form, found by its name, without the `null` of one that may be left out.
fn form<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let named = [schema, &schema["anyOf"][0]].into_iter().find_map(|schema| schema["$ref"].as_str());
    let found = named.and_then(|path| root.pointer(path.strip_prefix('#')?));
    found.or_else(|| schema.get("anyOf")?.get(0)).unwrap_or(schema)
}

fn properties(schema: &Value) -> Map<String, Value> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

/// What a block needs, with the blocks in it. One that may be left out is its form, or `null`.
fn required(root: &Value, schema: &Value) -> Value {
    let schema = form(root, schema);
    let mut needs = Map::new();
    needs.extend(schema.get("required").map(|names| ("required".to_owned(), names.clone())));
    let inner = properties(schema).into_iter().map(|(name, field)| (name, required(root, &field)));
    let inner: Map<String, Value> = inner.filter(|(_, needs)| *needs != json!({})).collect();
    if !inner.is_empty() {
        needs.insert("properties".to_owned(), inner.into());
    }
    needs.into()
}

/// Names of tasks, the options of each, and the short form of a program.
fn tasks(schema: &mut Value) {
    let own = OWN_TASKS.iter().map(|(name, doc)| (*name, *doc));
    let all = TASKS.iter().map(|task| (task.name(), task.about().doc)).chain(own);
    let names: Value = all.map(|(name, doc)| json!({ "const": name, "description": doc })).collect();
    schema["properties"]["name"] = json!({ "description": "Name of the task.", "oneOf": names });
    schema["properties"]["command"] = json!({
        "description": "Short for a `table` whose `data` is a program that prints the rows.",
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
    });
    schema["allOf"] = TASKS.iter().map(|task| options(&task.about())).collect();
}

/// The options of one task. Those of another one may be taken back.
fn options(about: &TaskDescription) -> Value {
    let field = |field: &rtc_task::OptionField| {
        let form = json!({
            "type": ["integer", "null"], "minimum": field.least, "maximum": field.most, "default": field.default,
            "description": field.doc,
        });
        (field.name.to_owned(), form)
    };
    let fields: Map<String, Value> = about.options.iter().map(field).collect();
    json!({
        "if": { "properties": { "name": { "const": about.name } }, "required": ["name"] },
        "then": { "properties": { "options": { "properties": fields, "additionalProperties": { "type": "null" } } } },
    })
}

/// Blocks that no file below can complete: those of lists, and those that stand for one value.
const WHOLE: [&str; 4] = ["Block", "Between", "Drawn", "Program"];

/// Nothing is required and every field may be `null`; texts have no links of the program's documentation.
fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::Object(inner) if name == "properties" => inner.values_mut().for_each(or_null),
                    Value::Object(_) if name == "additionalProperties" => or_null(value),
                    Value::Object(inner) if name == "$defs" => {
                        let partial = inner.iter_mut().filter(|(name, _)| !WHOLE.contains(&name.as_str()));
                        let blocks = partial.filter_map(|(_, block)| block.as_object_mut());
                        blocks.for_each(|block| drop(block.shift_remove("required")));
                    }
                    Value::String(text) if name == "description" => *text = text.replace("[`", "`").replace("`]", "`"),
                    _ => {}
                }
                loosen(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(loosen),
        _ => {}
    }
}

/// The same, or `null`.
fn or_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_word = fields.contains_key("const") || fields.contains_key("enum");
    match fields.get_mut("type") {
        Some(kind) if kind.is_string() && !is_word => *kind = json!([kind.take(), "null"]),
        Some(Value::Array(_)) => {}
        _ => {
            let description = fields.shift_remove("description");
            *schema = json!({ "anyOf": [schema.take(), { "type": "null" }] });
            description.into_iter().for_each(|text| schema["description"] = text);
        }
    }
}
