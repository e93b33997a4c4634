//! Losses, predictions, and the optimiser.

use rtc_compiler::ir::attribute::Probabilities;
use rtc_kernel::clip::{clip_factor, squared_norm};
use rtc_kernel::loss::{
    binary_cross_entropy_each, binary_cross_entropy_each_grad, cross_entropy_each, cross_entropy_each_grad, predict,
    predict_binary, right, weighted_mean_grad, weighted_sum,
};
use rtc_kernel::muon::{MuonScratch, muon, orthogonalise};
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_kernel::optimiser::{MuonStep, OptimiserKind, UpdateRule};

use crate::support::{check_gradients, close, close32, filled, numbers, singles};

#[test]
fn losses_of_extreme_logits_stay_finite() {
    let classes = |logits: &[f32], labels: &[u32]| {
        filled(labels.len(), |y| cross_entropy_each(Probabilities::Softmax, logits, labels, y))
    };
    let binary =
        |logits: &[f32], labels: &[u32]| filled(labels.len(), |y| binary_cross_entropy_each(logits, labels, y));
    assert_eq!(classes(&[1e4, -1e4, 0.0], &[1]), [2e4]);
    assert_eq!(binary(&[1e4, -1e4], &[0, 1]), [1e4, 1e4]);
    assert_eq!(binary(&[1e4, -1e4], &[1, 0]), [0.0, 0.0]);
    let ignored = weighted_sum(&classes(&[f32::NAN, 0.0, 0.0, 0.0], &[0, 1]), Some(&[0.0, 1.0]));
    close(&[ignored.mean()], &[2_f64.ln()], 1e-7);
    assert!(binary(&[f32::NAN], &[1])[0].is_nan() && classes(&[f32::NAN, 1.0], &[1])[0].is_nan());
}

#[test]
fn losses_of_every_item() {
    for (m, c) in [(1, 2), (7, 3), (5, 17), (70, 4)] {
        let labels: Vec<u32> = (0..m).map(|i| (i * 7 % c) as u32).collect();
        let weights: Vec<f64> = (0..m).map(|i| [0.0, 1.0, 0.5][(i + 1) % 3]).collect();
        for kind in [Probabilities::Softmax, Probabilities::Stablemax] {
            check_gradients(
                &[numbers("logits", m * c)],
                |v| filled(m, |y| cross_entropy_each(kind, &v[0], &labels, y)),
                |v, dy| vec![filled(m * c, |d| cross_entropy_each_grad(kind, &v[0], &labels, dy, d))],
            );
        }
        check_gradients(
            &[numbers("logits", m)],
            |v| filled(m, |y| binary_cross_entropy_each(&v[0], &labels, y)),
            |v, dy| vec![filled(m, |d| binary_cross_entropy_each_grad(&v[0], &labels, dy, d))],
        );
        for weights in [None, Some(weights.as_slice())] {
            check_gradients(
                &[numbers("x", m)],
                |v| vec![weighted_sum(&v[0], weights).mean()],
                |_, dy| vec![filled(m, |d| weighted_mean_grad(weights, dy[0], d))],
            );
        }
    }
}

/// Minus the logarithm of `g(label) / sum of g` with `g(a) = a + 1` from 0 on and `1 / (1 - a)` below.
#[test]
fn stablemax_follows_its_formula_however_large_logits_are() {
    let expected = |logits: &[f64], label: usize| {
        let g = |a: f64| if a < 0.0 { 1.0 / (1.0 - a) } else { a + 1.0 };
        -(g(logits[label]) / logits.iter().map(|a| g(*a)).sum::<f64>()).ln()
    };
    for logits in [[0.5, -0.5, 2.0], [1e4, -1e4, 0.0], [-3e30, -1e30, -2e30], [1e38, 3e38, 3e38], [0.0, 0.0, -0.0]] {
        for label in 0..3 {
            let exact = expected(&logits, label);
            let found = filled(1, |y| cross_entropy_each(Probabilities::Stablemax, &logits, &[label as u32], y));
            close(&found, &[exact], 1e-13);
            let singles = logits.map(|a| a as f32);
            let found = filled(1, |y| cross_entropy_each(Probabilities::Stablemax, &singles, &[label as u32], y));
            close32(&found, &[exact], 1e-6);
            let slopes = filled(3, |d| {
                cross_entropy_each_grad(Probabilities::Stablemax, &singles, &[label as u32], &[1.0], d);
            });
            assert!(slopes.iter().all(|slope| slope.is_finite()), "{logits:?}: {slopes:?}");
        }
    }
    let broken = filled(1, |y| cross_entropy_each(Probabilities::Stablemax, &[f32::NAN, 1.0], &[1], y));
    assert!(broken[0].is_nan());
}

