//! A model as a module.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use candle_core::{DType, Device, Result, Shape, Tensor, Var, bail};
use candle_nn::{Module, VarMap};
use rtc_compiler::lower::Binding;
use rtc_exec::model::PassMode;
use rtc_task::{Example, Objective, Options as TaskOptions, Scale, TaskHandle, sequence};

use crate::failure::failed;
use crate::labels::labels;
use crate::op::{Ask, BatchQuestion, ComputedTensor, TensorBackward, TensorQuestion};
use crate::open::{KernelChoice, ModelFacts, Options, open, owned};
use crate::rows::PackedRows;
use crate::spec::{ModelSpec, compile};
use crate::worker::{Engine, Worker};

/// A model of a run, or of a spec. Clones share parameters and executor.
///
/// As a [`Module`] it takes token ids `[length]` or `[batch, length]`, of type u32 or i64, and gives logits as f32 on the same device:
///
/// | the model answers | logits |
/// |---|---|
/// | a class, or several labels, per row | `[batch, classes]`; of two classes the first has the logit 0 |
/// | a class per pair | `[batch / 2, classes]`: the first sides are the first half of the rows, the second sides the rest |
/// | a number per row | `[batch, 1]`, in the unit of the model: see [`Self::scale`] |
/// | a class per token, as a language model | `[batch, length, classes]` |
///
/// Rows of different lengths are no matrix, and nothing is padded: [`Self::forward_rows`] takes them one by one. The module itself
/// predicts, without dropout; [`Self::training`] is the same model with it. Candle's `backward` gives the gradients of the variables in
/// both.
#[derive(Clone)]
pub struct Model(Arc<SharedModel>);

struct SharedModel {
    worker: Arc<Worker>,
    variables: VarMap,
    parameters: Vec<ModelParameter>,
    task: ModelTask,
    kernels: KernelChoice,
    /// The sizes of its inputs and outputs, and its objective.
    binding: Binding,
    device: Device,
    /// The number of the next pass that draws.
    update: AtomicU64,
}

/// A parameter that the executor reads.
struct ModelParameter {
    name: String,
    shape: Vec<usize>,
    is_trained: bool,
}

/// The texts of ids and classes; none of a new model.
struct ModelTask {
    task: Option<(TaskHandle, TaskOptions)>,
    vocabulary: Vec<String>,
    classes: Vec<String>,
}

impl Model {
    /// Opens the best checkpoint of the run in a folder.
    ///
    /// # Errors
    /// A folder that `rtc predict` refuses, too; a device that rtc does not compute on; a model that takes more of its rows than tokens.
    pub fn open(run: impl AsRef<Path>, device: &Device) -> Result<Self> {
        Self::open_with(run, device, Options::default())
    }

    /// Opens a run in another way.
    ///
    /// # Errors
    /// As [`Self::open`], and options that are not for this model.
    pub fn open_with(run: impl AsRef<Path>, device: &Device, options: Options) -> Result<Self> {
        let (path, own) = (owned(run), device.clone());
        Self::start(device, options.kernels, move || open(&path, &options, &own))
    }

    /// A new model of a spec, with the weights that `rtc train` draws from this seed.
    ///
    /// # Errors
    /// A spec with errors, with its report; a model that takes more of its rows than tokens; a device that rtc does not compute on.
    pub fn new(spec: &ModelSpec, device: &Device) -> Result<Self> {
        Self::new_with(spec, device, Options::default())
    }

    /// A new model in another way; there is no checkpoint that `options` could name.
    ///
    /// # Errors
    /// As [`Self::new`], and options that are not for this model.
    pub fn new_with(spec: &ModelSpec, device: &Device, options: Options) -> Result<Self> {
        let (spec, own) = (spec.clone(), device.clone());
        Self::start(device, options.kernels, move || compile(&spec, &options, &own))
    }

