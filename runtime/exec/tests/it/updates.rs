//! Updates of weights against the formulas of their optimisers.

use rtc_base::rng::Key;
use rtc_compiler::formula::UpdateFormula;
use rtc_exec::HostMemory;
use rtc_exec::storage::Element;
use rtc_exec::update::{OptimiserState, Targets, UpdatedRange, update, update_by_formula};
use rtc_kernel::optimiser::{Lookahead, OptimiserKind, UpdateRule};

/// Normal numbers, the same for the same name and length.
fn numbers(name: &str, len: usize) -> Vec<f64> {
    let key = Key::new(7).stream(name);
    (0..len as u64).map(|i| key.normal(i)).collect()
}

/// Asserts that two arrays agree to `tolerance`, relative to 1 + their size.
#[track_caller]
fn close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs() / (1.0 + expected.abs());
        assert!(error <= tolerance, "number {i}: {got} instead of {expected}");
    }
}

/// The same numbers in single precision.
fn singles(name: &str, len: usize) -> Vec<f32> {
    numbers(name, len).into_iter().map(|x| x as f32).collect()
}

/// [`close`] for single precision.
#[track_caller]
fn close32(got: &[f32], expected: &[f64], tolerance: f64) {
    close(&got.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), expected, tolerance);
}

/// An update of all numbers of a flat array.
fn updated<T: Element>(
    w: &mut Vec<T>,
    g: &Vec<T>,
    state: &mut OptimiserState<Vec<T>>,
    rule: &UpdateRule,
    now: (f64, u64),
) {
    let targets = Targets {
        numbers: &[UpdatedRange { range: 0..w.len(), group: None, decays: true }],
        matrices: &[],
        len: w.len(),
    };
    update(&mut HostMemory::default(), (w, g), state, targets, rule, now);
}

#[test]
fn adamw_follows_the_formula() {
    let rule = UpdateRule {
        learning_rate: 0.01,
        beta1: 0.9,
        beta2: 0.98,
        epsilon: 1e-8,
        weight_decay: 0.1,
        clip: None,
        ..UpdateRule::ADAMW
    };
    let len = 33;
    let (mut w, mut state) = (numbers("w", len), OptimiserState::default());
    let (mut w32, mut state32) = (singles("w", len), OptimiserState::default());
    let (mut expected, mut first, mut second) = (w.clone(), vec![0.0; len], vec![0.0; len]);
    for step in 1..=5_u64 {
        let g: Vec<f64> = numbers("g", len).iter().map(|g| g * step as f64).collect();
        let g32: Vec<f32> = g.iter().map(|&g| g as f32).collect();
        updated(&mut w, &g, &mut state, &rule, (0.5, step));
        updated(&mut w32, &g32, &mut state32, &rule, (0.5, step));
        for i in 0..len {
            let g = 0.5 * g[i];
            expected[i] -= 0.01 * 0.1 * expected[i];
            first[i] += 0.1 * (g - first[i]);
            second[i] = 0.98 * second[i] + 0.02 * g * g;
            let (m, v) = (first[i] / (1.0 - 0.9_f64.powi(step as i32)), second[i] / (1.0 - 0.98_f64.powi(step as i32)));
            expected[i] -= 0.01 * m / (v.sqrt() + 1e-8);
        }
        let [Some(m), Some(v), None] = &state else { panic!("AdamW has two moments") };
        close(&w, &expected, 1e-13);
        close(m, &first, 1e-13);
        close(v, &second, 1e-13);
        close32(&w32, &expected, 1e-6);
    }
}

