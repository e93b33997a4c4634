//! Experiments: one YAML file says on what, how and how long models are trained, and what is measured.
//!
//! [`Experiment`] is the checked settings for one model, [`ExperimentFile`] the file that gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtc_compiler::formula::{NumberFormula, UpdateFormula};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedule::{self, Beta1, Plateau, Schedule, ScheduleKind};
use rtc_exec::Inference;
pub use rtc_exec::learner::OptimiserKind;
use rtc_exec::learner::{DecayedParameters, GROUPS, GroupRule, Lookahead, MOST_GROUPS, MuonStep, UpdateRule};
use rtc_task::TaskSettings;
use rtc_task::batching::{Buckets, ClassSampling};

mod absent;
mod choice;
mod compare;
mod edit_sweep;
mod elsewhere;
mod file;
mod fresh;
mod groups;
mod halving;
mod layers;
mod loss;
mod metrics;
mod mistakes;
mod own_metric;
mod place;
mod rules;
mod schema;
mod settings;
mod supervision;
mod sweep;
mod watched;
mod yaml;

pub use choice::Choice;
pub use compare::ComparedModel;
pub use edit_sweep::{EditSweep, EvaluateAt, outside_brackets};
pub use elsewhere::is_field;
pub use file::ExperimentFile;
pub use fresh::{Curriculum, Ema, Fresh, Lengths};
pub use groups::OptimiserGroup;
pub use halving::Halving;
pub use layers::ReadFile;
pub use loss::LossSettings;
pub use metrics::MetricKind;
pub use own_metric::{CONFIDENCE, LABEL, LENGTH, OwnMetric, PREDICTED, PROBABILITY};
pub use place::LinePart;
pub use schema::schema;
pub use settings::ExperimentSetting;
pub use supervision::Supervision;
pub use watched::{HistogramSettings, SampleSettings};

macro_rules! embedded {
    ($($name:literal,)*) => { &[$(($name, include_str!(concat!("../../../specs/experiments/", $name, ".yaml")))),*] };
}

/// How large experiments may be.
pub mod limits {
    pub use super::edit_sweep::MOST_VALUES;
    pub use super::layers::MOST as MOST_LAYERS;
    pub use super::sweep::MOST as MOST_ROWS;
    pub use super::yaml::{MOST_BYTES, MOST_OPEN, MOST_REPEATED};
}

/// The experiments that are part of the program: name and text.
#[rustfmt::skip]
pub const EMBEDDED: &[(&str, &str)] = embedded! {
    "listops", "listops_ablation_smoke", "listops_smoke", "logic", "logic_smoke", "flip_flop",
    "flip_flop_smoke", "lra_listops", "lra_text", "lra_text_smoke", "lra_retrieval", "lra_retrieval_smoke",
    "lra_image", "lra_image_smoke", "lra_pathfinder", "lra_pathfinder_smoke", "listops_trees",
    "listops_trees_smoke", "logic_trees", "logic_trees_smoke", "lra_listops_trees", "lra_listops_trees_smoke",
    "listops_mix", "listops_mix_smoke", "lra_text_trees", "lra_text_trees_smoke", "lra_retrieval_trees",
    "lra_retrieval_trees_smoke", "regular_even_pairs", "regular_modular_arithmetic", "regular_parity",
    "regular_cycle_navigation", "regular_dyck", "regular_tomita", "regular_smoke", "regular_parity_smoke",
    "regular_languages_smoke", "chomsky", "chomsky_smoke", "looped_parity", "looped_copy", "looped_addition",
    "looped_multiplication", "looped_binary_sum", "looped_unique_set", "looped_parity_smoke",
    "looped_copy_smoke", "looped_addition_smoke", "looped_smoke", "characters", "characters_smoke",
    "characters_positions_smoke", "doubling_smoke", "looped_language_smoke",
    "sudoku", "sudoku_ablation_smoke", "sudoku_smoke",
};

