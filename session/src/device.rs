//! The device of a model, its precision, and how it launches kernels.

use std::rc::Rc;

use rtc_cuda::device::{Capacity, Device};
use rtc_cuda::{Launching, overrides};
use rtc_kernel::Precision;
use rtc_tensor::TensorDevice;

use crate::failure::SessionFailure;
use crate::ranks::local_rank;

/// The kind of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor.
    #[default]
    Cpu,
    /// A graphics card.
    Cuda,
    /// Tensors of Candle on the processor.
    Candle,
    /// Tensors of Candle on a graphics card of NVIDIA.
    CandleCuda,
    /// Tensors of Candle on a graphics card of Apple.
    CandleMetal,
}

/// The device on which a model is to compute, its precision, and how it launches kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceChoice {
    /// The device.
    pub kind: DeviceKind,
    /// How exact products with weights are.
    pub precision: Precision,
    /// How work of a graphics card is started; the processor takes the default alone.
    pub launching: Launching,
}

impl DeviceChoice {
    /// Opens the device.
    ///
    /// # Errors
    /// [`SessionFailure::Usage`] where the device does not exist, or launches nothing.
    pub fn open(self) -> Result<ExecutionTarget, SessionFailure> {
        let Self { kind, precision, launching } = self;
        if kind != DeviceKind::Cuda && launching != Launching::default() {
            let message = "`--launch` is for `--device cuda`: nothing else launches kernels of its own";
            return Err(SessionFailure::Usage(message.to_owned()));
        }
        let on_candle = matches!(kind, DeviceKind::Candle | DeviceKind::CandleCuda | DeviceKind::CandleMetal);
        if on_candle && precision != Precision::F32 {
            return Err(SessionFailure::Usage(format!(
                "`--precision {}` is for `--device cpu` and `--device cuda`: Candle multiplies in single precision",
                precision.name()
            )));
        }
        let machine = match kind {
            DeviceKind::Cpu => Ok(OpenDevice::Processor),
            DeviceKind::Cuda => cuda(precision, launching).map(OpenDevice::Card),
            DeviceKind::Candle => Ok(OpenDevice::Tensors(TensorDevice::processor())),
            DeviceKind::CandleCuda => TensorDevice::cuda(local_rank()).map(OpenDevice::Tensors),
            DeviceKind::CandleMetal => TensorDevice::metal(0).map(OpenDevice::Tensors),
        };
        Ok(ExecutionTarget { machine: machine.map_err(SessionFailure::Usage)?, precision })
    }
}

/// What computes.
#[derive(Clone, Debug, Default)]
pub enum OpenDevice {
    /// The processor, with rtc's kernels.
    #[default]
    Processor,
    /// A graphics card, with rtc's kernels.
    Card(Rc<dyn Device>),
    /// A device of Candle, with Candle's kernels.
    Tensors(TensorDevice),
}

/// The device and the precision of a model's computation.
#[derive(Clone, Debug, Default)]
pub struct ExecutionTarget {
    /// What computes.
    pub machine: OpenDevice,
    /// How exact its products with weights are.
    pub precision: Precision,
}

/// A device and its memory when a command began.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is, for people.
    pub name: String,
    /// Its memory.
    pub capacity: Capacity,
    /// How exact products are on it.
    pub precision: Precision,
}

impl ExecutionTarget {
    /// The graphics card that rtc's kernels run on, if they do.
    pub fn device(&self) -> Option<&Rc<dyn Device>> {
        match &self.machine {
            OpenDevice::Card(device) => Some(device),
            OpenDevice::Processor | OpenDevice::Tensors(_) => None,
        }
    }

    /// The device with its memory; nothing for the processor, and for Candle, which does not say how much it has.
    pub fn card(&self) -> Result<Option<Card>, SessionFailure> {
        let Some(device) = self.device() else { return Ok(None) };
        let name = device.name();
        match device.capacity() {
            Some(capacity) => Ok(Some(Card { name, capacity, precision: self.precision })),
            None => Err(SessionFailure::Usage(format!("{name} does not say how much memory it has"))),
        }
    }

    /// What runs record of it; nothing for the processor in single precision.
    pub fn record(&self) -> Option<String> {
        let (name, overrides) = match &self.machine {
            OpenDevice::Card(device) => (device.name(), overrides(std::env::vars_os())),
            OpenDevice::Processor if self.precision == Precision::F32 => return None,
            OpenDevice::Processor => ("cpu".to_owned(), vec![]),
            OpenDevice::Tensors(device) => (device.name(), vec![]),
        };
        Some([vec![name, self.precision.name().to_owned()], overrides].concat().join(", "))
    }
}

#[cfg(feature = "cuda")]
fn cuda(precision: Precision, launching: Launching) -> Result<Rc<dyn Device>, String> {
    let gpu = rtc_cuda::driver::Gpu::open_for(local_rank(), precision, launching);
    gpu.map_err(|reason| format!("`--device cuda`: {reason}"))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: Precision, _: Launching) -> Result<Rc<dyn Device>, String> {
    Err("this rtc was built without CUDA; build it with `--features cuda`".to_owned())
}
