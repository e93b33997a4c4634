//! A model that can be trained: two plans (training step, forward pass), parameters, gradients and what the optimiser keeps.

mod answers;
mod initial;
mod named;

use std::sync::Arc;

use rtc_compiler::ir::graph::{Graph, MAIN, NodeId};
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;

use crate::batch::Batch;
use crate::collapse::Bounds;
use crate::exec::arena::Arena;
use crate::exec::storage::Element;
use crate::exec::{
    Executor, Fault, Halting, HaltingTrace, Inference, Outputs, ParseTrees, StateTrace, parameter_ranges,
};
use crate::generate::Generator;
use crate::kernel::muon::{Scratch, muon};
use crate::kernel::{elementwise, optimiser};
use crate::learner::{
    Answers, Arrays, Evaluation, LearnError, Learner, LearnerState, OptimiserKind, StepReport, UpdateRule,
};
use crate::rng::Key;
use crate::stopping::BySteps;
use answers::losses;
pub(crate) use answers::{Predictions, answered, check_labels, count, evaluation, logits_per_item, predict, report};
pub use initial::initial;
pub use named::matrices;
pub(crate) use named::{Segments, flat, named, named_ranges};

/// A model with its state, computing in `T`.
#[derive(Debug)]
pub struct Model<T: Element> {
    training: Executor<T>,
    inference: Executor<T>,
    binding: Binding,
    seed: Key,
    updates: u64,
    micro: u64,
    first_moment: Vec<T>,
    second_moment: Vec<T>,
    /// Slow weights; empty until an optimiser asks for them.
    slow: Vec<T>,
    /// What is updated alike.
    segments: Segments,
    /// Memory of updates matrix by matrix.
    matrices: Vec<Scratch<T>>,
    /// Averaged weights; empty if there are none.
    averaged: Vec<T>,
    /// Gradients of the micro-batches before the last one, where there are several.
    accumulated: Vec<T>,
    /// What the last training step predicted.
    predicted: Predictions,
    /// Accepted steps of every row of the last evaluation, if the model halts.
    depths: Option<Vec<f64>>,
}

/// What [`Model::examine`] saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
    /// The runs of its halting recurrences, in the order in which they ended.
    pub halting: Vec<HaltingTrace>,
    /// The trees that its beam searches found, search by search.
    pub grown: Vec<ParseTrees>,
}

/// What a model answers after some number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct AfterSteps {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// The summed task loss of every row (of every pair).
    pub losses: Vec<f64>,
}

impl<T: Element> Model<T> {
    /// A model with freshly drawn parameters.
    pub fn new(training: Plan, inference: Plan, binding: Binding, seed: u64) -> Self {
        let seed = Key::new(seed);
        // A training step and a forward pass never run at the same time.
        let arena = Arena::default();
        let mut training = Executor::within(Arc::new(training), arena.clone());
        let ranges = parameter_ranges(training.plan());
        let plan = training.plan().clone();
        for (parameter, range) in plan.parameters.iter().zip(ranges) {
            training.parameters_mut()[range].copy_from_slice(&initial(parameter, seed));
        }
        let total = training.parameters().len();
        Self {
            training,
            inference: Executor::within(Arc::new(inference), arena),
            binding,
            seed,
            updates: 0,
            micro: 0,
            first_moment: vec![T::ZERO; total],
            second_moment: vec![T::ZERO; total],
            slow: vec![],
            segments: Segments::new(&plan),
            matrices: vec![],
            averaged: vec![],
            accumulated: vec![],
            predicted: Predictions::default(),
            depths: None,
        }
    }

    /// What halted rows cost from now on.
    pub fn set_halting(&mut self, halting: Halting) {
        self.training.halting = halting;
        self.inference.halting = halting;
    }

    /// Steps of every row from now on, in place of those that come with the examples.
    pub fn set_depth(&mut self, depth: Option<usize>) {
        self.training.depth = depth;
        self.inference.depth = depth;
    }

    /// Whether evaluation and prediction leave out the outer recursion from now on. Training always has it.
    ///
    /// # Errors
    /// [`Inference::Flat`] for a model that has none, or none that it can do without.
    pub fn set_inference(&mut self, inference: Inference) -> Result<(), LearnError> {
        let graph = &self.inference.plan().graph;
        let flat = |node: NodeId| graph.node(node).attrs.contains_key("flat");
        if inference == Inference::Flat && !graph.walk(MAIN).into_iter().any(flat) {
            return Err(LearnError::Mismatch("it has no outer recursion that can be left out".to_owned()));
        }
        self.inference.inference = inference;
        Ok(())
    }

    /// The executor of the training step.
    pub fn executor(&mut self) -> &mut Executor<T> {
        &mut self.training
    }

