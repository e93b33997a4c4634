//! `rtc schema`: what it allows is what experiments may say, and the reverse.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::Place;
use rtc_runs::experiment::{EMBEDDED, ExperimentFile};
use serde_json::{Map, Value, json};

/// A schema with its definitions.
struct Schema(Value);

impl Schema {
    fn printed() -> Self {
        Self(Place::new().rtc(&["schema"]).code(0).json())
    }

    /// What a schema refers to, if it does.
    fn target<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let path = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        path.map_or(schema, |path| self.0.pointer(path).unwrap_or_else(|| panic!("there is no {path}")))
    }

    /// Why a value does not fit, if it does not. Every word of the schema must be one that is checked here.
    fn fault(&self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        let Some(rules) = schema.as_object() else {
            return (schema != &json!(true)).then(|| format!("{path}: nothing is allowed"));
        };
        rules.iter().find_map(|(rule, with)| self.broken(rule, with, (rules, value), path))
    }

    fn broken(
        &self,
        rule: &str,
        with: &Value,
        (rules, value): (&Map<String, Value>, &Value),
        path: &str,
    ) -> Option<String> {
        let fits = |schema: &Value| self.fault(schema, value, path).is_none();
        let number = |with: &Value| with.as_f64().expect("a number");
        let wrong = |holds: bool| (!holds).then(|| format!("{path}: {value} breaks {rule} {with}"));
        let all = || with.as_array().expect("a list").iter();
        match rule {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | "examples" | "then" => None,
            "$ref" => self.fault(self.target(&json!({ "$ref": with })), value, path),
            "type" => {
                let names = with.as_array().cloned().unwrap_or_else(|| vec![with.clone()]);
                let is = |name: &Value| match name.as_str().expect("a name") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|v| v.fract() == 0.0),
                    other => panic!("there is no type {other}"),
                };
                wrong(names.iter().any(is))
            }
            "const" => wrong(value == with),
            // A name with a count, or that of a metric of one's own.
            "pattern" if with == "^top_[1-9][0-9]*$" => {
                let count = value.as_str().and_then(|name| name.strip_prefix("top_"));
                let digits = |count: &&str| count.chars().all(|c| c.is_ascii_digit()) && !count.starts_with('0');
                wrong(count.filter(digits).is_some_and(|count| !count.is_empty()))
            }
            "pattern" => {
                assert_eq!(with, "^[a-z][a-z0-9_]*_(error|cost|score)$", "{path}: this pattern is not checked");
                let begin = value
                    .as_str()
                    .and_then(|name| ["_error", "_cost", "_score"].into_iter().find_map(|end| name.strip_suffix(end)));
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                wrong(begin.is_some_and(|begin| {
                    begin.starts_with(|c: char| c.is_ascii_lowercase()) && begin.chars().all(plain)
                }))
            }
            "propertyNames" => {
                let names = value.as_object().into_iter().flat_map(|fields| fields.keys());
                names.map(|name| Value::from(name.as_str())).find_map(|name| self.fault(with, &name, path))
            }
            "minProperties" => wrong(value.as_object().is_none_or(|fields| fields.len() as f64 >= number(with))),
            "maxProperties" => wrong(value.as_object().is_none_or(|fields| fields.len() as f64 <= number(with))),
            "enum" => wrong(all().any(|one| one == value)),
            "anyOf" => wrong(all().any(fits)),
            "oneOf" => wrong(all().filter(|schema| fits(schema)).count() == 1),
            "allOf" => all().find_map(|schema| self.fault(schema, value, path)),
            "not" => wrong(!fits(with)),
            "if" => rules.get("then").filter(|_| fits(with)).and_then(|then| self.fault(then, value, path)),
            "minimum" => wrong(value.as_f64().is_none_or(|v| v >= number(with))),
            "maximum" => wrong(value.as_f64().is_none_or(|v| v <= number(with))),
            "minItems" => wrong(value.as_array().is_none_or(|list| list.len() as f64 >= number(with))),
            "maxItems" => wrong(value.as_array().is_none_or(|list| list.len() as f64 <= number(with))),
            "items" => {
                value.as_array().into_iter().flatten().find_map(|item| self.fault(with, item, &format!("{path}[]")))
            }
            "required" => wrong(
                value
                    .as_object()
                    .is_none_or(|fields| all().all(|name| fields.contains_key(name.as_str().expect("a name")))),
            ),
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .find_map(|(name, value)| self.fault(with.get(name)?, value, &format!("{path}.{name}"))),
            "additionalProperties" => {
                let known = rules.get("properties");
                let other = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| known.is_none_or(|known| known.get(name).is_none()));
                let mut faults = other.filter_map(|(name, value)| self.fault(with, value, &format!("{path}.{name}")));
                faults.next()
            }
            other => panic!("{path}: `{other}` is not checked"),
        }
    }

    fn refuses(&self, value: &Value) -> Option<String> {
        self.fault(&self.0, value, "")
    }

    /// The names of the fields of a block, by its path.
    fn fields(&self, path: &[&str]) -> BTreeSet<String> {
        let mut here = &self.0;
        for name in path {
            here = &here["properties"][name];
            // Every field may be null.
            here = self.target(here.get("anyOf").map_or(here, |either| &either[0]));
            here = self.target(here.get("anyOf").map_or(here, |either| &either[0]));
        }
        here["properties"]
            .as_object()
            .unwrap_or_else(|| panic!("{path:?} has no fields: {here}"))
            .keys()
            .cloned()
            .collect()
    }
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const WHOLE: &str = "\
task: { name: listops }
optimiser: { learning_rate: 0.1 }
schedule: { kind: constant }
batch: { size: 2 }
epochs: 1
evaluate: [test]
";

