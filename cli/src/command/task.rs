//! `rtc task`: the tasks, their splits and rows of them.

mod check;
mod draft;

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, Subcommand};
use rtc_base::batch::Given;
use rtc_base::rng::Key;
use rtc_runs::experiment::EMBEDDED;
use rtc_session::experiment_file::{OpenedExperiment, check_program};
use rtc_session::failure::SessionFailure;
use rtc_session::text::number;
use rtc_task::TaskSettings;
use rtc_task::{
    Example, MAX_EXAMPLES, OWN_TASKS, Objective, OptionValue, Options as TaskOptions, SampleRow, TASKS, TaskHandle,
    WantedSplits,
};
use rtc_task::{describe, load_wanted, open_task, resolve_options, sample, task_named};
use serde_json::{Map, Value, json};

use crate::exit::{CommandResult, Exit};
use crate::options::ProgramOptions;
use crate::terminal::Terminal;
use crate::text::columns;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc task list
  rtc task describe listops                        options, splits, vocabulary
  rtc task describe listops --split 200-300        lengths and labels of a split
  rtc task sample listops --split args-10 --count 3
  rtc task sample listops --option train_length=20 --seed 7 --json
  rtc task check reviews.csv                       columns of a file, and an experiment for it
  rtc task check reviews.csv --write reviews.yaml  the same into a file, which is tried
  rtc task check reviews.yaml                      what an experiment reads, and what is wrong with it
  rtc task sample reviews.yaml --split dev         rows of it as a model gets them
";

/// Arguments of `rtc task`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: TaskAction,
}

impl Options {
    /// How long it may take, where it has a limit.
    pub(super) fn time_limit(&self) -> Option<TimeLimit> {
        if let TaskAction::Check(options) = &self.action { Some(options.time) } else { None }
    }
}

/// What to do with tasks.
#[derive(Subcommand)]
enum TaskAction {
    /// List the tasks
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe a task, or one of its splits
    Describe {
        #[command(flatten)]
        rows: ExampleOptions,
        /// Number of examples to describe; as published without it
        #[arg(long, value_name = "N", value_parser = example_count)]
        count: Option<usize>,
    },
    /// Print examples of a split, drawn by the seed among all of a file, or among the first thousand that are generated
    Sample {
        #[command(flatten)]
        rows: ExampleOptions,
        /// Number of examples
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = example_count)]
        count: usize,
    },
    /// Say what would be read of a data file, or by an experiment, and what is wrong with it
    Check(check::Options),
}

/// Examples of a task.
#[derive(Args)]
struct ExampleOptions {
    /// The task, or an experiment
    name: String,
    /// The split
    #[arg(long)]
    split: Option<String>,
    /// Seed of generated data and of the sample [default: 0, or that of the experiment]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Set an option of the task
    #[arg(long, value_name = "NAME=NUMBER")]
    option: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A task with the settings that make its data.
struct ConfiguredTask {
    task: TaskHandle,
    options: TaskOptions,
    settings: TaskSettings,
    /// The splits of the experiment, or all of the task.
    used: Vec<String>,
}

/// Reads `--count`.
fn example_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= MAX_EXAMPLES);
    count.ok_or_else(|| format!("a whole number from 0 to {MAX_EXAMPLES} is wanted"))
}

/// Lists, describes, samples or checks.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    match &options.action {
        TaskAction::List { json } => list(*json, terminal)?,
        TaskAction::Describe { rows, count } => match &rows.split {
            None => describe_task(rows, terminal)?,
            Some(split) => describe_split(rows, split, *count, terminal)?,
        },
        TaskAction::Sample { rows, count } => print_sample(rows, *count, terminal)?,
        TaskAction::Check(options) => return check::run(options, terminal),
    }
    Ok(Exit::Done)
}

fn list(json: bool, terminal: &Terminal) -> Result<(), SessionFailure> {
    let tasks: Vec<(&str, &str)> = TASKS.iter().map(|task| (task.name(), task.about().doc)).chain(OWN_TASKS).collect();
    if json {
        return terminal.json(&tasks.iter().map(|(name, doc)| json!({ "name": name, "doc": doc })).collect());
    }
    let rows: Vec<_> = tasks.iter().map(|(name, doc)| vec![(*name).to_owned(), (*doc).to_owned()]).collect();
    terminal.result(&columns(&rows))
}

