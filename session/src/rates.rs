//! The learning rates of a run before it begins: rates that have no value, and a warm-up that the run ends before.

use rtc_runs::schedule::ScheduleKind;
use rtc_train::Feed;

use crate::failure::SessionFailure;
use crate::job::{Data, TrainingJob};
use crate::text::number;

impl TrainingJob {
    /// Refuses a schedule without a learning rate at one of the updates of the run.
    pub(crate) fn check_rates(&self, data: &Data) -> Result<(), SessionFailure> {
        let feed = Feed::new(&self.experiment, &data.set, self.info.seed).map_err(SessionFailure::Usage)?;
        let updates = self.info.until.unwrap_or_else(|| self.experiment.updates(feed.batches()));
        self.experiment.schedule(feed.batches()).check(updates).map_err(SessionFailure::Usage)
    }

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
