//! A trained model, from the folder of its run.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use rtc_compiler::check::{NoFiles, Override, check_edited};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::asked::asked;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::{self, Block, FieldValue, Spec};
use rtc_exec::{Halting, Inference};
use rtc_runs::error::CheckpointError;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::checkpoint::{Checkpoint, CheckpointState};
use rtc_runs::record::{DEVICE, ON_CPU, RunInfo, SavedRun};
use rtc_runs::saved;
use rtc_task::TaskSettings;
use rtc_task::error::{DataError, unknown};
use rtc_task::sequence::{self, sides};
use rtc_task::{
    AskedRow, AskedRows, Column, Dataset, Example, Format, Options as TaskOptions, TaskHandle, catalog, file_format,
    open_task,
};
use rtc_train::Measurement;
use serde_json::{Map, Value};

use crate::choice::choice;
use crate::definition::{GraphFacts, ModelDefinition, need_spec};
use crate::device::DeviceOptions;
use crate::experiment_file::{ForModel, OpenedExperiment, check_program};
use crate::failure::CommandFailure;
use crate::folders::find;
use crate::model::{AnyModel, Compiled, Computing, provided};
use crate::spec_file::{CheckedDefinition, SpecArg};
use crate::terminal::{Terminal, quoted};
use crate::threads;
use crate::versions::versions;
use crate::weights::{AVERAGED, WeightsOptions};

/// The most steps that `--depth` takes.
const MOST_STEPS: i64 = crate::limits::DEPTH;

/// The checkpoint that is meant where none is named.
const BEST: &str = "best";

/// Which trained model, and how it computes.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The folder of a run, its name below `runs`, or `@last`; with `--weights` and `--experiment`, a spec
    pub(crate) run: PathBuf,
    /// The checkpoint: `best`, `last`, or the folder of another one of the run
    #[arg(long, value_name = "WHICH", default_value = BEST)]
    pub(crate) checkpoint: String,
    /// What sequences that have halted cost; changes speed alone
    #[arg(long, value_enum, default_value_t = HaltingArg::Compact)]
    pub(crate) halting: HaltingArg,
    /// Steps of a model with `depth: given`, in place of those that come with the examples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST_STEPS))]
    pub(crate) depth: Option<u32>,
    /// Whether the outer recursion of a fold is left out, with the same weights [default: as the experiment says]
    #[arg(long, value_enum)]
    pub(crate) inference: Option<InferenceArg>,
    /// Number of threads; changes speed alone
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) weights: WeightsOptions,
    /// With `--weights`: there is no run; the model is this spec in this experiment, a YAML file or a name
    #[arg(long, value_name = "FILE|NAME", requires = "weights")]
    pub(crate) experiment: Option<String>,
    #[command(flatten)]
    pub(crate) device: DeviceOptions,
}

impl ModelOptions {
    /// The best checkpoint of a run.
    pub(crate) fn of(run: &Path, device: DeviceOptions) -> Self {
        Self {
            run: run.to_owned(),
            checkpoint: BEST.to_owned(),
            halting: HaltingArg::Compact,
            depth: None,
            inference: None,
            threads: None,
            weights: WeightsOptions::default(),
            experiment: None,
            device,
        }
    }

    /// The options that another command needs for the same weights, each behind a blank.
    pub(crate) fn named(&self) -> String {
        let mut text = String::new();
        let weights = &self.weights;
        let files = [("weights", &weights.weights), ("weights-map", &weights.weights_map)];
        for (name, value) in files.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?))) {
            text += &format!(" --{name} {}", quoted(value));
        }
        if let Some(experiment) = &self.experiment {
            text += &format!(" --experiment {}", quoted(Path::new(experiment)));
        }
        if self.checkpoint != BEST {
            text += &format!(" --checkpoint {}", quoted(Path::new(&self.checkpoint)));
        }
        text
    }
}

choice! {
    /// `--halting`.
    pub(crate) enum HaltingArg for Halting {
        /// They leave the batch
        Compact,
        /// They stay until all have halted
        Batch,
        /// Every recurrence runs to its bound
        Never,
    }
}

