//! Losses over rows and over tokens.

use super::Case;

/// A label for every row.
pub(super) const ROWS: &[Case] = &[
    (
        "cross entropy of every row",
        "f32[batch]",
        "%labels = input {name: \"labels\"} : u32[batch]\n%y = cross_entropy_each %ra, %labels : f32[batch]",
    ),
    (
        "stablemax of every row",
        "f32[batch]",
        "%labels = input {name: \"labels\"} : u32[batch]
         %broad = map %ra {f: mul(3.0, a)} : f32[batch, 4]
         %y = cross_entropy_each %broad, %labels {kind: stablemax} : f32[batch]",
    ),
    (
        "binary cross entropy of every row",
        "f32[batch]",
        "%labels = input {name: \"labels\"} : u32[batch]
         %own = cross_entropy_each %rs, %labels : f32[batch]
         %of_channel = cross_entropy_each %rs1, %labels : f32[batch]
         %y = add %own, %of_channel : f32[batch]",
    ),
    (
        "what is right as a label",
        "f32[batch]",
        "%labels = input {name: \"labels\"} : u32[batch]
         %answer = right %ra, %labels : f32[batch]
         %sign = right %rs1, %labels : f32[batch]
         %far = map %answer, %sign {f: add(a, mul(0.3, b))} : f32[batch]
         %y = map %rs, %far {f: mul(sub(a, b), sub(a, b))} : f32[batch]",
    ),
];

/// Labels and weights for every token.
pub(super) const TOKENS: &[Case] = &[
    (
        "cross entropies of tokens, weighed by what the model says of them",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]
         %weights = input {name: \"weights\"} : f32[batch, length]
         %one = cross_entropy_each %a, %labels {kind: softmax} : f32[batch, length]
         %two = cross_entropy_each %b, %labels {kind: stablemax} : f32[batch, length]
         %three = cross_entropy_each %s1, %labels : f32[batch, length]
         %answer = right %c, %labels : f32[batch, length]
         %mixed = map %psig, %one, %two {f: lerp(a, b, c)} : f32[batch, length]
         %all = map %mixed, %three, %answer {f: add(a, mul(b, add(c, 0.5)))} : f32[batch, length]
         %y = average %all, %weights : f32[]",
    ),
    (
        "losses inside a loop",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]
         %weights = input {name: \"weights\"} : f32[batch, length]
         %none = full %s {value: 0.0, rank: 2} : f32[batch, length]
         %h0, %sum = recur %a, %none {bound: min(length, 3)} : f32[batch, length, 4], f32[batch, length] (%h: f32[batch, length, 4], %l: f32[batch, length], %step: u32[]) {
           %next = linear %h, %w, %bias : f32[batch, length, 4]
           %one = cross_entropy_each %next, %labels {kind: stablemax} : f32[batch, length]
           %more = add %l, %one : f32[batch, length]
           yield %next, %more
         }
         %y = average %sum, %weights : f32[]",
    ),
];
