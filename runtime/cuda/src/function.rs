//! A model as a function whose weights, cotangents and results lie in memory of the device that belongs to somebody else.
//!
//! Nothing of them goes through the host, and nothing is waited for: the copies stand in the order of the other commands. Who owns the
//! memory lets the stream of the device wait for what wrote it, and waits in turn before it is read or given back
//! (`Gpu::wait_for` and `Gpu::hold_back`).

use std::ops::Range;

use super::exec::DeviceExecutor;
use super::memory::DeviceArray;
use rtc_base::batch::Batch;
use rtc_exec::learner::LearnError;
use rtc_exec::machine::region::InputName;
use rtc_exec::model::{COTANGENT, Function, PassMode, Question, as_learn_error};
use rtc_exec::parameter_ranges;
use rtc_exec::storage::Element;

/// Numbers in memory of the device: the address of the first, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpan {
    /// The address.
    pub at: u64,
    /// How many.
    pub len: usize,
}

impl DeviceSpan {
    /// The first `count` numbers of `size` bytes each, and the rest.
    pub fn split(self, count: usize, size: usize) -> (Self, Self) {
        let (first, rest) = (count.min(self.len), self.len.saturating_sub(count));
        (Self { at: self.at, len: first }, Self { at: self.at + (first * size) as u64, len: rest })
    }

    fn part<T>(self, range: &Range<usize>) -> u64 {
        self.at + (range.start * size_of::<T>()) as u64
    }

    fn holds(self, len: usize, what: &str) -> Result<(), LearnError> {
        if self.len == len {
            return Ok(());
        }
        Err(LearnError::Mismatch(format!("there is room for {} {what}, and the model has {len}", self.len)))
    }
}

impl<T: Element> DeviceExecutor<T> {
    fn copy_in(&self, from: u64, to: &DeviceArray) {
        self.pool.device().copy(from, to.at(), to.len() * size_of::<T>());
    }

    fn copy_out(&self, from: &DeviceArray, to: u64) {
        self.pool.device().copy(from.at(), to, from.len() * size_of::<T>());
    }

    /// The numbers of every parameter among those that lie end to end.
    fn packed(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<T> {
        parameter_ranges(self.plan()).into_iter().enumerate()
    }
}

/// Weights, cotangents and results of a [`Function`] in memory of the device.
pub trait DeviceFunction {
    /// Computes from now on with these weights, which lie end to end.
    ///
    /// # Errors
    /// Another number of weights.
    fn take_weights(&mut self, from: DeviceSpan) -> Result<(), LearnError>;
    /// As [`Function::logits`], into memory of the device. Numbers that are not finite are numbers as all others.
    ///
    /// # Errors
    /// A batch that the model can't take, or a failure of the device.
    fn logits_to(&mut self, batch: &Batch, draws: PassMode, to: DeviceSpan) -> Result<(), LearnError>;
    /// As [`Function::product`], from and into memory of the device.
    ///
    /// # Errors
    /// As [`Self::logits_to`].
    fn product_to(
        &mut self,
        batch: &Batch,
        cotangent: DeviceSpan,
        draws: PassMode,
        to: DeviceSpan,
    ) -> Result<(), LearnError>;
    /// As [`Function::loss`], into memory of the device.
    ///
    /// # Errors
    /// As [`Self::logits_to`], and labels that are not those of the task.
    fn loss_to(
        &mut self,
        batch: &Batch,
        update: u64,
        loss: DeviceSpan,
        gradients: DeviceSpan,
    ) -> Result<(), LearnError>;
}

impl<T: Element> DeviceFunction for Function<DeviceExecutor<T>> {
    fn take_weights(&mut self, from: DeviceSpan) -> Result<(), LearnError> {
        from.holds(self.numbers(), "weights")?;
        let executor = self.current();
        executor.packed().for_each(|(n, range)| executor.copy_in(from.part::<T>(&range), &executor.parameter(n)));
        Ok(())
    }

    fn logits_to(&mut self, batch: &Batch, draws: PassMode, to: DeviceSpan) -> Result<(), LearnError> {
        run_to(self, Question::Logits(draws.mode()), batch, draws, None, Some(("logits", to)))
    }

    fn product_to(
        &mut self,
        batch: &Batch,
        cotangent: DeviceSpan,
        draws: PassMode,
        to: DeviceSpan,
    ) -> Result<(), LearnError> {
        to.holds(self.numbers(), "gradients")?;
        run_to(self, Question::Product(draws.mode()), batch, draws, Some(cotangent), None)?;
        gradients_to(self, to);
        Ok(())
    }

    fn loss_to(
        &mut self,
        batch: &Batch,
        update: u64,
        loss: DeviceSpan,
        gradients: DeviceSpan,
    ) -> Result<(), LearnError> {
        self.check_labels(batch)?;
        gradients.holds(self.numbers(), "gradients")?;
        run_to(self, Question::Loss, batch, PassMode::Training(update), None, Some(("loss", loss)))?;
        gradients_to(self, gradients);
        Ok(())
    }
}

/// Runs a plan, and copies one of its results.
fn run_to<T: Element>(
    function: &mut Function<DeviceExecutor<T>>,
    question: Question,
    batch: &Batch,
    draws: PassMode,
    cotangent: Option<DeviceSpan>,
    wanted: Option<(&str, DeviceSpan)>,
) -> Result<(), LearnError> {
    let key = function.key(draws);
    let executor = function.executor(question)?;
    let given = cotangent.map(|from| {
        let array = executor.pool.take::<T>(from.len);
        executor.copy_in(from.at, &array);
        (InputName::Given(COTANGENT.into()), array)
    });
    let copied = executor.run_then(batch, key, given, |executor, results| {
        let Some((name, to)) = wanted else { return Ok(()) };
        let none = || LearnError::Mismatch(format!("its graph has no `{name}`"));
        let found = executor.result(name, results).ok_or_else(none)?;
        to.holds(found.len(), name)?;
        executor.copy_out(&found, to.at);
        Ok(())
    });
    // After a refused batch, too: who owns the memory may give it back now.
    executor.pool.device().flush();
    copied.map_err(|fault| as_learn_error(fault, draws.update()))?
}

/// Copies the gradients of the last run.
fn gradients_to<T: Element>(function: &mut Function<DeviceExecutor<T>>, to: DeviceSpan) {
    let executor = function.current();
    executor.packed().for_each(|(n, range)| executor.copy_out(&executor.gradient(n), to.part::<T>(&range)));
    executor.pool.device().flush();
}
