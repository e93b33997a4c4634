//! The interface between the training loop and a model: one step, one evaluation, its state.
//!
//! The loop knows nothing of graphs or kernels, and the executor nothing of files or schedules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bounds::StepBounds;
use crate::gradient_tree::LeafBlock;
use rtc_base::batch::Batch;
pub use rtc_kernel::optimiser::{
    DecayedParameters, GROUPS, GroupRule, Lookahead, MOST_GROUPS, MuonStep, OptimiserKind, UpdateRule,
};

/// The numbers of one optimiser step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Task loss plus halting cost, as differentiated.
    pub loss: f64,
    /// Task loss alone.
    pub task_loss: f64,
    /// Mean halting cost (expected block runs per unit), if the model halts.
    pub halting_cost: Option<f64>,
    /// Mean number of accepted steps per unit, if the model halts.
    pub mean_depth: Option<f64>,
    /// Scored predictions that equal the label; none where numbers are asked for.
    pub correct: Option<u64>,
    /// Number of scored predictions.
    pub scored: u64,
    /// L2 norm of all gradients before clipping.
    pub gradient_norm: f64,
}

impl StepReport {
    /// The share of scored predictions that are right, where they are classes.
    pub fn accuracy(&self) -> Option<f64> {
        self.correct.filter(|_| self.scored > 0).map(|correct| correct as f64 / self.scored as f64)
    }
}

/// The numbers and predictions of one forward pass without dropout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Sum of the task loss over scored predictions.
    pub loss_sum: f64,
    /// Number of scored predictions.
    pub scored: u64,
    /// How many of them were right; none where numbers are asked for.
    pub correct: Option<u64>,
    /// Predicted class of every row (or of every token); 1 or 0 for every label of every row where there are several.
    pub predictions: Vec<u32>,
    /// Probability of the predicted class, in the order of `predictions`.
    pub confidence: Vec<f64>,
    /// Predicted number of every row in the unit of the model, where numbers are asked for.
    pub numbers: Vec<f64>,
    /// Accepted steps of the rows, if the model halts.
    pub depth: Option<Depths>,
}

/// Accepted steps of some rows, each the mean over the halting units of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Depths {
    /// Number of rows.
    pub rows: u64,
    /// Sum of their steps.
    pub sum: f64,
    /// Sum of the squares.
    pub squares: f64,
}

impl Depths {
    /// Those of rows one by one.
    pub fn of(steps: impl Iterator<Item = f64>) -> Self {
        steps.fold(Self::default(), |all, steps| all.with(Self { rows: 1, sum: steps, squares: steps * steps }))
    }

    /// These and others.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    /// The mean, 0 of no row.
    pub fn mean(&self) -> f64 {
        self.sum / self.rows.max(1) as f64
    }

    /// How far rows are from the mean: the root of the mean square.
    pub fn deviation(&self) -> f64 {
        (self.squares / self.rows.max(1) as f64 - self.mean().powi(2)).max(0.0).sqrt()
    }
}

/// The results of a forward pass on a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchAnswers {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Number of classes of every prediction: no and yes for every label where there are several, none where numbers are asked for.
    pub classes: usize,
    /// A logit per class for every prediction. Of two classes the first has the logit 0.
    pub logits: Vec<f64>,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
}

impl BatchAnswers {
    /// Accepted steps of one of `count` examples: of a pair, whose second sides are the second half of the rows, the mean.
    pub fn steps(&self, example: usize, count: usize) -> Option<f64> {
        let depths = self.depths.as_ref()?;
        let rows: Vec<f64> = depths.iter().skip(example).step_by(count.max(1)).copied().collect();
        (!rows.is_empty()).then(|| rows.iter().sum::<f64>() / rows.len() as f64)
    }
}

/// A value that rows carry from one update to the next, where an update is made after every step of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// What the batch calls it.
    pub name: Arc<str>,
    /// How many positions besides its tokens a row has in it; nothing where it is one for the row.
    pub around: Option<usize>,
    /// Numbers of each.
    pub width: usize,
}

impl Carry {
    /// How many numbers a row of so many tokens has.
    pub fn numbers(&self, length: usize) -> usize {
        self.around.map_or(1, |around| length + around) * self.width
    }
}

/// State that the rows of a batch leave to the next update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemainingState {
    /// The numbers of every carried value, row after row.
    pub values: Vec<Vec<f64>>,
    /// Rows whose step was their last one.
    pub over: Vec<bool>,
}

/// Named flat arrays with shapes: parameters or optimiser moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlatArrays {
    /// Name, shape and values, ordered by name.
    pub items: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// Everything of a model that a checkpoint holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearnerState {
    /// The parameters.
    pub parameters: FlatArrays,
    /// The arrays of the optimiser by their names in [`STATE`](crate::update::STATE), as far as it has any.
    pub optimiser: BTreeMap<String, FlatArrays>,
    /// Averaged parameters, if there are any.
    pub average: FlatArrays,
    /// Updates done; the generator needs no other state, being counter-based.
    pub updates: u64,
}

/// A failure of the model itself.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum LearnError {
    /// A value became NaN or infinite.
    #[error("update {step}: the first non-finite value is in {node}")]
    NonFinite {
        /// The update that it came up in, from 1, or after which something was measured.
        step: u64,
        /// The graph node, as the IR prints it, with row and steps of loops; or a weight.
        node: String,
    },
    /// A state that does not fit the model (other names or shapes).
    #[error("the saved state does not fit this model: {0}")]
    Mismatch(String),
    /// A batch that the model can't take.
    #[error("{0}")]
    Batch(String),
    /// The device that computes failed.
    #[error("{0}")]
    Device(String),
    /// A rank of a training on several failed, or has other numbers than the others.
    #[error("{0}")]
    Ranks(String),
}

