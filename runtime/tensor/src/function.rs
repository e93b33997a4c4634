//! Models as functions of tensors that their program holds: weights, cotangents, logits and gradients stay on the device of the tensors.

use candle_core::{Device, Tensor};
use rtc_base::batch::Batch;
use rtc_exec::ExecutionFault;
use rtc_exec::learner::LearnError;
use rtc_exec::model::{COTANGENT, Function, PassMode, Question};

use crate::exec::{TensorExecutor, TensorResults};
use crate::value::TensorNumber;

/// A [`Function`] on tensors. Weights are flat, in the order of [`Function::parameters`], and so are gradients; a weight without a
/// gradient has none.
pub trait TensorFunction {
    /// The logits of a batch, flat. On the processor all of them are finite.
    ///
    /// # Errors
    /// As [`Function::logits`].
    fn logits_of(&mut self, weights: &[Tensor], batch: &Batch, draws: PassMode) -> Result<Tensor, LearnError>;

    /// The gradients of a function of the logits whose gradient with respect to them is `cotangent`.
    ///
    /// # Errors
    /// As [`Function::product`].
    fn product_of(
        &mut self,
        weights: &[Tensor],
        batch: &Batch,
        cotangent: &Tensor,
        draws: PassMode,
    ) -> Result<Vec<Option<Tensor>>, LearnError>;

    /// The loss as a training step pays it, and its gradients. On the processor the loss is finite.
    ///
    /// # Errors
    /// As [`Function::loss`].
    fn loss_of(
        &mut self,
        weights: &[Tensor],
        batch: &Batch,
        update: u64,
    ) -> Result<(Tensor, Vec<Option<Tensor>>), LearnError>;
}

impl<T: TensorNumber> TensorFunction for Function<TensorExecutor<T>> {
    fn logits_of(&mut self, weights: &[Tensor], batch: &Batch, draws: PassMode) -> Result<Tensor, LearnError> {
        self.pass(Question::Logits(draws.mode()), draws, |executor, key| {
            let results = executor.run_on(batch, key, weights, None)?;
            finite::<T>(&results, "logits")
        })
    }

    fn product_of(
        &mut self,
        weights: &[Tensor],
        batch: &Batch,
        cotangent: &Tensor,
        draws: PassMode,
    ) -> Result<Vec<Option<Tensor>>, LearnError> {
        self.pass(Question::Product(draws.mode()), draws, |executor, key| {
            Ok(executor.run_on(batch, key, weights, Some((COTANGENT, cotangent)))?.gradients)
        })
    }

    fn loss_of(
        &mut self,
        weights: &[Tensor],
        batch: &Batch,
        update: u64,
    ) -> Result<(Tensor, Vec<Option<Tensor>>), LearnError> {
        self.check_labels(batch)?;
        self.pass(Question::Loss, PassMode::Training(update), |executor, key| {
            let results = executor.run_on(batch, key, weights, None)?;
            Ok((finite::<T>(&results, "loss")?, results.gradients))
        })
    }
}

/// A result. On a card, to look at its numbers would be to wait for them.
fn finite<T: TensorNumber>(results: &TensorResults, name: &str) -> Result<Tensor, ExecutionFault> {
    let fault = |error: candle_core::Error| ExecutionFault::Device(error.to_string());
    let Some(found) = results.real(name) else {
        return Err(ExecutionFault::Batch(format!("the model gives no `{name}`")));
    };
    if matches!(found.device(), Device::Cpu) {
        let numbers = found.flatten_all().and_then(|flat| flat.to_vec1::<T>()).map_err(fault)?;
        if !numbers.iter().all(|x| rtc_kernel::Real::is_finite(*x)) {
            return Err(ExecutionFault::NonFinite(format!("`{name}`")));
        }
    }
    Ok(found.clone())
}
