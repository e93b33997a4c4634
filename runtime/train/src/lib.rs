//! The training loop: updates, evaluations, early stopping, checkpoints, resuming.
//!
//! The loop's decisions are functions of [`TrainingProgress`] alone, and everything random is a function of the seed and the
//! update's index. So a run that was stopped or killed at any point and resumed from its last checkpoint goes through
//! the same states, writes the same `metrics.jsonl`, and gives the same table as one that was not.

mod baselines;
pub mod collapse;
mod errors;
mod evaluate;
pub mod examine;
mod feed;
mod forecast;
pub mod generate;
mod observer;
mod own_metrics;
pub mod ranks;
mod scores;
mod slots;
pub mod stopping;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use rtc_exec::learner::{LearnError, Learner, StepReport};
use rtc_runs::error::{CheckpointError, Error};
use rtc_runs::experiment::{Choice, Experiment, KeptCheckpoints, Supervision};
use rtc_runs::record::checkpoint::{BestEvaluation, Checkpoint, CheckpointSlot, CheckpointState, TrainingProgress};
use rtc_runs::record::fall::Fall;
use rtc_runs::record::history::{EvaluationLine, History, HistoryLine, StepLine};
use rtc_runs::record::table::{ResultsRow, ResultsTable};
use rtc_runs::record::{RunAnswers, RunFolder, RunInfo};
use rtc_runs::schedule::Schedule;
use rtc_task::error::DataError;
use rtc_task::{Dataset, Metric, Scale, majority_share, open_task};

use baselines::Baselines;
use feed::{Ready, refuse_empty};
use slots::TrainingSlots;
use watch::Watcher;

pub use errors::NUMBERS;
use evaluate::{Each, evaluate_each};
pub use evaluate::{Measurement, evaluate, evaluate_kept, named_classes, require_finite};
pub use feed::{Feed, longest};
pub use forecast::{Forecast, forecast};
pub use observer::{Event, Observer, Silent};
pub use slots::CarriedState;
pub use watch::encode_prompts;

/// A dev score must rise by more than this to count: of an accuracy 0.0001 percentage points. Scores of losses, which may
/// have any size, must rise by this share.
const IMPROVEMENT: f64 = 1e-6;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All updates are done, and the best checkpoint was measured.
    Finished(ResultsTable),
    /// The run was asked to stop. Its state is saved, and it can be resumed.
    Stopped {
        /// Updates done.
        updates: u64,
    },
}

/// Trains a model to the end of the experiment, from the run's last checkpoint if it has one, and measures the best.
///
/// Setting `stop` ends the run after the update or the evaluated batch that is being computed, with its state saved.
pub fn train(
    learner: &mut dyn Learner,
    data: &Dataset,
    experiment: &Experiment,
    run: &mut RunFolder,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let mut trainer = Trainer::new(learner, data, experiment, run, stop, observer)?;
    trainer.begin()?;
    loop {
        if trainer.evaluation_is_due() && !trainer.evaluate_dev()? {
            return trainer.stopped();
        }
        trainer.keep()?;
        if trainer.is_finished() {
            break;
        }
        // An observer may have asked for it when it was told of the evaluation.
        if stop.load(Ordering::Relaxed) {
            return trainer.stopped();
        }
        trainer.step()?;
        if stop.load(Ordering::Relaxed) {
            return trainer.stopped();
        }
    }
    match trainer.measure()? {
        Some(table) => Ok(Outcome::Finished(table)),
        None => trainer.stopped(),
    }
}

struct Trainer<'a> {
    learner: &'a mut dyn Learner,
    data: &'a Dataset,
    experiment: &'a Experiment,
    run: &'a mut RunFolder,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
    feed: Feed<'a>,
    /// The next update's batches, where they were made while a device worked on the last one.
    ready: Option<Ready>,
    /// The examples in the batch, where an update is made after every step.
    slots: Option<TrainingSlots<'a>>,
    schedule: Schedule,
    progress: TrainingProgress,
    data_hash: String,
    metrics: &'static [Metric],
    scale: Scale,
    perplexity: bool,
    /// The names of the classes, where metrics use them.
    classes: Vec<String>,
    /// Records what the experiment asks for besides the metrics.
    watcher: Watcher,
    /// Tokens trained on since the last line of `timing.jsonl`, and when that was.
    speed: (usize, Instant),
}

