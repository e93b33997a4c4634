//! A model that can be trained: two plans (training step, forward pass), parameters, gradients and the arrays of the optimiser, on
//! a machine.

mod answers;
mod backend;
mod carried;
mod initial;
mod named;

use rtc_compiler::ir::attribute;
use std::sync::Arc;

use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;

use crate::batch::Batch;
use crate::collapse::Bounds;
use crate::examine::saliency::Saliency;
use crate::examine::{Examination, Examined};
use crate::exec::storage::Element;
use crate::exec::{
    Executor, Fault, Halting, HaltingRecorder, Inference, Outputs, Records, Settings, StateRecorder, StateTrace,
};
use crate::generate::Generator;
use crate::kernel::Real;
use crate::kernel::optimiser::clip_factor;
use crate::learner::{
    Answers, Arrays, Carry, Evaluation, LearnError, Learner, LearnerState, Left, StepReport, UpdateRule,
};
use crate::optimiser::{self, Accumulate, Assign, Average, STATE, Set, Share, State};
use crate::rng::Key;
use crate::stopping::BySteps;
use crate::task::Example;
pub use answers::AfterSteps;
pub(crate) use answers::logits_per_item;
use answers::{Pass, Predictions, check_labels, count, predict, report};
pub(crate) use backend::Array;
pub use backend::{Backend, Memory};
pub use initial::initial;
pub use named::matrices;
use named::{Segments, flat, named, named_ranges};

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
    state: State<Array<B>>,
    /// Averaged weights, if there are any.
    averaged: Option<Array<B>>,
    /// Gradients of the micro-batches before the last one, where there are several.
    accumulated: Option<Array<B>>,
    segments: Segments,
    /// What the last training step predicted.
    predicted: Predictions,
    /// What rows carry from one update to the next, and what those of the last training step have left.
    carries: Vec<Carry>,
    left: Left,
}

/// A model on the processor, computing in `T`.
pub type Model<T> = ModelOn<Executor<T>>;

