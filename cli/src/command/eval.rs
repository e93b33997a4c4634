//! `rtc eval`: a trained model on splits of its task, also under edits that leave its weights as they are.

mod sweep;

use std::fs::metadata;
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::AtomicBool;

use crate::limits;
use clap::{Args, ValueEnum};
use rtc_compiler::check::Override;
use rtc_runs::experiment::{EditSweep, MetricKind};
use rtc_runs::record::table::{ResultsRow, ResultsTable};
use rtc_session::experiment_file::check_program;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::{TrainedModel, generated};
use rtc_session::text::number;
use rtc_task::DataSource;
use rtc_task::{Example, Objective, WantedSplits, load_wanted};
use rtc_train::collapse::note;
use rtc_train::stopping::{BEYOND, Stop, Stopped, evaluate_stopping};
use rtc_train::{Measurement, evaluate, require_finite};
use serde_json::{Value, json};

use crate::choice::choice;
use crate::exit::{CommandResult, Exit};
use crate::options::{ModelOptions, ProgramOptions};
use crate::progress::ProgressDisplay;
use crate::terminal::{Terminal, quoted};
use crate::text::columns;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc eval runs/NAME                              the splits of its experiment again
  rtc eval runs/NAME --split test --split lra     other splits
  rtc eval runs/NAME --checkpoint last
  rtc eval runs/NAME --classes                    precision, recall and F1 of every class
  rtc eval runs/NAME --inference flat             without the outer recursion of a fold
  rtc eval runs/NAME --data my_rows.tsv           rows of a file, in the format of the task
  rtc eval runs/NAME --data folder --split lra    the published files in a folder
  rtc eval runs/NAME --stop confidence            each length after the step of which the model is surest
  rtc eval runs/NAME --steps --split 30-30        accuracy and confidence after every step
  rtc eval runs/NAME --set loop.steps=32          with more steps than in training
  rtc eval runs/NAME --sweep loop.steps=1..32 --output steps.svg   by steps, as a table and a picture
  rtc eval runs/A --weights runs/B/checkpoints/best/weights.safetensors   the model of a run with other weights
  rtc eval my.rt --experiment my.yaml --weights runs/A/checkpoints/best/weights.safetensors   a model that has no run
";

/// Arguments of `rtc eval`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// A split of the task; those of the experiment without it
    #[arg(long)]
    split: Vec<String>,
    /// A file with rows, all of which are measured, or a folder with the published files
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// When a model with `depth: given` stops; after the steps that come with the examples without it
    #[arg(long, value_enum, conflicts_with = "depth")]
    stop: Option<StopArg>,
    /// Print accuracy and confidence of every length after every number of steps, too
    #[arg(long, conflicts_with = "depth")]
    steps: bool,
    /// With `--stop` or `--steps`: how many steps are tried beyond those that come with the examples
    #[arg(long, value_name = "N", default_value_t = BEYOND as u32, value_parser = clap::value_parser!(u32).range(0..=limits::BEYOND))]
    beyond: u32,
    /// Print precision, recall and F1 of every class or label, too
    #[arg(long, conflicts_with_all = ["sweep", "stop", "steps"])]
    classes: bool,
    /// Edit the model, as in `loop.steps=8` or `remove loop.until`: any edit that leaves its weights as they are
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Measure with one value after the other: `loop.steps=1..16`, `loop.steps=1,2,4`, `halt.threshold=0.5,0.9`
    #[arg(long, value_name = "PATH=VALUES", value_parser = EditSweep::parse, conflicts_with_all = ["depth", "steps", "stop"])]
    sweep: Option<EditSweep>,
    /// With `--sweep`: write the table as `.csv` or `.json`, or a picture as `.svg`
    #[arg(long, short, value_name = "FILE", requires = "sweep")]
    output: Option<PathBuf>,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

choice! {
    /// `--stop`.
    enum StopArg for Stop {
        /// After the steps that come with the example
        Oracle,
        /// After the step of which the model is surest on all examples of one length
        Confidence,
        /// After the step of which the model is surest on the example itself
        Sample,
    }
}

/// The trained model under edits.
fn open(options: &Options, edits: &[Override]) -> Result<TrainedModel, SessionFailure> {
    let mut trained = TrainedModel::open_edited(&options.model.choice(), edits)?;
    trained.experiment.task.known.permitted = options.programs.run_commands;
    Ok(trained)
}

