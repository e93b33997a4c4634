//! The learning rates of a run before it begins: rates that have no value, and a warm-up that the run ends before.

use rtc_exec::learner::GROUPS;
use rtc_runs::experiment::Experiment;
use rtc_runs::schedule::{Plateau, Schedule, ScheduleKind};
use rtc_task::Dataset;
use rtc_train::Feed;

use crate::failure::SessionFailure;
use crate::job::{Data, TrainingJob};
use crate::text::number;

/// Refuses a schedule without a learning rate, or a formula of the optimiser with a number that has no value, at one of the updates of a run
/// from this seed, which ends after `until` of them if that is said.
///
/// # Errors
/// The first such update; batches that the experiment can't have.
pub fn check_rates(
    experiment: &Experiment,
    set: &Dataset,
    (seed, until): (u64, Option<u64>),
) -> Result<(), SessionFailure> {
    let feed = Feed::new(experiment, set, seed).map_err(SessionFailure::Usage)?;
    let updates = until.unwrap_or_else(|| experiment.updates(feed.batches()));
    let schedule = experiment.schedule(feed.batches());
    schedule.check(updates).and_then(|()| check_formula(experiment, &schedule, updates)).map_err(SessionFailure::Usage)
}

/// Refuses a formula of the optimiser with a shared number that has no value at one of the first `updates`.
fn check_formula(experiment: &Experiment, schedule: &Schedule, updates: u64) -> Result<(), String> {
    let Some(formula) = experiment.optimiser.read_formula() else { return Ok(()) };
    let formula = formula?;
    let groups = 0..GROUPS.len() + experiment.optimiser.groups.len();
    let groups: Vec<Option<usize>> = [None].into_iter().chain(groups.map(Some)).collect();
    for update in 0..updates {
        let rule = experiment.rule(schedule, update, Plateau::default());
        let shared = |group: &Option<usize>| rule.of_group(*group, true).shared(&formula, update + 1);
        if let Some(why) = groups.iter().find_map(|group| shared(group).err()) {
            let step = update + 1;
            return Err(format!(
                "`optimiser.formula` must have a value at every update: at step {step} of {updates}, {why}"
            ));
        }
    }
    Ok(())
}

impl TrainingJob {
    /// Returns a note on a warm-up that is longer than the run.
    ///
    /// # Errors
    /// Batches that the experiment can't have.
    pub fn note_on_warmup(&self, data: &Data) -> Result<Option<String>, SessionFailure> {
        let schedule = &self.experiment.schedule;
        if schedule.warmup == 0 || schedule.kind == ScheduleKind::Formula {
            return Ok(None);
        }
        let feed = Feed::new(&self.experiment, &data.set, self.info.seed).map_err(SessionFailure::Usage)?;
        let updates = self.info.until.unwrap_or_else(|| self.experiment.updates(feed.batches()));
        let note = || {
            format!(
                "note: the warm-up takes {} updates and the run makes {}, so that the learning rate never reaches `learning_rate`: \
                 `--with schedule.warmup={}` shortens it",
                number(schedule.warmup as f64),
                number(updates as f64),
                updates / 10
            )
        };
        Ok((schedule.warmup > updates).then(note))
    }
}
