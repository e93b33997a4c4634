//! A learner small enough to reason about: softmax regression on the mean of one-hot tokens, trained with AdamW.

use std::collections::BTreeMap;
use std::path::Path;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_exec::gradient_tree::{self, LeafBlock};
use rtc_exec::learner::Distributed;
use rtc_exec::learner::{
    BatchAnswers, Carry, Depths, Evaluation, FlatArrays, LearnError, Learner, LearnerState, RemainingState, StepReport,
    UpdateRule,
};
use rtc_runs::experiment::{Experiment, ExperimentFile, Supervision};
use rtc_runs::record::{RunFolder, RunInfo};
use rtc_task::{Dataset, load};

const TOKENS: usize = 15;
const CLASSES: usize = 10;

pub(crate) struct Mock {
    seed: u64,
    weights: Vec<f32>,
    moments: [Vec<f32>; 2],
    average: Option<Vec<f32>>,
    /// The gradients of the micro-batches of this update, or their sum.
    gradients: Vec<(LeafBlock, Vec<f32>)>,
    /// The gradients of the last update.
    applied: Vec<f32>,
    leaf: u64,
    updates: u64,
    /// Chance that a token is left out in training, redrawn for every update from its index.
    pub(crate) dropout: f64,
    /// The loss of this update is not a number.
    pub(crate) broken_at: Option<u64>,
    /// Whether it waits for a device, as it were.
    pub(crate) waits: bool,
    /// What rows carry, where an update is made after every step: how many they have taken, and a number for every token.
    carries: Vec<Carry>,
    left: RemainingState,
    /// The tokens of all rows in their first steps.
    pub(crate) begun: Vec<Vec<u32>>,
}

impl Mock {
    pub(crate) fn new(seed: u64) -> Self {
        let size = TOKENS * CLASSES;
        let key = Key::new(seed).stream("init");
        Self {
            seed,
            weights: (0..size as u64).map(|i| 0.1 * key.normal(i) as f32).collect(),
            moments: [vec![0.0; size], vec![0.0; size]],
            average: None,
            gradients: vec![],
            applied: vec![0.0; size],
            leaf: 0,
            updates: 0,
            dropout: 0.2,
            broken_at: None,
            waits: false,
            carries: vec![],
            left: RemainingState::default(),
            begun: vec![],
        }
    }

    /// One for an experiment.
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let mut learner = Self::new(7);
        if experiment.supervision == Supervision::EachStep {
            let carry = |name: &str, around| Carry { name: name.into(), around, width: 1 };
            learner.carries = vec![carry("carried.0.y", Some(0)), carry("carried.taken", None)];
        }
        learner
    }

    /// Takes a step of every row: how much it weighs depends on what it carries. A row is through after one to four of them.
    fn step(&mut self, batch: &Batch) -> Vec<f64> {
        let rows = batch.rows();
        let [states, taken] = &batch.given[..] else { return vec![1.0; rows] };
        assert_eq!((states.numbers.len(), taken.numbers.len()), (batch.tokens.len(), rows));
        let first = (0..rows).filter(|row| taken.numbers[*row] == 0.0);
        self.begun.extend(first.map(|row| batch.row(row).to_vec()));
        let mean = |row: usize| {
            let own = &states.numbers[batch.offsets[row]..batch.offsets[row + 1]];
            own.iter().sum::<f64>() / own.len() as f64
        };
        let next = |(number, token): (&f64, &u32)| f64::from((0.5 * number + f64::from(*token)) as f32);
        let taken: Vec<f64> = taken.numbers.iter().map(|taken| taken + 1.0).collect();
        self.left = RemainingState {
            over: (0..rows)
                .map(|row| taken[row] >= f64::from(1 + (batch.row(row)[0] + batch.row(row).len() as u32) % 4))
                .collect(),
            values: vec![states.numbers.iter().zip(&batch.tokens).map(next).collect(), taken],
        };
        (0..rows).map(|row| 1.0 + 0.1 * mean(row)).collect()
    }

    /// The sum of all gradients that are there, which are none then.
    fn sum(&mut self) -> Option<Vec<f32>> {
        gradient_tree::sum(std::mem::take(&mut self.gradients), |left, right| add(left, right))
    }

    fn features(&self, row: &[u32], index: usize, training: bool) -> [f64; TOKENS] {
        let mut features = [0.0; TOKENS];
        let key = Key::new(self.seed).stream("dropout").at(self.updates).at(index as u64);
        for (place, token) in row.iter().enumerate() {
            if !training || key.uniform(place as u64) >= self.dropout {
                features[*token as usize] += 1.0 / row.len() as f64;
            }
        }
        features
    }

    fn probabilities(&self, features: &[f64; TOKENS]) -> Vec<f64> {
        let logit = |class: usize| -> f64 {
            let row = &self.weights[class * TOKENS..(class + 1) * TOKENS];
            row.iter().zip(features).map(|(w, x)| f64::from(*w) * x).sum()
        };
        let exponentials: Vec<f64> = (0..CLASSES).map(|class| logit(class).exp()).collect();
        let total: f64 = exponentials.iter().sum();
        exponentials.into_iter().map(|x| x / total).collect()
    }
}

