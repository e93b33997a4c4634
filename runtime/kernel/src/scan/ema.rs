//! The damped moving averages of MEGA (Ma et al. 2022).
//!
//! Per channel and dimension: `p = sigmoid(delta)`, `q = 1 - p sigmoid(alpha)`, and
//! `K[l] = sum_n p_n beta_n gamma_n q_n^l / sqrt(n_dim)`.
//!
//! Source: Ma et al. 2022 (MEGA), Section 3.1, arXiv:2209.10655.

use super::super::Real;
use super::{DoubleComplex, Gradients, KernelFamily, LearnedFamily};

/// The parameters of all channels, each `[channels, dimensions]`.
#[derive(Clone, Copy, Debug)]
pub struct EmaParameters<'a, T> {
    /// Number of channels.
    pub channels: usize,
    /// Before the sigmoid: how much of the input a dimension takes.
    pub delta: &'a [T],
    /// Before the sigmoid: how fast it forgets.
    pub alpha: &'a [T],
    /// Factor on the way in.
    pub beta: &'a [T],
    /// Factor on the way out.
    pub gamma: &'a [T],
}

/// The parameters with places for their gradients.
pub type EmaGrad<'a, T> = Gradients<'a, T, EmaParameters<'a, T>, 4>;

/// One dimension, activated.
struct EmaDimension {
    /// `sigmoid(delta)`.
    taken: f64,
    /// `sigmoid(alpha)`.
    forgotten: f64,
    /// `beta gamma / sqrt(n_dim)`, and its two factors with the root.
    through: f64,
    beta: f64,
    gamma: f64,
}

impl<T: Real> EmaParameters<'_, T> {
    fn dimension(&self, channel: usize, n: usize) -> EmaDimension {
        let count = KernelFamily::<T>::modes(self);
        let at = channel * count + n;
        let sigmoid = |x: T| 1.0 / (1.0 + (-x.to_f64()).exp());
        let root = (count as f64).sqrt();
        let (beta, gamma) = (self.beta[at].to_f64(), self.gamma[at].to_f64());
        let through = beta * gamma / root;
        let (beta, gamma) = (beta / root, gamma / root);
        EmaDimension { taken: sigmoid(self.delta[at]), forgotten: sigmoid(self.alpha[at]), through, beta, gamma }
    }
}

impl<T: Real> KernelFamily<T> for EmaParameters<'_, T> {
    fn channels(&self) -> usize {
        self.channels
    }

    fn modes(&self) -> usize {
        self.delta.len() / self.channels.max(1)
    }

    /// A kernel is twice a real part, so the weights are half of those of the sum.
    fn write(&self, channel: usize, poles: &mut [DoubleComplex], weights: &mut [DoubleComplex]) {
        for (n, (pole, weight)) in poles.iter_mut().zip(weights).enumerate() {
            let one = self.dimension(channel, n);
            *pole = DoubleComplex::new(1.0 - one.taken * one.forgotten, 0.0);
            *weight = DoubleComplex::new(one.taken * one.through / 2.0, 0.0);
        }
    }
}

impl<T: Real> LearnedFamily<T> for EmaGrad<'_, T> {
    unsafe fn pull(&self, channel: usize, d_poles: &[DoubleComplex], d_weights: &[DoubleComplex]) {
        let count = d_poles.len();
        for (n, (d_pole, d_weight)) in d_poles.iter().zip(d_weights).enumerate() {
            let one = self.parameters.dimension(channel, n);
            // The gradient of a half weight is twice that of the weight.
            let (d_pole, d_weight) = (d_pole.re, d_weight.re / 2.0);
            let d_taken = d_weight * one.through - d_pole * one.forgotten;
            let d_forgotten = -d_pole * one.taken;
            let slope = |y: f64| y * (1.0 - y);
            let found = [
                d_taken * slope(one.taken),
                d_forgotten * slope(one.forgotten),
                d_weight * one.taken * one.gamma,
                d_weight * one.taken * one.beta,
            ];
            for (grad, value) in self.grads.iter().zip(found) {
                // SAFETY: only this call writes the gradients of the channel.
                unsafe { *grad.at(channel * count + n) = T::from_f64(value) };
            }
        }
    }
}
