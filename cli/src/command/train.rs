//! `rtc train`: trains a model, or goes on with its training.

mod stream;

use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rtc_compiler::check::Override;
use rtc_exec::learner::LearnError;
use rtc_runs::error::Error;
use rtc_runs::record::fall::Fall;
use rtc_runs::record::table::ResultsTable;
use rtc_runs::record::{RunFolder, RunInfo, SavedRun};
use rtc_session::experiment_file::{ForModel, OpenedExperiment};
use rtc_session::failure::SessionFailure;
use rtc_session::folders;
use rtc_session::following::follow;
use rtc_session::job::{Pace, TrainingJob, lock};
use rtc_session::labels::renamed;
use rtc_session::memory;
use rtc_session::model::Compiled;
use rtc_session::ranks::{balance, join, uneven};
use rtc_session::saved::catalog_in;
use rtc_session::spec_file::SpecArg;
use rtc_session::text::number;
use rtc_train::Outcome;
use rtc_train::ranks::{Ranks, end};
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::messages::{make_data, of_experiment_edit};
use crate::options::{DeviceOptions, HaltingArg, ProgramOptions, WeightsOptions};
use crate::progress::ProgressDisplay;
use crate::signals;
use crate::terminal::{Terminal, quoted};
use crate::{threads, time};
use stream::{RecordStream, line};

const EXAMPLES: &str = "\
Examples:
  rtc train gut                               a few minutes on a laptop
  rtc train gut:no_gate --experiment listops  an ablation at the paper's size
  rtc train gut --set depthwise.depth=20 --seed 2
  rtc train gut --with optimiser.learning_rate=0.002 --with batch.size=64
  rtc train --experiment my.yaml --run my_first_run --json
  rtc train my.rt --experiment my.yaml --weights runs/NAME/checkpoints/best/weights.safetensors   begin with these weights
";

const RESUMING: &str = "\
The folder of a run is named after model, experiment and seed, and after a hash of everything that decides its numbers. \
So the same command goes on with a run that was stopped or killed, or reports a finished one; any other spec, experiment \
or seed is a run of its own. --run gives the folder a name; a folder that holds another run is refused.

--until UPDATE goes on with a run beyond the end of its experiment: the same command with a later update. The weights have the bits of a \
run that was begun with this --until. Where they would not, because the learning rates depend on the number of updates, it is refused. \
Without --until the command goes on to where the run was last asked to go.

Ctrl-C (SIGINT), SIGTERM or SIGHUP ends the update, saves and exits with 75; a second one exits at once. A run that goes on has \
the same weights and metrics, bit for bit, as one that was never stopped, with any number of threads and any --memory.
";

/// Arguments of `rtc train`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = RESUMING)]
pub(crate) struct Options {
    /// The spec: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`; that of the experiment without it
    spec: Option<String>,
    /// An experiment: a YAML file, or the name of one that is built in
    #[arg(long, value_name = "FILE|NAME", default_value = "listops_smoke")]
    experiment: String,
    /// Edit the model, as in `depthwise.depth=20`; comes after the edits of the experiment
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Edit the experiment, as in `optimiser.clip=1`
    #[arg(long, value_name = "PATH=VALUE")]
    with: Vec<String>,
    /// Make at most so many updates: the same as `--with max_steps=N`
    #[arg(long, value_name = "N")]
    max_steps: Option<u64>,
    /// Train on to this update, beyond the end of the experiment: a finished or stopped run goes on
    #[arg(long, value_name = "UPDATE", conflicts_with = "fresh")]
    until: Option<u64>,
    /// Seed of parameters, dropout and the order of the data; the experiment's first one without it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the run's folder
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// The folder that holds the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Start over, in a new folder beside the old one: NAME.2, NAME.3, ...
    #[arg(long)]
    fresh: bool,
    /// Number of threads; changes speed alone
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Stay below so much memory by computing more again, as in `2GB`, `800MiB`; changes speed alone
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    /// What sequences that have halted cost; changes speed alone
    #[arg(long, value_enum, default_value_t = HaltingArg::Compact)]
    halting: HaltingArg,
    /// End with code 9 if spec and data are not read after so many seconds; training takes as long as it takes
    #[arg(long, value_name = "SECONDS", value_parser = time::seconds)]
    time_limit: Option<Duration>,
    #[command(flatten)]
    weights: WeightsOptions,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print a line of JSON for every logged update and evaluation as it comes, and for the results
    #[arg(long, conflicts_with = "json")]
    stream: bool,
}

