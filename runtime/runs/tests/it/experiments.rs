//! The documentation of experiments agrees with the code.

use std::path::Path;

use rtc_compiler::feature::linked;
use rtc_runs::experiment::{EMBEDDED, ExperimentFile};
use rtc_task::{TASKS, Task};
use serde_json::Value;

/// The paths of all fields; blocks whose keys are names chosen by the user or the task count as one field.
fn fields(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(block) if !["options", "sizes", "groups"].iter().any(|named| path.ends_with(named)) => {
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
    let text = include_str!("../../../../docs/experiments.md");
    let edits = [
        "choose=last",
        "fresh.curriculum=null",
        "ema.after=0",
        "schedule.start=20000",
        "inference=flat",
        "supervision=each_step",
        "checkpoints={every: 500, keep: 3}",
        "metrics=[macro_f1]",
        "samples={every: 100, prompts: ['Once upon'], top_k: 20, top_p: 0.9}",
        "histograms={every: 100}",
    ]
    .map(String::from);
    let experiment = ExperimentFile::embedded("looped_parity").expect("embedded").resolve(None, &edits).expect("valid");
    // Those of the file, which no experiment of a model has, and those whose fields are paths.
    let mut found =
        ["extends", "models", "compare", "baseline", "grid", "halving", "evaluate_at"].map(String::from).to_vec();
    fields("", &serde_json::to_value(&experiment).expect("serialisable"), &mut found);
    // Those of one optimiser alone.
    for edits in [
        &["optimiser.kind=muon", "optimiser.muon_step=original"][..],
        &["optimiser.decay=matrices"],
        &["optimiser.trained=[matrices]"],
        &["optimiser.groups={ vectors: { parameters: [vectors], weight_decay: 0 } }"],
        &["schedule.kind=formula", "schedule.formula='1'"],
        &[
            "optimiser.kind=formula",
            "optimiser.formula='p = p - rate * (g + decay * p)'",
            "optimiser.betas=[0.9, 0.999]",
        ],
        &["batch.sampling=balanced"],
        &["loss.class_weights=balanced"],
        &["optimiser.kind=ranger", "optimiser.lookahead.every=6", "optimiser.rectify_from=4"],
    ] {
        let edits: Vec<String> = edits.iter().map(|edit| (*edit).to_owned()).collect();
        let experiment = ExperimentFile::embedded("listops").expect("embedded").resolve(None, &edits).expect("valid");
        let mut own = vec![];
        fields("", &serde_json::to_value(&experiment).expect("serialisable"), &mut own);
        found.extend(own.into_iter().filter(|field| {
            ["optimiser.", "schedule.", "batch.", "loss."].iter().any(|block| field.starts_with(block))
        }));
    }
    found.sort();
    found.dedup();
    let section = text.split("## Fields").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let mut rows: Vec<String> =
        section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_string())).collect();
    rows.sort();
    found.sort();
    assert_eq!(rows, found);
}

/// What two experiments share is said once: one of them extends the other, or both a third.
#[test]
fn no_two_experiments_share_a_run_of_lines() {
    const RUN: usize = 6;
    let lines =
        |text: &'static str| -> Vec<&str> { text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect() };
    let files: Vec<(&str, Vec<&str>)> = EMBEDDED.iter().map(|(name, text)| (*name, lines(text))).collect();
    let mut shared = vec![];
    for (n, (name, lines)) in files.iter().enumerate() {
        for (other, others) in &files[..n] {
            let run = lines.windows(RUN).find(|run| others.windows(RUN).any(|other| other == *run));
            shared.extend(run.map(|run| format!("{name} and {other}:\n{}", run.join("\n"))));
        }
    }
    assert!(shared.is_empty(), "{}", shared.join("\n\n"));
}

/// The source of a task and its tables: options, splits, metrics.
fn tables(task: &dyn Task) -> String {
    let mut text =
        format!("\nSource: {}.\n\n| option | default | meaning |\n|---|---|---|\n", linked(task.about().source));
    let row = |name: &str, number: &dyn std::fmt::Display, doc: &str| format!("| `{name}` | {number} | {doc} |\n");
    text.extend(task.about().options.iter().map(|option| row(option.name, &option.default, option.doc)));
    text += "\n| split | size | meaning |\n|---|---|---|\n";
    text.extend(task.about().splits.iter().map(|split| row(split.name, &split.count, split.doc)));
    if !task.about().metrics.is_empty() {
        text += "\n| metric | meaning |\n|---|---|\n";
        text.extend(task.about().metrics.iter().map(|metric| format!("| `{}` | {} |\n", metric.name, metric.doc)));
    }
    text + "\n"
}

/// The tables of the page are made from the tasks; `RTC_UPDATE=1` writes them.
#[test]
fn every_task_has_its_tables_in_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md");
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let mut expected = text.clone();
    for task in TASKS {
        assert!(
            expected.contains(&format!("\n## {}\n", task.name())),
            "docs/tasks.md has no section on {}",
            task.name()
        );
        let start = format!("<!-- generated:task {} -->\n", task.name());
        let (before, rest) = expected.split_once(&start).unwrap_or_else(|| panic!("there is no {start}"));
        let (_, after) = rest.split_once("<!-- end -->\n").expect("a marker of the end");
        expected = format!("{before}{start}{}<!-- end -->\n{after}", tables(*task));
    }
    if expected != text {
        assert!(std::env::var_os("RTC_UPDATE").is_some(), "docs/tasks.md is not current: run with RTC_UPDATE=1");
        std::fs::write(path, expected).expect("writable");
    }
}
