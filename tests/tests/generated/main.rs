//! Random small models of the language, well typed by construction: what holds for every model holds for them.
//!
//! `RTC_GENERATE=1000 cargo test --workspace --test generated` takes more of them. Every model is a pure function of its number, so
//! a failure names the number and can be run alone with `RTC_GENERATE_ONE`.
#![allow(clippy::print_stderr, reason = "what was found is said with --nocapture")]

mod properties;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use properties::{Seen, examine, training};
use rtc_compiler::plan::plan;
use rtc_runtime::cuda::device::Target;
use rtc_runtime::cuda::generated;
use rtc_runtime::exec::Halting;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::generated as specs;
use rtc_tests::numeric::{assert_same, run, run_on};

/// Models of an ordinary test run.
const MODELS: u64 = 120;

/// How many models a machine examines at a time.
const THREADS: u64 = 4;

/// The numbers of the models that are asked for: so many, or of those that `RTC_GENERATE` says one in `part`.
fn numbers(ordinary: u64, part: u64) -> Vec<u64> {
    let number = |text: String| text.parse::<u64>().expect("a number is asked for");
    match std::env::var("RTC_GENERATE_ONE") {
        Ok(one) => vec![number(one)],
        Err(_) => (0..std::env::var("RTC_GENERATE").map_or(ordinary, |all| number(all).div_ceil(part))).collect(),
    }
}

/// What became of some models: of each the faults that were found, and how often what was seen.
fn all(numbers: &[u64]) -> (Vec<String>, BTreeMap<Seen, usize>) {
    let (mut faults, mut counts) = (vec![], BTreeMap::new());
    for &number in numbers {
        let model = specs::model(number);
        match catch_unwind(AssertUnwindSafe(|| examine(number, &model))) {
            Ok(Ok(seen)) => seen.into_iter().for_each(|what| *counts.entry(what).or_default() += 1),
            Ok(Err(fault)) => faults.push(format!("model {number}: {fault}\n{}", model.text)),
            Err(_) => faults.push(format!("model {number} panics\n{}", model.text)),
        }
    }
    (faults, counts)
}

/// The kernels and the executor of a GPU, on an emulated device, give the numbers of the processor.
#[test]
fn an_emulated_gpu_gives_the_numbers_of_the_processor() {
    let cases: Vec<_> = numbers(12, 8).into_iter().filter_map(|n| Some((n, training(n, &specs::model(n))?))).collect();
    let made: BTreeSet<_> =
        cases.iter().flat_map(|(_, case)| generated(&plan(case.graph.clone()), Target::default())).collect();
    let Some(kernels) = Kernels::compile("double", &made) else {
        return eprintln!("skipped: there is no C++ compiler to run the kernels with");
    };
    for (number, case) in &cases {
        let host = run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact);
        let device = Rc::new(Emulated::new(kernels.clone()));
        let there = run_on::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact, device);
        assert_same(&format!("model {number}\n{}", specs::model(*number).text), &there, &host, 1e-9);
    }
}

#[test]
fn every_property_holds_for_every_model() {
    let numbers = numbers(MODELS, 1);
    let parts: Vec<Vec<u64>> =
        (0..THREADS).map(|t| numbers.iter().copied().filter(|n| n % THREADS == t).collect()).collect();
    let (mut faults, mut counts) = (vec![], BTreeMap::new());
    std::thread::scope(|scope| {
        let runs: Vec<_> = parts.iter().map(|part| scope.spawn(|| all(part))).collect();
        for run in runs {
            let (more, seen) = run.join().expect("faults are caught");
            faults.extend(more);
            seen.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
        }
    });
    eprintln!("{counts:#?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    if numbers.len() < 100 {
        return;
    }
    let count = |what: Seen| counts.get(&what).copied().unwrap_or(0);
    let total = numbers.len();
    assert!(count(Seen::Compiled) * 2 > total, "most models compile: {counts:#?}");
    assert!(count(Seen::Proved) * 10 > total && count(Seen::Leaks) * 20 > total, "both verdicts are met: {counts:#?}");
    assert!(count(Seen::LeakStays) * 2 < count(Seen::Leaks), "what leaks mostly moves: {counts:#?}");
    assert!(count(Seen::Slopes) * 3 > total, "gradients are compared: {counts:#?}");
    assert!(count(Seen::LabelsMatter) * 3 > total, "labels matter: {counts:#?}");
    assert!(count(Seen::Leaves) * 10 > total, "rows and positions leave: {counts:#?}");
    assert!(count(Seen::Again) * 10 > total, "something is computed again: {counts:#?}");
}
