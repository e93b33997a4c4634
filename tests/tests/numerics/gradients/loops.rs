//! Loops over steps and chunks.

use super::{Loop, ROW, SEQUENCE, SLOTS};

/// What keeps the sequence.
pub(super) const LOOPS: &[Loop] = &[
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
        "weights of its own for every step",
        "",
        SEQUENCE,
        "%shifts = param {name: \"shifts\", init: zeros} : f32[4, 4]
         %maps = param {name: \"maps\", init: zeros} : f32[3, 4, 4]
         %y = recur %a {bound: 3} : f32[batch, length, 4] (%h: f32[batch, length, 4], %step: u32[]) {
           %map = embed %step, %maps : f32[4, 4]
           %shift = embed %step, %shifts : f32[4]
           %z = linear %h, %map, %shift : f32[batch, length, 4]
           %g = gelu %z : f32[batch, length, 4]
           yield %g
         }",
    ),
    (
        "weights of every step made of others, in rows of different depth",
        "",
        SEQUENCE,
        "%each = softmax %slots : f32[3, 4]
         %y = recur %a {bound: min(length, 3)} : f32[batch, length, 4] (%h: f32[batch, length, 4], %outer: u32[]) {
           %n = recur %h {bound: 2} : f32[batch, length, 4] (%g: f32[batch, length, 4], %inner: u32[]) {
             %own = embed %outer, %each : f32[4]
             %z = affine %g, %own : f32[batch, length, 4]
             %next = gelu %z : f32[batch, length, 4]
             yield %next
           }
           yield %n
         }",
    ),
    (
        "numbers drawn at every step, in rows of different depth",
        "",
        SEQUENCE,
        "%y = recur %a {bound: min(length, 3)} : f32[batch, length, 4] (%h: f32[batch, length, 4], %step: u32[]) {
           %n = normal %h {std: 0.5, cut: 2.0, stream: 1} : f32[batch, length, 4]
           %z = map %h, %n, %b {f: add(mul(a, b), c)} : f32[batch, length, 4]
           %g = gelu %z : f32[batch, length, 4]
           yield %g
         }",
    ),
    (
        "two loops that share a drawn number of steps",
        "",
        SEQUENCE,
        "%f = recur %a {bound: max(sub(min(poisson(2.5, 7, row, 2), 5), 2), 0)} : f32[batch, length, 4] (%h: f32[batch, length, 4], %step: u32[]) {
           %z = linear %h, %w, %bias : f32[batch, length, 4]
           %g = gelu %z : f32[batch, length, 4]
           yield %g
         }
         %y = recur %f {bound: min(min(poisson(2.5, 7, row, 2), 5), 2)} : f32[batch, length, 4] (%e: f32[batch, length, 4], %late: u32[]) {
           %x = mul %e, %b : f32[batch, length, 4]
           yield %x
         }",
    ),
    (
        "the last step takes what is left",
        "",
        ROW,
        "%left = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %ra {value: 0.0, rank: 2} : f32[batch, 4]
         %h0, %y, %l0 = recur %a, %none, %left {bound: min(length, 3)} : f32[batch, length, 4], f32[batch, 4], f32[batch] (%h: f32[batch, length, 4], %sum: f32[batch, 4], %l: f32[batch], %step: u32[]) {
           %z = linear %h, %w, %bias : f32[batch, length, 4]
           %next = gelu %z : f32[batch, length, 4]
           %number = step_number %step, %h : f32[batch]
           %depth = depth_of %h {bound: min(length, 3)} : f32[batch]
           %goes = map %number, %depth {f: less(add(a, 1.0), b)} : f32[batch]
           %pool = mean %next : f32[batch, 4]
           %p1 = linear %pool, %to_one : f32[batch, 1]
           %p2 = squeeze %p1 : f32[batch]
           %p = map %goes, %l, %p2 {f: choose(a, mul(b, sigmoid(c)), b)} : f32[batch]
           %rest = sub %l, %p : f32[batch]
           %more = add_scaled %sum, %pool, %p : f32[batch, 4]
           yield %next, %more, %rest
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
           %rn = map %r, %p, %rb {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
           yield %n, %rn
         }",
    ),
    (
        "slot by slot, one more step than slots",
        "",
        SLOTS,
        "%y, %h0 = recur %m, %ra {bound: 4} : f32[batch, 3, 4], f32[batch, 4] (%all: f32[batch, 3, 4], %h: f32[batch, 4], %slot: u32[]) {
           %one = slot_get %r2, %slot : f32[batch, 4]
           %old = slot_get %all, %slot : f32[batch, 4]
           %both = mul %one, %h : f32[batch, 4]
           %next = add %both, %old : f32[batch, 4]
           %put = slot_set %all, %next, %slot : f32[batch, 3, 4]
           yield %put, %next
         }",
    ),
    (
        "attention to all steps so far",
        "",
        SEQUENCE,
        "%none = full %a {value: 0.0, rank: 3, count: 3} : f32[batch, length, 3, 4]
         %y, %k0, %v0 = recur %a, %none, %none {bound: 3} : f32[batch, length, 4], f32[batch, length, 3, 4], f32[batch, length, 3, 4] (%h: f32[batch, length, 4], %ks: f32[batch, length, 3, 4], %vs: f32[batch, length, 3, 4], %step: u32[]) {
           %k = linear %h, %w, %bias : f32[batch, length, 4]
           %kn = slot_set %ks, %k, %step : f32[batch, length, 3, 4]
           %vn = slot_set %vs, %h, %step : f32[batch, length, 3, 4]
           %z = attention %h, %kn, %vn, %step {heads: 2, mask: causal} : f32[batch, length, 4]
           %n = add %z, %h : f32[batch, length, 4]
           yield %n, %kn, %vn
         }",
    ),
    (
        "attention to all steps so far with shared keys that are values, too, a mask over steps, dropout, and more steps than slots",
        "",
        SEQUENCE,
        "%wide8 = param {name: \"wide8\", init: zeros} : f32[8, 4]
         %back8 = param {name: \"back8\", init: zeros} : f32[4, 8]
         %none = full %a {value: 0.0, rank: 3, count: 2} : f32[batch, length, 2, 4]
         %y, %k0 = recur %a, %none {bound: log(length, 2)} : f32[batch, length, 4], f32[batch, length, 2, 4] (%h: f32[batch, length, 4], %ks: f32[batch, length, 2, 4], %step: u32[]) {
           %kn = slot_set %ks, %h, %step : f32[batch, length, 2, 4]
           %q = linear %h, %wide8 : f32[batch, length, 8]
           %z = attention %q, %kn, %kn, %step {heads: 4, key_heads: 2, score: mul(0.8, tanh(div(score, 0.8))), mask: and(le(j, add(i, step)), ge(j, sub(i, add(head, 1)))), dropout: 0.3, stream: 5} : f32[batch, length, 8]
           %b8 = linear %z, %back8 : f32[batch, length, 4]
           %n = add %b8, %h : f32[batch, length, 4]
           yield %n, %kn
         }",
    ),
    (
        "talking heads that attend to a window of all steps so far, and rows that halt",
        "steps",
        SEQUENCE,
        "%l = param {name: \"l\", init: zeros} : f32[2, 2]
         %p = param {name: \"p\", init: zeros} : f32[2, 2]
         %ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %zeros = full %a {value: 0.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 3, count: 5} : f32[batch, length, 5, 4]
         %y, %k0, %t0, %steps = recur %a, %none, %ones, %zeros {bound: 5} : f32[batch, length, 4], f32[batch, length, 5, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %ks: f32[batch, length, 5, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %kn = slot_set %ks, %h, %step : f32[batch, length, 5, 4]
           %z = attention %h, %kn, %kn, %step, %l, %p {heads: 2, mask: and(le(j, i), lt(sub(i, j), 2)), talking: true} : f32[batch, length, 4]
           %next = add %z, %h : f32[batch, length, 4]
           %left = map %t, %rs {f: mul(a, sigmoid(b))} : f32[batch]
           %more = map %n {f: add(a, 1.0)} : f32[batch]
           %go = halt_test %t, %step {threshold: 0.8} : bool[batch]
           yield %next, %kn, %left, %more, %go
         }",
    ),
    (
        "rows that leave when little of them exists",
        "",
        SEQUENCE,
        "%all = full %a {value: 1.0, rank: 2} : f32[batch, length]
         %y, %e0 = recur %a, %all {bound: sub(length, 1)} : f32[batch, length, 4], f32[batch, length] (%h: f32[batch, length, 4], %e: f32[batch, length], %step: u32[]) {
           %there = map %e {f: less(0.1, a)} : f32[batch, length]
           %count = sum %there : f32[batch]
           %more = map %count {f: less(3.0, a)} : f32[batch]
           %go = halt_test %more, %step {threshold: 0.5} : bool[batch]
           %l = neighbours %h, %e {side: left} : f32[batch, length, 4]
           %one = linear %l, %to_one : f32[batch, length, 1]
           %score = squeeze %one : f32[batch, length]
           %gone = sigmoid %score : f32[batch, length]
           %n = add_scaled %h, %l, %gone : f32[batch, length, 4]
           %lost = mul %e, %gone : f32[batch, length]
           %left = sub %e, %lost : f32[batch, length]
           yield %n, %left, %go
         }",
    ),
    (
        "halting row by row",
        "steps",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %blend = full %a {value: 0.0, rank: 3} : f32[batch, length, 4]
         %h0, %q0, %t0, %steps = recur %a, %blend, %ones, %none {bound: 7} : f32[batch, length, 4], f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %q: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
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
           %n1 = map %n {f: add(a, 1.0)} : f32[batch]
           %go = halt_test %t1, %step {threshold: 0.9, cap: length} : bool[batch]
           yield %next, %q1, %t1, %n1, %go
         }
         %y = add_scaled %q0, %h0, %t0 : f32[batch, length, 4]",
    ),
    (
        "halting position by position",
        "steps",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 2} : f32[batch, length]
         %none = full %a {value: 0.0, rank: 2} : f32[batch, length]
         %all = true %a {rank: 2} : bool[batch, length]
         %h0, %t0, %steps, %l0 = recur %a, %ones, %none, %all {bound: 6} : f32[batch, length, 4], f32[batch, length], f32[batch, length], bool[batch, length] (%h: f32[batch, length, 4], %t: f32[batch, length], %n: f32[batch, length], %live: bool[batch, length], %step: u32[]) {
           %att = attention %h, %h, %b {heads: 2, mask: causal} : f32[batch, length, 4]
           %next = map %h, %att, %c {f: lerp(sigmoid(a), b, c)} : f32[batch, length, 4]
           %l1 = linear %next, %to_one : f32[batch, length, 1]
           %l = squeeze %l1 : f32[batch, length]
           %p = sigmoid %l : f32[batch, length]
           %alpha = mul %t, %p : f32[batch, length]
           %t1 = sub %t, %alpha : f32[batch, length]
           %n1 = map %n {f: add(a, 1.0)} : f32[batch, length]
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
        "steps",
        SEQUENCE,
        "%delta = param {name: \"delta\", init: zeros} : f32[4, 2]
         %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
         %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
         %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
         %ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t0, %steps = recur %a, %ones, %none {bound: 6} : f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %seen = scan %h, %delta, %alpha, %beta, %gamma {kernel: ema, side: left, lag: 0} : f32[batch, length, 4]
           %d = dropout %seen {p: 0.3, stream: 2, tied: true} : f32[batch, length, 4]
           %att = attention %h, %d, %h {heads: 1} : f32[batch, length, 4]
           %next = affine %att, %gain, %bias : f32[batch, length, 4]
           %pool = mean %next : f32[batch, 4]
           %l1 = linear %pool, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %both = add %l, %rs : f32[batch]
           %p = sigmoid %both : f32[batch]
           %alpha_t = mul %t, %p : f32[batch]
           %t1 = sub %t, %alpha_t : f32[batch]
           %n1 = map %n {f: add(a, 1.0)} : f32[batch]
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
           %out = map %z, %seen, %x {f: lerp(sigmoid(a), b, c)} : f32[batch, chunk, 4]
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
        "steps",
        SEQUENCE,
        "%none = full %a {value: 0.0, rank: 1} : f32[batch]
         %m1, %steps, %y = chunks %m, %none, %a {carried: 2, size: 3, cut: position, over: length, axis: chunk} : f32[batch, 3, 4], f32[batch], f32[batch, length, 4] (%mem: f32[batch, 3, 4], %sum: f32[batch], %x: f32[batch, chunk, 4]) {
           %ones = full %x {value: 1.0, rank: 1} : f32[batch]
           %h0, %t0, %accepted = recur %x, %ones, %sum {bound: 5} : f32[batch, chunk, 4], f32[batch], f32[batch] (%h: f32[batch, chunk, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
             %seen = attention %h, %mem, %mem {heads: 2} : f32[batch, chunk, 4]
             %z = linear %seen, %w, %bias : f32[batch, chunk, 4]
             %d = dropout %z {p: 0.2, stream: 9} : f32[batch, chunk, 4]
             %next = map %d, %h, %x {f: lerp(sigmoid(a), b, c)} : f32[batch, chunk, 4]
             %pool = mean %next : f32[batch, 4]
             %l1 = linear %pool, %to_one : f32[batch, 1]
             %l = squeeze %l1 : f32[batch]
             %p = sigmoid %l : f32[batch]
             %alpha = mul %t, %p : f32[batch]
             %t1 = sub %t, %alpha : f32[batch]
             %n1 = map %n {f: add(a, 1.0)} : f32[batch]
             %go = halt_test %t1, %step {threshold: 0.8, cap: chunk} : bool[batch]
             yield %next, %t1, %n1, %go
           }
           %out = mul_unit %h0, %t0 : f32[batch, chunk, 4]
           %read = attention %mem, %out, %h0 {heads: 1} : f32[batch, 3, 4]
           %grown = add %mem, %read : f32[batch, 3, 4]
           yield %grown, %accepted, %out
         }",
    ),
    (
        "a loop in a loop, the inner one with fewer rows at every step",
        "steps",
        SEQUENCE,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t9, %steps = recur %a, %ones, %none {bound: 4} : f32[batch, length, 4], f32[batch], f32[batch] (%h: f32[batch, length, 4], %t: f32[batch], %n: f32[batch], %step: u32[]) {
           %h5, %r5 = recur %h, %rb {bound: 2} : f32[batch, length, 4], f32[batch, 4] (%g: f32[batch, length, 4], %r: f32[batch, 4], %inner: u32[]) {
             %z = linear %g, %w : f32[batch, length, 4]
             %e = map %z, %b, %g {f: lerp(sigmoid(a), b, c)} : f32[batch, length, 4]
             %pool = mean %e : f32[batch, 4]
             %rn = map %pool, %r, %ra {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
             yield %e, %rn
           }
           %l1 = linear %r5, %to_one : f32[batch, 1]
           %l = squeeze %l1 : f32[batch]
           %sum = add %l, %rs : f32[batch]
           %p = sigmoid %sum : f32[batch]
           %alpha = mul %t, %p : f32[batch]
           %t1 = sub %t, %alpha : f32[batch]
           %n1 = map %n {f: add(a, 1.0)} : f32[batch]
           %scaled = mul_unit %h5, %t1 : f32[batch, length, 4]
           %next = add %scaled, %h : f32[batch, length, 4]
           %go = halt_test %t1, %step {threshold: 0.8} : bool[batch]
           yield %next, %t1, %n1, %go
         }",
    ),
];
