//! The optimisers: what each is told, and what an update does to a number. The processor and a GPU run the same kernels.
//!
//! Source: Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019, arXiv:1711.05101; Everett et al. 2024, arXiv:2407.05872;
//! Liu et al. 2020, arXiv:1908.03265; Zhang et al. 2019, arXiv:1907.08610; Jordan et al. 2024 (Muon); Liu et al. 2025, arXiv:2502.16982.

use std::ops::Range;

use rtc_compiler::formula::UpdateFormula;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::array_update::array_updates;

/// The optimiser's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptimiserKind {
    /// Adam with decoupled weight decay on every parameter.
    #[default]
    Adamw,
    /// Adam without any decay.
    Adam,
    /// AdamW whose step is the angle of the first moment and the root of the second one, at most pi / 2, in the place of their quotient
    /// (Everett et al. 2024, arXiv 2407.05872, Section 6, without its factors, as in the code of HRM and TRM).
    AdamAtan2,
    /// Rectified Adam (Liu et al. 2020) with decoupled weight decay on every parameter, and lookahead (Zhang et al. 2019).
    Ranger,
    /// Orthogonalised momentum (Jordan et al. 2024) for the weights of linear maps but the last one, AdamW for all others.
    Muon,
    /// Lion (Chen et al. 2023, arXiv 2302.06675, Algorithm 2): the sign of the first moment, with decoupled weight decay.
    Lion,
    /// Stochastic gradient descent with momentum and decoupled weight decay.
    Sgd,
    /// The lines of an [`UpdateFormula`].
    Formula,
}

impl OptimiserKind {
    /// Every family.
    pub const ALL: [Self; 8] =
        [Self::Adamw, Self::Adam, Self::AdamAtan2, Self::Ranger, Self::Muon, Self::Lion, Self::Sgd, Self::Formula];
}

/// How long a step of [`OptimiserKind::Muon`] is, as a factor on an orthogonal matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MuonStep {
    /// `0.2 sqrt(max(rows, columns))` (Liu et al. 2025, arXiv 2502.16982, Eq. 4): as long as one of AdamW.
    #[default]
    Adamw,
    /// `sqrt(max(1, rows / columns))` (Jordan et al. 2024).
    Original,
}

/// The parameters that weight decay draws towards zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecayedParameters {
    /// All of them.
    #[default]
    All,
    /// Those with two axes or more: weights of maps and embeddings, and neither biases nor the weights of norms.
    Matrices,
}

/// How the slow weights of [`OptimiserKind::Ranger`] follow the fast ones (Zhang et al. 2019, arXiv 1907.08610, Algorithm 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// Steps of the iteration that orthogonalises.
pub const STEPS: usize = 5;

/// A matrix of the flat array of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterMatrix {
    /// Its place.
    pub range: Range<usize>,
    /// Its columns: the inputs of the linear map.
    pub columns: usize,
    /// The group of its update rule, see [`UpdateRule::groups`].
    pub group: Option<usize>,
}

impl ParameterMatrix {
    /// Its rows: the outputs of the linear map.
    pub fn rows(&self) -> usize {
        self.range.len() / self.columns.max(1)
    }

    /// Floating-point operations of the products of an update: three in each of [`STEPS`], as [`orthogonalise`](crate::muon::orthogonalise) has them.
    pub fn operations(&self) -> f64 {
        let (size, side) = (self.range.len() as f64, self.rows().min(self.columns) as f64);
        STEPS as f64 * 2.0 * (2.0 * size * side + side * side * side)
    }

    /// Numbers that are kept beside it for the next update, see [`MuonScratch`](crate::muon::MuonScratch); what fills blocks up is not counted.
    pub fn beside(&self) -> usize {
        let (rows, columns) = (self.rows(), self.columns);
        let (size, square) = (self.range.len(), rows.min(columns).pow(2));
        let packed = if rows > columns { square } else { 2 * size + square };
        2 * size + 2 * square + packed
    }
}

/// Groups of parameters that a graph names, the first ones of [`UpdateRule::groups`].
pub const GROUPS: [&str; 1] = ["s4d"];

/// Most groups of parameters of a model, [`GROUPS`] included.
pub const MOST_GROUPS: usize = 17;

/// Settings of a group of parameters; without a value, those of all others apply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupRule {
    /// Learning rate of this update.
    pub learning_rate: Option<f64>,
    /// Decoupled weight decay, of every parameter of the group.
    pub weight_decay: Option<f64>,
}

