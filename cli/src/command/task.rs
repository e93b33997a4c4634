//! `rtc task`: the tasks, their splits and rows of them.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use rtc_runtime::experiment::TaskSettings;
use rtc_runtime::task::{MAX_EXAMPLES, Objective, OptionValue, Options as TaskOptions, TASKS, TaskHandle};
use rtc_runtime::task::{describe, load_split, open_task, resolve_options, sample, task_named};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use crate::text::{columns, number};

const EXAMPLES: &str = "\
Examples:
  rtc task list
  rtc task describe listops                        options, splits, vocabulary
  rtc task describe listops --split 200-300        lengths and labels of a split
  rtc task sample listops --split args-10 --count 3
  rtc task sample listops --option train_length=20 --seed 7 --json
";

/// Arguments of `rtc task`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

/// What to do with tasks.
#[derive(Subcommand)]
enum Action {
    /// List the tasks
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe a task, or one of its splits
    Describe {
        #[command(flatten)]
        rows: Rows,
        /// Number of examples to describe; as published without it
        #[arg(long, value_name = "N", value_parser = example_count)]
        count: Option<usize>,
    },
    /// Print examples of a split
    Sample {
        #[command(flatten)]
        rows: Rows,
        /// Number of examples
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = example_count)]
        count: usize,
    },
}

/// Examples of a task.
#[derive(Args)]
struct Rows {
    /// The task
    name: String,
    /// The split
    #[arg(long)]
    split: Option<String>,
    /// Seed of the data
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Set an option of the task
    #[arg(long, value_name = "NAME=NUMBER")]
    option: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Reads `--count`.
fn example_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= MAX_EXAMPLES);
    count.ok_or_else(|| format!("a whole number from 0 to {MAX_EXAMPLES} is wanted"))
}

/// Lists, describes or samples.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    match &options.action {
        Action::List { json } => list(*json, terminal)?,
        Action::Describe { rows, count } => match &rows.split {
            None => describe_task(rows, terminal)?,
            Some(split) => describe_split(rows, split, *count, terminal)?,
        },
        Action::Sample { rows, count } => print_sample(rows, *count, terminal)?,
    }
    Ok(Exit::Done)
}

fn list(json: bool, terminal: &Terminal) -> Result<(), Failure> {
    if json {
        return terminal.json(&TASKS.iter().map(|task| json!({ "name": task.name(), "doc": task.doc() })).collect());
    }
    let rows: Vec<_> = TASKS.iter().map(|task| vec![task.name().to_owned(), task.doc().to_owned()]).collect();
    terminal.result(&columns(&rows))
}

fn describe_task(rows: &Rows, terminal: &Terminal) -> Result<(), Failure> {
    let (task, options, _) = rows.settings(None)?;
    let (vocabulary, classes) = (task.vocabulary(&options), task.classes(&options));
    let objective = match task.objective() {
        Objective::Classify => "one class per sequence",
        Objective::Pair => "one class per pair of sequences",
        Objective::Each => "one class per token",
        Objective::Number => "one number per sequence",
        Objective::Several => "any of some labels per sequence",
    };
    if rows.json {
        let field = |f: &rtc_runtime::task::OptionField| json!({ "name": f.name, "value": options.get(f.name), "least": f.least, "most": f.most, "doc": f.doc });
        let split = |s: &rtc_runtime::task::Split| json!({ "name": s.name, "examples": s.count, "doc": s.doc });
        return terminal.json(&json!({
            "name": task.name(), "doc": task.doc(), "objective": objective, "vocabulary": vocabulary, "classes": classes,
            "options": task.options().iter().map(field).collect::<Vec<_>>(),
            "splits": task.splits().iter().map(split).collect::<Vec<_>>(),
        }));
    }
    let option = |f: &rtc_runtime::task::OptionField| {
        vec![format!("  {}", f.name), options.get(f.name).to_string(), format!("{} ({} to {})", f.doc, f.least, f.most)]
    };
    let split = |s: &rtc_runtime::task::Split| vec![format!("  {}", s.name), number(s.count as f64), s.doc.to_owned()];
    terminal.result(&format!(
        "{}: {}\n{objective}\ntokens   {}\nclasses  {}\noptions\n{}splits\n{}",
        task.name(),
        task.doc(),
        vocabulary.join(" "),
        classes.join(" "),
        columns(&task.options().iter().map(option).collect::<Vec<_>>()),
        columns(&task.splits().iter().map(split).collect::<Vec<_>>()),
    ))
}

fn describe_split(rows: &Rows, split: &str, count: Option<usize>, terminal: &Terminal) -> Result<(), Failure> {
    let (task, options, mut settings) = rows.settings(Some(split))?;
    settings.sizes.extend(count.map(|count| (split.to_owned(), count)));
    let found = describe(&load_split(&settings, split)?);
    let classes = task.classes(&options);
    let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
    let [shortest, middle, longest] = found.lengths;
    if rows.json {
        let shares: Map<_, _> = found.label_shares.iter().map(|(class, share)| (name(class), json!(share))).collect();
        return terminal.json(&json!({
            "task": task.name(), "split": split, "examples": found.examples, "tokens": found.tokens,
            "shortest": shortest, "median": middle, "mean": found.mean_length, "longest": longest, "labels": shares,
        }));
    }
    let shares = found.label_shares.iter().map(|(class, share)| format!("{} {:.1} %", name(class), 100.0 * share));
    terminal.result(&columns(&[
        vec!["examples".into(), number(found.examples as f64)],
        vec!["tokens".into(), number(found.tokens as f64)],
        vec!["lengths".into(), format!("{shortest} to {longest}, median {middle}, mean {:.1}", found.mean_length)],
        vec!["labels".into(), shares.collect::<Vec<_>>().join(", ")],
    ]))
}

fn print_sample(rows: &Rows, count: usize, terminal: &Terminal) -> Result<(), Failure> {
    let (task, options, mut settings) = rows.settings(rows.split.as_deref())?;
    let first = task.splits().first().map_or("train", |split| split.name);
    let split = rows.split.as_deref().unwrap_or(first);
    settings.sizes.insert(split.to_owned(), count);
    let examples = sample(&*task, &options, &load_split(&settings, split)?, count);
    if rows.json {
        let row = |row: &rtc_runtime::task::SampleRow| json!({ "text": row.text, "label": row.label });
        return terminal.json(&Value::Array(examples.iter().map(row).collect()));
    }
    terminal.result(&examples.iter().map(|row| format!("{}\t{}\n", row.label, row.text)).collect::<String>())
}

impl Rows {
    /// The task, its options, and the settings that generate its data.
    fn settings(&self, split: Option<&str>) -> Result<(TaskHandle, TaskOptions, TaskSettings), Failure> {
        let task = task_named(&self.name).map_err(Failure::Usage)?;
        if let Some(split) = split {
            task.split(split).map_err(Failure::Usage)?;
        }
        let mut given = BTreeMap::new();
        for text in &self.option {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("`--option {text}` must have the form name=number")))?;
            let value = value
                .parse()
                .map_err(|_| Failure::Usage(format!("`--option {text}`: `{value}` is no whole number")))?;
            given.insert(name.to_owned(), OptionValue::Integer(value));
        }
        resolve_options(task.options(), &given).map_err(Failure::Usage)?;
        let settings =
            TaskSettings { name: task.name().to_owned(), options: given, seed: self.seed, ..TaskSettings::default() };
        let (task, options) = open_task(&settings)?;
        Ok((task, options, settings))
    }
}
