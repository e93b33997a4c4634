//! Folds, searches, and loops around and inside of them.

use super::{Loop, ROW};

/// What makes one vector of a row.
pub(super) const FOLDS: &[Loop] = &[
    (
        "a binary tree; one node alone passes up",
        "",
        ROW,
        "%y = fold %a {arity: 2, last: merge, plan: row, over: length, axis: node} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %l = position %n {at: first} : f32[batch, 4]
           %r = position %n {at: last} : f32[batch, 4]
           %z = linear %r, %w, %bias : f32[batch, 4]
           %joined = map %z, %l, %r {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
           %two = longer_than_one %n : bool[batch]
           %v = select %two, %joined, %l : f32[batch, 4]
           yield %v
         }",
    ),
    (
        "a fold whose first chunks are filled at every level",
        "",
        ROW,
        "%y = fold %a {arity: 3, last: strict, plan: row, short: first, single: fold, padding: levels, over: length, axis: node, filled: full} : f32[batch, 4] (%n: f32[batch, node, 4]) {
           %f = pad_ragged %n, %bias {axis: full} : f32[batch, full, 4]
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
           %f = pad_ragged %n, %bias {axis: full} : f32[batch, full, 4]
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
           %g = map %d, %n, %seen {f: lerp(sigmoid(a), b, c)} : f32[batch, node, 4]
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
             %joined = map %z, %l, %r {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
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
             %next = map %z, %d, %state {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
             yield %next
           }
           yield %h
         }",
    ),
    (
        "a halting loop in a fold in a fold in a loop that halts",
        "steps",
        ROW,
        "%ones = full %a {value: 1.0, rank: 1} : f32[batch]
         %none = full %a {value: 0.0, rank: 1} : f32[batch]
         %y, %t9, %steps, %a9 = recur %rb, %ones, %none, %a {bound: 6} : f32[batch, 4], f32[batch], f32[batch], f32[batch, length, 4] (%h: f32[batch, 4], %t: f32[batch], %n: f32[batch], %x: f32[batch, length, 4], %step: u32[]) {
           %root, %deep = fold %x {arity: 3, last: merge, plan: row, over: length, axis: node} : f32[batch, 4], f32[batch] (%k: f32[batch, node, 4]) {
             %io = full %k {value: 1.0, rank: 1} : f32[batch]
             %g9, %u9 = recur %k, %io {bound: 3} : f32[batch, node, 4], f32[batch] (%g: f32[batch, node, 4], %u: f32[batch], %inner: u32[]) {
               %z = linear %g, %w, %bias : f32[batch, node, 4]
               %e = map %z, %g, %k {f: lerp(sigmoid(a), b, c)} : f32[batch, node, 4]
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
           %n1 = map %n {f: add(a, 1.0)} : f32[batch]
           %next = map %root, %h, %rc {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]
           %x1 = broadcast_rows %next, %x : f32[batch, length, 4]
           %x2 = add %x, %x1 : f32[batch, length, 4]
           %go2 = halt_test %t1, %step {threshold: 0.6} : bool[batch]
           yield %next, %t1, %n1, %x2, %go2
         }",
    ),
];
