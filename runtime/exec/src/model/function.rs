//! A trained model as a function from weights to logits, for a program that holds the weights and differentiates what it makes of the
//! logits. Every question is answered by a plan of its own, which is made when the question is asked first.

use rtc_compiler::ir::graph::{Graph, InvalidNode, Parameter};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::{self, jacobian};
use rtc_compiler::plan::{Plan, plan};

use super::answers::check_labels;
use super::{as_learn_error, finite_answers, finite_losses, look_closer, require_outer_recursion};
use crate::learner::LearnError;
use crate::machine::backend::{ArrayMemory, Backend};
use crate::machine::outputs::Outputs;
use crate::processor::Executor;
use crate::ranges::aligned_ranges;
use crate::ranges::parameter_ranges;
use crate::settings::ExecutionFault;
use crate::settings::Inference;
use crate::settings::Settings;
use crate::storage::Element;
use rtc_base::batch::{Batch, Given};
use rtc_base::rng::Key;
use rtc_kernel::Real;
use rtc_kernel::optimiser::Set;

pub use rtc_compiler::pipeline::jacobian::COTANGENT;

/// The mode of a pass: whether it drops units and draws what a model draws in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassMode {
    /// As predictions do: nothing is dropped.
    Evaluation,
    /// As the training step after so many updates does. Equal numbers draw equally, whatever is asked.
    Training(u64),
}

impl PassMode {
    pub fn mode(self) -> jacobian::Mode {
        match self {
            Self::Evaluation => jacobian::Mode::Evaluation,
            Self::Training(_) => jacobian::Mode::Training,
        }
    }

    /// The updates before it, for messages.
    pub fn update(self) -> u64 {
        if let Self::Training(update) = self { update } else { 0 }
    }
}

/// What a plan answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Logits(jacobian::Mode),
    Product(jacobian::Mode),
    Loss,
}

/// What refuses results, or passes them on.
type Check<T> = fn(Outputs<T>) -> Result<Outputs<T>, ExecutionFault>;

/// A model that computes with the weights that it is given, on a machine.
#[derive(Debug)]
pub struct Function<B: Backend> {
    graph: Graph,
    binding: Binding,
    seed: Key,
    /// The plan of the training step, whose parameters are those of all plans.
    training: Plan,
    settings: Settings,
    /// An executor for every question that was asked; the first one has the weights.
    executors: Vec<(Question, B)>,
}

impl<T: Element> Function<Executor<T>> {
    /// Computes with these weights from now on. Equal ones cost a comparison alone: what is prepared of weights stays.
    ///
    /// # Errors
    /// Another number of weights.
    pub fn set_weights(&mut self, weights: &[T]) -> Result<(), LearnError> {
        let (_, executor) = &mut self.executors[0];
        if weights.len() != executor.parameters().len() {
            let (given, own) = (weights.len(), executor.parameters().len());
            return Err(LearnError::Mismatch(format!("there are {given} weights, and the model has {own}")));
        }
        let bits = |x: &T| x.to_f64().to_bits();
        if !executor.parameters().iter().map(bits).eq(weights.iter().map(bits)) {
            executor.parameters_mut().copy_from_slice(weights);
        }
        Ok(())
    }
}

impl<B: Backend> Function<B> {
    /// The function of a forward graph. All weights are zero at first. `seed` is that of the run, for what evaluations draw.
    ///
    /// # Errors
    /// A graph that can't be differentiated.
    pub fn new(
        graph: Graph,
        binding: Binding,
        seed: u64,
        executor: impl FnOnce(Plan) -> B,
    ) -> Result<Self, InvalidNode> {
        let training = plan(pipeline::training(&graph, &binding)?);
        let first = Question::Logits(jacobian::Mode::Evaluation);
        let mut function =
            Self { graph, binding, seed: Key::new(seed), training, settings: Settings::default(), executors: vec![] };
        let executor = executor(function.plan(first)?);
        function.executors.push((first, executor));
        Ok(function)
    }

    /// The parameters, in the order in which their numbers lie in flat arrays.
    pub fn parameters(&self) -> &[Parameter] {
        &self.training.parameters
    }

    /// How many numbers they have together.
    pub fn numbers(&self) -> usize {
        parameter_ranges(&self.training).last().map_or(0, |range| range.end)
    }

    /// What the model answers.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Whether the number of its steps comes with the examples.
    pub fn takes_depth(&self) -> bool {
        self.executors[0].1.takes_depth()
    }

    /// How it runs from now on. Passes that draw have the outer recursion always, as training has.
    ///
    /// # Errors
    /// [`Inference::Flat`] for a model that has no such recursion, or none that it can do without.
    pub fn set(&mut self, settings: Settings) -> Result<(), LearnError> {
        if settings.inference == Inference::Flat {
            require_outer_recursion(&self.graph)?;
        }
        self.settings = settings;
        Ok(())
    }

    /// The logits of a batch, an item after the other. Its labels mean nothing.
    ///
    /// # Errors
    /// A batch that the model can't take, or the first value that is not finite.
    pub fn logits(&mut self, batch: &Batch, draws: PassMode) -> Result<Vec<B::Number>, LearnError> {
        let outputs = self.run(Question::Logits(draws.mode()), batch, draws, finite_answers)?;
        Ok(outputs.real("logits").unwrap_or_default().to_vec())
    }

