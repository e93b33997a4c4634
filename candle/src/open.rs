//! From the folder of a run to a model that computes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Result, bail};
use rtc_compiler::ir::graph::{FIXED, Graph, Parameter};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::asked::asked;
use rtc_compiler::plan::Plan;
use rtc_exec::learner::FlatArrays;
use rtc_exec::model::{Backend, Function};
use rtc_exec::{Executor, Halting, Inference, Settings};
use rtc_kernel::Precision;
use rtc_runs::record::SavedRun;
use rtc_runs::saved::OpenedRun;
use rtc_task::{Options as TaskOptions, TaskHandle, catalog, open_task};
use rtc_tensor::TensorExecutor;

use crate::failure::failed;
use crate::worker::Engine;

/// Whose kernels compute a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelChoice {
    /// The kernels of rtc, on the CPU and on CUDA: the bits of `rtc predict`, and several times faster.
    #[default]
    Rtc,
    /// The kernels of Candle, on any of its devices. The executor reads the variables where they are, and its logits and gradients stay there.
    Candle,
}

/// How a run is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checkpoint: `best`, `last`, the update of one that was kept, or the folder of another one of the run.
    pub checkpoint: String,
    /// Steps of a model with `depth: given`, which takes them from the examples elsewhere.
    pub depth: Option<usize>,
    /// What sequences that have halted cost; changes speed alone.
    pub halting: Halting,
    /// Whether the outer recursion of a fold is left out; as the experiment says, if nothing is said.
    pub inference: Option<Inference>,
    /// How exact matrix products with weights are.
    pub precision: Precision,
    /// Whose kernels compute it.
    pub kernels: KernelChoice,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkpoint: "best".to_owned(),
            depth: None,
            halting: Halting::default(),
            inference: None,
            precision: Precision::default(),
            kernels: KernelChoice::default(),
        }
    }
}

impl Options {
    fn settings(&self, inference: Inference) -> Settings {
        let Self { halting, depth, precision, .. } = *self;
        Settings { halting, depth, inference, precision, ..Settings::default() }
    }
}

/// Facts of an opened model besides its engine.
pub(crate) struct ModelFacts {
    /// Name, shape, numbers, and whether it is trained, of every parameter in the order of the flat array.
    pub(crate) parameters: Vec<SavedParameter>,
    /// The task of a run.
    pub(crate) task: Option<(TaskHandle, TaskOptions)>,
    pub(crate) binding: Binding,
    /// Updates that the run has made until this checkpoint.
    pub(crate) updates: u64,
}

/// A parameter with its numbers.
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
    tokens_only(&graph, &format!("the model in {}", path.display()))?;
    let learner = opened.checkpoint(&options.checkpoint).map_err(failed)?.learner;
    learner.require_finite().map_err(failed)?;
    let (binding, seed) = (Binding::from(&catalog), run.info.seed);
    let inference = options.inference.unwrap_or(run.experiment.inference);
    let refuse = |why: String| failed(format!("{} is refused: {why}", path.display()));
    let (engine, own) =
        engine((graph, binding, seed), options, inference, device).map_err(|why| refuse(why.to_string()))?;
    // Evaluations use the average of the weights, where there is one.
    let weights = if learner.average.items.is_empty() { learner.parameters } else { learner.average };
    let parameters = saved(&own, weights).map_err(refuse)?;
    let facts = ModelFacts { parameters, task: Some((task, task_options)), binding, updates: learner.updates };
    Ok((engine, facts))
}

/// Refuses a model that takes more of its rows than tokens.
pub(crate) fn tokens_only(graph: &Graph, model: &str) -> Result<()> {
    let Some(value) = asked(graph).into_iter().next() else { return Ok(()) };
    bail!(
        "{model} takes `{}` from its rows, and a module of Candle is given only tokens: use `rtc train` and `rtc predict`",
        value.name
    )
}