/// A setting of the optimiser for one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRule {
    /// The family.
    pub kind: OptimiserKind,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Settings of each group of parameters: those of [`GROUPS`], then those of the experiment.
    pub groups: [GroupRule; MOST_GROUPS],
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decay of the momentum of [`OptimiserKind::Muon`] and [`OptimiserKind::Sgd`].
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
    /// The parameters that decay.
    pub decayed: DecayedParameters,
    /// Largest allowed global L2 norm of the gradient.
    pub clip: Option<f64>,
}

impl UpdateRule {
    /// AdamW with its usual numbers, all parameters alike, no decay and no clipping.
    pub const ADAMW: Self = Self {
        kind: OptimiserKind::Adamw,
        learning_rate: 1e-3,
        groups: [GroupRule { learning_rate: None, weight_decay: None }; MOST_GROUPS],
        beta1: 0.9,
        beta2: 0.999,
        momentum: 0.95,
        muon_step: MuonStep::Adamw,
        lookahead: Lookahead { every: 5, follow: 0.8 },
        rectify_from: 5.0,
        epsilon: 1e-8,
        weight_decay: 0.0,
        decayed: DecayedParameters::All,
        clip: None,
    };

    /// Returns the rule of the parameters of a group, or of those in none, which decay if [`Self::decayed`] includes them.
    pub fn of_group(&self, group: Option<usize>, decays: bool) -> Self {
        let own = group.map_or_else(GroupRule::default, |n| self.groups[n]);
        let weight_decay = own.weight_decay.unwrap_or(if decays { self.weight_decay } else { 0.0 });
        Self { learning_rate: own.learning_rate.unwrap_or(self.learning_rate), weight_decay, ..*self }
    }

    /// The numbers that all parameters share in update number `step` (from 1) by a formula, where the rule is that of a group.
    ///
    /// # Errors
    /// A sentence, where one of them has no value.
    pub fn shared(&self, formula: &UpdateFormula, step: u64) -> Result<Vec<f64>, String> {
        formula.numbers(&|name| match name {
            "step" => step as f64,
            "rate" => self.learning_rate,
            "decay" => self.weight_decay,
            "beta1" => self.beta1,
            "beta2" => self.beta2,
            "epsilon" => self.epsilon,
            _ => self.momentum,
        })
    }
}

array_updates! {
    /// An update of Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, Algorithm 2).
    Adam = "adam" [w, m, v] [g] (keep, beta1, rest1, beta2, rest2, rate, correction, epsilon, scale) {
        g = scale * g;
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        w = w * keep - rate * m / (root(v) * correction + epsilon);
    }

    /// An update of Adam by angles, with decoupled weight decay.
    AdamAtan2 = "adam_atan2" [w, m, v] [g] (keep, beta1, rest1, beta2, rest2, rate, correction1, correction2, scale) {
        g = scale * g;
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        w = w * keep - rate * angle(m * correction1, root(v) * correction2);
    }

    /// An update of Lion with decoupled weight decay (Chen et al. 2023, arXiv 2302.06675, Algorithm 2).
    Lion = "lion" [w, m] [g] (keep, beta1, rest1, beta2, rest2, rate, scale) {
        g = scale * g;
        w = w * keep - rate * sign(beta1 * m + rest1 * g);
        m = beta2 * m + rest2 * g;
    }

    /// An update of stochastic gradient descent with momentum and decoupled weight decay.
    Sgd = "sgd" [w, m] [g] (keep, momentum, rate, scale) {
        m = momentum * m + scale * g;
        w = w * keep - rate * m;
    }

    /// Slow weights go a part of the way to the weights, which go on from there.
    Follow = "follow" [w, slow] [] (follow) {
        slow = slow + follow * (w - slow);
        w = slow;
    }

    /// The momentum of Muon, and what is orthogonalised.
    Momentum = "muon_momentum" [m, u] [g] (stays, comes) {
        m = stays * m + comes * g;
        u = stays * m + comes * g;
    }

    /// A step of Muon along what was orthogonalised.
    Along = "muon_step" [w] [u] (keep, rate) {
        w = w * keep - rate * u;
    }

    /// One array becomes a copy of another one.
    Assign = "assign" [to] [from] () {
        to = from;
    }

    /// All numbers become one.
    Set = "set" [x] [] (value) {
        x = value;
    }

    /// An average goes towards the weights.
    Average = "average" [average] [w] (stays, comes) {
        average = stays * average + comes * w;
    }

    /// The gradients of a micro-batch get their share of the batch.
    Share = "share_of_batch" [g] [] (share) {
        g = share * g;
    }

    /// The gradients of micro-batches before are added to those of later ones. It is a kernel apart from [`Share`], so that no machine
    /// rounds both at once: a sum must be the same wherever its parts were made.
    Accumulate = "accumulate" [g] [before] () {
        g = before + g;
    }
}

