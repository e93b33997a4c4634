//! A forecast of the time of a training: a few updates and evaluated batches, timed.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::feed::{Feed, refuse_empty};
use super::slots::CarriedState;
use rtc_base::rng::spread;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_runs::error::Error;
use rtc_runs::experiment::Experiment;
use rtc_runs::schedule::Plateau;
use rtc_task::batching::{Cursor, pack};
use rtc_task::error::DataError;
use rtc_task::{Dataset, Example, Stream};

/// What a training without early stopping takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Updates of the whole run.
    pub updates: u64,
    /// Tokens of a mean update; of fresh strings, over 64 updates from the first to the last.
    pub tokens: f64,
    /// Steps that were taken on the mean at the end of the moment, if the model halts.
    pub depth: Option<f64>,
    /// Seconds of a mean update.
    pub update: f64,
    /// Seconds of all evaluations, those of the end included.
    pub evaluations: f64,
}

/// How many updates of fresh strings stand for all.
const DRAWN: u64 = 64;

impl Forecast {
    /// Seconds of the whole run.
    pub fn seconds(&self) -> f64 {
        self.updates as f64 * self.update + self.evaluations
    }
}

/// One update of the moment.
struct MeasuredUpdate {
    tokens: usize,
    seconds: f64,
    depth: Option<f64>,
}

/// Trains for about as long as `patience`, at least two updates besides the first, and measures a batch of every split.
///
/// Where a model halts, it takes fewer steps the longer it is trained: the later half of the moment counts.
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
    let unknown = |message| DataError { file: experiment.task.name.clone(), line: None, message };
    let mut feed = Feed::new(experiment, data, seed).map_err(unknown)?;
    let updates = experiment.updates(feed.batches());
    let schedule = experiment.schedule(feed.batches());
    let (mut cursor, start, mut all) = (Cursor::default(), Instant::now(), vec![]);
    while all.len() < 3 || start.elapsed() < patience {
        let done = all.len() as u64;
        // Fresh examples get longer along a curriculum: updates from all over the training stand for it.
        let update = if experiment.fresh.is_some() { spread(done, updates) } else { done };
        let rule = experiment.rule(&schedule, done, Plateau::default());
        let examples = feed.examples(cursor, update)?;
        all.push(step(learner, &feed, &examples, (experiment.batch.accumulate, &rule))?);
        cursor = feed.next(cursor);
    }
    // The first update fills buffers, and is like no other.
    let later = &all[(all.len() / 2).max(1)..];
    let seconds: f64 = later.iter().map(|made| made.seconds).sum();
    let per_token = seconds / later.iter().map(|made| made.tokens).sum::<usize>().max(1) as f64;
    let depths: Option<Vec<f64>> = later.iter().map(|made| made.depth).collect();
    let tokens = match experiment.fresh {
        None => {
            let held = count(data.split(&experiment.train).iter()) as u64;
            let all = data.streams.get(&experiment.train).map_or(held, |Stream(rows)| rows.tokens());
            all as f64 / feed.batches().max(1) as f64
        }
        Some(_) => {
            let mut drawn = 0;
            for n in 0..DRAWN {
                let update = (n as f64 / DRAWN as f64 * updates as f64) as u64;
                drawn += count(feed.examples(Cursor::default(), update)?.iter().map(AsRef::as_ref));
            }
            drawn as f64 / DRAWN as f64
        }
    };
    let every = experiment.evaluate_every.unwrap_or(feed.batches()).max(1);
    let mut evaluations = updates.div_ceil(every) as f64 * measured(learner, data, experiment, &experiment.dev)?;
    for split in &experiment.evaluate {
        evaluations += measured(learner, data, experiment, split)?;
    }
    let depth = depths.map(|depths| depths.iter().sum::<f64>() / depths.len() as f64);
    Ok(Forecast { updates, tokens, depth, update: per_token * tokens, evaluations })
}

/// One update, timed.
fn step(
    learner: &mut dyn Learner,
    feed: &Feed<'_>,
    examples: &[Cow<'_, Example>],
    (parts, rule): (usize, &UpdateRule),
) -> Result<MeasuredUpdate, Error> {
    let examples: Vec<&Example> = examples.iter().map(AsRef::as_ref).collect();
    let (start, mut depth) = (Instant::now(), None);
    for (mut part, share) in feed.split(&examples, parts) {
        // Where an update is made after every step, all of these are first ones.
        CarriedState::new(part.rows()).give(learner.carries(), 0, &mut part);
        let report = learner.accumulate(&part, share)?;
        if let Some(steps) = report.mean_depth {
            *depth.get_or_insert(0.0) += share * steps;
        }
    }
    learner.update(rule)?;
    Ok(MeasuredUpdate { tokens: count(examples.into_iter()), seconds: start.elapsed().as_secs_f64(), depth })
}

/// Seconds in which a split is measured, judged by its first batch.
fn measured(learner: &mut dyn Learner, data: &Dataset, experiment: &Experiment, split: &str) -> Result<f64, Error> {
    let examples = data.split(split);
    let rows = experiment.batch.size.div_ceil(experiment.batch.accumulate.max(1)).max(1);
    let first: Vec<&Example> = examples.iter().take(rows).collect();
    let start = Instant::now();
    learner.evaluate(&pack(&first))?;
    let share = count(examples.iter()) as f64 / count(first.into_iter()).max(1) as f64;
    Ok(start.elapsed().as_secs_f64() * share)
}

fn count<'e>(examples: impl Iterator<Item = &'e Example>) -> usize {
    examples.map(|example| example.tokens.len() + example.second.as_ref().map_or(0, Vec::len)).sum()
}
