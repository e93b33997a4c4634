//! The CPU kernels against plain references, finite differences, and themselves on other numbers of threads.

mod attention;
mod beam;
mod composition;
mod draw;
mod geometric_attention;
mod linear;
mod matrix;
mod moving;
mod pointwise;
mod pool;
mod precision;
mod relative;
mod scan;
mod softmax;
mod sparse;
mod steps;
mod support;
mod talking;
mod threads;
mod top;
mod training;
