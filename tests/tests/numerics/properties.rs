//! Properties over many graphs: passes keep what a graph computes, the forms of a graph keep its identity, gradients are
//! slopes.

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::{export, hash, text};
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower};
use rtc_compiler::pass::{self, LAST, PASSES};
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, asking, assert_same, batch, check_gradients, checked, differentiated, graph, run, untied, weights,
};

use crate::{gradients, random};

/// Random graphs that are made.
const GRAPHS: u64 = 150;
/// How far a pass may move a number: it may change the order of sums.
const LIMIT: f64 = 1e-9;

/// Passes that leave only ops with a gradient rule.
fn before_gradients(name: &str) -> bool {
    !["fuse", "recompute"].contains(&name)
}

/// Compares a graph with what every pass, alone and in rounds, makes of it, before and after differentiation.
fn passes_keep(what: &str, forward: &Graph, weights: &Arrays, batch: &Batch) {
    let plain = differentiated(forward);
    let reference = run::<f64>(&plain, weights, batch, Halting::Compact);
    let compare = |how: &str, graph: &Graph| {
        checked(graph, how);
        let same = run::<f64>(graph, weights, batch, Halting::Compact);
        assert_same(&format!("{what}, {how}"), &reference, &same, LIMIT);
    };
    for pass in PASSES.iter().chain(LAST) {
        let mut after = plain.clone();
        pass::run(pass.name, &mut after).expect("the pass is in the table");
        compare(&format!("`{}` after differentiation", pass.name), &after);
        if before_gradients(pass.name) {
            let mut before = forward.clone();
            pass::run(pass.name, &mut before).expect("the pass is in the table");
            compare(&format!("`{}` before differentiation", pass.name), &differentiated(&before));
        }
    }
    let mut rounds = plain.clone();
    assert!(pass::optimise(&mut rounds).settled, "{what}: the rounds end by themselves");
    compare("all passes", &rounds);
    let mut whole = forward.clone();
    pass::optimise(&mut whole);
    let mut whole = differentiated(&whole);
    pass::optimise(&mut whole);
    pass::finish(&mut whole);
    compare("the pipeline", &whole);
}

#[test]
fn passes_keep_random_graphs() {
    for seed in 0..GRAPHS {
        let source = random::graph(seed);
        let forward = graph(&source);
        let lengths: Vec<usize> = (0..4).map(|n| 1 + Key::new(seed).below(n, 7) as usize).collect();
        let rows = batch(&lengths, random::VOCAB, 2, seed);
        passes_keep(&format!("random graph {seed}\n{source}"), &forward, &weights(&forward, seed, 0.5), &rows);
    }
}

#[test]
fn passes_keep_every_op_and_loop() {
    for (name, graph, batch, _) in gradients::all() {
        passes_keep(name, &graph, &weights(&graph, 1, 0.7), &batch);
    }
}

#[test]
fn random_graphs_have_variety() {
    let all: String = (0..GRAPHS).map(random::graph).collect();
    for op in
        ["recur", "chunks", "fold", "attention", "dropout", "halt_test", "layer_norm", "map", "lerp", "rotate", "max"]
    {
        assert!(all.matches(&format!("= {op} ")).count() > 5, "few nodes `{op}`");
    }
}

#[test]
fn gradients_of_random_graphs_are_slopes() {
    for seed in 0..GRAPHS / 3 {
        let forward = graph(&random::graph(seed));
        let rows = batch(&[3, 1, 5], random::VOCAB, 2, seed);
        let weights = weights(&forward, seed, 0.5);
        check_gradients(
            &format!("random graph {seed}"),
            (&forward, &differentiated(&forward)),
            &weights,
            &rows,
            Some(2),
            &[],
            1e-6,
        );
    }
}

const OBJECTIVES: [Objective; 3] = [Objective::Classify, Objective::Pair, Objective::Each];

/// Every model of the turn as a classifier, and those that tell more where something else is asked for.
fn asked(objective: Objective) -> Vec<Model> {
    models::of_turn(match objective {
        Objective::Classify => models::all(objective, &[]),
        _ => models::telling(objective, &[]),
    })
}