    fn start(
        device: &Device,
        kernels: KernelChoice,
        open: impl FnOnce() -> Result<(Engine, ModelFacts)> + Send + 'static,
    ) -> Result<Self> {
        let (worker, facts) = Worker::start(open)?;
        let ModelFacts { parameters, task, binding, updates } = facts;
        let (variables, mut read) = (VarMap::new(), vec![]);
        for parameter in parameters {
            let var = Var::from_vec(parameter.numbers, parameter.shape.as_slice(), device)?;
            read.push(ModelParameter {
                name: parameter.name.clone(),
                shape: parameter.shape,
                is_trained: parameter.is_trained,
            });
            locked(&variables)?.insert(parameter.name, var);
        }
        let texts = |of: fn(&TaskHandle, &TaskOptions) -> Vec<String>| {
            task.as_ref().map(|(task, options)| of(task, options)).unwrap_or_default()
        };
        let task = ModelTask {
            vocabulary: texts(|task, options| task.vocabulary(options)),
            classes: texts(|task, options| task.classes(options)),
            task,
        };
        Ok(Self(Arc::new(SharedModel {
            worker: Arc::new(worker),
            variables,
            parameters: read,
            kernels,
            binding,
            task,
            device: device.clone(),
            update: AtomicU64::new(updates),
        })))
    }

    /// The variables of the model, under the names of its checkpoint. They are the parameters: what an optimiser or [`VarMap::load`]
    /// does to them is what the model computes with from then on, and [`VarMap::save`] writes a file that `rtc predict --weights` reads.
    pub fn var_map(&self) -> VarMap {
        self.0.variables.clone()
    }

    /// Copies the numbers of variables of the same names into those of the model. Others are left alone.
    ///
    /// # Errors
    /// A parameter that is missing or has another shape or type; then nothing has changed.
    pub fn load_var_map(&self, from: &VarMap) -> Result<()> {
        if std::ptr::eq(from.data(), self.0.variables.data()) {
            return Ok(());
        }
        let found = self.0.read(from)?;
        let own = self.0.read(&self.0.variables)?;
        own.iter().zip(&found).try_for_each(|(own, found)| own.set(&found.to_device(&self.0.device)?))
    }

    /// Where the model is.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// What a model of this task answers.
    pub fn objective(&self) -> Objective {
        self.0.binding.objective
    }

    /// The tokens, whose places are their ids; none of a new model.
    pub fn vocabulary(&self) -> &[String] {
        &self.0.task.vocabulary
    }

    /// The classes or labels, in the order of the logits; none of a new model, and none where numbers are asked for.
    pub fn classes(&self) -> &[String] {
        &self.0.task.classes
    }

    /// The unit of a model that answers numbers.
    pub fn scale(&self) -> Scale {
        self.0.task.task.as_ref().map(|(task, options)| task.scale(options)).unwrap_or_default()
    }

    /// The token ids of a text, `[length]`, as `rtc predict` makes them.
    ///
    /// # Errors
    /// A text of which the task makes none.
    pub fn encode(&self, text: &str) -> Result<Tensor> {
        if self.objective() == Objective::Pair {
            bail!("the rows of this model are pairs: encode each side by `encode_pair`");
        }
        let example = self.0.example(text)?;
        Tensor::new(example.tokens, &self.0.device)
    }

    /// The token ids of both sides of a pair, written `left ||| right`.
    ///
    /// # Errors
    /// As [`Self::encode`], and a model that does not take pairs.
    pub fn encode_pair(&self, text: &str) -> Result<[Tensor; 2]> {
        let example = self.0.example(text)?;
        let Some(second) = example.second else {
            bail!("the rows of this model are no pairs: encode them by `encode`")
        };
        Ok([Tensor::new(example.tokens, &self.0.device)?, Tensor::new(second, &self.0.device)?])
    }

    /// The logits of rows of any lengths, each a tensor `[length]`. Where every token is answered they are `[tokens, classes]`, those
    /// of a row behind those of the row before it; else they are as those of the module.
    ///
    /// # Errors
    /// As those of the module.
    pub fn forward_rows(&self, rows: &[Tensor]) -> Result<Tensor> {
        self.0.logits(PackedRows::of_each(rows, &self.0.device)?, PassMode::Evaluation)
    }

