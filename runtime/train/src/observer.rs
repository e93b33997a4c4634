//! Events of a training, and who is told of them.

use rtc_exec::learner::StepReport;
use rtc_runs::record::checkpoint::CheckpointSlot;
use rtc_runs::record::history::HistoryLine;
use rtc_runs::record::table::ResultsRow;

/// What happens during a run, for progress bars and logs.
#[derive(Debug)]
pub enum Event<'a> {
    /// The loop begins, or goes on from `done` updates.
    Started {
        /// Updates done before.
        done: u64,
        /// Updates of the whole run, if early stopping does not end it.
        total: u64,
    },
    /// An update was made.
    Step {
        /// Updates done.
        update: u64,
        /// Pass over the data, from 0.
        epoch: u64,
        /// The numbers of the update.
        report: &'a StepReport,
        /// Its learning rate.
        learning_rate: f64,
        /// Tokens in its batch.
        tokens: usize,
    },
    /// A line was added to `metrics.jsonl`.
    Recorded {
        /// The line.
        line: &'a HistoryLine,
    },
    /// A part of a split was measured.
    Evaluating {
        /// The split.
        split: &'a str,
        /// Examples measured.
        done: usize,
        /// Examples of the split.
        total: usize,
    },
    /// A split was measured.
    Evaluated {
        /// Updates done.
        update: u64,
        /// The result.
        row: &'a ResultsRow,
        /// Whether it is the best so far on the dev split.
        improved: bool,
    },
    /// The state was saved.
    Saved {
        /// Updates done.
        update: u64,
        /// Where.
        slot: CheckpointSlot,
    },
}

/// Is told what happens.
pub trait Observer {
    /// Called on the training thread after each event.
    fn event(&mut self, event: &Event<'_>);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) {}
}