    /// Runs the training plan once; gradients are added to the executor's.
    ///
    /// # Errors
    /// A batch that does not fit, or the first node whose result is not finite.
    pub fn forward_backward(&mut self, batch: &Batch) -> Result<Outputs<T>, LearnError> {
        let key = self.seed.stream("dropout").at(self.updates).at(self.micro);
        let outputs = self.training.run(batch, key).map_err(|f| self.fault(f))?;
        if outputs.scalar("loss").is_some_and(f64::is_finite) {
            return Ok(outputs);
        }
        // The step is a pure function of its inputs: a second, checked run finds the node.
        self.training.check_finite = true;
        let found = self.training.run(batch, key);
        self.training.check_finite = false;
        let fault = found.err().unwrap_or(Fault::NonFinite("the loss".to_owned()));
        Err(self.fault(fault))
    }

    fn fault(&self, fault: Fault) -> LearnError {
        as_learn_error(fault, self.updates)
    }

    /// An evaluation that also tells how the rows halt, and what searches made of them.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn examine(&mut self, batch: &Batch) -> Result<Examination, LearnError> {
        (self.inference.records.halting, self.inference.records.trees) = (Some(vec![]), Some(vec![]));
        let evaluation = self.evaluate(batch);
        let halting = self.inference.records.halting.take().unwrap_or_default();
        let grown = self.inference.records.trees.take().unwrap_or_default();
        Ok(Examination { evaluation: evaluation?, depths: self.depths.take(), halting, grown })
    }

    /// Whether the number of its steps comes with the examples.
    pub fn takes_depth(&self) -> bool {
        self.inference.takes_depth()
    }

    /// Does something with the executor of forward passes, which has the weights that are measured meanwhile.
    fn infer<R>(&mut self, run: impl FnOnce(&mut Executor<T>) -> Result<R, Fault>) -> Result<R, LearnError> {
        self.swap_average();
        self.training.swap_parameters(&mut self.inference);
        let outcome = run(&mut self.inference);
        self.training.swap_parameters(&mut self.inference);
        self.swap_average();
        outcome.map_err(|fault| self.fault(fault))
    }

    /// The states of all positions after every step of every recurrence over them, and the nodes of every level of folds of whole
    /// rows, in the order in which they come about.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn states(&mut self, batch: &Batch) -> Result<Vec<StateTrace>, LearnError> {
        self.inference.records.states = Some(vec![]);
        let evaluation = self.evaluate(batch);
        let states = self.inference.records.states.take().unwrap_or_default();
        evaluation.map(|_| states)
    }

    /// What continues rows with the weights that are evaluated.
    pub fn generator(&self) -> Generator<T> {
        let weights = if self.averaged.is_empty() { self.training.parameters() } else { &self.averaged };
        let mut executor = Executor::new(self.inference.plan().clone());
        executor.parameters_mut().copy_from_slice(weights);
        (executor.halting, executor.depth) = (self.inference.halting, self.inference.depth);
        Generator::new(executor, &self.binding, self.seed, self.updates)
    }

    /// The graph of a forward pass.
    pub fn forward_graph(&self) -> &Graph {
        &self.inference.plan().graph
    }

    /// The weights that are evaluated, their average where there is one, by name.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &[T])> {
        let flat = if self.averaged.is_empty() { self.training.parameters() } else { &self.averaged };
        let plan = self.training.plan();
        plan.parameters.iter().zip(parameter_ranges(plan)).map(|(p, range)| (p.name.as_str(), &flat[range]))
    }

    /// Exchanges the weights and their average, if there is one.
    fn swap_average(&mut self) {
        if !self.averaged.is_empty() {
            self.training.parameters_mut().swap_with_slice(&mut self.averaged);
        }
    }
}

/// What a failed run of update `updates` is to the training.
pub(crate) fn as_learn_error(fault: Fault, updates: u64) -> LearnError {
    match fault {
        Fault::Batch(message) => LearnError::Batch(message),
        Fault::NonFinite(node) => LearnError::NonFinite { step: updates, node },
        Fault::Device(message) => LearnError::Device(message),
    }
}

impl<T: Element> BySteps for Model<T> {
    fn by_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError> {
        check_labels(&self.binding, batch)?;
        let seed = self.seed;
        let all = self.infer(|inference| inference.each_step(batch, seed, most))?;
        all.iter().map(|outputs| after_steps(&self.binding, outputs, batch, self.updates)).collect()
    }
}

/// What a model answered after some steps, from the results of a run.
pub(crate) fn after_steps<T: Element>(
    binding: &Binding,
    outputs: &Outputs<T>,
    batch: &Batch,
    updates: u64,
) -> Result<AfterSteps, LearnError> {
    let evaluation = evaluation(binding, outputs, batch, updates)?;
    Ok(AfterSteps { evaluation, losses: losses(binding, outputs, batch) })
}