/// The engine on the device, and its parameters.
pub(crate) fn engine(
    (graph, binding, seed): (Graph, Binding, u64),
    options: &Options,
    inference: Inference,
    device: &Device,
) -> Result<(Engine, Vec<Parameter>)> {
    let settings = options.settings(inference);
    let precise = settings.precision == Precision::default();
    match (options.kernels, device) {
        (KernelChoice::Candle, _) if !precise => bail!("`precision` is for kernels of rtc: Candle's compute in f32"),
        (KernelChoice::Candle, device) => {
            let executor = |plan: Plan| TensorExecutor::new(plan.into(), device.clone());
            let function = Function::new(graph, binding, seed, executor).map_err(failed)?;
            fitted(function, settings, Engine::Tensors)
        }
        (KernelChoice::Rtc, Device::Cpu) => {
            let function = Function::new(graph, binding, seed, |plan| Executor::new(plan.into())).map_err(failed)?;
            fitted(function, settings, Engine::Host)
        }
        #[cfg(feature = "cuda")]
        (KernelChoice::Rtc, Device::Cuda(device)) => {
            let (gpu, executor) = crate::gpu::open(device, settings.precision)?;
            let function = Function::new(graph, binding, seed, executor).map_err(failed)?;
            fitted(function, settings, |function| {
                Engine::Gpu(Box::new(crate::gpu::GpuEngine { gpu, function: *function }))
            })
        }
        #[cfg(not(feature = "cuda"))]
        (KernelChoice::Rtc, Device::Cuda(_)) => bail!(
            "this program has rtc-candle without its feature `cuda`: turn it on, or take `KernelChoice::Candle` in the `Options`"
        ),
        (KernelChoice::Rtc, Device::Metal(_)) => {
            bail!("rtc has no kernels for Metal: take `KernelChoice::Candle` in the `Options`, or `Device::Cpu`")
        }
    }
}

/// A function with its settings as an engine, and its parameters.
fn fitted<B: Backend>(
    mut function: Function<B>,
    settings: Settings,
    engine: impl FnOnce(Box<Function<B>>) -> Engine,
) -> Result<(Engine, Vec<Parameter>)> {
    match (function.takes_depth(), settings.depth) {
        (true, None) => {
            bail!("the steps of this model come with its examples, and tokens have none: say `depth` in the `Options`")
        }
        (false, Some(_)) => bail!("`depth` is for models with `depth: given`; the steps of this one are its own"),
        _ => {}
    }
    function.set(settings).map_err(failed)?;
    let parameters = function.parameters().to_vec();
    Ok((engine(Box::new(function)), parameters))
}

/// Parameters with the numbers of a checkpoint, or why it is refused.
fn saved(parameters: &[Parameter], mut weights: FlatArrays) -> std::result::Result<Vec<SavedParameter>, String> {
    let mut found = vec![];
    for own in parameters {
        let none = || format!("its checkpoint has no `{}`", own.name);
        let (shape, numbers) = weights.items.remove(&own.name).ok_or_else(none)?;
        let parameter = SavedParameter::new(own, numbers);
        if shape != parameter.shape {
            return Err(format!(
                "`{}` has shape {shape:?} in its checkpoint, the model has {:?}",
                own.name, parameter.shape
            ));
        }
        found.push(parameter);
    }
    match weights.items.keys().next() {
        Some(extra) => Err(format!("its checkpoint has a `{extra}`, which is no parameter of the model")),
        None => Ok(found),
    }
}

impl SavedParameter {
    pub(crate) fn new(own: &Parameter, numbers: Vec<f32>) -> Self {
        let shape = own.ty.dims().iter().filter_map(Dim::fixed).collect();
        Self { name: own.name.clone(), shape, is_trained: own.group.as_deref() != Some(FIXED), numbers }
    }
}

/// A path that a thread of its own can hold.
pub(crate) fn owned(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_path_buf()
}