/// A step is the angle between the moments: with a constant gradient it is a quarter of a turn, whatever the size of the gradient.
#[test]
fn adam_atan2_follows_the_formula() {
    let rule = UpdateRule {
        kind: OptimiserKind::AdamAtan2,
        learning_rate: 0.01,
        beta2: 0.95,
        weight_decay: 0.1,
        ..UpdateRule::ADAMW
    };
    let len = 33;
    let (mut w, mut state) = (numbers("w", len), OptimiserState::default());
    let (mut w32, mut state32) = (singles("w", len), OptimiserState::default());
    let (mut expected, mut first, mut second) = (w.clone(), vec![0.0; len], vec![0.0; len]);
    for step in 1..=5_u64 {
        let g: Vec<f64> = numbers("g", len).iter().map(|g| g * step as f64).collect();
        updated(&mut w, &g, &mut state, &rule, (0.5, step));
        updated(&mut w32, &g.iter().map(|&g| g as f32).collect(), &mut state32, &rule, (0.5, step));
        for i in 0..len {
            let g = 0.5 * g[i];
            first[i] = 0.9 * first[i] + 0.1 * g;
            second[i] = 0.95 * second[i] + 0.05 * g * g;
            let (m, v) = (first[i] / (1.0 - 0.9_f64.powi(step as i32)), second[i] / (1.0 - 0.95_f64.powi(step as i32)));
            expected[i] = expected[i] * (1.0 - 0.01 * 0.1) - 0.01 * m.atan2(v.sqrt());
        }
        close(&w, &expected, 1e-13);
        close32(&w32, &expected, 1e-6);
    }
    for size in [1e-12, 1.0, 1e12] {
        let (mut w, mut state) = (vec![0.0], OptimiserState::default());
        updated(&mut w, &vec![-size], &mut state, &UpdateRule { weight_decay: 0.0, ..rule }, (1.0, 1));
        close(&w, &[0.01 * std::f64::consts::FRAC_PI_4], 1e-15);
    }
    let (mut w, mut state) = (vec![0.5], OptimiserState::default());
    updated(&mut w, &vec![0.0], &mut state, &UpdateRule { weight_decay: 0.0, ..rule }, (1.0, 1));
    assert_eq!(w, [0.5], "no gradient is no step");
}

/// Constant gradient 1 from 1: five steps without rectification, the fifth one halfway back to the start, then rectified.
#[test]
fn ranger_follows_the_case_by_hand() {
    let rule = UpdateRule { kind: OptimiserKind::Ranger, learning_rate: 0.1, ..UpdateRule::ADAMW };
    let (mut w, mut state) = (vec![1.0], OptimiserState::default());
    let mut seen = vec![];
    for step in 1..=6 {
        updated(&mut w, &vec![2.0], &mut state, &rule, (0.5, step));
        seen.push(w[0]);
    }
    close(&seen[..5], &[0.9, 0.8, 0.7, 0.6, 0.6], 1e-12);
    close(&seen[5..], &[0.597418], 5e-7);
    close(state[2].as_ref().expect("slow weights"), &[0.6], 1e-12);
}

/// The same with other constants: slow weights that go half the way every second step, and a rectification that never comes.
#[test]
fn ranger_takes_other_constants() {
    let lookahead = Lookahead { every: 2, follow: 0.5 };
    let rule = UpdateRule {
        kind: OptimiserKind::Ranger,
        learning_rate: 0.1,
        lookahead,
        rectify_from: 1e9,
        ..UpdateRule::ADAMW
    };
    let (mut w, mut state) = (vec![1.0], OptimiserState::default());
    let mut seen = vec![];
    for step in 1..=6 {
        updated(&mut w, &vec![1.0], &mut state, &rule, (1.0, step));
        seen.push(w[0]);
    }
    close(&seen, &[0.9, 0.9, 0.8, 0.8, 0.7, 0.7], 1e-12);
    // From 4 on, the shortest length that has a factor, the fifth update is the first that is rectified.
    let rule = UpdateRule { rectify_from: 4.0, lookahead: Lookahead { every: 100, follow: 0.5 }, ..rule };
    let (mut w, mut state) = (vec![1.0], OptimiserState::default());
    for step in 1..=5 {
        updated(&mut w, &vec![1.0], &mut state, &rule, (1.0, step));
    }
    assert!((w[0] - 0.5_f64).abs() > 0.05, "the fifth step is far shorter than 0.1: {}", w[0]);
}

