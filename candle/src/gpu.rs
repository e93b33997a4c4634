//! A model on a GPU of Candle.

use std::rc::Rc;

use candle_core::{CudaDevice, Result};
use rtc_compiler::plan::Plan;
use rtc_cuda::driver::Gpu;
use rtc_cuda::{DeviceExecutor, Launching};
use rtc_exec::model::Function;
use rtc_kernel::Precision;

use crate::failure::failed;

/// A model on a GPU.
pub(crate) struct GpuEngine {
    pub(crate) gpu: Rc<Gpu>,
    pub(crate) function: Function<DeviceExecutor<f32>>,
}

/// Opens the GPU of a device of Candle, and gives what makes an executor there.
pub(crate) fn open(
    device: &CudaDevice,
    precision: Precision,
) -> Result<(Rc<Gpu>, impl FnOnce(Plan) -> DeviceExecutor<f32>)> {
    let number = device.cuda_stream().context().ordinal();
    let gpu = Gpu::open_number(number, precision, Launching::Graph).map_err(failed)?;
    let own = gpu.clone();
    Ok((gpu, |plan: Plan| DeviceExecutor::new(plan.into(), own)))
}
