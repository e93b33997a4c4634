//! Scans: every channel of every row convolved with a long kernel of its own, which a few exponentials make.
//!
//! The kernel of a channel is `K[l] = 2 Re sum_m w_m a_m^l`, with poles `a` and weights `w` from the parameters of a
//! [`KernelFamily`]: [`s4d`] (diagonal state spaces) or [`ema`] (damped moving averages). `modes` makes the numbers of the kernel
//! and differentiates them, `convolve` applies them by the transforms of [`crate::fourier`].
//!
//! - **Rows are independent.** A row is convolved directly or by a transform of a size that follows from its own length, so
//!   its bits depend neither on its neighbours nor on the number of threads. Nothing is padded but the transform itself.
//! - **Memory.** A task is a block of channels. It copies their columns together and makes the kernel of one channel at a time,
//!   in its thread's scratch: numbers proportional to the positions and to the longest row, and tables of powers that no
//!   length makes longer.
//! - **Precision.** Poles, weights and their powers are double precision; tables are rounded once. In single precision the
//!   result is within 4e-7 of the exact sum, relative to `sum |K| max |x|`, up to rows of 16,384.
//!
//! Source: Gu et al. 2022 (S4D), arXiv:2206.11893.

mod convolve;
pub mod ema;
mod modes;
pub mod s4d;
pub mod state;

pub use rtc_compiler::ir::attribute::Side;
use std::ops::Range;

use realfft::num_complex::Complex;

use super::Real;
use super::parallel::{DisjointSlice, block, each};
use convolve::{ConvolutionScratch, ScanRows, cut};

/// A complex number in double precision.
pub type DoubleComplex = Complex<f64>;

/// Channels of one task: those that share a cache line.
const CHANNELS: usize = 16;

/// What a scan does with its kernel: `y[t] = sum over s of K[|t - s| - lag] x[s]`, over the positions of one side that are at
/// least `lag` away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The side that is seen.
    pub side: Side,
    /// Distance of the nearest position that is seen.
    pub lag: usize,
}

/// Parameters that make a kernel per channel.
pub trait KernelFamily<T: Real>: Sync {
    /// Number of channels.
    fn channels(&self) -> usize;
    /// Number of exponentials of a kernel.
    fn modes(&self) -> usize;
    /// Poles (of absolute value up to 1) and weights of a channel.
    fn write(&self, channel: usize, poles: &mut [DoubleComplex], weights: &mut [DoubleComplex]);
}

/// A family that takes gradients back to its parameters.
pub trait LearnedFamily<T: Real>: KernelFamily<T> {
    /// Sets the gradients of a channel's parameters from those of its poles and weights, each
    /// `d/d Re + i d/d Im` (of the loss).
    ///
    /// # Safety
    /// No other call for this channel may run.
    unsafe fn pull(&self, channel: usize, poles: &[DoubleComplex], weights: &[DoubleComplex]);
}

/// The parameters of a family with places for their gradients, which have the same shapes.
pub struct Gradients<'a, T, P, const N: usize> {
    parameters: P,
    grads: [DisjointSlice<'a, T>; N],
}

impl<'a, T: Real, P: KernelFamily<T>, const N: usize> Gradients<'a, T, P, N> {
    /// Gradients go to `grads`, in the order of the fields.
    pub fn new(parameters: P, grads: [&'a mut [T]; N]) -> Self {
        Self { parameters, grads: grads.map(DisjointSlice::new) }
    }
}

impl<T: Real, P: KernelFamily<T>, const N: usize> KernelFamily<T> for Gradients<'_, T, P, N> {
    fn channels(&self) -> usize {
        self.parameters.channels()
    }

    fn modes(&self) -> usize {
        self.parameters.modes()
    }

    fn write(&self, channel: usize, poles: &mut [DoubleComplex], weights: &mut [DoubleComplex]) {
        self.parameters.write(channel, poles, weights);
    }
}

