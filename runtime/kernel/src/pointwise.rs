//! Pointwise functions and programs of them, on the calling thread.
//!
//! The loops are those of the compiler's table: a row is expanded into one loop. A program runs its loops on a few numbers at a
//! time, so that what lies between them stays in the first-level cache.
//!
//! Source: rtc.

use rtc_compiler::ir::pointwise::{NumberSource, Pointwise, PointwiseSteps, Scalar};
use rtc_compiler::pointwise_functions;

use super::Real;
use super::parallel::vectorised;

/// Numbers that a program with registers works on at a time.
const CHUNK: usize = 1024;

/// The exact (error-function) GELU of one number.
#[inline(always)]
pub(super) fn gelu_of<T: Real>(x: T) -> T {
    let half = T::from_f64(0.5) * x;
    half.mul_add((x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf_absolute(), half)
}

/// The derivative of the exact GELU: the normal distribution function plus x times the density.
#[inline(always)]
fn gelu_slope_of<T: Real>(x: T) -> T {
    const DENSITY_AT_ZERO: f64 = 0.398_942_280_401_432_7;
    let half = T::from_f64(0.5);
    let cdf = half.mul_add((x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf_absolute(), half);
    let density = T::from_f64(DENSITY_AT_ZERO) * (-half * x * x).exp_below_one();
    x.mul_add(density, cdf)
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

#[inline(always)]
fn gelu_tanh_of<T: Real>(x: T) -> T {
    x * twice(x).sigmoid()
}

/// The derivative of the GELU with tanh: `s + x s (1 - s) 2z'` with `s = sigmoid(2 z)`.
#[inline(always)]
fn gelu_tanh_slope_of<T: Real>(x: T) -> T {
    let s = twice(x).sigmoid();
    let slope = (T::from_f64(3.0 * TANH_CUBE) * x).mul_add(x, T::ONE) * T::from_f64(TANH_SCALE);
    (x * s * (T::ONE - s)).mul_add(slope, s)
}

/// `max(x, 0)`; NaN stays NaN.
#[inline(always)]
pub(super) fn relu_of<T: Real>(x: T) -> T {
    if x < T::ZERO { T::ZERO } else { x }
}

/// 1, 0 or -1; NaN stays NaN.
#[inline(always)]
fn sign_of<T: Real>(x: T) -> T {
    let zero = if x == T::ZERO { T::ZERO } else { x };
    let positive = if x > T::ZERO { T::ONE } else { zero };
    if x < T::ZERO { -T::ONE } else { positive }
}

/// The larger of two numbers; NaN where either is NaN.
#[inline(always)]
fn maximum_of<T: Real>(a: T, b: T) -> T {
    let rest = if b >= a { b } else { a + b };
    if a > b { a } else { rest }
}

/// The smaller of two numbers; NaN where either is NaN.
#[inline(always)]
fn minimum_of<T: Real>(a: T, b: T) -> T {
    let rest = if b <= a { b } else { a + b };
    if a < b { a } else { rest }
}

/// 1 where `a < b`, else 0; NaN where either is NaN.
#[inline(always)]
fn less_of<T: Real>(a: T, b: T) -> T {
    let rest = if a >= b { T::ZERO } else { a + b };
    if a < b { T::ONE } else { rest }
}

/// 1 where `a == b`, else 0; NaN where either is NaN.
#[inline(always)]
fn equal_of<T: Real>(a: T, b: T) -> T {
    let rest = if a < b || b < a { T::ZERO } else { a + b };
    if a == b { T::ONE } else { rest }
}

/// `a` where its size is at most `b`, else NaN.
#[inline(always)]
fn within_of<T: Real>(a: T, b: T) -> T {
    if a.abs() <= b { a } else { T::NAN }
}

/// `a` to the power `b`; NaN where either is NaN.
#[inline(always)]
fn pow_of<T: Real>(a: T, b: T) -> T {
    let (a, b) = (a.to_f64(), b.to_f64());
    if a.is_nan() || b.is_nan() { T::NAN } else { T::from_f64(a.powf(b)) }
}

/// The smallest whole number `k` with `base^k >= n`; NaN where the base is below 2.
#[inline(always)]
fn log_up_of<T: Real>(n: T, base: T) -> T {
    let (n, base) = (n.to_f64(), base.to_f64());
    if n.is_nan() || base.is_nan() || base < 2.0 {
        return T::NAN;
    }
    let (mut k, mut power) = (0.0, 1.0);
    while power < n {
        k += 1.0;
        power *= base;
    }
    T::from_f64(k)
}

/// `b` where `a > 0`, else `c`; NaN where `a` is NaN.
#[inline(always)]
fn choose_of<T: Real>(a: T, b: T, c: T) -> T {
    let rest = if a <= T::ZERO { c } else { a };
    if a > T::ZERO { b } else { rest }
}

/// `share` of a cotangent: 0 where the cotangent is.
#[inline(always)]
fn chained<T: Real>(dy: T, share: T) -> T {
    if dy == T::ZERO { T::ZERO } else { share }
}

/// The number where it is finite, else 0.
#[inline(always)]
fn finite_of<T: Real>(a: T) -> T {
    if a.is_finite() { a } else { T::ZERO }
}

/// `log(1 + exp(x)) = max(x, 0) + log(1 + t)` with `t = exp(-|x|)`. What `u = 1 + t` rounds off is given back: the logarithm
/// of a sum near 1 would lose it.
#[inline(always)]
fn softplus_of<T: Real>(x: T) -> T {
    let t = (-x.abs()).exp();
    let u = T::ONE + t;
    relu_of(x) + (u.log() + (t - (u - T::ONE)) / u)
}

/// `2 sigmoid(2 x) - 1`; near 0, where that loses digits, the sixth convergent of Lambert's continued fraction, whose error is below 1e-16.
#[inline(always)]
pub(super) fn tanh_of<T: Real>(x: T) -> T {
    let of = T::from_f64;
    let square = x * x;
    let above = square.mul_add(square.mul_add(of(21.0), of(1260.0)), of(10395.0));
    let below = square.mul_add(square.mul_add(square + of(210.0), of(4725.0)), of(10395.0));
    let (near, far) = (x * (above / below), of(2.0) * (of(2.0) * x).sigmoid() - T::ONE);
    if x.abs() < of(0.25) { near } else { far }
}

/// An argument of a function: a number for every place, or the same for all.
#[derive(Clone, Copy, Debug)]
pub enum FunctionArgument<'a, T> {
    /// One number per place.
    Each(&'a [T]),
    /// The same everywhere.
    All(T),
}

impl<T: Copy> FunctionArgument<'_, T> {
    #[inline(always)]
    fn at(self, n: usize) -> T {
        match self {
            Self::Each(x) => x[n],
            Self::All(x) => x,
        }
    }
}

/// `y = f(a)` place by place. Mark the closure `#[inline(always)]`. Loops are plain ones: what an iterator calls is not compiled
/// for the vectors of this machine.
#[inline(always)]
fn unary<T: Real>([a, ..]: [FunctionArgument<'_, T>; 3], y: &mut [T], f: impl Fn(T) -> T) {
    vectorised!(match a {
        FunctionArgument::Each(a) => {
            for (y, &a) in y.iter_mut().zip(a) {
                *y = f(a);
            }
        }
        FunctionArgument::All(a) => y.fill(f(a)),
    });
}

/// `y = f(a, b)` place by place.
#[inline(always)]
fn binary<T: Real>([a, b, _]: [FunctionArgument<'_, T>; 3], y: &mut [T], f: impl Fn(T, T) -> T) {
    vectorised!(match (a, b) {
        (FunctionArgument::Each(a), FunctionArgument::Each(b)) => {
            for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                *y = f(a, b);
            }
        }
        (FunctionArgument::Each(a), FunctionArgument::All(b)) => {
            for (y, &a) in y.iter_mut().zip(a) {
                *y = f(a, b);
            }
        }
        (FunctionArgument::All(a), FunctionArgument::Each(b)) => {
            for (y, &b) in y.iter_mut().zip(b) {
                *y = f(a, b);
            }
        }
        (FunctionArgument::All(a), FunctionArgument::All(b)) => y.fill(f(a, b)),
    });
}

/// `y = f(a, b, c)` place by place; with constants it takes longer, but for one of the last two, as choices have it.
#[inline(always)]
fn ternary<T: Real>([a, b, c]: [FunctionArgument<'_, T>; 3], y: &mut [T], f: impl Fn(T, T, T) -> T) {
    vectorised!(match (a, b, c) {
        (FunctionArgument::Each(a), FunctionArgument::Each(b), FunctionArgument::Each(c)) => {
            for (((y, &a), &b), &c) in y.iter_mut().zip(a).zip(b).zip(c) {
                *y = f(a, b, c);
            }
        }
        (FunctionArgument::Each(a), FunctionArgument::Each(b), FunctionArgument::All(c)) => {
            for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                *y = f(a, b, c);
            }
        }
        (FunctionArgument::Each(a), FunctionArgument::All(b), FunctionArgument::Each(c)) => {
            for ((y, &a), &c) in y.iter_mut().zip(a).zip(c) {
                *y = f(a, b, c);
            }
        }
        (a, b, c) => {
            for (n, y) in y.iter_mut().enumerate() {
                *y = f(a.at(n), b.at(n), c.at(n));
            }
        }
    });
}

macro_rules! each_place {
    ($args:expr, $y:expr, ($a:ident) $value:expr) => {
        unary(
            $args,
            $y,
            #[inline(always)]
            |$a| $value,
        )
    };
    ($args:expr, $y:expr, ($a:ident, $b:ident) $value:expr) => {
        binary(
            $args,
            $y,
            #[inline(always)]
            |$a, $b| $value,
        )
    };
    ($args:expr, $y:expr, ($a:ident, $b:ident, $c:ident) $value:expr) => {
        ternary(
            $args,
            $y,
            #[inline(always)]
            |$a, $b, $c| $value,
        )
    };
}

macro_rules! loops {
    ($(
        #[doc = $doc:literal]
        $text:ident = $name:ident $operands:tt $cost:literal, $slopes:tt, $value:expr, $cuda:literal, $torch:literal, $onnx:literal;
    )*) => {
        /// `y = func(args)` place by place; a function takes as many of `args` as it has operands.
        pub fn apply<T: Real>(func: Pointwise, args: [FunctionArgument<'_, T>; 3], y: &mut [T]) {
            match func {
                $(Pointwise::$name => each_place!(args, y, $operands $value),)*
            }
        }
    };
}

pointwise_functions!(loops);

/// The location of a number of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberLocation {
    Register(usize),
    Result(usize),
}

/// The source of a loop's numbers.
#[derive(Clone, Copy, Debug)]
enum LoopOperand {
    Operand(usize),
    Number(f64),
    Made(NumberLocation),
}

/// One loop: a function, or a copy.
#[derive(Clone, Copy, Debug)]
struct Loop {
    func: Option<Pointwise>,
    args: [LoopOperand; 3],
    to: NumberLocation,
}

/// The loops of a map.
#[derive(Clone, Debug)]
pub struct MapProgram {
    loops: Vec<Loop>,
    registers: usize,
    results: usize,
    cost: f64,
}

impl MapProgram {
    /// The loops that give these results.
    pub fn new(results: &[Scalar]) -> Self {
        let steps = PointwiseSteps::of(results);
        let last_use = |n: usize| steps.steps.iter().rposition(|step| step.args.contains(&NumberSource::Step(n)));
        let mut places: Vec<NumberLocation> = vec![];
        let (mut free, mut registers) = (vec![], 0);
        let from = |source: NumberSource, places: &[NumberLocation]| match source {
            NumberSource::Operand(n) => LoopOperand::Operand(n),
            NumberSource::Number(x) => LoopOperand::Number(x),
            NumberSource::Step(n) => LoopOperand::Made(places[n]),
        };
        let mut loops = vec![];
        for (n, step) in steps.steps.iter().enumerate() {
            // A loop never writes where it reads: registers become free after it.
            let to = match steps.results.iter().position(|result| *result == NumberSource::Step(n)) {
                Some(result) => NumberLocation::Result(result),
                None => NumberLocation::Register(free.pop().unwrap_or_else(|| {
                    registers += 1;
                    registers - 1
                })),
            };
            let mut args = [LoopOperand::Number(0.0); 3];
            args.iter_mut().zip(&step.args).for_each(|(arg, source)| *arg = from(*source, &places));
            loops.push(Loop { func: Some(step.func), args, to });
            places.push(to);
            for (m, place) in places.iter().enumerate() {
                if let (NumberLocation::Register(register), Some(true)) = (place, last_use(m).map(|last| last == n)) {
                    free.push(*register);
                }
            }
        }
        for (n, result) in steps.results.iter().enumerate() {
            if !loops.iter().any(|l| l.to == NumberLocation::Result(n)) {
                loops.push(Loop { func: None, args: [from(*result, &places); 3], to: NumberLocation::Result(n) });
            }
        }
        Self { loops, registers, results: results.len(), cost: steps.cost() }
    }

    /// Numbers of scratch that a run needs.
    pub fn scratch(&self) -> usize {
        self.registers * CHUNK
    }

    /// Operations for one number of each operand.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Runs the loops on operands and results of one length; those that the program does not have may be empty.
    pub fn run<T: Real>(&self, operands: &[&[T]], results: &mut [&mut [T]], scratch: &mut [T]) {
        let len = results[0].len();
        debug_assert!(results[..self.results].iter().all(|y| y.len() == len) && scratch.len() >= self.scratch());
        let size = if self.registers == 0 { len.max(1) } else { CHUNK };
        for start in (0..len).step_by(size) {
            let range = start..len.min(start + size);
            for one in &self.loops {
                let mut made = |place: NumberLocation| match place {
                    NumberLocation::Register(n) => scratch[n * CHUNK..][..range.len()].as_mut_ptr(),
                    NumberLocation::Result(n) => results[n][range.clone()].as_mut_ptr(),
                };
                let to = made(one.to);
                let args = one.args.map(|from| match from {
                    LoopOperand::Operand(n) => FunctionArgument::Each(&operands[n][range.clone()]),
                    LoopOperand::Number(x) => FunctionArgument::All(T::from_f64(x)),
                    LoopOperand::Made(place) => {
                        // SAFETY: as long as the range by the slices above; a loop reads no place that it writes.
                        FunctionArgument::Each(unsafe { std::slice::from_raw_parts(made(place), range.len()) })
                    }
                });
                // SAFETY: as above.
                let y = unsafe { std::slice::from_raw_parts_mut(to, range.len()) };
                match (one.func, args[0]) {
                    (Some(func), _) => apply(func, args, y),
                    (None, FunctionArgument::Each(x)) => y.copy_from_slice(x),
                    (None, FunctionArgument::All(x)) => y.fill(x),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tanh_of;

    #[test]
    fn tanh_has_its_digits_near_0() {
        for n in -4000..4000 {
            let x = 1.01_f64.powi(n / 4) * if n % 2 == 0 { 1.0 } else { -1.0 };
            let (single, exact) = (x as f32, x.tanh());
            assert!((tanh_of(x) - exact).abs() <= 4e-15 * exact.abs(), "{x}: {}", tanh_of(x));
            let exact = f64::from(single).tanh();
            assert!((f64::from(tanh_of(single)) - exact).abs() <= 1e-6 * exact.abs(), "{single}: {}", tanh_of(single));
        }
        assert!([f32::INFINITY, f32::NEG_INFINITY].map(tanh_of) == [1.0, -1.0] && tanh_of(f32::NAN).is_nan());
    }
}
