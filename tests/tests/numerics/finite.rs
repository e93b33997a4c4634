//! No number that is not finite is swallowed: what a run says of it is an error, or is not finite, or does not depend on it.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::learner::{LearnError, Learner, LearnerState, UpdateRule};
use rtc_exec::model::Model;
use rtc_exec::storage::Element;
use rtc_exec::{ExecutionFault, Halting, Outputs};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, KEY, asking, batch, executor, executor_on, results, run, strong};
use rtc_tests::turn::Turn;

use super::device::{emulated, kernels};

const ROWS: [usize; 4] = [7, 1, 4, 12];

fn example(objective: Objective) -> Batch {
    let depths = (0..ROWS.len() as u32).map(|row| 1 + (2 * row + 2) % 5).collect();
    asking(Batch { depths: Some(depths), ..batch(&ROWS, VOCAB as u64, CLASSES as u64, 3) }, objective, 3)
}

fn graph(model: &models::Model, objective: Objective) -> Graph {
    pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// The results of a run, bit by bit; nothing where it was refused for a number, or has one, that is not finite.
fn told<T: Element>(graph: &Graph, outcome: Result<Outputs<T>, ExecutionFault>) -> Option<Vec<u64>> {
    match outcome {
        Ok(outputs) => {
            let all = results(graph).into_iter().filter_map(|name| Some(outputs.real(&name)?.to_vec()));
            let all: Vec<f64> = all.flatten().map(|x| x.to_f64()).collect();
            all.iter().all(|x| x.is_finite()).then(|| all.iter().map(|x| x.to_bits()).collect())
        }
        Err(ExecutionFault::NonFinite(_)) => None,
        Err(other) => panic!("{}: {other}", graph.name),
    }
}

/// The place of every parameter on which the loss depends most.
fn places(graph: &Graph, weights: &Arrays, batch: &Batch) -> Vec<(String, usize)> {
    let gradients = run::<f32>(graph, weights, batch, Halting::Compact).gradients;
    let most = |x: &[f64]| (0..x.len()).fold(0, |best, n| if x[n].abs() > x[best].abs() { n } else { best });
    gradients.iter().map(|(name, x)| (name.clone(), most(x))).collect()
}

fn with(weights: &Arrays, (name, at): &(String, usize), number: f64) -> Arrays {
    let mut weights = weights.clone();
    weights.get_mut(name).expect("a parameter")[*at] = number;
    weights
}

/// NaN in a weight of any model, under every policy of halting.
#[test]
fn nothing_in_any_model_swallows_what_is_no_number() {
    let (mut swallowed, mut seen) = (vec![], 0);
    for objective in [Objective::Classify, Objective::Each] {
        let batch = example(objective);
        for (n, model) in models::of_turn(models::all(objective, &[])).iter().enumerate() {
            let (graph, halting) = (graph(model, objective), [Halting::Compact, Halting::Batch, Halting::Never][n % 3]);
            let weights = strong(&graph, n as u64);
            let one =
                |weights: &Arrays| told(&graph, executor::<f32>(&graph, weights, halting).run(&batch, Key::new(KEY)));
            let before = one(&weights).unwrap_or_else(|| panic!("{} is finite", model.name));
            for place in places(&graph, &weights, &batch) {
                let after = one(&with(&weights, &place, f64::NAN));
                seen += usize::from(after.is_none());
                if after.is_some_and(|after| after != before) {
                    swallowed.push(format!("{}: {}", model.name, place.0));
                }
            }
        }
    }
    assert!(swallowed.is_empty(), "{swallowed:#?}");
    assert!(seen > 1000 || *Turn::of_run() != Turn::All, "most weights matter: {seen}");
}

/// The same on a device, for the models that decide.
#[test]
fn nothing_on_a_device_swallows_what_is_no_number() {
    let objective = Objective::Classify;
    let mut chosen = models::cases("halting.rt", objective);
    chosen.extend(models::cases("choices.rt", objective));
    let shipped = [("gut.rt", "gut"), ("gut.rt", "token_halt"), ("crvnn.rt", "crvnn")];
    chosen.extend(shipped.map(|(file, name)| models::one(file, name, objective, &[])));
    let graphs: Vec<Graph> = chosen.iter().map(|model| graph(model, objective)).collect();
    let Some(kernels) = kernels("float", &graphs) else { return };
    let batch = example(objective);
    let mut swallowed = vec![];
    for (n, (graph, model)) in graphs.iter().zip(&chosen).enumerate() {
        let weights = strong(graph, n as u64);
        let one = |weights: &Arrays| {
            let mut on = executor_on::<f32>(graph, weights, Halting::Compact, emulated(&kernels));
            told(graph, on.run(&batch, Key::new(KEY)))
        };
        let before = one(&weights).unwrap_or_else(|| panic!("{} is finite", model.name));
        for place in places(graph, &weights, &batch) {
            if one(&with(&weights, &place, f64::NAN)).is_some_and(|after| after != before) {
                swallowed.push(format!("{}: {}", model.name, place.0));
            }
        }
    }
    assert!(swallowed.is_empty(), "{swallowed:#?}");
}

fn model(name: &str) -> Model<f32> {
    let spec = models::one("gut.rt", name, Objective::Classify, &[]).spec;
    let bound = binding(Objective::Classify);
    let plan = |graph| rtc_compiler::plan::plan(graph);
    let training = pipeline::training(&spec, &bound).expect("a training step");
    let forward = pipeline::forward(&spec, &bound).expect("a forward pass");
    Model::new(plan(training), plan(forward), bound, 1)
}

fn changed(state: &LearnerState, name: &str, number: impl Fn(f32) -> f32) -> LearnerState {
    let mut state = state.clone();
    let (_, numbers) = state.parameters.items.get_mut(name).expect("a parameter");
    numbers.iter_mut().for_each(|x| *x = number(*x));
    state
}

fn message<R>(result: Result<R, LearnError>) -> String {
    match result {
        Err(error @ LearnError::NonFinite { .. }) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it must be refused"),
    }
}

/// Weights, averages and moments that are not finite are not taken, and are named.
#[test]
fn states_that_are_not_finite_are_refused() {
    let mut model = model("gut");
    model.accumulate(&example(Objective::Classify), 1.0).expect("a step");
    model.update(&UpdateRule::ADAMW).expect("an update");
    let state = model.state();
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for name in state.parameters.items.keys() {
            let broken = changed(&state, name, |_| number);
            let expected = format!("update 1: the first non-finite value is in the weight `{name}`, number 1 of it");
            assert_eq!(message(model.restore(&broken)), expected);
        }
        let mut broken = state.clone();
        let moments = broken.optimiser.get_mut("second_moment").expect("a moment");
        moments.items.get_mut("embed.table").expect("a parameter").1[2] = number;
        assert!(message(model.restore(&broken)).contains("the second moment of `embed.table`, number 3 of it"));
    }
    assert_eq!(model.state(), state, "nothing was taken");
}

/// A row that can't be decided about does not leave with what it has: the run ends, and says where.
#[test]
fn runs_that_overflow_end() {
    for name in ["gut", "token_halt"] {
        let (mut model, batch) = (model(name), example(Objective::Classify));
        let huge = changed(&model.state(), "depthwise.self.query.weight", |x| x.signum() * 3e38);
        model.restore(&huge).expect("the weights are finite");
        for said in
            [message(model.evaluate(&batch)), message(model.answers(&batch)), message(model.accumulate(&batch, 1.0))]
        {
            assert!(said.contains("row 1 of the batch, step 1 of depthwise"), "{name}: {said}");
        }
    }
}

/// An update that makes weights or moments infinite is the last one.
#[test]
fn updates_that_overflow_end() {
    let (mut model, batch) = (model("gut"), example(Objective::Classify));
    model.accumulate(&batch, 1.0).expect("a step");
    let wild = UpdateRule { learning_rate: 1e39, ..UpdateRule::ADAMW };
    let told = model.update(&wild).map(drop).and_then(|()| model.evaluate(&batch).map(drop));
    assert!(message(told).contains("update 1: the first non-finite value is in the weight `"));
}
