//! Scans: every channel of every row convolved with a long kernel of its own, which a few exponentials make.
//!
//! The kernel of a channel is `K[l] = 2 Re sum_m w_m a_m^l`, with poles `a` and weights `w` from the parameters of a
//! [`Family`]: [`s4d`] (diagonal state spaces) or [`ema`] (damped moving averages). `modes` makes the numbers of the kernel
//! and differentiates them, `convolve` applies them, `fourier` holds the transforms.
//!
//! - **Rows are independent.** A row is convolved directly or by a transform of a size that follows from its own length, so
//!   its bits depend neither on its neighbours nor on the number of threads. Nothing is padded but the transform itself.
//! - **Memory.** A task is a block of channels. It makes the kernel of one channel at a time in its thread's scratch:
//!   numbers proportional to the longest row, and tables of powers that no length makes longer.
//! - **Precision.** Poles, weights and their powers are double precision; tables are rounded once. In single precision the
//!   result is within 4e-7 of the exact sum, relative to `sum |K| max |x|`, up to rows of 16,384.

mod convolve;
pub mod ema;
pub mod fourier;
mod modes;
pub mod s4d;

use realfft::num_complex::Complex;

use super::Real;
use super::parallel::{Parts, block, each};
use convolve::{Rows, Work};

/// A complex number in double precision.
pub type Pair = Complex<f64>;

/// Channels of one task: those that share a cache line.
const CHANNELS: usize = 16;

/// From which side a row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `y[t]` sees the positions up to t: causal.
    Left,
    /// `y[t]` sees the positions from t on.
    Right,
}

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
pub trait Family<T: Real>: Sync {
    /// Number of channels.
    fn channels(&self) -> usize;
    /// Number of exponentials of a kernel.
    fn modes(&self) -> usize;
    /// Poles (of absolute value up to 1) and weights of a channel.
    fn write(&self, channel: usize, poles: &mut [Pair], weights: &mut [Pair]);
}

/// A family that takes gradients back to its parameters.
pub trait Learned<T: Real>: Family<T> {
    /// Sets the gradients of a channel's parameters from those of its poles and weights, each
    /// `d/d Re + i d/d Im` (of the loss).
    ///
    /// # Safety
    /// No other call for this channel may run.
    unsafe fn pull(&self, channel: usize, poles: &[Pair], weights: &[Pair]);
}

/// `y` = the scan of `x[positions, channels]`, row by row.
pub fn scan<T: Real>(family: &impl Family<T>, how: Scan, x: &[T], offsets: &[usize], y: &mut [T]) {
    let rows = Rows::new(offsets, family.channels(), how);
    debug_assert!(x.len() == y.len() && x.len() == offsets[offsets.len() - 1] * rows.channels);
    let y = Parts::new(y);
    each_channel(family, &rows, false, |channel, work| {
        work.make(family, channel);
        // SAFETY: every channel has elements of its own.
        unsafe { convolve::forward(&rows, channel, work, x, &y) };
    });
}

/// The gradient of [`scan`] for `x`, and those of the parameters through [`Learned::pull`].
pub fn scan_grad<T: Real>(family: &impl Learned<T>, how: Scan, x: &[T], dy: &[T], offsets: &[usize], dx: &mut [T]) {
    let rows = Rows::new(offsets, family.channels(), how);
    debug_assert!(x.len() == dx.len() && x.len() == dy.len());
    let dx = Parts::new(dx);
    each_channel(family, &rows, true, |channel, work| {
        work.make(family, channel);
        // SAFETY: every channel has elements of its own.
        unsafe { convolve::backward(&rows, channel, work, x, dy, &dx) };
        work.differentiate();
        // SAFETY: this is the only task of the channel.
        unsafe { family.pull(channel, work.poles, work.weights) };
    });
}

/// Runs `task` for every channel, in blocks that threads share, with scratch of the thread.
fn each_channel<T: Real>(
    family: &impl Family<T>,
    rows: &Rows<'_>,
    backward: bool,
    task: impl Fn(usize, &mut Work<'_, T>) + Sync + Send,
) {
    let channels = family.channels();
    let positions = rows.offsets[rows.offsets.len() - 1];
    let size = convolve::size::<T>(rows, family.modes(), backward);
    let work = channels * (positions * 64 + size.taps * family.modes() / 2);
    each(channels.div_ceil(CHANNELS), work, |n| {
        f64::with_scratch(size.total(), |memory| {
            let mut work = Work::carve(memory, &size);
            block(n, CHANNELS, channels).for_each(|channel| task(channel, &mut work));
        });
    });
}
