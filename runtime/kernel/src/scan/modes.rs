//! The numbers of a kernel `K[l] = 2 Re sum_m w_m a_m^l`, and the sums that its gradients need.
//!
//! With `l = q R + r`, `a^l = (a^R)^q a^r`: one table of R powers per pole, the same for any length, and one running power.
//! Both directions are then products of small matrices. R does not depend on the length, so neither do the bits of `K[l]`.
//!
//! Source: Gu et al. 2022 (S4D), arXiv:2206.11893.

use super::super::parallel::LANES;
use super::super::tile::{LeftOperand, RightOperand, product};
use super::super::{Real, Write};
use super::DoubleComplex;

/// Powers in a table: R.
pub(super) const RUN: usize = 64;

/// Runs that one product makes.
const RUNS: usize = 16;

/// Below this, powers count as 0: as denormal numbers they would only be slow.
const TINY: f64 = 1e-30;

/// Powers of the poles of one channel.
pub(super) struct Powers<'s, T> {
    /// `a^R` per pole.
    pub(super) jumps: &'s mut [DoubleComplex],
    /// `a^(q R)` per pole, for the run that is being made.
    pub(super) running: &'s mut [DoubleComplex],
    /// Real and imaginary parts of `a^r`: `[2 modes, R]`.
    pub(super) table: &'s mut [T],
    /// The same turned, `[R, 2 modes]`, filled up to whole vectors; empty where nothing is differentiated.
    pub(super) turned: &'s mut [T],
    /// Factors or sums of [`RUNS`] runs.
    pub(super) factors: &'s mut [T],
}

/// Columns of the turned table.
pub(super) fn columns(modes: usize) -> usize {
    (2 * modes).next_multiple_of(LANES)
}

/// Numbers that [`Powers::factors`] needs.
pub(super) fn factors(modes: usize) -> usize {
    RUNS * columns(modes)
}

fn rounded<T: Real>(value: f64) -> T {
    if value.abs() < TINY { T::ZERO } else { T::from_f64(value) }
}

impl<T: Real> Powers<'_, T> {
    /// Fills the tables.
    pub(super) fn fill(&mut self, poles: &[DoubleComplex]) {
        let columns = columns(poles.len());
        self.turned.fill(T::ZERO);
        self.running.fill(DoubleComplex::new(1.0, 0.0));
        for r in 0..RUN {
            for (m, (power, pole)) in self.running.iter_mut().zip(poles).enumerate() {
                let (re, im) = (rounded(power.re), rounded(power.im));
                self.table[2 * m * RUN + r] = re;
                self.table[(2 * m + 1) * RUN + r] = im;
                if !self.turned.is_empty() {
                    self.turned[r * columns + 2 * m] = re;
                    self.turned[r * columns + 2 * m + 1] = im;
                }
                *power *= pole;
            }
        }
        self.jumps.copy_from_slice(self.running);
    }

    /// `taps[l] = 2 Re sum_m w_m a_m^l`; the length is a multiple of [`RUN`].
    pub(super) fn taps(&mut self, weights: &[DoubleComplex], taps: &mut [T]) {
        let width = 2 * weights.len();
        self.running.copy_from_slice(weights);
        for taps in taps.chunks_mut(RUNS * RUN) {
            let runs = taps.len() / RUN;
            for factors in self.factors.chunks_exact_mut(width).take(runs) {
                for ((pair, power), jump) in
                    factors.as_chunks_mut::<2>().0.iter_mut().zip(&mut *self.running).zip(&*self.jumps)
                {
                    *pair = [rounded(2.0 * power.re), rounded(-2.0 * power.im)];
                    *power *= jump;
                }
            }
            let left = LeftOperand::new(self.factors, width, 1);
            product(taps, RUN, left, RightOperand::new(self.table, RUN), runs, width, RUN, Write::Replace);
        }
    }

    /// `sums[m] = sum over l of numbers[l] a_m^l`; the length is a multiple of [`RUN`].
    pub(super) fn evaluate(&mut self, numbers: &[T], sums: &mut [DoubleComplex]) {
        let columns = columns(sums.len());
        sums.fill(DoubleComplex::new(0.0, 0.0));
        self.running.fill(DoubleComplex::new(1.0, 0.0));
        for numbers in numbers.chunks(RUNS * RUN) {
            let runs = numbers.len() / RUN;
            let left = LeftOperand::new(numbers, RUN, 1);
            product(
                self.factors,
                columns,
                left,
                RightOperand::new(self.turned, columns),
                runs,
                RUN,
                columns,
                Write::Replace,
            );
            for run in self.factors.chunks_exact(columns).take(runs) {
                for ((part, sum), (power, jump)) in
                    run.as_chunks::<2>().0.iter().zip(&mut *sums).zip(self.running.iter_mut().zip(&*self.jumps))
                {
                    *sum += *power * DoubleComplex::new(part[0].to_f64(), part[1].to_f64());
                    *power *= jump;
                }
            }
        }
    }
}
