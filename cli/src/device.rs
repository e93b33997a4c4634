//! `--device`, `--precision` and `--launch`: the device of a model, its precision, and how it launches kernels.

use std::rc::Rc;

use clap::{Args, ValueEnum};
use rtc_cuda::device::{Capacity, Device};
use rtc_cuda::{Launching, overrides};
use rtc_kernel::Precision;

use crate::choice::choice;
use crate::failure::CommandFailure;
#[cfg(feature = "cuda")]
use crate::ranks::local_rank;

/// Where a command computes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DeviceOptions {
    /// Where to compute
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    device: DeviceArg,
    /// How exact matrix products with weights are: bf16 is faster where the machine has it
    #[arg(long, value_enum, default_value_t = PrecisionArg::F32)]
    precision: PrecisionArg,
    /// How the work of `--device cuda` is started; the numbers are the same
    #[arg(long, value_enum, default_value_t = LaunchArg::Graph)]
    launch: LaunchArg,
}

/// `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DeviceArg {
    /// The processor
    #[default]
    Cpu,
    /// A graphics card
    Cuda,
}

choice! {
    /// `--precision`.
    #[derive(Default)]
    enum PrecisionArg for Precision {
        /// Single precision
        #[default]
        F32,
        /// Operands are rounded to 10 bits behind the point
        Tf32,
        /// Operands are rounded to 7 bits behind the point
        Bf16,
    }
}

choice! {
    /// `--launch`.
    #[derive(Default)]
    enum LaunchArg for Launching {
        /// What comes again is recorded as a CUDA graph and replayed
        #[default]
        Graph,
        /// Kernel by kernel
        Direct,
    }
}

impl DeviceOptions {
    /// Where and how exactly a model of these options computes.
    pub(crate) fn open(self) -> Result<ExecutionTarget, CommandFailure> {
        let precision = self.precision.into();
        let device = match self.device {
            DeviceArg::Cpu if self.launch != LaunchArg::Graph => Err(CommandFailure::Usage(
                "`--launch` is for `--device cuda`: the processor launches nothing".to_owned(),
            )),
            DeviceArg::Cpu => Ok(None),
            DeviceArg::Cuda => cuda(precision, self.launch.into()).map(Some).map_err(CommandFailure::Usage),
        }?;
        Ok(ExecutionTarget { device, precision })
    }
}

/// The device and the precision of a model's computation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExecutionTarget {
    /// The device; none for the processor.
    pub(crate) device: Option<Rc<dyn Device>>,
    /// How exact its products with weights are.
    pub(crate) precision: Precision,
}

/// A device and its memory when a command began.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    /// What it is, for people.
    pub(crate) name: String,
    /// Its memory.
    pub(crate) capacity: Capacity,
    /// How exact products are on it.
    pub(crate) precision: Precision,
}

impl ExecutionTarget {
    /// The device with its memory; nothing for the processor.
    pub(crate) fn card(&self) -> Result<Option<Card>, CommandFailure> {
        let Some(device) = &self.device else { return Ok(None) };
        let name = device.name();
        match device.capacity() {
            Some(capacity) => Ok(Some(Card { name, capacity, precision: self.precision })),
            None => Err(CommandFailure::Usage(format!("{name} does not say how much memory it has"))),
        }
    }

    /// What runs record of it; nothing for the processor in single precision.
    pub(crate) fn record(&self) -> Option<String> {
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
