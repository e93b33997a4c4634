//! What is computed again has the same bits: losses, gradients and all other results are equal to those of a run that keeps
//! everything, whatever the memory limit.

use rtc_base::batch::Batch;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Objective, attach_loss, lower};
use rtc_compiler::pass;
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_exec::Halting;
use rtc_exec::storage::Element;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{Arrays, Run, asking, batch, checked, run, weights};
use rtc_tests::turn::Turn;

const LENGTHS: &[usize] = &[7, 1, 10, 3, 12, 4];

/// The training step with everything kept that the backward run reads.
fn all_kept(model: &Model, objective: Objective) -> Graph {
    let binding = binding(objective);
    let mut graph = lower(&model.spec, &binding).expect("the spec lowers");
    attach_loss(&mut graph, &binding).expect("the spec has a loss");
    pass::optimise(&mut graph);
    pass::grad::run(&mut graph).expect("the graph has a loss");
    pass::optimise(&mut graph);
    graph
}

/// The training steps without a limit, with one that takes some doing, and with one that nothing can keep.
fn limited(model: &Model, objective: Objective) -> Vec<(String, Graph)> {
    let load = BatchShape { lengths: LENGTHS.to_vec(), depth: None };
    let work = LargestBatches { training: load, evaluation: None, fixed_bytes: 0, target: MemoryTarget::Processor };
    let within = |limit| {
        let fitted = plans_within(&model.spec, &binding(objective), &work, limit).expect("the spec lowers");
        assert!(fitted.need.total() <= fitted.without_limit.total(), "{}: a limit costs memory", model.name);
        fitted
    };
    let (free, least) = (within(None), within(Some(0)));
    assert!(!least.fits, "{}: nothing takes no memory", model.name);
    let middle = (free.need.total() + least.need.total()) / 2;
    let half = within(Some(middle));
    assert!(half.fits && half.need.total() <= middle, "{}: a limit that can be kept is kept", model.name);
    let plans = [("no limit", free), ("half", half), ("the least", least)];
    plans.into_iter().map(|(what, fitted)| (what.to_owned(), fitted.training.graph.as_ref().clone())).collect()
}

/// Random weights with which rows halt at different steps.
fn halting_weights(graph: &Graph) -> Arrays {
    let mut weights = weights(graph, 3, 0.5);
    for (name, values) in &mut weights {
        if name.contains(".halt.output.") {
            values.iter_mut().for_each(|v| *v *= 3.0);
        }
    }
    weights
}

fn example(objective: Objective) -> Batch {
    asking(batch(LENGTHS, VOCAB as u64, CLASSES as u64, 3), objective, 3)
}

fn same_bits<T: Element>(what: &str, reference: &Run, graph: &Graph, weights: &Arrays, batch: &Batch) {
    let bits = |run: &Run| -> Vec<(String, Vec<u64>)> {
        let arrays = run.outputs.iter().chain(&run.gradients);
        arrays.map(|(name, values)| (name.clone(), values.iter().map(|v| v.to_bits()).collect())).collect()
    };
    let here = run::<T>(graph, weights, batch, Halting::Compact);
    for ((name, a), (_, b)) in bits(reference).into_iter().zip(bits(&here)) {
        assert_eq!(a, b, "{what}: `{name}`");
    }
}

fn every_limit_keeps_the_bits(objective: Objective, edits: &[&str]) {
    let (mut again, mut more) = (0, 0);
    for model in models::of_turn(models::telling(objective, edits)) {
        let kept = all_kept(&model, objective);
        let (weights, rows) = (halting_weights(&kept), example(objective));
        let (single, double) = (
            run::<f32>(&kept, &weights, &rows, Halting::Compact),
            run::<f64>(&kept, &weights, &rows, Halting::Compact),
        );
        let graphs = limited(&model, objective);
        for (limit, graph) in &graphs {
            let what = format!("{} for {objective:?}, {limit}", model.name);
            checked(graph, &what);
            same_bits::<f32>(&format!("{what}, f32"), &single, graph, &weights, &rows);
            same_bits::<f64>(&format!("{what}, f64"), &double, graph, &weights, &rows);
        }
        let size = |graph: &Graph| graph.walk(rtc_compiler::ir::graph::MAIN).len();
        again += usize::from(size(&graphs[0].1) > size(&kept));
        more += usize::from(size(&graphs[2].1) > size(&graphs[0].1));
    }
    let tried = again > 5 && more > 5 || *Turn::of_run() != Turn::All;
    assert!(tried, "recomputation is tried: {again} and {more} models");
}

#[test]
fn every_limit_keeps_the_bits_of_classes() {
    every_limit_keeps_the_bits(Objective::Classify, &[]);
}

#[test]
fn every_limit_keeps_the_bits_of_pairs() {
    every_limit_keeps_the_bits(Objective::Pair, &[]);
}

#[test]
fn every_limit_keeps_the_bits_of_labelled_tokens() {
    every_limit_keeps_the_bits(Objective::Each, &[]);
}

#[test]
fn every_limit_keeps_the_bits_of_token_halting() {
    every_limit_keeps_the_bits(
        Objective::Classify,
        &["depthwise.halt: token { sees: transition, keys: mixture, threshold: 0.9, cost: 0.2 }"],
    );
}