fn with_loss(model: &Model, objective: Objective) -> Graph {
    let binding = binding(objective);
    let made = lower(&model.spec, &binding).and_then(|mut graph| attach_loss(&mut graph, &binding).map(|()| graph));
    made.unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// An even number of rows; pairs have a label for every two of them.
fn example(lengths: &[usize], objective: Objective, seed: u64) -> Batch {
    asking(batch(lengths, VOCAB as u64, CLASSES as u64, seed), objective, seed)
}

#[test]
fn passes_keep_every_spec() {
    for objective in OBJECTIVES {
        for model in asked(objective) {
            let forward = with_loss(&model, objective);
            let what = format!("{} for {objective:?}", model.name);
            for (seed, lengths) in [(0, &[7, 1, 10, 3][..]), (1, &[2, 5][..])] {
                let weights = weights(&forward, seed, 0.5);
                passes_keep(&what, &forward, &weights, &example(lengths, objective, seed));
            }
        }
    }
}

#[test]
fn every_form_of_a_graph_keeps_its_hash() {
    for objective in OBJECTIVES {
        for model in asked(objective) {
            let binding = binding(objective);
            let stages = [
                ("forward", pipeline::forward(&model.spec, &binding)),
                ("differentiated", pipeline::differentiated(&model.spec, &binding)),
                ("training", pipeline::training(&model.spec, &binding)),
                ("inference", pipeline::inference(&model.spec, &binding)),
            ];
            for (stage, made) in stages {
                let graph = made.unwrap_or_else(|e| panic!("{}: {e}", model.name));
                let what = format!("{} {stage}", model.name);
                let (own, printed) = (hash::hash(&graph), text::print(&graph));
                let forms = [
                    ("text", text::parse(&printed)),
                    ("YAML", export::from_yaml(&export::yaml(&graph))),
                    ("JSON", export::from_json(&export::json(&graph))),
                ];
                for (form, back) in forms {
                    let back = back.unwrap_or_else(|p| panic!("{what} as {form}: {p:?}"));
                    assert_eq!(hash::hash(&back), own, "{what} as {form}");
                    assert_eq!(text::print(&back), printed, "{what} as {form}");
                }
            }
        }
    }
}

#[test]
fn gradients_of_every_spec_are_slopes() {
    for objective in OBJECTIVES {
        for model in asked(objective) {
            let forward = with_loss(&model, objective);
            // Where a gradient is cut on purpose, it is no slope.
            if forward.walk(MAIN).into_iter().any(|n| forward.node(n).op == Op::Detach) {
                continue;
            }
            let training = pipeline::training(&model.spec, &binding(objective)).expect("the spec lowers");
            let weights = weights(&forward, 3, 0.4);
            let rows = untied(&forward, |seed| example(&[6, 1, 9, 4], objective, seed));
            let what = format!("{} for {objective:?}", model.name);
            check_gradients(&what, (&forward, &training), &weights, &rows, Some(3), &[], 1e-6);
        }
    }
}

/// The vectors of the tokens learn from both of their places.
#[test]
fn gradients_of_tied_outputs_are_slopes() {
    let binding = Binding { vocab: Some(VOCAB), classes: Some(VOCAB), objective: Objective::Classify };
    for softcap in ["", " { softcap: 3 }"] {
        let text = format!(
            "model tied {{\nembed {{ width: 6 }}\nfeedforward {{ hidden: 5 }}\nreadout mean\nhead tied{softcap}\n}}\n"
        );
        let spec = models::parse(&text);
        let mut forward = lower(&spec, &binding).expect("the model lowers");
        attach_loss(&mut forward, &binding).expect("it has a loss");
        let training = pipeline::training(&spec, &binding).expect("the model lowers");
        let weights = weights(&forward, 3, 0.4);
        let rows = batch(&[6, 1, 9, 4], VOCAB as u64, VOCAB as u64, 3);
        check_gradients(&text, (&forward, &training), &weights, &rows, Some(6), &[], 1e-6);
    }
}
