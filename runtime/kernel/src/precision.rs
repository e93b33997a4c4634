//! How exactly matrix products are computed, and the factors that their operands become.
//!
//! Source: bfloat16 as in Kalamkar et al. 2019, arXiv:1905.12322; its products in pairs are the instruction VDPBF16PS of x86.

use std::ops::Range;

use super::Real;
use super::parallel::vectorised;

/// Columns of a panel.
pub(super) const PANEL: usize = 32;

/// How exactly matrix products are computed. Sums, all else, and what is kept, are single precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Operands are rounded to 10 bits behind the point.
    Tf32,
    /// Operands are rounded to 7 bits behind the point.
    Bf16,
}

impl Precision {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }

    /// Bits of a number in single precision that an operand has not.
    fn dropped(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Tf32 => 13,
            Self::Bf16 => 16,
        }
    }
}

/// What a product multiplies. Both kinds of factors give a sum the same bits, down to numbers of 1e-38.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factors {
    /// Numbers, rounded.
    Numbers(Precision),
    /// Two numbers of bfloat16 in the place of one: the first in the upper half, whose product a sum takes up first.
    Pairs,
}

impl Default for Factors {
    fn default() -> Self {
        Self::Numbers(Precision::F32)
    }
}

/// What stands in a pair behind the last of an odd number of factors, in the left and the right operand: their product is -0, which
/// changes no sum, not even one of -0.
pub(super) const BEHIND: [f64; 2] = [-0.0, 0.0];

impl Factors {
    /// Those of a precision on this machine.
    pub(super) fn of<T: Real>(precision: Precision) -> Self {
        match precision {
            Precision::Bf16 if T::has_pairs() => Self::Pairs,
            other => Self::Numbers(other),
        }
    }

    /// Factors of so many numbers.
    pub(super) fn count(self, numbers: usize) -> usize {
        match self {
            Self::Numbers(_) => numbers,
            Self::Pairs => numbers.div_ceil(2),
        }
    }

    /// The factors of every row of `x[rows, width]`, row by row: those of a left operand.
    pub(super) fn of_rows<T: Real>(self, x: &[T], width: usize, out: &mut [T]) {
        let Self::Numbers(precision) = self else {
            let behind = T::from_f64(BEHIND[0]);
            vectorised!({
                for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width.div_ceil(2))) {
                    let (pairs, rest) = x.as_chunks::<2>();
                    for (out, [high, low]) in out.iter_mut().zip(pairs) {
                        *out = high.pair(*low);
                    }
                    if let ([last], Some(out)) = (rest, out.last_mut()) {
                        *out = last.pair(behind);
                    }
                }
            });
            return;
        };
        let dropped = precision.dropped();
        vectorised!(out.iter_mut().zip(x).for_each(|(out, x)| *out = x.rounded(dropped)));
    }

    /// The factors of some columns of `x[rows, stride]`, where rows go into pairs, as rows of `out` that are `width` long. `behind` is what stands
    /// behind the last of an odd number of rows. What `out` holds beside the columns stays.
    #[inline(always)]
    pub(super) fn of_columns<T: Real>(
        self,
        (x, stride, columns): (&[T], usize, Range<usize>),
        behind: f64,
        (out, width): (&mut [T], usize),
    ) {
        let out = out.chunks_exact_mut(width);
        match self {
            Self::Numbers(precision) => {
                let dropped = precision.dropped();
                for (x, out) in x.chunks_exact(stride).zip(out) {
                    let x = &x[columns.clone()];
                    if dropped > 0
                        || !(copied::<T, PANEL>(x, out) || copied::<T, 16>(x, out) || copied::<T, 12>(x, out))
                    {
                        out.iter_mut().zip(x).for_each(|(out, x)| *out = x.rounded(dropped));
                    }
                }
            }
            Self::Pairs => {
                for (x, out) in x.chunks(2 * stride).zip(out) {
                    let (high, low) = x.split_at(stride);
                    let high = &high[columns.clone()];
                    match low.get(columns.clone()) {
                        Some(low) => {
                            out.iter_mut().zip(high.iter().zip(low)).for_each(|(out, (h, l))| *out = h.pair(*l))
                        }
                        None => out.iter_mut().zip(high).for_each(|(out, h)| *out = h.pair(T::from_f64(behind))),
                    }
                }
            }
        }
    }
}

/// Copies a row of so many numbers as one value, if it is one: a call for so few numbers costs more than the copy.
#[inline(always)]
fn copied<T: Real, const N: usize>(x: &[T], out: &mut [T]) -> bool {
    match (<&[T; N]>::try_from(x), out.first_chunk_mut()) {
        (Ok(x), Some(out)) => *out = *x,
        _ => return false,
    }
    true
}
