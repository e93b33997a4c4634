//! Measuring a model on a split.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Event, Observer, Row};
use crate::batching::collect;
use crate::error::Error;
use crate::learner::Learner;
use crate::task::{Example, Metric, Tally, Target, majority_share};

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
}

/// Runs the model over a split; nothing if it was asked to stop before the end.
pub fn evaluate(
    learner: &mut dyn Learner,
    measurement: Measurement<'_>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<Row>, Error> {
    let Measurement { split, examples, batch: size, metrics } = measurement;
    let (mut loss, mut scored, mut correct) = (0.0, 0, 0);
    let mut depth: Option<(f64, u64)> = None;
    let mut tallies = vec![Tally::default(); metrics.len()];
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
        count(&chunk, &result.predictions, metrics, &mut tallies);
        if let Some((steps, units)) = result.depth {
            let (all_steps, all_units) = depth.unwrap_or_default();
            depth = Some((all_steps + steps, all_units + units));
        }
        done += chunk.len();
        observer.event(&Event::Evaluating { split, done, total: examples.len() });
    }
    let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
    Ok(Some(Row {
        split: split.to_string(),
        examples: examples.len(),
        scored,
        accuracy: mean(correct as f64, scored),
        metrics: metrics.iter().zip(&tallies).map(|(metric, tally)| (metric.name.to_owned(), tally.share())).collect(),
        loss: mean(loss, scored),
        mean_depth: depth.map(|(steps, units)| mean(steps, units)),
        majority: majority_share(examples),
    }))
}

/// Adds what the metrics count in a batch to the tallies. Predictions stand in the order of the examples.
fn count(examples: &[&Example], predictions: &[u32], metrics: &[Metric], tallies: &mut [Tally]) {
    let mut rest = predictions;
    for example in examples {
        let answers = if matches!(example.label, Target::Each { .. }) { example.tokens.len() } else { 1 };
        let (own, others) = rest.split_at(answers.min(rest.len()));
        rest = others;
        for (metric, tally) in metrics.iter().zip(&mut *tallies) {
            tally.add((metric.count)(example, own));
        }
    }
}