/// Prints a table.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    if let Some(sweep) = &options.sweep {
        return sweep::run(options, sweep, terminal);
    }
    let mut trained = open(options, &Override::numbered(&options.set))?;
    trained.remarks().iter().for_each(|remark| terminal.message(remark));
    if (options.stop.is_some() || options.steps) && !trained.model.takes_depth() {
        let message = "`--stop` and `--steps` are for models with `depth: given`; the steps of this one are its own";
        return Err(SessionFailure::Usage(message.to_owned()));
    }
    if (options.stop.is_some() || options.steps) && trained.task.objective() == Objective::Number {
        let message = "`--stop` and `--steps` ask how sure a model is of a class; the answers of this one are numbers";
        return Err(SessionFailure::Usage(message.to_owned()));
    }
    if options.classes && trained.task.objective() == Objective::Number {
        return Err(SessionFailure::Usage(
            "`--classes` tells classes apart, and the answers of this model are numbers".to_owned(),
        ));
    }
    let data = load_splits(options, &trained, terminal)?;
    let update = trained.state.progress.updates;
    terminal.message(&format!("{}, {}", trained.name, which(&options.model, update)));
    let (mut rows, mut stopped) = (vec![], vec![]);
    for (split, examples) in &data {
        if let Some(found) = measure(options, &mut trained, (split, examples), terminal)? {
            require_finite(&found.row, update)?;
            rows.push(found.row.clone());
            stopped.push(found);
        }
    }
    let best = trained.state.progress.best.unwrap_or_default();
    let halting = note(&rows, trained.model.halting_bounds());
    if let Some(note) = &halting {
        terminal.message(note);
    }
    let table = ResultsTable {
        best_update: update,
        dev_accuracy: best.accuracy,
        dev_loss: best.loss,
        dev_metric: trained.experiment.choose.named(best.metric),
        rows,
        halting,
        fall: None,
    };
    if options.json {
        let mut splits = table.to_json()["splits"].take();
        for (split, found) in stopped.iter().enumerate().filter(|(_, found)| options.steps && !found.steps.is_empty()) {
            splits[split]["steps"] = json!(found.steps);
        }
        let names = trained.task.classes(&trained.options);
        for split in splits.as_array_mut().into_iter().flatten().filter(|_| options.classes) {
            let rows = split["classes"].as_array_mut().into_iter().flatten();
            rows.enumerate().for_each(|(class, row)| row["class"] = json!(names.get(class)));
        }
        let mut result = json!({
            "run": trained.path.display().to_string(), "model": trained.name, "checkpoint": options.model.checkpoint, "update": update,
            "inference": trained.inference,
            "splits": splits,
        });
        if !options.set.is_empty() {
            result["set"] = json!(options.set);
        }
        if let Some(weights) = &options.model.weights.weights {
            result["checkpoint"] = Value::Null;
            result["weights"] = json!(weights.display().to_string());
        }
        if let Some(note) = &table.halting {
            result["halting"] = json!(note);
        }
        if let Some(rule) = options.stop.and_then(|rule| rule.to_possible_value()) {
            result["stop"] = json!(rule.get_name());
        }
        terminal.json(&result)?;
    } else {
        terminal.result(&table.to_text())?;
        if options.steps {
            terminal.result(&steps_table(&stopped))?;
        }
        if options.classes {
            terminal.result(&class_table(&table.rows, &trained.task.classes(&trained.options)))?;
        }
    }
    let how = if trained.halts { " --show-halting" } else { "" };
    let row = if trained.takes_values() { "--input ROWS" } else { "TOKENS" };
    terminal.next(&format!("rtc predict {} {row}{}{how}", quoted(&trained.path), options.model.named()));
    Ok(Exit::Done)
}

/// Which weights are measured.
fn which(options: &ModelOptions, update: u64) -> String {
    match &options.weights.weights {
        Some(file) => format!("weights of {}", file.display()),
        None => format!("{} after update {}", options.checkpoint, number(update as f64)),
    }
}

/// One split; nothing if it was asked to stop meanwhile.
fn measure(
    options: &Options,
    trained: &mut TrainedModel,
    (split, examples): (&str, &[Example]),
    terminal: &Terminal,
) -> Result<Option<Stopped>, SessionFailure> {
    // Nothing is lost when a measurement is cut off, so signals end it at once.
    let stop = AtomicBool::new(false);
    let mut progress = ProgressDisplay::new(terminal, &stop);
    let measurement = Measurement { each_class: options.classes, ..trained.measurement(split, examples) };
    if options.stop.is_some() || options.steps {
        let rule = options.stop.unwrap_or(StopArg::Oracle).into();
        let model = &mut *trained.model;
        return Ok(evaluate_stopping(model, measurement, (rule, options.beyond as usize), &stop, &mut progress)?);
    }
    let row = evaluate(&mut *trained.model, measurement, &stop, &mut progress)?;
    Ok(row.map(|row: ResultsRow| Stopped { row, steps: vec![] }))
}

