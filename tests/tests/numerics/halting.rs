//! What halted rows cost changes speed only: all three policies give the same numbers, however rows halt.

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::spec::Block;
use rtc_exec::{Halting, HaltingRecorder, UnitHalting};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{Arrays, asking, assert_same, batch, executor, run, weights};
use rtc_tests::turn::Turn;

/// Edits that are tried on every spec; those that a model has no place for leave it as it is.
const SHAPES: &[&[&str]] = &[
    &[],
    &["depthwise.cap: none"],
    &["depthwise.halt: token { sees: transition, keys: mixture, threshold: 0.9, cost: 0.2 }"],
    &["depthwise.halt: token { sees: state, keys: state, threshold: 0.9, cost: 0.2 }", "chunkwise.cut: position"],
    &["depthwise.halt: token { sees: state, keys: mixture, threshold: 0.9, cost: 0.2 }"],
    &["depthwise.halt: global { sees: transition, threshold: 0.9, cost: 0.2 }", "depthwise.depth: min(length, 4)"],
    &["depthwise.halt: global { sees: state, keys: mixture, threshold: 0.9, cost: 0.2 }", "chunkwise.cut: position"],
    &["depthwise.halt: global { sees: state, mean: past, threshold: 0.9, cost: 0.2 }"],
    &["depthwise.halt: global { sees: transition, mean: all, threshold: 0.9, cost: 0.2 }", "depthwise.cap: length"],
];

/// Lengths of the rows of the batches.
const ROWS: &[&[usize]] = &[&[7, 1, 4, 12, 2], &[1], &[1, 1, 1], &[3, 9]];