impl Options {
    /// Tells a program how the training ended: as the last line of a stream, or as an object.
    fn tell(&self, kind: &str, end: &Value, terminal: &Terminal) -> Result<(), SessionFailure> {
        if self.stream { terminal.result(&line(kind, end)) } else { terminal.json(end) }
    }
}

/// Trains, and prints the table; of several ranks that were started together rank 0 does, and the others serve it.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let ranks = join()?;
    if ranks.rank() > 0 {
        return serve(options, &*ranks).inspect_err(|failure| {
            terminal.report(failure);
            ranks.abort(failure.code());
        });
    }
    let outcome = lead(options, &*ranks, terminal);
    if let Err(failure @ SessionFailure::Runtime(Error::Learn(LearnError::Ranks(_)))) = &outcome
        && ranks.size() > 1
    {
        // Some ranks may wait for others, and would not hear that they are to end.
        terminal.report(failure);
        ranks.abort(failure.code());
    }
    end(&*ranks, outcome.as_ref().map_or_else(SessionFailure::code, |exit| exit.code()));
    outcome
}

/// Serves rank 0 until it ends the training.
fn serve(options: &Options, ranks: &dyn Ranks) -> CommandResult {
    // From here on a first signal asks to stop, and rank 0 says when.
    let stop = signals::on_stop()?;
    follow(ranks, options.halting.into(), options.device.choice(), &stop).map(Exit::Reported)
}

fn lead(options: &Options, ranks: &dyn Ranks, terminal: &Terminal) -> CommandResult {
    let device = options.device.choice();
    let place = device.open()?;
    let reading = options.time_limit.map(|time| time::limit(time, !terminal.talks())).transpose()?;
    let opened = OpenedExperiment::open(&options.experiment)?.permitting(options.programs.run_commands);
    let mut job = prepare(options, &opened, terminal)?;
    if let Some(weights) = options.weights.choice() {
        let weights = weights.read(&job.compiled.graph, job.info.seed)?;
        weights.remark().iter().for_each(|remark| terminal.message(remark));
        job.begins_with(weights);
    }
    job.computes_on(&place);
    job.is_shared_by(ranks.size());
    terminal.message(&job.compiled.summary());
    let path = folder(options, &opened.name, &job, terminal)?;
    let _lock = lock(&path)?;
    // The content of files is a part of what a run is: nothing is said of one whose files have changed.
    let is_needed = job.experiment.task.data.is_some() || options.until.is_some();
    let named = if is_needed { Some(make_data(&job.experiment, terminal)?) } else { None };
    if let Some(data) = named.as_ref().filter(|_| job.experiment.task.data.is_some()) {
        job.is_on(data);
    }
    match (options.until, &named) {
        (Some(until), Some(data)) => {
            let remark = job.ends_after(until, &path, data)?;
            remark.iter().for_each(|remark| terminal.message(remark));
        }
        _ => job.ends_as_before(&path)?,
    }
    if RunFolder::exists(&path)
        && let Some(table) = job.finished(&path).map_err(changed)?
    {
        let ways = "`--until UPDATE` trains on, `--fresh` trains again in a new folder";
        terminal.message(&format!("{} is finished; {ways}", path.display()));
        report(options, &path, &job, &table, terminal)?;
        return Ok(Exit::Done);
    }
    let data = named.map_or_else(|| make_data(&job.experiment, terminal), Ok)?;
    let pace = Pace { memory: options.memory, halting: options.halting.into(), device };
    let fitted = job.fit(&path, &data, pace, place.card()?.as_ref())?;
    drop(reading);
    terminal.message(&format!("run: {}", path.display()));
    job.note_on_warmup(&data)?.iter().for_each(|note| terminal.message(note));
    uneven(ranks.size(), &job.experiment).iter().for_each(|warning| terminal.message(warning));
    let stop = signals::on_stop()?;
    let mut progress = ProgressDisplay::new(terminal, &stop);
    let how = (fitted, pace.halting, place);
    let ended = if options.stream {
        let mut records = RecordStream::new(&mut progress, &path, terminal);
        let ended = job.train(&path, &data, how, ranks, &stop, &mut records);
        ended.and_then(|ended| records.finish().map(|()| ended))
    } else {
        job.train(&path, &data, how, ranks, &stop, &mut progress)
    };
    drop(progress);
    let (ended, worked) = ended?;
    balance(ranks.size(), worked).iter().for_each(|line| terminal.message(line));
    match ended {
        Outcome::Finished(table) => {
            report(options, &path, &job, &table, terminal)?;
            terminal.next(&format!("rtc report {}", quoted(&path)));
            Ok(Exit::Done)
        }
        Outcome::Stopped { updates } => {
            stopped(options, &path, &job, updates, terminal)?;
            Ok(Exit::Stopped)
        }
    }
}