impl Adam {
    pub fn with_decay(rule: &UpdateRule, scale: f64, step: u64) -> Self {
        let unbiased = 1.0 - rule.beta2.powf(step as f64);
        Self {
            keep: 1.0 - rule.learning_rate * rule.weight_decay,
            beta1: rule.beta1,
            rest1: 1.0 - rule.beta1,
            beta2: rule.beta2,
            rest2: 1.0 - rule.beta2,
            rate: rule.learning_rate / (1.0 - rule.beta1.powf(step as f64)),
            correction: 1.0 / unbiased.sqrt(),
            epsilon: rule.epsilon,
            scale,
        }
    }

    /// Rectified Adam (Liu et al. 2020, arXiv 1908.03265, Algorithm 2): while the variance of the second moment is not known well
    /// enough the first moment is divided by 1.
    pub fn rectified(rule: &UpdateRule, scale: f64, step: u64) -> Self {
        let plain = Self::with_decay(rule, scale, step);
        match rectification(rule, step) {
            Some(factor) => Self { rate: plain.rate * factor, correction: 1.0, ..plain },
            None => Self { correction: 0.0, epsilon: 1.0, ..plain },
        }
    }
}

impl AdamAtan2 {
    pub fn new(rule: &UpdateRule, scale: f64, step: u64) -> Self {
        let Adam { keep, beta1, rest1, beta2, rest2, correction, .. } = Adam::with_decay(rule, scale, step);
        let correction1 = 1.0 / (1.0 - rule.beta1.powf(step as f64));
        Self { keep, beta1, rest1, beta2, rest2, rate: rule.learning_rate, correction1, correction2: correction, scale }
    }
}

impl Lion {
    pub fn new(rule: &UpdateRule, scale: f64) -> Self {
        let UpdateRule { beta1, beta2, learning_rate: rate, .. } = *rule;
        let keep = 1.0 - rate * rule.weight_decay;
        Self { keep, beta1, rest1: 1.0 - beta1, beta2, rest2: 1.0 - beta2, rate, scale }
    }
}

impl Sgd {
    pub fn new(rule: &UpdateRule, scale: f64) -> Self {
        let UpdateRule { momentum, learning_rate: rate, .. } = *rule;
        Self { keep: 1.0 - rate * rule.weight_decay, momentum, rate, scale }
    }
}

impl Momentum {
    pub fn new(rule: &UpdateRule) -> Self {
        Self { stays: rule.momentum, comes: 1.0 - rule.momentum }
    }
}

impl Along {
    /// As long as a step of AdamW, the numbers of an orthogonalised matrix have a root mean square of about 0.2.
    pub fn new(rule: &UpdateRule, matrix: &ParameterMatrix) -> Self {
        let (rows, columns) = (matrix.rows() as f64, matrix.columns.max(1) as f64);
        let size = match rule.muon_step {
            MuonStep::Adamw => 0.2 * rows.max(columns).sqrt(),
            MuonStep::Original => (rows / columns).max(1.0).sqrt(),
        };
        Self { keep: 1.0 - rule.learning_rate * rule.weight_decay, rate: rule.learning_rate * size }
    }
}

impl Average {
    /// Of which a share `decay` stays.
    pub fn new(decay: f64) -> Self {
        Self { stays: decay, comes: 1.0 - decay }
    }
}

/// The factor of rectified Adam with the correction of the second moment; none while too few gradients were seen.
fn rectification(rule: &UpdateRule, step: u64) -> Option<f64> {
    let (beta2, t) = (rule.beta2, step as f64);
    let rest = 1.0 - beta2.powf(t);
    let most = 2.0 / (1.0 - beta2) - 1.0;
    let seen = most - 2.0 * t * (1.0 - rest) / rest;
    let factor = || rest * (seen - 4.0) * (seen - 2.0) * most / ((most - 4.0) * (most - 2.0) * seen);
    (seen >= rule.rectify_from).then(|| factor().sqrt())
}
