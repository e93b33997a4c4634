//! The estimate of a device's memory against what a training step and a forward pass really take from it.
#![allow(clippy::print_stdout, reason = "the figures are worth seeing with --nocapture")]

use std::rc::Rc;
use std::sync::Arc;

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::plan::Plan;
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget, estimate_on};
use rtc_exec::Halting;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, executor_on, weights};

use super::device::kernels;

/// How far the estimate may be above what is taken: kernels of several steps leave out values that it counts. And how far below, with the
/// bytes of what a small model takes besides its values.
const ABOVE: f64 = 1.25;
const BELOW: f64 = 1.02;
const BESIDE: u64 = 128 << 10;

/// The block of uploads, which is no value.
const UPLOADS: usize = 1 << 20;

const SIZES: &[&str] = &[
    "self.heads: 4",
    "embed.width: 64",
    "stack.copies: 2",
    "depthwise.depth: 3",
    "gate.hidden: 128",
    "feedforward.hidden: 128",
    "depthwise.feedforward.hidden: 128",
    "stack.feedforward.hidden: 128",
    "chunkwise.size: 5",
    "cell.hidden: 64",
    "balanced.arity: 5",
];

/// Models of every kind of loop: none, chunks, depth with halting, scans, folds, searches, memories. The plans of the first ones are made
/// within a limit, too.
const MODELS: &[(&str, &str)] = &[
    ("tlb.rt", "tlb"),
    ("gut.rt", "gut"),
    ("transformer.rt", "transformer"),
    ("mega.rt", "mega"),
    ("rir_grc.rt", "rir_grc"),
    ("ebt_grc.rt", "ebt_grc"),
    ("ordered_memory.rt", "ordered_memory"),
];
const LIMITED: usize = 2;

/// A bias of pairs, of which a step holds a slope for every pair and head.
const PAIRS: &str = "
model pairs {
    embed { width: 64 }
    x = norm(state)
    score = number(x)
    state = state + score + attention(x) { heads: 32, mask: past, bias: score[i] * score[j] }
    readout mean
}
";

/// Weights with which no row halts, so that every recurrence runs to its bound.
fn restless(graph: &Graph) -> Arrays {
    let mut weights = weights(graph, 3, 0.05);
    for (_, values) in weights.iter_mut().filter(|(name, _)| name.ends_with(".halt.output.bias")) {
        values.fill(-30.0);
    }
    weights
}

/// What a run takes of a device besides parameters and gradients.
fn taken(plan: &Plan, lengths: &[usize], kernels: &Arc<Kernels>) -> u64 {
    let device = Rc::new(Emulated::new(kernels.clone()));
    let mut executor = executor_on::<f32>(&plan.graph, &restless(&plan.graph), Halting::Compact, device);
    let before = executor.pool().taken() + UPLOADS;
    let rows = batch(lengths, VOCAB as u64, CLASSES as u64, 5);
    executor.run(&rows, Key::new(1)).expect("the batch fits");
    (executor.pool().taken() - before) as u64
}

#[test]
fn the_estimate_of_a_device_is_what_a_step_takes() {
    let mut cases = vec![];
    for (n, (file, name)) in MODELS.iter().enumerate() {
        let model = models::one(file, name, Objective::Classify, SIZES);
        for lengths in [vec![24; 4], vec![12, 18, 26, 32]] {
            let load = BatchShape { lengths, depth: None };
            // A limit that nothing can keep gives the plan that takes least.
            for limit in [None, Some(0)].into_iter().take(if n < LIMITED { 2 } else { 1 }) {
                let (training, target) = (load.clone(), MemoryTarget::Device);
                let work = LargestBatches { training, evaluation: None, fixed_bytes: 0, target };
                let fitted = plans_within(&model.spec, &binding(Objective::Classify), &work, limit);
                let fitted = fitted.expect("the spec lowers");
                let what = |stage| format!("{name}, {stage} of rows of {:?}, limit {limit:?}", load.lengths);
                cases.push((what("training"), fitted.training, load.clone()));
                if limit.is_none() {
                    cases.push((what("evaluation"), fitted.inference, load.clone()));
                }
            }
        }
    }
    let graphs: Vec<&Graph> = cases.iter().map(|(_, plan, _)| &*plan.graph).collect();
    let Some(kernels) = kernels("float", graphs) else { return };
    let mut wrong = vec![];
    for (what, plan, load) in &cases {
        let (guess, real) =
            (estimate_on(plan, load, MemoryTarget::Device).activations, taken(plan, &load.lengths, &kernels));
        let ratio = guess as f64 / real as f64;
        println!("{what}: estimated {guess}, taken {real}, ratio {ratio:.3}");
        if ratio > ABOVE || real as f64 > BELOW * guess as f64 + BESIDE as f64 {
            wrong.push(format!("{what}: estimated {guess} bytes, taken {real}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_slopes_of_a_bias_of_pairs_are_in_the_estimate() {
    let load = BatchShape { lengths: vec![12, 18, 26, 32], depth: None };
    let texts = [PAIRS.to_owned(), PAIRS.replace(", bias: score[i] * score[j]", "")];
    let plans =
        texts.map(|text| pipeline::plans(&models::parse(&text), &binding(Objective::Classify)).expect("it lowers").0);
    let Some(kernels) = kernels("float", plans.iter().map(|plan| &*plan.graph)) else { return };
    let [guess, real] = [true, false].map(|estimated| {
        let of = |plan: &Plan| match estimated {
            true => estimate_on(plan, &load, MemoryTarget::Device).activations,
            false => taken(plan, &load.lengths, &kernels),
        };
        of(&plans[0]) as f64 - of(&plans[1]) as f64
    });
    println!("with the bias {guess} bytes more, really {real}");
    let slopes = 32.0 * 4.0 * load.lengths.iter().map(|n| (n * n) as f64).sum::<f64>();
    assert!(real > 0.9 * slopes, "a step takes {real} bytes more, slopes are {slopes}");
    assert!((guess / real - 1.0).abs() < 0.15, "estimated {guess} bytes more, taken {real}");
}