/// A checked experiment for one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The data.
    pub task: TaskSettings,
    /// Path of the spec that is trained when the command line names none.
    #[serde(default)]
    pub model: Option<String>,
    /// Edits of the spec, as with `--set` on the command line.
    #[serde(default)]
    pub set: Vec<String>,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The learning rate over time.
    pub schedule: ScheduleSettings,
    /// How many examples make an update.
    pub batch: BatchSettings,
    /// How much each answer weighs in the training loss.
    #[serde(default, skip_serializing_if = "LossSettings::is_plain")]
    pub loss: LossSettings,
    /// After which steps of the model's outermost loop the weights are updated.
    #[serde(default, skip_serializing_if = "Supervision::is_of_all_steps")]
    pub supervision: Supervision,
    /// Training on strings that are drawn for every update, in place of a stored split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<Fresh>,
    /// Averaged weights, which are measured in place of the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ema: Option<Ema>,
    /// Passes over the training data, at most.
    #[serde(default)]
    pub epochs: Option<u64>,
    /// Updates, at most.
    #[serde(default)]
    pub max_steps: Option<u64>,
    /// Updates between evaluations on the dev split; without it, one evaluation after each pass.
    #[serde(default)]
    pub evaluate_every: Option<u64>,
    /// Stop after more than so many evaluations in a row without improvement.
    #[serde(default)]
    pub patience: Option<u64>,
    /// Checkpoints that are kept besides the best and the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<KeptCheckpoints>,
    /// Texts that the model writes during the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleSettings>,
    /// Histograms of weights and gradients during the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histograms: Option<HistogramSettings>,
    /// Updates between lines of `metrics.jsonl`.
    #[serde(default = "number::<10>")]
    pub log_every: u64,
    /// Seeds of the runs: of the parameters, the dropout and the order of the data.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// The split to train on.
    #[serde(default = "train_split")]
    pub train: String,
    /// The split that decides which checkpoint is best.
    #[serde(default = "dev_split")]
    pub dev: String,
    /// Which evaluated weights are measured at the end.
    #[serde(default, skip_serializing_if = "Choice::is_best")]
    pub choose: Choice,
    /// How the outermost balanced fold of the model runs on dev and on the splits that are measured.
    #[serde(default, skip_serializing_if = "Inference::is_recursive")]
    pub inference: Inference,
    /// The splits on which the best checkpoint is measured, in the order of the table.
    pub evaluate: Vec<String>,
    /// Metrics besides the accuracy and those of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricKind>,
    /// Edits under which a grid measures its trained models again, by path with the values: `{ loop.steps: [1, 2, 4, 8] }`.
    #[serde(default, skip_serializing_if = "EvaluateAt::is_empty")]
    pub evaluate_at: EvaluateAt,
}

/// Which checkpoints are kept besides the best and the last one. They change no number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptCheckpoints {
    /// Updates between two of them.
    pub every: u64,
    /// How many are kept, the newest ones; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
}

/// The optimiser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Optimiser {
    /// The family.
    #[serde(default)]
    pub kind: OptimiserKind,
    /// The lines of `kind: formula`, see [`UpdateFormula`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Base learning rate, which the schedule scales.
    pub learning_rate: f64,
    /// Decay of the first and of the second moment.
    #[serde(default = "betas")]
    pub betas: [f64; 2],
    /// Decay of the momentum of `muon`, without it 0.95, and of `sgd`, without it 0.
    #[serde(default)]
    pub momentum: Option<f64>,
    /// Length of a step of `muon`; without it, as long as one of AdamW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muon_step: Option<MuonStep>,
    /// The slow weights of `ranger`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookahead: Option<Lookahead>,
    /// From which length of its average on `ranger` rectifies; without it 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rectify_from: Option<f64>,
    /// Added to the root of the second moment.
    #[serde(default = "epsilon")]
    pub epsilon: f64,
    /// Decoupled weight decay.
    #[serde(default)]
    pub weight_decay: f64,
    /// The parameters that decay.
    #[serde(default, skip_serializing_if = "is_all")]
    pub decay: DecayedParameters,
    /// Largest global L2 norm of the gradient; none does not clip, and `muon` does not need it for matrices.
    #[serde(default)]
    pub clip: Option<f64>,
    /// Largest base learning rates of groups of parameters.
    #[serde(default)]
    pub most: MostRates,
    /// Names of the parameters that are trained, as those of a group; all others are held. Without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained: Option<Vec<String>>,
    /// Parameters whose updates differ, under names of one's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, OptimiserGroup>,
}

