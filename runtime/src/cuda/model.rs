//! A model on a device that can be trained: what [`crate::model::Model`] is on the CPU.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;

use super::device::Device;
use super::exec::Executor;
use super::memory::{Array, Pool, whole};
use super::optimise::Update;
use crate::batch::Batch;
use crate::collapse::Bounds;
use crate::exec::storage::Element;
use crate::exec::{Fault, Halting, Inference, Outputs, parameter_ranges};
use crate::kernel::optimiser::clip_factor;
use crate::learner::{
    Answers, Arrays, Evaluation, LearnError, Learner, LearnerState, OptimiserKind, StepReport, UpdateRule,
};
use crate::model::{
    AfterSteps, Predictions, Segments, after_steps, answered, as_learn_error, check_labels, count, evaluation, flat,
    initial, named, named_ranges, predict, report,
};
use crate::rng::Key;
use crate::stopping::BySteps;

/// A model with its state on a device, computing in `T`.
pub struct Model<T: Element> {
    training: Executor<T>,
    inference: Executor<T>,
    binding: Binding,
    seed: Key,
    updates: u64,
    micro: u64,
    first_moment: Array,
    second_moment: Array,
    /// Slow weights, once an optimiser asked for them.
    slow: Option<Array>,
    /// Averaged weights, if there are any.
    averaged: Option<Array>,
    /// What is updated alike.
    segments: Segments,
    /// What the last training step predicted.
    predicted: Predictions,
}

impl<T: Element> Model<T> {
    /// A model with freshly drawn parameters, the same as on the CPU.
    ///
    /// # Errors
    /// The first failure of the device; an op that it can't run.
    pub fn new(
        training: Plan,
        inference: Plan,
        binding: Binding,
        seed: u64,
        device: Rc<dyn Device>,
    ) -> Result<Self, LearnError> {
        for plan in [&training, &inference] {
            super::check(plan).map_err(LearnError::Device)?;
        }
        let seed = Key::new(seed);
        let segments = Segments::new(&training);
        let mut parameters = vec![];
        for parameter in &training.parameters {
            parameters.extend(initial::<T>(parameter, seed));
        }
        debug_assert_eq!(parameters.len(), parameter_ranges(&training).last().map_or(0, |range| range.end));
        let training = Executor::<T>::new(Arc::new(training), device);
        let pool = training.pool().clone();
        pool.write(training.parameters(), &parameters);
        let inference = Executor::sharing(Arc::new(inference), pool.clone(), training.parameters().clone());
        let model = Self {
            binding,
            seed,
            updates: 0,
            micro: 0,
            first_moment: pool.zeros::<T>(parameters.len()),
            second_moment: pool.zeros::<T>(parameters.len()),
            slow: None,
            averaged: None,
            segments,
            predicted: Predictions::default(),
            training,
            inference,
        };
        model.healthy()?;
        Ok(model)
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
        let flat = |node| graph.node(node).attrs.contains_key("flat");
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

    /// Lets forward passes read the weights that are measured.
    fn measured(&mut self) {
        let weights = self.averaged.as_ref().unwrap_or(self.training.parameters()).clone();
        self.inference.read(weights);
    }

    fn pool(&self) -> &Pool {
        self.training.pool()
    }

    fn healthy(&self) -> Result<(), LearnError> {
        self.pool().device().failure().map_or(Ok(()), |failure| Err(LearnError::Device(failure)))
    }

    fn clear_gradients(&self) {
        let gradients = self.training.gradients();
        self.pool().device().clear(gradients.at(), gradients.len() * size_of::<T>());
    }

    fn copy_of(&self, array: &Array) -> Array {
        let out = self.pool().take::<T>(array.len());
        self.pool().device().copy(array.at(), out.at(), array.len() * size_of::<T>());
        out
    }

    fn forward_backward(&mut self, batch: &Batch, meanwhile: &mut dyn FnMut()) -> Result<Outputs<T>, LearnError> {
        let key = self.seed.stream("dropout").at(self.updates).at(self.micro);
        let updates = self.updates;
        let outputs = self.training.run_while(batch, key, meanwhile).map_err(|fault| as_learn_error(fault, updates))?;
        if outputs.scalar("loss").is_some_and(f64::is_finite) {
            return Ok(outputs);
        }
        // The step is a pure function of its inputs: a second, checked run finds the node.
        self.training.check_finite = true;
        let found = self.training.run(batch, key);
        self.training.check_finite = false;
        let fault = found.err().unwrap_or(Fault::NonFinite("the loss".to_owned()));
        Err(as_learn_error(fault, updates))
    }

    /// A parameter whose gradient is not finite.
    fn not_finite(&self) -> String {
        let gradients: Vec<T> = self.pool().download(self.training.gradients());
        let bad = |range: &Range<usize>| gradients[range.clone()].iter().any(|g| !g.to_f64().is_finite());
        let found = named_ranges(self.training.plan()).into_iter().find(|(_, _, range)| bad(range));
        found.map_or("the gradient norm".to_owned(), |(name, ..)| format!("the gradient of `{name}`"))
    }
}

impl<T: Element> BySteps for Model<T> {
    fn by_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError> {
        check_labels(&self.binding, batch)?;
        let updates = self.updates;
        self.measured();
        let all = self.inference.each_step(batch, self.seed, most).map_err(|fault| as_learn_error(fault, updates))?;
        all.iter().map(|outputs| after_steps(&self.binding, outputs, batch, updates)).collect()
    }
}

impl<T: Element> Learner for Model<T> {
    fn accumulate(&mut self, batch: &Batch, share: f64) -> Result<StepReport, LearnError> {
        self.accumulate_while(batch, share, &mut || {})
    }

    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        check_labels(&self.binding, batch)?;
        let before = (self.micro > 0).then(|| self.copy_of(self.training.gradients()));
        self.clear_gradients();
        let outputs = self.forward_backward(batch, meanwhile)?;
        let gradients = self.training.gradients();
        if share != 1.0 {
            let share = self.pool().upload(&[T::from_f64(share)]);
            let args = [gradients.arg(), share.arg(), whole(gradients.len())];
            self.pool().each("scale_by", gradients.len(), &args);
        }
        if let Some(before) = before {
            self.pool().add(&before, gradients);
        }
        self.micro += 1;
        let mut predicted = std::mem::take(&mut self.predicted);
        predict(&self.binding, &outputs, &mut predicted);
        let (correct, scored) = count(&predicted, batch);
        self.predicted = predicted;
        Ok(report(&outputs, correct, scored))
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        let sum = self.training.sum(self.training.gradients(), true);
        let norm = self.pool().download::<f64>(&sum).first().copied().unwrap_or(0.0).sqrt();
        self.healthy()?;
        if !norm.is_finite() {
            return Err(LearnError::NonFinite { step: self.updates, node: self.not_finite() });
        }
        let scale = clip_factor(norm, rule.clip);
        self.updates += 1;
        self.micro = 0;
        let weights = self.training.parameters();
        if rule.kind == OptimiserKind::Ranger && self.slow.is_none() {
            self.slow = Some(self.copy_of(weights));
        }
        let arrays = [weights, self.training.gradients(), &self.first_moment, &self.second_moment];
        for matrix in self.segments.matrices(rule.kind) {
            Update::part::<T>(arrays, &matrix.range).muon::<T>(matrix, rule, &self.training);
        }
        for (range, group) in self.segments.of(rule.kind) {
            let rule = UpdateRule { learning_rate: rule.rate(*group), ..*rule };
            let update = Update::part::<T>(arrays, range);
            match (rule.kind, &self.slow) {
                (OptimiserKind::Ranger, Some(slow)) => {
                    let slow = slow.part::<T>(range.start, range.len());
                    update.ranger::<T>(&slow, &rule, scale, self.updates, self.pool());
                }
                (OptimiserKind::Adam, _) => {
                    let rule = UpdateRule { weight_decay: 0.0, ..rule };
                    update.adamw::<T>(&rule, scale, self.updates, self.pool());
                }
                _ => update.adamw::<T>(&rule, scale, self.updates, self.pool()),
            }
        }
        // The device may begin while the host makes the next batch.
        self.pool().device().flush();
        Ok(norm)
    }

