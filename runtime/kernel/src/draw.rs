//! Random numbers as values: normal ones, whole or cut, and uniform ones.
//!
//! Number `n` of a row is a function of the draw `key.bits(n)` of the row's key. The upper 52 bits of a draw are a number strictly between
//! 0 and 1, to which the inverse of the distribution's cumulative function is applied. Everything after that is additions, products,
//! quotients and roots in double precision, each rounded by itself, so that every machine gives the same bits.
//!
//! Source: Wichura 1988, Algorithm AS 241, Applied Statistics 37.

use rtc_compiler::expr::{self, Chance, Draw, EvalError, Per};
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::ops::Op;

use super::Real;
use rtc_base::rng::Key;

/// The distribution from which numbers are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberDistribution {
    /// Normal numbers around 0, none more than `cut` deviations away.
    Normal {
        /// Their deviation, before the cut.
        deviation: f64,
        /// Where they are cut, in deviations; infinite where they are not.
        cut: f64,
    },
    /// Numbers between two others.
    Uniform {
        /// The smaller one.
        low: f64,
        /// The larger one.
        high: f64,
    },
}

/// The formula of a distribution's numbers: a point `first + width u` with u between 0 and 1, for normal numbers their quantile there between
/// `-most` and `most`, times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistributionForm {
    is_normal: bool,
    first: f64,
    width: f64,
    most: f64,
    scale: f64,
}

impl NumberDistribution {
    /// What a node draws from.
    pub fn of(node: &Node) -> Self {
        match node.op {
            Op::Normal => Self::Normal {
                deviation: node.get(attribute::STD),
                cut: node.find(attribute::CUT_AT).unwrap_or(f64::INFINITY),
            },
            _ => Self::Uniform { low: node.get(attribute::LOW), high: node.get(attribute::HIGH) },
        }
    }

    /// How it makes numbers.
    pub fn form(self) -> DistributionForm {
        match self {
            Self::Normal { deviation, cut } => {
                let below = 0.5 * libm::erfc(cut * std::f64::consts::FRAC_1_SQRT_2);
                DistributionForm {
                    is_normal: true,
                    first: below,
                    width: 1.0 - 2.0 * below,
                    most: cut,
                    scale: deviation,
                }
            }
            Self::Uniform { low, high } => {
                DistributionForm { is_normal: false, first: low, width: high - low, most: 0.0, scale: 1.0 }
            }
        }
    }
}

impl DistributionForm {
    /// Whether the numbers are normal.
    pub fn is_normal(self) -> bool {
        self.is_normal
    }

    /// The four numbers that say the rest.
    pub fn numbers(self) -> [f64; 4] {
        [self.first, self.width, self.most, self.scale]
    }

    /// Number `n` of a row.
    pub fn number(self, key: Key, n: u64) -> f64 {
        /// 2^-52.
        const UNIT: f64 = 1.0 / (1_u64 << 52) as f64;
        let between = ((key.bits(n) >> 12) as f64 + 0.5) * UNIT;
        let point = self.first + self.width * between;
        if self.is_normal { quantile(point).clamp(-self.most, self.most) * self.scale } else { point }
    }

    /// Writes the numbers of a row from `start` on, on the calling thread.
    pub fn fill<T: Real>(self, key: Key, start: usize, y: &mut [T]) {
        for (n, y) in (start as u64..).zip(y) {
            *y = T::from_f64(self.number(key, n));
        }
    }
}

/// The draws of a row: numbers of steps. The counters of loops are no part of them, so that a draw is the same wherever it is read.
#[derive(Clone, Copy, Debug)]
pub struct RowChance {
    key: Key,
    row: u64,
}

impl RowChance {
    /// The draws of a row in the run of this key.
    pub fn new(run: Key, row: u64) -> Self {
        Self { key: run.stream("depth"), row }
    }
}