impl<T: Element> Learner for Model<T> {
    fn accumulate(&mut self, batch: &Batch, share: f64) -> Result<StepReport, LearnError> {
        check_labels(&self.binding, batch)?;
        let (_, gradients) = self.training.parameters_and_gradients();
        if self.micro > 0 {
            self.accumulated.clear();
            self.accumulated.extend_from_slice(gradients);
        }
        gradients.fill(T::ZERO);
        let outputs = self.forward_backward(batch)?;
        let (_, gradients) = self.training.parameters_and_gradients();
        if share != 1.0 {
            elementwise::scale_assign(gradients, T::from_f64(share));
        }
        if self.micro > 0 {
            elementwise::add_assign(gradients, &self.accumulated);
        }
        self.micro += 1;
        let mut predicted = std::mem::take(&mut self.predicted);
        predict(&self.binding, &outputs, &mut predicted);
        let (correct, scored) = count(&predicted, batch);
        self.predicted = predicted;
        Ok(report(&outputs, correct, scored))
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        let step = self.updates;
        let (_, gradients) = self.training.parameters_and_gradients();
        let norm = optimiser::squared_norm(gradients).sqrt();
        if !norm.is_finite() {
            let bad = named_ranges(self.training.plan())
                .into_iter()
                .find(|(_, _, range)| self.training.gradients()[range.clone()].iter().any(|g| !g.to_f64().is_finite()));
            let node = bad.map_or("the gradient norm".to_owned(), |(name, ..)| format!("the gradient of `{name}`"));
            return Err(LearnError::NonFinite { step, node });
        }
        let scale = optimiser::clip_factor(norm, rule.clip);
        self.updates += 1;
        self.micro = 0;
        let (weights, gradients) = self.training.parameters_and_gradients();
        if rule.kind == OptimiserKind::Ranger && self.slow.is_empty() {
            self.slow.extend_from_slice(weights);
        }
        let matrices = self.segments.matrices(rule.kind);
        muon([weights, &mut self.first_moment], gradients, matrices, &mut self.matrices, rule);
        for (range, group) in self.segments.of(rule.kind) {
            let rule = UpdateRule { learning_rate: rule.rate(*group), ..*rule };
            let (w, g) = (&mut weights[range.clone()], &gradients[range.clone()]);
            let (m, v) = (&mut self.first_moment[range.clone()], &mut self.second_moment[range.clone()]);
            match rule.kind {
                OptimiserKind::Adamw | OptimiserKind::Muon => optimiser::adamw(w, g, m, v, &rule, scale, self.updates),
                OptimiserKind::Adam => {
                    let rule = UpdateRule { weight_decay: 0.0, ..rule };
                    optimiser::adamw(w, g, m, v, &rule, scale, self.updates);
                }
                OptimiserKind::Ranger => {
                    optimiser::ranger([w, &mut self.slow[range.clone()], m, v], g, &rule, scale, self.updates);
                }
            }
        }
        Ok(norm)
    }

    fn average(&mut self, decay: f64) {
        let weights = self.training.parameters();
        if self.averaged.is_empty() {
            self.averaged = weights.to_vec();
        } else {
            optimiser::average(&mut self.averaged, weights, decay);
        }
    }

    fn halting_bounds(&self) -> Option<Bounds> {
        Bounds::of(&self.inference.plan().graph)
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        check_labels(&self.binding, batch)?;
        let seed = self.seed;
        let outputs = self.infer(|inference| inference.run(batch, seed))?;
        let evaluation = evaluation(&self.binding, &outputs, batch, self.updates)?;
        self.depths = outputs.real("depth").map(|d| d.iter().map(|x| x.to_f64()).collect());
        Ok(evaluation)
    }

    fn answers(&mut self, batch: &Batch) -> Result<Answers, LearnError> {
        check_labels(&self.binding, batch)?;
        let seed = self.seed;
        let outputs = self.infer(|inference| inference.run(batch, seed))?;
        answered(&self.binding, &outputs, batch, self.updates)
    }

    fn state(&self) -> LearnerState {
        let arrays = |flat: &[T]| named(self.training.plan(), flat);
        LearnerState {
            parameters: arrays(self.training.parameters()),
            first_moment: arrays(&self.first_moment),
            second_moment: arrays(&self.second_moment),
            slow: if self.slow.is_empty() { Arrays::default() } else { arrays(&self.slow) },
            average: if self.averaged.is_empty() { Arrays::default() } else { arrays(&self.averaged) },
            updates: self.updates,
        }
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        let parameters = flat::<T>(self.training.plan(), &state.parameters)?;
        // A state of weights alone, as for prediction, has no moments.
        let moments = |arrays: &Arrays| match arrays.items.is_empty() {
            true => Ok(vec![T::ZERO; parameters.len()]),
            false => flat(self.training.plan(), arrays),
        };
        let (first, second) = (moments(&state.first_moment)?, moments(&state.second_moment)?);
        let some =
            |arrays: &Arrays| if arrays.items.is_empty() { Ok(vec![]) } else { flat(self.training.plan(), arrays) };
        let (slow, averaged) = (some(&state.slow)?, some(&state.average)?);
        (self.first_moment, self.second_moment) = (first, second);
        (self.slow, self.averaged) = (slow, averaged);
        self.training.parameters_mut().copy_from_slice(&parameters);
        self.updates = state.updates;
        self.micro = 0;
        Ok(())
    }

    fn parameter_count(&self) -> usize {
        self.training.parameters().len()
    }
}
