//! Depths that come with the examples on a device, and a batch after one, two, three, ... steps, every step computed once.

use super::exec::Executor;
use crate::batch::Batch;
use crate::exec::storage::Element;
use crate::exec::{Fault, Outputs, Stepping, given, resumable};
use crate::rng::Key;

impl<T: Element> Executor<T> {
    /// Whether a depth of this plan comes with the examples.
    pub fn takes_depth(&self) -> bool {
        given(&self.exprs).next().is_some()
    }

    /// The results after 1, 2, ... `most` steps of the recurrence whose depth is given, as the executor of the CPU gives them.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn each_step(&mut self, batch: &Batch, key: Key, most: usize) -> Result<Vec<Outputs<T>>, Fault> {
        let before = self.depth;
        self.stepping = resumable(&self.plan, &self.exprs).map(Stepping::new);
        let after = |steps| {
            self.depth = Some(steps);
            self.run(batch, key)
        };
        let results = (1..=most).map(after).collect();
        self.depth = before;
        self.stepping = None;
        results
    }
}