#[test]
fn answers_are_right_where_the_first_of_the_largest_is_the_label() {
    let found = filled(3, |y| right(&[0.0_f32, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 5.0], &[2, 0, 2], y));
    assert_eq!(found, [0.0, 1.0, 1.0]);
    let found = filled(4, |y| right(&[0.5_f32, -0.5, 0.0, 0.0], &[1, 1, 0, 1], y));
    assert_eq!(found, [1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn a_mean_without_weight_is_zero() {
    assert_eq!(weighted_sum(&[3.0_f32, f32::NAN], Some(&[0.0, 0.0])).mean(), 0.0);
    assert_eq!(weighted_sum::<f32>(&[], None).mean(), 0.0);
    assert_eq!(filled(2, |d: &mut [f32]| weighted_mean_grad(Some(&[0.0, 0.0]), 1.0, d)), [0.0, 0.0]);
    assert_eq!(weighted_sum(&[3.0_f32, f32::NAN], Some(&[2.0, 0.0])).mean(), 3.0);
    assert!(weighted_sum(&[3.0_f32, f32::NAN], None).mean().is_nan());
}

#[test]
fn predictions() {
    let (mut class, mut probability) = ([9; 2], [0.0; 2]);
    predict(&[0.0_f64, 3_f64.ln(), 1.0, 1.0], &mut class, &mut probability);
    assert_eq!(class, [1, 0], "the first of equals");
    close(&probability, &[0.75, 0.5], 1e-14);
    predict_binary(&[3_f64.ln(), -(3_f64.ln())], &mut class, &mut probability);
    assert_eq!(class, [1, 0]);
    close(&probability, &[0.75, 0.75], 1e-14);
}

#[test]
fn norm_and_clipping() {
    for len in [0, 1, 17, 40_000] {
        let expected: f64 = numbers("g", len).iter().map(|x| x * x).sum();
        close(&[squared_norm(&numbers("g", len))], &[expected], 1e-12);
        close(&[squared_norm(&singles("g", len))], &[expected], 1e-6);
    }
    assert_eq!(clip_factor(4.0, Some(1.0)), 1.0 / (4.0 + 1e-6));
    assert_eq!([clip_factor(0.5, Some(1.0)), clip_factor(9.0, None)], [1.0, 1.0]);
}

/// Of a diagonal matrix each number goes its own way: 3 and 4 are 0.6 and 0.8 of the norm, and five steps of
/// `3.4445 x - 4.775 x^3 + 2.0315 x^5` take them to these numbers.
#[test]
fn orthogonalising_follows_the_case_by_hand() {
    let mut x = [3.0, 0.0, 0.0, 4.0];
    orthogonalise(&mut x, 2, &mut MuonScratch::default());
    let follow = |x: f64| (0..5).fold(x, |x, _| 3.4445 * x - 4.775 * x.powi(3) + 2.0315 * x.powi(5));
    close(&x, &[follow(0.6), 0.0, 0.0, follow(0.8)], 1e-6);
    let mut zeros = [0.0; 6];
    orthogonalise(&mut zeros, 3, &mut MuonScratch::default());
    assert_eq!(zeros, [0.0; 6]);
}

/// Singular values of matrices of all forms come near 1, and what is turned comes out turned.
#[test]
fn orthogonalised_matrices_are_nearly_orthogonal() {
    for (rows, columns) in [(1, 5), (4, 4), (3, 40), (33, 32), (70, 9)] {
        let plain = numbers("x", rows * columns);
        let mut x = plain.clone();
        orthogonalise(&mut x, columns, &mut MuonScratch::default());
        let mut turned: Vec<f64> = (0..rows * columns).map(|i| plain[i % rows * columns + i / rows]).collect();
        orthogonalise(&mut turned, rows, &mut MuonScratch::default());
        let back: Vec<f64> = (0..rows * columns).map(|i| turned[i % columns * rows + i / columns]).collect();
        close(&x, &back, 1e-9);
        let side = rows.min(columns);
        let squares = x.iter().map(|x| x * x).sum::<f64>() / side as f64;
        assert!((0.4..1.5).contains(&squares), "{rows} x {columns}: {squares}");
        let mut single: Vec<f32> = plain.iter().map(|&x| x as f32).collect();
        orthogonalise(&mut single, columns, &mut MuonScratch::default());
        close32(&single, &x, 1e-4);
    }
}

#[test]
fn muon_follows_the_formula() {
    let as_adamw = |rows: f64, columns: f64| 0.2 * rows.max(columns).sqrt();
    let original = |rows: f64, columns: f64| (rows / columns).max(1.0).sqrt();
    follows_the_formula(MuonStep::Adamw, &as_adamw);
    follows_the_formula(MuonStep::Original, &original);
}

fn follows_the_formula(muon_step: MuonStep, length: &dyn Fn(f64, f64) -> f64) {
    let rule = UpdateRule {
        kind: OptimiserKind::Muon,
        learning_rate: 0.01,
        momentum: 0.9,
        muon_step,
        weight_decay: 0.1,
        ..UpdateRule::ADAMW
    };
    // Two matrices, and a number between them that is not touched.
    let matrices = [
        ParameterMatrix { range: 0..12, columns: 3, group: None },
        ParameterMatrix { range: 13..23, columns: 5, group: None },
    ];
    let len = 23;
    let (mut w, mut m) = (numbers("w", len), vec![0.0; len]);
    let (mut expected, mut first) = (w.clone(), m.clone());
    let mut scratch = vec![];
    for step in 1..=3_i32 {
        let g: Vec<f64> = numbers("g", len).iter().map(|g| g * f64::from(step)).collect();
        muon([&mut w, &mut m], &g, &matrices, &mut scratch, &rule);
        for ParameterMatrix { range, columns, .. } in &matrices {
            let mut u = vec![];
            for i in range.clone() {
                first[i] = 0.9 * first[i] + 0.1 * g[i];
                u.push(0.9 * first[i] + 0.1 * g[i]);
                expected[i] -= 0.01 * 0.1 * expected[i];
            }
            orthogonalise(&mut u, *columns, &mut MuonScratch::default());
            let length = length((range.len() / columns) as f64, *columns as f64);
            for (i, u) in range.clone().zip(u) {
                expected[i] -= 0.01 * length * u;
            }
        }
        close(&w, &expected, 1e-13);
        close(&m, &first, 1e-13);
    }
    assert_eq!(w[12], numbers("w", len)[12]);
}