/// `y` = the scan of `x[positions, channels]`, row by row.
pub fn scan<T: Real>(family: &impl KernelFamily<T>, how: Scan, x: &[T], offsets: &[usize], y: &mut [T]) {
    let rows = ScanRows::new(offsets, how);
    each_channel(family, &rows, [x], y, |channel, work, [column]| {
        work.make(family, channel);
        convolve::forward(&rows, work, column);
    });
}

/// The gradient of [`scan`] for `x`, and those of the parameters through [`LearnedFamily::pull`].
pub fn scan_grad<T: Real>(
    family: &impl LearnedFamily<T>,
    how: Scan,
    x: &[T],
    dy: &[T],
    offsets: &[usize],
    dx: &mut [T],
) {
    let rows = ScanRows::new(offsets, how);
    each_channel(family, &rows, [dy, x], dx, |channel, work, [column, x]| {
        work.make(family, channel);
        convolve::backward(&rows, work, x, column);
        work.differentiate();
        // SAFETY: this is the only task of the channel.
        unsafe { family.pull(channel, work.poles, work.weights) };
    });
}

/// Runs `task` for every channel with columns of the inputs, and writes the first column, which the task replaces, to `out`.
///
/// Threads share blocks of channels. A block is copied together first: one channel of many positions would touch a cache
/// line for each.
fn each_channel<T: Real, const N: usize>(
    family: &impl KernelFamily<T>,
    rows: &ScanRows<'_>,
    inputs: [&[T]; N],
    out: &mut [T],
    task: impl Fn(usize, &mut ConvolutionScratch<'_, T>, [&mut [T]; N]) + Sync + Send,
) {
    let (channels, positions) = (family.channels(), rows.offsets[rows.offsets.len() - 1]);
    debug_assert!(inputs.iter().all(|x| x.len() == out.len()) && out.len() == channels * positions);
    let out = DisjointSlice::new(out);
    let size = convolve::size::<T>(rows, family.modes(), N > 1);
    let work = channels * (positions * 64 + size.taps * family.modes() / 2);
    each(channels.div_ceil(CHANNELS), work, |n| {
        let own = block(n, CHANNELS, channels);
        let len = own.len() * positions;
        f64::with_scratch(size.total() + N * size.doubles(len), |mut memory| {
            // SAFETY: numbers.
            let mut blocks = inputs.map(|_| unsafe { cut::<T>(&mut memory, size.doubles(len), len) });
            for (block, x) in blocks.iter_mut().zip(inputs) {
                take_columns(x, channels, own.clone(), block);
            }
            let mut work = ConvolutionScratch::carve(memory, &size);
            for (n, channel) in own.clone().enumerate() {
                let columns = blocks.each_mut().map(|block| &mut block[n * positions..(n + 1) * positions]);
                task(channel, &mut work, columns);
            }
            // SAFETY: every block has channels of its own.
            unsafe { put_columns(blocks[0], channels, own, &out) };
        });
    });
}

/// Positions that are copied together.
const POSITIONS: usize = 16;

/// Copies some channels of `x[positions, channels]` to columns, one after the other.
fn take_columns<T: Real>(x: &[T], channels: usize, own: Range<usize>, columns: &mut [T]) {
    let positions = x.len() / channels.max(1);
    for first in (0..positions).step_by(POSITIONS) {
        let some = first..positions.min(first + POSITIONS);
        for (n, channel) in own.clone().enumerate() {
            for (place, position) in columns[n * positions..][some.clone()].iter_mut().zip(some.clone()) {
                *place = x[position * channels + channel];
            }
        }
    }
}

/// The inverse of [`take_columns`].
///
/// # Safety
/// The task owns these channels.
unsafe fn put_columns<T: Real>(columns: &[T], channels: usize, own: Range<usize>, out: &DisjointSlice<'_, T>) {
    let positions = columns.len() / own.len().max(1);
    for position in 0..positions {
        let start = position * channels;
        // SAFETY: the caller's promise.
        let out = unsafe { out.part(start + own.start..start + own.end) };
        for (n, out) in out.iter_mut().enumerate() {
            *out = columns[n * positions + position];
        }
    }
}