/// Adds what can be done about a folder of another run.
fn changed(failure: SessionFailure) -> SessionFailure {
    match failure {
        SessionFailure::Runtime(Error::Checkpoint(mut error)) => {
            error.reason.push_str("; `--fresh` trains in a new folder");
            error.into()
        }
        failure => failure,
    }
}

/// Reads, checks and compiles everything that the command names.
fn prepare(options: &Options, opened: &OpenedExperiment, terminal: &Terminal) -> Result<TrainingJob, SessionFailure> {
    let mut edits = options.with.clone();
    edits.extend(options.max_steps.map(|steps| format!("max_steps={steps}")));
    let base = opened.file.resolve(None, &edits)?;
    let arg = match (&options.spec, &base.model) {
        (Some(spec), _) => SpecArg::parse(spec),
        (None, Some(model)) => opened.spec_of_model(model)?,
        (None, None) => {
            let message = format!("name a spec: the experiment `{}` has no `model`", options.experiment);
            return Err(SessionFailure::Usage(message));
        }
    };
    // The experiment may have a block for this model, whose edits of the spec are not known before its name is.
    let name = arg.model_name()?;
    opened.check_models(Some(&arg))?;
    let ForModel { experiment, edits: of_experiment, note } = opened.resolve_for(&arg, &name, &edits)?;
    note.iter().for_each(|note| terminal.message(note));
    opened.require_files(&experiment)?;
    let facts = catalog_in(&experiment)?;
    let sets = [of_experiment, Override::numbered(&options.set)].concat();
    let checked = arg.check_edited(&sets, &facts).map_err(|failure| of_experiment_edit(failure, &options.set))?;
    terminal.problems(&checked.problems, &checked.sources);
    let compiled = Compiled::new(checked.definition, &facts)?;
    compiled.takes_from(&experiment)?;
    let seed = options.seed.or(experiment.seeds.first().copied()).unwrap_or(1);
    if options.seed.is_none() && experiment.seeds.len() > 1 {
        terminal.message(&format!("the experiment has {} seeds; this is seed {seed}", experiment.seeds.len()));
    }
    Ok(TrainingJob::new(Arc::new(compiled), (&opened.name, experiment), seed, options.memory))
}

