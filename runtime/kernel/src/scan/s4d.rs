//! S4D: the kernels of diagonal state spaces (Gu et al. 2022, arXiv 2206.11893), discretised by one of two rules.
//!
//! Per channel: `dt = exp(log_dt)`. Per mode: `A = -exp(log_decay) - i frequency`, `z = dt A / 2`, and by the bilinear rule
//! `a = (1 + z) / (1 - z)`, `w = C B dt / (1 - z)`; with the input held between two positions (zero-order hold) `a = exp(2 z)`,
//! `w = C B dt (exp(2 z) - 1) / (2 z)`. Then `K[l] = 2 Re sum w a^l`.
//!
//! Source: Gu et al. 2022 (S4D), arXiv:2206.11893.

pub use rtc_compiler::ir::attribute::Discretisation;

use super::super::Real;
use super::{DoubleComplex, Gradients, KernelFamily, LearnedFamily};

/// The parameters of all channels.
#[derive(Clone, Copy, Debug)]
pub struct S4d<'a, T> {
    /// The rule.
    pub rule: Discretisation,
    /// Logarithm of the time step, `[channels]`.
    pub log_dt: &'a [T],
    /// Logarithm of the decay `-Re A`, `[channels, modes]`.
    pub log_decay: &'a [T],
    /// `-Im A`, `[channels, modes]`.
    pub frequency: &'a [T],
    /// B as pairs of real and imaginary part, `[channels, modes, 2]`.
    pub b: &'a [T],
    /// C, likewise.
    pub c: &'a [T],
}

/// The parameters with places for their gradients.
pub type S4dGrad<'a, T> = Gradients<'a, T, S4d<'a, T>, 5>;

/// The parameters of a mode.
struct ModeParameters {
    rule: Discretisation,
    dt: f64,
    /// `z = dt A / 2`.
    z: DoubleComplex,
    b: DoubleComplex,
    c: DoubleComplex,
}

const ONE: DoubleComplex = DoubleComplex::new(1.0, 0.0);

impl ModeParameters {
    /// `1 - z`, which is never 0: its real part is above 1.
    fn below(&self) -> DoubleComplex {
        ONE - self.z
    }

    fn pole(&self) -> DoubleComplex {
        match self.rule {
            Discretisation::Bilinear => (ONE + self.z) / self.below(),
            Discretisation::Held => (self.z * 2.0).exp(),
        }
    }

    /// The slope of the pole by `z`.
    fn pole_slope(&self) -> DoubleComplex {
        match self.rule {
            Discretisation::Bilinear => DoubleComplex::new(2.0, 0.0) / (self.below() * self.below()),
            Discretisation::Held => self.pole() * 2.0,
        }
    }

    fn weight(&self) -> DoubleComplex {
        match self.rule {
            Discretisation::Bilinear => self.c * self.b * self.dt / self.below(),
            Discretisation::Held => self.c * self.b * self.dt * held(self.z * 2.0),
        }
    }

    /// The slope of the weight by `z`.
    fn weight_slope(&self) -> DoubleComplex {
        match self.rule {
            Discretisation::Bilinear => self.weight() / self.below(),
            Discretisation::Held => self.c * self.b * self.dt * held_slope(self.z * 2.0) * 2.0,
        }
    }

    /// The weight over `C B`.
    fn input(&self) -> DoubleComplex {
        match self.rule {
            Discretisation::Bilinear => DoubleComplex::new(self.dt, 0.0) / self.below(),
            Discretisation::Held => held(self.z * 2.0) * self.dt,
        }
    }
}

/// Below this absolute value `held` and its slope are sums of their series, whose terms then vanish after a dozen.
const SMALL: f64 = 0.25;
/// Terms of the series: the first that is left out is below 1e-17 of the sum.
const TERMS: i32 = 12;

