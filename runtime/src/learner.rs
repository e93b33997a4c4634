//! What the training loop asks of a model: one step, one evaluation, its state.
//!
//! The loop knows nothing of graphs or kernels, and the executor nothing of files or schedules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::collapse::Bounds;

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
        self.correct.map(|correct| correct as f64 / self.scored.max(1) as f64)
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

/// All that a forward pass says of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Number of classes of every prediction: no and yes for every label where there are several, none where numbers are asked for.
    pub classes: usize,
    /// A logit per class for every prediction. Of two classes the first has the logit 0.
    pub logits: Vec<f64>,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
}

impl Answers {
    /// Accepted steps of one of `count` examples: of a pair, whose second sides are the second half of the rows, the mean.
    pub fn steps(&self, example: usize, count: usize) -> Option<f64> {
        let depths = self.depths.as_ref()?;
        let rows: Vec<f64> = depths.iter().skip(example).step_by(count.max(1)).copied().collect();
        (!rows.is_empty()).then(|| rows.iter().sum::<f64>() / rows.len() as f64)
    }
}

/// The optimiser's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimiserKind {
    /// Adam with decoupled weight decay on every parameter.
    #[default]
    Adamw,
    /// Adam without any decay.
    Adam,
    /// Rectified Adam (Liu et al. 2020) with decoupled weight decay on every parameter, and lookahead (Zhang et al. 2019).
    Ranger,
    /// Orthogonalised momentum (Jordan et al. 2024) for the weights of linear maps but the last one, AdamW for all others.
    Muon,
}

impl OptimiserKind {
    /// Every family.
    pub const ALL: [Self; 4] = [Self::Adamw, Self::Adam, Self::Ranger, Self::Muon];
}

/// How long a step of [`OptimiserKind::Muon`] is, as a factor on an orthogonal matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MuonStep {
    /// `0.2 sqrt(max(rows, columns))` (Liu et al. 2025, arXiv 2502.16982, Eq. 4): as long as one of AdamW.
    #[default]
    Adamw,
    /// `sqrt(max(1, rows / columns))` (Jordan et al. 2024).
    Original,
}

/// How the slow weights of [`OptimiserKind::Ranger`] follow the fast ones (Zhang et al. 2019, arXiv 1907.08610, Algorithm 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lookahead {
    /// Updates between two steps of the slow weights, `k`.
    pub every: u64,
    /// How far they go, `alpha`.
    pub follow: f64,
}

impl Default for Lookahead {
    fn default() -> Self {
        UpdateRule::ADAMW.lookahead
    }
}

/// The groups of parameters that can have a learning rate of their own, by the name that the graph gives them.
pub const GROUPS: [&str; 1] = ["s4d"];

/// A setting of the optimiser for one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRule {
    /// The family.
    pub kind: OptimiserKind,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Learning rate of each of [`GROUPS`] where it is not that of all others.
    pub group_rates: [Option<f64>; GROUPS.len()],
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decay of the momentum of [`OptimiserKind::Muon`].
    pub momentum: f64,
    /// Length of a step of [`OptimiserKind::Muon`].
    pub muon_step: MuonStep,
    /// The slow weights of [`OptimiserKind::Ranger`].
    pub lookahead: Lookahead,
    /// The length of the average (`rho_t`, 4 or more) from which on [`OptimiserKind::Ranger`] divides by the second moment.
    pub rectify_from: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest allowed global L2 norm of the gradient.
    pub clip: Option<f64>,
}

impl UpdateRule {
    /// AdamW with its usual numbers, all parameters alike, no decay and no clipping.
    pub const ADAMW: Self = Self {
        kind: OptimiserKind::Adamw,
        learning_rate: 1e-3,
        group_rates: [None; GROUPS.len()],
        beta1: 0.9,
        beta2: 0.999,
        momentum: 0.95,
        muon_step: MuonStep::Adamw,
        lookahead: Lookahead { every: 5, follow: 0.8 },
        rectify_from: 5.0,
        epsilon: 1e-8,
        weight_decay: 0.0,
        clip: None,
    };

    /// The learning rate of a group, or of the parameters in none.
    pub fn rate(&self, group: Option<usize>) -> f64 {
        group.and_then(|n| self.group_rates[n]).unwrap_or(self.learning_rate)
    }
}

/// Named flat arrays with shapes: parameters or optimiser moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    /// Name, shape and values, ordered by name.
    pub items: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// Everything of a model that a checkpoint holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearnerState {
    /// The parameters.
    pub parameters: Arrays,
    /// First moments of the optimiser.
    pub first_moment: Arrays,
    /// Second moments of the optimiser.
    pub second_moment: Arrays,
    /// The slow weights of `ranger`; empty for any other optimiser.
    pub slow: Arrays,
    /// Averaged parameters, if there are any.
    pub average: Arrays,
    /// Updates done; the generator needs no other state, being counter-based.
    pub updates: u64,
}

/// A failure of the model itself.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum LearnError {
    /// A value became NaN or infinite.
    #[error("step {step}: the first non-finite value is in {node}")]
    NonFinite {
        /// Update index.
        step: u64,
        /// The graph node, as the IR prints it.
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
    fn accumulate(&mut self, batch: &Batch, share: f64) -> Result<StepReport, LearnError>;
    /// The same; a learner that waits for a device calls `meanwhile` while that works, and others never.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        let _ = meanwhile;
        self.accumulate(batch, share)
    }
    /// Applies the accumulated gradients, and lets the next ones start anew; gives the gradient norm before clipping.
    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError>;
    /// Moves the averaged weights towards the weights, of which a share `1 - decay` is taken; the first time the average is a copy
    /// of the weights. Evaluations use the average from then on.
    fn average(&mut self, decay: f64);
    /// A forward pass without dropout, with the averaged weights if there are any.
    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError>;
    /// The same, with the logits of all classes and the steps of every row.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    fn answers(&mut self, batch: &Batch) -> Result<Answers, LearnError>;
    /// A copy of the state.
    fn state(&self) -> LearnerState;
    /// Replaces the state; moments that it lacks are zero, and slow weights that it lacks begin at the weights. After an error nothing has changed.
    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError>;
    /// Number of trainable numbers.
    fn parameter_count(&self) -> usize;
    /// Between how many steps the model can halt; nothing if it does not halt, or nothing simple can be said of it.
    fn halting_bounds(&self) -> Option<Bounds> {
        None
    }
}
