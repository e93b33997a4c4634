//! The gradient of every op and loop against central differences in double precision.
//!
//! A case is the body of a graph in the text form: it computes `%y` of the given type from the values of the prelude. The
//! loss is the mean of `y (y + 0.3)`, so that every element of `y` has a cotangent of its own.

use std::collections::BTreeSet;

use rtc_compiler::ir::gradient;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::loops;
use rtc_compiler::ir::ops::Op;
use rtc_runtime::batch::Batch;
use rtc_runtime::exec::Halting;
use rtc_tests::numeric::{batch, check_gradients, differentiated, graph, labelled_tokens, run, weights};

/// Sequences, rows and slots that depend on parameters and differ from row to row.
const PRELUDE: &str = r#"
  %tokens = input {name: "tokens"} : u32[batch, length]
  %ta = param {name: "a", init: zeros} : f32[7, 4]
  %tb = param {name: "b", init: zeros} : f32[7, 4]
  %tc = param {name: "c", init: zeros} : f32[7, 4]
  %w = param {name: "w", init: zeros} : f32[4, 4]
  %wide = param {name: "wide", init: zeros} : f32[3, 4]
  %to_one = param {name: "to_one", init: zeros} : f32[1, 4]
  %bias = param {name: "bias", init: zeros} : f32[4]
  %gain = param {name: "gain", init: ones} : f32[4]
  %slots = param {name: "slots", init: zeros} : f32[3, 4]
  %a = embed %tokens, %ta : f32[batch, length, 4]
  %b = embed %tokens, %tb : f32[batch, length, 4]
  %c = embed %tokens, %tc : f32[batch, length, 4]
  %ra = mean %a : f32[batch, 4]
  %rb = position %b {at: first} : f32[batch, 4]
  %rc = position %c {at: last} : f32[batch, 4]
  %s1 = linear %a, %to_one : f32[batch, length, 1]
  %s = squeeze %s1 : f32[batch, length]
  %rs1 = linear %ra, %to_one : f32[batch, 1]
  %rs = squeeze %rs1 : f32[batch]
  %expanded = expand %slots, %a : f32[batch, 3, 4]
  %glance = attention %expanded, %a, %b {heads: 1} : f32[batch, 3, 4]
  %m = add %expanded, %glance : f32[batch, 3, 4]
  %psig = sigmoid %s : f32[batch, length]
  %rpsig = sigmoid %rs : f32[batch]
  %r2 = scale %m {by: 0.7} : f32[batch, 3, 4]
"#;

const SEQUENCE: &str = "f32[batch, length, 4]";
const ROW: &str = "f32[batch, 4]";
const SLOTS: &str = "f32[batch, 3, 4]";

