//! Beam searches as graphs: the goldens of an independent implementation, gradients, nestings that no paper has.

use std::rc::Rc;

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_exec::counter::RunCounters;
use rtc_exec::{Halting, Inference, NoiseSource};
use rtc_kernel::beam::NoiseSite;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{batch, executor, weights};

use crate::folds::{
    agrees, check_slopes, check_ways_to_run, golden_search, goldens, lengths, names, nested, state_space,
};

/// No noise, and beams by chunk and slot on the first level.
#[derive(Debug)]
struct Slots(&'static [[usize; 2]]);

impl NoiseSource for Slots {
    fn noise(&self, _: u64, _: NoiseSite) -> f64 {
        0.0
    }

    fn beam(&self, _: u64, chunk: usize, slot: usize) -> usize {
        self.0[chunk][slot]
    }
}

#[test]
fn a_search_agrees_with_the_reference() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["ebt_beam2"];
    let source = "model m {
        embed { width: 4 }
        recurse beam { size: 2, score mlp { slice: 2 }, cell grc { hidden: 16 } }
        readout root
        head linear
    }";
    let x = nested(&case["x"]);
    let found = golden_search(source, &names(&case["params"]), ("beam", "beam.grc"), &x, &lengths(case), None);
    agrees("ebt_grc", &found, &nested(&case["out"]));
}

#[test]
fn recursion_in_recursion_with_a_search_agrees_with_the_reference() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["rir_ebt_k3_b2"];
    let (names, lengths) = (names(&case["params"]), lengths(case));
    let x = state_space::layer(&names, &nested(&case["x"]), &lengths);
    let source = "model m {
        embed { width: 4 }
        recurse balanced {
            arity: 3
            recurse beam { size: 2, score mlp { slice: 2 }, cell grc { hidden: 16 } }
        }
        readout root
        head linear
    }";
    let noise = Rc::new(Slots(&[[0, 0], [0, 1], [0, 0]]));
    let found = golden_search(source, &names, ("balanced", "balanced.beam.grc"), &x, &lengths, Some(noise));
    agrees("rir_ebt_grc", &found, &nested(&case["out"]));
}

fn searches() -> Vec<Model> {
    models::cases("searches.rt", Objective::Classify)
}

/// Choices are constants of the gradient, and no difference is large enough to change one.
#[test]
fn gradients_of_searches_are_slopes() {
    searches().iter().for_each(check_slopes);
}

#[test]
fn searches_compute_the_same_however_they_are_run() {
    searches().iter().for_each(check_ways_to_run);
}

/// Flat, chunks of a fold are one search over the row.
#[test]
fn a_flat_search_is_a_search_of_the_whole_row() {
    let source = |inner: &str| {
        models::parse(&format!("model m {{ embed {{ width: 6, init: 0.5 }}, {inner}, readout root, head linear }}"))
    };
    let beam = "recurse beam { size: 3, score mlp { slice: 4 }, cell gru }";
    let (plain, chunked) = (source(beam), source(&format!("recurse balanced {{ arity: 3, {beam} }}")));
    let graphs = [plain, chunked]
        .map(|spec| rtc_compiler::pipeline::inference(&spec, &binding(Objective::Classify)).expect("the model lowers"));
    let values = weights(&graphs[1], 2, 0.6);
    let renamed = values
        .iter()
        .map(|(name, v)| (name.replace("balanced.beam.", "beam.").replace("balanced.leaf.", "beam.leaf."), v.clone()));
    let renamed = renamed.collect();
    let rows = batch(&[13, 1, 4, 22], VOCAB as u64, CLASSES as u64, 3);
    let logits = |graph: &Graph, weights, inference| {
        let mut executor = executor::<f64>(graph, weights, Halting::Compact);
        executor.settings.inference = inference;
        executor.run(&rows, Key::new(0)).expect("the batch fits").real("logits").expect("logits").to_vec()
    };
    let whole = logits(&graphs[0], &renamed, Inference::Recursive);
    assert_eq!(logits(&graphs[1], &values, Inference::Flat), whole);
    assert_ne!(logits(&graphs[1], &values, Inference::Recursive), whole);
}

/// A pair that several beams hold is joined once, unless its cell draws: then each beam has a draw of its own, and pays for it. With a
/// single beam nothing is shared, and dropout costs what its own operations do.
#[test]
fn beams_share_pairs_only_where_nothing_is_drawn() {
    let flops = |size: u64, dropout: f64| {
        let spec = models::parse(&format!(
            "model m {{
                embed {{ width: 6, init: 0.5 }}
                recurse beam {{ size: {size}, score mlp {{ slice: 4 }}, cell grc {{ dropout: {dropout:?} }} }}
                readout root
                head linear
            }}"
        ));
        let graph = rtc_compiler::pipeline::optimised(&spec, &binding(Objective::Classify)).expect("the model lowers");
        let mut executor = executor::<f64>(&graph, &weights(&graph, 2, 0.6), Halting::Compact);
        executor.records.counted = Some(RunCounters::default());
        executor.run(&batch(&[20; 4], VOCAB as u64, CLASSES as u64, 3), Key::new(0)).expect("the batch fits");
        executor.records.counted.expect("it was set").flops
    };
    // So small a rate drops nothing, and the same pairs are chosen.
    let ratio = |size| flops(size, 1e-12) / flops(size, 0.0);
    let (alone, beside) = (ratio(1), ratio(5));
    assert!(beside > 1.3 * alone, "{beside} times the operations with five beams, {alone} times with one");
}

/// Each step of a search has draws of its own: both joins of three leaves add ones that dropout made zeros or twos.
#[test]
fn a_cell_draws_anew_at_every_step_of_a_search() {
    let spec = models::parse(
        "def cell drawn(left, right) { out left + right + dropout(zeros(left) + 1, 0.5) }
        model m {
            embed { width: 16 }
            recurse beam { size: 1, leaf none, score mlp, select top_k { noise: none }, cell drawn }
            readout root
            head linear
        }",
    );
    let graph = rtc_compiler::pipeline::optimised(&spec, &binding(Objective::Classify)).expect("the model lowers");
    let mut given = weights(&graph, 2, 0.6);
    for (name, values) in &mut given {
        if name.starts_with("embed.") || name.starts_with("head.") && name.ends_with("bias") {
            values.fill(0.0);
        } else if name.starts_with("head.") {
            // The first class sees the first channel alone, and so on.
            values.iter_mut().enumerate().for_each(|(n, x)| *x = f64::from(u8::from(n % 16 == n / 16)));
        }
    }
    let rows = batch(&[3; 32], VOCAB as u64, CLASSES as u64, 3);
    let mut executor = executor::<f64>(&graph, &given, Halting::Compact);
    let sums = executor.run(&rows, Key::new(0)).expect("the batch fits").real("logits").expect("logits").to_vec();
    for sum in [0.0, 2.0, 4.0] {
        let share = sums.iter().filter(|x| **x == sum).count() as f64 / sums.len() as f64;
        assert!((share - [0.25, 0.5, 0.25][(sum / 2.0) as usize]).abs() < 0.2, "{sum}: {share} of {sums:?}");
    }
}