choice! {
    /// `--inference`.
    pub(crate) enum InferenceArg for Inference {
        /// Chunks, and chunks of their vectors, as in training
        Recursive,
        /// Every row is one chunk of the outermost balanced fold
        Flat,
    }
}

/// A trained model with all that is known about it.
pub(crate) struct TrainedModel {
    /// The folder of the run.
    pub(crate) path: PathBuf,
    /// The name of the model.
    pub(crate) name: String,
    /// What it was made of.
    pub(crate) definition: ModelDefinition,
    /// The experiment that it was trained in.
    pub(crate) experiment: Experiment,
    /// What the run says of itself.
    pub(crate) info: RunInfo,
    /// Whether its outer recursion is left out.
    pub(crate) inference: Inference,
    pub(crate) task: TaskHandle,
    /// The options of the task.
    pub(crate) options: TaskOptions,
    /// Where the training stood.
    pub(crate) state: CheckpointState,
    /// The model with the weights of the checkpoint, where it was asked to compute.
    pub(crate) model: AnyModel,
    /// Whether a file was named for the weights, and they are the averages beside it.
    averaged: bool,
    /// Whether that is a device.
    pub(crate) on_device: bool,
    /// Where it was trained, and where it computes now, if that is another place or another precision.
    pub(crate) elsewhere: Option<(String, String)>,
    /// Whether rows or positions of it leave a recurrence.
    pub(crate) halts: bool,
    /// The values that it takes from the rows to answer.
    takes: Vec<String>,
}

impl TrainedModel {
    /// Reads the run, compiles its spec, and loads the checkpoint after checking that all three belong together.
    pub(crate) fn open(options: &ModelOptions) -> Result<Self, CommandFailure> {
        Self::open_edited(options, &[])
    }

    /// The same with edits of the model, which leave its weights as they are.
    pub(crate) fn open_edited(options: &ModelOptions, edits: &[Override]) -> Result<Self, CommandFailure> {
        let place = options.device.open()?;
        let SavedModel { path, experiment, seed, info, compiled, checkpoint: found, averaged } =
            match &options.experiment {
                Some(experiment) => SavedModel::of_spec(options, experiment)?,
                None => SavedModel::of_run(options)?,
            };
        let compiled = match edits {
            [] => compiled,
            edits => edited(&compiled, edits, &catalog_in(&experiment)?)?,
        };
        let (task, task_options) = task_of(&experiment)?;
        let inference = options.inference.map_or(experiment.inference, Inference::from);
        let on_device = place.device.is_some();
        let trained_on = info.versions.get(DEVICE).map_or(ON_CPU, String::as_str);
        let here = place.record().unwrap_or_else(|| ON_CPU.to_owned());
        let elsewhere = (trained_on != here).then(|| (trained_on.to_owned(), here));
        let depth = options.depth.map(|depth| depth as usize);
        let how = Computing { place, memory: None, halting: options.halting.into(), depth, inference };
        let mut model = compiled.model(compiled.plans()?, seed, how)?;
        model.restore(&found.learner)?;
        let takes = asked(model.forward_graph());
        provided(&takes, compiled.name(), &experiment)?;
        experiment.task.known.ask(asked(&compiled.graph));
        let halts = compiled.halts();
        let Compiled { definition, .. } = compiled;
        Ok(Self {
            path,
            name: definition.name().to_owned(),
            definition,
            experiment,
            info,
            inference,
            task,
            options: task_options,
            state: found.state,
            model,
            averaged,
            on_device,
            elsewhere,
            halts,
            takes: takes.into_iter().map(|asked| asked.name).collect(),
        })
    }

    /// Says if its weights are other ones than those that the named file holds.
    pub(crate) fn say_weights(&self, terminal: &Terminal) {
        if self.averaged {
            terminal.message(AVERAGED);
        }
    }

