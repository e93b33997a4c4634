//! Elementwise kernels and their gradients, on the calling thread. Gradients take the upstream gradient `dy` and write,
//! not add.
//!
//! Source: GELU: Hendrycks and Gimpel 2016, arXiv:1606.08415; SiLU: Elfwing et al. 2018, arXiv:1702.03118.

use super::Real;
use super::parallel::{Parts, each_block, vectorised};

/// `y = f(x)` element by element. Mark the closure `#[inline(always)]`.
#[inline(always)]
fn map<T: Real>(x: &[T], y: &mut [T], f: impl Fn(T) -> T) {
    debug_assert_eq!(x.len(), y.len());
    vectorised(
        #[inline(always)]
        || {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = f(x);
            }
        },
    );
}

/// `y = f(a, b)` element by element.
#[inline(always)]
fn map2<T: Real>(a: &[T], b: &[T], y: &mut [T], f: impl Fn(T, T) -> T) {
    debug_assert!(a.len() == y.len() && b.len() == y.len());
    vectorised(
        #[inline(always)]
        || {
            for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                *y = f(a, b);
            }
        },
    );
}

/// The exact (error-function) GELU of one number.
#[inline(always)]
pub(super) fn gelu_of<T: Real>(x: T) -> T {
    let half = T::from_f64(0.5) * x;
    half.mul_add((x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf_absolute(), half)
}

/// `2 z = sqrt(8 / pi) (x + c x^3)`, whose sigmoid stands for the normal distribution function.
#[inline(always)]
fn twice<T: Real>(x: T) -> T {
    let x = T::from_f64(TANH_SCALE) * x;
    (T::from_f64(TANH_CUBE / (TANH_SCALE * TANH_SCALE)) * x * x).mul_add(x, x)
}

/// `sqrt(8 / pi)`.
const TANH_SCALE: f64 = 1.595_769_121_605_731;
const TANH_CUBE: f64 = 0.044_715;

/// The derivative of the GELU with tanh: `s + x s (1 - s) 2z'` with `s = sigmoid(2 z)`.
#[inline(always)]
fn gelu_tanh_slope<T: Real>(x: T) -> T {
    let s = twice(x).sigmoid();
    let slope = (T::from_f64(3.0 * TANH_CUBE) * x).mul_add(x, T::ONE) * T::from_f64(TANH_SCALE);
    (x * s * (T::ONE - s)).mul_add(slope, s)
}

/// `max(x, 0)`; NaN stays NaN.
#[inline(always)]
pub(super) fn relu_of<T: Real>(x: T) -> T {
    if x < T::ZERO { T::ZERO } else { x }
}

/// The derivative of the exact GELU: the normal distribution function plus x times the density.
#[inline(always)]
fn gelu_slope<T: Real>(x: T) -> T {
    const DENSITY_AT_ZERO: f64 = 0.398_942_280_401_432_7;
    let half = T::from_f64(0.5);
    let cdf = half.mul_add((x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf_absolute(), half);
    let density = T::from_f64(DENSITY_AT_ZERO) * (-half * x * x).exp_below_one();
    x.mul_add(density, cdf)
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident, $x:ident => $body:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name<T: Real>(x: &[T], y: &mut [T]) {
            map(x, y, #[inline(always)] |$x| $body);
        }
    )* };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident) => $body:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name<T: Real>($a: &[T], $b: &[T], out: &mut [T]) {
            map2($a, $b, out, #[inline(always)] |$a, $b| $body);
        }
    )* };
}

unary! {
    /// `y = x Phi(x)`, the exact GELU.
    gelu, x => gelu_of(x);
    /// The GELU as it is approximated with tanh.
    gelu_tanh, x => x * twice(x).sigmoid();
    /// `y = max(x, 0)`; NaN stays NaN.
    relu, x => relu_of(x);
    /// `y = 1 / (1 + exp(-x))`.
    sigmoid, x => x.sigmoid();
}

binary! {
    /// `out = dy gelu'(x)`.
    gelu_grad(x, dy) => dy * gelu_slope(x);
    /// `out = dy` times the slope of [`gelu_tanh`] at x.
    gelu_tanh_grad(x, dy) => dy * gelu_tanh_slope(x);
    /// `out = dy` where `x > 0`, else 0.
    relu_grad(x, dy) => if x > T::ZERO { dy } else { T::ZERO };
    /// `out = dy y (1 - y)` from the forward result `y`.
    sigmoid_grad(y, dy) => dy * y * (T::ONE - y);
    /// `out = a + b`.
    add(a, b) => a + b;
    /// `out = a - b`.
    sub(a, b) => a - b;
    /// `out = a b`.
    mul(a, b) => a * b;
    /// `out = a / b`.
    div(a, b) => a / b;
}

/// `y = c x`.
pub fn scale<T: Real>(x: &[T], c: T, y: &mut [T]) {
    map(
        x,
        y,
        #[inline(always)]
        |x| c * x,
    );
}

/// `y = x + c`.
pub fn add_scalar<T: Real>(x: &[T], c: T, y: &mut [T]) {
    map(
        x,
        y,
        #[inline(always)]
        |x| x + c,
    );
}

/// `y += x`, on all threads.
pub fn add_assign<T: Real>(y: &mut [T], x: &[T]) {
    debug_assert_eq!(x.len(), y.len());
    let out = Parts::new(y);
    each_block(x.len(), 1, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range.clone()) };
        vectorised(
            #[inline(always)]
            || y.iter_mut().zip(&x[range]).for_each(|(y, &x)| *y += x),
        );
    });
}

/// `y *= c`, on all threads.
pub fn scale_assign<T: Real>(y: &mut [T], c: T) {
    let len = y.len();
    let out = Parts::new(y);
    each_block(len, 1, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range) };
        vectorised(
            #[inline(always)]
            || y.iter_mut().for_each(|y| *y *= c),
        );
    });
}