const S4D_LEFT: &str = "
  %dt = param {name: \"dt\", init: zeros} : f32[4]
  %decay = param {name: \"decay\", init: zeros} : f32[4, 3]
  %turn = param {name: \"turn\", init: zeros} : f32[4, 3]
  %in = param {name: \"in\", init: zeros} : f32[4, 3, 2]
  %out = param {name: \"out\", init: zeros} : f32[4, 3, 2]
  %y = s4d %a, %dt, %decay, %turn, %in, %out {side: left, lag: 0} : f32[batch, length, 4]";
const S4D_RIGHT: &str = "
  %dt = param {name: \"dt\", init: zeros} : f32[4]
  %decay = param {name: \"decay\", init: zeros} : f32[4, 3]
  %turn = param {name: \"turn\", init: zeros} : f32[4, 3]
  %in = param {name: \"in\", init: zeros} : f32[4, 3, 2]
  %out = param {name: \"out\", init: zeros} : f32[4, 3, 2]
  %y = s4d %m, %dt, %decay, %turn, %in, %out {side: right, lag: 1} : f32[batch, 3, 4]";
const EMA_LEFT: &str = "
  %delta = param {name: \"delta\", init: zeros} : f32[4, 2]
  %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
  %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
  %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
  %y = ema %a, %delta, %alpha, %beta, %gamma {side: left, lag: 2} : f32[batch, length, 4]";
const EMA_RIGHT: &str = "
  %delta = param {name: \"delta\", init: zeros} : f32[4, 2]
  %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
  %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
  %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
  %y = ema %b, %delta, %alpha, %beta, %gamma {side: right, lag: 0} : f32[batch, length, 4]";
const OFFSETS: &str = "
  %near = param {name: \"near\", init: zeros} : f32[5]
  %q = linear %a, %wide : f32[batch, length, 3]
  %k = linear %b, %wide : f32[batch, length, 3]
  %y = offset_attention %q, %k, %c, %near {mask: all} : f32[batch, length, 4]";
const OFFSETS_OF_SLOTS: &str = "
  %near = param {name: \"near\", init: zeros} : f32[7]
  %y = offset_attention %m, %r2, %m, %near {mask: causal} : f32[batch, 3, 4]";

const ALLOT: &str = "
  %b1 = linear %m, %to_one : f32[batch, 3, 1]
  %beta = squeeze %b1 : f32[batch, 3]
  %o1 = linear %r2, %to_one : f32[batch, 3, 1]
  %o = squeeze %o1 : f32[batch, 3]
  %before = sigmoid %o : f32[batch, 3]
  %p, %below, %above = allot %beta, %before : f32[batch, 3], f32[batch, 3], f32[batch, 3]
  %sums = mul %below, %above : f32[batch, 3]
  %y = add %p, %sums : f32[batch, 3]";

/// Ops: name, type of `%y`, body.
const OPS: &[(&str, &str, &str)] = &[
    ("embed", SEQUENCE, "%y = mul %a, %b : f32[batch, length, 4]"),
    (
        "frame",
        "f32[batch, length+2, 4]",
        "%f = frame %a, %bias, %gain : f32[batch, length+2, 4]\n%y = gelu %f : f32[batch, length+2, 4]",
    ),
    ("expand", SLOTS, "%y = gelu %m : f32[batch, 3, 4]"),
    ("expand vector", ROW, "%e = expand %bias, %a : f32[batch, 4]\n%y = mul %e, %ra : f32[batch, 4]"),
    ("mean", ROW, "%y = mean %a : f32[batch, 4]"),
    ("mean of units", "f32[batch]", "%y = mean %s : f32[batch]"),
    ("mean of slots", ROW, "%y = mean %m : f32[batch, 4]"),
    ("sum", ROW, "%y = sum %a : f32[batch, 4]"),
    ("sum of slots", ROW, "%y = sum %m : f32[batch, 4]"),
    ("spread", SEQUENCE, "%y = spread %ra, %b : f32[batch, length, 4]"),
    ("spread of units", "f32[batch, length]", "%y = spread %rs, %b : f32[batch, length]"),
    (
        "choice by the number of positions",
        ROW,
        "%two = several %a : bool[batch]\n%y = select %two, %ra, %rb : f32[batch, 4]",
    ),
    ("cumulative mean", SEQUENCE, "%y = cumulative_mean %a : f32[batch, length, 4]"),
    ("cumulative mean of slots", SLOTS, "%y = cumulative_mean %m : f32[batch, 3, 4]"),
    ("first position", ROW, "%y = position %a {at: first} : f32[batch, 4]"),
    ("last position", ROW, "%y = position %a {at: last} : f32[batch, 4]"),
    ("last slot", ROW, "%y = position %m {at: last} : f32[batch, 4]"),
    (
        "position before the last",
        ROW,
        "%f = frame %a, %bias, %gain : f32[batch, length+2, 4]\n%y = position %f {at: before_last} : f32[batch, 4]",
    ),
    ("neighbours on the left", SEQUENCE, "%y = neighbours %a, %psig {side: left} : f32[batch, length, 4]"),
    ("neighbours on the right", SEQUENCE, "%y = neighbours %b, %psig {side: right} : f32[batch, length, 4]"),
    ("neighbours among numbers", "f32[batch, length]", "%y = neighbours %s, %psig {side: left} : f32[batch, length]"),
    ("vanishing positions", "f32[batch, length]", "%y = vanishing %s, %psig : f32[batch, length]"),
    ("slots of one vector", SLOTS, "%y = repeat %ra {count: 3} : f32[batch, 3, 4]"),
    ("a number in every slot", "f32[batch, 2]", "%y = repeat %rs {count: 2} : f32[batch, 2]"),
    ("shares of slots", "f32[batch, 3]", ALLOT),
    (
        "shares above",
        "f32[batch, 3]",
        "%b1 = linear %m, %to_one : f32[batch, 3, 1]
         %beta = squeeze %b1 : f32[batch, 3]
         %before = sigmoid %beta : f32[batch, 3]
         %p, %below, %y = allot %beta, %before : f32[batch, 3], f32[batch, 3], f32[batch, 3]",
    ),
    ("max", ROW, "%y = max %a : f32[batch, 4]"),
    ("max of slots", ROW, "%y = max %m : f32[batch, 4]"),
    ("concat", "f32[batch, length, 5]", "%y = concat %a, %s1 : f32[batch, length, 5]"),
    ("concat of rows", "f32[batch, 8]", "%y = concat %ra, %rb : f32[batch, 8]"),
    ("slice", "f32[batch, length, 2]", "%y = slice %a {start: 1, width: 2} : f32[batch, length, 2]"),
    ("pad", "f32[batch, length, 7]", "%y = pad %a {start: 2, width: 7} : f32[batch, length, 7]"),
    ("squeeze", "f32[batch, length]", "%y = squeeze %s1 : f32[batch, length]"),
    ("unsqueeze", "f32[batch, length, 1]", "%y = unsqueeze %s : f32[batch, length, 1]"),
    ("pair", "f32[batch/2, 16]", "%y = pair %ra : f32[batch/2, 16]"),
    ("linear", "f32[batch, length, 3]", "%y = linear %a, %wide : f32[batch, length, 3]"),
    ("linear with bias", SEQUENCE, "%y = linear %a, %w, %bias : f32[batch, length, 4]"),
    ("linear on rows", ROW, "%y = linear %ra, %w, %bias : f32[batch, 4]"),
    ("linear on slots", SLOTS, "%y = linear %m, %w, %bias : f32[batch, 3, 4]"),
    ("layer norm", SEQUENCE, "%y = layer_norm %a, %gain, %bias {eps: 1e-5} : f32[batch, length, 4]"),
    ("layer norm of rows", ROW, "%y = layer_norm %ra, %gain, %bias {eps: 1e-2} : f32[batch, 4]"),
    (
        "layer norm of a parameter",
        SLOTS,
        "%n = layer_norm %slots, %gain, %bias {eps: 1e-2} : f32[3, 4]\n%y = expand %n, %a : f32[batch, 3, 4]",
    ),
    ("gelu", SEQUENCE, "%y = gelu %a : f32[batch, length, 4]"),
    ("gelu with tanh", SEQUENCE, "%y = gelu_tanh %a : f32[batch, length, 4]"),
    ("sines as positions", SEQUENCE, "%p = add_position %a : f32[batch, length, 4]\n%y = mul %p, %b : f32[batch, length, 4]"),
    (
        "learned positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[7, 4]
         %p = add_position %a, %t : f32[batch, length, 4]
         %y = mul %p, %b : f32[batch, length, 4]",
    ),
    ("relu", SEQUENCE, "%y = relu %a : f32[batch, length, 4]"),
    ("sigmoid", SEQUENCE, "%y = sigmoid %a : f32[batch, length, 4]"),
    ("add", SEQUENCE, "%y = add %a, %b : f32[batch, length, 4]"),
    ("add to itself", SEQUENCE, "%y = add %a, %a : f32[batch, length, 4]"),
    ("sub", SEQUENCE, "%y = sub %a, %b : f32[batch, length, 4]"),
    ("mul", SEQUENCE, "%y = mul %a, %b : f32[batch, length, 4]"),
    ("square", SEQUENCE, "%y = mul %a, %a : f32[batch, length, 4]"),
    (
        "div",
        SEQUENCE,
        "%g = sigmoid %b : f32[batch, length, 4]\n%d = offset %g {by: 0.5} : f32[batch, length, 4]\n%y = div %a, %d : f32[batch, length, 4]",
    ),
    ("scale", SEQUENCE, "%y = scale %a {by: -1.7} : f32[batch, length, 4]"),
    ("offset", SEQUENCE, "%y = offset %a {by: 0.9} : f32[batch, length, 4]"),
    ("lerp", SEQUENCE, "%g = sigmoid %a : f32[batch, length, 4]\n%y = lerp %g, %b, %c : f32[batch, length, 4]"),
    ("gate", SEQUENCE, "%y = gate %a, %b, %c : f32[batch, length, 4]"),
    ("gate of rows", ROW, "%y = gate %ra, %rb, %rc : f32[batch, 4]"),
    ("select by position", SEQUENCE, "%y = select %when, %a, %b : f32[batch, length, 4]"),
    ("select by row", SEQUENCE, "%y = select %rwhen, %a, %b : f32[batch, length, 4]"),
    ("select of units", "f32[batch]", "%y = select %rwhen, %rs, %rpsig : f32[batch]"),
    ("keep by position", SEQUENCE, "%y = keep %a, %when {when: true} : f32[batch, length, 4]"),
    ("keep by row", SLOTS, "%y = keep %m, %rwhen {when: false} : f32[batch, 3, 4]"),
    ("mul_unit by position", SEQUENCE, "%y = mul_unit %b, %s : f32[batch, length, 4]"),
    ("mul_unit by row", SEQUENCE, "%y = mul_unit %b, %rs : f32[batch, length, 4]"),
    ("mul_unit of slots by row", SLOTS, "%y = mul_unit %m, %rs : f32[batch, 3, 4]"),
    ("mul_unit of units by row", "f32[batch, length]", "%y = mul_unit %s, %rs : f32[batch, length]"),
    ("add_scaled by position", SEQUENCE, "%y = add_scaled %a, %b, %s : f32[batch, length, 4]"),
    ("add_scaled by row", SEQUENCE, "%y = add_scaled %a, %b, %rs : f32[batch, length, 4]"),
    ("add_scaled of rows", ROW, "%y = add_scaled %ra, %rb, %rs : f32[batch, 4]"),
    ("dropout", SEQUENCE, "%y = dropout %a {p: 0.4, stream: 3} : f32[batch, length, 4]"),
    ("dropout of rows", ROW, "%y = dropout %ra {p: 0.2, stream: 4} : f32[batch, 4]"),
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
    ("attention", SEQUENCE, "%y = attention %a, %b, %c {heads: 2, mask: all} : f32[batch, length, 4]"),
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
         %y = attention %a, %b, %c, %t {heads: 2, mask: causal, bias: learn(head, min(sub(i, j), 3))} : f32[batch, length, 4]",
    ),
    (
        "attention with a fixed bias that looks ahead",
        SEQUENCE,
        "%y = attention %a, %b, %c {heads: 2, bias: mul(0.3, mul(add(head, 1), sub(i, j)))} : f32[batch, length, 4]",
    ),
    (
        "attention with two tables inside of a logarithm",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2]
         %u = param {name: \"u\", init: zeros} : f32[2]
         %y = attention %a, %b, %c, %t, %u {heads: 2, mask: causal, bias: mul(neg(learn(head)), log(add(1, mul(max(learn(head), 0.01), sub(i, j)))))} : f32[batch, length, 4]",
    ),
    (
        "attention with one table read twice",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[5]
         %u = param {name: \"u\", init: zeros} : f32[2]
         %y = attention %a, %b, %c, %t, %u {heads: 2, mask: causal, bias: add(mul(learn_near(min(sub(i, j), 4)), learn(head)), learn_near(rem(j, 3)))} : f32[batch, length, 4]",
    ),
    (
        "attention with a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: le(j, add(i, 1)), bias: learn(rem(i, 3), rem(j, 2)), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
    ),
    (
        "attention of slots with a bias",
        SLOTS,
        "%t = param {name: \"t\", init: zeros} : f32[3, 5]
         %y = attention %m, %a, %b, %t {heads: 2, bias: learn(min(i, 2), min(j, 4))} : f32[batch, 3, 4]",
    ),
    (
        "attention to few keys with hops and dropout",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[2, 2]
         %y = attention %a, %b, %c, %t {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), bias: learn(head, sub(i, j)), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
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
         %y = attention %a, %b, %c, %t {heads: 2, mask: and(ge(j, sub(i, add(head, 1))), le(j, i)), bias: learn(rem(i, 3), rem(j, 2)), dropout: 0.3, stream: 5} : f32[batch, length, 4]",
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
         %y = attention %a, %b, %c, %t, %bias, %gain, %w {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), bias: learn(head, sub(i, j)), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention with relative positions and a bias of both positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[3, 2]
         %y = attention %a, %b, %c, %t, %bias, %gain, %w {heads: 2, mask: le(j, add(i, 1)), bias: learn(rem(i, 3), rem(j, 2)), position: relative_xl} : f32[batch, length, 4]",
    ),
    (
        "attention of slots with relative positions",
        SLOTS,
        "%y = attention %m, %a, %b, %bias, %gain, %w {heads: 2, position: relative_xl} : f32[batch, 3, 4]",
    ),
    ("affine", SEQUENCE, "%y = affine %a, %gain, %bias : f32[batch, length, 4]"),
    ("affine of rows without bias", ROW, "%y = affine %ra, %gain : f32[batch, 4]"),
    ("tied dropout", SEQUENCE, "%y = dropout %a {p: 0.4, stream: 3, tied: true} : f32[batch, length, 4]"),
    ("s4d from the left", SEQUENCE, S4D_LEFT),
    ("s4d of slots from the right", SLOTS, S4D_RIGHT),
    ("ema from the left", SEQUENCE, EMA_LEFT),
    ("ema from the right", SEQUENCE, EMA_RIGHT),
    ("offset attention beyond its reach", SEQUENCE, OFFSETS),
    ("causal offset attention of slots", SLOTS, OFFSETS_OF_SLOTS),
    ("average", "f32[]", "%y = average %a : f32[]"),
    (
        "cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch]\n%y = cross_entropy %ra, %labels : f32[]",
    ),
    (
        "binary cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch]\n%y = binary_cross_entropy %rs1, %labels : f32[]",
    ),
];

/// Losses over tokens: labels and weights for every token.
const EACH: &[(&str, &str, &str)] = &[
    (
        "weighted cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]\n%weights = input {name: \"weights\"} : f32[batch, length]\n%y = cross_entropy %a, %labels, %weights : f32[]",
    ),
    (
        "weighted binary cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]\n%weights = input {name: \"weights\"} : f32[batch, length]\n%y = binary_cross_entropy %s1, %labels, %weights : f32[]",
    ),
];

/// Loops: name, result that must not move, type of `%y`, body.
const LOOPS: &[(&str, &str, &str, &str)] = &[
    (
        "fixed depth",
        "",
        SEQUENCE,
        "%y = recur %a {bound: 3} : f32[batch, length, 4] (%h: f32[batch, length, 4], %step: u32[]) {
           %z = linear %h, %w, %bias : f32[batch, length, 4]
           %g = gelu %z : f32[batch, length, 4]
           %n = add %g, %h : f32[batch, length, 4]
           yield %n
         }",
    ),
    (
        "depth over the length with captured values, dropout and a mask over steps",
        "",
        SEQUENCE,
        "%y, %z = recur %a, %ra {bound: log(length, 2)} : f32[batch, length, 4], f32[batch, 4] (%h: f32[batch, length, 4], %r: f32[batch, 4], %step: u32[]) {
           %q = attention %h, %b, %b, %step {heads: 2, mask: le(j, add(i, step)), dropout: 0.2, stream: 1} : f32[batch, length, 4]
           %d = dropout %q {p: 0.3, stream: 2} : f32[batch, length, 4]
           %n = add_scaled %d, %h, %rpsig : f32[batch, length, 4]
           %k = attention %r2, %n, %n {heads: 1} : f32[batch, 3, 4]
           %p = mean %k : f32[batch, 4]
           %rn = gate %r, %p, %rb : f32[batch, 4]
           yield %n, %rn
         }",
    ),
    (
        "slot by slot, one more step than slots",
        "",
        SLOTS,
        "%y, %h0 = recur %m, %ra {bound: 4} : f32[batch, 3, 4], f32[batch, 4] (%all: f32[batch, 3, 4], %h: f32[batch, 4], %slot: u32[]) {
           %one = pick %r2, %slot : f32[batch, 4]
           %old = pick %all, %slot : f32[batch, 4]
           %both = mul %one, %h : f32[batch, 4]
           %next = add %both, %old : f32[batch, 4]
           %put = put %all, %next, %slot : f32[batch, 3, 4]
           yield %put, %next
         }",
    ),
    (
        "rows that leave when little of them exists",
        "",
        SEQUENCE,
        "%all = full %a {value: 1.0, rank: 2} : f32[batch, length]
         %y, %e0 = recur %a, %all {bound: sub(length, 1)} : f32[batch, length, 4], f32[batch, length] (%h: f32[batch, length, 4], %e: f32[batch, length], %step: u32[]) {
           %go = unfinished %e : bool[batch]
           %l = neighbours %h, %e {side: left} : f32[batch, length, 4]
           %one = linear %l, %to_one : f32[batch, length, 1]
           %score = squeeze %one : f32[batch, length]
           %gone = vanishing %score, %e : f32[batch, length]
           %n = add_scaled %h, %l, %gone : f32[batch, length, 4]
           %lost = mul %e, %gone : f32[batch, length]
           %left = sub %e, %lost : f32[batch, length]
           yield %n, %left, %go
         }",
    ),
    (
        "halting row by row",
        "used",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %blend = full %a {value: 0.0, rank: 3} : f32[batch, length, 4]
         %h0, %q0, %t0, %used = recur %a, %blend, %ones, %none {bound: 7} : f32[batch, length, 4], f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %q: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %z = linear %h, %w, %bias : f32[batch, length, 4]
           %next = gelu %z : f32[batch, length, 4]
           %pool = mean %h : f32[batch, 4]
           %l1 = linear %pool, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %both = add %l, %rs : f32[batch]
           %p = sigmoid %both : f32[batch]
           %alpha = mul %t, %p : f32[batch]
           %t1 = sub %t, %alpha : f32[batch]
           %q1 = add_scaled %q, %h, %alpha : f32[batch, length, 4]
           %n1 = offset %n {by: 1.0} : f32[batch]
           %go = halt_test %t1, %step {threshold: 0.9, cap: length} : bool[batch]
           yield %next, %q1, %t1, %n1, %go
         }
         %y = add_scaled %q0, %h0, %t0 : f32[batch, length, 4]",
    ),
    (
        "halting position by position",
        "used",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 2} : f32[batch, length]
         %none = full %a {value: 0.0, rank: 2} : f32[batch, length]
         %all = true %a {rank: 2} : bool[batch, length]
         %h0, %t0, %used, %l0 = recur %a, %ones, %none, %all {bound: 6} : f32[batch, length, 4], f32[batch, length], f32[batch, length], bool[batch, length] (%h: f32[batch, length, 4], %t: f32[batch, length], %n: f32[batch, length], %live: bool[batch, length], %step: u32[]) {
           %att = attention %h, %h, %b {heads: 2, mask: causal} : f32[batch, length, 4]
           %next = gate %h, %att, %c : f32[batch, length, 4]
           %l1 = linear %next, %to_one : f32[batch, length, 1]
           %l = squeeze %l1 : f32[batch, length]
           %p = sigmoid %l : f32[batch, length]
           %alpha = mul %t, %p : f32[batch, length]
           %t1 = sub %t, %alpha : f32[batch, length]
           %n1 = offset %n {by: 1.0} : f32[batch, length]
           %test = halt_test %t1, %step {threshold: 0.9} : bool[batch, length]
           %go = and %live, %test : bool[batch, length]
           %h1 = select %go, %next, %h : f32[batch, length, 4]
           %t2 = select %go, %t1, %t : f32[batch, length]
           %n2 = select %go, %n1, %n : f32[batch, length]
           %any = any %go : bool[batch]
           yield %h1, %t2, %n2, %go, %any
         }
         %y = add_scaled %a, %h0, %t0 : f32[batch, length, 4]",
    ),
    (
        "scans in a loop in which rows leave",
        "used",
        SEQUENCE,
        "%delta = param {name: \"delta\", init: zeros} : f32[4, 2]
         %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
         %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
         %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
         %near = param {name: \"near\", init: zeros} : f32[5]
         %ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t0, %used = recur %a, %ones, %none {bound: 6} : f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %seen = ema %h, %delta, %alpha, %beta, %gamma {side: left, lag: 0} : f32[batch, length, 4]
           %d = dropout %seen {p: 0.3, stream: 2, tied: true} : f32[batch, length, 4]
           %att = offset_attention %h, %d, %h, %near {mask: all} : f32[batch, length, 4]
           %next = affine %att, %gain, %bias : f32[batch, length, 4]
           %pool = mean %next : f32[batch, 4]
           %l1 = linear %pool, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %both = add %l, %rs : f32[batch]
           %p = sigmoid %both : f32[batch]
           %alpha_t = mul %t, %p : f32[batch]
           %t1 = sub %t, %alpha_t : f32[batch]
           %n1 = offset %n {by: 1.0} : f32[batch]
           %go = halt_test %t1, %step {threshold: 0.9, cap: length} : bool[batch]
           yield %next, %t1, %n1, %go
         }",
    ),
    (
        "chunks of a given size",
        "",
        SEQUENCE,
        "%m1, %y = chunks %m, %a, %b {carried: 1, size: 2, cut: position, over: length, axis: chunk} : f32[batch, 3, 4], f32[batch, length, 4] (%mem: f32[batch, 3, 4], %x: f32[batch, chunk, 4], %v: f32[batch, chunk, 4]) {
           %seen = attention %x, %mem, %mem {heads: 2} : f32[batch, chunk, 4]
           %z = linear %v, %w, %bias : f32[batch, chunk, 4]
           %out = gate %z, %seen, %x : f32[batch, chunk, 4]
           %k = rotate %out {kind: xpos_key, heads: 1, transpose: false, origin: row} : f32[batch, chunk, 4]
           %read = attention %mem, %k, %out {heads: 1, dropout: 0.2, stream: 1} : f32[batch, 3, 4]
           %next = add_scaled %mem, %read, %rs : f32[batch, 3, 4]
           yield %next, %out
         }",
    ),
    (
        "a given count of chunks, of which the memory is read",
        "",
        ROW,
        "%m1, %out = chunks %m, %a {carried: 1, count: 2, cut: balanced, over: length, axis: chunk} : f32[batch, 3, 4], f32[batch, length, 4] (%mem: f32[batch, 3, 4], %x: f32[batch, chunk, 4]) {
           %read = attention %mem, %x, %x {heads: 2} : f32[batch, 3, 4]
           %next = add %mem, %read : f32[batch, 3, 4]
           %seen = attention %x, %next, %next {heads: 1} : f32[batch, chunk, 4]
           yield %next, %seen
         }
         %rm = mean %m1 : f32[batch, 4]
         %ro = max %out : f32[batch, 4]
         %y = lerp %rm, %ro, %rb : f32[batch, 4]",
    ),
    (
        "a halting loop in chunks",
        "used",
        SEQUENCE,
        "%none = full %a {value: 0.0, rank: 1} : f32[batch]
         %m1, %used, %y = chunks %m, %none, %a {carried: 2, size: 3, cut: position, over: length, axis: chunk} : f32[batch, 3, 4], f32[batch], f32[batch, length, 4] (%mem: f32[batch, 3, 4], %sum: f32[batch], %x: f32[batch, chunk, 4]) {
           %ones = full %x {value: 1.0, rank: 1} : f32[batch]
           %h0, %t0, %steps = recur %x, %ones, %sum {bound: 5} : f32[batch, chunk, 4], f32[batch], f32[batch] (%h: f32[batch, chunk, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
             %seen = attention %h, %mem, %mem {heads: 2} : f32[batch, chunk, 4]
             %z = linear %seen, %w, %bias : f32[batch, chunk, 4]
             %d = dropout %z {p: 0.2, stream: 9} : f32[batch, chunk, 4]
             %next = gate %d, %h, %x : f32[batch, chunk, 4]
             %pool = mean %next : f32[batch, 4]
             %l1 = linear %pool, %to_one : f32[batch, 1]
             %l = squeeze %l1 : f32[batch]
             %p = sigmoid %l : f32[batch]
             %alpha = mul %t, %p : f32[batch]
             %t1 = sub %t, %alpha : f32[batch]
             %n1 = offset %n {by: 1.0} : f32[batch]
             %go = halt_test %t1, %step {threshold: 0.8, cap: chunk} : bool[batch]
             yield %next, %t1, %n1, %go
           }
           %out = mul_unit %h0, %t0 : f32[batch, chunk, 4]
           %read = attention %mem, %out, %h0 {heads: 1} : f32[batch, 3, 4]
           %grown = add %mem, %read : f32[batch, 3, 4]
           yield %grown, %steps, %out
         }",
    ),
    (
        "a binary tree; one node alone passes up",
        "",
        ROW,
        "%y = fold %a {arity: 2, last: merge, plan: row, over: length, axis: node} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %l = position %n {at: first} : f32[batch, 4]
           %r = position %n {at: last} : f32[batch, 4]
           %z = linear %r, %w, %bias : f32[batch, 4]
           %joined = gate %z, %l, %r : f32[batch, 4]
           %two = several %n : bool[batch]
           %v = select %two, %joined, %l : f32[batch, 4]
           yield %v
         }",
    ),
    (
        "a fold whose first chunks are filled at every level",
        "",
        ROW,
        "%y = fold %a {arity: 3, last: strict, plan: row, short: first, single: fold, padding: levels, over: length, axis: node, filled: full} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %f = fill %n, %bias {axis: full} : f32[batch, full, 4]
           %k = attention %f, %f, %f {heads: 2, mask: causal} : f32[batch, full, 4]
           %l = linear %k, %w : f32[batch, full, 4]
           %v = position %l {at: last} : f32[batch, 4]
           yield %v
         }",
    ),
    (
        "a fold whose first chunks are short, and of which a row of one element makes a chunk, too",
        "",
        ROW,
        "%y = fold %a {arity: 3, last: strict, plan: row, short: first, single: fold, over: length, axis: node} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %k = attention %n, %n, %n {heads: 2, mask: causal} : f32[batch, node, 4]
           %l = linear %k, %w : f32[batch, node, 4]
           %v = position %l {at: last} : f32[batch, 4]
           yield %v
         }",
    ),
    (
        "a fold of which the row alone is filled",
        "",
        ROW,
        "%y = fold %a {arity: 2, last: strict, plan: row, short: first, padding: input, over: length, axis: node, filled: full} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %f = fill %n, %bias {axis: full} : f32[batch, full, 4]
           %k = attention %f, %f, %f {heads: 1, mask: causal} : f32[batch, full, 4]
           %v = position %k {at: last} : f32[batch, 4]
           yield %v
         }",
    ),
    (
        "a fold of threes that reads rows, slots and positions from outside, with dropout and a mean over its chunks",
        "",
        ROW,
        "%root, %cost = fold %a {arity: 3, last: strict, plan: row, over: length, axis: node} : f32[batch, 4], f32[batch] (%n: f32[batch, node, 4]) {
           %seen = attention %n, %m, %m {heads: 2} : f32[batch, node, 4]
           %found = attention %seen, %b, %c {heads: 1} : f32[batch, node, 4]
           %d = dropout %found {p: 0.3, stream: 7} : f32[batch, node, 4]
           %g = gate %d, %n, %seen : f32[batch, node, 4]
           %mean = mean %g : f32[batch, 4]
           %v = add_scaled %rb, %mean, %rs : f32[batch, 4]
           %c1 = linear %v, %to_one : f32[batch, 1]
           %q = squeeze %c1 : f32[batch]
           yield %v, %q
         }
         %y = add_scaled %root, %rc, %cost : f32[batch, 4]",
    ),
    (
        "a fold whose mean alone is read, cut by the longest row",
        "",
        "f32[batch]",
        "%root, %y = fold %a {arity: 2, last: merge, plan: batch, over: length, axis: node} : f32[batch, 4], f32[batch] (%n: f32[batch, node, 4]) {
           %z = linear %n, %w, %bias : f32[batch, node, 4]
           %s9 = sum %z : f32[batch, 4]
           %v = gelu %s9 : f32[batch, 4]
           %c1 = linear %v, %to_one : f32[batch, 1]
           %q = squeeze %c1 : f32[batch]
           yield %v, %q
         }",
    ),
    (
        "a search that reads slots from outside, with dropout, noise and a mean over what it joins",
        "",
        ROW,
        "%root, %cost = beam %a {beams: 2, compose: chosen, noise: gumbel, over: length, axis: pair} : f32[batch, 4], f32[batch] (%p: f32[batch, pair, 4], %fresh: f32[batch, pair, 4]) {
           %v, %n = part %p {role: join} : f32[batch, 4], f32[batch] (%two: f32[batch, pair, 4]) {
             %found = attention %two, %m, %m {heads: 1} : f32[batch, pair, 4]
             %l = position %found {at: first} : f32[batch, 4]
             %r = position %two {at: last} : f32[batch, 4]
             %d = dropout %l {p: 0.2, stream: 11} : f32[batch, 4]
             %z = linear %d, %w, %bias : f32[batch, 4]
             %joined = gate %z, %l, %r : f32[batch, 4]
             %o1 = linear %joined, %to_one : f32[batch, 1]
             %o = squeeze %o1 : f32[batch]
             yield %joined, %o
           }
           %e = part %fresh {role: score} : f32[batch] (%of: f32[batch, pair, 4]) {
             %mean = mean %of : f32[batch, 4]
             %g = gelu %mean : f32[batch, 4]
             %e1 = linear %g, %to_one : f32[batch, 1]
             %score = squeeze %e1 : f32[batch]
             yield %score
           }
           yield %v, %n, %e
         }
         %y = mul_unit %root, %cost : f32[batch, 4]",
    ),
    (
        "a chain in the chunks of a fold",
        "",
        ROW,
        "%y = fold %a {arity: 4, last: merge, plan: row, over: length, axis: node} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %first = position %n {at: first} : f32[batch, 4]
           %zero = full %first {value: 0.0, rank: 2} : f32[batch, 4]
           %h = chunks %zero, %n {carried: 1, size: 1, cut: position, over: node, axis: item} : f32[batch, 4] (%state: f32[batch, 4], %x: f32[batch, item, 4]) {
             %one = position %x {at: last} : f32[batch, 4]
             %z = linear %state, %w, %bias : f32[batch, 4]
             %d = dropout %one {p: 0.2, stream: 5} : f32[batch, 4]
             %next = gate %z, %d, %state : f32[batch, 4]
             yield %next
           }
           yield %h
         }",
    ),
    (
        "a halting loop in a fold in a fold in a loop that halts",
        "used",
        ROW,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t9, %used, %a9 = recur %rb, %ones, %none, %a {bound: 6} : f32[batch, 4], f32[batch], f32[batch], f32[batch, length, 4] (%h: f32[batch, 4], %t: f32[batch], %n: f32[batch], %x: f32[batch, length, 4], %step: u32[]) {
           %root, %deep = fold %x {arity: 3, last: merge, plan: row, over: length, axis: node} : f32[batch, 4], f32[batch] (%k: f32[batch, node, 4]) {
             %io = full %k {value: 1.0, rank: 1} : f32[batch]
             %g9, %u9 = recur %k, %io {bound: 3} : f32[batch, node, 4], f32[batch] (%g: f32[batch, node, 4], %u: f32[batch], %inner: u32[]) {
               %z = linear %g, %w, %bias : f32[batch, node, 4]
               %e = gate %z, %g, %k : f32[batch, node, 4]
               %pool = mean %e : f32[batch, 4]
               %q1 = linear %pool, %to_one : f32[batch, 1]
               %q = squeeze %q1 : f32[batch]
               %p = sigmoid %q : f32[batch]
               %alpha = mul %u, %p : f32[batch]
               %u1 = sub %u, %alpha : f32[batch]
               %go = halt_test %u1, %inner {threshold: 0.7, cap: node} : bool[batch]
               yield %e, %u1, %go
             }
             %tree = fold %g9 {arity: 2, last: merge, plan: row, over: node, axis: leaf} : f32[batch, 4] (%f: f32[batch, leaf, 4]) {
               %v0 = sum %f : f32[batch, 4]
               %v1 = gelu %v0 : f32[batch, 4]
               %v2 = add_scaled %v1, %h, %rs : f32[batch, 4]
               yield %v2
             }
             yield %tree, %u9
           }
           %l1 = linear %root, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %sum = add %l, %deep : f32[batch]
           %p2 = sigmoid %sum : f32[batch]
           %alpha2 = mul %t, %p2 : f32[batch]
           %t1 = sub %t, %alpha2 : f32[batch]
           %n1 = offset %n {by: 1.0} : f32[batch]
           %next = gate %root, %h, %rc : f32[batch, 4]
           %x1 = spread %next, %x : f32[batch, length, 4]
           %x2 = add %x, %x1 : f32[batch, length, 4]
           %go2 = halt_test %t1, %step {threshold: 0.6} : bool[batch]
           yield %next, %t1, %n1, %x2, %go2
         }",
    ),
    (
        "a loop in a loop, the inner one with fewer rows at every step",
        "used",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t9, %used = recur %a, %ones, %none {bound: 4} : f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %h5, %r5 = recur %h, %rb {bound: 2} : f32[batch, length, 4], f32[batch, 4] (%g: f32[batch, length, 4], %r: f32[batch, 4], %inner: u32[]) {
             %z = linear %g, %w : f32[batch, length, 4]
             %e = gate %z, %b, %g : f32[batch, length, 4]
             %pool = mean %e : f32[batch, 4]
             %rn = gate %pool, %r, %ra : f32[batch, 4]
             yield %e, %rn
           }
           %l1 = linear %r5, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %sum = add %l, %rs : f32[batch]
           %p = sigmoid %sum : f32[batch]
           %alpha = mul %t, %p : f32[batch]
           %t1 = sub %t, %alpha : f32[batch]
           %n1 = offset %n {by: 1.0} : f32[batch]
           %scaled = mul_unit %h5, %t1 : f32[batch, length, 4]
           %next = add %scaled, %h : f32[batch, length, 4]
           %go = halt_test %t1, %step {threshold: 0.8} : bool[batch]
           yield %next, %t1, %n1, %go
         }",
    ),
];

