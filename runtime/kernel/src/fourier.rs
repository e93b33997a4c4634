//! Fourier transforms of real numbers, planned once per size for the life of the process.
//!
//! Source: rtc.

use std::sync::{Arc, OnceLock};

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};

/// Number of sizes; the largest is beyond any memory.
pub const SIZES: usize = 120;

/// Transforms of one size. The inverse is not divided by the size.
pub trait Transform<T>: Send + Sync {
    /// Numbers of scratch that both directions take.
    fn scratch(&self) -> usize;
    /// The spectrum, `size / 2 + 1` numbers, of `size` real numbers, which are overwritten.
    fn forward(&self, x: &mut [T], spectrum: &mut [Complex<T>], scratch: &mut [Complex<T>]);
    /// `size` real numbers from their spectrum, which is overwritten.
    fn inverse(&self, spectrum: &mut [Complex<T>], x: &mut [T], scratch: &mut [Complex<T>]);
}

/// The plans of one number type, made when they are first asked for.
pub type Plans<T> = [OnceLock<FourierPlan<T>>; SIZES];

/// A planned size.
pub struct FourierPlan<T> {
    forward: Arc<dyn RealToComplex<T>>,
    inverse: Arc<dyn ComplexToReal<T>>,
}

impl<T: FftNum> FourierPlan<T> {
    /// Plans the n-th size.
    pub fn new(n: usize) -> Self {
        let mut planner = RealFftPlanner::new();
        Self { forward: planner.plan_fft_forward(size(n)), inverse: planner.plan_fft_inverse(size(n)) }
    }
}

impl<T: FftNum> Transform<T> for FourierPlan<T> {
    fn scratch(&self) -> usize {
        self.forward.get_scratch_len().max(self.inverse.get_scratch_len())
    }

    fn forward(&self, x: &mut [T], spectrum: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        self.forward.process_with_scratch(x, spectrum, scratch).expect("the lengths are those of the plan");
    }

    fn inverse(&self, spectrum: &mut [Complex<T>], x: &mut [T], scratch: &mut [Complex<T>]) {
        // Both ends of the spectrum of real numbers are real; a NaN there must not look like a mistake.
        let last = spectrum.len() - 1;
        spectrum[0].im = T::zero();
        spectrum[last].im = T::zero();
        self.inverse.process_with_scratch(spectrum, x, scratch).expect("the lengths are those of the plan");
    }
}

/// The n-th size: 4, 5, 6, 8, 10, 12, 16, ... All are even from 8 on, and at most a third larger than the one before.
pub fn size(n: usize) -> usize {
    (4 + n % 3) << (n / 3)
}

/// The number of the smallest size that holds `count` numbers.
pub fn holding(count: usize) -> usize {
    let count = count.max(4);
    // The power of two that holds the count; below it lie 5 and 6 eighths of it.
    let power = usize::BITS - (count - 1).leading_zeros();
    let eighths = count.div_ceil((1 << power >> 3).max(1));
    let below = if power == 2 || eighths > 6 { 0 } else { eighths.max(5) - 4 };
    let n = 3 * (power as usize - 2);
    if below == 0 { n } else { n - 3 + below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_by_at_most_a_third() {
        for n in 0..60 {
            assert!(size(n) < size(n + 1) && 3 * size(n + 1) <= 4 * size(n), "{n}");
        }
        for count in 0..5000 {
            let n = (0..SIZES).find(|n| size(*n) >= count);
            assert_eq!(n, Some(holding(count)), "{count}");
        }
    }
}
