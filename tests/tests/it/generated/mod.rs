//! Random small models of the language, well typed by construction: what holds for every model holds for them.
//!
//! `RTC_GENERATE=1000 cargo test --workspace --test it generated::` takes more of each family. Every model is a pure function of its
//! number, so a failure names the number and can be run alone with `RTC_GENERATE_ONE`. Both variables take `17` for the models of
//! both families, and `first:17` or `wider:17` for those of one.
#![allow(clippy::print_stderr, reason = "what was found is said with --nocapture")]

mod properties;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use properties::{Seen, examine, training};
use rtc_compiler::plan::plan;
use rtc_cuda::device::KernelTarget;
use rtc_cuda::generated;
use rtc_exec::Halting;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::generated::{Construct, Generated, model, wider};
use rtc_tests::numeric::{assert_same, distance, run, run_on, run_on_tensors};

/// How many models a machine examines at a time.
const THREADS: u64 = 4;

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    First,
    Wider,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Wider => "wider",
        }
    }

    fn model(self, number: u64) -> Generated {
        match self {
            Self::First => model(number),
            Self::Wider => wider(number),
        }
    }

    /// The numbers of the models that are asked for: so many, or of those that `RTC_GENERATE` says one in `part`.
    fn numbers(self, ordinary: u64, part: u64) -> Vec<u64> {
        if let Ok(one) = std::env::var("RTC_GENERATE_ONE") {
            return self.asked(&one).into_iter().collect();
        }
        let count = match std::env::var("RTC_GENERATE") {
            Ok(all) => self.asked(&all).unwrap_or(0).div_ceil(part),
            Err(_) => ordinary,
        };
        (0..count).collect()
    }

    /// The number of `17`, or of `wider:17`; none where the text names the other family.
    fn asked(self, text: &str) -> Option<u64> {
        let (family, number) = text.split_once(':').unwrap_or((self.name(), text));
        assert!(["first", "wider"].contains(&family), "a family is `first` or `wider`, not `{family}`");
        (family == self.name()).then(|| number.parse().expect("a number is asked for"))
    }
}

/// What became of some models: of each the faults that were found, and how often what was seen.
fn all(family: Family, numbers: &[u64]) -> (Vec<String>, BTreeMap<Seen, usize>) {
    let (mut faults, mut counts) = (vec![], BTreeMap::new());
    for &number in numbers {
        let model = family.model(number);
        match catch_unwind(AssertUnwindSafe(|| examine(number, &model))) {
            Ok(Ok(seen)) => seen.into_iter().for_each(|what| *counts.entry(what).or_default() += 1),
            Ok(Err(fault)) => faults.push(format!("model {}: {fault}\n{}", model.name, model.text)),
            Err(_) => faults.push(format!("model {} panics\n{}", model.name, model.text)),
        }
    }
    (faults, counts)
}

/// Examines models on some threads, and gives how often what was seen.
///
/// # Panics
/// Where a property does not hold.
fn examined(family: Family, numbers: &[u64]) -> BTreeMap<Seen, usize> {
    let parts: Vec<Vec<u64>> =
        (0..THREADS).map(|t| numbers.iter().copied().filter(|n| n % THREADS == t).collect()).collect();
    let (mut faults, mut counts) = (vec![], BTreeMap::new());
    std::thread::scope(|scope| {
        let runs: Vec<_> = parts.iter().map(|part| scope.spawn(|| all(family, part))).collect();
        for run in runs {
            let (more, seen) = run.join().expect("faults are caught");
            faults.extend(more);
            seen.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
        }
    });
    eprintln!("{family:?}: {counts:#?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    counts
}

/// The kernels and the executor of a GPU, on an emulated device, give the numbers of the processor.
#[test]
fn an_emulated_gpu_gives_the_numbers_of_the_processor() {
    let of = |family: Family, ordinary| {
        let case = move |n| Some((family.model(n), training(n, &family.model(n))?));
        family.numbers(ordinary, 8).into_iter().filter_map(case)
    };
    let cases: Vec<_> = of(Family::First, 12).chain(of(Family::Wider, 8)).collect();
    let made: BTreeSet<_> =
        cases.iter().flat_map(|(_, case)| generated(&plan(case.graph.clone()), KernelTarget::default())).collect();
    let Some(kernels) = Kernels::compile("double", &made) else {
        return eprintln!("skipped: there is no C++ compiler to run the kernels with");
    };
    for (model, case) in &cases {
        let host = run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact);
        let device = Rc::new(Emulated::new(kernels.clone()));
        let there = run_on::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact, device);
        assert_same(&format!("model {}\n{}", model.name, model.text), &there, &host, 1e-9);
    }
}

/// The executor on tensors of Candle gives the numbers of the processor.
#[test]
fn tensors_of_candle_give_the_numbers_of_the_processor() {
    let of = |family: Family, ordinary| {
        let case = move |n| Some((family.model(n), training(n, &family.model(n))?));
        family.numbers(ordinary, 1).into_iter().filter_map(case)
    };
    let (mut seen, mut worst) = (0, 0.0_f64);
    for (model, case) in of(Family::First, 300).chain(of(Family::Wider, 150)) {
        let host = run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact);
        let here = candle_core::Device::Cpu;
        let there = run_on_tensors::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact, here);
        assert_same(&format!("model {}\n{}", model.name, model.text), &there, &host, 1e-9);
        let far = host.gradients.iter().map(|(name, own)| distance(own, &there.gradients[name]));
        (seen, worst) = (seen + 1, far.fold(worst, f64::max));
    }
    eprintln!("{seen} models, gradients at most {worst:.1e} apart");
    assert!(seen > 0, "some models can be trained");
}

#[test]
fn every_property_holds_for_every_model() {
    let numbers = Family::First.numbers(120, 1);
    let counts = examined(Family::First, &numbers);
    if numbers.len() < 100 {
        return;
    }
    much_is_seen(&counts, numbers.len());
    let count = |what: Seen| counts.get(&what).copied().unwrap_or(0);
    assert!(count(Seen::LeakStays) * 2 < count(Seen::Leaks), "what leaks mostly moves: {counts:#?}");
}

#[test]
fn every_property_holds_for_every_wider_model() {
    let numbers = Family::Wider.numbers(60, 1);
    let counts = examined(Family::Wider, &numbers);
    if numbers.len() < 60 {
        return;
    }
    much_is_seen(&counts, numbers.len());
    for construct in Construct::ALL {
        let count = counts.get(&Seen::Has(construct)).copied().unwrap_or(0);
        assert!(count * 20 >= numbers.len(), "{construct:?} is in one model of 20 or more: {counts:#?}");
    }
}

/// Models do all that the properties are about.
fn much_is_seen(counts: &BTreeMap<Seen, usize>, total: usize) {
    let count = |what: Seen| counts.get(&what).copied().unwrap_or(0);
    assert!(count(Seen::Compiled) * 2 > total, "most models compile: {counts:#?}");
    assert!(count(Seen::Proved) * 10 > total && count(Seen::Leaks) * 20 > total, "both verdicts are met: {counts:#?}");
    assert!(count(Seen::Slopes) * 3 > total, "gradients are compared: {counts:#?}");
    assert!(count(Seen::LabelsMatter) * 3 > total, "labels matter: {counts:#?}");
    assert!(count(Seen::Leaves) * 10 > total, "rows and positions leave: {counts:#?}");
    assert!(count(Seen::Again) * 10 > total, "something is computed again: {counts:#?}");
}