    /// Says if it computes elsewhere, or less exactly, than in training: the numbers differ then.
    pub(crate) fn say_where(&self, terminal: &Terminal) {
        self.say_weights(terminal);
        if let Some((trained, here)) = &self.elsewhere {
            terminal.message(&format!("note: this model was trained on {trained}, and computes on {here} now"));
        }
    }

    /// Whether rows come with values that it takes.
    pub(crate) fn takes_values(&self) -> bool {
        !self.takes.is_empty()
    }

    /// Examples that are computed at once.
    pub(crate) fn batch(&self) -> usize {
        let batch = &self.experiment.batch;
        batch.size.div_ceil(batch.accumulate)
    }

    /// The measurement of some examples of a split.
    pub(crate) fn measurement<'a>(&self, split: &'a str, examples: &'a [Example]) -> Measurement<'a> {
        let (metrics, perplexity) = (self.task.about().metrics, self.task.perplexity());
        Measurement { split, examples, batch: self.batch(), metrics, scale: self.task.scale(&self.options), perplexity }
    }

    /// Refuses splits whose rows are not those of the training.
    pub(crate) fn same_rows(&self, data: &Dataset) -> Result<(), CommandFailure> {
        let now = data.fingerprints();
        let other = |name: &&String| self.info.splits.get(*name).is_some_and(|old| *old != now[*name]);
        let changed: Vec<&str> = now.keys().filter(other).map(String::as_str).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let why = format!(
            "its data has changed since the training: other rows in {}; `rtc eval --data FILE` measures a file as it is",
            changed.join(", ")
        );
        Err(refused(&self.path, &why))
    }

    /// The names of tokens.
    pub(crate) fn names(&self, tokens: &[u32]) -> Vec<String> {
        let names = self.task.vocabulary(&self.options);
        let name = |token: &u32| names.get(*token as usize).cloned().unwrap_or_else(|| token.to_string());
        tokens.iter().map(name).collect()
    }

    /// The names of the positions of a row.
    pub(crate) fn positions(&self, tokens: &[u32]) -> Vec<String> {
        let mut positions = self.names(tokens);
        let of_spec =
            |spec: &Spec| spec.root.child("embed").and_then(|embed| embed.word("tokens")) == Some("start_end");
        if self.definition.spec().map_or_else(|| self.facts().is_framed(), of_spec) {
            positions.insert(0, "START".to_owned());
            positions.push("END".to_owned());
        }
        positions.splice(0..0, std::iter::repeat_n("PREFIX".to_owned(), self.facts().prefix()));
        positions
    }

    /// The row of a line: of a JSON object with the columns of the task, else of the text itself; with `objects` unset always of the
    /// text, but for a model that takes values from its rows.
    pub(crate) fn asked(&self, line: &str, objects: bool) -> Result<AskedRow, String> {
        let takes: Vec<&str> = self.takes.iter().map(String::as_str).collect();
        if objects && self.is_object(line)? {
            return self.task.object(line, &takes);
        }
        if self.takes.is_empty() {
            let example = sequence::example(&*self.task, &self.options, line)?;
            let cut = sides(&*self.task, line).map(|text| self.task.cut(text.trim())).sum::<Result<usize, String>>()?;
            return Ok(AskedRow { line: 0, text: line.to_owned(), example, label: None, cut });
        }
        if !line.trim_start().starts_with('{') {
            let columns = self.task.given().into_iter().filter(|given| self.takes.contains(&given.name.to_string()));
            let columns = columns.map(|given| format!("\"{}\": ..", given.column)).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "the model takes {} from its rows: write a row as a JSON object with the text and {columns}",
                self.takes.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ));
        }
        self.task.object(line, &takes)
    }

    /// Whether a line is a JSON object with the columns of the input, or is meant as one: a broken object that names them.
    ///
    /// # Errors
    /// A sentence about an object that lacks a column.
    fn is_object(&self, line: &str) -> Result<bool, String> {
        let columns = self.task.columns();
        if columns.is_empty() || !line.trim_start().starts_with('{') {
            return Ok(false);
        }
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(line) else {
            let names = |column: &Column| line.contains(&Value::from(column.to_string()).to_string());
            return Ok(columns.iter().all(names));
        };
        match columns.iter().find(|column| !fields.contains_key(&column.to_string())) {
            None => Ok(true),
            Some(column) => {
                let keys: Vec<&String> = fields.keys().collect();
                Err(format!(
                    "{}: a JSON object is a row by the columns of the input; as a text it is read from a file or standard input \
                     with `--input-format lines`",
                    unknown("column", &column.to_string(), &keys)
                ))
            }
        }
    }

    /// The format of a file of rows: as the experiment says, else by its name; nothing where the file has no columns.
    pub(crate) fn format(&self, path: &Path) -> Option<Format> {
        self.task.format().or_else(|| file_format(path)).filter(|format| *format != Format::Text)
    }

    /// The rows of a file; a row needs no label.
    pub(crate) fn rows(&self, path: &Path, format: Format) -> Result<AskedRows, DataError> {
        let takes: Vec<&str> = self.takes.iter().map(String::as_str).collect();
        self.task.rows_asked(path, format, &takes, &self.options)
    }

    /// What its forward graph tells.
    fn facts(&self) -> GraphFacts<'_> {
        GraphFacts(self.model.forward_graph())
    }

    /// Whether it ends in a recursion.
    pub(crate) fn folds(&self) -> bool {
        let of_spec = |spec: &Spec| spec.root.child("recurse").is_some();
        self.definition.spec().map_or_else(|| self.facts().folds(), of_spec)
    }
}

