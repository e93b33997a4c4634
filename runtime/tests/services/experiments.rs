//! The documentation of experiments agrees with the code.

use rtc_runtime::experiment::ExperimentFile;
use rtc_runtime::task::TASKS;
use serde_json::Value;

/// The paths of all fields; blocks whose keys are names chosen by the user or the task count as one field.
fn fields(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(block) if !path.ends_with("options") && !path.ends_with("sizes") => {
            for (key, value) in block {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                fields(&path, value, found);
            }
        }
        _ => found.push(path.to_string()),
    }
}

#[test]
fn every_field_has_a_row_in_the_documentation_and_every_row_a_field() {
    let text = include_str!("../../../docs/experiments.md");
    let experiment = ExperimentFile::embedded("listops").expect("embedded").resolve(None, &[]).expect("valid");
    let mut found = vec!["models".to_string(), "compare".to_string()];
    fields("", &serde_json::to_value(&experiment).expect("serialisable"), &mut found);
    let section = text.split("## Fields").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let mut rows: Vec<String> =
        section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_string())).collect();
    rows.sort();
    found.sort();
    assert_eq!(rows, found);
}

#[test]
fn every_task_option_and_split_is_documented() {
    let text = include_str!("../../../docs/experiments.md");
    for task in TASKS {
        assert!(text.contains(&format!("### {}", task.name())));
        for option in task.options() {
            let row = format!("| `{}` | {} | {} |", option.name, option.default, option.doc);
            assert!(text.contains(&row), "docs/experiments.md lacks the row\n{row}");
        }
        for split in task.splits() {
            let row = format!("| `{}` | {} | {} |", split.name, split.count, split.doc);
            assert!(text.contains(&row), "docs/experiments.md lacks the row\n{row}");
        }
    }
}