fn source(name: &str, ty: &str, body: &str, steady: &str) -> String {
    let also = if steady.is_empty() { String::new() } else { format!(", %{steady}") };
    let names = if steady.is_empty() { "loss".to_owned() } else { format!("loss, {steady}") };
    format!(
        "graph \"{name}\" {{{PRELUDE}\n{body}\n%shifted = offset %y {{by: 0.3}} : {ty}\n\
         %product = mul %shifted, %y : {ty}\n%loss = average %product : f32[]\nreturn %loss{also} {{names: \"{names}\"}}\n}}\n"
    )
}

/// `select` and `keep` need conditions, which only a test of halting gives: it reads a step, so it lives in a loop.
fn with_conditions(body: &str) -> String {
    let (name, probability, axes, rank) =
        if body.contains("%rwhen") { ("%rwhen", "%rpsig", "batch", 1) } else { ("%when", "%psig", "batch, length", 2) };
    format!(
        "%start = true %a {{rank: {rank}}} : bool[{axes}]
         {name} = recur %start {{bound: 1}} : bool[{axes}] (%old: bool[{axes}], %step: u32[]) {{
           %test = halt_test {probability}, %step {{threshold: 0.5}} : bool[{axes}]
           %new = and %old, %test : bool[{axes}]
           yield %new
         }}
         {body}"
    )
}

