//! The two number types of the kernels: `f32` for speed, `f64` for comparisons with a reference.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use super::math;

/// A floating-point type that every kernel runs on.
///
/// The `f32` functions are branch-free polynomials that the compiler turns into vector code; the `f64` functions are
/// those of the C library, accurate to the last place or so.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Minus infinity.
    const NEG_INFINITY: Self;

    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// The same number in double precision.
    fn to_f64(self) -> f64;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// e to this power for numbers up to 0; may be exactly 0 where the power is below 2e-38.
    fn exp_below_one(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The error function, where an absolute error of 1e-7 is enough in single precision.
    fn erf_absolute(self) -> Self;

    /// The larger of two numbers; `other` where either is NaN.
    #[inline(always)]
    fn or_larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    /// `1 / (1 + exp(-self))`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

macro_rules! real {
    ($type:ident, $exp:path, $exp_below_one:path, $erf_absolute:path) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = Self::NEG_INFINITY;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn exp_below_one(self) -> Self {
                $exp_below_one(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                self.ln()
            }
            #[inline(always)]
            fn erf_absolute(self) -> Self {
                $erf_absolute(self)
            }
        }
    };
}

real!(f32, math::exp, math::exp_below_one, math::erf_absolute);
real!(f64, f64::exp, f64::exp, libm::erf);