/// A model, its experiment, and the weights that were asked for.
struct SavedModel {
    path: PathBuf,
    experiment: Experiment,
    seed: u64,
    /// What a run says of itself; nothing without a run.
    info: RunInfo,
    compiled: Compiled,
    checkpoint: Checkpoint,
    /// Whether a file was named for the weights, and they are the averages beside it.
    averaged: bool,
}

impl SavedModel {
    /// Those of a run. Its checkpoint must belong to it, and its spec must give the model that was trained.
    fn of_run(options: &ModelOptions) -> Result<Self, CommandFailure> {
        let path = find(&options.run)?;
        let run = SavedRun::read(&path)?;
        let compiled = compile(&path, &run, &catalog_in(&run.experiment)?)?;
        let (checkpoint, averaged) = match others(options, &compiled)? {
            Some(found) => found,
            None => (opened(&path, &run).checkpoint(&options.checkpoint)?, false),
        };
        let (experiment, seed, info) = (run.experiment, run.info.seed, run.info);
        Ok(Self { path, experiment, seed, info, compiled, checkpoint, averaged })
    }

    /// Those of a spec in an experiment, without a run.
    fn of_spec(options: &ModelOptions, experiment: &str) -> Result<Self, CommandFailure> {
        let opened = OpenedExperiment::open(experiment)?;
        let name = options.run.to_string_lossy();
        let arg = SpecArg::parse(&name);
        let model = arg.model_name()?;
        let ForModel { experiment, edits, .. } = opened.resolve_for(&arg, &model, &[])?;
        let facts = catalog_in(&experiment)?;
        let checked = arg.check_edited(&edits, &facts)?;
        let compiled = Compiled::new(checked.definition, &facts)?;
        let needed =
            || CommandFailure::Usage("`--experiment` goes with `--weights`; a run has its own experiment".to_owned());
        let (checkpoint, averaged) = others(options, &compiled)?.ok_or_else(needed)?;
        let seed = experiment.seeds.first().copied().unwrap_or(1);
        Ok(Self {
            path: options.run.clone(),
            experiment,
            seed,
            info: RunInfo::default(),
            compiled,
            checkpoint,
            averaged,
        })
    }
}