fn describe_task(rows: &ExampleOptions, terminal: &Terminal) -> Result<(), SessionFailure> {
    let ConfiguredTask { task, options, used, .. } = rows.asked()?;
    let (vocabulary, classes) = (task.vocabulary(&options), task.classes(&options));
    let objective = match task.objective() {
        Objective::Classify => "one class per sequence",
        Objective::Pair => "one class per pair of sequences",
        Objective::Each => "one class per token",
        Objective::Number => "one number per sequence",
        Objective::Several => "any of some labels per sequence",
    };
    let splits = || task.about().splits.iter().map(|split| (split.name.to_owned(), Some(split.count), split.doc));
    let own = || used.iter().map(|name| (name.clone(), None, "rows of a file"));
    let splits: Vec<_> = if task.about().splits.is_empty() { own().collect() } else { splits().collect() };
    if rows.json {
        let field = |f: &rtc_task::OptionField| json!({ "name": f.name, "value": options.get(f.name), "least": f.least, "most": f.most, "doc": f.doc });
        let split =
            |(name, count, doc): &(String, Option<usize>, &str)| json!({ "name": name, "examples": count, "doc": doc });
        return terminal.json(&json!({
            "name": task.name(), "doc": task.about().doc, "source": task.about().source, "objective": objective, "vocabulary": vocabulary, "classes": classes,
            "options": task.about().options.iter().map(field).collect::<Vec<_>>(),
            "splits": splits.iter().map(split).collect::<Vec<_>>(),
        }));
    }
    let option = |f: &rtc_task::OptionField| {
        vec![format!("  {}", f.name), options.get(f.name).to_string(), format!("{} ({} to {})", f.doc, f.least, f.most)]
    };
    let split = |(name, count, doc): &(String, Option<usize>, &str)| {
        vec![format!("  {name}"), count.map_or("-".to_owned(), |count| number(count as f64)), (*doc).to_owned()]
    };
    terminal.result(&format!(
        "{}: {}\n{objective}\nsource   {}\ntokens   {}\nclasses  {}\noptions\n{}splits\n{}",
        task.name(),
        task.about().doc,
        task.about().source,
        vocabulary.join(" "),
        classes.join(" "),
        columns(&task.about().options.iter().map(option).collect::<Vec<_>>()),
        columns(&splits.iter().map(split).collect::<Vec<_>>()),
    ))
}