impl<'a> Trainer<'a> {
    fn new(
        learner: &'a mut dyn Learner,
        data: &'a Dataset,
        experiment: &'a Experiment,
        run: &'a mut RunFolder,
        stop: &'a AtomicBool,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, Error> {
        refuse_empty(data, experiment)?;
        let unknown = |message| DataError { file: experiment.task.name.clone(), line: None, message };
        let (task, options) = open_task(&experiment.task)?;
        let watcher = Watcher::of(experiment, &task, &options).map_err(unknown)?;
        let (metrics, scale, perplexity) = (task.about().metrics, task.scale(&options), task.perplexity());
        let classes = named_classes(experiment, &*task, &options);
        let feed = Feed::new(experiment, data, run.info().seed).map_err(unknown)?;
        let schedule = experiment.schedule(feed.batches());
        let (progress, speed) = (TrainingProgress::default(), (0, Instant::now()));
        let data_hash = run.info().data_hash.clone().unwrap_or_else(|| data.fingerprint());
        Ok(Self {
            learner,
            data,
            experiment,
            run,
            stop,
            observer,
            feed,
            ready: None,
            slots: None,
            schedule,
            progress,
            data_hash,
            metrics,
            scale,
            perplexity,
            classes,
            watcher,
            speed,
        })
    }

    /// Restores the last checkpoint, or starts the records afresh.
    fn begin(&mut self) -> Result<(), Error> {
        if self.run.checkpoints().exists(CheckpointSlot::Last) {
            let checkpoint = self.load(CheckpointSlot::Last)?;
            self.learner.restore(&checkpoint.learner)?;
            self.progress = checkpoint.state.progress;
            if let Some(places) = &checkpoint.state.slots {
                let (carries, feed) = (self.learner.carries(), &mut self.feed);
                self.slots = Some(TrainingSlots::restored(feed, carries, places, &checkpoint.carried)?);
            }
            if self.progress.best.is_some() {
                self.best()?;
            }
        }
        if self.experiment.supervision == Supervision::EachStep && self.slots.is_none() {
            self.slots = Some(TrainingSlots::new(&mut self.feed, self.experiment.batch.size)?);
        }
        if self.slots.is_some() == self.learner.carries().is_empty() {
            let message = "the model was compiled for another `supervision`";
            return Err(LearnError::Batch(message.to_owned()).into());
        }
        self.run.rewind(self.progress.records)?;
        let total = self.total();
        self.run.begins(self.progress.updates, total)?;
        self.observer.event(&Event::Started { done: self.progress.updates, total });
        Ok(())
    }

    /// A checkpoint of this run.
    fn load(&mut self, slot: CheckpointSlot) -> Result<Checkpoint, Error> {
        let checkpoint = self.run.checkpoints().load(slot)?;
        let info = RunInfo { data_hash: Some(self.data_hash.clone()), ..self.run.info().clone() };
        match checkpoint.state.other_run(&info) {
            Some(what) => Err(self.refused(slot, format!("it was saved by a run with {what}"))),
            None => Ok(checkpoint),
        }
    }

    /// The best checkpoint, which must be the one that the records speak of. It may have been saved after the last one, by a process
    /// that was killed then: the updates in between are made again, and it is saved again.
    fn best(&mut self) -> Result<Checkpoint, Error> {
        let checkpoint = self.load(CheckpointSlot::Best)?;
        let found = checkpoint.state.progress;
        if let Some(why) = checkpoint.state.not_the_best() {
            return Err(self.refused(CheckpointSlot::Best, why.to_owned()));
        }
        if found.updates <= self.progress.updates && found.best != self.progress.best {
            let of = self.progress.best.map_or(0, |best| best.update);
            let why = format!("it was saved after update {}, and the best is that after update {of}", found.updates);
            return Err(self.refused(CheckpointSlot::Best, why));
        }
        Ok(checkpoint)
    }

