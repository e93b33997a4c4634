//! Measuring a model on a split.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::errors::Errors;
use super::observer::{Event, Observer};
use super::scores::{AskedMetrics, apart};
use rtc_base::batch::Batch;
use rtc_exec::learner::{Depths, Evaluation, LearnError, Learner};
use rtc_runs::error::Error;
use rtc_runs::experiment::{Experiment, MetricKind};
use rtc_runs::record::SplitAnswers;
use rtc_runs::record::table::{ClassRow, LengthRow, ResultsRow};
use rtc_task::batching::pack;
use rtc_task::error::DataError;
use rtc_task::{Example, ExampleTarget, Metric, Objective, Options, Scale, Tally, Task, majority_share, scored};

/// The mean over the lengths of the accuracies of each, where a split has several: long strings count no more than short ones.
const BY_LENGTH: &str = "by_length";

/// The share of right answers among all that are scored.
const ACCURACY: &str = "accuracy";

/// A split to measure, and how.
#[derive(Clone, Debug)]
pub struct Measurement<'a> {
    /// Its name.
    pub split: &'a str,
    /// Its examples, measured in this order.
    pub examples: &'a [Example],
    /// Examples per batch.
    pub batch: usize,
    /// What the task reports besides the accuracy.
    pub metrics: &'a [Metric],
    /// How the numbers that it asks for are written.
    pub scale: Scale,
    /// Whether it reports the perplexity.
    pub perplexity: bool,
    /// The metrics that the experiment asks for.
    pub asked: Vec<MetricKind>,
    /// The names of the classes, where metrics use them.
    pub classes: Vec<String>,
    /// Whether every class is reported by itself.
    pub each_class: bool,
}

/// Returns the names of the classes that the metrics of an experiment may use: those of answers that are one class each.
pub fn named_classes(experiment: &Experiment, task: &dyn Task, options: &Options) -> Vec<String> {
    let is_own = |kind: &MetricKind| matches!(kind, MetricKind::Own(_));
    match task.objective() {
        Objective::Classify | Objective::Pair | Objective::Each if experiment.metrics.iter().any(is_own) => {
            task.classes(options)
        }
        Objective::Classify | Objective::Pair | Objective::Each | Objective::Number | Objective::Several => vec![],
    }
}

/// Runs the model over a split; nothing if it was asked to stop before the end.
pub fn evaluate(
    learner: &mut dyn Learner,
    measurement: Measurement<'_>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<ResultsRow>, Error> {
    Ok(evaluate_each(learner, measurement, stop, observer)?.map(|(row, _)| row))
}

/// The same, with what a run keeps of the answers; `data` is the fingerprint of the examples.
pub fn evaluate_kept(
    learner: &mut dyn Learner,
    measurement: Measurement<'_>,
    data: String,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<(ResultsRow, SplitAnswers)>, Error> {
    let split = measurement.split;
    let found = evaluate_each(learner, measurement, stop, observer)?;
    Ok(found.map(|(row, each)| (row, each.answers(split, data))))
}

/// The same, with what is right of every example.
pub(super) fn evaluate_each(
    learner: &mut dyn Learner,
    measurement: Measurement<'_>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<(ResultsRow, Each)>, Error> {
    let Measurement { split, examples, batch: size, .. } = measurement;
    let (mut sum, mut each) = (Sum::new(&measurement), Each::default());
    let probabilities = measurement.asked.iter().any(|kind| kind.needs_probabilities());
    let mut done = 0;
    let chunks: Vec<Vec<&Example>> = examples.chunks(size.max(1)).map(|chunk| chunk.iter().collect()).collect();
    for chunks in chunks.chunks(learner.at_once().max(1)) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let batches: Vec<Batch> = chunks.iter().map(|chunk| pack(chunk)).collect();
        let results = match probabilities {
            false => learner.evaluate_all(&batches),
            true => {
                chunks.iter().zip(&batches).map(|(chunk, batch)| sum.asked.answered(learner, chunk, batch)).collect()
            }
        };
        let results = results.map_err(|error| error.at(split))?;
        for (chunk, result) in chunks.iter().zip(&results) {
            sum.add(chunk, result);
            each.add(measurement.metrics, chunk, &result.predictions);
            done += chunk.len();
            observer.event(&Event::Evaluating { split, done, total: examples.len() });
        }
    }
    if sum.scored == 0 {
        return Err(unscored(split).into());
    }
    sum.require_values(split)?;
    Ok(Some((sum.row(&measurement), each)))
}

/// The error of a split in which no answer is scored.
pub(crate) fn unscored(split: &str) -> DataError {
    let message = "it has no label, so that neither loss nor accuracy can be measured: label some of its rows, or measure another split";
    DataError { file: split.to_owned(), line: None, message: message.to_owned() }
}

