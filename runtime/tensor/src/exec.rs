//! The executor: a table of values, weights as tensors, runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{MAIN, NodeId, Value};
use rtc_compiler::plan::Plan;
use rtc_exec::arena::Arena;
use rtc_exec::machine::region::{InputName, inputs, ranges_by_value, run_region, whole_batch};
use rtc_exec::machine::resume::Resume;
use rtc_exec::machine::search::Searches;
use rtc_exec::mask::{self, Exprs};
use rtc_exec::storage::Buffer;
use rtc_exec::{
    ExecutionFault, Executor, NoiseSource, Outputs, RunRecords, Settings, axis_names, output_names, parameter_ranges,
};

use rtc_kernel::position::PositionTables;

use crate::value::{OnTensors, TensorNumber, TensorValue};

/// What a mask depends on besides its node: the offsets of queries and keys, and the step where its rule reads it.
type MaskKey = (Vec<usize>, Vec<usize>, i64);

/// The last mask of each node, 1 where a query sees a key and 0 elsewhere.
pub(crate) type Masks = RefCell<BTreeMap<NodeId, (MaskKey, Tensor)>>;

/// Runs one plan on tensors of Candle.
pub struct TensorExecutor<T: TensorNumber> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) device: Device,
    pub(crate) values: Vec<Option<TensorValue<T>>>,
    /// All weights, flat, in the order of their names.
    parameters: Vec<T>,
    gradients: Vec<T>,
    /// Each weight as a flat tensor, made when it is read, and gone when the weights may have changed.
    weights: RefCell<Vec<Option<Tensor>>>,
    /// What this run adds to the gradients, by weight.
    pub(crate) sums: Vec<Option<Tensor>>,
    /// The weight whose numbers a value has.
    by_value: Vec<Option<usize>>,
    by_index: Vec<Range<usize>>,
    pub(crate) inputs: Vec<(InputName, TensorValue<T>)>,
    outputs: Rc<[String]>,
    pub(crate) axes: Vec<Rc<str>>,
    pub(crate) exprs: Rc<Exprs>,
    /// What the scores of attentions stay below.
    pub(crate) caps: BTreeMap<NodeId, f64>,
    pub(crate) arena: Arena,
    /// How it runs.
    pub settings: Settings,
    pub(crate) searches: Searches,
    pub(crate) resume: Option<Resume<OnTensors<T>>>,
    /// When set, searches take these draws instead of their own.
    pub noise: Option<Rc<dyn NoiseSource>>,
    /// What runs record besides their results.
    pub records: RunRecords,
    /// The processor, for ops that have no kernels of Candle.
    pub(crate) host: Executor<T>,
    /// Cosines and sines of positions.
    pub(crate) tables: RefCell<PositionTables<T>>,
    /// Masks of attention, as long as the rows stay the same.
    pub(crate) masks: Masks,
    /// The first failure of Candle in this run.
    failure: RefCell<Option<String>>,
}

/// What a run leaves on its device.
#[derive(Clone, Debug)]
pub struct TensorResults {
    /// The results by their names, flat; nothing where a result is no real array.
    outputs: Vec<(String, Option<Tensor>)>,
    /// What the run adds to the gradient of each weight, flat, in the order of the plan; nothing where it adds nothing.
    pub gradients: Vec<Option<Tensor>>,
}

impl TensorResults {
    /// The numbers of a result, flat.
    pub fn real(&self, name: &str) -> Option<&Tensor> {
        self.outputs.iter().find(|(own, _)| own == name)?.1.as_ref()
    }
}

impl<T: TensorNumber> fmt::Debug for TensorExecutor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorExecutor({} parameters on {:?})", self.parameters.len(), self.device)
    }
}

