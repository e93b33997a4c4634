//! Models in which a branch that a choice does not take has no finite number, no finite slope, or neither.

use rtc_compiler::spec::Spec;

use crate::models;

/// Equations of a body in which a branch that is not taken has no finite number, no finite slope, or neither.
pub const CHOICES: &[(&str, &str)] = &[
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
    (
        "carried by a loop",
        "loop {\n  steps: 2\n  carry z = state\n  z = linear(log(z))\n}\nstate = when(never, z, state)",
    ),
    (
        "carried beside another",
        "loop {\n  steps: 2\n  carry z = state\n  carry y = state\n  z = linear(log(z))\n  y = linear(y)\n}\n\
            state = when(never, z, y)",
    ),
    (
        "in a loop that chooses",
        "loop {\n  steps: 2\n  carry z = state\n  y = linear(log(z))\n  z = when(never, norm(y), z)\n}\nstate = state + z",
    ),
    (
        "in chunks",
        "y = state\nrecur chunkwise {\n  size: 4\n  memory { slots: 1 }\n  attend memory { heads: 2 }\n  \
            state = linear(log(state))\n}\nstate = when(never, state, y)",
    ),
    (
        "among chosen positions",
        "y = linear(log(state))\nchosen = top(mean(state) { over: width }) { of: 2 }\n\
            z = among(chosen, linear(y), state)\nstate = when(never, z, state)",
    ),
    ("of large powers", "y = (1e30 * state)^4\nz = linear(y^4)\nstate = when(never, z, state)"),
    ("of large products", "z = linear(silu(1e38 * state) * 1e38)\nstate = when(never, z^8, state)"),
    ("norm of nothing", "z = linear(norm(relu(state - 9)) { eps: 0 })\nstate = when(never, z, state)"),
    (
        "layer norm of nothing",
        "z = linear(norm(relu(state - 9)) { kind: layer, eps: 0 })\nstate = when(never, z, state)",
    ),
    ("norm of large numbers", "z = linear(norm(1e30 * (state + 1)))\nstate = when(never, z, state)"),
    ("softmax of large numbers", "z = softmax(3e36 * (state + 1) * 100)\nstate = when(never, z * state, state)"),
    ("attention of large numbers", "z = attention(1e30 * state) { heads: 2 }\nstate = when(never, z, state)"),
    ("attention of a logarithm", "z = attention(linear(log(state - 9))) { heads: 2 }\nstate = when(never, z, state)"),
    ("mean of rows", "z = linear(mean(log(state)))\nstate = when(never, z, state)"),
];

/// A condition that never holds.
const NEVER: &str = "never = mean(state) { over: width } > 100\n";

/// The model of such equations.
pub fn model(equations: &str) -> Spec {
    let never = if equations.contains("never") { NEVER } else { "" };
    models::parse(&format!("model m {{ embed {{ width: 6 }}\n{never}{equations}\nreadout mean }}"))
}