    fn refused(&mut self, slot: CheckpointSlot, reason: String) -> Error {
        CheckpointError { path: self.run.checkpoints().path(slot), reason, previous: None }.into()
    }

    /// Whether all updates are done or patience is at its end.
    fn is_finished(&self) -> bool {
        self.out_of_updates() || self.experiment.patience.is_some_and(|patience| self.progress.impatience > patience)
    }

    fn out_of_updates(&self) -> bool {
        self.progress.updates >= self.total()
    }

    /// The number of the last update.
    fn total(&self) -> u64 {
        self.run.info().until.unwrap_or_else(|| self.experiment.updates(self.feed.batches()))
    }

    /// Whether the dev split must be measured before the next update.
    fn evaluation_is_due(&self) -> bool {
        let TrainingProgress { updates, evaluated, .. } = self.progress;
        let regular = match self.experiment.evaluate_every {
            Some(every) => updates.is_multiple_of(every),
            None => updates.is_multiple_of(self.feed.batches()),
        };
        updates > 0 && evaluated != Some(updates) && (regular || self.out_of_updates())
    }

    /// Makes one update.
    fn step(&mut self) -> Result<(), Error> {
        let (cursor, done, parts) = (self.progress.cursor, self.progress.updates, self.experiment.batch.accumulate);
        let ready = self.ready.take().filter(|ready| ready.is_for(cursor, done));
        let ready = match &self.slots {
            Some(slots) => Ok(Ready::of(slots.batches(&self.feed, self.learner.carries(), parts), (cursor, done))),
            None => ready.map_or_else(|| Ready::new(&mut self.feed, cursor, done, parts), Ok),
        };
        let Ready { batches, .. } = ready?;
        // Which examples come next is known only when this update has said which rows are through.
        let ahead = self.slots.is_none();
        let (feed, ready) = (&mut self.feed, &mut self.ready);
        let mut meanwhile = || {
            if ahead {
                // A failure comes again, and is told, where the next update begins.
                *ready = Ready::new(feed, feed.next(cursor), done + 1, parts).ok();
            }
        };
        let all = self.learner.accumulate_all(&batches, &mut meanwhile);
        let all = all.map_err(|error| error.at(format_args!("update {}", done + 1)))?;
        let mut report = StepReport::default();
        let (mut tokens, mut first) = (0, 0);
        for ((batch, share), (part, left)) in batches.iter().zip(&all) {
            add(&mut report, part, *share);
            tokens += batch.tokens.len();
            if let Some(slots) = &mut self.slots {
                slots.keep(&mut self.feed, self.learner.carries(), first, (batch, left))?;
                first += batch.rows();
            }
        }
        let rule = self.experiment.rule(&self.schedule, self.progress.updates, self.progress.plateau);
        self.check_finite(report.loss, "the loss")?;
        self.check_finite(report.task_loss, "the task loss")?;
        report.gradient_norm = self.learner.update(&rule)?;
        self.check_finite(report.gradient_norm, "the gradient norm")?;
        if let Some(ema) = self.experiment.ema.filter(|ema| self.progress.updates >= ema.after) {
            self.learner.average(ema.decay);
        }
        self.progress.updates += 1;
        self.progress.cursor = self.slots.as_ref().map_or_else(|| self.feed.next(cursor), TrainingSlots::cursor);
        self.speed.0 += tokens;
        let update = self.progress.updates;
        let learning_rate = rule.learning_rate;
        if update == 1 || update.is_multiple_of(self.experiment.log_every) {
            self.add(HistoryLine::Step(StepLine::new(update, cursor.epoch, &report, learning_rate)))?;
            let (tokens, since) = std::mem::replace(&mut self.speed, (0, Instant::now()));
            self.run.time("train", update, Some(tokens as f64 / since.elapsed().as_secs_f64().max(1e-9)))?;
        }
        self.observer.event(&Event::Step { update, epoch: cursor.epoch, report: &report, learning_rate, tokens });
        let start = Instant::now();
        self.watcher.record(self.learner, self.run, update)?;
        // `timing.jsonl` has the speed of the training alone.
        self.speed.1 += start.elapsed();
        Ok(())
    }

