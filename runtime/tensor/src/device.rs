//! Devices of Candle.

use candle_core::{Device, DeviceLocation};

/// A device that Candle computes on.
#[derive(Clone, Debug)]
pub struct TensorDevice(pub(crate) Device);

impl TensorDevice {
    /// The processor.
    pub fn processor() -> Self {
        Self(Device::Cpu)
    }

    /// A card of NVIDIA, counted from 0.
    ///
    /// # Errors
    /// What Candle says, or that this program was built without it.
    pub fn cuda(number: usize) -> Result<Self, String> {
        opened(cfg!(feature = "cuda"), "candle-cuda", || Device::new_cuda(number))
    }

    /// A card of Apple, counted from 0.
    ///
    /// # Errors
    /// As [`Self::cuda`].
    pub fn metal(number: usize) -> Result<Self, String> {
        opened(cfg!(feature = "metal"), "candle-metal", || Device::new_metal(number))
    }

    /// What runs record of it.
    pub fn name(&self) -> String {
        match self.0.location() {
            DeviceLocation::Cpu => "candle cpu".to_owned(),
            DeviceLocation::Cuda { gpu_id } => format!("candle cuda:{gpu_id}"),
            DeviceLocation::Metal { gpu_id } => format!("candle metal:{gpu_id}"),
        }
    }
}

impl From<Device> for TensorDevice {
    fn from(device: Device) -> Self {
        Self(device)
    }
}

fn opened(
    is_there: bool,
    feature: &str,
    open: impl FnOnce() -> candle_core::Result<Device>,
) -> Result<TensorDevice, String> {
    if !is_there {
        return Err(format!("this rtc was built without `{feature}`; build it with `--features {feature}`"));
    }
    open().map(TensorDevice).map_err(|error| format!("`--device {feature}`: {error}"))
}