/// Compiles the model for `f32` here, once: every program and test that uses it would compile the interpreter and all kernels
/// again. Optimised builds do not share generic code between crates.
#[cfg(debug_assertions)]
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
    pub(crate) fn with(mut training: B, inference: Plan, binding: Binding, seed: u64) -> Self {
        let (memory, seed) = (training.memory(), Key::new(seed));
        let parameters = training.plan().parameters.iter().flat_map(|parameter| initial(parameter, seed));
        let numbers = memory.keep(parameters.collect());
        let segments = Segments::new(&training.plan().graph);
        // One array holds the weights of both, so those that losses alone read lie between the others in a forward pass, too.
        let inference = Plan { parameters: training.plan().parameters.clone(), ..inference };
        memory.each(&Assign {}, [training.arrays().0], [&numbers], &(0..segments.len()));
        let carries = carried::carries(training.plan());
        Self {
            memory,
            inference: training.beside(inference),
            binding,
            seed,
            updates: 0,
            micro: 0,
            state: State::<Array<B>>::default(),
            averaged: None,
            accumulated: None,
            segments,
            predicted: Predictions::default(),
            carries,
            left: Left::default(),
            training,
        }
    }

    /// What halted rows cost from now on.
    pub fn set_halting(&mut self, halting: Halting) {
        self.training.settings().halting = halting;
        self.inference.settings().halting = halting;
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
        let graph = &self.inference.plan().graph;
        let flat = |node| graph.node(node).has(attribute::FLAT);
        if inference == Inference::Flat && !graph.walk(MAIN).into_iter().any(flat) {
            return Err(LearnError::Mismatch("it has no outer recursion that can be left out".to_owned()));
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
        let outputs = self.training.execute(batch, key, meanwhile).map_err(|fault| self.fault(fault))?;
        if outputs.scalar("loss").is_some_and(f64::is_finite) {
            return Ok(outputs);
        }
        // The step is a pure function of its inputs: a second, checked run finds the node.
        self.training.settings().check_finite = true;
        let found = self.training.execute(batch, key, &mut || {});
        self.training.settings().check_finite = false;
        let fault = found.err().unwrap_or(Fault::NonFinite("the loss".to_owned()));
        Err(self.fault(fault))
    }

    fn fault(&self, fault: Fault) -> LearnError {
        as_learn_error(fault, self.updates)
    }

    /// The first failure of the machine, if there was one.
    pub(crate) fn healthy(&self) -> Result<(), LearnError> {
        self.memory.failure().map_or(Ok(()), |failure| Err(LearnError::Device(failure)))
    }

    /// A parameter whose gradient is not finite.
    fn not_finite(&mut self) -> String {
        let gradients = self.memory.numbers(self.training.arrays().1);
        let mut ranges = named_ranges(self.training.plan()).into_iter();
        let found = ranges.find(|(_, _, range)| gradients[range.clone()].iter().any(|g| !g.to_f64().is_finite()));
        found.map_or("the gradient norm".to_owned(), |(name, ..)| format!("the gradient of `{name}`"))
    }

    /// The weights that are evaluated: their average, where there is one.
    fn measured(&self) -> &Array<B> {
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
    fn infer<R>(&mut self, batch: &Batch, run: impl FnOnce(&mut B, Key) -> Result<R, Fault>) -> Result<R, LearnError> {
        check_labels(&self.binding, batch)?;
        self.exchange();
        let outcome = run(&mut self.inference, self.seed);
        self.exchange();
        outcome.map_err(|fault| self.fault(fault))
    }

    fn forward(&mut self, batch: &Batch) -> Result<Outputs<B::Number>, LearnError> {
        self.infer(batch, |inference, key| inference.execute(batch, key, &mut || {}))
    }

    fn pass<'a>(&'a self, outputs: &'a Outputs<B::Number>, batch: &'a Batch) -> Pass<'a, B::Number> {
        Pass { binding: &self.binding, outputs, batch, updates: self.updates }
    }

    /// An executor of another plan of this model, its memory, and the weights that are evaluated, by name.
    pub(crate) fn probe(&self, plan: Plan) -> (B, B::Memory, NamedArrays<B::Number>) {
        let (weights, own) = (self.memory.numbers(self.measured()), self.training.plan());
        let named = named_ranges(own).into_iter().map(|(name, _, range)| (name, weights[range].to_vec()));
        (self.training.beside(plan), self.training.memory(), named.collect())
    }
}

/// Arrays with their names.
pub(crate) type NamedArrays<T> = Vec<(String, Vec<T>)>;

/// What a failed run of update `updates` is to the training.
pub(crate) fn as_learn_error(fault: Fault, updates: u64) -> LearnError {
    match fault {
        Fault::Batch(message) => LearnError::Batch(message),
        Fault::NonFinite(node) => LearnError::NonFinite { step: updates, node },
        Fault::Device(message) => LearnError::Device(message),
    }
}

