//! Branch-free `exp`, `log` and `erf` in single precision.
//!
//! Polynomials are minimax fits (Remez exchange in 40 digits, coefficients rounded to single precision); relative
//! errors stay below 1.5e-7. NaN and infinities pass through. Everything is arithmetic and selection, so loops over
//! these functions become vector code; call them under run-time dispatch, or each `mul_add` is a library call.
//!
//! Source: rtc.

/// 1.5 * 2^23: adding it rounds to an integer that then stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;
/// The high part of ln 2: products with small integers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
/// ln 2 minus the high part.
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Brings every subnormal number into the normal range.
const TWO_TO_23: f32 = 8_388_608.0;
/// The bits of sqrt(1/2).
const ROOT_OF_HALF: u32 = 0x3f35_04f3;

/// Evaluates a polynomial, highest coefficient first.
#[inline(always)]
fn horner<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for &c in &coefficients[1..] {
        sum = sum.mul_add(x, c);
    }
    sum
}

/// [`horner`] on the even and the odd powers apart: two chains of half the length, which overlap.
#[inline(always)]
fn two_chains<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let square = x * x;
    let mut chains = [coefficients[0], coefficients[1]];
    for (i, &c) in coefficients.iter().enumerate().skip(2) {
        chains[i % 2] = chains[i % 2].mul_add(square, c);
    }
    // The last coefficient is that of the power 0, so its chain is the even one.
    let [even, odd] = if N % 2 == 1 { chains } else { [chains[1], chains[0]] };
    odd.mul_add(x, even)
}

/// Splits x into `n ln 2 + r`: returns exp(r) for |r| <= ln 2 / 2, and n + [`ROUNDER`].
#[inline(always)]
fn reduce(x: f32) -> (f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let p = horner(r, [1.381_446_3e-3, 8.368_781e-3, 4.166_839_3e-2, 1.666_652e-1, 0.499_999_94]);
    (p.mul_add(r * r, r) + 1.0, shifted)
}

/// e^x for -87 <= x <= 88: the power of two goes straight into the exponent bits.
#[inline(always)]
fn exp_moderate(x: f32) -> f32 {
    let (power, shifted) = reduce(x);
    f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// e^x for x <= 0; 0 where x is below -87, minus infinity included.
#[inline(always)]
pub(super) fn exp_below_one(x: f32) -> f32 {
    let tiny = x < -87.0;
    let power = exp_moderate(if tiny { -87.0 } else { x });
    if tiny { 0.0 } else { power }
}

/// e^x; infinite above 88.73, and through the subnormal numbers down to 0.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let (power, shifted) = reduce(x.clamp(-104.0, 89.0));
    // Two factors, for 2^n itself may be out of range where the result is not.
    let n = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = n >> 1;
    let two_to = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    power * two_to(half) * two_to(n.wrapping_sub(half))
}

/// The natural logarithm; minus infinity for 0, NaN for negative numbers. With `x = 2^n (1 + f)` and `1 + f` from sqrt(1/2) to
/// sqrt(2) it is `n ln 2 + f - f^2 / 2 + f^3 p(f)`.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    // Subnormal numbers have no exponent of their own.
    let small = x < f32::MIN_POSITIVE;
    let bits = if small { x * TWO_TO_23 } else { x }.to_bits();
    let n = (bits.wrapping_sub(ROOT_OF_HALF) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((n as u32) << 23)) - 1.0;
    let n = (n - if small { 23 } else { 0 }) as f32;
    let p = horner(
        f,
        [
            -7.634_502e-2,
            1.276_158e-1,
            -1.316_018_1e-1,
            1.420_175_8e-1,
            -1.662_335_8e-1,
            2.000_122_7e-1,
            -2.500_082e-1,
            3.333_333e-1,
        ],
    );
    let square = f * f;
    let rest = n.mul_add(LN2_LOW, (p * f).mul_add(square, -0.5 * square));
    let log = n.mul_add(LN2_HIGH, f + rest);
    let below = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    let log = if x > 0.0 { log } else { below };
    if x == f32::INFINITY { x } else { log }
}