#[test]
fn ranger_follows_the_formula() {
    let rule = UpdateRule {
        kind: OptimiserKind::Ranger,
        learning_rate: 0.01,
        weight_decay: 0.1,
        beta2: 0.99,
        ..UpdateRule::ADAMW
    };
    let len = 19;
    let (mut w, mut state) = (numbers("w", len), OptimiserState::default());
    let (mut expected, mut behind) = (w.clone(), w.clone());
    let (mut first, mut second) = (vec![0.0; len], vec![0.0; len]);
    for step in 1..=12_i32 {
        let g: Vec<f64> = numbers("g", len).iter().map(|g| g * f64::from(step)).collect();
        updated(&mut w, &g, &mut state, &rule, (1.0, step as u64));
        let (b1, b2) = (0.9_f64.powi(step), 0.99_f64.powi(step));
        let most = 2.0 / 0.01 - 1.0;
        let known = most - 2.0 * f64::from(step) * b2 / (1.0 - b2);
        for i in 0..len {
            first[i] = 0.9 * first[i] + 0.1 * g[i];
            second[i] = 0.99 * second[i] + 0.01 * g[i] * g[i];
            expected[i] -= 0.01 * 0.1 * expected[i];
            let mean = first[i] / (1.0 - b1);
            expected[i] -= 0.01
                * if known < 5.0 {
                    mean
                } else {
                    let r = (known - 4.0) * (known - 2.0) * most / ((most - 4.0) * (most - 2.0) * known);
                    mean * (r * (1.0 - b2)).sqrt() / (second[i].sqrt() + 1e-8)
                };
            if step % 5 == 0 {
                behind[i] += 0.8 * (expected[i] - behind[i]);
                expected[i] = behind[i];
            }
        }
        close(&w, &expected, 1e-13);
    }
}

/// Lion moves by the sign of one mean of gradients, and remembers another one (Chen et al. 2023, Algorithm 2).
#[test]
fn lion_follows_the_formula() {
    let rule = UpdateRule {
        kind: OptimiserKind::Lion,
        learning_rate: 0.01,
        beta2: 0.99,
        weight_decay: 0.1,
        ..UpdateRule::ADAMW
    };
    let len = 33;
    let (mut w, mut state) = (numbers("w", len), OptimiserState::default());
    let (mut expected, mut mean) = (w.clone(), vec![0.0; len]);
    for step in 1..=5_u64 {
        let mut g = numbers("g", len);
        g.iter_mut().for_each(|g| *g *= step as f64 * if step % 2 == 0 { -1.0 } else { 1.0 });
        updated(&mut w, &g, &mut state, &rule, (0.5, step));
        for i in 0..len {
            let g = 0.5 * g[i];
            let sign = (0.9 * mean[i] + 0.1 * g).signum();
            mean[i] = 0.99 * mean[i] + 0.01 * g;
            expected[i] = expected[i] * (1.0 - 0.01 * 0.1) - 0.01 * sign;
        }
        close(&w, &expected, 1e-13);
    }
    assert!(state[1].is_none(), "there is no second moment");
    let (mut w, mut state) = (vec![0.5], OptimiserState::default());
    updated(&mut w, &vec![0.0], &mut state, &UpdateRule { weight_decay: 0.0, ..rule }, (1.0, 1));
    assert_eq!(w, [0.5], "no gradient is no step");
}

/// With momentum 0 a step of SGD is the gradient times the rate; with momentum `b` its length grows towards `1 / (1 - b)`.
#[test]
fn sgd_follows_the_formula() {
    let rule = UpdateRule { kind: OptimiserKind::Sgd, learning_rate: 0.01, momentum: 0.0, ..UpdateRule::ADAMW };
    let len = 33;
    let (start, g) = (numbers("w", len), numbers("g", len));
    let (mut w, mut state) = (start.clone(), OptimiserState::default());
    updated(&mut w, &g, &mut state, &UpdateRule { weight_decay: 0.5, ..rule }, (2.0, 1));
    let expected: Vec<f64> = start.iter().zip(&g).map(|(w, g)| w * (1.0 - 0.01 * 0.5) - 0.01 * 2.0 * g).collect();
    close(&w, &expected, 1e-15);
    let (mut w, mut state) = (vec![0.0], OptimiserState::default());
    for step in 1..=200 {
        updated(&mut w, &vec![1.0], &mut state, &UpdateRule { momentum: 0.9, ..rule }, (1.0, step));
    }
    // The sum of (1 - 0.9^n) / (1 - 0.9) for n from 1 to 200.
    let moved: f64 = (1..=200).map(|n| (1.0 - 0.9_f64.powi(n)) / 0.1).sum();
    close(&w, &[-0.01 * moved], 1e-12);
    assert!(state[1].is_none(), "there is no second moment");
}

