//! A model that can be trained: two plans (training step, forward pass), parameters, gradients and the arrays of the optimiser, on
//! a machine.

mod answers;
mod carried;
mod examined;
mod function;
mod initial;
mod named;
mod sums;

use rtc_compiler::ir::attribute;
use std::sync::Arc;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;

use crate::bounds::StepBounds;
use crate::learner::{
    BatchAnswers, Carry, Evaluation, FlatArrays, LearnError, Learner, LearnerState, OptimiserKind, RemainingState,
    StepReport, UpdateRule,
};
pub(crate) use crate::machine::backend::BackendArray;
pub use crate::machine::backend::{ArrayMemory, Backend};
use crate::machine::outputs::Outputs;
use crate::processor::Executor;
use crate::ranges::aligned_ranges;
use crate::settings::ExecutionFault;
use crate::settings::Halting;
use crate::settings::Inference;
use crate::storage::Element;
use crate::update::{self, OptimiserState, STATE};
pub use answers::AfterSteps;
pub use answers::logits_per_item;
use answers::{PassResults, Predictions, check_labels, count, predict, report};
pub use examined::{Examination, ForwardPass};
pub use function::Question;
pub use function::{COTANGENT, Function, PassMode};
pub use initial::initial;
pub use named::{ParameterGroups, matrices};
use named::{Segments, flat, named, named_ranges};
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_kernel::clip::clip_factor;
use rtc_kernel::optimiser::{Assign, Average, Set, Share};
use rtc_kernel::{Precision, Real};
use sums::Sums;

/// A model with its state on a machine.
#[derive(Debug)]
pub struct ModelOn<B: Backend> {
    memory: B::Memory,
    training: B,
    inference: B,
    binding: Binding,
    seed: Key,
    updates: u64,
    micro: u64,
    /// The arrays of the optimiser.
    state: OptimiserState<BackendArray<B>>,
    /// Averaged weights, if there are any.
    averaged: Option<BackendArray<B>>,
    /// Sums of the gradients of micro-batches, where there are several.
    sums: Sums<BackendArray<B>>,
    segments: Segments,
    /// The lines of [`OptimiserKind::Formula`].
    formula: Option<UpdateFormula>,
    /// What the last training step predicted.
    predicted: Predictions,
    /// The update after which the weights were last seen to be finite.
    sound: Option<u64>,
    /// What rows carry from one update to the next, and what those of the last training step have left.
    carries: Vec<Carry>,
    left: RemainingState,
}

/// A model on the processor, computing in `T`.
pub type Model<T> = ModelOn<Executor<T>>;

/// Compiles the model for `f32` here, once: every program and test that uses it would compile the interpreter and all kernels
/// again. Optimised builds do not share generic code between crates.
#[cfg(all(debug_assertions, not(test)))]
#[used]
static SINGLE: fn(Model<f32>) -> Box<dyn Learner> = |model| Box::new(model);

impl<T: Element> Model<T> {
    /// A model with freshly drawn parameters.
    pub fn new(training: Plan, inference: Plan, binding: Binding, seed: u64) -> Self {
        Self::with(Executor::new(Arc::new(training)), inference, binding, seed)
    }
}

impl<B: Backend> ModelOn<B> {
    /// A model with freshly drawn parameters: an executor of its training step, and the plan of its forward pass.
    pub fn with(mut training: B, inference: Plan, binding: Binding, seed: u64) -> Self {
        let (memory, seed) = (training.memory(), Key::new(seed));
        let segments = Segments::new(&training.plan().graph, B::ALIGN, &ParameterGroups::new());
        let mut numbers = vec![B::Number::ZERO; segments.len()];
        for (parameter, range) in training.plan().parameters.iter().zip(aligned_ranges(training.plan(), B::ALIGN)) {
            numbers[range].copy_from_slice(&initial(parameter, seed));
        }
        let numbers = memory.keep(numbers);
        // One array holds the weights of both, so those that losses alone read lie between the others in a forward pass, too.
        let inference = inference.over(training.plan().parameters.clone());
        memory.each(&Assign {}, [training.arrays().0], [&numbers], &(0..segments.len()));
        let carries = carried::carries(training.plan());
        Self {
            memory,
            inference: training.beside(inference),
            binding,
            seed,
            updates: 0,
            micro: 0,
            state: OptimiserState::<BackendArray<B>>::default(),
            averaged: None,
            sums: Sums::default(),
            segments,
            formula: None,
            predicted: Predictions::default(),
            sound: None,
            carries,
            left: RemainingState::default(),
            training,
        }
    }

