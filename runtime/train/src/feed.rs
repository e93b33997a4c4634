//! The source of the examples of an update: a stored split, pass by pass, or strings that are drawn for it.

use std::borrow::Cow;

use super::evaluate::unscored;
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_runs::experiment::{Experiment, Fresh, Lengths};
use rtc_task::batching::{Batching, ClassSampling, Cursor, split};
use rtc_task::class_weights::AnswerWeights;
use rtc_task::error::DataError;
use rtc_task::formal::{Formal, StringDraw};
use rtc_task::{Dataset, Example, Masking, Options, Stream, StreamedRows, open_task, resolve_options, task_named};

/// The examples of every update. What an update trains on depends on the seed and on numbers of [`Cursor`] and update alone.
#[derive(Debug)]
pub struct Feed<'a> {
    batching: Batching,
    source: ExampleSource<'a>,
    /// The draw of hidden tokens, anew in every pass.
    masking: Option<&'a Masking>,
    /// The weights of the answers, where their classes have some.
    weights: Option<AnswerWeights>,
}

#[derive(Debug)]
enum ExampleSource<'a> {
    Stored(&'a [Example]),
    Streamed(&'a dyn StreamedRows),
    Fresh(Box<Strings<'a>>),
}

/// Strings that are drawn for an update.
#[derive(Debug)]
struct Strings<'a> {
    task: &'static Formal,
    options: Options,
    fresh: &'a Fresh,
    size: usize,
    key: Key,
}

impl<'a> Feed<'a> {
    /// The feed of a run.
    ///
    /// # Errors
    /// A sentence, where the task or its options are unknown, or its examples can't be drawn anew.
    pub fn new(experiment: &'a Experiment, data: &'a Dataset, seed: u64) -> Result<Self, String> {
        let batch = &experiment.batch;
        let masking = data.masking.as_ref();
        let weights = weights(experiment, data)?;
        let Some(fresh) = &experiment.fresh else {
            let balanced = batch.sampling == ClassSampling::Balanced;
            if let Some(Stream(rows)) = data.streams.get(&experiment.train) {
                if balanced {
                    return Err("`sampling: balanced` needs the classes of all rows, and this file is read row by row"
                        .to_owned());
                }
                let order = (batch.size, batch.buckets);
                let batching = Batching::of_rows(seed, rows.count(), |row| rows.length(row), order);
                return Ok(Self { batching, source: ExampleSource::Streamed(&**rows), masking, weights });
            }
            let examples = data.split(&experiment.train);
            let mut batching = Batching::new(seed, examples, batch.size, batch.buckets);
            if balanced {
                let of_classes = batching.balanced(examples);
                batching =
                    of_classes.ok_or("`sampling: balanced` needs one class a row, and the answers here are others")?;
            }
            return Ok(Self { batching, source: ExampleSource::Stored(examples), masking, weights });
        };
        let strings = Strings::new(experiment, fresh, seed)?;
        let pass = fresh.pass as usize * batch.size;
        let batching = Batching::of_rows(seed, pass, |_| 0, (batch.size, batch.buckets));
        Ok(Self { batching, source: ExampleSource::Fresh(Box::new(strings)), masking: None, weights })
    }

    /// Number of updates of a pass.
    pub fn batches(&self) -> u64 {
        self.batching.batches()
    }

    /// The cursor after the batch at `cursor`.
    pub fn next(&self, cursor: Cursor) -> Cursor {
        self.batching.next(cursor)
    }

    /// The micro-batches of an update on these examples, with their shares of it.
    pub(super) fn split(&self, examples: &[&Example], parts: usize) -> Vec<(Batch, f64)> {
        let mut batches = split(examples, parts);
        self.weights.iter().for_each(|weights| weights.give(&mut batches));
        batches
    }

    /// The examples of the batch at `cursor`, where updates are counted apart from batches.
    ///
    /// # Errors
    /// As [`Self::examples`].
    pub(super) fn batch(&mut self, cursor: Cursor) -> Result<Vec<Cow<'a, Example>>, DataError> {
        self.examples(cursor, cursor.epoch * self.batches() + cursor.batch)
    }

    /// The examples of an update, of which `update` were made before.
    ///
    /// # Errors
    /// A file from which rows are read has changed.
    pub fn examples(&mut self, cursor: Cursor, update: u64) -> Result<Vec<Cow<'a, Example>>, DataError> {
        let masking = self.masking;
        let trained = |row: u32, example: Cow<'a, Example>| match masking {
            Some(masking) => Cow::Owned(masking.of_pass(&example, u64::from(row), cursor.epoch)),
            None => example,
        };
        match &self.source {
            ExampleSource::Stored(examples) => {
                let rows = self.batching.batch(cursor).iter();
                Ok(rows.map(|row| trained(*row, Cow::Borrowed(&examples[*row as usize]))).collect())
            }
            ExampleSource::Streamed(rows) => {
                let order = self.batching.batch(cursor).iter();
                order.map(|row| Ok(trained(*row, Cow::Owned(rows.row(*row as usize)?)))).collect()
            }
            ExampleSource::Fresh(strings) => Ok(strings.draw(update).into_iter().map(Cow::Owned).collect()),
        }
    }
}

