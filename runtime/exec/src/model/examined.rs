//! A trained model as analyses and generation see it: answers after every step, halting, states, and the weights that are evaluated.

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Binding;
use rtc_kernel::Real;

use super::answers::AfterSteps;
use super::named::named;
use super::{ArrayMemory, Backend, ModelOn, as_learn_error, check_labels, finite_answers};
use crate::learner::{Evaluation, FlatArrays, LearnError, Learner};
use crate::machine::record::AttentionMap;
use crate::machine::record::ParseTrees;
use crate::machine::record::RunRecords;
use crate::processor::Executor;
use crate::ranges::aligned_ranges;
use crate::ranges::parameter_ranges;
use crate::recorder::HaltingRecorder;
use crate::recorder::HaltingTrace;
use crate::recorder::StateRecorder;
use crate::recorder::StateTrace;
use crate::settings::Settings;

/// An evaluation with what the recurrences and searches of the model did.
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
    /// The runs of its halting recurrences, in the order in which they ended.
    pub halting: Vec<HaltingTrace>,
    /// The trees that its beam searches found, search by search.
    pub trees: Vec<ParseTrees>,
}

/// An executor of forward passes on the processor, with the weights that are evaluated.
#[derive(Debug)]
pub struct ForwardPass<T: crate::storage::Element> {
    /// The executor.
    pub executor: Executor<T>,
    /// What the model is trained for.
    pub binding: Binding,
    /// The random key of the model.
    pub key: Key,
    /// Updates done.
    pub updates: u64,
}

impl<B: Backend> ModelOn<B> {
    /// Answers after 1, 2, ... `most` steps of the recurrence whose depth is given.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn after_each_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError> {
        let each = |inference: &mut B, key| inference.each_step(batch, key, most);
        let all =
            self.infer(batch, |m, key| each(m, key)?.into_iter().map(finite_answers).collect::<Result<Vec<_>, _>>())?;
        all.iter().map(|outputs| self.pass(outputs, batch).after_steps()).collect()
    }

    /// Evaluates a batch, and records steps, halting recurrences and searches.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn examination(&mut self, batch: &Batch) -> Result<Examination, LearnError> {
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

    /// Evaluates a batch, and records the states of recurrences and the nodes of folds.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn state_traces(&mut self, batch: &Batch) -> Result<Vec<StateTrace>, LearnError> {
        let states = self.inference.records().attach::<StateRecorder>();
        let evaluation = self.evaluate(batch);
        *self.inference.records() = RunRecords::default();
        evaluation.map(|_| states.take())
    }

    /// Evaluates a batch on the processor, and records the weights of attention.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn attention_maps(&mut self, batch: &Batch) -> Result<Vec<AttentionMap>, LearnError> {
        check_labels(&self.binding, batch)?;
        let inference = self.inference.settings().inference;
        let ForwardPass { mut executor, key, updates, .. } = self.forward_pass();
        executor.settings.inference = inference;
        executor.records.attention = Some(vec![]);
        let outcome = executor.run(batch, key).and_then(finite_answers);
        outcome.map_err(|fault| as_learn_error(fault, updates))?;
        Ok(executor.records.attention.take().unwrap_or_default())
    }

    /// Whether a depth of the model comes with the examples.
    pub fn depth_is_given(&self) -> bool {
        self.inference.takes_depth()
    }

    /// The graph of a forward pass.
    pub fn inference_graph(&self) -> &Graph {
        &self.inference.plan().graph
    }

    /// The weights that are evaluated: their average, where there is one.
    pub fn evaluated_weights(&self) -> FlatArrays {
        named::<B>(self.training.plan(), &self.memory.numbers(self.measured()))
    }

    /// An executor of forward passes with the weights that are evaluated. It computes on the processor.
    pub fn forward_pass(&mut self) -> ForwardPass<B::Number> {
        let (plan, weights) = (self.inference.plan(), self.memory.numbers(self.measured()));
        let mut executor = Executor::new(plan.clone());
        for (to, from) in parameter_ranges(plan).into_iter().zip(aligned_ranges(plan, B::ALIGN)) {
            executor.parameters_mut()[to].copy_from_slice(&weights[from]);
        }
        let Settings { halting, depth, precision, .. } = *self.inference.settings();
        executor.settings = Settings { halting, depth, precision, ..Settings::default() };
        ForwardPass { executor, binding: self.binding, key: self.seed, updates: self.updates }
    }
}
