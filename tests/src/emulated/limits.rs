//! What every GPU that rtc knows can launch: the tables of "Compute Capabilities" in NVIDIA's CUDA C++ Programming Guide.

use rtc_cuda::device::LaunchShape;
use rtc_cuda::memory::WARP;

/// Blocks along each axis of a launch.
pub const GRID: [u32; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// Threads of a block.
pub const THREADS: u32 = 1024;

/// Bytes of shared memory of a block that are declared, and not asked for by its launch.
pub const SHARED: usize = 48 << 10;

/// # Errors
/// What a device refuses about a launch, or what no kernel here is made for.
pub fn launch(shape: LaunchShape) -> Result<(), String> {
    for (axis, (blocks, most)) in shape.grid.into_iter().zip(GRID).enumerate() {
        if blocks == 0 || blocks > most {
            return Err(format!("{blocks} blocks along axis {axis}, where 1 to {most} are allowed"));
        }
    }
    let threads = shape.threads;
    if threads == 0 || threads > THREADS || !threads.is_multiple_of(WARP) {
        return Err(format!("blocks of {threads} threads, where whole warps up to {THREADS} are allowed"));
    }
    Ok(())
}

/// # Errors
/// When a block has no room for so many bytes of shared memory.
pub fn shared(bytes: usize) -> Result<(), String> {
    if bytes > SHARED {
        return Err(format!("{bytes} bytes of shared memory, where {SHARED} are allowed"));
    }
    Ok(())
}
