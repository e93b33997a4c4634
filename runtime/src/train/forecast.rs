//! How long a training will take: a few updates and evaluated batches, timed.

use std::time::{Duration, Instant};

use super::{Feed, refuse_empty};
use crate::batching::{Cursor, collect, split};
use crate::error::{DataError, Error};
use crate::experiment::Experiment;
use crate::learner::Learner;
use crate::schedule::Plateau;
use crate::task::{Dataset, Example, Stream};

/// What a training without early stopping takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Updates of the whole run.
    pub updates: u64,
    /// Tokens of a mean update.
    pub tokens: f64,
    /// Seconds of a mean update.
    pub update: f64,
    /// Seconds of all evaluations, those of the end included.
    pub evaluations: f64,
}

impl Forecast {
    /// Seconds of the whole run.
    pub fn seconds(&self) -> f64 {
        self.updates as f64 * self.update + self.evaluations
    }
}

/// Trains for about as long as `patience`, at least two updates besides the first, and measures a batch of every split.
///
/// The learner is not fit for use afterwards.
///
/// # Errors
/// A split is empty, or a batch can't be trained on.
pub fn forecast(
    learner: &mut dyn Learner,
    data: &Dataset,
    experiment: &Experiment,
    seed: u64,
    patience: Duration,
) -> Result<Forecast, Error> {
    refuse_empty(data, experiment)?;
    let batch = &experiment.batch;
    let unknown = |message| DataError { file: experiment.task.name.clone(), line: None, message };
    let mut feed = Feed::new(experiment, data, seed).map_err(unknown)?;
    let updates = experiment.updates(feed.batches());
    let schedule = experiment.schedule(feed.batches());
    let (mut cursor, mut tokens, mut start, mut made) = (Cursor::default(), 0, Instant::now(), 0);
    while made < 3 || start.elapsed() < patience {
        // Fresh examples get longer along a curriculum: what the end of the training is like counts.
        let update = if experiment.fresh.is_some() { updates.saturating_sub(made + 1) } else { made };
        let examples = feed.examples(cursor, update)?;
        let examples: Vec<&Example> = examples.iter().map(AsRef::as_ref).collect();
        for (part, share) in split(&examples, batch.accumulate) {
            learner.accumulate(&part, share)?;
        }
        learner.update(&experiment.rule(&schedule, made, Plateau::default()))?;
        cursor = feed.next(cursor);
        tokens += count(examples.into_iter());
        made += 1;
        if made == 1 {
            // The first update fills buffers, and is like no other.
            (tokens, start) = (0, Instant::now());
        }
    }
    let per_token = start.elapsed().as_secs_f64() / tokens.max(1) as f64;
    let mean = match experiment.fresh {
        None => {
            let held = count(data.split(&experiment.train).iter()) as u64;
            let all = data.streams.get(&experiment.train).map_or(held, |Stream(rows)| rows.tokens());
            all as f64 / feed.batches().max(1) as f64
        }
        Some(_) => tokens as f64 / (made - 1) as f64,
    };
    let every = experiment.evaluate_every.unwrap_or(feed.batches()).max(1);
    let mut evaluations = updates.div_ceil(every) as f64 * measured(learner, data, experiment, &experiment.dev)?;
    for split in &experiment.evaluate {
        evaluations += measured(learner, data, experiment, split)?;
    }
    Ok(Forecast { updates, tokens: mean, update: per_token * mean, evaluations })
}

/// Seconds in which a split is measured, judged by its first batch.
fn measured(learner: &mut dyn Learner, data: &Dataset, experiment: &Experiment, split: &str) -> Result<f64, Error> {
    let examples = data.split(split);
    let rows = experiment.batch.size.div_ceil(experiment.batch.accumulate.max(1)).max(1);
    let first: Vec<&Example> = examples.iter().take(rows).collect();
    let width = first.iter().map(|example| example.length()).max().unwrap_or(0);
    let start = Instant::now();
    learner.evaluate(&collect(&first, width))?;
    let share = count(examples.iter()) as f64 / count(first.into_iter()).max(1) as f64;
    Ok(start.elapsed().as_secs_f64() * share)
}

fn count<'e>(examples: impl Iterator<Item = &'e Example>) -> usize {
    examples.map(|example| example.tokens.len() + example.second.as_ref().map_or(0, Vec::len)).sum()
}