impl Chance for RowChance {
    fn draw(&self, draw: &Draw, [a, b]: [f64; 2]) -> Result<f64, EvalError> {
        let of_batch = self.key.at(draw.stream);
        let key = match draw.per {
            Per::Batch => of_batch,
            Per::Row => of_batch.at(self.row),
        };
        if !draw.distribution.allows([a, b]) {
            return Err(EvalError::BadParameters);
        }
        Ok(match draw.distribution {
            expr::Distribution::Poisson => poisson(key, a),
            expr::Distribution::Lognormal => {
                let normal = NumberDistribution::Normal { deviation: b, cut: f64::INFINITY }.form().number(key, 0);
                libm::exp(libm::log(a) - 0.5 * b * b + normal)
            }
            expr::Distribution::Uniform => a.ceil() + key.below(0, (b.floor() - a.ceil()) as u64 + 1) as f64,
            expr::Distribution::Geometric => {
                // The first trial that succeeds is the n-th with probability p (1 - p)^(n - 1).
                let tail = libm::log1p(-key.uniform(0)) / libm::log1p(-a);
                1.0 + tail.floor()
            }
        })
    }
}

/// A number of the Poisson distribution: the sum of those of small means, each by inversion.
fn poisson(key: Key, mean: f64) -> f64 {
    /// The probability of 0 at this mean is far from the smallest number.
    const SMALL: f64 = 64.0;
    let pieces = (mean / SMALL).ceil().max(1.0);
    let piece = mean / pieces;
    let one = |n: u64| {
        let (mut rest, mut p, mut count) = (key.uniform(n), libm::exp(-piece), 0.0);
        // Where rounding leaves a rest, the probabilities have become nothing.
        while rest >= p && p > 0.0 {
            rest -= p;
            count += 1.0;
            p *= piece / count;
        }
        count
    };
    (0..pieces as u64).map(one).sum()
}

/// Evaluates a polynomial, highest coefficient first.
fn horner(x: f64, coefficients: [f64; 8]) -> f64 {
    coefficients.into_iter().fold(0.0, |sum, c| sum * x + c)
}

/// The number below which a standard normal one lies with probability `p`, to 1e-15.
pub fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * horner(r, CENTRE[0]) / horner(r, CENTRE[1]);
    }
    let r = (-ln(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let [above, below] = if r <= 5.0 { TAIL } else { FAR };
    let r = if r <= 5.0 { r - 1.6 } else { r - 5.0 };
    let size = horner(r, above) / horner(r, below);
    if q < 0.0 { -size } else { size }
}

/// The natural logarithm of a normal number, to 1e-15 of it: with `x = 2^n m` and m around 1 it is `n ln 2 + 2 artanh((m - 1) / (m + 1))`.
fn ln(x: f64) -> f64 {
    let (mut m, mut n) = libm::frexp(x);
    if m < std::f64::consts::FRAC_1_SQRT_2 {
        (m, n) = (m * 2.0, n - 1);
    }
    let f = (m - 1.0) / (m + 1.0);
    let s = f * f;
    let series = ARTANH.into_iter().rev().fold(0.0, |sum, odd| sum * s + 1.0 / odd);
    f64::from(n) * std::f64::consts::LN_2 + 2.0 * (f * series)
}

/// The denominators of the series of artanh.
const ARTANH: [f64; 12] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0, 23.0];

/// Numerator and denominator within 0.425 of the middle.
const CENTRE: [[f64; 8]; 2] = [
    [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ],
    [
        5_226.495_278_852_854,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ],
];

/// The same of the tails.
const TAIL: [[f64; 8]; 2] = [
    [
        0.000_774_545_014_278_341_4,
        0.022_723_844_989_269_184,
        0.241_780_725_177_450_6,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        0.000_547_593_808_499_534_5,
        0.015_198_666_563_616_457,
        0.148_103_976_427_480_08,
        0.689_767_334_985_1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
];

/// The same far out.
const FAR: [[f64; 8]; 2] = [
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        0.001_242_660_947_388_078_4,
        0.026_532_189_526_576_124,
        0.296_560_571_828_504_87,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_7e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        0.000_786_869_131_145_613_3,
        0.014_875_361_290_850_615,
        0.136_929_880_922_735_8,
        0.599_832_206_555_888,
        1.0,
    ],
];
