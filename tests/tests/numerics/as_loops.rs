//! Recurrences and halting rules of the language are loops that a user could write: the same logits, losses and gradients from the same
//! weights.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Objective, attach_loss, lower};
use rtc_exec::Halting;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{Arrays, assert_same, differentiated, run, strong};

use super::device::example;

/// A recurrence, and the same as a loop. Their weights come in the same order.
const PAIRS: &[(&str, &str, &str)] = &[
    (
        "no halting",
        "recur depthwise { depth: 3, halt none, attend self { heads: 2 }, feedforward { hidden: 6 } }",
        "loop { steps: 3, attend self { heads: 2 }, feedforward { hidden: 6 } }",
    ),
    (
        "a gate and an injection",
        "recur depthwise { depth: 3, gate mlp { hidden: 5 }, inject add, attend self { heads: 2 }, feedforward { hidden: 6 } }",
        "input = state
        loop {
            steps: 3
            state = state + input
            before = state
            attend self { heads: 2 }
            normed = norm(state)
            result = mlp(normed) { hidden: 6 } + state
            state = lerp(sigmoid(mlp(normed) { hidden: 5 }), result, before)
        }",
    ),
    (
        "rows halt",
        "recur depthwise {
            depth: 5
            cap: none
            halt global { sees: transition, threshold: 0.7, cost: 0.1 }
            attend self { heads: 2 }
            feedforward { hidden: 6 }
        }",
        "loop {
            steps: 5
            carry mixture = zeros(state)
            carry left = 1
            carry cost = 0
            from = state
            attend self { heads: 2 }
            feedforward { hidden: 6 }
            halts = left * sigmoid(number(gelu(linear(cat(mean(from), mean(state))))))
            cost = cost + left
            mixture = mixture + halts * from
            left = left - halts
            go 1 - left < 0.7
        }
        loss 0.1 * average(cost)
        state = mixture + left * state",
    ),
    (
        "positions halt",
        "recur depthwise {
            depth: 5
            cap: none
            halt token { sees: state, threshold: 0.7, cost: 0.1 }
            attend self { heads: 2 }
            feedforward { hidden: 6 }
        }",
        "zero = 0 * sum(state) { over: width }
        loop {
            steps: 5
            carry mixture = zeros(state)
            carry left = ones(zero)
            carry cost = zero
            from = state
            attend self { heads: 2 }
            feedforward { hidden: 6 }
            halts = left * sigmoid(number(gelu(linear(from))))
            cost = cost + left
            mixture = mixture + halts * from
            left = left - halts
            go 1 - left < 0.7
        }
        loss 0.1 * average(mean(cost))
        state = mixture + left * state",
    ),
];

fn step(body: &str) -> Graph {
    let spec = models::parse(&format!("model m {{ embed {{ width: 8, tokens: start_end }}\n{body}\nreadout mean }}"));
    let bound = binding(Objective::Classify);
    let mut graph = lower(&spec, &bound).expect("it lowers");
    attach_loss(&mut graph, &bound).expect("it has a loss");
    differentiated(&graph)
}

/// Demands that two bodies with weights of the same types in the same order have the same logits, losses and gradients; gives the depths of
/// all rows.
pub(super) fn same(name: &str, own: &str, other: &str) -> Vec<f64> {
    let (own, other) = (step(own), step(other));
    let names = |graph: &Graph| -> Vec<(String, String)> {
        graph.parameters().iter().map(|p| (p.name.clone(), p.ty.to_string())).collect()
    };
    let (own_names, other_names) = (names(&own), names(&other));
    let types = |names: &[(String, String)]| names.iter().map(|(_, ty)| ty.clone()).collect::<Vec<_>>();
    assert_eq!(types(&own_names), types(&other_names), "{name}: {own_names:?} and {other_names:?}");
    let renamed = |arrays: &Arrays, from: &[(String, String)], to: &[(String, String)]| -> Arrays {
        from.iter().zip(to).map(|(from, to)| (to.0.clone(), arrays[&from.0].clone())).collect()
    };
    let batch = example(&[7, 1, 4, 12, 2], Objective::Classify);
    let mut depths = vec![];
    for seed in 0..4 {
        let weights = strong(&own, seed);
        let a = run::<f64>(&own, &weights, &batch, Halting::Compact);
        let mut b = run::<f64>(&other, &renamed(&weights, &own_names, &other_names), &batch, Halting::Compact);
        b.gradients = renamed(&b.gradients, &other_names, &own_names);
        let mut a = a;
        depths.extend(a.outputs.get("depth").cloned().unwrap_or_default());
        // What is reported beside them has its own names.
        for outputs in [&mut a.outputs, &mut b.outputs] {
            outputs.retain(|name, _| ["logits", "loss", "task_loss"].contains(&name.as_str()));
        }
        assert_same(name, &a, &b, 1e-12);
    }
    depths
}

#[test]
fn recurrences_are_loops_that_a_user_could_write() {
    for (name, recurrence, looped) in PAIRS {
        let depths = same(name, recurrence, looped);
        let halts = recurrence.contains("threshold");
        assert_eq!(halts, depths.iter().any(|depth| *depth != depths[0]), "{name}: {depths:?}");
    }
}
