//! After how many steps a model stops whose depth comes with the examples, where an evaluation doesn't take those.
//!
//! The confidence after `t` steps is the mean of `-log max p_t` over scored predictions, `p_t` being the probabilities that
//! the model gives the classes then: the surest step has the smallest number, and labels play no part in it. It is looked for
//! among all examples of one length together, or for every example by itself. (Fan et al. 2025, Eq. 2.)

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::evaluate::{Measurement, Sum, unscored};
use crate::observer::{Event, Observer};
use rtc_base::batch::Batch;
use rtc_exec::learner::{Depths, Evaluation, LearnError};
use rtc_exec::model::{AfterSteps, Backend, ModelOn};
use rtc_runs::error::Error;
use rtc_runs::record::table::ResultsRow;
use rtc_task::batching::pack;
use rtc_task::{Example, Tally, scored};

/// How many steps are tried beyond those of the examples where nothing else is asked for, as published for most tasks.
pub const BEYOND: usize = 20;

/// When a row stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After the steps that come with the example.
    Oracle,
    /// After the step of which the model is surest on all examples of this length together.
    Confidence,
    /// After the step of which the model is surest on this example.
    Sample,
}

/// How a model does on the examples of one length after so many steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// The length, as the task counts it.
    pub length: usize,
    /// Steps of every example.
    pub steps: usize,
    /// Number of examples.
    pub examples: u64,
    /// How many of them take so many steps by themselves.
    pub due: u64,
    /// Share of the scored predictions that were right.
    pub accuracy: f64,
    /// What the task reports besides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Mean of `-log max p` over the scored predictions.
    pub confidence: f64,
    /// Whether the examples of this length are surest here.
    pub surest: bool,
}

/// A split, measured with a rule to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// The row of the split; its depth is the mean number of steps.
    pub row: ResultsRow,
    /// Every length after every number of steps.
    pub steps: Vec<StepRow>,
}

/// What a measurement of stopping asks of a model.
pub trait BySteps {
    /// What it answers after 1, 2, ... `most` steps of the recurrence whose depth is given.
    ///
    /// # Errors
    /// As [`Learner::evaluate`](rtc_exec::learner::Learner::evaluate).
    fn by_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError>;
}

impl<B: Backend> BySteps for ModelOn<B> {
    fn by_step(&mut self, batch: &Batch, most: usize) -> Result<Vec<AfterSteps>, LearnError> {
        self.after_each_step(batch, most)
    }
}

/// Runs the model over a split, `beyond` steps further than its examples ask for; nothing if it was asked to stop before the end.
///
/// # Errors
/// A model that gives no finite answer, or examples that it can't take.
pub fn evaluate_stopping(
    model: &mut dyn BySteps,
    measurement: Measurement<'_>,
    (rule, beyond): (Stop, usize),
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<Stopped>, Error> {
    let Measurement { split, examples, batch, .. } = &measurement;
    let batch = *batch;
    let mut groups: BTreeMap<usize, Vec<&Example>> = BTreeMap::new();
    for example in *examples {
        groups.entry(example.measured_length()).or_default().push(example);
    }
    let (mut total, mut steps, mut done) = (Sum::new(&measurement), vec![], 0);
    for (length, examples) in groups {
        let mut group = LengthGroup::new(examples, &measurement, beyond);
        for chunk in group.examples.clone().chunks(batch.max(1)) {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let seen = model.by_step(&pack(chunk), group.by_step.len()).map_err(|error| error.at(split))?;
            group.add(chunk, &seen, rule);
            done += chunk.len();
            observer.event(&Event::Evaluating { split, done, total: measurement.examples.len() });
        }
        let surest = least(group.by_step.iter().map(|(_, doubt)| *doubt));
        match rule {
            Stop::Confidence => total.merge(&group.together(surest)),
            Stop::Oracle | Stop::Sample => total.merge(&group.alone),
        }
        steps.extend(group.rows(length, surest));
    }
    if total.scored() == 0 {
        return Err(unscored(split).into());
    }
    total.require_values(split)?;
    Ok(Some(Stopped { row: total.row(&measurement), steps }))
}

/// The examples of one length while they are measured.
struct LengthGroup<'a> {
    examples: Vec<&'a Example>,
    /// Everything after 1, 2, ... steps, with the summed `-log max p`.
    by_step: Vec<(Sum<'a>, f64)>,
    /// Every example after the step at which it stops by itself.
    alone: Sum<'a>,
}

impl<'a> LengthGroup<'a> {
    fn new(examples: Vec<&'a Example>, measurement: &Measurement<'a>, beyond: usize) -> Self {
        let due = examples.iter().filter_map(|example| example.depth).max().unwrap_or(0) as usize;
        let none = Sum::new(measurement);
        Self { examples, by_step: vec![(none.clone(), 0.0); (due + beyond).max(1)], alone: none }
    }

    fn add(&mut self, examples: &[&Example], seen: &[AfterSteps], rule: Stop) {
        for ((sum, doubt), after) in self.by_step.iter_mut().zip(seen) {
            sum.add(examples, &after.evaluation);
            let confidence = &after.evaluation.confidence;
            *doubt +=
                answers(examples).zip(examples).map(|(own, example)| doubts(example, &confidence[own])).sum::<f64>();
        }
        self.alone.add(examples, &each_alone(examples, seen, rule));
    }

    /// All examples after the same number of steps.
    fn together(&self, at: usize) -> Sum<'a> {
        self.by_step[at].0.clone().taken(at + 1, self.examples.len())
    }

    fn rows(&self, length: usize, surest: usize) -> impl Iterator<Item = StepRow> {
        self.by_step.iter().enumerate().map(move |(at, (sum, doubt))| StepRow {
            length,
            steps: at + 1,
            examples: self.examples.len() as u64,
            due: self.examples.iter().filter(|example| due(example, self.by_step.len()) == at).count() as u64,
            accuracy: sum.accuracy().unwrap_or_default(),
            metrics: sum.metrics(),
            confidence: doubt / sum.scored().max(1) as f64,
            surest: at == surest,
        })
    }
}

