//! Random numbers as values: their distributions, and that they are functions of key and index.

use rtc_base::rng::Key;
use rtc_compiler::expr::{Chance, Distribution, Draw, Per, ScalarValue};
use rtc_kernel::draw::{NumberDistribution, RowChance, quantile};

use crate::support::{close, filled};

/// Values of tables of the normal distribution, and what the algorithm's author gives for the far tails.
#[test]
fn quantiles_are_those_of_tables() {
    for (p, z) in [
        (0.5, 0.0),
        (0.25, -0.674_489_750_196_081_7),
        (0.001, -3.090_232_306_167_813_5),
        (1e-20, -9.262_340_089_798_408),
        (0.975, 1.959_963_984_540_054),
        (0.841_344_746_068_542_9, 1.0),
    ] {
        close(&[quantile(p)], &[z], 4e-15);
    }
}

/// Mean, deviation and the fourth moment of many numbers.
fn moments(numbers: &[f64]) -> [f64; 3] {
    let mean = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64;
    [mean(1), mean(2), mean(4)]
}

#[test]
fn distributions_have_their_moments() {
    const COUNT: usize = 200_000;
    let draw = |distribution: NumberDistribution| filled(COUNT, |y| distribution.form().fill(Key::new(3), 0, y));
    let normal = draw(NumberDistribution::Normal { deviation: 2.0, cut: f64::INFINITY });
    close(&moments(&normal), &[0.0, 4.0, 48.0], 0.02);
    let cut = draw(NumberDistribution::Normal { deviation: 2.0, cut: 1.5 });
    assert!(cut.iter().all(|x| x.abs() <= 3.0) && cut.iter().any(|x| x.abs() > 2.99));
    // Of a standard normal number between -c and c the square is 1 - 2 c phi(c) / (2 Phi(c) - 1) on the mean.
    let (density, inside) = (0.129_517_595_665_891_74, 0.866_385_597_462_284);
    let square = 1.0 - 2.0 * 1.5 * density / inside;
    close(&moments(&cut)[..2], &[0.0, 4.0 * square], 0.01);
    let uniform = draw(NumberDistribution::Uniform { low: -1.0, high: 3.0 });
    assert!(uniform.iter().all(|x| (-1.0..3.0).contains(x)));
    close(&moments(&uniform), &[1.0, 1.0 + 16.0 / 12.0, 12.2], 0.02);
}

#[test]
fn a_number_depends_on_key_and_index_alone() {
    let form = NumberDistribution::Normal { deviation: 1.0, cut: 2.0 }.form();
    let whole: Vec<f32> = filled(100, |y| form.fill(Key::new(1), 0, y));
    let part: Vec<f32> = filled(40, |y| form.fill(Key::new(1), 33, y));
    assert_eq!(whole[33..73], part);
    let other: Vec<f32> = filled(100, |y| form.fill(Key::new(2), 0, y));
    assert!(whole.iter().zip(&other).all(|(a, b)| a != b));
}

/// Mean and variance of many numbers of a distribution that a depth can have, one of every row.
fn of_depths(distribution: Distribution, parameters: [f64; 2]) -> [f64; 2] {
    const ROWS: u64 = 40_000;
    let draw = Draw { distribution, args: vec![], stream: 5, per: Per::Row, expected: ScalarValue::Int(0) };
    let number = |row| RowChance::new(Key::new(9), row).draw(&draw, parameters).expect("parameters that it can have");
    let all: Vec<f64> = (0..ROWS).map(number).collect();
    assert!(all.iter().all(|x| x.fract() == 0.0) || !distribution.is_whole());
    let [mean, square, _] = moments(&all);
    [mean, square - mean * mean]
}

#[test]
fn depths_have_the_moments_of_their_distributions() {
    for mean in [0.0, 0.3, 8.0, 64.0, 200.0] {
        close(&of_depths(Distribution::Poisson, [mean, 0.0]), &[mean, mean], 0.03);
    }
    let spread = 0.25_f64.exp() - 1.0;
    close(&of_depths(Distribution::Lognormal, [32.0, 0.5]), &[32.0, 32.0 * 32.0 * spread], 0.05);
    close(&of_depths(Distribution::Uniform, [2.0, 16.0]), &[9.0, (15.0 * 15.0 - 1.0) / 12.0], 0.03);
    close(&of_depths(Distribution::Geometric, [0.2, 0.0]), &[5.0, 20.0], 0.05);
    assert_eq!(of_depths(Distribution::Geometric, [1.0, 0.0]), [1.0, 0.0]);
    assert_eq!(of_depths(Distribution::Uniform, [3.0, 3.0]), [3.0, 0.0]);
}

#[test]
fn parameters_that_a_distribution_cannot_have_are_refused() {
    for (distribution, parameters) in [
        (Distribution::Poisson, [-1.0, 0.0]),
        (Distribution::Poisson, [f64::NAN, 0.0]),
        (Distribution::Lognormal, [0.0, 0.5]),
        (Distribution::Lognormal, [3.0, -0.5]),
        (Distribution::Uniform, [3.0, 2.0]),
        (Distribution::Uniform, [2.2, 2.8]),
        (Distribution::Geometric, [0.0, 0.0]),
        (Distribution::Geometric, [1.5, 0.0]),
    ] {
        let draw = Draw { distribution, args: vec![], stream: 0, per: Per::Batch, expected: ScalarValue::Int(0) };
        let drawn = RowChance::new(Key::new(1), 0).draw(&draw, parameters);
        assert!(drawn.is_err(), "{distribution:?} {parameters:?}: {drawn:?}");
    }
}