fn describe_split(
    rows: &ExampleOptions,
    split: &str,
    count: Option<usize>,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    let mut asked = rows.asked()?;
    asked.settings.sizes.extend(count.map(|count| (split.to_owned(), count)));
    let found = describe(&asked.load(split)?);
    let classes = asked.task.classes(&asked.options);
    let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
    let [shortest, middle, longest] = found.lengths;
    if rows.json {
        let shares: Map<_, _> = found.label_shares.iter().map(|(class, share)| (name(class), json!(share))).collect();
        return terminal.json(&json!({
            "task": asked.task.name(), "split": split, "examples": found.examples, "tokens": found.tokens,
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

/// So many examples are generated for a sample of them, so that splits whose lengths come in turn show many lengths.
const AMONG: usize = 1_000;

fn print_sample(rows: &ExampleOptions, count: usize, terminal: &Terminal) -> Result<(), SessionFailure> {
    let mut asked = rows.asked()?;
    let first = asked.used.first().cloned().unwrap_or_else(|| "train".to_owned());
    let split = rows.split.as_deref().unwrap_or(&first);
    if asked.settings.data.is_none() {
        let size = asked.task.split(split).map_err(SessionFailure::Usage)?.count;
        asked.settings.sizes.entry(split.to_owned()).or_insert_with(|| AMONG.max(count).min(size));
    }
    let drawn = draw(&asked.load(split)?, count, asked.settings.seed);
    let examples = sample(&*asked.task, &asked.options, &drawn, count);
    if rows.json {
        let row = |row: &SampleRow| {
            let mut shown = json!({ "text": row.text, "label": row.label });
            if !row.given.is_empty() {
                let value = |given: &Given| (given.name.to_string(), numbers(given));
                shown["given"] = Value::Object(row.given.iter().map(value).collect());
            }
            shown
        };
        return terminal.json(&Value::Array(examples.iter().map(row).collect()));
    }
    terminal.result(&examples.iter().map(sample_row).collect::<String>())
}

/// A number, or a list of them.
fn numbers(given: &Given) -> Value {
    match given.numbers[..] {
        [number] => json!(number),
        _ => json!(given.numbers),
    }
}

/// `label`, text, and the values that come with the row, with tabs between.
fn sample_row(row: &SampleRow) -> String {
    let value = |given: &Given| {
        let numbers: Vec<String> = given.numbers.iter().map(f64::to_string).collect();
        format!("\t{} {}", given.name, numbers.join(" "))
    };
    format!("{}\t{}{}\n", row.label, row.text, row.given.iter().map(value).collect::<String>())
}

/// Some examples, each as likely as any other, in their order.
fn draw(examples: &[Example], count: usize, seed: u64) -> Vec<Example> {
    let mut places: Vec<usize> = (0..examples.len()).collect();
    Key::new(seed).stream("sample").draws().shuffle(&mut places);
    places.truncate(count);
    places.sort_unstable();
    places.into_iter().map(|place| examples[place].clone()).collect()
}

impl ConfiguredTask {
    /// The task of an experiment.
    fn of(text: &str, seed: Option<u64>, run_commands: bool) -> Result<Self, SessionFailure> {
        let opened = OpenedExperiment::open(text)?.permitting(run_commands);
        let experiment = opened.file.resolve(None, &[])?;
        opened.require_files(&experiment)?;
        let used: Vec<String> = experiment.splits().into_iter().map(str::to_owned).collect();
        let settings = TaskSettings { seed: seed.unwrap_or(experiment.task.seed), ..experiment.task };
        check_program(&settings, &used.iter().map(String::as_str).collect::<Vec<_>>())?;
        let (task, options) = open_task(&settings)?;
        Ok(Self { task, options, settings, used })
    }

    /// The examples of a split.
    fn load(&self, split: &str) -> Result<Vec<Example>, SessionFailure> {
        let used: Vec<&str> = self.used.iter().map(String::as_str).collect();
        let wanted = WantedSplits { used: &used, splits: &[split], most: usize::MAX, whole: false, streamed: false };
        Ok(load_wanted(&self.settings, wanted)?.splits.remove(split).unwrap_or_default())
    }
}

impl ExampleOptions {
    /// The task with the settings that make its data.
    fn asked(&self) -> Result<ConfiguredTask, SessionFailure> {
        let is_experiment = EMBEDDED.iter().any(|(name, _)| *name == self.name) || Path::new(&self.name).is_file();
        let asked = match task_named(&self.name) {
            Err(_) if is_experiment && self.option.is_empty() => {
                ConfiguredTask::of(&self.name, self.seed, self.programs.run_commands)?
            }
            Err(_) if is_experiment => {
                return Err(SessionFailure::Usage(
                    "`--option` is for a task; an experiment has options of its own".to_owned(),
                ));
            }
            Ok(_) => self.of_task()?,
            Err(message) => return Err(SessionFailure::Usage(message)),
        };
        if let Some(split) = &self.split {
            asked.task.split(split).map_err(SessionFailure::Usage)?;
        }
        Ok(asked)
    }

    fn of_task(&self) -> Result<ConfiguredTask, SessionFailure> {
        let task = task_named(&self.name).map_err(SessionFailure::Usage)?;
        let mut given = BTreeMap::new();
        for text in &self.option {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| SessionFailure::Usage(format!("`--option {text}` must have the form name=number")))?;
            let value = value
                .parse()
                .map_err(|_| SessionFailure::Usage(format!("`--option {text}`: `{value}` is no whole number")))?;
            given.insert(name.to_owned(), OptionValue::Integer(value));
        }
        resolve_options(task.about().options, &given).map_err(SessionFailure::Usage)?;
        let (name, seed) = (task.name().to_owned(), self.seed.unwrap_or(0));
        let settings = TaskSettings { name, options: given, seed, ..TaskSettings::default() };
        let (task, options) = open_task(&settings)?;
        let used = task.split_names();
        Ok(ConfiguredTask { task, options, settings, used })
    }
}
