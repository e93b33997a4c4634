//! CPU kernels: pure functions over flat slices, vectorised, threaded, and exact to the bit for any number of threads.
//!
//! - **Layout.** Activations are packed: rows of different length laid end to end, without padding. A ragged axis is
//!   described by `offsets` (rows + 1 numbers, rising from 0, in positions); a fixed axis by the same description.
//!   Everything is contiguous and row-major. Weights of a linear map are `[out, in]`.
//! - **Determinism.** Work is cut into blocks whose size depends on shapes alone, partial sums are combined in the
//!   order of the blocks, and a block never looks at the number of threads.
//! - **Row independence.** The result for a row of a product with a weight, of `layer_norm` and of everything
//!   elementwise has the same bits whatever other rows stand beside it, so leaving out halted rows changes nothing.
//! - **Speed.** Inner loops run under `pulp`'s run-time dispatch (AVX2 or AVX-512 where the machine has it), products
//!   read weights that were packed once; what works unit by unit leaves threads to its caller.
//!
//! Sizes are checked with `debug_assert`: a wrong size is a bug of the caller, never of the user.
//!
//! ```
//! let mut y = [0.0; 4];
//! rtc_kernel::softmax::softmax(&[1.0, 2.0, 3.0, 3.0], 2, &mut y);
//! assert!((y[0] + y[1] - 1.0_f64).abs() < 1e-15);
//! assert_eq!(y[2..], [0.5, 0.5]);
//! ```
//!
//! Source: rtc; every kernel names its own.
#![allow(
    unsafe_code,
    reason = "tasks write disjoint parts of one slice, and inner loops read within bounds that were checked before"
)]
#![allow(clippy::too_many_arguments, reason = "a kernel takes flat slices and sizes; a struct would only rename them")]

pub mod array_update;
pub mod attention;
pub mod beam;
pub mod channels;
pub mod clip;
pub mod continuous;
pub mod draw;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod formula;
pub mod fourier;
pub mod geometric_attention;
pub mod linear;
pub mod loss;
mod math;
pub mod matrix;
pub mod muon;
pub mod norm;
pub mod optimiser;
pub mod ordered_memory;
mod pairs;
pub mod parallel;
pub mod pointwise;
pub mod pool;
pub mod position;
mod precision;
pub mod product;
pub mod real;
pub mod scan;
pub mod softmax;
mod tile;
pub mod top;
pub mod top_keys;
pub mod truth;
pub mod unit;
pub mod vectors;

pub use parallel::Write;
pub use precision::Precision;
pub use real::Real;
pub use vectors::Vectors;