fn add(left: &[f32], right: &mut [f32]) {
    right.iter_mut().zip(left).for_each(|(right, left)| *right += left);
}

fn classes(batch: &Batch) -> &[u32] {
    match &batch.labels {
        Labels::Class(classes) => classes,
        _ => panic!("the mock classifies rows"),
    }
}

fn best(probabilities: &[f64]) -> usize {
    (0..CLASSES).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b])).unwrap_or(0)
}

/// The arrays of its optimiser.
const MOMENTS: [&str; 2] = ["first_moment", "second_moment"];

impl Learner for Mock {
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        if self.waits {
            meanwhile();
        }
        self.accumulate(batch, share)
    }

    fn accumulate(&mut self, batch: &Batch, share: f64) -> Result<StepReport, LearnError> {
        let (rows, weights) = (batch.rows(), self.step(batch));
        let mut gradient = vec![0.0; self.weights.len()];
        let mut report = StepReport { scored: rows as u64, mean_depth: Some(2.0), ..StepReport::default() };
        for (index, label) in classes(batch).iter().enumerate() {
            let features = self.features(batch.row(index), index, true);
            let probabilities = self.probabilities(&features);
            report.task_loss -= probabilities[*label as usize].ln() / rows as f64;
            *report.correct.get_or_insert(0) += u64::from(best(&probabilities) == *label as usize);
            for (class, probability) in probabilities.iter().enumerate() {
                let slope = probability - f64::from(class == *label as usize);
                for (token, x) in features.iter().enumerate() {
                    gradient[class * TOKENS + token] += share * weights[index] * slope * x / rows as f64;
                }
            }
        }
        self.gradients.push((LeafBlock::leaf(self.leaf), gradient.iter().map(|x| *x as f32).collect()));
        self.leaf += 1;
        report.loss = if self.broken_at == Some(self.updates + 1) { f64::NAN } else { report.task_loss };
        Ok(report)
    }

    fn carries(&self) -> &[Carry] {
        &self.carries
    }

    fn left(&mut self) -> RemainingState {
        std::mem::take(&mut self.left)
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        let gradient = self.sum().unwrap_or_else(|| vec![0.0; self.weights.len()]);
        self.applied.clone_from(&gradient);
        self.leaf = 0;
        let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let scale = rule.clip.map_or(1.0, |clip| (clip / norm).min(1.0));
        self.updates += 1;
        let correction = |beta: f64| 1.0 - beta.powi(self.updates as i32);
        let (first_correction, second_correction) = (correction(rule.beta1), correction(rule.beta2));
        for (index, g) in gradient.into_iter().enumerate() {
            let g = f64::from(g) * scale;
            let first = rule.beta1 * f64::from(self.moments[0][index]) + (1.0 - rule.beta1) * g;
            let second = rule.beta2 * f64::from(self.moments[1][index]) + (1.0 - rule.beta2) * g * g;
            self.moments[0][index] = first as f32;
            self.moments[1][index] = second as f32;
            let direction = first / first_correction / ((second / second_correction).sqrt() + rule.epsilon);
            let old = f64::from(self.weights[index]);
            self.weights[index] = (old - rule.learning_rate * (direction + rule.weight_decay * old)) as f32;
        }
        Ok(norm)
    }

    fn average(&mut self, decay: f64) {
        let average = self.average.get_or_insert_with(|| self.weights.clone());
        for (average, weight) in average.iter_mut().zip(&self.weights) {
            *average = (decay * f64::from(*average) + (1.0 - decay) * f64::from(*weight)) as f32;
        }
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        if let Some(average) = &self.average {
            let mut averaged = Self::new(self.seed);
            averaged.weights.clone_from(average);
            return averaged.evaluate(batch);
        }
        let mut result =
            Evaluation { depth: Some(Depths::of(std::iter::repeat_n(3.0, batch.rows()))), ..Default::default() };
        for (index, label) in classes(batch).iter().enumerate() {
            let probabilities = self.probabilities(&self.features(batch.row(index), index, false));
            let answer = best(&probabilities);
            result.loss_sum -= probabilities[*label as usize].ln();
            result.scored += 1;
            *result.correct.get_or_insert(0) += u64::from(answer == *label as usize);
            result.predictions.push(answer as u32);
            result.confidence.push(probabilities[answer]);
        }
        Ok(result)
    }

    fn answers(&mut self, batch: &Batch) -> Result<BatchAnswers, LearnError> {
        let rows = (0..batch.rows()).flat_map(|row| self.probabilities(&self.features(batch.row(row), row, false)));
        let logits = rows.map(f64::ln).collect();
        let depths = Some(vec![3.0; batch.rows()]);
        Ok(BatchAnswers { evaluation: self.evaluate(batch)?, classes: CLASSES, logits, depths })
    }

    fn gradients(&mut self) -> FlatArrays {
        FlatArrays { items: BTreeMap::from([("head.w".to_string(), (vec![CLASSES, TOKENS], self.applied.clone()))]) }
    }

    fn state(&self) -> LearnerState {
        let arrays = |values: &Vec<f32>| FlatArrays {
            items: BTreeMap::from([("head.w".to_string(), (vec![CLASSES, TOKENS], values.clone()))]),
        };
        LearnerState {
            parameters: arrays(&self.weights),
            optimiser: MOMENTS.into_iter().map(str::to_owned).zip(self.moments.iter().map(arrays)).collect(),
            average: self.average.as_ref().map(arrays).unwrap_or_default(),
            updates: self.updates,
        }
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        let values = |arrays: &FlatArrays| match arrays.items.get("head.w") {
            Some((shape, values)) if *shape == [CLASSES, TOKENS] => Ok(values.clone()),
            _ => Err(LearnError::Mismatch("head.w is missing".into())),
        };
        self.weights = values(&state.parameters)?;
        let [first, second] = MOMENTS.map(|name| values(&state.optimiser[name]));
        self.moments = [first?, second?];
        self.average = if state.average.items.is_empty() { None } else { Some(values(&state.average)?) };
        (self.gradients, self.leaf) = (vec![], 0);
        self.updates = state.updates;
        Ok(())
    }

    fn parameter_count(&self) -> usize {
        self.weights.len()
    }
}

