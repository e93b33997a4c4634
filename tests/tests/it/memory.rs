//! The memory estimate against what a training step really takes from the executor's arena.
#![allow(clippy::print_stdout, reason = "the figures are worth seeing with --nocapture")]

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget, estimate};
use rtc_compiler::plan::plan;
use rtc_compiler::spec::Spec;
use rtc_exec::Halting;
use rtc_exec::arena::ArenaUsage;
use rtc_exec::counter::RunCounters;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, executor, weights};

/// How far the estimate may be from the most that was taken at one time.
const TOLERANCE: f64 = 0.02;

/// How much more than that the arena may need, since blocks of several sizes lie side by side; and the bytes that it may need
/// more in a small model, whose small blocks, which lie apart, have their peak at another time than the others.
const SPREAD: f64 = 0.10;
const APART: f64 = (256 << 10) as f64;

/// A bias with which no row halts, and one with which all rows reject the first step.
const RESTLESS: f64 = -30.0;
const HALTING: f64 = 30.0;

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

/// Weights with which no row halts and nothing vanishes, so that every recurrence runs to its bound.
fn restless(graph: &Graph) -> Arrays {
    halting(graph, RESTLESS)
}

/// Weights with such a bias of what decides that rows halt.
fn halting(graph: &Graph, bias: f64) -> Arrays {
    let mut weights = weights(graph, 3, 0.05);
    for (name, values) in &mut weights {
        if name.ends_with(".halt.output.bias") || name.ends_with("continuous.score.output.bias") {
            values.fill(bias);
        }
    }
    weights
}

/// What one training step takes besides parameters, gradients and packed weights, and the mean depth of its rows.
fn taken(graph: &Graph, weights: &Arrays, lengths: &[usize]) -> (ArenaUsage, Option<f64>) {
    let rows = batch(lengths, VOCAB as u64, CLASSES as u64, 5);
    let mut executor = executor::<f32>(graph, weights, Halting::Compact);
    executor.records.counted = Some(RunCounters::default());
    executor.run(&rows, Key::new(1)).expect("the batch fits");
    (executor.arena().usage(), executor.records.counted.as_ref().and_then(RunCounters::mean_depth))
}

/// One attention with relative positions: what it holds for the codes of distances is most of what it takes.
const RELATIVE: &str = "model relative {
    embed { width: 64 }
    attend self { heads: 4, position: relative_xl }
    readout mean
}";

/// Where the estimate of a step is far from what it takes, for even and for uneven rows; `bias` decides whether rows halt.
fn far(name: &str, spec: &Spec, bias: f64, tolerance: f64) -> Vec<String> {
    let mut wrong = vec![];
    for lengths in [vec![60; 16], (0..16).map(|n| 20 + 5 * n).collect()] {
        let load = BatchShape { lengths: lengths.clone(), depth: None };
        let work = LargestBatches {
            training: load.clone(),
            evaluation: None,
            fixed_bytes: 0,
            target: MemoryTarget::Processor,
        };
        // A limit that nothing can keep gives the plan that takes least.
        for limit in [None, Some(0)] {
            let fitted = plans_within(spec, &binding(Objective::Classify), &work, limit);
            let planned = fitted.expect("the spec lowers").training;
            let (real, depth) = taken(&planned.graph, &halting(&planned.graph, bias), &lengths);
            let load = BatchShape { depth: depth.filter(|_| bias > 0.0), ..load.clone() };
            let guess = estimate(&planned, &load).activations;
            let [ratio, spread] = [guess, real.touched as u64].map(|bytes| bytes as f64 / real.most as f64);
            let room = SPREAD.max(APART / real.most as f64);
            let what = format!("{name} with {} tokens, depth {:?}, limit {limit:?}", load.tokens(), load.depth);
            println!("{what}: estimated {guess}, taken {}, ratio {ratio:.4}; in memory {spread:.4}", real.most);
            if (ratio - 1.0).abs() > tolerance || spread > 1.0 + room {
                wrong.push(format!("{what}: estimated {guess} bytes, taken {}, in memory {}", real.most, real.touched));
            }
        }
    }
    wrong
}

/// How far the estimate of the lists of searches may be below what they take: how many pairs are new is a mean.
const ALIKE: f64 = 0.15;

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
                if guess < real / (1.0 + ALIKE) || guess > SHARED * real {
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
        // A search that joins all pairs takes less than lengths alone say, since its beams share pairs; so it has no line here.
        ("ebt_grc.rt", "ebt_grc"),
        ("rir_ebt_grc.rt", "rir_ebt_grc"),
        ("ordered_memory.rt", "ordered_memory"),
        ("rir_om.rt", "rir_om"),
        ("crvnn.rt", "crvnn"),
        ("rir_crvnn.rt", "rir_crvnn"),
        ("mega.rt", "mega"),
        ("s4d.rt", "s4d"),
        ("rnn_grc.rt", "rnn_grc"),
        ("regular_gpt.rt", "regular_gpt"),
    ];
    let mut wrong = far("relative", &models::parse(RELATIVE), RESTLESS, TOLERANCE);
    for (file, name) in specs {
        wrong.extend(far(name, &models::one(file, name, Objective::Classify, SIZES).spec, RESTLESS, TOLERANCE));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_estimate_follows_the_mean_depth() {
    let mut wrong = vec![];
    for (file, name) in [("ut.rt", "ut"), ("gut.rt", "gut")] {
        wrong.extend(far(name, &models::one(file, name, Objective::Classify, SIZES).spec, HALTING, TOLERANCE));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