impl<T: TensorNumber> TensorExecutor<T> {
    /// An executor with all parameters zero.
    pub fn new(plan: Arc<Plan>, device: Device) -> Self {
        let by_index = parameter_ranges(&plan);
        let total = by_index.last().map_or(0, |range| range.end);
        let ranges = ranges_by_value(&plan, &by_index);
        let index = |range: &Option<Range<usize>>| by_index.iter().position(|own| Some(own) == range.as_ref());
        let arena = Arena::default();
        Self {
            values: vec![None; plan.graph.value_count()],
            parameters: vec![<T as rtc_kernel::Real>::ZERO; total],
            gradients: vec![<T as rtc_kernel::Real>::ZERO; total],
            weights: RefCell::new(vec![None; by_index.len()]),
            sums: vec![None; by_index.len()],
            by_value: ranges.iter().map(index).collect(),
            by_index,
            inputs: vec![],
            outputs: output_names(&plan),
            axes: axis_names(&plan),
            exprs: Rc::new(mask::exprs(&plan.graph)),
            caps: mask::caps(&plan.graph),
            host: Executor::within(plan.clone(), arena.clone()),
            arena,
            settings: Settings::default(),
            searches: Searches::default(),
            resume: None,
            noise: None,
            records: RunRecords::default(),
            tables: RefCell::new(PositionTables::new()),
            masks: Masks::default(),
            failure: RefCell::default(),
            device,
            plan,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// All parameters, flat, in the order of their names.
    pub fn parameters(&self) -> &Vec<T> {
        &self.parameters
    }

    /// All parameters, to write.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        self.arrays_mut().0
    }

    /// All gradients, flat, in the order of the parameters.
    pub fn gradients(&self) -> &[T] {
        &self.gradients
    }

    /// Parameters and gradients, to write.
    pub(crate) fn arrays_mut(&mut self) -> (&mut Vec<T>, &mut Vec<T>) {
        self.weights.get_mut().fill(None);
        (&mut self.parameters, &mut self.gradients)
    }

    /// Runs the plan on a batch; `key` is the random key of this update. Gradients are added to what is there.
    ///
    /// # Errors
    /// A batch that does not fit; with `check_finite`, the first value that is not finite; a failure of Candle.
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, ExecutionFault> {
        let values = self.pass(batch, key, None, |own| {
            let values = own.results(|x| own.host_numbers(&x).to_vec());
            own.add_sums();
            values
        })?;
        Ok(Outputs::new(self.outputs.clone(), values, &self.arena))
    }

    /// Runs the plan with weights that lie on the device, flat, in the order of the plan, and leaves all results there. `given` is one more
    /// input with its name.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(
        &mut self,
        batch: &Batch,
        key: Key,
        weights: &[Tensor],
        given: Option<(&str, &Tensor)>,
    ) -> Result<TensorResults, ExecutionFault> {
        let own = self.weights.get_mut();
        if weights.len() != own.len() {
            return Err(ExecutionFault::Batch(format!(
                "there are {} weights, and the model has {}",
                weights.len(),
                own.len()
            )));
        }
        own.iter_mut().zip(weights).for_each(|(own, weight)| *own = Some(weight.clone()));
        let given = given.map(|(name, numbers)| (InputName::Given(name.into()), TensorValue::Real(numbers.clone())));
        let results = self.pass(batch, key, given, |own| {
            let outputs = own.outputs.clone();
            let gradients = own.sums.iter_mut().map(Option::take).collect();
            TensorResults { outputs: outputs.iter().cloned().zip(own.results(|x| x)).collect(), gradients }
        });
        self.weights.get_mut().fill(None);
        results
    }

