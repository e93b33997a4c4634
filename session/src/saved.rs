//! A trained model, from the folder of its run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rtc_compiler::check::{NoFiles, Override, check_edited};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::asked::asked;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::{self, Block, FieldValue, Spec};
use rtc_exec::learner::{FlatArrays, LearnerState};
use rtc_exec::{Halting, Inference};
use rtc_runs::error::CheckpointError;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::checkpoint::{Checkpoint, CheckpointState};
use rtc_runs::record::{DEVICE, ON_CPU, RunInfo, SavedRun};
use rtc_runs::saved::{self, ModelDefinition};
use rtc_task::TaskSettings;
use rtc_task::error::{DataError, unknown};
use rtc_task::sequence::{self, sides};
use rtc_task::{
    AskedRow, AskedRows, Column, DOCUMENT, Dataset, Example, Format, Options as TaskOptions, TaskHandle, catalog,
    file_format, open_task,
};
use rtc_train::{Measurement, named_classes};
use serde_json::{Map, Value};

use crate::definition::{GraphFacts, need_spec};
use crate::device::{DeviceChoice, OpenDevice};
use crate::experiment_file::{ForModel, OpenedExperiment, check_program};
use crate::failure::SessionFailure;
use crate::folders::find;
use crate::metrics::{require_classes, require_metrics};
use crate::model::{AnyModel, Compiled, Computing, provided};
use crate::spec_file::{CheckedDefinition, SpecArg};
use crate::versions::versions;
use crate::weights::{AVERAGED, WeightsChoice};

/// The checkpoint that is meant where none is named.
pub const BEST: &str = "best";

/// A trained model, by the folder of its run or by a file of weights, and how it is to compute.
#[derive(Clone, Debug)]
pub struct ModelChoice {
    /// The folder of a run, its name below `runs`, or `@last`; with `weights` and `experiment`, a spec.
    pub run: PathBuf,
    /// The checkpoint: `best`, `last`, the update of one that was kept, or the folder of another one of the run.
    pub checkpoint: String,
    /// The file whose weights take the place of those of the checkpoint.
    pub weights: Option<WeightsChoice>,
    /// With `weights`: there is no run; the model is a spec in this experiment, a YAML file or a name.
    pub experiment: Option<String>,
    /// What rows that have halted cost.
    pub halting: Halting,
    /// Steps of a model with `depth: given`, in place of those that come with the examples.
    pub depth: Option<usize>,
    /// Whether the outer recursion of a fold is left out; as the experiment says without it.
    pub inference: Option<Inference>,
    /// The device.
    pub device: DeviceChoice,
}

impl ModelChoice {
    /// The best checkpoint of a run, on the processor.
    pub fn of_run(run: impl Into<PathBuf>) -> Self {
        Self {
            run: run.into(),
            checkpoint: BEST.to_owned(),
            weights: None,
            experiment: None,
            halting: Halting::default(),
            depth: None,
            inference: None,
            device: DeviceChoice::default(),
        }
    }
}

/// A trained model with all that is known about it. [`TrainingJob`](crate::job::TrainingJob) has an example.
pub struct TrainedModel {
    /// The folder of the run.
    pub path: PathBuf,
    /// The name of the model.
    pub name: String,
    /// The spec, or the graph in its place.
    pub definition: ModelDefinition,
    /// The experiment that it was trained in.
    pub experiment: Experiment,
    /// The record of the run.
    pub info: RunInfo,
    /// Whether its outer recursion is left out.
    pub inference: Inference,
    /// The task.
    pub task: TaskHandle,
    /// The options of the task.
    pub options: TaskOptions,
    /// The state of the training.
    pub state: CheckpointState,
    /// The model with the weights of the checkpoint, where it was asked to compute.
    pub model: AnyModel,
    /// Whether a file was named for the weights, and they are the averages beside it.
    averaged: bool,
    /// Whether that is a device.
    pub on_device: bool,
    /// Where it was trained, and where it computes now, if that is another place or another precision.
    elsewhere: Option<(String, String)>,
    /// Whether rows or positions of it leave a recurrence.
    pub halts: bool,
    /// The values that it takes from the rows to answer.
    takes: Vec<String>,
}

impl TrainedModel {
    /// Reads the run, compiles its spec, and loads the checkpoint after checking that all three belong together.
    pub fn open(choice: &ModelChoice) -> Result<Self, SessionFailure> {
        Self::open_edited(choice, &[])
    }

    /// The same with edits of the model, which leave its weights as they are.
    pub fn open_edited(choice: &ModelChoice, edits: &[Override]) -> Result<Self, SessionFailure> {
        Self::open_as(choice, None, edits)
    }

