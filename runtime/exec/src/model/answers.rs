//! The answers of a model: predictions, how many are right, and losses, from the results of a run.

use std::ops::Range;

use rtc_compiler::ir::attribute::Probabilities;
use rtc_compiler::lower::{Binding, Objective};

use crate::learner::{BatchAnswers, Depths, Evaluation, LearnError, StepReport};
use crate::machine::outputs::Outputs;
use crate::storage::Element;
use rtc_base::batch::{Batch, Labels};
use rtc_kernel::{Real, loss};

/// Predicted classes and their probabilities, or predicted numbers.
#[derive(Debug, Default)]
pub(super) struct Predictions {
    pub(super) class: Vec<u32>,
    pub(super) probability: Vec<f64>,
    pub(super) number: Vec<f64>,
}

/// Whether the labels of a batch are those of the objective.
pub(super) fn check_labels(binding: &Binding, batch: &Batch) -> Result<(), LearnError> {
    let fits = match (&batch.labels, binding.objective) {
        (Labels::Class(c), Objective::Classify) => c.len() == batch.rows(),
        (Labels::Class(c), Objective::Pair) => 2 * c.len() == batch.rows(),
        (Labels::Each { class, weight }, Objective::Each) => {
            class.len() == batch.tokens.len() && weight.len() == class.len()
        }
        (Labels::Number(numbers), Objective::Number) => numbers.len() == batch.rows(),
        (Labels::Several(labels), Objective::Several) => {
            binding.classes.is_none_or(|classes| labels.len() == classes * batch.rows())
        }
        _ => false,
    };
    let message = || LearnError::Batch("the labels of the batch do not fit what the model answers".to_owned());
    fits.then_some(()).ok_or_else(message)
}

/// Puts what the logits predict into `found`.
pub(super) fn predict<T: Element>(binding: &Binding, outputs: &Outputs<T>, found: &mut Predictions) {
    let logits = outputs.real("logits").unwrap_or_default();
    found.number.clear();
    if binding.objective == Objective::Number {
        found.number.extend(logits.iter().map(|x| x.to_f64()));
        return;
    }
    let outputs = logits_per_item(binding);
    let items = logits.len() / outputs;
    found.class.resize(items, 0);
    found.probability.resize(items, 0.0);
    let predict = if outputs == 1 { loss::predict_binary } else { loss::predict };
    predict(logits, &mut found.class, &mut found.probability);
}

/// Number of logits per prediction: each label is one of its own.
pub fn logits_per_item(binding: &Binding) -> usize {
    if binding.objective == Objective::Several { 1 } else { binding.outputs().unwrap_or(1) }
}

/// The label of every prediction, and whether it counts.
fn scored(batch: &Batch) -> impl Iterator<Item = (u32, bool)> {
    let weight = if let Labels::Each { weight, .. } = &batch.labels { Some(weight) } else { None };
    batch
        .labels
        .classes()
        .iter()
        .enumerate()
        .map(move |(n, class)| (*class, weight.is_none_or(|weight| weight[n] != 0.0)))
}

/// How many predictions are right, where they are classes, of how many that count.
pub(super) fn count(predicted: &Predictions, batch: &Batch) -> (Option<u64>, u64) {
    if let Labels::Number(numbers) = &batch.labels {
        return (None, numbers.len() as u64);
    }
    let counted = scored(batch).zip(&predicted.class).filter(|((_, counts), _)| *counts);
    let (right, all) =
        counted.fold((0, 0), |(right, all), ((label, _), class)| (right + u64::from(label == *class), all + 1));
    (Some(right), all)
}

fn mean<T: Real>(values: Option<&[T]>) -> Option<f64> {
    values.filter(|v| !v.is_empty()).map(|v| v.iter().map(|x| x.to_f64()).sum::<f64>() / v.len() as f64)
}