    /// Sets the groups of the parameters whose updates differ from those of all others.
    pub fn set_groups(&mut self, groups: &ParameterGroups) {
        self.segments = Segments::new(&self.training.plan().graph, B::ALIGN, groups);
    }

    /// Sets the lines of [`OptimiserKind::Formula`].
    pub fn set_formula(&mut self, formula: Option<UpdateFormula>) {
        self.formula = formula;
    }

    /// What halted rows cost from now on.
    pub fn set_halting(&mut self, halting: Halting) {
        self.training.settings().halting = halting;
        self.inference.settings().halting = halting;
    }

    /// How exact products with weights are from now on, on a processor; a device is opened with its precision.
    pub fn set_precision(&mut self, precision: Precision) {
        self.training.settings().precision = precision;
        self.inference.settings().precision = precision;
    }

    /// Steps of every row from now on, in place of those that come with the examples.
    pub fn set_depth(&mut self, depth: Option<usize>) {
        self.training.settings().depth = depth;
        self.inference.settings().depth = depth;
    }

    /// Whether evaluation and prediction leave out the outer recursion from now on. Training always has it.
    ///
    /// # Errors
    /// [`Inference::Flat`] for a model that has none, or none that it can do without.
    pub fn set_inference(&mut self, inference: Inference) -> Result<(), LearnError> {
        if inference == Inference::Flat {
            require_outer_recursion(&self.inference.plan().graph)?;
        }
        self.inference.settings().inference = inference;
        Ok(())
    }

    /// The executor of the training step.
    pub fn executor(&mut self) -> &mut B {
        &mut self.training
    }

    /// Runs the training plan once; gradients are added to the executor's.
    ///
    /// # Errors
    /// A batch that does not fit, or the first node whose result is not finite.
    pub fn forward_backward(&mut self, batch: &Batch) -> Result<Outputs<B::Number>, LearnError> {
        self.step(batch, &mut || {})
    }

    fn step(&mut self, batch: &Batch, meanwhile: &mut dyn FnMut()) -> Result<Outputs<B::Number>, LearnError> {
        let key = self.seed.stream("dropout").at(self.updates).at(self.micro);
        let outcome = self.training.execute(batch, key, meanwhile).and_then(finite_losses);
        let outcome = outcome.and_then(|outputs| carried::finite(&self.carries, outputs));
        let outcome =
            outcome.or_else(|fault| look_closer(&mut self.training, fault, |m| m.execute(batch, key, &mut || {})));
        outcome.map_err(|fault| self.fault(fault))
    }

    /// What a fault of the next update is to the training. A weight that is not finite is named, with the update that made it, before
    /// what is computed from it.
    fn fault(&self, fault: ExecutionFault) -> LearnError {
        let weight = match fault {
            ExecutionFault::NonFinite(_) => self.broken_weight(),
            ExecutionFault::Batch(_) | ExecutionFault::Device(_) => None,
        };
        match weight {
            Some(node) => LearnError::NonFinite { step: self.updates, node },
            None => as_learn_error(fault, self.updates + 1),
        }
    }

    /// Refuses weights that are not finite, once after every update that changed them: a comparison, a saturated function or a
    /// division could make numbers of them again.
    fn require_sound(&mut self) -> Result<(), LearnError> {
        if self.sound == Some(self.updates) {
            return Ok(());
        }
        let sum: f64 = self.weights_and_average().map(|(_, array)| self.memory.squared_norm(array)).sum();
        self.healthy()?;
        // Only a sum that is not finite is worth a look at every number.
        if !sum.is_finite()
            && let Some(node) = self.broken_weight()
        {
            return Err(LearnError::NonFinite { step: self.updates, node });
        }
        self.sound = Some(self.updates);
        Ok(())
    }

