//! The storage of a tensor, as an op of Candle gives it: a copy on the device. A copy of storage has all of it, so the tensor is laid out first.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "metal")]
use candle_core::MetalStorage;
use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Result, Shape, Storage, Tensor, bail};

/// That of a tensor on the CPU.
pub(crate) fn on_cpu(tensor: &Tensor) -> Result<(CpuStorage, Shape)> {
    let tensor = tensor.force_contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("a fault of rtc: a number is not on the CPU") };
    Ok((storage.try_clone(layout)?, layout.shape().clone()))
}

/// That of a tensor on a GPU of NVIDIA.
#[cfg(feature = "cuda")]
pub(crate) fn on_cuda(tensor: &Tensor) -> Result<(CudaStorage, Shape)> {
    let tensor = tensor.force_contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else { bail!("a fault of rtc: a number is not on the device") };
    Ok((storage.try_clone(layout)?, layout.shape().clone()))
}

/// That of a tensor on a GPU of Apple.
#[cfg(feature = "metal")]
pub(crate) fn on_metal(tensor: &Tensor) -> Result<(MetalStorage, Shape)> {
    let tensor = tensor.force_contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Metal(storage) = &*storage else { bail!("a fault of rtc: a number is not on the device") };
    Ok((storage.try_clone(layout)?, layout.shape().clone()))
}
