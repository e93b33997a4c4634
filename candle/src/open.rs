//! From the folder of a run to a model that computes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Result, bail};
use rtc_compiler::ir::graph::{FIXED, Graph};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::asked::asked;
use rtc_exec::learner::{FlatArrays, LearnerState};
use rtc_exec::model::{Backend, Function};
use rtc_exec::{Executor, Halting, Inference, Settings};
use rtc_kernel::Precision;
use rtc_runs::record::SavedRun;
use rtc_runs::saved::OpenedRun;
use rtc_task::{Options as TaskOptions, TaskHandle, catalog, open_task};

use crate::failure::failed;
use crate::worker::Engine;

/// How a run is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checkpoint: `best`, `last`, or the folder of another one of the run.
    pub checkpoint: String,
    /// Steps of a model with `depth: given`, which takes them from the examples elsewhere.
    pub depth: Option<usize>,
    /// What sequences that have halted cost; changes speed alone.
    pub halting: Halting,
    /// Whether the outer recursion of a fold is left out; as the experiment says, if nothing is said.
    pub inference: Option<Inference>,
    /// How exact matrix products with weights are.
    pub precision: Precision,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkpoint: "best".to_owned(),
            depth: None,
            halting: Halting::default(),
            inference: None,
            precision: Precision::default(),
        }
    }
}

/// Facts of an opened model besides its engine.
pub(crate) struct ModelFacts {
    /// Name, shape, numbers, and whether it is trained, of every parameter in the order of the flat array.
    pub(crate) parameters: Vec<SavedParameter>,
    pub(crate) task: TaskHandle,
    pub(crate) options: TaskOptions,
    pub(crate) binding: Binding,
    /// Updates that the run has made until this checkpoint.
    pub(crate) updates: u64,
}

/// A parameter as the checkpoint has it.
pub(crate) struct SavedParameter {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) is_trained: bool,
    pub(crate) numbers: Vec<f32>,
}

/// Opens the run in a folder.
pub(crate) fn open(path: &Path, options: &Options, device: &Device) -> Result<(Engine, ModelFacts)> {
    let run = SavedRun::read(path).map_err(failed)?;
    let (task, task_options) = open_task(&run.experiment.task).map_err(failed)?;
    let catalog = catalog(&*task, &task_options);
    let versions = BTreeMap::from([("rtc-candle".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let opened = OpenedRun { path, run: &run, versions: &versions };
    let (_, graph) = opened.model(&catalog).map_err(failed)?;
    if let Some(value) = asked(&graph).first() {
        bail!(
            "the model in {} takes `{}` from its rows, and a module of Candle is given tokens alone: ask it by `rtc predict`",
            path.display(),
            value.name
        );
    }
    let learner = opened.checkpoint(&options.checkpoint).map_err(failed)?.learner;
    learner.require_finite().map_err(failed)?;
    let (binding, seed) = (Binding::from(&catalog), run.info.seed);
    let inference = options.inference.unwrap_or(run.experiment.inference);
    let settings = Settings {
        halting: options.halting,
        depth: options.depth,
        inference,
        precision: options.precision,
        ..Settings::default()
    };
    let (engine, parameters) = engine((graph, binding, seed), settings, learner.clone(), (path, device))?;
    let facts = ModelFacts { parameters, task, options: task_options, binding, updates: learner.updates };
    Ok((engine, facts))
}

/// The engine on the device, and the weights that evaluations use: their average, where there is one.
fn engine(
    (graph, binding, seed): (Graph, Binding, u64),
    settings: Settings,
    learner: LearnerState,
    (path, device): (&Path, &Device),
) -> Result<(Engine, Vec<SavedParameter>)> {
    let weights = if learner.average.items.is_empty() { learner.parameters } else { learner.average };
    match device {
        Device::Cpu => {
            let function = Function::new(graph, binding, seed, |plan| Executor::new(plan.into())).map_err(failed)?;
            let (function, parameters) = fitted(function, settings, weights, path)?;
            Ok((Engine::Host(Box::new(function)), parameters))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let (gpu, executor) = crate::gpu::open(device, settings.precision)?;
            let function = Function::new(graph, binding, seed, executor).map_err(failed)?;
            let (function, parameters) = fitted(function, settings, weights, path)?;
            Ok((Engine::Gpu(Box::new(crate::gpu::GpuEngine { gpu, function })), parameters))
        }
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => {
            bail!("this program has rtc-candle without its feature `cuda`: turn it on, or open the model on the CPU")
        }
        Device::Metal(_) => bail!("rtc does not compute on Metal: open the model with `Device::Cpu`"),
    }
}

/// A function with its settings, and its parameters with the numbers of a checkpoint.
fn fitted<B: Backend>(
    mut function: Function<B>,
    settings: Settings,
    mut weights: FlatArrays,
    path: &Path,
) -> Result<(Function<B>, Vec<SavedParameter>)> {
    let refuse = |why: String| failed(format!("{} is refused: {why}", path.display()));
    match (function.takes_depth(), settings.depth) {
        (true, None) => {
            let why =
                "the steps of this model come with its examples, and tokens have none: say `depth` in the `Options`";
            return Err(refuse(why.to_owned()));
        }
        (false, Some(_)) => {
            return Err(refuse(
                "`depth` is for models with `depth: given`; the steps of this one are its own".to_owned(),
            ));
        }
        _ => {}
    }
    function.set(settings).map_err(failed)?;
    let mut parameters = vec![];
    for own in function.parameters() {
        let none = || refuse(format!("its checkpoint has no `{}`", own.name));
        let (shape, numbers) = weights.items.remove(&own.name).ok_or_else(none)?;
        let dims: Vec<usize> = own.ty.dims().iter().filter_map(rtc_compiler::ir::types::Dim::fixed).collect();
        if shape != dims {
            return Err(refuse(format!(
                "`{}` has shape {shape:?} in its checkpoint, the model has {dims:?}",
                own.name
            )));
        }
        let is_trained = own.group.as_deref() != Some(FIXED);
        parameters.push(SavedParameter { name: own.name.clone(), shape, is_trained, numbers });
    }
    match weights.items.keys().next() {
        Some(extra) => Err(refuse(format!("its checkpoint has a `{extra}`, which is no parameter of the model"))),
        None => Ok((function, parameters)),
    }
}

/// A path that a thread of its own can hold.
pub(crate) fn owned(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_path_buf()
}
