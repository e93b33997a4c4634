//! Measuring a model on a split.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Event, LengthRow, Observer, Row};
use crate::batching::collect;
use crate::error::Error;
use crate::learner::Learner;
use crate::task::{Example, Metric, Tally, Target, majority_share};

/// The mean over the lengths of the accuracies of each, where a split has several: long strings count no more than short ones.
const BY_LENGTH: &str = "by_length";

/// A split to measure, and how.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// Its name.
    pub split: &'a str,
    /// Its examples, measured in this order.
    pub examples: &'a [Example],
    /// Examples per batch.
    pub batch: usize,
    /// What the task reports besides the accuracy.
    pub metrics: &'a [Metric],
    /// Whether it reports the perplexity.
    pub perplexity: bool,
}

/// Runs the model over a split; nothing if it was asked to stop before the end.
pub fn evaluate(
    learner: &mut dyn Learner,
    measurement: Measurement<'_>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<Row>, Error> {
    let Measurement { split, examples, batch: size, metrics, perplexity } = measurement;
    let (mut loss, mut scored, mut correct) = (0.0, 0, 0);
    let mut depth: Option<(f64, u64)> = None;
    let mut counts = Counts::new(metrics);
    let mut done = 0;
    for chunk in examples.chunks(size.max(1)) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let chunk: Vec<&Example> = chunk.iter().collect();
        let width = chunk.iter().map(|example| example.length()).max().unwrap_or(0);
        let result = learner.evaluate(&collect(&chunk, width))?;
        loss += result.loss_sum;
        scored += result.scored;
        correct += result.correct;
        counts.add(&chunk, &result.predictions);
        if let Some((steps, units)) = result.depth {
            let (all_steps, all_units) = depth.unwrap_or_default();
            depth = Some((all_steps + steps, all_units + units));
        }
        done += chunk.len();
        observer.event(&Event::Evaluating { split, done, total: examples.len() });
    }
    let lengths = counts.lengths();
    let mut shares = counts.shares();
    // Where every length counts alike the accuracy is that mean.
    if counts.uneven() {
        let sum: f64 = lengths.iter().map(|row| row.accuracy).sum();
        shares.insert(BY_LENGTH.to_owned(), sum / lengths.len() as f64);
    }
    let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
    Ok(Some(Row {
        split: split.to_string(),
        examples: examples.len(),
        scored,
        accuracy: mean(correct as f64, scored),
        metrics: shares,
        loss: mean(loss, scored),
        perplexity: perplexity.then(|| mean(loss, scored).exp()),
        mean_depth: depth.map(|(steps, units)| mean(steps, units)),
        majority: majority_share(examples),
        lengths,
    }))
}

/// What the metrics count, over all examples and for every length that a task counts.
struct Counts<'a> {
    metrics: &'a [Metric],
    whole: Vec<Tally>,
    /// Examples, the accuracy, and the metrics of every length.
    lengths: BTreeMap<u32, (u64, Tally, Vec<Tally>)>,
}

impl<'a> Counts<'a> {
    fn new(metrics: &'a [Metric]) -> Self {
        Self { metrics, whole: vec![Tally::default(); metrics.len()], lengths: BTreeMap::new() }
    }

    /// Adds a batch. Predictions stand in the order of the examples.
    fn add(&mut self, examples: &[&Example], predictions: &[u32]) {
        let mut rest = predictions;
        for example in examples {
            let answers = if matches!(example.label, Target::Each { .. }) { example.tokens.len() } else { 1 };
            let (own, others) = rest.split_at(answers.min(rest.len()));
            rest = others;
            let found: Vec<Tally> = self.metrics.iter().map(|metric| (metric.count)(example, own)).collect();
            self.whole.iter_mut().zip(&found).for_each(|(tally, found)| tally.add(*found));
            if let Some(size) = example.size {
                let none = || (0, Tally::default(), vec![Tally::default(); self.metrics.len()]);
                let (examples, accuracy, tallies) = self.lengths.entry(size).or_insert_with(none);
                *examples += 1;
                accuracy.add(scored(example, own));
                tallies.iter_mut().zip(&found).for_each(|(tally, found)| tally.add(*found));
            }
        }
    }

    /// Whether lengths differ in how many predictions of them are scored.
    fn uneven(&self) -> bool {
        let mut scored = self.lengths.values().map(|(_, accuracy, _)| accuracy.all);
        scored.next().is_some_and(|first| scored.any(|other| other != first))
    }

    fn named(&self, tallies: &[Tally]) -> BTreeMap<String, f64> {
        self.metrics.iter().zip(tallies).map(|(metric, tally)| (metric.name.to_owned(), tally.share())).collect()
    }

    fn shares(&self) -> BTreeMap<String, f64> {
        self.named(&self.whole)
    }

    fn lengths(&self) -> Vec<LengthRow> {
        let row = |(length, (examples, accuracy, tallies)): (&u32, &(u64, Tally, Vec<Tally>))| LengthRow {
            length: *length as usize,
            examples: *examples,
            accuracy: accuracy.share(),
            metrics: self.named(tallies),
        };
        self.lengths.iter().map(row).collect()
    }
}

/// The scored answers of an example, and how many of them are right.
fn scored(example: &Example, predicted: &[u32]) -> Tally {
    match &example.label {
        Target::Class(class) => Tally { right: u64::from(predicted.first() == Some(class)), all: 1 },
        Target::Each { class, weight } => {
            let own = predicted.iter().zip(class).zip(weight).filter(|(_, weight)| **weight != 0.0);
            own.fold(Tally::default(), |tally, ((found, class), _)| Tally {
                right: tally.right + u64::from(found == class),
                all: tally.all + 1,
            })
        }
    }
}