fn batches() -> (Batch, Batch) {
    let rows = batch(&[4, 1, 6, 3], 7, 2, 5);
    let each = labelled_tokens(rows.clone(), 2, 5);
    (rows, each)
}

pub(super) fn all() -> Vec<(&'static str, Graph, Batch, &'static str)> {
    let (rows, each) = batches();
    let mut out = vec![];
    for (name, ty, body) in OPS {
        let body =
            if body.contains("when, ") || body.contains("when {") { with_conditions(body) } else { (*body).to_owned() };
        out.push((*name, graph(&source(name, ty, &body, "")), rows.clone(), ""));
    }
    for (name, ty, body) in EACH {
        out.push((*name, graph(&source(name, ty, body, "")), each.clone(), ""));
    }
    for (name, steady, ty, body) in LOOPS {
        out.push((*name, graph(&source(name, ty, body, steady)), rows.clone(), *steady));
    }
    out
}

#[test]
fn every_differentiable_op_has_a_case() {
    let none = gradient::none as gradient::GradientRule;
    let graphs = all();
    let nodes = graphs.iter().flat_map(|(_, g, ..)| g.walk(MAIN).into_iter().map(|n| g.node(n).op));
    let seen: BTreeSet<Op> = nodes.collect();
    let wanted = |op: &Op| !std::ptr::fn_addr_eq(op.def().gradient, none) || loops::is_forward(*op);
    let missing: Vec<&Op> = Op::ALL.iter().filter(|op| wanted(op) && !seen.contains(op)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    assert!(Op::ALL.iter().filter(|op| wanted(op)).count() > 30, "the rules are told apart");
}

#[test]
fn gradients_agree_with_differences() {
    for (name, graph, batch, steady) in all() {
        let weights = weights(&graph, 1, 0.7);
        let backward = differentiated(&graph);
        let steady: Vec<&str> = [steady].into_iter().filter(|s| !s.is_empty()).collect();
        check_gradients(name, (&graph, &backward), &weights, &batch, None, &steady, 1e-7);
    }
}

#[test]
fn halting_cases_halt_at_different_steps() {
    for (name, graph, batch, steady) in all().into_iter().filter(|c| !c.3.is_empty()) {
        let out = run::<f64>(&graph, &weights(&graph, 1, 0.7), &batch, Halting::Compact);
        let used = &out.outputs[steady];
        assert!(used.iter().any(|u| *u != used[0]), "{name}: all units take {used:?} steps");
    }
}