impl LearnerState {
    /// Refuses numbers that are not finite: nothing that a model computes from them can be trusted, even where it looks like a number.
    ///
    /// # Errors
    /// The first such number with its place.
    pub fn require_finite(&self) -> Result<(), LearnError> {
        let optimiser =
            self.optimiser.iter().map(|(name, arrays)| (format!("the {} of", name.replace('_', " ")), arrays));
        let weights = [("the weight".to_owned(), &self.parameters), ("the average of".to_owned(), &self.average)];
        for (of, arrays) in weights.into_iter().chain(optimiser) {
            for (name, (_, numbers)) in &arrays.items {
                if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
                    let node = format!("{of} `{name}`, number {} of it", at + 1);
                    return Err(LearnError::NonFinite { step: self.updates, node });
                }
            }
        }
        Ok(())
    }
}

impl LearnError {
    /// The same with the place of a batch that the model can't take: a split, an update.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        match self {
            Self::Batch(message) => Self::Batch(format!("{place}: {message}")),
            other => other,
        }
    }
}

/// A model that can be trained.
pub trait Learner {
    /// Adds the gradients of one micro-batch, weighted by `share` of the whole batch.
    ///
    /// The report is about the micro-batch alone: its means are not multiplied by the share.
    fn accumulate(&mut self, batch: &Batch, share: f64) -> Result<StepReport, LearnError> {
        self.accumulate_while(batch, share, &mut || {})
    }
    /// The same; a learner that waits for a device calls `meanwhile` while that works, and others never.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError>;
    /// Adds the gradients of several micro-batches of an update, one after the other, each weighted by its share of the whole batch; for
    /// each its report, and what its rows have left. A learner that waits for a device calls `meanwhile` while that works on the last of
    /// them.
    ///
    /// # Errors
    /// As [`Self::accumulate`], of the first micro-batch that fails.
    fn accumulate_all(
        &mut self,
        batches: &[(Batch, f64)],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<(StepReport, RemainingState)>, LearnError> {
        let mut all = vec![];
        for (n, (batch, share)) in batches.iter().enumerate() {
            let last = n + 1 == batches.len();
            let report = self.accumulate_while(batch, *share, &mut || {
                if last {
                    meanwhile()
                }
            })?;
            all.push((report, self.left()));
        }
        Ok(all)
    }
    /// What rows carry from one update to the next; nothing where an update takes all steps.
    fn carries(&self) -> &[Carry] {
        &[]
    }
    /// What the last micro-batch has left, in the order of [`Self::carries`].
    fn left(&mut self) -> RemainingState {
        RemainingState::default()
    }
    /// Applies the accumulated gradients, and lets the next ones start anew; gives the gradient norm before clipping.
    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError>;
    /// Moves the averaged weights towards the weights, of which a share `1 - decay` is taken; the first time the average is a copy
    /// of the weights. Evaluations use the average from then on.
    fn average(&mut self, decay: f64);
    /// A forward pass without dropout, with the averaged weights if there are any.
    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError>;
    /// The same of several batches.
    ///
    /// # Errors
    /// As [`Self::evaluate`], of the first batch that fails.
    fn evaluate_all(&mut self, batches: &[Batch]) -> Result<Vec<Evaluation>, LearnError> {
        batches.iter().map(|batch| self.evaluate(batch)).collect()
    }
    /// How many batches [`Self::evaluate_all`] can compute at the same time.
    fn at_once(&self) -> usize {
        1
    }
    /// A forward pass as in [`Self::evaluate`], with the logits of all classes and the steps of every row.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    fn answers(&mut self, batch: &Batch) -> Result<BatchAnswers, LearnError>;
    /// Refuses to go on where the state is not the same everywhere, for a learner that is in several places.
    ///
    /// # Errors
    /// The first place that differs.
    fn require_agreement(&mut self) -> Result<(), LearnError> {
        Ok(())
    }
    /// A copy of the gradients of the last update, before clipping. The caller must ask before the next batch.
    fn gradients(&mut self) -> FlatArrays;
    /// A copy of the state.
    fn state(&self) -> LearnerState;
    /// Replaces the state; arrays of the optimiser that it lacks begin anew. After an error nothing has changed.
    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError>;
    /// Number of trainable numbers.
    fn parameter_count(&self) -> usize;
    /// Between how many steps the model can halt; nothing if it does not halt, or nothing simple can be said of it.
    fn halting_bounds(&self) -> Option<StepBounds> {
        None
    }
}

/// A learner that can compute a part of the micro-batches of an update, and be given the sum over all of them.
pub trait Distributed: Learner {
    /// The next micro-batch is this one of its update, from 0. Micro-batches come in rising order.
    fn at_leaf(&mut self, leaf: u64);
    /// How many numbers a gradient has.
    fn gradient_len(&self) -> usize;
    /// The sums over the micro-batches since the last update, each over the largest [`blocks`](crate::gradient_tree::blocks) that can be made of them.
    fn take_sums(&mut self) -> Vec<(LeafBlock, Vec<f32>)>;
    /// What the next update applies in the place of the sum over its own micro-batches.
    ///
    /// # Errors
    /// Too few or too many numbers.
    fn set_sum(&mut self, sum: Vec<f32>) -> Result<(), LearnError>;
}
