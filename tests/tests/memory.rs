//! The memory estimate against what a training step really takes from the executor's arena.
#![allow(clippy::print_stdout, reason = "the figures are worth seeing with --nocapture")]

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::memory::{Work, plans_within};
use rtc_compiler::plan::memory::{BatchShape, estimate};
use rtc_compiler::plan::plan;
use rtc_compiler::spec::Spec;
use rtc_runtime::exec::Halting;
use rtc_runtime::rng::Key;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, executor, weights};

/// How far the estimate may be from what was taken.
const TOLERANCE: f64 = 0.15;

const SIZES: &[&str] = &[
    "self.heads: 4",
    "embed.width: 64",
    "stack.copies: 4",
    "depthwise.depth: 6",
    "gate.hidden: 256",
    "feedforward.hidden: 256",
    "depthwise.feedforward.hidden: 256",
    "stack.feedforward.hidden: 256",
    "chunkwise.size: 10",
    "cell.hidden: 256",
    "balanced.arity: 10",
];

/// Weights with which no row halts, so that every recurrence runs to its bound.
fn restless(graph: &Graph) -> Arrays {
    let mut weights = weights(graph, 3, 0.05);
    for (name, values) in &mut weights {
        if name.ends_with(".halt.output.bias") {
            values.fill(-30.0);
        }
    }
    weights
}

/// Bytes that one training step takes besides parameters, gradients and packed weights.
fn taken(graph: &Graph, lengths: &[usize]) -> u64 {
    let rows = batch(lengths, VOCAB as u64, CLASSES as u64, 5);
    let mut executor = executor::<f32>(graph, &restless(graph), Halting::Compact);
    executor.run(&rows, Key::new(1)).expect("the batch fits");
    executor.arena().usage().touched as u64
}

/// One attention with relative positions: what it holds for the codes of distances is most of what it takes.
const RELATIVE: &str = "model relative {
    embed { width: 64 }
    attend self { heads: 4, position: relative_xl }
    readout mean
}";

/// Where the estimate of a step is far from what it takes, for even and for uneven rows.
fn far(name: &str, spec: &Spec) -> Vec<String> {
    let mut wrong = vec![];
    for lengths in [vec![60; 16], (0..16).map(|n| 20 + 5 * n).collect()] {
        let load = BatchShape { lengths: lengths.clone(), depth: None };
        let work = Work { training: load.clone(), evaluation: None, fixed_bytes: 0 };
        // A limit that nothing can keep gives the plan that takes least.
        for limit in [None, Some(0)] {
            let fitted = plans_within(spec, &binding(Objective::Classify), &work, limit);
            let planned = fitted.expect("the spec lowers").training;
            let real = taken(&planned.graph, &lengths);
            let guess = estimate(&planned, &load).activations;
            let ratio = guess as f64 / real as f64;
            println!("{name}, limit {limit:?}: estimated {guess}, taken {real}, ratio {ratio:.3}");
            if (ratio - 1.0).abs() > TOLERANCE {
                wrong.push(format!("{name} with rows of {lengths:?}: estimated {guess} bytes, taken {real}"));
            }
        }
    }
    wrong
}

/// How far the lists of searches may be below what lengths alone say: beams that are alike share pairs.
const SHARED: f64 = 2.0;

#[test]
fn the_estimate_has_the_lists_of_searches() {
    let specs = [
        ("bt_grc.rt", "bt_grc"),
        ("bt_grc.rt", "bt_grc:one_soft"),
        ("ebt_grc.rt", "ebt_grc"),
        ("rir_ebt_grc.rt", "rir_ebt_grc"),
    ];
    let mut wrong = vec![];
    for (file, name) in specs {
        let model = models::one(file, name, Objective::Classify, SIZES);
        for lengths in [vec![60; 8], (0..8).map(|n| 10 + 12 * n).collect()] {
            let binding = binding(Objective::Classify);
            let stages = [pipeline::inference, pipeline::training].map(|stage| stage(&model.spec, &binding));
            for (graph, what) in stages.into_iter().zip(["evaluation", "training"]) {
                let graph = graph.expect("the spec lowers");
                let rows = batch(&lengths, VOCAB as u64, CLASSES as u64, 5);
                let mut executor = executor::<f32>(&graph, &restless(&graph), Halting::Compact);
                executor.run(&rows, Key::new(1)).expect("the batch fits");
                let real = executor.list_bytes() as f64;
                let load = BatchShape { lengths: lengths.clone(), depth: None };
                let guess = estimate(&plan(graph), &load).lists as f64;
                println!("{name}, {what}: lists estimated {guess}, taken {real}, ratio {:.3}", guess / real);
                if guess < real / (1.0 + TOLERANCE) || guess > SHARED * real {
                    wrong.push(format!("{name}, {what} of rows of {lengths:?}: estimated {guess} bytes, taken {real}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_estimate_is_what_a_step_takes() {
    let specs = [
        ("transformer.rt", "transformer"),
        ("ut.rt", "ut"),
        ("ut_no_halt.rt", "ut:no_halt"),
        ("gut.rt", "gut"),
        ("tlb.rt", "tlb"),
        ("gutlb.rt", "gutlb"),
        ("bbt_grc.rt", "bbt_grc"),
        ("rir_grc.rt", "rir_grc"),
    ];
    let mut wrong = far("relative", &models::parse(RELATIVE));
    for (file, name) in specs {
        wrong.extend(far(name, &models::one(file, name, Objective::Classify, SIZES).spec));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
