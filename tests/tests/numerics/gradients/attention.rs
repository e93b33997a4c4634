//! Attention under every mask, bias and position, and the rotations of its operands.

use super::{Case, SEQUENCE, SLOTS};

/// Attention and rotations.
pub(super) const ATTENTION: &[Case] = &[
    ("rope", SEQUENCE, "%y = rotate %a {kind: rope, heads: 2, transpose: false, origin: axis} : f32[batch, length, 4]"),
    (
        "xpos of queries",
        SEQUENCE,
        "%y = rotate %a {kind: xpos_query, heads: 1, transpose: false, origin: axis} : f32[batch, length, 4]",
    ),
    (
        "xpos of keys",
        SEQUENCE,
        "%y = rotate %a {kind: xpos_key, heads: 1, transpose: false, origin: row} : f32[batch, length, 4]",
    ),
    (
        "transposed rotation",
        SEQUENCE,
        "%y = rotate %a {kind: xpos_key, heads: 2, transpose: true, origin: axis} : f32[batch, length, 4]",
    ),
    (
        "rope on halves",
        SEQUENCE,
        "%y = rotate %a {kind: rope, heads: 1, origin: row, layout: half, base: 7.5} : f32[batch, length, 4]",
    ),
    (
        "rope on a part of the channels",
        SEQUENCE,
        "%y = rotate %a {kind: rope, heads: 1, layout: pairs, base: 100.0, part: 2} : f32[batch, length, 4]",
    ),
    (
        "transposed xpos on halves of a part of wider heads",
        "f32[batch, length, 12]",
        "%w12 = param {name: \"w12\", init: zeros} : f32[12, 4]
         %z = linear %a, %w12 : f32[batch, length, 12]
         %y = rotate %z {kind: xpos_query, heads: 2, transpose: true, layout: half, part: 4} : f32[batch, length, 12]",
    ),
    (
        "geometric attention",
        SEQUENCE,
        "%z = linear %a, %w : f32[batch, length, 4]
         %y = geometric_attention %a, %b, %c, %z {heads: 2, scale: 1.3} : f32[batch, length, 4]",
    ),
    ("geometric attention without sides", SEQUENCE, "%y = geometric_attention %a, %b, %c {heads: 1} : f32[batch, length, 4]"),
    ("geometric attention of slots", SLOTS, "%y = geometric_attention %m, %r2, %m {heads: 4} : f32[batch, 3, 4]"),
    ("attention", SEQUENCE, "%y = attention %a, %b, %c {heads: 2, mask: all} : f32[batch, length, 4]"),
    (
        "attention with shared keys",
        SEQUENCE,
        "%k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v {heads: 2, key_heads: 1, scale: 1.3} : f32[batch, length, 4]",
    ),
    (
        "causal attention with one key head and capped scores",
        SEQUENCE,
        "%k = linear %b, %to_one : f32[batch, length, 1]
         %v = linear %c, %to_one : f32[batch, length, 1]
         %y = attention %a, %k, %v {heads: 4, key_heads: 1, score: mul(0.4, tanh(div(score, 0.4))), mask: causal, dropout: 0.2, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention to few shared keys with capped scores, a learned bias and dropout",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[4, 2]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %t {heads: 4, key_heads: 2, scale: 1.7, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(mul(0.6, tanh(div(score, 0.6))), learn(head, sub(i, j))), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention with shared keys, capped scores and a bias by distance",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 4]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %t {heads: 2, key_heads: 1, mask: causal, score: add(mul(0.3, tanh(div(score, 0.3))), learn(head, min(sub(i, j), 3)))} : f32[batch, length, 4]",
    ),
    (
        "attention with shared keys, capped scores and a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %t {heads: 2, key_heads: 1, scale: 0.9, mask: and(ge(j, sub(i, add(head, 1))), le(j, add(i, 1))), score: add(mul(0.5, tanh(div(score, 0.5))), learn(rem(i, 3), rem(j, 2))), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions, shared keys and capped scores",
        SEQUENCE,
        "%w6 = param {name: \"w6\", init: zeros} : f32[4, 6]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %bias, %gain, %w6 {heads: 2, key_heads: 1, score: mul(0.9, tanh(div(score, 0.9))), scale: 0.8, position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention to few shared keys with relative positions and capped scores",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %t, %bias, %gain, %w {heads: 2, key_heads: 1, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(mul(0.9, tanh(div(score, 0.9))), learn(head, sub(i, j))), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "causal attention with a temperature of every head",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: causal, score: mul(score, learn(head)), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention with shared keys and a score of several parts",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2]
         %u = param {name: \"u\", init: zeros} : f32[4]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %t, %u {heads: 2, key_heads: 1, scale: 0.9, mask: le(j, add(i, 1)), score: add(mul(tanh(score), learn(head)), mul(learn_b(min(max(sub(i, j), 0), 3)), add(score, exp(mul(0.3, score)))))} : f32[batch, length, 4]",
    ),
    (
        "attention with a score that numbers of both positions change",
        SEQUENCE,
        "%n = linear %c, %to_one : f32[batch, length, 1]
         %y = attention %a, %b, %c, %n {heads: 2, score: add(mul(score, sigmoid(read_0(j, 0))), mul(sqrt(add(1, mul(score, score))), read_0(i, 0))), reads: 1} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions and a score with a root",
        SEQUENCE,
        "%y = attention %a, %b, %c, %bias, %gain, %w {heads: 2, mask: causal, score: div(score, sqrt(add(1, mul(score, score)))), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention with a score, of which some gradients stop",
        SEQUENCE,
        "%k = detach %b : f32[batch, length, 4]
         %v = detach %c : f32[batch, length, 4]
         %y = attention %a, %b, %c, %k, %v {heads: 2, mask: causal, score: mul(score, sub(score, 0.5)), stop: gt(sub(i, j), 9)} : f32[batch, length, 4]",
    ),
    (
        "attention of slots with shared keys",
        SLOTS,
        "%k = linear %b, %half : f32[batch, length, 2]
         %y = attention %m, %k, %k {heads: 4, key_heads: 2} : f32[batch, 3, 4]",
    ),
    (
        "attention to slots with shared keys and capped scores",
        SEQUENCE,
        "%k = linear %m, %half : f32[batch, 3, 2]
         %y = attention %a, %k, %k {heads: 2, key_heads: 1, score: mul(2.0, tanh(div(score, 2.0)))} : f32[batch, length, 4]",
    ),
    ("attention to itself", SEQUENCE, "%y = attention %a, %a, %a {heads: 1} : f32[batch, length, 4]"),
    ("causal attention", SEQUENCE, "%y = attention %a, %b, %c {heads: 2, mask: causal} : f32[batch, length, 4]"),
    (
        "masked attention",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: and(le(sub(i, j), 2), ge(add(j, head), 1))} : f32[batch, length, 4]",
    ),
    (
        "attention in which the first query sees nothing",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 1, mask: lt(j, i)} : f32[batch, length, 4]",
    ),
    (
        "attention with dropout",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: all, dropout: 0.4, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "causal attention with dropout",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: causal, dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "masked attention with dropout",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: ge(add(i, 1), j), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    ("attention of slots", SLOTS, "%y = attention %m, %a, %b {heads: 2} : f32[batch, 3, 4]"),
    ("attention to slots", SEQUENCE, "%y = attention %a, %m, %m {heads: 2} : f32[batch, length, 4]"),
    (
        "attention to slots with dropout",
        SEQUENCE,
        "%y = attention %a, %m, %m {heads: 2, dropout: 0.3, stream: 6} : f32[batch, length, 4]",
    ),
    (
        "attention with a bias by distance",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 4]
         %y = attention %a, %b, %c, %t {heads: 2, mask: causal, score: add(score, learn(head, min(sub(i, j), 3)))} : f32[batch, length, 4]",
    ),
    (
        "attention with a fixed bias that looks ahead",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, score: add(score, mul(0.3, mul(add(head, 1), sub(i, j))))} : f32[batch, length, 4]",
    ),
    (
        "attention with two tables inside of a logarithm",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2]
         %u = param {name: \"u\", init: zeros} : f32[2]
         %y = attention %a, %b, %c, %t, %u {heads: 2, mask: causal, score: add(score, mul(neg(learn(head)), log(add(1, mul(max(learn(head), 0.01), sub(i, j))))))} : f32[batch, length, 4]",
    ),
    (
        "attention with one table read twice",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[5]
         %u = param {name: \"u\", init: zeros} : f32[2]
         %y = attention %a, %b, %c, %t, %u {heads: 2, mask: causal, score: add(score, add(mul(learn_near(min(sub(i, j), 4)), learn(head)), learn_near(rem(j, 3))))} : f32[batch, length, 4]",
    ),
    (
        "attention with a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: le(j, add(i, 1)), score: add(score, learn(rem(i, 3), rem(j, 2))), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention of slots with a bias",
        SLOTS,
        "%t = param {name: \"t\", init: zeros} : f32[3, 5]
         %y = attention %m, %a, %b, %t {heads: 2, score: add(score, learn(min(i, 2), min(j, 4)))} : f32[batch, 3, 4]",
    ),
    (
        "attention to few keys with hops and dropout",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(score, learn(head, sub(i, j))), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention to one key",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: eq(j, add(i, 1))} : f32[batch, length, 4]",
    ),
    (
        "attention within blocks",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, mask: and(le(j, i), eq(div(i, 2), div(j, 2)))} : f32[batch, length, 4]",
    ),
    (
        "attention within windows with a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: and(ge(j, sub(i, add(head, 1))), le(j, i)), score: add(score, learn(rem(i, 3), rem(j, 2))), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions",
        SEQUENCE,
        "%w6 = param {name: \"w6\", init: zeros} : f32[4, 6]
         %y = attention %a, %b, %c, %bias, %gain, %w6 {heads: 2, position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "causal attention with relative positions and dropout",
        SEQUENCE,
        "%w3 = param {name: \"w3\", init: zeros} : f32[4, 3]
         %y = attention %a, %b, %c, %bias, %gain, %w3 {heads: 1, mask: causal, position: relative_xl, dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions, a window, and a bias",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t, %bias, %gain, %w {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(score, learn(head, sub(i, j))), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions and a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %y = attention %a, %b, %c, %t, %bias, %gain, %w {heads: 2, mask: le(j, add(i, 1)), score: add(score, learn(rem(i, 3), rem(j, 2))), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention of slots with relative positions",
        SLOTS,
        "%y = attention %m, %a, %b, %bias, %gain, %w {heads: 2, position: relative_xl} : f32[batch, 3, 4]",
    ),
    (
        "talking heads",
        SEQUENCE,
        "%l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %l, %p {heads: 2, mask: causal, talking: true} : f32[batch, length, 4]",
    ),
    (
        "talking heads with shared keys, capped scores and dropout",
        SEQUENCE,
        "%p = param {name: \"p\", init: zeros} : f32[4, 4]
         %k = linear %b, %half : f32[batch, length, 2]
         %v = linear %c, %half : f32[batch, length, 2]
         %y = attention %a, %k, %v, %w, %p {heads: 4, key_heads: 2, score: mul(0.6, tanh(div(score, 0.6))), scale: 0.8, talking: true, dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "talking heads that see few keys, with a learned bias",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t, %l, %p {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(score, learn(head, sub(i, j))), talking: true, dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "talking heads that see different keys, with a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t, %l, %p {heads: 2, mask: and(ge(j, sub(i, add(head, 1))), lt(j, add(i, head))), score: add(mul(0.5, tanh(div(score, 0.5))), learn(rem(i, 3), rem(j, 2))), talking: true} : f32[batch, length, 4]",
    ),
    (
        "talking heads with relative positions, a window, and a bias",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t, %bias, %gain, %w, %l, %p {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), score: add(score, learn(head, sub(i, j))), position: relative_xl, talking: true} : f32[batch, length, 4]",
    ),
    (
        "talking heads with relative positions, shared keys and a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %k = linear %b, %half : f32[batch, length, 2]
         %y = attention %a, %k, %k, %t, %bias, %gain, %w, %l, %p {heads: 2, key_heads: 1, mask: le(j, add(i, 1)), score: add(mul(0.9, tanh(div(score, 0.9))), learn(rem(i, 3), rem(j, 2))), position: relative_xl, talking: true} : f32[batch, length, 4]",
    ),
    (
        "talking heads of slots",
        SLOTS,
        "%l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %m, %a, %b, %l, %p {heads: 2, talking: true} : f32[batch, 3, 4]",
    ),
    (
        "talking heads to slots, of which the first position sees none",
        SEQUENCE,
        "%l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %y = attention %a, %m, %m, %l, %p {heads: 2, mask: lt(j, i), talking: true} : f32[batch, length, 4]",
    ),
];
