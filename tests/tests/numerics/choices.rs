//! The branch that a choice does not take has no gradient, also where it has no number: `when(x > 0, sqrt(x), x)`.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline::{self, Forward};
use rtc_runtime::exec::Halting;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{check_gradients, differentiated, run, weights};

use super::device::{Case, compare, example};

/// Equations of a body in which a branch that is not taken has no finite number, no finite slope, or neither.
const CHOICES: &[(&str, &str)] = &[
    ("root", "state = when(state > 0, sqrt(state), state)"),
    ("logarithm", "state = when(state > 0.1, log(state), state)"),
    ("product with a logarithm", "p = relu(state)\nstate = state + when(p > 0.1, p * log(p), 0)"),
    ("quotient", "z = relu(state)\nstate = state + when(z > 0.1, 1 / z, z)"),
    ("quotient of two", "z = relu(state)\nstate = when(z > 0.1, state / z^2, z)"),
    ("exponential", "z = 1000 * (abs(state) + 1)\nstate = state + when(z < 0, exp(z), 0)"),
    ("powers", "z = relu(state)\nstate = state + when(z > 0.1, z^2 / z^3, 0)"),
    ("softplus of a logarithm", "state = state + when(state > 0.1, softplus(log(state)), 0)"),
    ("sigmoid of a logarithm", "state = state + when(state > 0.1, sigmoid(log(state)) + tanh(log(state)), 0)"),
    ("gelu of a quotient", "z = relu(state)\nstate = state + when(z > 0.1, gelu(1 / z) * silu(1 / z), 0)"),
    ("maximum of a root", "z = relu(state) - 0.1\nstate = state + max(when(z > 0, sqrt(z), z), 1e-6)"),
    (
        "maximum of nothing",
        "state = state + when(state > 0.1, max(log(state), -5) + min(log(state), 9) + abs(log(state)), 0)",
    ),
    ("within bounds", "z = relu(state)\nstate = state + min(max(1 / z, 0.1), 2)"),
    ("nested", "z = relu(state)\nstate = when(state > 0, when(z > 0.5, sqrt(z - 0.5), z), when(z > 0, 1 / z, state))"),
    ("lerp", "z = relu(state)\nstate = state + when(z > 0.1, lerp(sigmoid(1 / z), 1 / z, state), 0)"),
    ("mean of a branch", "n = relu(number(state))\nstate = state + when(n > 0.1, mean(state / n) { over: width }, 0)"),
    ("per token", "n = relu(number(state))\nstate = state + when(n > 0.1, state / n, state)"),
    ("root per token", "n = number(state)\nstate = when(n > 0, state * sqrt(n), state)"),
    ("linear of a branch", "n = relu(number(state))\nstate = state + when(n > 0.1, linear(state / n), 0)"),
    ("norm of a branch", "n = relu(number(state))\nstate = state + when(n > 0.1, norm(linear(state / n)), 0)"),
    ("softmax of a branch", "n = relu(number(state))\nstate = state + when(n > 0.1, softmax(state * log(n)), 0)"),
    ("per row", "n = relu(number(mean(state)) - 0.02)\nstate = state + when(n > 0, mean(state) / n, mean(state))"),
    (
        "in a loop",
        "loop {\n  steps: 3\n  state = when(step > 0, state + when(state > 0, sqrt(state), 0), linear(state))\n}",
    ),
    ("of the step", "loop {\n  steps: 3\n  state = state + when(step > 0, linear(state) / step, 0)\n}"),
];

fn graphs(equations: &str) -> (Graph, Graph, Graph) {
    let text = format!("model m {{ embed {{ width: 6 }}\n{equations}\nreadout mean }}");
    let (spec, binding) = (models::parse(&text), binding(Objective::Classify));
    let forward = spec.with_loss(&binding).expect("the model has a loss");
    let training = pipeline::training(&spec, &binding).expect("the model has gradients");
    let plain = differentiated(&forward);
    (forward, plain, training)
}

/// Gradients before and after all passes equal central differences, and those of a device are the same.
#[test]
fn what_a_choice_does_not_take_has_no_gradient() {
    let mut cases = vec![];
    for (name, equations) in CHOICES {
        let (forward, plain, training) = graphs(equations);
        let (batch, weights) = (example(&[7, 1, 4, 12, 2], Objective::Classify), weights(&forward, 5, 0.6));
        for graph in [&plain, &training] {
            let gradients = run::<f64>(graph, &weights, &batch, Halting::Compact).gradients;
            let broken: Vec<_> = gradients.iter().filter(|(_, x)| x.iter().any(|x| !x.is_finite())).collect();
            assert!(broken.is_empty(), "{name}: {:?}", broken.iter().map(|(name, _)| name).collect::<Vec<_>>());
            check_gradients(name, (&forward, graph), &weights, &batch, Some(6), &[], 1e-5);
        }
        cases.push(Case { name: (*name).to_owned(), graph: training, weights, batch, halting: Halting::Compact });
    }
    compare(&cases);
}