    fn weights_and_average(&self) -> impl Iterator<Item = (&'static str, &BackendArray<B>)> {
        let average = self.averaged.iter().map(|average| ("the average of", average));
        std::iter::once(("the weight", self.training.weights())).chain(average)
    }

    /// The first weight that is not finite.
    fn broken_weight(&self) -> Option<String> {
        let ranges = named_ranges::<B>(self.training.plan());
        self.weights_and_average().find_map(|(of, array)| {
            let numbers = self.memory.numbers(array);
            let at = numbers.iter().position(|x| !Real::is_finite(*x))?;
            let (name, _, range) = ranges.iter().find(|(.., range)| range.contains(&at))?;
            Some(format!("{of} `{name}`, number {} of it", at - range.start + 1))
        })
    }

    /// The first failure of the machine, if there was one.
    pub fn healthy(&self) -> Result<(), LearnError> {
        self.memory.failure().map_or(Ok(()), |failure| Err(LearnError::Device(failure)))
    }

    /// A parameter whose gradient is not finite.
    fn not_finite(&mut self) -> String {
        let gradients = self.memory.numbers(self.training.arrays().1);
        let mut ranges = named_ranges::<B>(self.training.plan()).into_iter();
        let found = ranges.find(|(_, _, range)| gradients[range.clone()].iter().any(|g| !g.to_f64().is_finite()));
        found.map_or("the gradient norm".to_owned(), |(name, ..)| format!("the gradient of `{name}`"))
    }

    /// The weights that are evaluated: their average, where there is one.
    fn measured(&self) -> &BackendArray<B> {
        self.averaged.as_ref().unwrap_or(self.training.weights())
    }

    /// Lends the weights that are evaluated to the executor of forward passes, or takes them back.
    fn exchange(&mut self) {
        let measured = match &mut self.averaged {
            Some(average) => average,
            None => self.training.arrays().0,
        };
        std::mem::swap(self.inference.arrays().0, measured);
    }

    /// Does something with the executor of forward passes, which has the weights that are evaluated meanwhile.
    fn infer<R>(
        &mut self,
        batch: &Batch,
        run: impl Fn(&mut B, Key) -> Result<R, ExecutionFault>,
    ) -> Result<R, LearnError> {
        check_labels(&self.binding, batch)?;
        self.require_sound()?;
        let seed = self.seed;
        self.exchange();
        let outcome = run(&mut self.inference, seed);
        let outcome = outcome.or_else(|fault| look_closer(&mut self.inference, fault, |m| run(m, seed)));
        self.exchange();
        outcome.map_err(|fault| self.fault(fault))
    }

    fn forward(&mut self, batch: &Batch) -> Result<Outputs<B::Number>, LearnError> {
        self.infer(batch, |inference, key| inference.execute(batch, key, &mut || {}).and_then(finite_answers))
    }

    fn pass<'a>(&'a self, outputs: &'a Outputs<B::Number>, batch: &'a Batch) -> PassResults<'a, B::Number> {
        PassResults { binding: &self.binding, outputs, batch, updates: self.updates }
    }

    /// An executor of another plan of this model, its memory, and the weights that are evaluated, by name.
    pub fn probe(&self, plan: Plan) -> (B, B::Memory, NamedArrays<B::Number>) {
        let (weights, own) = (self.memory.numbers(self.measured()), self.training.plan());
        let named = named_ranges::<B>(own).into_iter().map(|(name, _, range)| (name, weights[range].to_vec()));
        (self.training.beside(plan), self.training.memory(), named.collect())
    }
}

