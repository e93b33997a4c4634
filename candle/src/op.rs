//! The ops of Candle that rtc computes.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rtc_base::batch::Batch;
use rtc_exec::model::PassMode;

use crate::failure::failed;
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
            #[cfg_attr(
                not(feature = "cuda"),
                allow(irrefutable_let_patterns, reason = "there is another machine with it")
            )]
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

/// A number of which the gradient is known.
pub(crate) struct KnownGradient {
    pub(crate) value: Tensor,
    pub(crate) gradient: Tensor,
}

impl CustomOp1 for KnownGradient {
    fn name(&self) -> &'static str {
        "rtc-loss"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![self.value.to_scalar()?]), Shape::from(())))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        crate::gpu::storage(&self.value)
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        self.gradient.broadcast_mul(cotangent).map(Some)
    }
}
