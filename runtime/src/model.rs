//! A model that can be trained: two plans (training step, forward pass), parameters, gradients and what the optimiser keeps.

use std::ops::Range;
use std::sync::Arc;

use rtc_compiler::ir::graph::{Graph, MAIN, NodeId, Parameter};
use rtc_compiler::ir::types::{Attr, Dim};
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::plan::Plan;

use crate::batch::{Batch, Labels};
use crate::exec::arena::Arena;
use crate::exec::storage::Element;
use crate::exec::{Executor, Fault, Grown, Halting, Inference, Outputs, Stepped, Watched, parameter_ranges};
use crate::kernel::{Real, elementwise, loss, optimiser};
use crate::learner::{
    Arrays, Evaluation, GROUPS, LearnError, Learner, LearnerState, OptimiserKind, StepReport, UpdateRule,
};
use crate::rng::Key;
use crate::stopping::BySteps;

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
    /// Neighbouring parameters that learn at the same rate, and their group.
    segments: Vec<(Range<usize>, Option<usize>)>,
    /// Averaged weights; empty if there are none.
    averaged: Vec<T>,
    /// Gradients of the micro-batches before the last one, where there are several.
    accumulated: Vec<T>,
    /// What the last training step predicted.
    predicted: Predictions,
    /// Accepted steps of every row of the last evaluation, if the model halts.
    depths: Option<Vec<f64>>,
}

/// Predicted classes and their probabilities.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    pub(crate) class: Vec<u32>,
    pub(crate) probability: Vec<f64>,
}

/// What [`Model::examine`] saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
    /// The runs of its halting recurrences, in the order in which they ended.
    pub halting: Vec<Watched>,
    /// The trees that its beam searches found, search by search.
    pub grown: Vec<Grown>,
}

/// What a model answers after some number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct AfterSteps {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// The summed task loss of every row (of every pair).
    pub losses: Vec<f64>,
}

/// The start of a parameter: every number is drawn by its own index from a stream named after the parameter.
pub fn initial<T: Real>(parameter: &Parameter, seed: Key) -> Vec<T> {
    let dims: Vec<usize> = parameter.ty.dims().iter().filter_map(Dim::fixed).collect();
    let count = dims.iter().product::<usize>();
    let key = seed.stream("init").stream(&parameter.name);
    let uniform =
        |limit: f64| (0..count as u64).map(move |n| T::from_f64(limit * (2.0 * key.uniform(n) - 1.0))).collect();
    match &parameter.init {
        Attr::Word(word) if word == "ones" => vec![T::ONE; count],
        // Complex ones, as pairs.
        Attr::Word(word) if word == "pairs_of_one" => (0..count).map(|n| T::from_f64((1 - n % 2) as f64)).collect(),
        Attr::Call(name, args) => {
            let arg = args.first().and_then(Attr::float).unwrap_or(1.0);
            let other = args.get(1).and_then(Attr::float).unwrap_or(arg);
            let along = dims.last().copied().unwrap_or(1).max(1);
            let (outputs, inputs) = (dims.first().copied().unwrap_or(1), dims.get(1).copied().unwrap_or(1));
            match name.as_str() {
                "unit" => (0..count as u64).map(|n| T::from_f64(key.uniform(n))).collect(),
                "normal" => (0..count as u64).map(|n| T::from_f64(arg * key.normal(n))).collect(),
                // Glorot and Bengio 2010, Eq. 16, times a gain.
                "xavier" => uniform(arg * (6.0 / (inputs + outputs) as f64).sqrt()),
                "fan_in" => uniform(1.0 / arg.max(1.0).sqrt()),
                "constant" => vec![T::from_f64(arg); count],
                "uniform" => (0..count as u64).map(|n| T::from_f64(arg + (other - arg) * key.uniform(n))).collect(),
                // +1, -1, +1, ... along the last axis, and noise around it.
                "alternating" => {
                    let sign = |n: u64| if (n as usize % along).is_multiple_of(2) { 1.0 } else { -1.0 };
                    (0..count as u64).map(|n| T::from_f64(sign(n) + arg * key.normal(n))).collect()
                }
                // The frequencies of S4D-Inv for a state of so many real numbers (Gu et al. 2022, Eq. 9).
                "s4d_inverse" => {
                    let of = |mode: usize| arg / std::f64::consts::PI * (arg / (2 * mode + 1) as f64 - 1.0);
                    (0..count).map(|n| T::from_f64(of(n % along))).collect()
                }
                _ => vec![T::ZERO; count],
            }
        }
        _ => vec![T::ZERO; count],
    }
}