impl Optimiser {
    /// Whether the family has weight decay.
    fn decays(&self) -> bool {
        self.kind != OptimiserKind::Adam
    }

    /// Reads the lines of `kind: formula`, if there are any.
    pub fn read_formula(&self) -> Option<Result<UpdateFormula, String>> {
        self.formula.as_deref().map(UpdateFormula::parse)
    }

    /// What is wrong with the lines, if there are any.
    fn wrong_formula(&self) -> Option<String> {
        let formula = match self.read_formula()? {
            Ok(formula) => formula,
            Err(why) => return Some(why),
        };
        let decays = self.weight_decay > 0.0 || self.groups.values().any(|group| group.weight_decay > Some(0.0));
        let set = [
            ("rate", true, "the learning rate and its schedule"),
            ("decay", decays, "`weight_decay`"),
            ("momentum", self.momentum.is_some(), "`momentum`"),
            ("epsilon", self.epsilon != epsilon(), "`epsilon`"),
            ("beta1", self.betas[0] != betas()[0], "the first of `betas`"),
            ("beta2", self.betas[1] != betas()[1], "the second of `betas`"),
        ];
        let (name, _, what) = set.into_iter().find(|(name, is_set, _)| *is_set && !formula.uses(name))?;
        Some(format!("the lines don't use `{name}`, so that {what} would have no effect"))
    }
}

/// The largest base learning rate of each group of parameters; the schedule scales it like that of all others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MostRates {
    /// The state spaces of `scan s4d`: steps, A, B, C and the skip.
    #[serde(default = "s4d_rate")]
    pub s4d: f64,
}

impl Default for MostRates {
    fn default() -> Self {
        Self { s4d: s4d_rate() }
    }
}

/// The learning rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSettings {
    /// The shape.
    pub kind: ScheduleKind,
    /// Warm-up updates.
    #[serde(default)]
    pub warmup: u64,
    /// The update with which `cosine` and `linear` begin to fall, if that is not the end of the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Updates over which the shape is laid out; without it, those of the run.
    #[serde(default)]
    pub total: Option<u64>,
    /// Evaluations in a row without a gain that `plateau` endures before it halves the rate.
    #[serde(default = "number::<2>")]
    pub wait: u64,
    /// Whether `one_cycle` moves the decay of the first moment too.
    #[serde(default)]
    pub beta1: Beta1,
    /// The factor of `kind: formula`, of `step` (from 0), `total` and `warmup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
}

impl ScheduleSettings {
    /// Whether the factors depend on the number of updates of the run.
    pub fn depends_on_length(&self) -> bool {
        let uses = || self.read_formula().is_some_and(|formula| formula.is_ok_and(|formula| formula.uses("total")));
        self.total.is_none() && (self.kind.needs_total() || uses())
    }

    /// Reads the formula, if there is one.
    fn read_formula(&self) -> Option<Result<NumberFormula, String>> {
        Some(NumberFormula::parse(self.formula.as_ref()?, &schedule::NAMES))
    }
}

/// How many examples make an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSettings {
    /// Examples per update.
    pub size: usize,
    /// Parts in which they are computed, one after the other, to save memory.
    #[serde(default = "one")]
    pub accumulate: usize,
    /// Grouping by length.
    #[serde(default)]
    pub buckets: Buckets,
    /// How often the rows of each class come.
    #[serde(default, skip_serializing_if = "is_uniform")]
    pub sampling: ClassSampling,
}

/// A whole number that a field has where nothing is said.
fn number<const N: u64>() -> u64 {
    N
}

fn is_uniform(sampling: &ClassSampling) -> bool {
    *sampling == ClassSampling::Uniform
}

