//! A scan as a recurrence: what the positions of a row so far leave for the next one.
//!
//! Per exponential, `h[t] = a h[t-1] + x[t - lag]`, and `y[t] = 2 Re sum w h[t]`: the convolution of [`scan`](super::scan), one
//! position after the other, in double precision.
//!
//! Source: Gu et al. 2022 (S4D), arXiv:2206.11893.

use super::{DoubleComplex, KernelFamily, Scan};
use crate::Real;
use crate::parallel::vectorised;

/// The state of the scan of one row.
#[derive(Clone, Debug)]
pub struct ScanState {
    channels: usize,
    modes: usize,
    /// Poles and weights, real and imaginary parts: each `[channels, modes]`.
    poles: [Vec<f64>; 2],
    weights: [Vec<f64>; 2],
    /// `h`, likewise.
    sums: [Vec<f64>; 2],
    /// The last `lag` inputs, `[lag, channels]`, the oldest first.
    waiting: Vec<f64>,
}

impl ScanState {
    /// Before the first position of a scan from the left.
    pub fn new<T: Real>(family: &impl KernelFamily<T>, how: Scan) -> Self {
        let (channels, modes) = (family.channels(), family.modes());
        let zeros = || [vec![0.0; channels * modes], vec![0.0; channels * modes]];
        let (mut poles, mut weights) = (zeros(), zeros());
        let mut pairs = [vec![DoubleComplex::default(); modes], vec![DoubleComplex::default(); modes]];
        for channel in 0..channels {
            let [of_poles, of_weights] = &mut pairs;
            family.write(channel, of_poles, of_weights);
            for (parts, pairs) in [(&mut poles, &*of_poles), (&mut weights, &*of_weights)] {
                for (m, pair) in pairs.iter().enumerate() {
                    parts[0][channel * modes + m] = pair.re;
                    parts[1][channel * modes + m] = pair.im;
                }
            }
        }
        Self { channels, modes, poles, weights, sums: zeros(), waiting: vec![0.0; how.lag * channels] }
    }

    /// `y[positions, channels]` of the next positions `x`.
    pub fn extend<T: Real>(&mut self, x: &[T], y: &mut [T]) {
        for (x, y) in x.chunks_exact(self.channels).zip(y.chunks_exact_mut(self.channels)) {
            self.waiting.extend(x.iter().map(|x| x.to_f64()));
            vectorised!(self.step(y));
            self.waiting.drain(..self.channels);
        }
    }

    /// One position, whose input is the first that waits.
    #[inline(always)]
    fn step<T: Real>(&mut self, y: &mut [T]) {
        let modes = self.modes;
        for (channel, (y, x)) in y.iter_mut().zip(&self.waiting).enumerate() {
            let at = channel * modes..(channel + 1) * modes;
            let [pole_re, pole_im] = self.poles.each_ref().map(|part| &part[at.clone()]);
            let [weight_re, weight_im] = self.weights.each_ref().map(|part| &part[at.clone()]);
            let [sum_re, sum_im] = self.sums.each_mut().map(|part| &mut part[at.clone()]);
            let mut total = 0.0;
            for m in 0..modes {
                let re = pole_re[m] * sum_re[m] - pole_im[m] * sum_im[m] + x;
                let im = pole_re[m] * sum_im[m] + pole_im[m] * sum_re[m];
                (sum_re[m], sum_im[m]) = (re, im);
                total += weight_re[m] * re - weight_im[m] * im;
            }
            *y = T::from_f64(2.0 * total);
        }
    }
}