    /// The gradient of all parameters, flat, of a function of the logits whose gradient with respect to them is `cotangent`.
    ///
    /// # Errors
    /// As [`Self::logits`], and a cotangent of another length.
    pub fn product(
        &mut self,
        batch: &Batch,
        cotangent: &[B::Number],
        draws: PassMode,
    ) -> Result<Vec<B::Number>, LearnError> {
        let numbers = cotangent.iter().map(|x| x.to_f64()).collect();
        let mut batch = batch.clone();
        batch.given.push(Given { name: COTANGENT.into(), numbers });
        self.run(Question::Product(draws.mode()), &batch, draws, Ok)?;
        Ok(self.gradients())
    }

    /// The loss of a batch with its labels, as a training step of the model pays it, and its gradient.
    ///
    /// # Errors
    /// As [`Self::logits`], and labels that are not those of the task.
    pub fn loss(&mut self, batch: &Batch, update: u64) -> Result<(f64, Vec<B::Number>), LearnError> {
        self.check_labels(batch)?;
        let outputs = self.run(Question::Loss, batch, PassMode::Training(update), finite_losses)?;
        Ok((outputs.scalar("loss").unwrap_or(f64::NAN), self.gradients()))
    }

    /// Refuses labels that are not those of the task.
    pub fn check_labels(&self, batch: &Batch) -> Result<(), LearnError> {
        check_labels(&self.binding, batch)
    }

    /// The executor that has the weights, and the gradients of the last run.
    pub fn current(&mut self) -> &mut B {
        &mut self.executors[0].1
    }

    /// The gradients end to end, without what lies between them on a machine that aligns them.
    fn gradients(&mut self) -> Vec<B::Number> {
        let executor = self.current();
        let flat = executor.memory().numbers(executor.arrays().1);
        aligned_ranges(&self.training, B::ALIGN).into_iter().flat_map(|range| flat[range].iter().copied()).collect()
    }

    fn run(
        &mut self,
        question: Question,
        batch: &Batch,
        draws: PassMode,
        check: Check<B::Number>,
    ) -> Result<Outputs<B::Number>, LearnError> {
        self.pass(question, draws, |executor, key| executor.execute(batch, key, &mut || {}).and_then(check))
    }

    /// Runs the plan of a question as the caller says. Where that meets a number that is not finite, it is run once more to name the first.
    ///
    /// # Errors
    /// Those of the run, and a graph that has no such plan.
    pub fn pass<R>(
        &mut self,
        question: Question,
        draws: PassMode,
        run: impl Fn(&mut B, Key) -> Result<R, ExecutionFault>,
    ) -> Result<R, LearnError> {
        let key = self.key(draws);
        let executor = self.executor(question)?;
        let run = |executor: &mut B| run(executor, key);
        let outcome = run(executor).or_else(|fault| look_closer(executor, fault, run));
        outcome.map_err(|fault| as_learn_error(fault, draws.update()))
    }

    /// As evaluations and training steps of a [`super::ModelOn`] draw.
    pub fn key(&self, draws: PassMode) -> Key {
        match draws {
            PassMode::Evaluation => self.seed,
            PassMode::Training(update) => self.seed.stream("dropout").at(update).at(0),
        }
    }

    /// The executor for a question, with the weights, and with all gradients zero.
    pub fn executor(&mut self, question: Question) -> Result<&mut B, LearnError> {
        let len = aligned_ranges(&self.training, B::ALIGN).last().map_or(0, |range| range.end);
        let found = self.executors.iter().position(|(known, _)| *known == question);
        let at = match found {
            Some(at) => at,
            None => {
                let plan = self.plan(question).map_err(|invalid| LearnError::Mismatch(invalid.to_string()))?;
                let (_, first) = &mut self.executors[0];
                let executor = first.beside(plan);
                self.executors.push((question, executor));
                self.executors.len() - 1
            }
        };
        let (first, rest) = self.executors.split_at_mut(1);
        if let Some((_, other)) = at.checked_sub(1).and_then(|n| rest.get_mut(n)) {
            std::mem::swap(first[0].1.arrays().0, other.arrays().0);
            self.executors.swap(0, at);
        }
        let draws = !matches!(
            question,
            Question::Logits(jacobian::Mode::Evaluation) | Question::Product(jacobian::Mode::Evaluation)
        );
        let inference = if draws { Inference::Recursive } else { self.settings.inference };
        let settings = Settings { inference, ..self.settings };
        let executor = self.current();
        *executor.settings() = settings;
        if !matches!(question, Question::Logits(_)) {
            let (memory, all) = (executor.memory(), 0..len);
            memory.each(&Set { value: 0.0 }, [executor.arrays().1], [], &all);
        }
        Ok(executor)
    }

    fn plan(&self, question: Question) -> Result<Plan, InvalidNode> {
        let plan = match question {
            Question::Logits(mode) => jacobian::logits(&self.graph, &self.binding, mode)?,
            Question::Product(mode) => jacobian::product(&self.graph, &self.binding, mode)?,
            Question::Loss => self.training.clone(),
        };
        Ok(plan.over(self.training.parameters.clone()))
    }
}