    /// A run, and what is made of its results before they are dropped.
    fn pass<R>(
        &mut self,
        batch: &Batch,
        key: Key,
        given: Option<(InputName, TensorValue<T>)>,
        results: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, ExecutionFault> {
        let view = whole_batch(self, batch, key, self.settings.depth)?;
        let inputs = inputs(self, batch);
        self.inputs.extend(inputs);
        self.inputs.extend(given);
        let outcome = run_region(self, MAIN, &view).and_then(|()| {
            let results = results(self);
            self.failure.take().map_or(Ok(results), |failure| Err(ExecutionFault::Device(failure)))
        });
        self.values.fill(None);
        self.inputs.clear();
        self.sums.fill(None);
        self.failure.take();
        outcome
    }

    /// The real results of the plan.
    fn results<R>(&self, of: impl Fn(Tensor) -> R) -> Vec<Option<R>> {
        let real = |value: &Value| match self.handle(*value) {
            TensorValue::Real(x) => Some(of(x)),
            _ => None,
        };
        self.plan.regions[MAIN.index()].yields.iter().map(real).collect()
    }

    /// Adds what the run has added up.
    fn add_sums(&mut self) {
        for (n, range) in self.by_index.clone().into_iter().enumerate() {
            let Some(sum) = self.sums[n].take() else { continue };
            let numbers = self.host_numbers(&sum);
            self.gradients[range].iter_mut().zip(&*numbers).for_each(|(gradient, x)| *gradient += *x);
        }
    }

    /// Adds numbers to the gradient of a weight.
    pub(crate) fn add_gradient(&mut self, parameter: usize, numbers: &Tensor) -> candle_core::Result<()> {
        let sum = match &self.sums[parameter] {
            Some(sum) => (sum + numbers)?,
            None => numbers.clone(),
        };
        self.sums[parameter] = Some(sum);
        Ok(())
    }

    /// The weight whose numbers a value has, as a flat tensor.
    pub(crate) fn weight(&self, value: Value) -> Option<Tensor> {
        let parameter = self.by_value[value.index()]?;
        let mut weights = self.weights.borrow_mut();
        let weight =
            weights[parameter].get_or_insert_with(|| self.uploaded(&self.parameters[self.by_index[parameter].clone()]));
        Some(weight.clone())
    }

    /// A handle to a value or a weight.
    pub(crate) fn handle(&self, value: Value) -> TensorValue<T> {
        match &self.values[value.index()] {
            Some(val) => val.clone(),
            None => TensorValue::Real(self.weight(value).expect("the plan keeps a value until its last use")),
        }
    }

    /// The numbers of a real value or a weight, flat.
    pub(crate) fn real(&self, value: Value) -> Tensor {
        self.handle(value).array().clone()
    }

    pub(crate) fn index(&self, value: Value) -> &Buffer<u32> {
        match &self.values[value.index()] {
            Some(TensorValue::Index(ids)) => ids,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(crate) fn truth(&self, value: Value) -> &Buffer<u8> {
        match &self.values[value.index()] {
            Some(TensorValue::Truth(truths)) => truths,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(crate) fn set(&mut self, value: Value, val: TensorValue<T>) {
        self.values[value.index()] = Some(val);
    }

    /// Numbers of the host as a flat tensor.
    pub(crate) fn uploaded(&self, numbers: &[T]) -> Tensor {
        self.kept(Tensor::from_slice(numbers, numbers.len(), &self.device), numbers.len())
    }

    /// Numbers of a tensor on the host.
    pub(crate) fn host_numbers(&self, tensor: &Tensor) -> Buffer<T> {
        match tensor.flatten_all().and_then(|flat| flat.to_vec1::<T>()) {
            Ok(numbers) => self.arena.copy(&numbers),
            Err(error) => {
                self.note(&error);
                self.arena.filled(tensor.elem_count(), <T as rtc_kernel::Real>::ZERO)
            }
        }
    }

    /// Keeps the first failure of a run, which the run ends with.
    pub(crate) fn note(&self, error: &candle_core::Error) {
        self.failure.borrow_mut().get_or_insert_with(|| error.to_string());
    }

    /// A tensor, or zeros in its place where Candle failed: the run goes on, and ends with the failure.
    pub(crate) fn kept(&self, made: candle_core::Result<Tensor>, len: usize) -> Tensor {
        made.unwrap_or_else(|error| {
            self.note(&error);
            Tensor::zeros(len, T::DTYPE, &Device::Cpu).expect("zeros fit into memory")
        })
    }
}
