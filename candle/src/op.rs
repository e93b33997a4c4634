//! The ops of Candle that rtc computes.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "metal")]
use candle_core::MetalStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rtc_base::batch::Batch;
use rtc_exec::learner::LearnError;
use rtc_exec::model::{Function, PassMode};
use rtc_tensor::{TensorExecutor, TensorFunction};

use crate::failure::failed;
use crate::storage;
use crate::worker::{Engine, Worker};

/// What a model is asked for about a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// Logits, from the weights.
    Logits(PassMode),
    /// The gradient of the weights, from the weights and the cotangent of the logits.
    Product(PassMode),
    /// The loss of the update with this number, and the gradient of the weights behind it, from the weights.
    Loss(u64),
}

/// A question about a batch, as an op on flat weights.
#[derive(Clone, Debug)]
pub(crate) struct BatchQuestion {
    pub(crate) worker: Arc<Worker>,
    pub(crate) batch: Arc<Batch>,
    pub(crate) ask: Ask,
    /// The shape of the answer.
    pub(crate) shape: Shape,
}

impl BatchQuestion {
    fn on_host(&self, weights: &[f32], cotangent: &[f32]) -> Result<(CpuStorage, Shape)> {
        let (ask, batch, weights, cotangent) = (self.ask, self.batch.clone(), weights.to_vec(), cotangent.to_vec());
        let numbers = self.worker.ask(move |engine| {
            let Engine::Host(function) = engine else {
                bail!("the weights are on the CPU, and this model is on another device");
            };
            function.set_weights(&weights).map_err(failed)?;
            match ask {
                Ask::Logits(draws) => function.logits(&batch, draws).map_err(failed),
                Ask::Product(draws) => function.product(&batch, &cotangent, draws).map_err(failed),
                Ask::Loss(update) => {
                    let (loss, gradient) = function.loss(&batch, update).map_err(failed)?;
                    Ok(std::iter::once(loss as f32).chain(gradient).collect())
                }
            }
        })?;
        if numbers.len() != self.shape.elem_count() {
            bail!("a fault of rtc: {} numbers, where {:?} were expected", numbers.len(), self.shape);
        }
        Ok((CpuStorage::F32(numbers), self.shape.clone()))
    }
}

/// The numbers of a contiguous tensor.
fn numbers<'s>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("a fault of rtc: flat numbers are not contiguous"),
    }
}

impl CustomOp1 for BatchQuestion {
    fn name(&self) -> &'static str {
        "rtc"
    }

    fn cpu_fwd(&self, weights: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.on_host(numbers(weights, layout)?, &[])
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, weights: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_gpu((weights, layout), None)
    }

    fn bwd(&self, weights: &Tensor, _logits: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        let Ask::Logits(draws) = self.ask else { bail!("a fault of rtc: only logits are differentiated") };
        let product = Self { ask: Ask::Product(draws), shape: weights.shape().clone(), ..self.clone() };
        weights.contiguous()?.apply_op2_no_bwd(&cotangent.contiguous()?, &product).map(Some)
    }
}

impl CustomOp2 for BatchQuestion {
    fn name(&self) -> &'static str {
        "rtc-gradient"
    }

    fn cpu_fwd(
        &self,
        weights: &CpuStorage,
        of_weights: &Layout,
        cotangent: &CpuStorage,
        of_cotangent: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_host(numbers(weights, of_weights)?, numbers(cotangent, of_cotangent)?)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        weights: &CudaStorage,
        of_weights: &Layout,
        cotangent: &CudaStorage,
        of_cotangent: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_gpu((weights, of_weights), Some((cotangent, of_cotangent)))
    }
}

/// A batch for an executor on tensors.
#[derive(Clone, Debug)]
pub(crate) struct TensorQuestion {
    pub(crate) worker: Arc<Worker>,
    pub(crate) batch: Arc<Batch>,
    /// Each weight, flat, outside of Candle's tape.
    pub(crate) weights: Arc<[Tensor]>,
}

impl TensorQuestion {
    fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Function<TensorExecutor<f32>>, &[Tensor], &Batch) -> std::result::Result<R, LearnError>
        + Send
        + 'static,
    ) -> Result<R> {
        let Self { batch, weights, .. } = self.clone();
        self.worker.ask(move |engine| {
            let Engine::Tensors(function) = engine else { bail!("a fault of rtc: this model has kernels of its own") };
            job(function, &weights, &batch).map_err(failed)
        })
    }

    /// The logits, flat.
    pub(crate) fn logits(&self, draws: PassMode) -> Result<Tensor> {
        self.ask(move |function, weights, batch| function.logits_of(weights, batch, draws))
    }

    /// The loss, and the gradient of the flat weights.
    pub(crate) fn loss(&self, update: u64) -> Result<(Tensor, Tensor)> {
        let (loss, gradients) = self.ask(move |function, weights, batch| function.loss_of(weights, batch, update))?;
        Ok((loss.reshape(())?, self.flat(&gradients)?))
    }

    /// The gradient of the flat weights, of a function of the logits with this gradient.
    fn product(&self, cotangent: &Tensor, draws: PassMode) -> Result<Tensor> {
        let cotangent = cotangent.contiguous()?.flatten_all()?;
        let gradients =
            self.ask(move |function, weights, batch| function.product_of(weights, batch, &cotangent, draws))?;
        self.flat(&gradients)
    }

    /// Gradients end to end, and zeros where there is none.
    fn flat(&self, gradients: &[Option<Tensor>]) -> Result<Tensor> {
        let part = |(gradient, weight): (&Option<Tensor>, &Tensor)| match gradient {
            Some(gradient) => gradient.flatten_all(),
            None => weight.zeros_like(),
        };
        let parts = gradients.iter().zip(&*self.weights).map(part).collect::<Result<Vec<_>>>()?;
        Tensor::cat(&parts, 0)
    }
}

/// Numbers that an executor has found for flat weights, as an op on these.
pub(crate) struct ComputedTensor {
    pub(crate) value: Tensor,
    pub(crate) backward: TensorBackward,
}

/// How numbers that were found depend on the weights.
pub(crate) enum TensorBackward {
    /// Of a scalar: its gradient.
    Known(Tensor),
    /// Of logits: a plan of its own multiplies a cotangent with their Jacobian.
    Asked(TensorQuestion, PassMode),
}

impl CustomOp1 for ComputedTensor {
    fn name(&self) -> &'static str {
        "rtc-found"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        storage::on_cpu(&self.value)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        storage::on_cuda(&self.value)
    }

    #[cfg(feature = "metal")]
    fn metal_fwd(&self, _: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        storage::on_metal(&self.value)
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        match &self.backward {
            TensorBackward::Known(gradient) => gradient.broadcast_mul(cotangent),
            TensorBackward::Asked(question, draws) => question.product(cotangent, *draws),
        }
        .map(Some)
    }
}