/// The folder of the run, or the one that it was given with `rtc runs rename`. With `--fresh`, the first numbered one that holds no run.
fn folder(
    options: &Options,
    experiment: &str,
    job: &TrainingJob,
    terminal: &Terminal,
) -> Result<PathBuf, SessionFailure> {
    let name = match &options.run {
        Some(name) => {
            check_folder("--run", name)?;
            name.clone()
        }
        None => {
            let RunInfo { model, seed, .. } = &job.info;
            format!("{}-{experiment}-seed{seed}-{}", model.replace(':', "."), job.info.identity(&job.experiment))
        }
    };
    let first = options.runs.join(&name);
    match (RunFolder::exists(&first), options.fresh) {
        (false, false) => return Ok(moved(&first, job, terminal)?.unwrap_or(first)),
        (false, true) | (true, false) => return Ok(first),
        (true, true) => {}
    }
    let numbered = (2..).map(|n| options.runs.join(format!("{name}.{n}")));
    Ok(numbered.into_iter().find(|path| !RunFolder::exists(path)).unwrap_or(first))
}

/// The folder that the run has now, if it was begun in this one and renamed.
fn moved(first: &Path, job: &TrainingJob, terminal: &Terminal) -> Result<Option<PathBuf>, SessionFailure> {
    let (renamed, unknown) = renamed(first)?;
    for failure in unknown {
        terminal.message(&format!("{failure}: whether it is this run under another name is not known"));
    }
    for path in renamed {
        if SavedRun::read(&path)?.difference(&job.experiment, &job.info).is_none() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Refuses a name whose folder does not lie below the one of the runs, or that holds more than text.
pub(super) fn check_folder(option: &str, name: &str) -> Result<(), SessionFailure> {
    let mut parts = Path::new(name).components().peekable();
    if parts.peek().is_none() || !parts.all(|part| matches!(part, Component::Normal(_))) {
        return Err(SessionFailure::Usage(format!(
            "`{option} {name}` is no name; `--runs` says where the folder is made"
        )));
    }
    folders::check_name(&format!("`{option}`"), name)
}

fn report(
    options: &Options,
    path: &Path,
    job: &TrainingJob,
    table: &ResultsTable,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    if let Some(note) = &table.halting {
        terminal.message(note);
    }
    if let Some(fall) = &table.fall {
        terminal.message(&fallen(fall));
    }
    if options.json || options.stream {
        let mut out = identity(path, job);
        if let (Value::Object(out), Value::Object(table)) = (&mut out, table.to_json()) {
            out.extend(table);
        }
        return options.tell("results", &out, terminal);
    }
    let (score, update) = (table.best(), number(table.best_update as f64));
    terminal.message(&job.experiment.choose.sentence(&job.experiment.dev, &score, &update));
    terminal.message(&format!("run: {}", path.display()));
    terminal.result(&table.to_text())
}

/// The warning of a training that ended far below its best.
fn fallen(fall: &Fall) -> String {
    format!("warning: the training fell from its best: {}; {}", fall.text(), fall.advice())
}

fn stopped(
    options: &Options,
    path: &Path,
    job: &TrainingJob,
    updates: u64,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    let how = match path.file_name() {
        Some(name) if options.fresh => {
            format!("give `--run {}` instead of `--fresh` to go on", name.to_string_lossy())
        }
        _ => "the same command goes on".to_owned(),
    };
    let done = number(updates as f64);
    terminal.message(&format!("stopped after update {done}, saved in {}; {how}", path.display()));
    if options.json || options.stream {
        let mut out = identity(path, job);
        out["stopped"] = json!(updates);
        return options.tell("stopped", &out, terminal);
    }
    Ok(())
}

fn identity(path: &Path, job: &TrainingJob) -> Value {
    let RunInfo { model, seed, parameters, spec_hash, graph_hash, .. } = &job.info;
    json!({
        "run": path.display().to_string(), "model": model, "seed": seed, "parameters": parameters, "spec_hash": spec_hash,
        "graph_hash": graph_hash,
    })
}