    /// A learner names the node itself where it can; this is the last line of defence.
    fn check_finite(&self, number: f64, what: &str) -> Result<(), LearnError> {
        if number.is_finite() {
            return Ok(());
        }
        Err(LearnError::NonFinite { step: self.progress.updates + 1, node: what.to_string() })
    }

    /// Measures the dev split and saves; false if the run was asked to stop meanwhile, with nothing changed.
    fn evaluate_dev(&mut self) -> Result<bool, Error> {
        let Some((row, _)) = self.evaluate(&self.experiment.dev)? else { return Ok(false) };
        let update = self.progress.updates;
        let choose = &self.experiment.choose;
        let line = EvaluationLine::new(update, &row);
        let (score, metric) = match (choose.score(&line), choose.metric()) {
            (Some(score), None) => (score, None),
            (Some(score), Some(_)) => (score, choose.value(&line)),
            (None, _) => return Err(self.undecided()),
        };
        let better = self.progress.best.is_none_or(|best| {
            let least = choose.score_of(best.accuracy, best.loss, best.metric);
            score > least + choose.margin(row.accuracy, least, IMPROVEMENT)
        });
        let improved = better || *choose == Choice::Last;
        if improved {
            let loss = choose.is_by_loss(row.accuracy).then_some(row.loss);
            self.progress.best = Some(BestEvaluation { accuracy: row.accuracy, loss, metric, update });
            self.progress.impatience = 0;
        } else {
            self.progress.impatience += 1;
        }
        self.progress.plateau.see(score, self.experiment.schedule.wait);
        self.progress.evaluated = Some(update);
        self.record(&row)?;
        let improves = improved && *choose != Choice::Last;
        self.observer.event(&Event::Evaluated { update, row: &row, improved: improves });
        if improved {
            self.save(CheckpointSlot::Best)?;
        }
        self.save(CheckpointSlot::Last)?;
        self.speed = (0, Instant::now());
        Ok(true)
    }

    /// The error of a dev split that lacks the metric that decides.
    fn undecided(&self) -> Error {
        let name = self.experiment.choose.metric().unwrap_or("loss");
        let message = format!("`choose: {name}` decides nothing: the split has no value of it; choose another metric");
        DataError { file: self.experiment.dev.clone(), line: None, message }.into()
    }

    fn evaluate(&mut self, split: &str) -> Result<Option<(ResultsRow, Each)>, Error> {
        let batch = self.experiment.batch.size.div_ceil(self.experiment.batch.accumulate);
        let measurement = Measurement {
            split,
            examples: self.data.split(split),
            batch,
            metrics: self.metrics,
            scale: self.scale,
            perplexity: self.perplexity,
            asked: self.experiment.metrics.clone(),
            classes: self.classes.clone(),
            each_class: false,
        };
        let found = evaluate_each(self.learner, measurement, self.stop, self.observer)?;
        if let Some((row, _)) = &found {
            require_finite(row, self.progress.updates)?;
        }
        Ok(found)
    }

    fn record(&mut self, row: &ResultsRow) -> Result<(), Error> {
        let update = self.progress.updates;
        self.add(HistoryLine::Evaluation(EvaluationLine::new(update, row)))?;
        Ok(self.run.time(&row.split, update, None)?)
    }

    /// Adds a line to `metrics.jsonl`.
    fn add(&mut self, line: HistoryLine) -> Result<(), Error> {
        self.run.metric(&line)?;
        self.observer.event(&Event::Recorded { line: &line });
        Ok(())
    }

    fn save(&mut self, slot: CheckpointSlot) -> Result<(), Error> {
        self.learner.require_agreement()?;
        self.progress.records = self.run.positions()?;
        let info = self.run.info();
        let slots = self.slots.as_ref().map(|slots| slots.saved(self.learner.carries()));
        let (slots, carried) = slots.map_or_else(Default::default, |(places, carried)| (Some(places), carried));
        let state = CheckpointState {
            progress: self.progress,
            run: info.run.clone(),
            seed: info.seed,
            spec_hash: info.spec_hash.clone(),
            graph_hash: info.graph_hash.clone(),
            data_hash: self.data_hash.clone(),
            versions: info.versions.clone(),
            slots,
        };
        let checkpoint = Checkpoint { learner: self.learner.state(), carried, state };
        checkpoint.learner.require_finite()?;
        self.run.checkpoints().save(slot, &checkpoint)?;
        self.observer.event(&Event::Saved { update: self.progress.updates, slot });
        Ok(())
    }