/// The weights of the answers of an experiment, if their classes have some.
fn weights(experiment: &Experiment, data: &Dataset) -> Result<Option<AnswerWeights>, String> {
    let Some(weights) = &experiment.loss.class_weights else { return Ok(None) };
    let (task, options) = open_task(&experiment.task).map_err(|error| error.to_string())?;
    let shares = || data.label_shares(&experiment.train);
    weights.answers(&task.classes(&options), data.objective, shares).map(Some)
}

/// The micro-batches of an update, with their shares of it.
#[derive(Debug)]
pub(super) struct Ready {
    cursor: Cursor,
    update: u64,
    pub(super) batches: Vec<(Batch, f64)>,
}

impl Ready {
    /// Those of the update at `cursor`, before which `update` were made, in at most `parts`.
    pub(super) fn new(feed: &mut Feed<'_>, cursor: Cursor, update: u64, parts: usize) -> Result<Self, DataError> {
        let examples = feed.examples(cursor, update)?;
        let examples: Vec<&Example> = examples.iter().map(AsRef::as_ref).collect();
        Ok(Self { cursor, update, batches: feed.split(&examples, parts) })
    }

    /// Those that were made for the update at `cursor`, before which `update` were made.
    pub(super) fn of(batches: Vec<(Batch, f64)>, (cursor, update): (Cursor, u64)) -> Self {
        Self { cursor, update, batches }
    }

    /// Whether they are those of this update.
    pub(super) fn is_for(&self, cursor: Cursor, update: u64) -> bool {
        (self.cursor, self.update) == (cursor, update)
    }
}

/// A batch of the longest strings that a training with fresh ones can draw; nothing for a training on stored examples.
///
/// # Errors
/// As [`Feed::new`].
pub fn longest(experiment: &Experiment) -> Result<Option<Vec<Example>>, String> {
    let Some(fresh) = &experiment.fresh else { return Ok(None) };
    let strings = Strings::new(experiment, fresh, 0)?;
    let most = *strings.task.lengths(&strings.options).end();
    Ok(Some(strings.of(Key::new(0), most, |_| most)))
}

impl<'a> Strings<'a> {
    fn new(experiment: &Experiment, fresh: &'a Fresh, seed: u64) -> Result<Self, String> {
        let settings = &experiment.task;
        let task = task_named(&settings.name)?;
        let options = resolve_options(task.about().options, &settings.options)?;
        let task = task.formal().ok_or_else(|| format!("examples of {} can't be drawn anew", settings.name))?;
        Ok(Self { task, options, fresh, size: experiment.batch.size, key: Key::new(seed).stream("fresh") })
    }

    fn draw(&self, update: u64) -> Vec<Example> {
        let key = self.key.at(update);
        let lengths = self.task.lengths(&self.options);
        let stage = |from: u64, every: u64| usize::try_from(from.saturating_add(update / every)).unwrap_or(usize::MAX);
        let limit = self.fresh.curriculum.map_or(usize::MAX, |c| stage(c.from, c.every));
        let most = limit.clamp(*lengths.start(), *lengths.end());
        let choices = (most - lengths.start() + 1) as u64;
        let drawn = key.stream("length");
        self.of(key, most, |row| {
            let draw = if self.fresh.lengths == Lengths::Batch { 0 } else { row };
            lengths.start() + drawn.below(draw, choices) as usize
        })
    }

    fn of(&self, key: Key, most: usize, length: impl Fn(u64) -> usize) -> Vec<Example> {
        let one = |index: u64| {
            let draw = StringDraw { length: length(index), longest: Some(most), index, options: &self.options };
            self.task.fresh(&draw, &mut key.at(index).draws())
        };
        (0..self.size as u64).map(one).collect()
    }
}

/// Refuses data in which a split of the experiment has no example or no label, or one that is measured is not held in memory.
pub(super) fn refuse_empty(data: &Dataset, experiment: &Experiment) -> Result<(), DataError> {
    let fail = |message| Err(DataError { file: experiment.task.name.clone(), line: None, message });
    if let Some(name) = experiment.splits().into_iter().find(|name| data.count(name) == 0) {
        return fail(format!("the split `{name}` is empty"));
    }
    let is_unscored = |name: &&str| {
        let examples = data.split(name);
        !examples.is_empty() && examples.iter().all(|example| example.weight() == 0.0)
    };
    if let Some(name) = experiment.splits().into_iter().find(is_unscored) {
        return Err(unscored(name));
    }
    let measured = std::iter::once(&experiment.dev).chain(&experiment.evaluate);
    match measured.into_iter().find(|name| data.streams.contains_key(*name)) {
        Some(name) => fail(format!(
            "`{name}` is read while it is trained on, and a split that is measured is held in memory: measure another one"
        )),
        None => Ok(()),
    }
}
