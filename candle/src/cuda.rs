//! Tensors on a GPU. Weights, cotangents, logits and gradients stay there: rtc copies them inside the device, in a stream of its own, which
//! waits for Candle's and is waited for by it. Token ids alone come to the host.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use candle_core::{CudaStorage, Layout, Result, Shape, bail};
use rtc_cuda::{DeviceFunction, DeviceSpan};

use crate::failure::failed;
use crate::gpu::GpuEngine;
use crate::op::{Ask, BatchQuestion};
use crate::worker;

/// The numbers of a contiguous tensor, for as long as the stream may read them.
fn with_span<R>(
    (storage, layout): (&CudaStorage, &Layout),
    stream: &CudaStream,
    then: impl FnOnce(DeviceSpan) -> Result<R>,
) -> Result<R> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("a fault of rtc: flat numbers are not contiguous")
    };
    let numbers = storage.as_cuda_slice::<f32>()?.slice(start..end);
    let (at, _reading) = numbers.device_ptr(stream);
    then(DeviceSpan { at, len: end - start })
}

impl BatchQuestion {
    pub(crate) fn on_gpu(
        &self,
        weights: (&CudaStorage, &Layout),
        cotangent: Option<(&CudaStorage, &Layout)>,
    ) -> Result<(CudaStorage, Shape)> {
        let device = weights.0.device();
        let stream = device.cuda_stream();
        #[allow(unsafe_code, reason = "memory whose numbers are written before anybody reads them")]
        // SAFETY: the executor writes every number.
        let mut found: CudaSlice<f32> = unsafe { device.alloc(self.shape.elem_count())? };
        {
            let (at, _writing) = found.device_ptr_mut(&stream);
            let to = DeviceSpan { at, len: self.shape.elem_count() };
            with_span(weights, &stream, |weights| match cotangent {
                Some(cotangent) => {
                    with_span(cotangent, &stream, |cotangent| self.start(&stream, weights, Some(cotangent), to))
                }
                None => self.start(&stream, weights, None, to),
            })?;
        }
        Ok((CudaStorage::wrap_cuda_slice(found, device.clone()), self.shape.clone()))
    }

    /// Starts the work behind all that the stream was given so far, and lets the stream wait for it.
    fn start(
        &self,
        stream: &CudaStream,
        weights: DeviceSpan,
        cotangent: Option<DeviceSpan>,
        to: DeviceSpan,
    ) -> Result<()> {
        // An address of the driver's, which every thread may use.
        let stream = stream.cu_stream() as usize;
        let (ask, batch) = (self.ask, self.batch.clone());
        self.worker.ask(move |engine| {
            let worker::Engine::Gpu(engine) = engine else {
                bail!("the weights are on a GPU, and this model is on the CPU");
            };
            let GpuEngine { gpu, function } = &mut **engine;
            gpu.wait_for(stream as *mut _);
            function.take_weights(weights).map_err(failed)?;
            let asked = match (ask, cotangent) {
                (Ask::Logits(draws), _) => function.logits_to(&batch, draws, to),
                (Ask::Product(draws), Some(cotangent)) => function.product_to(&batch, cotangent, draws, to),
                (Ask::Product(_), None) => bail!("a fault of rtc: a gradient needs a cotangent"),
                (Ask::Loss(update), _) => {
                    let (loss, gradients) = to.split(1, size_of::<f32>());
                    function.loss_to(&batch, update, loss, gradients)
                }
            };
            // Even after a failure: something that was started may still read or write.
            gpu.hold_back(stream as *mut _);
            asked.map_err(failed)
        })
    }
}