impl<B: Backend> BySteps for ModelOn<B> {
    fn by_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError> {
        let all = self.infer(batch, |inference, key| inference.each_step(batch, key, most))?;
        all.iter().map(|outputs| self.pass(outputs, batch).after_steps()).collect()
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
        if self.micro > 0 {
            self.memory.copy(gradients, &mut self.accumulated, all.len());
        }
        self.memory.each(&Set { value: 0.0 }, [gradients], [], &all);
        let outputs = self.step(batch, meanwhile)?;
        let gradients = self.training.arrays().1;
        match &self.accumulated {
            Some(before) if self.micro > 0 => {
                self.memory.each(&Accumulate { share }, [gradients], [before], &all);
            }
            _ if share != 1.0 => self.memory.each(&Share { share }, [gradients], [], &all),
            _ => {}
        }
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

    fn left(&mut self) -> Left {
        std::mem::take(&mut self.left)
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        let norm = self.memory.squared_norm(self.training.arrays().1).sqrt();
        self.healthy()?;
        if !norm.is_finite() {
            return Err(LearnError::NonFinite { step: self.updates, node: self.not_finite() });
        }
        let scale = clip_factor(norm, rule.clip);
        self.updates += 1;
        self.micro = 0;
        let (weights, gradients) = self.training.arrays();
        let targets = self.segments.of(rule.kind);
        let now = (scale, self.updates);
        optimiser::update(&mut self.memory, (weights, gradients), &mut self.state, targets, rule, now);
        // The machine may begin while the host makes the next batch.
        self.memory.flush();
        Ok(norm)
    }

    fn average(&mut self, decay: f64) {
        let (weights, all) = (self.training.weights(), 0..self.segments.len());
        match &mut self.averaged {
            Some(average) => self.memory.each(&Average::new(decay), [average], [weights], &all),
            none => self.memory.copy(weights, none, all.len()),
        }
    }

    fn halting_bounds(&self) -> Option<Bounds> {
        Bounds::of(&self.inference.plan().graph)
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        let outputs = self.forward(batch)?;
        self.pass(&outputs, batch).evaluation()
    }

    fn answers(&mut self, batch: &Batch) -> Result<Answers, LearnError> {
        let outputs = self.forward(batch)?;
        self.pass(&outputs, batch).answers()
    }

    fn state(&self) -> LearnerState {
        let arrays = |array: &Array<B>| named(self.training.plan(), &self.memory.numbers(array));
        let kept = STATE.iter().zip(&self.state);
        LearnerState {
            parameters: arrays(self.training.weights()),
            optimiser: kept.filter_map(|(name, array)| Some(((*name).to_owned(), arrays(array.as_ref()?)))).collect(),
            average: self.averaged.as_ref().map_or_else(Arrays::default, arrays),
            updates: self.updates,
        }
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        if let Some(name) = state.optimiser.keys().find(|name| !STATE.contains(&name.as_str())) {
            return Err(LearnError::Mismatch(format!("no optimiser keeps a `{name}`")));
        }
        let plan = self.training.plan();
        let parameters = flat(plan, &state.parameters)?;
        let some = |arrays: Option<&Arrays>| {
            arrays.filter(|arrays| !arrays.items.is_empty()).map(|arrays| flat(plan, arrays)).transpose()
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
        self.healthy()
    }

    fn parameter_count(&self) -> usize {
        self.segments.len()
    }
}

impl<B: Backend> Examined for ModelOn<B> {
    type Number = B::Number;

    fn examine(&mut self, batch: &Batch) -> Result<Examination, LearnError> {
        let records = self.inference.records();
        let halting = records.attach::<HaltingRecorder>();
        records.trees = Some(vec![]);
        let outputs = self.forward(batch);
        let trees = std::mem::take(self.inference.records()).trees.unwrap_or_default();
        let (outputs, halting) = (outputs?, halting.take());
        let evaluation = self.pass(&outputs, batch).evaluation()?;
        let depths = outputs.real("depth").map(|depths| depths.iter().map(|x| x.to_f64()).collect());
        Ok(Examination { evaluation, depths, halting, trees })
    }

    fn states(&mut self, batch: &Batch) -> Result<Vec<StateTrace>, LearnError> {
        let states = self.inference.records().attach::<StateRecorder>();
        let evaluation = self.evaluate(batch);
        *self.inference.records() = Records::default();
        evaluation.map(|_| states.take())
    }

    fn takes_depth(&self) -> bool {
        self.inference.takes_depth()
    }

    fn forward_graph(&self) -> &Graph {
        &self.inference.plan().graph
    }

    fn weights(&self) -> Arrays {
        named(self.training.plan(), &self.memory.numbers(self.measured()))
    }

    fn generator(&mut self) -> Generator<B::Number> {
        let mut executor = Executor::new(self.inference.plan().clone());
        executor.parameters_mut().copy_from_slice(&self.memory.numbers(self.measured()));
        let Settings { halting, depth, .. } = *self.inference.settings();
        executor.settings = Settings { halting, depth, ..Settings::default() };
        Generator::new(executor, &self.binding, self.seed, self.updates)
    }

    fn saliency(&self, plan: Plan, classes: usize, rows: &[Example]) -> Result<Vec<Option<Vec<f64>>>, LearnError> {
        let Some(length) = rows.first().map(|row| row.tokens.len()) else { return Ok(vec![]) };
        let mut saliency = Saliency::new(self, plan, length, classes)?;
        rows.iter().map(|row| saliency.shares(row)).collect()
    }
}