/// Refuses a row with a number that is not finite, after so many updates.
///
/// # Errors
/// The name of the number.
pub fn require_finite(row: &ResultsRow, updates: u64) -> Result<(), LearnError> {
    let numbers = row.numbers.iter().map(|(name, number)| (name.as_str(), *number));
    match std::iter::once(("loss", row.loss)).chain(numbers).find(|(_, number)| !number.is_finite()) {
        Some((name, _)) => Err(LearnError::NonFinite { step: updates, node: format!("the {name} on {}", row.split) }),
        None => Ok(()),
    }
}

/// The numbers of a split, summed over its batches.
#[derive(Clone, Debug)]
pub(crate) struct Sum<'a> {
    loss: f64,
    scored: u64,
    /// Nothing where numbers are asked for.
    correct: Option<u64>,
    errors: Errors,
    /// Accepted steps.
    depth: Option<Depths>,
    counts: MetricCounts<'a>,
    classes: ClassCounts,
    asked: AskedMetrics,
}

impl<'a> Sum<'a> {
    /// The sum of no batch.
    pub(crate) fn new(measurement: &Measurement<'a>) -> Self {
        let Measurement { metrics, asked, classes, scale, .. } = measurement;
        let (correct, errors, counts) = (None, Errors::default(), MetricCounts::new(metrics));
        let (classes, asked) = (ClassCounts::default(), AskedMetrics::new(asked, classes, *scale));
        Self { loss: 0.0, scored: 0, correct, errors, depth: None, counts, classes, asked }
    }

    /// Adds a batch. Predictions stand in the order of the examples.
    pub(crate) fn add(&mut self, examples: &[&Example], result: &Evaluation) {
        self.loss += result.loss_sum;
        self.scored += result.scored;
        self.correct = sum(self.correct, result.correct);
        self.errors.add(examples, &result.numbers);
        self.counts.add(examples, &result.predictions);
        apart(examples, &result.predictions).for_each(|(example, own)| self.classes.add(example, own));
        self.asked.add(examples, result);
        self.went(result.depth);
    }

    /// Adds what classes of other lengths were found to be.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.loss += other.loss;
        self.scored += other.scored;
        self.correct = sum(self.correct, other.correct);
        self.counts.merge(&other.counts);
        self.classes.merge(&other.classes);
        self.asked.merge(&other.asked);
        self.went(other.depth);
    }

    /// Adds accepted steps.
    fn went(&mut self, depth: Option<Depths>) {
        self.depth = depth.map(|depth| self.depth.unwrap_or_default().with(depth)).or(self.depth);
    }

    /// The same, with the number of steps that each of the examples took.
    pub(crate) fn taken(self, steps: usize, examples: usize) -> Self {
        Self { depth: Some(Depths::of(std::iter::repeat_n(steps as f64, examples))), ..self }
    }

    /// Refuses answers for which a metric has no value.
    pub(crate) fn require_values(&self, split: &str) -> Result<(), DataError> {
        let error = |why: &str| DataError { file: split.to_owned(), line: None, message: why.to_owned() };
        self.asked.failure().map_or(Ok(()), |why| Err(error(why)))
    }

    /// Number of scored predictions.
    pub(crate) fn scored(&self) -> u64 {
        self.scored
    }

    /// The share of them that are right, where they are classes.
    pub(crate) fn accuracy(&self) -> Option<f64> {
        self.correct.and_then(|right| Tally { right, all: self.scored }.share())
    }

    /// What the task reports besides.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        self.counts.shares()
    }

    /// The row of the split.
    pub(crate) fn row(&self, measurement: &Measurement<'_>) -> ResultsRow {
        let Measurement { split, examples, perplexity, scale, asked, each_class, .. } = measurement;
        let (perplexity, scale, each_class) = (*perplexity, *scale, *each_class);
        let lengths = self.counts.lengths();
        let mut shares = self.counts.shares();
        // Where every length counts alike the accuracy is that mean.
        if self.counts.uneven() {
            let sum: f64 = lengths.iter().map(|row| row.accuracy).sum();
            shares.insert(BY_LENGTH.to_owned(), sum / lengths.len() as f64);
        }
        let of_classes = |kind: &MetricKind| Some((kind.to_string(), kind.of_classes(&self.classes.0)?));
        shares.extend(asked.iter().filter_map(of_classes).chain(self.asked.named(true)));
        let numbers = self.errors.named(scale).into_iter().chain(self.asked.named(false)).collect();
        let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
        let loss = mean(self.loss, self.scored);
        ResultsRow {
            split: split.to_string(),
            examples: examples.len(),
            scored: self.scored,
            accuracy: self.accuracy(),
            metrics: shares,
            numbers,
            loss,
            perplexity: perplexity.then(|| loss.exp()),
            mean_depth: self.depth.map(|depth| depth.mean()),
            depth_deviation: self.depth.map(|depth| depth.deviation()),
            majority: self.correct.map(|_| majority_share(examples)),
            bag_of_words: None,
            trigram: None,
            trigram_perplexity: None,
            lengths,
            classes: if each_class { self.classes.0.clone() } else { vec![] },
        }
    }
}