#[test]
fn every_experiment_of_the_program_is_allowed() {
    let schema = Schema::printed();
    assert_eq!(schema.0["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (name, text) in EMBEDDED {
        assert_eq!(schema.refuses(&yaml(text)), None, "{name}");
    }
}

/// The blocks of the pages that are experiments, whole ones or parts.
#[test]
fn every_documented_experiment_is_allowed() {
    let schema = Schema::printed();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut count = 0;
    for page in ["experiments.md", "sweeps.md", "own_data.md", "editor.md", "own_layers.md"] {
        let text = fs::read_to_string(docs.join(page)).expect(page);
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let mut value = yaml(block);
            let Some(fields) = value.as_object_mut() else { continue };
            // Part of a file is no less right than one that extends another.
            fields.entry("extends").or_insert(json!("listops_smoke"));
            assert_eq!(schema.refuses(&value), None, "{page}:\n{block}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// The reader says of an unknown field which ones it knows.
#[test]
fn the_reader_and_the_schema_know_the_same_fields() {
    let schema = Schema::printed();
    let file = ExperimentFile::parse("x.yaml", WHOLE).expect("it is right");
    let mut beside = schema.fields(&[]);
    for path in [
        &[][..],
        &["task"],
        &["optimiser"],
        &["optimiser", "most"],
        &["optimiser", "lookahead"],
        &["schedule"],
        &["batch"],
        &["fresh"],
        &["fresh", "curriculum"],
        &["ema"],
    ] {
        let edit = path.iter().copied().chain(["zzzzzzzz=1"]).collect::<Vec<_>>().join(".");
        let error = file.resolve(None, &[edit]).expect_err("the field is unknown").message;
        let (_, known) = error.split_once("expected ").unwrap_or_else(|| panic!("{path:?}: {error}"));
        let known: BTreeSet<String> = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let mut fields = schema.fields(path);
        match path {
            [] => fields.retain(|name| known.contains(name)),
            // Short for a program in `data`.
            ["task"] => assert!(fields.remove("command")),
            _ => {}
        }
        assert_eq!(fields, known, "{path:?}");
        if path.is_empty() {
            beside.retain(|name| !known.contains(name));
        }
    }
    let expected = ["baseline", "compare", "extends", "grid", "halving", "models"].map(str::to_owned);
    assert_eq!(beside, BTreeSet::from(expected));
}

#[test]
fn every_documented_field_is_in_the_schema() {
    let schema = Schema::printed();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments.md")).expect("the page");
    let (_, table) = page.split_once("## Fields").expect("a table of fields");
    let rows = table
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut documented = BTreeSet::new();
    for path in rows {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, block) = parts.split_last().expect("a name");
        assert!(schema.fields(block).contains(*last), "{path}");
        documented.insert(parts[0].to_owned());
    }
    assert_eq!(documented, schema.fields(&[]), "every field of a file is documented");
}

/// What both refuse, and what both take.
#[test]
fn mistakes_are_refused_by_both() {
    let schema = Schema::printed();
    let read = |text: &str| ExperimentFile::parse("x.yaml", text).err().map(|error| error.to_string());
    for wrong in [
        "optimiser: { learning_rate: fast }",
        "optimiser: { learning_rate: 0.1, kind: rmsprop }",
        "optimiser: { learning_rate: 0.1, betas: [0.1] }",
        "optimiser: {}",
        "batch: { size: -1 }",
        "batch: { size: 2.5 }",
        "schedule: { kind: step }",
        "schedule: { kind: constant, warm_up: 5 }",
        "task: { name: no_such_task }",
        "task: { name: listops, options: { train_len: 5 } }",
        "task: { name: listops, options: { train_length: -1 } }",
        "task: { sizes: { train: 5 } }",
        "ema: {}",
        "fresh: { curriculum: { from: 1 } }",
        "evaluate: test",
        "seeds: 1",
        "choose: worst",
        "compare: [{ name: x }]",
        "compare: [{ spec: gut, sets: [] }]",
        "compare: gut",
        "compare: [7]",
        "model: ut\ngrid: 5",
        "model: ut\ngrid: { batch.size: 8 }",
        "model: ut\ngrid: { batch.size: { from: 1, too: 2 } }",
        "model: ut\ngrid: { batch.size: { from: 1, to: 2, steps: 2, scale: cubic } }",
        "model: ut\ngrid: { batch.size: [8], random: { seed: 1 } }",
        "model: ut\ngrid: { batch.size: [8], random: { count: 1, sed: 1 } }",
        "model: ut\ngrid: { set: [8] }",
        "halving: { keep: 1/3 }",
        "halving: { keep: 1/3, at: [5], ad: 1 }",
        "halving: { keep: [1], at: [5] }",
        "models: { gut: { batch: { sise: 5 } } }",
        "models: { gut: { compare: [gut] } }",
        "models: { gut: 5 }",
        "baseline: [gut]",
        "no_such_field: 1",
    ] {
        let key = wrong.lines().last().and_then(|line| line.split(':').next()).unwrap_or_default();
        let rest: String = WHOLE
            .lines()
            .filter(|line| !line.starts_with(&format!("{key}:")))
            .map(|line| format!("{line}\n"))
            .collect();
        let text = format!("{rest}{wrong}\n");
        assert!(read(&text).is_some(), "the reader takes {wrong}");
        assert!(schema.refuses(&yaml(&text)).is_some(), "the schema takes {wrong}");
    }
    for right in [
        "optimiser: { learning_rate: 1e-3, kind: muon, momentum: 0.9, muon_step: original }",
        "optimiser: { learning_rate: 1, kind: adam_atan2 }",
        "optimiser: { learning_rate: 1, kind: ranger, lookahead: { every: 5 }, rectify_from: 5 }",
        "compare: [gut, { spec: ut, name: x, set: [a=1], with: [epochs=2] }]\nbaseline: x",
        "model: ut\ngrid: { batch.size: [8, 16], optimiser.learning_rate: { from: 1e-4, to: 1e-2, scale: log }, random: { count: 3 } }",
        "model: ut\ngrid: { set: { depthwise.depth: [4, 8] } }",
        "halving: { keep: 0.5, at: [2, 4] }",
        "metrics: [macro_f1, top_3, calibration_error]\nchoose: top_10",
        "choose: exact",
        "models: { gut: { batch: { size: 5 } }, \"gut:no_gate\": {} }",
        "task: { name: listops, options: { train_length: 50 }, sizes: { train: 10 }, seed: 3 }",
        "task: { name: table, data: { train: a.csv, dev: 10%, test: b.csv }, input: 2, label: b, answer: labels, given: { x: y } }",
        "task: { name: table, data: { command: [sh, x.sh] }, sizes: { train: 1, dev: 1, test: 1 }, given: [x] }",
        "task: { name: pairs, data: { train: a.csv, dev: 10%, test: b.csv }, input: [a, 2], label: b }",
        "task: { command: sh x.sh, sizes: { train: 1, dev: 1, test: 1 } }",
    ] {
        let key = right.lines().last().and_then(|line| line.split(':').next()).unwrap_or_default();
        let rest: String = WHOLE
            .lines()
            .filter(|line| !line.starts_with(&format!("{key}:")))
            .map(|line| format!("{line}\n"))
            .collect();
        let text = format!("{rest}{right}\n");
        assert_eq!(read(&text), None, "{right}");
        assert_eq!(schema.refuses(&yaml(&text)), None, "{right}");
    }
    let extending = "extends: listops_smoke\noptimiser: { clip: 1 }\npatience: null\nmodels: { tlb: null }\n";
    assert_eq!((read(extending), schema.refuses(&yaml(extending))), (None, None));
    assert!(schema.refuses(&yaml("optimiser: { clip: 1 }")).is_some(), "a file that stands alone is complete");
}