    /// Keeps the state as a checkpoint of its own, where the experiment asks for it.
    fn keep(&mut self) -> Result<(), Error> {
        let Some(KeptCheckpoints { every, keep }) = self.experiment.checkpoints else { return Ok(()) };
        let update = self.progress.updates;
        let slot = CheckpointSlot::Update(update);
        if update > 0 && update.is_multiple_of(every) && !self.run.checkpoints().exists(slot) {
            self.save(slot)?;
            keep.map_or(Ok(()), |count| self.run.checkpoints().keep_newest(count))?;
        }
        Ok(())
    }

    fn stopped(&mut self) -> Result<Outcome, Error> {
        self.save(CheckpointSlot::Last)?;
        Ok(Outcome::Stopped { updates: self.progress.updates })
    }

    /// Measures the best checkpoint on the evaluation splits; nothing if the run was asked to stop meanwhile.
    ///
    /// The learner and the records are as after the last update again if it was.
    fn measure(&mut self) -> Result<Option<ResultsTable>, Error> {
        let history = History::read_open(self.run.path())?;
        let last = self.learner.state();
        let best = self.best()?;
        self.learner.restore(&best.learner)?;
        let (mut rows, mut answers) = (Vec::new(), RunAnswers::default());
        let baselines = Baselines::fit(self.experiment, self.data);
        for split in &self.experiment.evaluate {
            let Some((row, each)) = self.evaluate(split)? else {
                self.learner.restore(&last)?;
                self.run.rewind(self.progress.records)?;
                return Ok(None);
            };
            self.record(&row)?;
            self.observer.event(&Event::Evaluated { update: self.progress.updates, row: &row, improved: false });
            rows.push(baselines.beside(row, self.data.split(split)));
            answers.splits.push(each.answers(split, self.data.fingerprint_of(split)));
        }
        let BestEvaluation { accuracy, loss, metric, update } = self.progress.best.unwrap_or_default();
        let fall = self.fall(&history, update);
        let halting = collapse::note(&rows, self.learner.halting_bounds());
        let dev_metric = self.experiment.choose.named(metric);
        let table = ResultsTable {
            best_update: update,
            dev_accuracy: accuracy,
            dev_loss: loss,
            dev_metric,
            rows,
            halting,
            fall,
        };
        let mut results = table.to_json();
        results["identity"] = self.identity();
        self.run.results(results, &answers)?;
        Ok(Some(table))
    }

    /// Whether the last measurement of dev is far below the best one.
    fn fall(&self, history: &History, kept_update: u64) -> Option<Fall> {
        let dev = self.data.split(&self.experiment.dev);
        let chance = (dev.len(), majority_share(dev));
        Fall::of((&self.experiment.dev, kept_update), &history.evaluations, chance)
    }

    /// What made the results: two tables may be compared if they agree in data and program.
    fn identity(&self) -> Value {
        let RunInfo { model, seed, spec_hash, graph_hash, versions, .. } = self.run.info();
        json!({
            "model": model, "seed": seed, "spec_hash": spec_hash, "graph_hash": graph_hash, "data_hash": self.data_hash,
            "versions": versions,
        })
    }
}

/// Adds the report of a micro-batch, whose means count by its share.
fn add(total: &mut StepReport, part: &StepReport, share: f64) {
    let weighted = |total: Option<f64>, part: Option<f64>| match (total, part) {
        (total, Some(part)) => Some(total.unwrap_or(0.0) + share * part),
        (total, None) => total,
    };
    total.loss += share * part.loss;
    total.task_loss += share * part.task_loss;
    total.halting_cost = weighted(total.halting_cost, part.halting_cost);
    total.mean_depth = weighted(total.mean_depth, part.mean_depth);
    total.correct = [total.correct, part.correct].into_iter().flatten().reduce(|a, b| a + b);
    total.scored += part.scored;
}
