//! The two number types of the kernels: `f32` for speed, `f64` for comparisons with a reference.
//!
//! Source: rtc.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};
use std::sync::OnceLock;

use pulp::{Simd, WithSimd};

use super::fourier::{FourierPlan, Plans, SIZES, Transform};
use super::math;
use super::pairs;

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
    /// Not a number.
    const NAN: Self;

    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// The same number in double precision.
    fn to_f64(self) -> f64;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The largest whole number that is not above it.
    fn floor(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The angle of the point (`x`, `self`) from the axis of x, between -pi and pi.
    fn angle(self, x: Self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// e to this power for numbers up to 0; may be exactly 0 where the power is below 2e-38.
    fn exp_below_one(self) -> Self;
    /// The natural logarithm, as the standard library has it.
    fn ln(self) -> Self;
    /// The natural logarithm, for many numbers.
    fn log(self) -> Self;
    /// The error function, where an absolute error of 1e-7 is enough in single precision.
    fn erf_absolute(self) -> Self;

    /// A vector of this type.
    type Vector<S: Simd>: Copy;
    /// The number in every lane.
    fn splat<S: Simd>(self, simd: S) -> Self::Vector<S>;
    /// `a * b + c` lane by lane, rounded once.
    fn fused<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// The nearest number with so many bits fewer than single precision, of two equally near ones the even one.
    fn rounded(self, dropped: u32) -> Self;
    /// Whether [`Self::with_pairs`] is there on this machine.
    fn has_pairs() -> bool;
    /// Both numbers, rounded to bfloat16, in the place of one: this one in the upper half.
    fn pair(self, low: Self) -> Self;
    /// `a * b + c` lane by lane with pairs `a` and `b`: the upper halves first, each rounded once. Only inside [`Self::with_pairs`].
    fn fused_pairs<S: Simd>(a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// Runs what multiplies pairs, compiled for the vectors of machines that do.
    fn with_pairs<R>(op: impl WithSimd<Output = R>) -> R;
    /// The Fourier transforms of the n-th size, planned once.
    fn transform(n: usize) -> &'static dyn Transform<Self>;
    /// Runs `f` on memory of the calling thread that is kept between calls: `len` numbers of arbitrary content.
    fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R;

    /// Whether it is neither infinite nor NaN.
    #[inline(always)]
    fn is_finite(self) -> bool {
        Self::ZERO * self == Self::ZERO
    }

    /// Whether it is no number.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }

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
    ($type:ident, $vector:ident, $splat:ident, $fused:ident, $exp:path, $exp_below_one:path, $log:path, $erf_absolute:path) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = Self::NEG_INFINITY;
            const NAN: Self = Self::NAN;

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
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn angle(self, x: Self) -> Self {
                self.atan2(x)
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
            fn log(self) -> Self {
                $log(self)
            }
            #[inline(always)]
            fn erf_absolute(self) -> Self {
                $erf_absolute(self)
            }

            type Vector<S: Simd> = S::$vector;
            #[inline(always)]
            fn splat<S: Simd>(self, simd: S) -> S::$vector {
                simd.$splat(self)
            }
            #[inline(always)]
            fn fused<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$fused(a, b, c)
            }
            #[inline(always)]
            fn rounded(self, dropped: u32) -> Self {
                if dropped == 0 { self } else { pairs::rounded(self as f32, dropped) as Self }
            }
            fn has_pairs() -> bool {
                size_of::<Self>() == size_of::<f32>() && pairs::available()
            }
            #[inline(always)]
            fn pair(self, low: Self) -> Self {
                pairs::pair(self as f32, low as f32) as Self
            }
            #[inline(always)]
            fn fused_pairs<S: Simd>(a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                pairs::fused(a, b, c)
            }
            fn with_pairs<R>(op: impl WithSimd<Output = R>) -> R {
                pairs::dispatch(op)
            }
            fn transform(n: usize) -> &'static dyn Transform<Self> {
                static PLANS: Plans<$type> = [const { OnceLock::new() }; SIZES];
                PLANS[n].get_or_init(|| FourierPlan::new(n))
            }
            fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R {
                // As deep as calls lie inside one another: every depth finds memory of its own, and that of the last time.
                thread_local! {
                    static KEPT: RefCell<Vec<Vec<$type>>> = const { RefCell::new(Vec::new()) };
                }
                let mut memory = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
                let line = 64 / size_of::<$type>();
                if memory.len() < len + line {
                    memory.resize(len + line, 0.0);
                }
                // At a cache line, where vectors are fastest.
                let start = memory.as_ptr().align_offset(64).min(line);
                let result = f(&mut memory[start..start + len]);
                KEPT.with_borrow_mut(|kept| kept.push(memory));
                result
            }
        }
    };
}

real!(f32, f32s, splat_f32s, mul_add_f32s, math::exp, math::exp_below_one, math::log, math::erf_absolute);
real!(f64, f64s, splat_f64s, mul_add_f64s, f64::exp, f64::exp, f64::ln, libm::erf);
