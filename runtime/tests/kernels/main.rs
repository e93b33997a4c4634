//! The CPU kernels against plain references, finite differences, and themselves on other numbers of threads.

mod attention;
mod linear;
mod moving;
mod pointwise;
mod pool;
mod relative;
mod sparse;
mod support;
mod threads;
mod training;