/// `(exp(u) - 1) / u`, which is 1 at 0.
fn held(u: DoubleComplex) -> DoubleComplex {
    if u.norm() > SMALL {
        return (u.exp() - ONE) / u;
    }
    // Horner's rule on `1 + u/2 (1 + u/3 (1 + ...))`.
    (2..=TERMS).rev().fold(ONE, |sum, n| ONE + u / f64::from(n) * sum)
}

/// The slope of [`held`]: `(exp(u) - held(u)) / u`, which is 1/2 at 0.
fn held_slope(u: DoubleComplex) -> DoubleComplex {
    if u.norm() > SMALL {
        return (u.exp() - held(u)) / u;
    }
    // The term of `u^(n-1)` is `n / (n+1)!`, so each is the one before times `u n / ((n-1) (n+1))`.
    let factor = |n: f64| n / ((n - 1.0) * (n + 1.0));
    (2..=TERMS).rev().fold(ONE, |sum, n| ONE + u * factor(f64::from(n)) * sum) * 0.5
}

impl<T: Real> S4d<'_, T> {
    fn mode(&self, channel: usize, m: usize) -> ModeParameters {
        let at = channel * KernelFamily::<T>::modes(self) + m;
        let pair = |x: &[T]| DoubleComplex::new(x[2 * at].to_f64(), x[2 * at + 1].to_f64());
        let dt = self.log_dt[channel].to_f64().exp();
        let pole = DoubleComplex::new(-self.log_decay[at].to_f64().exp(), -self.frequency[at].to_f64());
        ModeParameters { rule: self.rule, dt, z: pole * (dt / 2.0), b: pair(self.b), c: pair(self.c) }
    }
}

impl<T: Real> KernelFamily<T> for S4d<'_, T> {
    fn channels(&self) -> usize {
        self.log_dt.len()
    }

    fn modes(&self) -> usize {
        self.log_decay.len() / self.log_dt.len().max(1)
    }

    fn write(&self, channel: usize, poles: &mut [DoubleComplex], weights: &mut [DoubleComplex]) {
        for (m, (pole, weight)) in poles.iter_mut().zip(weights).enumerate() {
            let mode = self.mode(channel, m);
            (*pole, *weight) = (mode.pole(), mode.weight());
        }
    }
}

impl<T: Real> LearnedFamily<T> for S4dGrad<'_, T> {
    unsafe fn pull(&self, channel: usize, d_poles: &[DoubleComplex], d_weights: &[DoubleComplex]) {
        let modes = d_poles.len();
        let mut d_log_dt = 0.0;
        for (m, (&d_pole, &d_weight)) in d_poles.iter().zip(d_weights).enumerate() {
            let mode = self.parameters.mode(channel, m);
            let weight = mode.weight();
            // For a holomorphic f, the gradient at z is conj(f'(z)) times that at f(z).
            let dz = mode.weight_slope().conj() * d_weight + mode.pole_slope().conj() * d_pole;
            let half = mode.dt / 2.0;
            let shared = mode.input().conj() * d_weight;
            let (db, dc) = (mode.c.conj() * shared, mode.b.conj() * shared);
            // Re A = -exp(log_decay), so its slope is Re A itself, which is Re z over dt / 2.
            let (d_decay, d_frequency) = (mode.z.re * dz.re, -half * dz.im);
            d_log_dt += (weight.conj() * d_weight).re + (mode.z.conj() * dz).re;
            let at = channel * modes + m;
            // SAFETY: only this call writes the gradients of the channel.
            unsafe {
                *self.grads[1].at(at) = T::from_f64(d_decay);
                *self.grads[2].at(at) = T::from_f64(d_frequency);
                self.grads[3].part(2 * at..2 * at + 2).copy_from_slice(&[T::from_f64(db.re), T::from_f64(db.im)]);
                self.grads[4].part(2 * at..2 * at + 2).copy_from_slice(&[T::from_f64(dc.re), T::from_f64(dc.im)]);
            }
        }
        // SAFETY: as above.
        unsafe { *self.grads[0].at(channel) = T::from_f64(d_log_dt) };
    }
}