/// The ranges of the flat array that belong to one group, as long as possible.
pub(crate) fn segments(plan: &Plan) -> Vec<(Range<usize>, Option<usize>)> {
    let mut out: Vec<(Range<usize>, Option<usize>)> = vec![];
    for (parameter, range) in plan.parameters.iter().zip(parameter_ranges(plan)) {
        let group = parameter.group.as_deref().and_then(|name| GROUPS.iter().position(|group| *group == name));
        match out.last_mut() {
            Some((before, same)) if *same == group => before.end = range.end,
            _ => out.push((range, group)),
        }
    }
    out
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
            segments: segments(&plan),
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
        (self.inference.watched, self.inference.grown) = (Some(vec![]), Some(vec![]));
        let evaluation = self.evaluate(batch);
        let halting = self.inference.watched.take().unwrap_or_default();
        let grown = self.inference.grown.take().unwrap_or_default();
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

    /// The states of all positions after every step of every recurrence over them, in the order in which they come about.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn states(&mut self, batch: &Batch) -> Result<Vec<Stepped>, LearnError> {
        self.inference.stepped = Some(vec![]);
        let evaluation = self.evaluate(batch);
        let states = self.inference.stepped.take().unwrap_or_default();
        evaluation.map(|_| states)
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

/// Puts what the logits predict into `found`.
pub(crate) fn predict<T: Element>(binding: &Binding, outputs: &Outputs<T>, found: &mut Predictions) {
    let logits = outputs.real("logits").unwrap_or_default();
    let outputs = logits_per_item(binding);
    let items = logits.len() / outputs;
    found.class.resize(items, 0);
    found.probability.resize(items, 0.0);
    let predict = if outputs == 1 { loss::predict_binary } else { loss::predict };
    predict(logits, &mut found.class, &mut found.probability);
}

/// Number of logits per prediction: one for two classes.
fn logits_per_item(binding: &Binding) -> usize {
    binding.classes.filter(|n| *n > 2).unwrap_or(1)
}

/// Name, shape and place of every parameter in the flat array.
pub(crate) fn named_ranges(plan: &Plan) -> Vec<(String, Vec<usize>, Range<usize>)> {
    let dims = |p: &Parameter| p.ty.dims().iter().filter_map(Dim::fixed).collect();
    let named = plan.parameters.iter().zip(parameter_ranges(plan));
    named.map(|(p, range)| (p.name.clone(), dims(p), range)).collect()
}

/// A flat array under the names of the parameters.
pub(crate) fn named<T: Real>(plan: &Plan, flat: &[T]) -> Arrays {
    let single = |x: &T| x.to_f64() as f32;
    let items = named_ranges(plan)
        .into_iter()
        .map(|(name, dims, range)| (name, (dims, flat[range].iter().map(single).collect())));
    Arrays { items: items.collect() }
}

/// A flat array from named ones.
pub(crate) fn flat<T: Real>(plan: &Plan, arrays: &Arrays) -> Result<Vec<T>, LearnError> {
    let ranges = named_ranges(plan);
    if let Some(extra) = arrays.items.keys().find(|k| !ranges.iter().any(|(name, ..)| name == *k)) {
        return Err(LearnError::Mismatch(format!("`{extra}` is no parameter of it")));
    }
    let mut flat = vec![T::ZERO; ranges.last().map_or(0, |(_, _, range)| range.end)];
    for (name, dims, range) in ranges {
        let (shape, values) =
            arrays.items.get(&name).ok_or_else(|| LearnError::Mismatch(format!("`{name}` is missing")))?;
        if *shape != dims || values.len() != range.len() {
            return Err(LearnError::Mismatch(format!("`{name}` has shape {shape:?}, the model has {dims:?}")));
        }
        for (to, from) in flat[range].iter_mut().zip(values) {
            *to = T::from_f64(f64::from(*from));
        }
    }
    Ok(flat)
}

/// Whether the labels of a batch are those of the objective.
pub(crate) fn check_labels(binding: &Binding, batch: &Batch) -> Result<(), LearnError> {
    let fits = match (&batch.labels, binding.objective) {
        (Labels::Class(c), Objective::Classify) => c.len() == batch.rows(),
        (Labels::Class(c), Objective::Pair) => 2 * c.len() == batch.rows(),
        (Labels::Each { class, weight }, Objective::Each) => {
            class.len() == batch.tokens.len() && weight.len() == class.len()
        }
        _ => false,
    };
    let message = || LearnError::Batch("the labels of the batch do not fit what the model answers".to_owned());
    fits.then_some(()).ok_or_else(message)
}

/// What a failed run of update `updates` is to the training.
pub(crate) fn as_learn_error(fault: Fault, updates: u64) -> LearnError {
    match fault {
        Fault::Batch(message) => LearnError::Batch(message),
        Fault::NonFinite(node) => LearnError::NonFinite { step: updates, node },
        Fault::Device(message) => LearnError::Device(message),
    }
}

/// The label of every prediction, and whether it counts.
fn scored(batch: &Batch) -> impl Iterator<Item = (u32, bool)> {
    let (class, weight) = match &batch.labels {
        Labels::Class(class) => (class, None),
        Labels::Each { class, weight } => (class, Some(weight)),
    };
    class.iter().enumerate().map(move |(n, class)| (*class, weight.is_none_or(|weight| weight[n] != 0.0)))
}

/// How many predictions are right, of how many that count.
pub(crate) fn count(predicted: &Predictions, batch: &Batch) -> (u64, u64) {
    let counted = scored(batch).zip(&predicted.class).filter(|((_, counts), _)| *counts);
    counted.fold((0, 0), |(right, all), ((label, _), class)| (right + u64::from(label == *class), all + 1))
}

fn mean<T: Real>(values: Option<&[T]>) -> Option<f64> {
    values.filter(|v| !v.is_empty()).map(|v| v.iter().map(|x| x.to_f64()).sum::<f64>() / v.len() as f64)
}

/// The numbers of a training step, from the results of its run.
pub(crate) fn report<T: Element>(outputs: &Outputs<T>, correct: u64, scored: u64) -> StepReport {
    StepReport {
        loss: outputs.scalar("loss").unwrap_or(f64::NAN),
        task_loss: outputs.scalar("task_loss").unwrap_or(f64::NAN),
        halting_cost: mean(outputs.real("halting_cost")),
        mean_depth: mean(outputs.real("depth")),
        correct,
        scored,
        gradient_norm: 0.0,
    }
}

/// The summed task loss of some of the predictions.
fn task_loss<T: Element>(binding: &Binding, outputs: &Outputs<T>, batch: &Batch, items: Range<usize>) -> f64 {
    let (Labels::Class(labels) | Labels::Each { class: labels, .. }) = &batch.labels;
    let counts = scored(batch).map(|(_, counts)| if counts { T::ONE } else { T::ZERO });
    let weights: Vec<T> = counts.skip(items.start).take(items.len()).collect();
    let each = logits_per_item(binding);
    let measure = if each == 1 { loss::binary_cross_entropy } else { loss::cross_entropy };
    let logits = &outputs.real("logits").unwrap_or_default()[items.start * each..items.end * each];
    measure(logits, &labels[items], Some(&weights)).sum
}

/// The summed task loss of every row, or of every pair.
fn losses<T: Element>(binding: &Binding, outputs: &Outputs<T>, batch: &Batch) -> Vec<f64> {
    let loss = |items| task_loss(binding, outputs, batch, items);
    match &batch.labels {
        Labels::Class(labels) => (0..labels.len()).map(|row| loss(row..row + 1)).collect(),
        Labels::Each { .. } => batch.offsets.windows(2).map(|ends| loss(ends[0]..ends[1])).collect(),
    }
}

/// The numbers and predictions of a forward pass, from the results of its run.
pub(crate) fn evaluation<T: Element>(
    binding: &Binding,
    outputs: &Outputs<T>,
    batch: &Batch,
    updates: u64,
) -> Result<Evaluation, LearnError> {
    let mut predicted = Predictions::default();
    predict(binding, outputs, &mut predicted);
    let (correct, scored) = count(&predicted, batch);
    let loss_sum = task_loss(binding, outputs, batch, 0..predicted.class.len());
    if !loss_sum.is_finite() {
        return Err(LearnError::NonFinite { step: updates, node: "the logits".to_owned() });
    }
    let depth = outputs.real("depth").map(|d| (d.iter().map(|x| x.to_f64()).sum(), d.len() as u64));
    let Predictions { class: predictions, probability: confidence } = predicted;
    Ok(Evaluation { loss_sum, scored, correct, predictions, confidence, depth })
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
        for (range, group) in &self.segments {
            let rule = UpdateRule { learning_rate: rule.rate(*group), ..*rule };
            let (w, g) = (&mut weights[range.clone()], &gradients[range.clone()]);
            let (m, v) = (&mut self.first_moment[range.clone()], &mut self.second_moment[range.clone()]);
            match rule.kind {
                OptimiserKind::Adamw => optimiser::adamw(w, g, m, v, &rule, scale, self.updates),
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

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        check_labels(&self.binding, batch)?;
        let seed = self.seed;
        let outputs = self.infer(|inference| inference.run(batch, seed))?;
        let evaluation = evaluation(&self.binding, &outputs, batch, self.updates)?;
        self.depths = outputs.real("depth").map(|d| d.iter().map(|x| x.to_f64()).collect());
        Ok(evaluation)
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