/// The error function to an absolute error of 1e-7, with one branch: enough where 1 is added to it.
#[inline(always)]
pub(super) fn erf_absolute(x: f32) -> f32 {
    let t = x.abs();
    let t4 = if t > 4.0 { 4.0 } else { t };
    let power = two_chains(
        t4,
        [
            3.143_822e-5,
            -3.087_866_6e-4,
            1.032_352_3e-3,
            5.370_107e-4,
            -1.958_402_6e-2,
            1.029_196_46e-1,
            6.365_977_5e-1,
            1.128_380_3,
        ],
    );
    (1.0 - exp_moderate(-power * t4)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest relative error over a dense grid of both signs, from 2^-40 to `top`.
    fn worst(f: fn(f32) -> f32, reference: fn(f64) -> f64, top: f32) -> f64 {
        let mut worst = 0.0_f64;
        let mut x = 2.0_f32.powi(-40);
        while x < top {
            for x in [x, -x] {
                let expected = reference(f64::from(x));
                if (expected as f32).is_normal() {
                    worst = worst.max(((f64::from(f(x)) - expected) / expected).abs());
                }
            }
            x *= 1.000_07;
        }
        worst
    }

    #[test]
    fn polynomials_are_accurate() {
        assert!(worst(exp, f64::exp, 100.0) < 1.5e-7, "exp {:e}", worst(exp, f64::exp, 100.0));
        let below_one = |x: f32| exp_below_one(-x.abs());
        let error = worst(below_one, |x| (-x.abs()).exp(), 86.0);
        assert!(error < 1.5e-7, "exp_below_one {error:e}");
    }

    #[test]
    fn the_logarithm_is_accurate() {
        let positive = |x: f32| log(x.abs());
        let reference = |x: f64| x.abs().ln();
        let error = worst(positive, reference, f32::MAX / 2.0);
        assert!(error < 1.3e-7, "log {error:e}");
        // Around 1, where the logarithm vanishes.
        for n in -100_000..100_000 {
            let x = 1.0 + n as f32 * 6e-8;
            let expected = f64::from(x).ln();
            let error = (f64::from(log(x)) - expected).abs() / expected.abs().max(1e-30);
            assert!(error < 1.3e-7 || expected == 0.0, "{x}: {error:e}");
        }
        assert_eq!(
            [log(0.0), log(-0.0), log(1.0), log(f32::INFINITY)],
            [-f32::INFINITY, -f32::INFINITY, 0.0, f32::INFINITY]
        );
        assert!([-1.0, f32::NEG_INFINITY, f32::NAN, -1e-40].into_iter().all(|x| log(x).is_nan()));
        for x in [1e-40_f32, f32::from_bits(1), f32::MIN_POSITIVE] {
            assert!((f64::from(log(x)) / f64::from(x).ln() - 1.0).abs() < 1.3e-7, "{x:e}");
        }
    }

    #[test]
    fn the_absolute_error_function_is_close() {
        for i in -60_000..60_000 {
            let x = i as f32 * 1e-4;
            let error = f64::from(erf_absolute(x)) - libm::erf(f64::from(x));
            assert!(error.abs() < 1e-7, "{x}: {error:e}");
        }
        assert!(erf_absolute(f32::NAN).is_nan());
        assert_eq!([erf_absolute(f32::INFINITY), erf_absolute(f32::NEG_INFINITY)], [1.0, -1.0]);
    }

    #[test]
    fn extremes_pass_through() {
        assert_eq!([exp_below_one(f32::NEG_INFINITY), exp_below_one(0.0)], [0.0, 1.0]);
        for f in [exp, exp_below_one] {
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!([exp(f32::INFINITY), exp(f32::NEG_INFINITY), exp(0.0), exp(-0.0)], [f32::INFINITY, 0.0, 1.0, 1.0]);
        assert_eq!([exp(88.8), exp(f32::MAX), exp(f32::MIN)], [f32::INFINITY, f32::INFINITY, 0.0]);
        assert!((exp(-100.0) / 3.78e-44 - 1.0).abs() < 0.05, "subnormal results round, not vanish");
    }
}