    /// The same model with dropout, and with all else that it draws in training.
    pub fn training(&self) -> Training {
        Training(self.clone())
    }

    /// The loss of tokens with their labels as rtc's own training pays it: the task loss, and what the model says of halting or of its
    /// steps. It is a scalar with dropout, and `backward` gives the gradients of the variables.
    ///
    /// Labels are classes, u32 or i64, one per row, pair or token, or 0 and 1 for every label of every row; numbers, f32, in the unit of
    /// the model. A negative class of a token says that it does not count.
    ///
    /// # Errors
    /// Tokens or labels that the model can't take, and a loss that is not finite.
    pub fn loss(&self, tokens: &Tensor, labels: &Tensor) -> Result<Tensor> {
        self.0.loss(PackedRows::of(tokens, &self.0.device)?, labels)
    }

    /// The same for rows of any lengths.
    ///
    /// # Errors
    /// As [`Self::loss`].
    pub fn loss_rows(&self, rows: &[Tensor], labels: &Tensor) -> Result<Tensor> {
        self.0.loss(PackedRows::of_each(rows, &self.0.device)?, labels)
    }
}

impl Module for Model {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        self.0.logits(PackedRows::of(tokens, &self.0.device)?, PassMode::Evaluation)
    }
}

/// A [`Model`] with dropout. Every pass draws anew; the draws of a run that goes on in a Candle program begin where its checkpoint
/// ended, and equal programs draw equally.
#[derive(Clone, Debug)]
pub struct Training(Model);

impl Training {
    /// As [`Model::forward_rows`].
    ///
    /// # Errors
    /// As those of the module.
    pub fn forward_rows(&self, rows: &[Tensor]) -> Result<Tensor> {
        let shared = &self.0.0;
        shared.logits(PackedRows::of_each(rows, &shared.device)?, PassMode::Training(shared.next_update()))
    }
}

impl Module for Training {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let shared = &self.0.0;
        shared.logits(PackedRows::of(tokens, &shared.device)?, PassMode::Training(shared.next_update()))
    }
}

impl SharedModel {
    fn example(&self, text: &str) -> Result<Example> {
        let Some((task, options)) = &self.task.task else {
            bail!("this model was made of a spec and has no task that makes ids of texts: give it ids")
        };
        sequence::example(&**task, options, text).map_err(failed)
    }

    fn next_update(&self) -> u64 {
        self.update.fetch_add(1, Ordering::Relaxed)
    }

    fn logits(&self, rows: PackedRows, draws: PassMode) -> Result<Tensor> {
        let (answers, tokens) = (self.answers(&rows)?, rows.batch.tokens.len());
        let outputs = self.binding.outputs().unwrap_or(1);
        let (count, length, objective, shape) = (rows.count(), rows.length, self.binding.objective, (answers, outputs));
        let logits = match self.kernels {
            KernelChoice::Rtc => {
                self.weights()?.apply_op1(self.question(rows, Ask::Logits(draws), Shape::from(shape)))?
            }
            KernelChoice::Candle => {
                let question = self.tensor_question(rows)?;
                let logits = question.logits(draws)?.reshape(shape)?;
                self.weights()?
                    .apply_op1(ComputedTensor { value: logits, backward: TensorBackward::Asked(question, draws) })?
            }
        };
        let is_binary = outputs == 1 && matches!(objective, Objective::Classify | Objective::Pair | Objective::Each);
        let logits = if is_binary { Tensor::cat(&[&logits.zeros_like()?, &logits], 1)? } else { logits };
        match (objective, length) {
            (Objective::Each, Some(length)) if tokens > 0 => logits.reshape((count, length, ())),
            _ => Ok(logits),
        }
    }

