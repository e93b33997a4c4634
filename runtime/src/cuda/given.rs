//! Depths that come with the examples on a device, and a batch after one, two, three, ... steps, every step computed once.

use rtc_compiler::ir::graph::NodeId;

use super::exec::Executor;
use super::value::Val;
use crate::batch::Batch;
use crate::exec::rows::Axis;
use crate::exec::storage::Element;
use crate::exec::{Fault, Outputs, given, given_depths, resumable};
use crate::rng::Key;

/// Where a recurrence stopped in the last run.
#[derive(Debug)]
pub(super) struct Stepping {
    /// The recurrence.
    of: NodeId,
    /// The steps that it has made.
    steps: usize,
    /// What it carries after them; nothing before the first run.
    carried: Option<Vec<Val>>,
}

impl<T: Element> Executor<T> {
    /// Whether a depth of this plan comes with the examples.
    pub fn takes_depth(&self) -> bool {
        given(&self.exprs).next().is_some()
    }

    /// The given depth of every row, if the model takes one.
    pub(super) fn depths(&self, batch: &Batch) -> Result<Option<Axis>, Fault> {
        given_depths(&self.exprs, self.depth, batch, &self.arena)
    }

    /// The results after 1, 2, ... `most` steps of the recurrence whose depth is given, as the executor of the CPU gives them.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn each_step(&mut self, batch: &Batch, key: Key, most: usize) -> Result<Vec<Outputs<T>>, Fault> {
        let before = self.depth;
        self.stepping = resumable(&self.plan, &self.exprs).map(|of| Stepping { of, steps: 0, carried: None });
        let after = |steps| {
            self.depth = Some(steps);
            self.run(batch, key)
        };
        let results = (1..=most).map(after).collect();
        self.depth = before;
        self.stepping = None;
        results
    }

    /// The steps that a recurrence has made and what it carries after them, if it goes on.
    pub(super) fn resumed(&self, of: Option<NodeId>) -> Option<(usize, Vec<Val>)> {
        let stepping = self.stepping.as_ref().filter(|stepping| Some(stepping.of) == of)?;
        Some((stepping.steps, stepping.carried.clone()?))
    }

    /// Keeps what a recurrence carries after its last step, if it is one that goes on.
    pub(super) fn keep_carried(&mut self, of: Option<NodeId>, values: &[Val], steps: usize) {
        if let Some(stepping) = self.stepping.as_mut().filter(|stepping| Some(stepping.of) == of) {
            (stepping.steps, stepping.carried) = (steps, Some(values.to_vec()));
        }
    }
}