/// Counts of the classes, or of several labels, in their order.
#[derive(Clone, Debug, Default)]
struct ClassCounts(Vec<ClassRow>);

impl ClassCounts {
    /// Adds an example with the classes that it is taken for.
    fn add(&mut self, example: &Example, predicted: &[u32]) {
        let is_several = matches!(example.label, ExampleTarget::Several(_));
        for (at, (class, weight)) in example.asked().into_iter().enumerate() {
            let Some(said) = predicted.get(at).filter(|_| weight > 0.0) else { continue };
            // Of several labels the place is the label, and 1 says that it is there.
            let (there, said) = match is_several {
                true => ((class == 1).then_some(at), (*said == 1).then_some(at)),
                false => (Some(class as usize), Some(*said as usize)),
            };
            let least = there.max(said).map_or(0, |class| class + 1).max(if is_several { at + 1 } else { 0 });
            self.0.resize(self.0.len().max(least), ClassRow::default());
            there.iter().for_each(|class| self.0[*class].labelled += 1);
            said.iter().for_each(|class| self.0[*class].predicted += 1);
            there.filter(|_| there == said).iter().for_each(|class| self.0[*class].right += 1);
        }
    }

    /// Adds what was counted on other examples.
    fn merge(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), ClassRow::default());
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.labelled += other.labelled;
            own.predicted += other.predicted;
            own.right += other.right;
        }
    }
}

/// What is right of every example, by the accuracy and by what the task counts besides.
#[derive(Clone, Debug, Default)]
pub(super) struct Each(BTreeMap<&'static str, Vec<Tally>>);

impl Each {
    /// Adds a batch. Predictions stand in the order of the examples.
    fn add(&mut self, metrics: &[Metric], examples: &[&Example], predictions: &[u32]) {
        for (example, own) in apart(examples, predictions) {
            self.0.entry(ACCURACY).or_default().push(scored(example, own));
            for metric in metrics {
                self.0.entry(metric.name).or_default().push((metric.count)(example, own));
            }
        }
    }

    /// To be kept; `data` is the fingerprint of the split.
    pub(super) fn answers(self, split: &str, data: String) -> SplitAnswers {
        SplitAnswers::new(split, data, self.0)
    }
}

/// Counts of the metrics, over all examples and for every length that a task counts.
#[derive(Clone, Debug)]
struct MetricCounts<'a> {
    metrics: &'a [Metric],
    whole: Vec<Tally>,
    /// Examples, the accuracy, and the metrics of every length.
    lengths: BTreeMap<u32, (u64, Tally, Vec<Tally>)>,
}

impl<'a> MetricCounts<'a> {
    fn new(metrics: &'a [Metric]) -> Self {
        Self { metrics, whole: vec![Tally::default(); metrics.len()], lengths: BTreeMap::new() }
    }

    /// Adds a batch. Predictions stand in the order of the examples.
    fn add(&mut self, examples: &[&Example], predictions: &[u32]) {
        for (example, own) in apart(examples, predictions) {
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

    /// Adds what was counted on other examples.
    fn merge(&mut self, other: &Self) {
        self.whole.iter_mut().zip(&other.whole).for_each(|(tally, found)| tally.add(*found));
        for (size, (examples, accuracy, tallies)) in &other.lengths {
            let none = || (0, Tally::default(), vec![Tally::default(); self.metrics.len()]);
            let entry = self.lengths.entry(*size).or_insert_with(none);
            entry.0 += examples;
            entry.1.add(*accuracy);
            entry.2.iter_mut().zip(tallies).for_each(|(tally, found)| tally.add(*found));
        }
    }

    /// Whether lengths differ in how many predictions of them are scored.
    fn uneven(&self) -> bool {
        let mut scored = self.lengths.values().map(|(_, accuracy, _)| accuracy.all);
        scored.next().is_some_and(|first| scored.any(|other| other != first))
    }

    fn named(&self, tallies: &[Tally]) -> BTreeMap<String, f64> {
        let named = self.metrics.iter().zip(tallies);
        named.filter_map(|(metric, tally)| Some((metric.name.to_owned(), tally.share()?))).collect()
    }

    fn shares(&self) -> BTreeMap<String, f64> {
        self.named(&self.whole)
    }

    /// The lengths of which an answer is scored.
    fn lengths(&self) -> Vec<LengthRow> {
        let row = |(length, (examples, accuracy, tallies)): (&u32, &(u64, Tally, Vec<Tally>))| {
            let metrics = self.named(tallies);
            Some(LengthRow { length: *length as usize, examples: *examples, accuracy: accuracy.share()?, metrics })
        };
        self.lengths.iter().filter_map(row).collect()
    }
}

/// The sum of two counts, of which one may be missing.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().reduce(|a, b| a + b)
}
