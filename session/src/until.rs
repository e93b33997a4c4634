//! Training on: a run whose last update is another one than its experiment says.
//!
//! A longer run makes the updates of the shorter one first, with the same bits, where nothing else depends on how many there are. What
//! does is refused here.

use std::path::Path;

use rtc_runs::record::checkpoint::{self, CheckpointSlot};
use rtc_runs::record::{RunFolder, SavedRun};
use rtc_runs::schedule::ScheduleKind;
use rtc_train::Feed;

use crate::failure::SessionFailure;
use crate::job::{Data, TrainingJob};
use crate::text::number;

impl TrainingJob {
    /// Ends after this update in place of the end of the experiment. Says what differs from a run that was begun with this end.
    ///
    /// # Errors
    /// The run is past it; the learning rates depend on the number of updates; the run ended because its patience was over.
    pub fn ends_after(&mut self, until: u64, path: &Path, data: &Data) -> Result<Option<String>, SessionFailure> {
        let feed = Feed::new(&self.experiment, &data.set, self.info.seed).map_err(SessionFailure::Usage)?;
        let planned = self.experiment.updates(feed.batches());
        let saved = RunFolder::exists(path).then(|| SavedRun::read(path)).transpose()?;
        let ended = saved.as_ref().and_then(|saved| saved.info.until).unwrap_or(planned);
        if until < ended {
            let what = if saved.is_some() { "the run" } else { "the experiment" };
            return Err(usage(format!(
                "`--until {until}`: {what} ends after update {}; `--max-steps` makes a shorter run, with a folder of its own",
                number(ended as f64)
            )));
        }
        if until == planned {
            return Ok(None);
        }
        let schedule = &self.experiment.schedule;
        if schedule.depends_on_length() {
            return Err(usage(format!(
                "`--until {until}`: the learning rates of `{}` are laid out over the {} updates of the experiment, so a run of {until} has \
                 others from its first update on: `--max-steps {until}` trains that one; an experiment that says `schedule: {{ total: N }}` \
                 can be trained on",
                name(schedule.kind),
                number(planned as f64)
            )));
        }
        self.info.until = Some(until);
        let last = SavedRun::checkpoint(path, CheckpointSlot::Last);
        if saved.is_none() || !last.is_dir() {
            return Ok(None);
        }
        let progress = checkpoint::find(path, &last)?.checkpoint.state.progress;
        let (dev, patience) = (&self.experiment.dev, self.experiment.patience);
        if patience.is_some_and(|patience| progress.impatience > patience) {
            return Err(usage(format!(
                "`--until {until}`: the run ended after update {} because its `patience` was over, and not for want of updates: train one \
                 with more patience",
                number(progress.updates as f64)
            )));
        }
        let every = self.experiment.evaluate_every.unwrap_or(feed.batches()).max(1);
        if progress.evaluated != Some(ended) || ended == until || ended.is_multiple_of(every) {
            return Ok(None);
        }
        let ended = number(ended as f64);
        let counts = match (schedule.kind, patience) {
            (ScheduleKind::Plateau, _) => Some("plateau"),
            (_, Some(_)) => Some("patience"),
            _ => None,
        };
        match counts {
            Some(counts) => Err(usage(format!(
                "`--until {until}`: {dev} was measured after update {ended}, where the run ended, and `{counts}` has counted that: a run of \
                 {until} updates from the start may go another way; `--max-steps {until}` trains it"
            ))),
            None => Ok(Some(format!(
                "{dev} was measured after update {ended}, too, where the run ended before; a run of {until} updates from the start has the \
                 same weights without that measurement"
            ))),
        }
    }
}

fn usage(message: String) -> SessionFailure {
    SessionFailure::Usage(message)
}

/// The name of a schedule in an experiment.
fn name(kind: ScheduleKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
