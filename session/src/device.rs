//! The device of a model, its precision, and how it launches kernels.

use std::rc::Rc;

use rtc_cuda::device::{Capacity, Device};
use rtc_cuda::{Launching, overrides};
use rtc_kernel::Precision;

use crate::failure::SessionFailure;
#[cfg(feature = "cuda")]
use crate::ranks::local_rank;

/// The kind of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor.
    #[default]
    Cpu,
    /// A graphics card.
    Cuda,
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
        let device = match kind {
            DeviceKind::Cpu if launching != Launching::default() => Err(SessionFailure::Usage(
                "`--launch` is for `--device cuda`: the processor launches nothing".to_owned(),
            )),
            DeviceKind::Cpu => Ok(None),
            DeviceKind::Cuda => cuda(precision, launching).map(Some).map_err(SessionFailure::Usage),
        }?;
        Ok(ExecutionTarget { device, precision })
    }
}

/// The device and the precision of a model's computation.
#[derive(Clone, Debug, Default)]
pub struct ExecutionTarget {
    /// The device; none for the processor.
    pub device: Option<Rc<dyn Device>>,
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
    /// The device with its memory; nothing for the processor.
    pub fn card(&self) -> Result<Option<Card>, SessionFailure> {
        let Some(device) = &self.device else { return Ok(None) };
        let name = device.name();
        match device.capacity() {
            Some(capacity) => Ok(Some(Card { name, capacity, precision: self.precision })),
            None => Err(SessionFailure::Usage(format!("{name} does not say how much memory it has"))),
        }
    }

    /// What runs record of it; nothing for the processor in single precision.
    pub fn record(&self) -> Option<String> {
        let (name, overrides) = match &self.device {
            Some(device) => (device.name(), overrides(std::env::vars_os())),
            None if self.precision == Precision::F32 => return None,
            None => ("cpu".to_owned(), vec![]),
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