/// What a batch answers if every example stops by itself.
fn each_alone(examples: &[&Example], seen: &[AfterSteps], rule: Stop) -> Evaluation {
    let mut found = Evaluation::default();
    let mut steps = vec![];
    for (row, (own, example)) in answers(examples).zip(examples).enumerate() {
        let at = match rule {
            Stop::Oracle => due(example, seen.len()),
            _ => least(seen.iter().map(|after| doubts(example, &after.evaluation.confidence[own.clone()]))),
        };
        let AfterSteps { evaluation, losses } = &seen[at];
        let predictions = &evaluation.predictions[own.clone()];
        let Tally { right, all } = scored(example, predictions);
        found.correct = Some(found.correct.unwrap_or(0) + right);
        found.scored += all;
        found.loss_sum += losses[row];
        found.predictions.extend_from_slice(predictions);
        found.confidence.extend_from_slice(&evaluation.confidence[own]);
        steps.push((at + 1) as f64);
    }
    found.depth = Some(Depths::of(steps.into_iter()));
    found
}

/// Where the answers of every example stand among those of its batch.
fn answers(examples: &[&Example]) -> impl Iterator<Item = Range<usize>> {
    examples.iter().scan(0, |end, example| {
        let start = *end;
        *end += example.classes();
        Some(start..*end)
    })
}

/// The place of the step that an example asks for, among so many.
fn due(example: &Example, most: usize) -> usize {
    example.depth.map_or(most, |depth| depth as usize).clamp(1, most) - 1
}

/// The sum of `-log max p` over the scored answers of an example. All steps have as many, so that it orders them as the mean does.
fn doubts(example: &Example, confidence: &[f64]) -> f64 {
    confidence.iter().zip(example.asked()).filter(|(_, (_, weight))| *weight != 0.0).map(|(p, _)| -p.ln()).sum()
}

/// The place of the smallest number, the first of equals.
fn least(numbers: impl Iterator<Item = f64>) -> usize {
    let smaller = |(best, least), (at, number)| if number < least { (at, number) } else { (best, least) };
    numbers.enumerate().fold((0, f64::INFINITY), smaller).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtc_task::ExampleTarget;

    #[test]
    fn the_surest_step_has_the_smallest_mean_and_labels_play_no_part() {
        let label = ExampleTarget::Each { class: vec![0, 5, 5], weight: vec![0.0, 1.0, 1.0] };
        let example = Example { label, ..Example::classified(vec![1, 2, 3], 0) };
        let after = |p: &[f64]| doubts(&example, p);
        let (first, second) = (after(&[0.5, 0.6, 0.9]), after(&[0.1, 0.99, 0.95]));
        assert!((first / 2.0 - 0.3081).abs() < 1e-4 && (second / 2.0 - 0.0307).abs() < 1e-4, "{first} {second}");
        assert_eq!(least([first, second].into_iter()), 1);
        assert_eq!(least([2.0, 1.0, 1.0].into_iter()), 1, "the first of equals");
        assert_eq!(least(std::iter::empty()), 0);
    }

    #[test]
    fn steps_that_are_due_lie_within_those_that_are_made() {
        let example = |depth| Example { depth, ..Example::classified(vec![1], 0) };
        assert_eq!([Some(1), Some(4), Some(9), Some(0), None].map(|depth| due(&example(depth), 6)), [0, 3, 5, 0, 5]);
    }
}