/// Refuses a graph without an outer recursion that it can do without.
fn require_outer_recursion(graph: &Graph) -> Result<(), LearnError> {
    let flat = |node| graph.node(node).has(attribute::FLAT);
    let none = || LearnError::Mismatch("it has no outer recursion that can be left out".to_owned());
    graph.walk(MAIN).into_iter().any(flat).then_some(()).ok_or_else(none)
}

/// The norm of a gradient whose squares may be too large for single precision: infinite moments would stop the weights for good.
const MAY_OVERFLOW: f64 = 1e18;

/// Arrays with their names.
pub type NamedArrays<T> = Vec<(String, Vec<T>)>;

/// The results of a training step whose losses are finite.
fn finite_losses<T: Element>(outputs: Outputs<T>) -> Result<Outputs<T>, ExecutionFault> {
    let finite = |name: &str| outputs.real(name).is_none_or(|x| x.iter().all(|x| Real::is_finite(*x)));
    match LOSSES.iter().find(|name| !finite(name)) {
        Some(name) => Err(ExecutionFault::NonFinite(format!("`{name}`"))),
        None => Ok(outputs),
    }
}

/// What a training step must give as finite numbers.
const LOSSES: [&str; 4] = ["loss", "task_loss", "halting_cost", "depth"];

/// The results of a forward pass whose answers are finite, those among them that are not scored.
fn finite_answers<T: Element>(outputs: Outputs<T>) -> Result<Outputs<T>, ExecutionFault> {
    let finite = |name: &&&str| !outputs.real(name).is_none_or(|x| x.iter().all(|x| Real::is_finite(*x)));
    match ["logits", "depth"].iter().find(finite) {
        Some(name) => Err(ExecutionFault::NonFinite(format!("`{name}`"))),
        None => Ok(outputs),
    }
}

/// A run is a pure function of its inputs: where one has met a number that is not finite, a second, checked run finds the first one.
fn look_closer<B: Backend, R>(
    machine: &mut B,
    fault: ExecutionFault,
    run: impl FnOnce(&mut B) -> Result<R, ExecutionFault>,
) -> Result<R, ExecutionFault> {
    if !matches!(fault, ExecutionFault::NonFinite(_)) {
        return Err(fault);
    }
    machine.settings().check_finite = true;
    let found = run(machine).err();
    machine.settings().check_finite = false;
    Err(found.unwrap_or(fault))
}

/// What a failed run of update `updates` is to the training.
pub fn as_learn_error(fault: ExecutionFault, updates: u64) -> LearnError {
    match fault {
        ExecutionFault::Batch(message) => LearnError::Batch(message),
        ExecutionFault::NonFinite(node) => LearnError::NonFinite { step: updates, node },
        ExecutionFault::Device(message) => LearnError::Device(message),
    }
}