/// Optimisers written as formulas, with the rules that they are.
const WRITTEN: [(OptimiserKind, &str); 3] = [
    (
        OptimiserKind::Adamw,
        "m = beta1 * m + (1 - beta1) * g
         v = beta2 * v + (1 - beta2) * g ^ 2
         p = p - rate * (m / (1 - beta1 ^ step) / (sqrt(v / (1 - beta2 ^ step)) + epsilon) + decay * p)",
    ),
    (
        OptimiserKind::Lion,
        "p = p - rate * (sign(beta1 * m + (1 - beta1) * g) + decay * p); m = beta2 * m + (1 - beta2) * g",
    ),
    (OptimiserKind::Sgd, "m = momentum * m + g; p = p - rate * (m + decay * p)"),
];

/// A formula of a rule that exists takes its steps, at every length, in groups and with gradients that are scaled.
#[test]
fn formulas_take_the_steps_of_the_rules_that_they_write() {
    for len in [1, 33, 1024, 1025, 40_000] {
        for (kind, text) in &WRITTEN {
            let formula = UpdateFormula::parse(text).expect(text);
            let mut rule = UpdateRule { kind: *kind, learning_rate: 0.01, weight_decay: 0.1, ..UpdateRule::ADAMW };
            rule.groups[0].learning_rate = Some(0.05);
            let (mut w, mut state) = (numbers("w", len), OptimiserState::default());
            let (mut ours, mut own) = (w.clone(), OptimiserState::default());
            let half = len / 2;
            let targets = Targets {
                numbers: &[
                    UpdatedRange { range: 0..half, group: None, decays: true },
                    UpdatedRange { range: half..len, group: Some(0), decays: false },
                ],
                matrices: &[],
                len,
            };
            for step in 1..=5_u64 {
                let g: Vec<f64> = numbers("g", len).iter().map(|g| g * (3.0 - step as f64)).collect();
                update(&mut HostMemory::default(), (&mut w, &g), &mut state, targets, &rule, (0.5, step));
                let memory = &mut HostMemory::default();
                update_by_formula(memory, (&mut ours, &g), &mut own, targets, (&rule, &formula), (0.5, step))
                    .expect(text);
                close(&ours, &w, 1e-12);
            }
            for (own, kept) in own.iter().zip(&state).take(formula.kept().len()) {
                close(own.as_ref().expect("it is kept"), kept.as_ref().expect("it is kept"), 1e-12);
            }
            assert!(own[formula.kept().len()..].iter().all(Option::is_none), "{text}");
        }
    }
}

/// A shared number without a value changes nothing, and says why.
#[test]
fn a_formula_without_a_value_changes_nothing() {
    let formula = UpdateFormula::parse("m = m + g; p = p - rate * m * (1 / (step - 2))").expect("a formula");
    let (mut w, mut state) = (vec![1.0], OptimiserState::default());
    let targets =
        Targets { numbers: &[UpdatedRange { range: 0..1, group: None, decays: true }], matrices: &[], len: 1 };
    let rule = UpdateRule { learning_rate: 0.5, ..UpdateRule::ADAMW };
    let mut step = |n| {
        let memory = &mut HostMemory::default();
        let outcome = update_by_formula(memory, (&mut w, &vec![1.0]), &mut state, targets, (&rule, &formula), (1.0, n));
        (outcome, w[0])
    };
    assert_eq!(step(1), (Ok(()), 1.5));
    let (outcome, w) = step(2);
    assert!(outcome.is_err_and(|why| why.contains("has no value")) && w == 1.5);
    assert_eq!(step(3), (Ok(()), 0.5));
}
