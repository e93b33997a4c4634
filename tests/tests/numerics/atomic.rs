//! Atomic definitions: what their kernels compute is what their equations say.

use std::collections::BTreeSet;

use rtc_compiler::ir::graph::{Graph, InvalidNode};
use rtc_compiler::ir::text;
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower, lower_by_equations};
use rtc_compiler::spec::Spec;
use rtc_exec::Halting;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{assert_same, differentiated, run};

use super::device::{Case, emulated, example, kernels, on_device};

/// Each atomic definition, and equations that apply it.
const USES: &[(&str, &str)] = &[
    ("softmax", "state = softmax(linear(state)) + softmax(number(state)) * state"),
    ("layer_norm", "state = norm(layer_norm(linear(state), learn[width], learn[width]) { eps: 0.01 } + state)"),
    ("rms_norm", "state = norm(rms_norm(linear(state), learn[width]) { eps: 0.01 } + state) { kind: rms }"),
    ("affine", "state = affine(linear(state), learn[width], learn[width])"),
    (
        "add_scaled",
        "state = add_scaled(state, linear(state), number(state)) + number(mean(state)) * state\n\
         state = state + number(state) * linear(state)",
    ),
    ("lerp", "state = lerp(number(state), linear(state), state) + lerp(0.25, state, linear(state))"),
    ("sigmoid", "state = state * sigmoid(linear(state))"),
    ("tanh", "state = tanh(linear(state))"),
    ("relu", "state = relu(linear(state))"),
    ("silu", "state = silu(linear(state))"),
    ("softplus", "state = softplus(linear(state))"),
    ("gelu_tanh", "state = gelu_tanh(linear(state))"),
];

fn spec(equations: &str) -> Spec {
    models::parse(&format!("model m {{ embed {{ width: 6, tokens: start_end }}\n{equations}\nreadout mean }}"))
}

/// The graph of a training step.
fn step(lowered: fn(&Spec, &Binding) -> Result<Graph, InvalidNode>, spec: &Spec) -> Graph {
    let bound = binding(Objective::Classify);
    let mut graph = lowered(spec, &bound).unwrap_or_else(|e| panic!("{e}"));
    attach_loss(&mut graph, &bound).unwrap_or_else(|e| panic!("{e}"));
    differentiated(&graph)
}

/// Whether a model before its gradient has an op or a function of this name.
fn has(lowered: fn(&Spec, &Binding) -> Result<Graph, InvalidNode>, spec: &Spec, name: &str) -> bool {
    let graph = lowered(spec, &binding(Objective::Classify)).unwrap_or_else(|e| panic!("{e}"));
    text::print(&graph).split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// A training step with the op of every atomic definition, and the same with its equations.
fn both() -> Vec<[Case; 2]> {
    let both = |&(name, equations): &(&str, &str)| {
        let spec = spec(equations);
        assert!(has(lower, &spec, name), "the model of `{name}` does not use it");
        assert!(!has(lower_by_equations, &spec, name), "the equations of `{name}` apply itself");
        let batch = example(&[7, 1, 4, 12, 2], Objective::Classify);
        [step(lower, &spec), step(lower_by_equations, &spec)].map(|graph| Case::new(name, graph, batch.clone()))
    };
    USES.iter().map(both).collect()
}

#[test]
fn every_atomic_definition_is_compared() {
    let text = include_str!("../../../specs/lib/atomic.rt");
    let heads = text.lines().filter_map(|line| line.strip_prefix("atomic def "));
    let defined: BTreeSet<&str> = heads.map(|head| head.split('(').next().unwrap_or(head)).collect();
    let compared: BTreeSet<&str> = USES.iter().map(|(name, _)| *name).collect();
    assert_eq!(compared, defined);
}

#[test]
fn kernels_compute_what_their_equations_say() {
    for [op, equations] in both() {
        let of = |case: &Case| run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact);
        assert_same(&op.name, &of(&op), &of(&equations), 1e-12);
    }
}

#[test]
fn kernels_of_a_device_compute_what_the_equations_say() {
    let cases = both();
    let Some(kernels) = kernels("double", cases.iter().flatten().map(|case| &case.graph)) else { return };
    for [op, equations] in &cases {
        let there = on_device::<f64>(op, emulated(&kernels));
        assert_same(&op.name, &there, &on_device::<f64>(equations, emulated(&kernels)), 1e-12);
        assert_same(&op.name, &there, &run::<f64>(&equations.graph, &op.weights, &op.batch, Halting::Compact), 1e-12);
    }
}