/// The numbers of a training step, from the results of its run.
pub(super) fn report<T: Element>(outputs: &Outputs<T>, correct: Option<u64>, scored: u64) -> StepReport {
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

/// What a model answers after some number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct AfterSteps {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// The summed task loss of every row (of every pair).
    pub losses: Vec<f64>,
}

/// The results of a forward pass of update `updates`.
pub(super) struct PassResults<'a, T: Element> {
    pub(super) binding: &'a Binding,
    pub(super) outputs: &'a Outputs<T>,
    pub(super) batch: &'a Batch,
    pub(super) updates: u64,
}

impl<T: Element> PassResults<'_, T> {
    /// The summed task loss of some of the predictions.
    fn task_loss(&self, items: Range<usize>) -> f64 {
        let logits = self.outputs.real("logits").unwrap_or_default();
        if let Labels::Number(numbers) = &self.batch.labels {
            let error = |(x, y): (&T, &f32)| (x.to_f64() - f64::from(*y)).powi(2);
            return logits[items.clone()].iter().zip(&numbers[items]).map(error).sum();
        }
        let labels = self.batch.labels.classes();
        let counts = scored(self.batch).map(|(_, counts)| if counts { T::ONE } else { T::ZERO });
        let weights: Vec<T> = counts.skip(items.start).take(items.len()).collect();
        let each = logits_per_item(self.binding);
        let (logits, labels) = (&logits[items.start * each..items.end * each], &labels[items]);
        let mut losses = vec![T::ZERO; labels.len()];
        match each {
            1 => loss::binary_cross_entropy_each(logits, labels, &mut losses),
            _ => loss::cross_entropy_each(Probabilities::Softmax, logits, labels, &mut losses),
        }
        loss::weighted_sum(&losses, Some(&weights)).sum
    }

    /// The summed task loss of every row, or of every pair.
    fn losses(&self) -> Vec<f64> {
        let (batch, loss) = (self.batch, |items| self.task_loss(items));
        match &batch.labels {
            Labels::Each { .. } => batch.offsets.windows(2).map(|ends| loss(ends[0]..ends[1])).collect(),
            Labels::Several(labels) => {
                let each = labels.len() / batch.rows();
                (0..batch.rows()).map(|row| loss(row * each..(row + 1) * each)).collect()
            }
            labels => (0..labels.answers()).map(|row| loss(row..row + 1)).collect(),
        }
    }

    /// What a model answered after some steps.
    pub(super) fn after_steps(&self) -> Result<AfterSteps, LearnError> {
        Ok(AfterSteps { evaluation: self.evaluation()?, losses: self.losses() })
    }

    /// Its numbers and predictions.
    pub(super) fn evaluation(&self) -> Result<Evaluation, LearnError> {
        let mut predicted = Predictions::default();
        predict(self.binding, self.outputs, &mut predicted);
        let (correct, scored) = count(&predicted, self.batch);
        let loss_sum = self.task_loss(0..self.batch.labels.answers());
        if !loss_sum.is_finite() {
            return Err(LearnError::NonFinite { step: self.updates, node: "the loss of the answers".to_owned() });
        }
        let depth = self.outputs.real("depth").map(|d| Depths::of(d.iter().map(|x| x.to_f64())));
        let Predictions { class: predictions, probability: confidence, number: numbers } = predicted;
        Ok(Evaluation { loss_sum, scored, correct, predictions, confidence, numbers, depth })
    }

    /// All that it says.
    pub(super) fn answers(&self) -> Result<BatchAnswers, LearnError> {
        let evaluation = self.evaluation()?;
        let numbers = |name| self.outputs.real(name).map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
        let (each, logits) = (logits_per_item(self.binding), numbers("logits").unwrap_or_default());
        if self.binding.objective == Objective::Number {
            return Ok(BatchAnswers { evaluation, classes: 0, logits: vec![], depths: numbers("depth") });
        }
        let logits = if each == 1 { logits.into_iter().flat_map(|x| [0.0, x]).collect() } else { logits };
        Ok(BatchAnswers { evaluation, classes: each.max(2), logits, depths: numbers("depth") })
    }
}