fn is_all(decay: &DecayedParameters) -> bool {
    *decay == DecayedParameters::All
}

fn s4d_rate() -> f64 {
    1e-3
}

fn one() -> usize {
    1
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn train_split() -> String {
    "train".into()
}

fn dev_split() -> String {
    "dev".into()
}

fn betas() -> [f64; 2] {
    [0.9, 0.999]
}

fn epsilon() -> f64 {
    1e-8
}

impl Experiment {
    /// The names of all splits that a run needs, each once.
    pub fn splits(&self) -> Vec<&str> {
        let stored = self.fresh.is_none().then_some(self.train.as_str());
        let mut names: Vec<&str> = stored.into_iter().collect();
        for name in std::iter::once(&self.dev).chain(&self.evaluate) {
            if !names.contains(&name.as_str()) {
                names.push(name.as_str());
            }
        }
        names
    }

    /// The same, with the metric of `choose` among `metrics`.
    fn measuring_its_choice(mut self) -> Self {
        let chosen = self.choose.metric().and_then(MetricKind::named);
        self.metrics.extend(chosen.filter(|kind| !self.metrics.contains(kind)));
        self
    }

    /// Number of updates of the whole run, with `batches` updates per pass.
    pub fn updates(&self, batches: u64) -> u64 {
        let by_epochs = self.epochs.map(|epochs| epochs.saturating_mul(batches));
        [by_epochs, self.max_steps].into_iter().flatten().min().unwrap_or(0)
    }

    /// The schedule of a run with `batches` updates per pass.
    pub fn schedule(&self, batches: u64) -> Schedule {
        let ScheduleSettings { kind, warmup, start, total, beta1, .. } = self.schedule;
        Schedule {
            formula: self.schedule.read_formula().and_then(Result::ok).map(Arc::new),
            kind,
            warmup,
            start: start.unwrap_or(warmup),
            total: total.unwrap_or_else(|| self.updates(batches)),
            beta1,
        }
    }

    /// The settings of update `t`, after what the dev split has said so far.
    pub fn rule(&self, schedule: &Schedule, t: u64, plateau: Plateau) -> UpdateRule {
        let Optimiser { kind, learning_rate, betas, momentum, epsilon, weight_decay, clip, most, .. } = self.optimiser;
        let unset = if kind == OptimiserKind::Sgd { 0.0 } else { UpdateRule::ADAMW.momentum };
        let Optimiser { muon_step, lookahead, rectify_from, .. } = self.optimiser;
        let halved = if schedule.kind == ScheduleKind::Plateau { plateau.factor() } else { 1.0 };
        let factor = schedule.factor(t) * halved;
        let of = |group: &str| match group {
            "s4d" => most.s4d,
            _ => f64::INFINITY,
        };
        UpdateRule {
            kind,
            learning_rate: learning_rate * factor,
            groups: self.groups(factor, |group| learning_rate.min(of(group))),
            beta1: schedule.beta1(t, betas[0]),
            beta2: betas[1],
            momentum: momentum.unwrap_or(unset),
            muon_step: muon_step.unwrap_or_default(),
            lookahead: lookahead.unwrap_or_default(),
            rectify_from: rectify_from.unwrap_or(UpdateRule::ADAMW.rectify_from),
            epsilon,
            weight_decay,
            decayed: self.optimiser.decay,
            clip,
        }
    }

    /// The settings of the groups of parameters: those that graphs name, then those of the experiment.
    fn groups(&self, factor: f64, rate: impl Fn(&str) -> f64) -> [GroupRule; MOST_GROUPS] {
        let graph =
            GROUPS.iter().map(|name| GroupRule { learning_rate: Some(rate(name) * factor), weight_decay: None });
        let all = graph.chain(self.optimiser.groups.values().map(|group| group.rule(factor)));
        let mut rules = UpdateRule::ADAMW.groups;
        rules.iter_mut().zip(all).for_each(|(rule, group)| *rule = group);
        rules
    }

    /// The complete experiment as YAML, every default written out.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(self).expect("an experiment holds nothing that YAML can't")
    }
}