fn training(model: &Model, objective: Objective) -> Graph {
    pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

fn example(lengths: &[usize], objective: Objective, seed: u64) -> Batch {
    asking(batch(lengths, VOCAB as u64, CLASSES as u64, seed), objective, seed)
}

/// Random weights whose halting head answers strongly: its last layer times `gain`, its bias plus `bias`.
fn scaled(graph: &Graph, seed: u64, gain: f64, bias: f64) -> Arrays {
    let mut weights = weights(graph, seed, 0.5);
    for (name, values) in &mut weights {
        if name.contains(".halt.output.") {
            let shift = if name.ends_with("bias") { bias } else { 0.0 };
            values.iter_mut().for_each(|v| *v = gain * *v + shift);
        }
    }
    weights
}

/// The halting models of the turn, each with each of the edits.
fn halting_models(objective: Objective) -> Vec<Model> {
    let mut found: Vec<Model> = SHAPES.iter().flat_map(|edits| models::telling(objective, edits)).collect();
    found.retain(Model::halts);
    assert!(found.len() > 15, "most specs halt");
    models::of_turn(found)
}

fn agree(model: &Model, objective: Objective, gain: f64, bias: f64, depths: &mut Vec<f64>) {
    let graph = training(model, objective);
    for (n, lengths) in ROWS.iter().enumerate() {
        let batch = example(lengths, objective, n as u64);
        let weights = scaled(&graph, n as u64, gain, bias);
        let compact = run::<f64>(&graph, &weights, &batch, Halting::Compact);
        depths.extend(&compact.outputs["depth"]);
        for other in [Halting::Batch, Halting::Never] {
            let same = run::<f64>(&graph, &weights, &batch, other);
            let what = format!("{} on rows of {lengths:?}, gain {gain}, bias {bias}, {other:?}", model.name);
            assert_same(&what, &compact, &same, 1e-12);
        }
    }
}

#[test]
fn policies_agree_when_rows_halt_at_different_steps() {
    let mut depths = vec![];
    for objective in [Objective::Classify, Objective::Each] {
        for model in halting_models(objective) {
            agree(&model, objective, 4.0, 2.0, &mut depths);
            agree(&model, objective, 4.0, -1.0, &mut depths);
        }
    }
    let distinct = |low: f64, high: f64| depths.iter().filter(|d| (low..high).contains(d)).count();
    let spread = distinct(0.0, 0.5) > 5 && distinct(0.5, 2.5) > 5 && distinct(2.5, 9.0) > 5;
    assert!(spread || *Turn::of_run() != Turn::All, "{depths:?}");
}

#[test]
fn policies_agree_when_every_row_halts_at_once() {
    let mut depths = vec![];
    for model in halting_models(Objective::Classify) {
        agree(&model, Objective::Classify, 0.0, 30.0, &mut depths);
    }
    assert!(depths.iter().all(|d| *d == 0.0), "no row takes a step: {depths:?}");
}

#[test]
fn policies_agree_when_no_row_halts() {
    let (mut depths, mut of_folds) = (vec![], vec![]);
    for model in halting_models(Objective::Classify) {
        let depths = if model.folds() { &mut of_folds } else { &mut depths };
        agree(&model, Objective::Classify, 0.0, -30.0, depths);
    }
    assert!(depths.iter().all(|d| *d > 0.0), "every row takes a step: {depths:?}");
    // A row of one token is its own root: no chunk of it is there to take a step.
    let spread = of_folds.iter().any(|d| *d > 0.0) && of_folds.contains(&0.0);
    assert!(spread || *Turn::of_run() != Turn::All, "{of_folds:?}");
}

/// Runs of the body of a depth recurrence, and the accepted steps of every row.
fn runs_and_steps(model: &Model, lengths: &[usize], seed: u64) -> (u64, Vec<f64>) {
    let graph = training(model, Objective::Classify);
    let mut executor = executor::<f32>(&graph, &scaled(&graph, seed, 8.0, 0.0), Halting::Compact);
    let halting = executor.records.attach::<HaltingRecorder>();
    executor.run(&example(lengths, Objective::Classify, seed), Key::new(seed)).expect("the batch fits");
    let watched = halting.take().pop().expect("the recurrence halts");
    let mut units = watched.steps.iter().copied();
    let of_row = |length: &usize| if watched.steps.len() == lengths.len() { 1 } else { length + 2 };
    let steps = lengths.iter().map(|n| units.by_ref().take(of_row(n)).fold(0.0, f64::max)).collect();
    (watched.ran, steps)
}

/// Where the halting head sees the state alone, a step that a row rejects costs it no run of the block; elsewhere every
/// row that does not reach the bound pays for one.
#[test]
fn a_rejected_step_runs_no_block() {
    for (file, name, head_first) in
        [("ut.rt", "ut", true), ("gut.rt", "no_transition", true), ("gut.rt", "token_halt", false)]
    {
        let model = models::one(file, name, Objective::Classify, &["depthwise.cap: none"]);
        let mut spread = 0;
        for seed in 0..12 {
            let (ran, steps) = runs_and_steps(&model, &[7, 1, 4, 12, 2, 9], seed);
            let accepted = steps.iter().sum::<f64>() as u64;
            let wasted = steps.iter().filter(|n| **n < 5.0).count() as u64;
            assert_eq!(ran, accepted + if head_first { 0 } else { wasted }, "{name}: {steps:?}");
            spread += usize::from(steps.iter().any(|n| *n != steps[0]));
        }
        assert!(spread > 2, "{name}: rows halt at different steps");
    }
}

/// What is watched of a recurrence adds up to what it gives: the units of a row cover its positions, they took as many steps
/// as `steps` says, and the survival before every step is what the row pays for.
#[test]
fn watched_survival_is_the_cost() {
    let lengths = [7, 1, 4, 12, 2];
    let mut compared = 0;
    for objective in [Objective::Classify, Objective::Each] {
        for model in halting_models(objective) {
            let graph = pipeline::inference(&model.spec, &binding(objective)).expect("the spec lowers");
            let weights = scaled(&graph, 5, 4.0, 1.0);
            let mut seen = [Halting::Compact, Halting::Batch, Halting::Never].map(|halting| {
                let mut executor = executor::<f64>(&graph, &weights, halting);
                let halting = executor.records.attach::<HaltingRecorder>();
                let outputs = executor.run(&example(&lengths, objective, 5), Key::new(5)).expect("the batch fits");
                let cost = outputs.real("halting_cost").expect("the model halts").to_vec();
                (halting.take(), cost)
            });
            let [(watched, cost), others @ ..] = &mut seen;
            assert!(!watched.is_empty(), "{}", model.name);
            if watched.iter().any(|run| run.label != watched[0].label) {
                // A recurrence inside another one also runs in steps that the outer one rejects, and then for nothing.
                continue;
            }
            for (other, _) in others {
                other.iter_mut().zip(watched.iter()).for_each(|(a, b)| a.ran = b.ran);
                assert_eq!(other, watched, "{}: no policy changes what is seen", model.name);
            }
            compared += 1;
            let halts = |block: &Block| block.slot == "halt" && block.variant != "none";
            let chunks = model.spec.root.any(&|block| block.slot == "recurse" && block.any(&halts));
            let positions = chunks && watched.iter().any(|run| run.units.len() != run.rows.len());
            for row in 0..lengths.len() {
                // Of a row that is cut into chunks the mean over them is paid, and of positions the mean, too. Of a row that is
                // folded it is the mean over all chunks of all levels, or nothing where there is none.
                let mut paid = vec![];
                for run in watched.iter() {
                    let own: Vec<_> = run.units.iter().zip(&run.steps).filter(|(unit, _)| unit.row == row).collect();
                    let cost = |unit: &UnitHalting| {
                        let before = std::iter::once(1.0).chain(unit.survival.iter().copied());
                        before.take(unit.steps()).sum::<f64>()
                    };
                    if chunks {
                        paid.extend(own.iter().map(|(unit, _)| cost(unit)));
                    } else if !own.is_empty() {
                        paid.push(own.iter().map(|(unit, _)| cost(unit)).sum::<f64>() / own.len() as f64);
                    }
                    for (unit, steps) in own {
                        assert_eq!(unit.steps() as f64, *steps, "{}", model.name);
                        assert!((unit.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12, "{unit:?}");
                        assert!(unit.survival.is_sorted_by(|a, b| a >= b), "{unit:?}");
                        assert!(unit.length >= 1 && unit.start + unit.length <= lengths[row] + 2, "{unit:?}");
                    }
                }
                let mean = paid.iter().sum::<f64>() / paid.len().max(1) as f64;
                // Positions in a fold do not say which chunk they are of.
                assert!(positions || (mean - cost[row]).abs() < 1e-9, "{}: {mean} is not {}", model.name, cost[row]);
            }
        }
    }
    assert!(compared > 30, "most models have one recurrence: {compared}");
}
