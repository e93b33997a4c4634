//! Elementwise kernels and their gradients. Gradients take the upstream gradient `dy` and write, not add.

use super::Real;
use super::parallel::{Parts, each_block, vectorised};

/// Cost of an element that only moves and adds.
const CHEAP: usize = 1;
/// Cost of an element with an exponential or an error function, in the same unit.
const HEAVY: usize = 4;

/// `y = f(x)` element by element. Mark the closure `#[inline(always)]`.
#[inline(always)]
fn map<T: Real>(x: &[T], y: &mut [T], cost: usize, f: impl Fn(T) -> T + Sync + Send) {
    debug_assert_eq!(x.len(), y.len());
    let out = Parts::new(y);
    each_block(x.len(), cost, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range.clone()) };
        let x = &x[range];
        vectorised(
            #[inline(always)]
            || {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = f(x);
                }
            },
        );
    });
}

/// `y = f(y, x)` element by element, in place.
#[inline(always)]
fn map_assign<T: Real>(y: &mut [T], x: &[T], cost: usize, f: impl Fn(T, T) -> T + Sync + Send) {
    debug_assert_eq!(x.len(), y.len());
    let out = Parts::new(y);
    each_block(x.len(), cost, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range.clone()) };
        let x = &x[range];
        vectorised(
            #[inline(always)]
            || {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = f(*y, x);
                }
            },
        );
    });
}

/// `y = f(a, b)` element by element.
#[inline(always)]
fn map2<T: Real>(a: &[T], b: &[T], y: &mut [T], cost: usize, f: impl Fn(T, T) -> T + Sync + Send) {
    debug_assert!(a.len() == y.len() && b.len() == y.len());
    let out = Parts::new(y);
    each_block(a.len(), cost, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range.clone()) };
        let (a, b) = (&a[range.clone()], &b[range]);
        vectorised(
            #[inline(always)]
            || {
                for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                    *y = f(a, b);
                }
            },
        );
    });
}

/// The exact (error-function) GELU of one number.
#[inline(always)]
pub(super) fn gelu_of<T: Real>(x: T) -> T {
    let half = T::from_f64(0.5) * x;
    half.mul_add((x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf_absolute(), half)
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
    ($($(#[$doc:meta])* $name:ident, $cost:ident, $x:ident => $body:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name<T: Real>(x: &[T], y: &mut [T]) {
            map(x, y, $cost, #[inline(always)] |$x| $body);
        }
    )* };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident), $cost:ident => $body:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name<T: Real>($a: &[T], $b: &[T], out: &mut [T]) {
            map2($a, $b, out, $cost, #[inline(always)] |$a, $b| $body);
        }
    )* };
}

unary! {
    /// `y = x Phi(x)`, the exact GELU.
    gelu, HEAVY, x => gelu_of(x);
    /// `y = max(x, 0)`; NaN stays NaN.
    relu, CHEAP, x => relu_of(x);
    /// `y = 1 / (1 + exp(-x))`.
    sigmoid, HEAVY, x => x.sigmoid();
}

binary! {
    /// `out = dy gelu'(x)`.
    gelu_grad(x, dy), HEAVY => dy * gelu_slope(x);
    /// `out = dy` where `x > 0`, else 0.
    relu_grad(x, dy), CHEAP => if x > T::ZERO { dy } else { T::ZERO };
    /// `out = dy y (1 - y)` from the forward result `y`.
    sigmoid_grad(y, dy), CHEAP => dy * y * (T::ONE - y);
    /// `out = a + b`.
    add(a, b), CHEAP => a + b;
    /// `out = a - b`.
    sub(a, b), CHEAP => a - b;
    /// `out = a b`.
    mul(a, b), CHEAP => a * b;
    /// `out = a / b`.
    div(a, b), CHEAP => a / b;
}

/// `y = c x`.
pub fn scale<T: Real>(x: &[T], c: T, y: &mut [T]) {
    map(
        x,
        y,
        CHEAP,
        #[inline(always)]
        |x| c * x,
    );
}

/// `y = x + c`.
pub fn add_scalar<T: Real>(x: &[T], c: T, y: &mut [T]) {
    map(
        x,
        y,
        CHEAP,
        #[inline(always)]
        |x| x + c,
    );
}

/// `y += x`.
pub fn add_assign<T: Real>(y: &mut [T], x: &[T]) {
    map_assign(
        y,
        x,
        CHEAP,
        #[inline(always)]
        |y, x| y + x,
    );
}

/// `y *= x`.
pub fn mul_assign<T: Real>(y: &mut [T], x: &[T]) {
    map_assign(
        y,
        x,
        CHEAP,
        #[inline(always)]
        |y, x| y * x,
    );
}

/// `y += c x`.
pub fn axpy<T: Real>(y: &mut [T], c: T, x: &[T]) {
    map_assign(
        y,
        x,
        CHEAP,
        #[inline(always)]
        |y, x| c.mul_add(x, y),
    );
}

/// `y *= c`.
pub fn scale_assign<T: Real>(y: &mut [T], c: T) {
    let len = y.len();
    let out = Parts::new(y);
    each_block(len, CHEAP, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range) };
        vectorised(
            #[inline(always)]
            || y.iter_mut().for_each(|y| *y *= c),
        );
    });
}