    fn average(&mut self, decay: f64) {
        let weights = self.training.parameters();
        match &self.averaged {
            None => self.averaged = Some(self.copy_of(weights)),
            Some(average) => {
                let shares = self.pool().upload(&[decay, 1.0 - decay].map(T::from_f64));
                let args = [average.arg(), weights.arg(), shares.arg(), whole(weights.len())];
                self.pool().each("average", weights.len(), &args);
            }
        }
    }

    fn halting_bounds(&self) -> Option<Bounds> {
        Bounds::of(&self.inference.plan().graph)
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        check_labels(&self.binding, batch)?;
        self.measured();
        let updates = self.updates;
        let outputs = self.inference.run(batch, self.seed).map_err(|fault| as_learn_error(fault, updates))?;
        evaluation(&self.binding, &outputs, batch, updates)
    }

    fn answers(&mut self, batch: &Batch) -> Result<Answers, LearnError> {
        check_labels(&self.binding, batch)?;
        self.measured();
        let updates = self.updates;
        let outputs = self.inference.run(batch, self.seed).map_err(|fault| as_learn_error(fault, updates))?;
        answered(&self.binding, &outputs, batch, updates)
    }

    fn state(&self) -> LearnerState {
        let arrays = |array: &Array| named(self.training.plan(), &self.pool().download::<T>(array));
        let some = |array: &Option<Array>| array.as_ref().map_or_else(Arrays::default, arrays);
        LearnerState {
            parameters: arrays(self.training.parameters()),
            first_moment: arrays(&self.first_moment),
            second_moment: arrays(&self.second_moment),
            slow: some(&self.slow),
            average: some(&self.averaged),
            updates: self.updates,
        }
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        let plan = self.training.plan();
        let parameters = flat::<T>(plan, &state.parameters)?;
        // A state of weights alone, as for prediction, has no moments.
        let moments = |arrays: &Arrays| match arrays.items.is_empty() {
            true => Ok(vec![T::ZERO; parameters.len()]),
            false => flat(plan, arrays),
        };
        let (first, second) = (moments(&state.first_moment)?, moments(&state.second_moment)?);
        let some = |arrays: &Arrays| match arrays.items.is_empty() {
            true => Ok(None),
            false => flat::<T>(plan, arrays).map(Some),
        };
        let (slow, averaged) = (some(&state.slow)?, some(&state.average)?);
        let pool = self.pool();
        pool.write(self.training.parameters(), &parameters);
        pool.write(&self.first_moment, &first);
        pool.write(&self.second_moment, &second);
        let upload = |numbers: Option<Vec<T>>| numbers.map(|numbers| pool.keep(&numbers));
        let (slow, averaged) = (upload(slow), upload(averaged));
        (self.slow, self.averaged) = (slow, averaged);
        self.updates = state.updates;
        self.micro = 0;
        self.healthy()
    }

    fn parameter_count(&self) -> usize {
        self.training.parameters().len()
    }
}

impl<T: Element> fmt::Debug for Model<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model({} numbers in {:?})", self.parameter_count(), self.pool())
    }
}