    /// The same under the names that a model has now, which are those that the edits use: it is that of the run but for its names.
    pub fn open_as(choice: &ModelChoice, named: Option<&Compiled>, edits: &[Override]) -> Result<Self, SessionFailure> {
        let place = choice.device.open()?;
        let SavedModel { path, experiment, seed, info, compiled, checkpoint: found, averaged } =
            match &choice.experiment {
                Some(experiment) => SavedModel::of_spec(choice, experiment)?,
                None => SavedModel::of_run(choice)?,
            };
        let learner = named.map(|named| renamed(&found.learner, &compiled.graph, &named.graph));
        let compiled = match edits {
            [] => compiled,
            edits => edited(named.unwrap_or(&compiled), edits, &catalog_in(&experiment)?)?,
        };
        let (task, task_options) = task_of(&experiment)?;
        let inference = choice.inference.unwrap_or(experiment.inference);
        let on_device = !matches!(place.machine, OpenDevice::Processor);
        let trained_on = info.versions.get(DEVICE).map_or(ON_CPU, String::as_str);
        let here = place.record().unwrap_or_else(|| ON_CPU.to_owned());
        let elsewhere = (trained_on != here).then(|| (trained_on.to_owned(), here));
        let how = Computing {
            place,
            memory: None,
            halting: choice.halting,
            depth: choice.depth,
            inference,
            ..Computing::default()
        };
        let mut model = compiled.model(compiled.plans()?, seed, how)?;
        model.restore(learner.as_ref().unwrap_or(&found.learner))?;
        let takes = asked(model.forward_graph());
        provided(&takes, compiled.name(), &experiment)?;
        experiment.task.known.ask(asked(&compiled.graph));
        let halts = compiled.halts();
        // The numbers of documents come from the tokens.
        let is_of_rows = |name: &String| name != DOCUMENT || task.document_end().is_none();
        let takes = takes.into_iter().map(|asked| asked.name).filter(is_of_rows).collect();
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
            takes,
        })
    }

    /// Returns a remark if its weights are the averages beside the named file.
    pub fn remark_on_weights(&self) -> Option<&'static str> {
        self.averaged.then_some(AVERAGED)
    }

    /// Returns remarks on its weights, and on a device or a precision other than in training: the numbers differ then.
    pub fn remarks(&self) -> Vec<String> {
        let elsewhere = self
            .elsewhere
            .as_ref()
            .map(|(trained, here)| format!("note: this model was trained on {trained}, and computes on {here} now"));
        self.remark_on_weights().map(str::to_owned).into_iter().chain(elsewhere).collect()
    }

    /// Whether rows come with values that it takes.
    pub fn takes_values(&self) -> bool {
        !self.takes.is_empty()
    }

    /// Examples that are computed at once.
    pub fn batch(&self) -> usize {
        let batch = &self.experiment.batch;
        batch.size.div_ceil(batch.accumulate)
    }

    /// The measurement of some examples of a split.
    pub fn measurement<'a>(&self, split: &'a str, examples: &'a [Example]) -> Measurement<'a> {
        let (metrics, perplexity) = (self.task.about().metrics, self.task.perplexity());
        Measurement {
            split,
            examples,
            batch: self.batch(),
            metrics,
            scale: self.task.scale(&self.options),
            perplexity,
            asked: self.experiment.metrics.clone(),
            classes: named_classes(&self.experiment, &*self.task, &self.options),
            each_class: false,
        }
    }

    /// Refuses splits whose rows are not those of the training.
    pub fn same_rows(&self, data: &Dataset) -> Result<(), SessionFailure> {
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
    pub fn names(&self, tokens: &[u32]) -> Vec<String> {
        let names = self.task.vocabulary(&self.options);
        let name = |token: &u32| names.get(*token as usize).cloned().unwrap_or_else(|| token.to_string());
        tokens.iter().map(name).collect()
    }

    /// The names of the positions of a row.
    pub fn positions(&self, tokens: &[u32]) -> Vec<String> {
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
    pub fn asked(&self, line: &str, objects: bool) -> Result<AskedRow, String> {
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
    pub fn format(&self, path: &Path) -> Option<Format> {
        self.task.format().or_else(|| file_format(path)).filter(|format| *format != Format::Text)
    }

    /// The rows of a file; a row needs no label.
    pub fn rows(&self, path: &Path, format: Format) -> Result<AskedRows, DataError> {
        let takes: Vec<&str> = self.takes.iter().map(String::as_str).collect();
        self.task.rows_asked(path, format, &takes, &self.options)
    }

    /// What its forward graph tells.
    fn facts(&self) -> GraphFacts<'_> {
        GraphFacts(self.model.forward_graph())
    }

    /// Whether it ends in a recursion.
    pub fn folds(&self) -> bool {
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
    fn of_run(choice: &ModelChoice) -> Result<Self, SessionFailure> {
        let path = find(&choice.run)?;
        let run = SavedRun::read(&path)?;
        let compiled = compile(&path, &run, &catalog_in(&run.experiment)?)?;
        let (checkpoint, averaged) = match others(choice, &compiled, run.info.seed)? {
            Some(found) => found,
            None => (opened(&path, &run).checkpoint(&choice.checkpoint)?, false),
        };
        let (experiment, seed, info) = (run.experiment, run.info.seed, run.info);
        Ok(Self { path, experiment, seed, info, compiled, checkpoint, averaged })
    }

    /// Those of a spec in an experiment, without a run.
    fn of_spec(choice: &ModelChoice, experiment: &str) -> Result<Self, SessionFailure> {
        let opened = OpenedExperiment::open(experiment)?;
        let name = choice.run.to_string_lossy();
        let arg = SpecArg::parse(&name);
        let model = arg.model_name()?;
        let ForModel { experiment, edits, .. } = opened.resolve_for(&arg, &model, &[])?;
        opened.require_files(&experiment)?;
        let facts = catalog_in(&experiment)?;
        let checked = arg.check_edited(&edits, &facts)?;
        let compiled = Compiled::new(checked.definition, &facts)?;
        let needed =
            || SessionFailure::Usage("`--experiment` goes with `--weights`; a run has its own experiment".to_owned());
        let seed = experiment.seeds.first().copied().unwrap_or(1);
        let (checkpoint, averaged) = others(choice, &compiled, seed)?.ok_or_else(needed)?;
        Ok(Self {
            path: choice.run.clone(),
            experiment,
            seed,
            info: RunInfo::default(),
            compiled,
            checkpoint,
            averaged,
        })
    }
}

/// The weights of a model under the names of another one that differs from it in names only.
fn renamed(state: &LearnerState, from: &Graph, to: &Graph) -> LearnerState {
    let names = |graph: &Graph| graph.parameters().into_iter().map(|parameter| parameter.name).collect::<Vec<_>>();
    let new: BTreeMap<String, String> = names(from).into_iter().zip(names(to)).collect();
    let under = |arrays: &FlatArrays| {
        let named = arrays.items.iter().map(|(name, array)| (new.get(name).unwrap_or(name).clone(), array.clone()));
        FlatArrays { items: named.collect() }
    };
    let LearnerState { parameters, optimiser, average, updates } = state;
    LearnerState {
        parameters: under(parameters),
        optimiser: optimiser.iter().map(|(name, arrays)| (name.clone(), under(arrays))).collect(),
        average: under(average),
        updates: *updates,
    }
}

/// The model of a run under edits that leave its weights as they are.
///
/// # Errors
/// An edit is wrong, or changes a weight.
pub fn edited(compiled: &Compiled, edits: &[Override], facts: &Catalog) -> Result<Compiled, SessionFailure> {
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
    Err(SessionFailure::Usage(format!(
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
fn others(choice: &ModelChoice, compiled: &Compiled, seed: u64) -> Result<Option<(Checkpoint, bool)>, SessionFailure> {
    let weights = choice.weights.as_ref().map(|weights| weights.read(&compiled.graph, seed)).transpose()?;
    if weights.is_some() && choice.checkpoint != BEST {
        return Err(SessionFailure::Usage(
            "`--weights` takes the place of `--checkpoint`: give one of them".to_owned(),
        ));
    }
    Ok(weights.map(|weights| (Checkpoint { learner: weights.state(), ..Checkpoint::default() }, weights.averaged)))
}

/// Returns a remark on splits that were generated although files were named.
pub fn generated(settings: &TaskSettings, data: &Dataset) -> Option<String> {
    let some = settings.data.is_some() && !data.generated.is_empty();
    some.then(|| format!("no file, so generated: {}", data.generated.join(", ")))
}

/// The task of an experiment with its complete options.
pub fn task_of(experiment: &Experiment) -> Result<(TaskHandle, TaskOptions), SessionFailure> {
    // What a run keeps of its task needs no rows.
    if experiment.task.known.kept.is_none() {
        check_program(&experiment.task, &experiment.splits())?;
    }
    Ok(open_task(&experiment.task)?)
}

/// What the compiler is told about the task of an experiment.
///
/// # Errors
/// A task that can't be opened; metrics that its answers do not have.
pub fn catalog_in(experiment: &Experiment) -> Result<Catalog, SessionFailure> {
    let (task, options) = task_of(experiment)?;
    require_metrics(experiment, &*task, &options)?;
    require_classes(experiment, (&*task, &options))?;
    Ok(catalog(&*task, &options))
}

/// The run in a folder, as this program opens it.
pub fn opened<'a>(path: &'a Path, run: &'a SavedRun) -> saved::OpenedRun<'a> {
    saved::OpenedRun { path, run, versions: versions() }
}

/// The model of a run. The spec and the compiler must give the graph that was trained.
pub fn compile(path: &Path, run: &SavedRun, task: &Catalog) -> Result<Compiled, SessionFailure> {
    let (definition, graph) = opened(path, run).model(task)?;
    Ok(Compiled { definition, binding: Binding::from(task), graph })
}

fn refused(path: &Path, reason: &str) -> SessionFailure {
    CheckpointError { path: path.to_owned(), reason: reason.to_owned(), previous: None }.into()
}