impl Distributed for Mock {
    fn at_leaf(&mut self, leaf: u64) {
        self.leaf = leaf;
    }

    fn gradient_len(&self) -> usize {
        self.weights.len()
    }

    fn take_sums(&mut self) -> Vec<(LeafBlock, Vec<f32>)> {
        let mut leaves = std::mem::take(&mut self.gradients);
        let blocks = gradient_tree::blocks(leaves.iter().map(|(leaf, _)| leaf.start..leaf.start + 1));
        let of = |block: LeafBlock| {
            let own = leaves.drain(..block.leaves as usize).collect();
            (block, gradient_tree::sum(own, |left, right| add(left, right)).expect("a block has a leaf"))
        };
        blocks.into_iter().map(of).collect()
    }

    fn set_sum(&mut self, sum: Vec<f32>) -> Result<(), LearnError> {
        self.gradients = vec![(LeafBlock::leaf(0), sum)];
        Ok(())
    }
}

pub(crate) const EXPERIMENT: &str = "
task:
  name: listops
  options: { train_length: 12, held_out_length: 12 }
  sizes: { train: 61, dev: 40, test: 50, 200-300: 5 }
optimiser: { learning_rate: 0.05, weight_decay: 0.01, clip: 1 }
schedule: { kind: inverse_root, warmup: 4 }
batch: { size: 8, buckets: length }
epochs: 4
log_every: 3
evaluate: [test, 200-300]
";

/// Strings that are drawn for every update, longer and longer, with averaged weights.
pub(crate) const FRESH: &str = "
task:
  name: parity_check
  options: { train_length: 6 }
  sizes: { dev: 30, 7-9: 30 }
fresh: { lengths: each, curriculum: { from: 1, every: 4 }, pass: 9 }
ema: { decay: 0.9, after: 6 }
optimiser: { learning_rate: 0.05 }
schedule: { kind: cosine, start: 10 }
batch: { size: 8 }
max_steps: 30
log_every: 3
evaluate: [dev, 7-9]
";

/// The experiment above with edits, and its data.
pub(crate) fn setting(edits: &[&str]) -> (Experiment, Dataset) {
    of(EXPERIMENT, edits)
}

/// An experiment with edits, and its data.
pub(crate) fn of(text: &str, edits: &[&str]) -> (Experiment, Dataset) {
    let file = ExperimentFile::parse("mock.yaml", text).expect("a valid experiment");
    let edits: Vec<String> = edits.iter().map(|edit| edit.to_string()).collect();
    let experiment = file.resolve(None, &edits).expect("valid edits");
    let data = load(&experiment.task, &experiment.splits()).expect("generated data");
    (experiment, data)
}

pub(crate) fn info() -> RunInfo {
    RunInfo { model: "mock".into(), seed: 7, spec_hash: "s".into(), graph_hash: "g".into(), ..RunInfo::default() }
}

pub(crate) fn create(path: &Path, experiment: &Experiment) -> RunFolder {
    RunFolder::create(path, "model mock {}\n", experiment, info()).expect("an empty folder")
}