/// Precision, recall and F1 of the classes of every split, with the means of them in which every class counts alike.
fn class_table(rows: &[ResultsRow], classes: &[String]) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let title = ["split", "class", "answers", "predicted", "right", "precision", "recall", "F1"];
    let mut cells: Vec<Vec<String>> = vec![title.map(str::to_owned).to_vec()];
    for ResultsRow { split, classes: counts, .. } in rows {
        for (class, row) in counts.iter().enumerate() {
            let name = classes.get(class).cloned().unwrap_or_else(|| class.to_string());
            let counts = [row.labelled, row.predicted, row.right].map(|count| number(count as f64));
            let shares = [row.precision(), row.recall(), row.f1()].map(percent);
            cells.push([split.clone(), name].into_iter().chain(counts).chain(shares).collect());
        }
        let means = [MetricKind::BalancedAccuracy, MetricKind::MacroF1].map(|kind| percent(kind.of_classes(counts)));
        let blank = ["", "", "", ""].map(str::to_owned);
        cells.push([split.clone(), "mean".to_owned()].into_iter().chain(blank).chain(means).collect());
    }
    columns(&cells)
}

/// Every split and length after every number of steps, with a mark at those that the examples ask for and where the model is surest.
fn steps_table(stopped: &[Stopped]) -> String {
    let metrics: Vec<&String> =
        stopped.iter().flat_map(|found| &found.steps).next().map_or(vec![], |row| row.metrics.keys().collect());
    let title = ["split", "length", "steps"].map(str::to_owned).into_iter();
    let title = title.chain(metrics.iter().map(|name| name.replace('_', " ")));
    let mut cells: Vec<Vec<String>> = vec![title.chain(["accuracy", "confidence", ""].map(str::to_owned)).collect()];
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    for found in stopped {
        for row in &found.steps {
            let mut line = vec![found.row.split.clone(), row.length.to_string(), row.steps.to_string()];
            line.extend(
                metrics.iter().map(|name| row.metrics.get(*name).map_or("-".to_owned(), |share| percent(*share))),
            );
            let marks = [(row.due > 0, "oracle"), (row.surest, "surest")];
            let marks: Vec<&str> = marks.iter().filter(|(marked, _)| *marked).map(|(_, mark)| *mark).collect();
            line.extend([percent(row.accuracy), format!("{:.6}", row.confidence), marks.join(", ")]);
            cells.push(line);
        }
    }
    columns(&cells)
}

/// The examples of every split, in the order asked for.
fn load_splits(
    options: &Options,
    trained: &TrainedModel,
    terminal: &Terminal,
) -> Result<Vec<(String, Vec<Example>)>, SessionFailure> {
    let mut settings = trained.experiment.task.clone();
    let wanted = if options.split.is_empty() { &trained.experiment.evaluate } else { &options.split };
    for split in wanted {
        trained.task.split(split).map_err(SessionFailure::Usage)?;
    }
    if wanted.is_empty() && options.data.is_none() {
        return Err(SessionFailure::Usage(
            "the run evaluates nothing (`evaluate: []`): name a split, as `--split test`".to_owned(),
        ));
    }
    match &options.data {
        Some(path) if !path.is_dir() => {
            metadata(path).map_err(|error| SessionFailure::io("read", path, error))?;
            return Ok(vec![(file_name(path), rows_of(path, trained)?)]);
        }
        Some(folder) => {
            let complete = absolute(folder).map_err(|error| SessionFailure::io("open", folder, error))?;
            settings.data = Some(DataSource::Folder(complete.display().to_string()));
        }
        None => {}
    }
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let used = trained.experiment.splits();
    let whole = options.data.is_some();
    check_program(&settings, &names)?;
    let mut data =
        load_wanted(&settings, WantedSplits { used: &used, splits: &names, most: usize::MAX, whole, streamed: false })?;
    if !whole {
        trained.same_rows(&data)?;
    }
    if let Some(message) = generated(&settings, &data) {
        terminal.message(&message);
    }
    let mut take = |name: &String| Some((name.clone(), data.splits.remove(name)?));
    let splits: Vec<_> = wanted.iter().filter_map(&mut take).collect();
    match splits.iter().find(|(_, examples)| examples.is_empty()) {
        Some((split, _)) => Err(SessionFailure::data(settings.name, None, format!("the split `{split}` is empty"))),
        None => Ok(splits),
    }
}

fn rows_of(path: &Path, trained: &TrainedModel) -> Result<Vec<Example>, SessionFailure> {
    let examples = trained.task.read(path, &trained.options)?;
    if examples.is_empty() {
        return Err(SessionFailure::data(path.display().to_string(), None, "the file has no rows"));
    }
    Ok(examples)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