/// The model of a run under edits that leave its weights as they are.
///
/// # Errors
/// An edit is wrong, or changes a weight.
pub(crate) fn edited(compiled: &Compiled, edits: &[Override], facts: &Catalog) -> Result<Compiled, CommandFailure> {
    let spec = need_spec(&compiled.definition, "settings to edit: `--set` and `--sweep` are for specs")?;
    let mut trained = spec.clone();
    take_all_gradients(&mut trained.root);
    let source = Source::new(format!("{} as it was trained", spec.name), spec::text(&trained));
    let checked = CheckedDefinition::of(check_edited(&NoFiles, source, None, edits, facts))?;
    let new = Compiled::new(checked.definition, facts)?;
    let of = |compiled: &Compiled| -> BTreeMap<String, String> {
        let all = compiled.graph.parameters().into_iter();
        all.map(|parameter| (parameter.name, parameter.ty.to_string())).collect()
    };
    let (was, is) = (of(compiled), of(&new));
    let other = was.iter().find(|(name, ty)| is.get(*name) != Some(ty));
    let other = other.or_else(|| is.iter().find(|(name, _)| !was.contains_key(*name)));
    let Some((name, _)) = other else { return Ok(new) };
    let change = match (was.get(name), is.get(name)) {
        (Some(was), Some(is)) => format!("`{name}` would be {is}, and is {was}"),
        (Some(_), None) => format!("`{name}` would have no use"),
        _ => format!("`{name}` would be new"),
    };
    Err(CommandFailure::Usage(format!(
        "the edits change the weights: {change}; a trained model takes only edits that leave them as they are, and `rtc train` trains \
         another one"
    )))
}

/// Nothing is trained, so fewer steps than have gradients in training are fine.
fn take_all_gradients(block: &mut Block) {
    if block.int("grad").is_some()
        && let Some(setting) = block.fields.get_mut("grad")
    {
        setting.value = FieldValue::Word("all".into());
    }
    block.children.iter_mut().for_each(take_all_gradients);
}

/// The weights of `--weights` as a checkpoint before the first update, and whether they are averages.
fn others(options: &ModelOptions, compiled: &Compiled) -> Result<Option<(Checkpoint, bool)>, CommandFailure> {
    let weights = options.weights.read(&compiled.graph)?;
    if weights.is_some() && options.checkpoint != BEST {
        return Err(CommandFailure::Usage(
            "`--weights` takes the place of `--checkpoint`: give one of them".to_owned(),
        ));
    }
    Ok(weights.map(|weights| (Checkpoint { learner: weights.state(), ..Checkpoint::default() }, weights.averaged)))
}

/// What to say where files were named and some splits have none.
pub(crate) fn generated(settings: &TaskSettings, data: &Dataset) -> Option<String> {
    let some = settings.data.is_some() && !data.generated.is_empty();
    some.then(|| format!("no file, so generated: {}", data.generated.join(", ")))
}

/// The task of an experiment with its complete options.
pub(crate) fn task_of(experiment: &Experiment) -> Result<(TaskHandle, TaskOptions), CommandFailure> {
    // What a run keeps of its task needs no rows.
    if experiment.task.known.kept.is_none() {
        check_program(&experiment.task, &experiment.splits())?;
    }
    Ok(open_task(&experiment.task)?)
}

/// What the compiler is told about the task of an experiment.
pub(crate) fn catalog_in(experiment: &Experiment) -> Result<Catalog, CommandFailure> {
    let (task, options) = task_of(experiment)?;
    Ok(catalog(&*task, &options))
}

/// The run in a folder, as this program opens it.
pub(crate) fn opened<'a>(path: &'a Path, run: &'a SavedRun) -> saved::OpenedRun<'a> {
    saved::OpenedRun { path, run, versions: versions() }
}

/// The model of a run. The spec and the compiler must give the graph that was trained.
pub(crate) fn compile(path: &Path, run: &SavedRun, task: &Catalog) -> Result<Compiled, CommandFailure> {
    let (definition, graph) = opened(path, run).model(task)?;
    Ok(Compiled { definition, binding: Binding::from(task), graph })
}

fn refused(path: &Path, reason: &str) -> CommandFailure {
    CheckpointError { path: path.to_owned(), reason: reason.to_owned(), previous: None }.into()
}