    fn loss(&self, mut rows: PackedRows, answers: &Tensor) -> Result<Tensor> {
        self.answers(&rows)?;
        let Binding { objective, classes, .. } = self.binding;
        rows.batch.labels = labels(answers, &rows, objective, classes.unwrap_or(0), &self.device)?;
        let (weights, update) = (self.weights()?, self.next_update());
        let (value, gradient) = match self.kernels {
            KernelChoice::Rtc => {
                let count = weights.elem_count();
                let question = self.question(rows, Ask::Loss(update), Shape::from(1 + count));
                let found = weights.apply_op1_no_bwd(&question)?;
                (found.narrow(0, 0, 1)?.reshape(())?, found.narrow(0, 1, count)?)
            }
            KernelChoice::Candle => self.tensor_question(rows)?.loss(update)?,
        };
        weights.apply_op1(ComputedTensor { value, backward: TensorBackward::Known(gradient) })
    }

    fn tensor_question(&self, rows: PackedRows) -> Result<TensorQuestion> {
        let flat = |var: Var| var.as_detached_tensor().flatten_all()?.contiguous();
        let weights = self.read(&self.variables)?.into_iter().map(flat).collect::<Result<_>>()?;
        Ok(TensorQuestion { worker: self.worker.clone(), batch: Arc::new(rows.batch), weights })
    }

    fn question(&self, rows: PackedRows, ask: Ask, shape: Shape) -> BatchQuestion {
        BatchQuestion { worker: self.worker.clone(), batch: Arc::new(rows.batch), ask, shape }
    }

    /// How many answers are expected for rows that the model can take.
    fn answers(&self, rows: &PackedRows) -> Result<usize> {
        let known = self.binding.vocab.unwrap_or(0);
        if let Some(at) = rows.batch.tokens.iter().position(|token| *token as usize >= known) {
            let row = rows.batch.offsets.partition_point(|start| *start <= at) - 1;
            bail!(
                "token id {} at position {} of row {row} is outside the vocabulary of {known}: `vocabulary` has the tokens in the order \
                 of their ids, and `encode` makes ids of a text",
                rows.batch.tokens[at],
                at - rows.batch.offsets[row]
            );
        }
        match self.binding.objective {
            Objective::Pair if rows.count() % 2 == 1 => bail!(
                "the rows of this model are pairs, and there are {}: first the first sides of all pairs, then the second ones",
                rows.count()
            ),
            Objective::Pair => Ok(rows.count() / 2),
            Objective::Each => Ok(rows.batch.tokens.len()),
            Objective::Classify | Objective::Number | Objective::Several => Ok(rows.count()),
        }
    }

    /// The parameters end to end. What rtc does not train has no gradient.
    fn weights(&self) -> Result<Tensor> {
        let vars = self.read(&self.variables)?;
        let flat = |(parameter, var): (&ModelParameter, Var)| match parameter.is_trained {
            true => var.flatten_all(),
            false => var.as_detached_tensor().flatten_all(),
        };
        let parts = self.parameters.iter().zip(vars).map(flat).collect::<Result<Vec<_>>>()?;
        Tensor::cat(&parts, 0)?.contiguous()
    }

    /// The variables of a map that are the parameters of the model, in their order.
    fn read(&self, map: &VarMap) -> Result<Vec<Var>> {
        let vars = locked(map)?;
        let find = |ModelParameter { name, shape, .. }: &ModelParameter| {
            let Some(var) = vars.get(name) else { bail!("there is no variable `{name}` for the model") };
            if var.dims() != shape.as_slice() {
                bail!("the variable `{name}` has shape {:?}, and the model's has {shape:?}", var.dims());
            }
            if var.dtype() != DType::F32 {
                bail!("the variable `{name}` is {}, and rtc computes in f32: convert it", var.dtype().as_str());
            }
            Ok(var.clone())
        };
        self.parameters.iter().map(find).collect()
    }
}

fn locked(map: &VarMap) -> Result<MutexGuard<'_, HashMap<String, Var>>> {
    map.data().lock().map_err(|_| failed("another thread has panicked while it changed the variables"))
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedModel { task, parameters, device, .. } = &*self.0;
        let name = task.task.as_ref().map_or("new", |(task, _)| task.name());
        write!(f, "Model({name}, {} parameters on {:?})", parameters.len(), device.location())
    }
}
