//! Gradients of whole searches against differences.

use rtc_base::rng::Key;
use rtc_kernel::beam::align::Align;
use rtc_kernel::beam::{Compose, Overflow, SearchRules};

use super::driver::{Batch, Plan, Run};
use super::model::{Model, random};

const D: usize = 3;
const SLICE: usize = 2;

/// Compares the gradients of all parameters and inputs with central differences.
fn check(plan: Plan, lengths: &[usize]) {
    const STEP: f64 = 1e-6;
    let offsets: Vec<usize> = (0..=lengths.len()).map(|n| lengths[..n].iter().sum()).collect();
    let keys: Vec<Key> = (0..lengths.len() as u64).map(|row| Key::new(5).at(row)).collect();
    let batch = Batch { offsets: &offsets, keys: &keys };
    let numbers =
        |name: &str, len: usize| -> Vec<f64> { (0..len as u64).map(|i| Key::new(3).stream(name).normal(i)).collect() };
    let (x, dout) = (numbers("x", offsets[lengths.len()] * D), numbers("dout", lengths.len() * D));
    let weights = random(D, SLICE, 11);
    let run = |weights: &[Vec<f64>], x: &[f64]| {
        let model = Model::<f64>::new(D, SLICE, weights);
        let run = Run::forward(&model, plan, batch, &model.leaves(x));
        (model, run)
    };
    let loss = |weights: &[Vec<f64>], x: &[f64]| -> f64 {
        run(weights, x).1.out.iter().zip(&dout).map(|(out, dout)| out * dout).sum()
    };
    let (model, whole) = run(&weights, &x);
    let mut grads = model.zeros();
    let dleaves = whole.backward(&model, plan.rules.compose, &dout, &mut grads);
    let dx = model.leaves_back(&x, &dleaves, &mut grads);
    let mut inputs = weights.clone();
    inputs.push(x);
    grads.push(dx);
    let mut largest = vec![0.0_f64; inputs.len()];
    for which in 0..inputs.len() {
        for i in 0..inputs[which].len() {
            let mut moved = |by: f64| {
                let old = inputs[which][i];
                inputs[which][i] = old + by;
                let (x, weights) = inputs.split_last().expect("the input is last");
                let loss = loss(weights, x);
                inputs[which][i] = old;
                loss
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let error = (grads[which][i] - slope).abs() / (1.0 + slope.abs());
            assert!(error < 1e-6, "parameter {which}, number {i}: {} instead of {slope}", grads[which][i]);
            largest[which] = largest[which].max(slope.abs());
        }
    }
    // The last bias of a scorer moves all scores alike, and each kind of search has only one of the scorers.
    let scorer = if plan.rules.compose == Compose::Every { 14..15 } else { 10..13 };
    let used = (0..10).chain(scorer).chain([inputs.len() - 1]);
    used.for_each(|which| assert!(largest[which] > 1e-3, "parameter {which} has no slope: nothing was tested"));
}

fn rules(width: usize) -> SearchRules {
    SearchRules { width, ..SearchRules::default() }
}

#[test]
fn one_level() {
    check(Plan::flat(rules(2)), &[5, 1, 2, 7]);
    check(Plan { noisy: true, ..Plan::flat(rules(3)) }, &[6, 3]);
}

#[test]
fn several_levels() {
    check(Plan::chunked(rules(3), 3), &[11, 4, 5]);
    check(Plan { noisy: true, ..Plan::chunked(rules(2), 4) }, &[21, 1, 5]);
    check(Plan { align: Align::String, ..Plan::chunked(rules(3), 4) }, &[14]);
    check(Plan { align: Align::Uniform { keep_best: false }, ..Plan::chunked(rules(3), 4) }, &[13]);
}

#[test]
fn shared_merges() {
    let rules = SearchRules { share: true, ..rules(4) };
    check(Plan::flat(rules), &[7, 3]);
    check(Plan { noisy: true, ..Plan::chunked(rules, 4) }, &[14]);
}

#[test]
fn parents_first() {
    let rules = SearchRules { compose: Compose::Every, ..rules(3) };
    check(Plan::flat(rules), &[6, 2, 1]);
    check(Plan { noisy: true, ..Plan::chunked(rules, 4) }, &[9]);
}

#[test]
fn softened_beams() {
    for width in 2..5 {
        let rules =
            SearchRules { width, compose: Compose::Every, overflow: Overflow::Soften, ..SearchRules::default() };
        check(Plan::flat(rules), &[6, 3]);
        check(Plan { noisy: true, ..Plan::chunked(rules, 4) }, &[9]);
    }
}
