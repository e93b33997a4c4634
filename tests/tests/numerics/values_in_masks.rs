//! Masks and biases that read values against attention that says the same without: the same logits, losses and gradients from the same
//! weights.

use super::as_loops::same;

/// A body, and one that reads values of positions.
const PAIRS: &[(&str, &str, &str)] = &[
    (
        "positions as values",
        "state = attention(norm(state)) { heads: 2, mask: j <= i and i - j < 3, bias: learn[head] * (i - j) - 0.01 * i * j }",
        "p = positions(state)
        state = attention(norm(state)) {
            heads: 2
            mask: p[j] <= p[i] and p[i] - p[j] < 3
            bias: learn[head] * (p[i] - p[j]) - 0.01 * p[i] * p[j]
        }",
    ),
    (
        "blocks as values, in a loop",
        "loop {
            steps: 3
            state = state + attention(norm(state)) { heads: 2, mask: floor(i / 3) == floor(j / 3) or step == 1, stop: i > j + step }
        }",
        "p = positions(state)
        loop {
            steps: 3
            state = state + attention(norm(state)) {
                heads: 2
                mask: floor(p[i] / 3) == floor(p[j] / 3) or step == 1
                stop: p[i] > p[j] + step
            }
        }",
    ),
    (
        "a bias of the key as one more channel",
        "q, k, v = parts(linear(state) { to: 24 }, 3)
        c = linear(state) { to: 1 }
        y = dot_product_attention(cat(q, 2.8284271247461903 * ones(c)), cat(k, c), cat(v, zeros(c))) {
            heads: 1
            scale: 0.35355339059327373
            mask: past
        }
        state = state + linear(y) { to: 8 }",
        "q, k, v = parts(linear(state) { to: 24 }, 3)
        c = linear(state) { to: 1 }
        y = dot_product_attention(q, k, v) { heads: 1, mask: past, bias: c[j, 0] }
        state = state + linear(cat(y, zeros(c))) { to: 8 }",
    ),
    (
        "a bias of both as one more channel",
        "q, k, v = parts(linear(state) { to: 24 }, 3)
        c = linear(state) { to: 1 }
        d = linear(state) { to: 1 }
        y = dot_product_attention(cat(q, 2.8284271247461903 * c), cat(k, d), cat(v, zeros(c))) {
            heads: 1
            scale: 0.35355339059327373
        }
        state = state + linear(y) { to: 8 }",
        "q, k, v = parts(linear(state) { to: 24 }, 3)
        c = linear(state) { to: 1 }
        d = linear(state) { to: 1 }
        y = dot_product_attention(q, k, v) { heads: 1, bias: c[i, 0] * d[j, 0] }
        state = state + linear(cat(y, zeros(c))) { to: 8 }",
    ),
    (
        "what queries add to all of their keys changes nothing",
        "c = linear(state) { to: 4 }
        state = attention(state) { heads: 2, mask: past, bias: c[j, 2 * head + 1] }",
        "c = linear(state) { to: 4 }
        state = attention(state) { heads: 2, mask: past, bias: c[j, 2 * head + 1] - 3 * c[i, head] }",
    ),
];

#[test]
fn values_say_what_positions_and_channels_say() {
    for (name, own, other) in PAIRS {
        same(name, own, other);
    }
}
