//! The S4D layer before the chunks of one reference case, straight from its definition.

use rtc_kernel::Precision;
use rtc_kernel::linear;
use rtc_kernel::product::{Orientation, Packed};

use super::model::map;

/// A complex number.
#[derive(Clone, Copy)]
struct Complex(f64, f64);

impl Complex {
    fn times(self, other: Self) -> Self {
        Self(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }

    fn over(self, other: Self) -> Self {
        let size = other.0 * other.0 + other.1 * other.1;
        let Self(re, im) = self.times(Self(other.0, -other.1));
        Self(re / size, im / size)
    }
}

/// Parameters of the layer: `log_dt, log_re, im, b, c, skip, mix weight, mix bias`.
pub(crate) struct S4d<'a>(pub(crate) &'a [Vec<f64>]);

impl S4d<'_> {
    /// The kernel of a channel: `2 Re sum_m C B dt / (1 - zeta) ((1 + zeta) / (1 - zeta))^l`.
    fn kernel(&self, channel: usize, length: usize) -> Vec<f64> {
        let [log_dt, log_re, im, b, c, ..] = self.0 else { unreachable!("eight parameters") };
        let modes = im.len() / log_dt.len();
        let dt = log_dt[channel].exp();
        let mut kernel = vec![0.0; length];
        for mode in channel * modes..(channel + 1) * modes {
            let zeta = Complex(-log_re[mode].exp() * dt / 2.0, -im[mode] * dt / 2.0);
            let below = Complex(1.0 - zeta.0, -zeta.1);
            let factor = Complex(1.0 + zeta.0, zeta.1).over(below);
            let scaled = Complex(b[2 * mode] * dt, b[2 * mode + 1] * dt).times(Complex(c[2 * mode], c[2 * mode + 1]));
            let mut power = scaled.over(below);
            for out in &mut kernel {
                *out += 2.0 * power.0;
                power = power.times(factor);
            }
        }
        kernel
    }

    /// One row `x[length, d]`: both directions, GELU, gated linear map, residual.
    pub(crate) fn run(&self, x: &[f64], d: usize) -> Vec<f64> {
        let (length, skip) = (x.len() / d, &self.0[5]);
        let mut y = vec![0.0; 2 * x.len()];
        for channel in 0..2 * d {
            let place = |t: usize| if channel < d { t } else { length - 1 - t };
            let input: Vec<f64> = (0..length).map(|t| x[place(t) * d + channel % d]).collect();
            let kernel = self.kernel(channel, length);
            for t in 0..length {
                let sum: f64 = (0..=t).map(|s| kernel[t - s] * input[s]).sum();
                y[place(t) * 2 * d + channel] = sum + skip[channel] * input[t];
            }
        }
        let (mut active, mut mixed) = (vec![0.0; y.len()], vec![0.0; y.len()]);
        map("gelu(a)", &[&y], &mut active);
        let mut packed = Packed::default();
        packed.pack(&self.0[6], 2 * d, Orientation::Transposed, Precision::F32);
        linear::linear(&active, &packed, Some(&self.0[7]), &mut mixed);
        let rows = mixed.chunks_exact(2 * d).zip(x.chunks_exact(d));
        rows.flat_map(|(mixed, x)| (0..d).map(|c| mixed[c] / (1.0 + (-mixed[d + c]).exp()) + x[c])).collect()
    }
}