impl<B: Backend> Learner for ModelOn<B> {
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        check_labels(&self.binding, batch)?;
        let (gradients, all) = (self.training.arrays().1, 0..self.segments.len());
        self.sums.put_aside(&self.memory, gradients, all.len());
        self.memory.each(&Set { value: 0.0 }, [gradients], [], &all);
        let outputs = self.step(batch, meanwhile)?;
        let gradients = self.training.arrays().1;
        if share != 1.0 {
            self.memory.each(&Share { share }, [gradients], [], &all);
        }
        self.sums.add_leaf(&self.memory, gradients, self.micro, &all);
        self.micro += 1;
        predict(&self.binding, &outputs, &mut self.predicted);
        if !self.carries.is_empty() {
            self.left = carried::left(&self.carries, &outputs);
        }
        let (correct, scored) = count(&self.predicted, batch);
        Ok(report(&outputs, correct, scored))
    }

    fn carries(&self) -> &[Carry] {
        &self.carries
    }

    fn left(&mut self) -> RemainingState {
        std::mem::take(&mut self.left)
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        self.sum_gradients();
        let norm = self.memory.squared_norm(self.training.arrays().1).sqrt();
        self.healthy()?;
        if !norm.is_finite() {
            let gradient = self.not_finite();
            return Err(self.fault(ExecutionFault::NonFinite(gradient)));
        }
        self.require_sound()?;
        let scale = clip_factor(norm, rule.clip);
        self.updates += 1;
        self.micro = 0;
        self.sums.clear();
        let (weights, gradients) = self.training.arrays();
        let (memory, arrays, targets) = (&mut self.memory, (weights, &*gradients), self.segments.of(rule));
        let now = (scale, self.updates);
        match (rule.kind, &self.formula) {
            (OptimiserKind::Formula, Some(formula)) => {
                let told = update::update_by_formula(memory, arrays, &mut self.state, targets, (rule, formula), now);
                told.map_err(|why| {
                    LearnError::Mismatch(format!("the formula of the optimiser, update {}: {why}", now.1))
                })?;
            }
            (OptimiserKind::Formula, None) => {
                return Err(LearnError::Mismatch(
                    "the optimiser is a formula, and the model was given none".to_owned(),
                ));
            }
            _ => update::update(memory, arrays, &mut self.state, targets, rule, now),
        }
        if norm * scale > MAY_OVERFLOW {
            self.state().require_finite()?;
        }
        // The machine may begin while the host makes the next batch.
        self.memory.flush();
        Ok(norm)
    }

    fn average(&mut self, decay: f64) {
        self.sound = None;
        let (weights, all) = (self.training.weights(), 0..self.segments.len());
        match &mut self.averaged {
            Some(average) => self.memory.each(&Average::new(decay), [average], [weights], &all),
            none => self.memory.copy(weights, none, all.len()),
        }
    }

    fn halting_bounds(&self) -> Option<StepBounds> {
        StepBounds::of(&self.inference.plan().graph)
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        let outputs = self.forward(batch)?;
        self.pass(&outputs, batch).evaluation()
    }

    fn answers(&mut self, batch: &Batch) -> Result<BatchAnswers, LearnError> {
        let outputs = self.forward(batch)?;
        self.pass(&outputs, batch).answers()
    }

    fn gradients(&mut self) -> FlatArrays {
        let numbers = self.memory.numbers(self.training.arrays().1);
        named::<B>(self.training.plan(), &numbers)
    }

    fn state(&self) -> LearnerState {
        let arrays = |array: &BackendArray<B>| named::<B>(self.training.plan(), &self.memory.numbers(array));
        let kept = STATE.iter().zip(&self.state);
        LearnerState {
            parameters: arrays(self.training.weights()),
            optimiser: kept.filter_map(|(name, array)| Some(((*name).to_owned(), arrays(array.as_ref()?)))).collect(),
            average: self.averaged.as_ref().map_or_else(FlatArrays::default, arrays),
            updates: self.updates,
        }
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        state.require_finite()?;
        if let Some(name) = state.optimiser.keys().find(|name| !STATE.contains(&name.as_str())) {
            return Err(LearnError::Mismatch(format!("no optimiser keeps a `{name}`")));
        }
        let plan = self.training.plan();
        let parameters = flat::<B>(plan, &state.parameters)?;
        let some = |arrays: Option<&FlatArrays>| {
            arrays.filter(|arrays| !arrays.items.is_empty()).map(|arrays| flat::<B>(plan, arrays)).transpose()
        };
        let kept = STATE.iter().map(|name| some(state.optimiser.get(*name))).collect::<Result<Vec<_>, _>>()?;
        let average = some(Some(&state.average))?;
        let (memory, all) = (&self.memory, 0..self.segments.len());
        memory.each(&Assign {}, [self.training.arrays().0], [&memory.keep(parameters)], &all);
        for (array, numbers) in self.state.iter_mut().chain([&mut self.averaged]).zip(kept.into_iter().chain([average]))
        {
            *array = numbers.map(|numbers| memory.keep(numbers));
        }
        self.updates = state.updates;
        self.micro = 0;
        self.sums.clear();
        self.sound = None;
        self.healthy()
    }

    fn parameter_count(&self) -> usize {
        self.segments.count()
    }
}
