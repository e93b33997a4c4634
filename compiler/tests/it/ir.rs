//! The verifier: graphs that are broken in one way each, and what it says about them.

use rtc_compiler::ir::graph::{Graph, MAIN, NodeId, RegionId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::pointwise::{Pointwise, Scalar};
use rtc_compiler::ir::schedule::RowDepth;
use rtc_compiler::ir::{text, verify};

/// Nodes of a graph over `%x: f32[batch, 8]`, `%s: f32[batch, length, 8]` and `%w: f32[8, 8]`, without its `return`, and what
/// the verifier says.
const BROKEN: &[(&str, &str)] = &[
    ("yield %x", "this region ends with `return`"),
    ("return %x {names: \"x\"}", "a terminator stands before the end of its region"),
    ("%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { }", "the body does not end with `yield`"),
    (
        "%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { %n = input {name: \"n\"} : f32[batch, 8] yield %n }",
        "inputs and parameters lie in the outermost region",
    ),
    ("save %x", "`save` lies in the body of a forward loop"),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save %a save %a yield %a }",
        "the body has more than one `save`",
    ),
    (
        "%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8]) { yield %a }",
        "region parameters are f32[batch, 8], expected f32[batch, 8], u32[]",
    ),
    (
        "%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { %b = unsqueeze %a : f32[batch, 8, 1] yield %b }",
        "yielded values are f32[batch, 8, 1], expected f32[batch, 8]",
    ),
    (
        "%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { yield %a, %a }",
        "yielded values are f32[batch, 8], f32[batch, 8], expected f32[batch, 8], bool[batch]",
    ),
    (
        "%h = recur %x {bound: 1} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { save %a yield %a }",
        "results are f32[batch, 8], expected f32[batch, 8], tape",
    ),
    (
        "%h = recur %x {bound: log(length, 2)} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { yield %a }",
        "its bound reads the length, and no carried value is a sequence",
    ),
    (
        "%h = recur %x {bound: add(poisson(3.0, 1, row, 3), 1)} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { yield %a }",
        "a number of steps that is drawn needs a largest value, as in `min(.., 64)`",
    ),
    (
        "%d = depth_of %x {bound: geometric(0.5, 1, row, 3)} : f32[batch]",
        "a number of steps that is drawn needs a largest value, as in `min(.., 64)`",
    ),
    (
        "%h = attention %s, %s, %s {heads: 2, mask: lt(sub(i, j), uniform(1, 3, 1, row, 2))} : f32[batch, length, 8]",
        "a mask, a score or a number of choices holds a draw",
    ),
    (
        "%h = recur %x {bound: 9} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { %b = embed %i, %w : f32[8] %n = affine %a, %b : f32[batch, 8] yield %n }",
        "the recurrence takes up to 9 steps, the weight has places for 8",
    ),
    (
        "%h = recur %s {bound: sub(length, 1)} : f32[batch, length, 8] (%a: f32[batch, length, 8], %i: u32[]) { %b = embed %i, %w : f32[8] %n = affine %a, %b : f32[batch, length, 8] yield %n }",
        "the recurrence takes any number of steps, the weight has places for 8",
    ),
    (
        "%h = recur %x {bound: 2} : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { %j = recur %i {bound: 1} : u32[] (%k: u32[], %o: u32[]) { yield %k } %b = embed %j, %w : f32[8] %n = affine %a, %b : f32[batch, 8] yield %n }",
        "its counter is not the step of a `recur`",
    ),
    ("%h = recur %x : f32[batch, 8] (%a: f32[batch, 8], %i: u32[]) { yield %a }", "attribute `bound` is missing"),
    (
        "%h = chunks %x {carried: 0, over: length, axis: chunk} : f32[batch, 8] (%a: f32[batch, 8]) { yield }",
        "sequences have the axes [batch, length, ..], these are f32[batch, 8]",
    ),
    (
        "%h = chunks %x, %s {carried: 3, over: length, axis: chunk} : f32[batch, 8] (%a: f32[batch, 8]) { yield %a }",
        "3 carried values of 2 operands",
    ),
    (
        "%h, %o = chunks %x, %s {carried: 1, over: length, axis: chunk} : f32[batch, 8], f32[batch, length, 8] (%a: f32[batch, 8], %c: f32[batch, chunk, 8]) { yield %a, %a }",
        "outputs have the axes [batch, chunk, ..], these are f32[batch, 8]",
    ),
    (
        "%h = chunks %x, %s {carried: 1, over: length, axis: chunk} : f32[batch, 8] (%a: f32[batch, 8], %c: f32[batch, length, 8]) { yield %a }",
        "region parameters are f32[batch, 8], f32[batch, length, 8], expected f32[batch, 8], f32[batch, chunk, 8]",
    ),
    (
        "%d = unwind %x, %x {carried: 1, outputs: 0, slices: 0} : f32[batch, 8] (%a: f32[batch, 8]) { yield %a }",
        "the first operand is not the tape of a forward loop",
    ),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save %a, %i yield %a }
         %d = unwind %t, %h {carried: 1, outputs: 0, slices: 0} : f32[batch, 8] (%b: f32[batch, 8], %c: f32[batch, 8]) { yield %b }",
        "region parameters are f32[batch, 8], f32[batch, 8], expected f32[batch, 8], f32[batch, 8], u32[]",
    ),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save yield %a }
         %d = unwind %t, %h {carried: 1, outputs: 0, slices: 2} : f32[batch, 8] (%b: f32[batch, 8]) { yield %b }",
        "2 slices, 1 yielded values",
    ),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save yield %a }
         %d = unwind %t, %h {carried: 2, outputs: 0, slices: 0} : f32[batch, 8] (%b: f32[batch, 8]) { yield %b }",
        "2 carried, 0 outputs, 2 operands",
    ),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save yield %a }
         %d = unwind %t, %h {carried: 1, outputs: 0, slices: 0} : f32[batch, 8] (%b: f32[batch, 8]) { yield %b }
         %e = unwind %t, %h {carried: 1, outputs: 0, slices: 0} : f32[batch, 8] (%f: f32[batch, 8]) { yield %f }",
        "the tape %t is read twice",
    ),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save yield %a }
         %d = unwind %t, %t {carried: 1, outputs: 0, slices: 0} : f32[batch, 8] (%b: f32[batch, 8]) { yield %b }",
        "a tape goes to `save` or is the first operand of `unwind`",
    ),
    (
        "%v = broadcast_rows %x, %s : f32[batch, length, 8]
         %p = param {name: \"p\", init: zeros} : f32[length, 8]",
        "f32[length, 8]: rows are the first axis, and positions the second, behind that of the rows",
    ),
    (
        "%b = param {name: \"b\", init: zeros} : f32[8]
         %v = fold %s {arity: 2, over: length, axis: node, filled: full} : f32[batch, 8] (%n: f32[batch, node, 8]) { %f = pad_ragged %s, %b {axis: full} : f32[batch, full, 8] %m = mean %f : f32[batch, 8] yield %m }",
        "only the chunks of a fold around are filled, to its axis `filled`",
    ),
    (
        "%r = beam %s {beams: 2, over: length, axis: pair} : f32[batch, 8] (%p: f32[batch, pair, 8], %q: f32[batch, pair, 8]) {
           %j = part %p {role: join} : f32[batch, 8] (%two: f32[batch, pair, 8]) { %m = mean %two : f32[batch, 8] yield %m }
           %e = part %q {role: score} : f32[batch] (%of: f32[batch, pair, 8]) { %d = dot_unit %j, %j {rank: 1} : f32[batch] yield %d }
           yield %j, %e
         }",
        "a part reads its own rows and what stands around the search, not what the other part made",
    ),
    (
        "%o = dot_unit %x, %x {rank: 1} : f32[batch]
         %r = beam %s {beams: 2, over: length, axis: pair} : f32[batch, 8] (%p: f32[batch, pair, 8], %q: f32[batch, pair, 8]) {
           %j = part %p {role: join} : f32[batch, 8] (%two: f32[batch, pair, 8]) { %m = mean %two : f32[batch, 8] yield %m }
           %e = part %q {role: score} : f32[batch] (%of: f32[batch, pair, 8]) { %n = mean %of : f32[batch, 8] %d = dot_unit %n, %n {rank: 1} : f32[batch] yield %d }
           yield %j, %o
         }",
        "the body of a search yields what its part joins, and then what its part scores",
    ),
    (
        "%r = fold %x {arity: 2, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] yield %v }",
        "a fold takes f32[batch, length, ..], not f32[batch, 8]",
    ),
    (
        "%r = fold %s, %s {arity: 2, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] yield %v }",
        "a fold has one operand",
    ),
    (
        "%r = fold %s {arity: 1, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] yield %v }",
        "attribute `arity` is not a count above 1",
    ),
    (
        "%r = fold %s {arity: 2, last: most, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] yield %v }",
        "attribute `last` is not `merge` or `strict`",
    ),
    (
        "%r = fold %s {arity: 2, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, length, 8]) { %v = mean %n : f32[batch, 8] yield %v }",
        "region parameters are f32[batch, length, 8], expected f32[batch, node, 8]",
    ),
    (
        "%r = fold %s {arity: 2, over: length, axis: node} : f32[batch, node, 8] (%n: f32[batch, node, 8]) { yield %n }",
        "yielded values are f32[batch, node, 8], expected f32[batch, 8]",
    ),
    (
        "%r = fold %s {arity: 2, over: length, axis: node} : f32[batch, 8] (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] yield %v, %v }",
        "yielded values are f32[batch, 8], f32[batch, 8], expected f32[batch, 8], f32[batch]",
    ),
    (
        "%r, %t = fold %s {arity: 2, over: length, axis: node} : f32[batch, 8], tape (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] save %n yield %v }
         %d = unwind %t, %r {carried: 1, outputs: 0, slices: 0} : f32[batch, length, 8] (%dv: f32[batch, 8], %k: f32[batch, node, 8]) { %g = broadcast_rows %dv, %k {shared: true} : f32[batch, node, 8] yield %g }",
        "an `unwind` has the `arity`, `beams` or `role` of its forward loop",
    ),
    (
        "%r, %t = fold %s {arity: 2, over: length, axis: node} : f32[batch, 8], tape (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] save %n yield %v }
         %d = unwind %t, %r {carried: 1, outputs: 0, slices: 0, arity: 2, over: length, axis: node} : f32[batch, 8] (%dv: f32[batch, 8], %k: f32[batch, node, 8]) { yield %dv }",
        "yielded carried values are f32[batch, 8], expected f32[batch, node, 8]",
    ),
    ("%v = param {name: \"w\", init: zeros} : f32[8, 8]", "the param name `w` is taken"),
    ("%v = input {name: \"x\"} : f32[batch, 8]", "the input name `x` is taken"),
    ("accumulate %x {param: \"w\"}", "`accumulate` adds a value of the type of a parameter of this graph"),
    ("accumulate %x {param: \"v\"}", "`accumulate` adds a value of the type of a parameter of this graph"),
    ("%v = input {name: \"v\"} : f32[batch, chunk]", "no axis is called `chunk` here"),
    ("%v = dropout %x {p: 1.5, stream: 1} : f32[batch, 8]", "attribute `p` is not a probability below 1"),
    ("%v = rotate %s {kind: rop, heads: 2} : f32[batch, length, 8]", "attribute `kind` is not `rope`, `xpos_query` or `xpos_key`"),
    ("%v = rotate %s {kind: rope, heads: 0} : f32[batch, length, 8]", "attribute `heads` is not a positive count"),
    ("%v = rotate %s {kind: rope, heads: 2, base: 0} : f32[batch, length, 8]", "attribute `base` is not a positive number"),
    ("%v = rotate %s {kind: rope, heads: 2, layout: whole} : f32[batch, length, 8]", "attribute `layout` is not `pairs` or `half`"),
    ("%v = attention %s, %s, %s {heads: 2, key_heads: 0} : f32[batch, length, 8]", "attribute `key_heads` is not a positive count"),
    ("%v = attention %s, %s, %s {heads: 2, scale: 0.0} : f32[batch, length, 8]", "attribute `scale` is not a positive number"),
    ("%v = attention %s, %s, %s {heads: 2, scale: inf} : f32[batch, length, 8]", "attribute `scale` is not a positive number"),
    ("%v = attention %s, %s, %s {mask: all} : f32[batch, length, 8]", "attribute `heads` is missing"),
    ("%v = position %s {at: middle} : f32[batch, 8]", "attribute `at` is not `first`, `last` or `before_last`"),
    ("%v = full %x {rank: 2} : f32[batch, 8]", "attribute `value` is missing"),
];

/// As `BROKEN`, with types that do not fit: what the reader says.
const UNFIT: &[(&str, &str)] = &[
    ("%v = attention %s, %s, %s {heads: 2, mask: gt(score, 0)} : f32[batch, length, 8]", "has no score where a mask"),
    (
        "%v = attention %s, %s, %s {heads: 2, mask: and(le(j, i), j)} : f32[batch, length, 8]",
        "`attention` cannot work `j` out for a query and a key",
    ),
    (
        "%v = attention %s, %s, %s {heads: 2, score: add(score, given)} : f32[batch, length, 8]",
        "`attention` cannot work `given` out for a query and a key",
    ),
    (
        "%v = rotate %s {kind: rope, heads: 2, part: 3} : f32[batch, length, 8]",
        "3 channels of a head of 4 cannot be turned in pairs",
    ),
    (
        "%v = rotate %s {kind: rope, heads: 2, part: 6} : f32[batch, length, 8]",
        "6 channels of a head of 4 cannot be turned in pairs",
    ),
    (
        "%v = rotate %s {kind: rope, heads: 3} : f32[batch, length, 8]",
        "`rotate` does not take operands of types f32[batch, length, 8]",
    ),
    ("%v = attention %s, %s, %s {heads: 4, key_heads: 3} : f32[batch, length, 8]", "4 heads cannot share 3 key heads"),
    (
        "%v = attention %s, %s, %s {heads: 4, key_heads: 2} : f32[batch, length, 8]",
        "`attention` does not take operands of types",
    ),
    ("%v = average %x, %s : f32[]", "`average` does not take operands of types f32[batch, 8], f32[batch, length, 8]"),
    ("%v = right %x, %x : f32[batch]", "`right` takes indices as `labels`, not f32[batch, 8]"),
    ("%v = cross_entropy_each %x, %s : f32[batch]", "`cross_entropy_each` takes indices as `labels`, not"),
    (
        "%h, %t = recur %x {bound: 1} : f32[batch, 8], tape (%a: f32[batch, 8], %i: u32[]) { save yield %a }
         %y = detach %t : tape",
        "`detach` takes numbers as `x`, not tape",
    ),
    ("%v = mul_unit %s, %w : f32[batch, length, 8]", "`mul_unit` does not take operands of types"),
    ("%v = broadcast_rows %s, %s : f32[batch, length, length, 8]", "`broadcast_rows` does not take operands of types"),
    ("%v = dropout %w {p: 0.1, stream: 1} : f32[8, 8]", "`dropout` does not take operands of types f32[8, 8]"),
    ("%v = max_grad %w, %s : f32[batch, length, 8]", "`max_grad` does not take operands of types"),
    ("%v = slice %x {start: 1, width: 0} : f32[batch, 0]", "`slice` does not take operands of types f32[batch, 8]"),
    ("%v = normal %w {std: 1.0, stream: 1} : f32[8, 8]", "`normal` does not take operands of types f32[8, 8]"),
    ("%v = depth_of %w {bound: 3} : f32[8]", "`depth_of` does not take operands of types f32[8, 8]"),
    ("%v = embed %x, %w : f32[8]", "`embed` takes indices as `ids`, not f32[batch, 8]"),
    ("%v = attention %s, %s, %s {heads: 3} : f32[batch, length, 8]", "`attention` does not take operands of types"),
    (
        "%k = full %s {value: 0.0, rank: 3, count: 5} : f32[batch, length, 5, 8]
         %v = attention %s, %k, %k {heads: 2} : f32[batch, length, 8]",
        "`attention` does not take operands of types",
    ),
    ("%k = full %x {value: 0.0, rank: 1, count: 5} : f32[batch, 5]", "`full` does not take operands of types"),
    (
        "%v = attention %s, %s, %s {heads: 2, talking: true} : f32[batch, length, 8]",
        "`attention` does not take operands of types",
    ),
    (
        "%v = attention %s, %s, %s, %w, %w {heads: 2, talking: true} : f32[batch, length, 8]",
        "`attention` does not take operands of types",
    ),
    (
        "%v = attention %s, %s, %s, %w, %w {heads: 8} : f32[batch, length, 8]",
        "`attention` does not take operands of types",
    ),
];

fn source(nodes: &str, end: &str) -> String {
    format!(
        "graph \"g\" {{
           %x = input {{name: \"x\"}} : f32[batch, 8]
           %s = input {{name: \"s\"}} : f32[batch, length, 8]
           %w = param {{name: \"w\", init: zeros}} : f32[8, 8]
           {nodes}
           {end}
         }}"
    )
}

fn graph(nodes: &str, end: &str) -> Graph {
    let source = source(nodes, end);
    text::parse(&source).unwrap_or_else(|p| panic!("{source}\n{p:?}"))
}

const RETURN: &str = "return %x {names: \"x\"}";

/// What the verifier says, one violation per line.
fn said(graph: &Graph) -> String {
    let violations = verify::verify(graph).err().unwrap_or_default();
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_sound_graph_passes() {
    assert_eq!(said(&graph("%y = linear %s, %w : f32[batch, length, 8]", RETURN)), "");
    let fold = "%r, %t = fold %s {arity: 2, over: length, axis: node} : f32[batch, 8], tape (%n: f32[batch, node, 8]) { %v = mean %n : f32[batch, 8] save %n yield %v }
         %d = unwind %t, %r {carried: 1, outputs: 0, slices: 0, arity: 2, over: length, axis: node} : f32[batch, length, 8] (%dv: f32[batch, 8], %k: f32[batch, node, 8]) { %g = broadcast_rows %dv, %k {shared: true} : f32[batch, node, 8] yield %g }";
    assert_eq!(said(&graph(fold, RETURN)), "");
}

#[test]
fn every_broken_graph_is_refused() {
    for (nodes, expected) in BROKEN {
        let found = said(&graph(nodes, RETURN));
        assert!(found.contains(expected), "{nodes}\ngives\n{found}\nexpected\n{expected}");
    }
    assert!(said(&graph("", "")).contains("the graph does not end with `return`"));
    assert!(said(&graph("", "return %x {names: \"x, y\"}")).contains("`return` names each of its operands, once"));
    assert!(said(&graph("", "return %x, %x {names: \"x, x\"}")).contains("`return` names each of its operands, once"));
}

#[test]
fn every_graph_with_types_that_do_not_fit_is_refused() {
    for (nodes, expected) in UNFIT {
        let problems = text::parse(&source(nodes, RETURN)).expect_err(nodes);
        assert!(
            problems.iter().any(|p| p.to_string().contains(expected)),
            "{nodes} gives {problems:?}, not {expected}"
        );
    }
}

#[test]
fn all_violations_are_reported_with_the_text_of_the_node() {
    let nodes = "%v = input {name: \"x\"} : f32[batch, chunk]\n%y = full %x {rank: 2} : f32[batch, 8]";
    let found = said(&graph(nodes, RETURN));
    assert_eq!(found.matches("\n  %").count(), 3, "{found}");
    assert!(found.contains("%y = full %x {rank: 2} : f32[batch, 8]"), "{found}");
}

fn find(graph: &Graph, op: Op) -> NodeId {
    graph.walk(MAIN).into_iter().find(|n| graph.node(*n).op == op).unwrap()
}

/// Costs are those of the number that stands for a draw, memory suffices for the largest one.
#[test]
fn a_drawn_depth_is_estimated_by_its_number_and_bounded_by_its_largest() {
    let nodes = "%h = recur %s {bound: min(add(poisson(3.0, 1, row, 4), 1), length)} : f32[batch, length, 8]
                 (%c: f32[batch, length, 8], %i: u32[]) { yield %c }";
    let sound = graph(nodes, RETURN);
    assert_eq!(said(&sound), "");
    let depth = RowDepth::of(&sound, find(&sound, Op::Recur));
    let at = |length: f64| (depth.bound(&|_: &str| length), depth.most(&|_: &str| length, None));
    assert_eq!([at(3.0), at(9.0)], [(3.0, (3.0, 3.0)), (5.0, (9.0, 9.0))]);
}

/// Breaks that no text can describe.
#[test]
fn graphs_broken_by_hand_are_refused() {
    let nodes = "%a = gelu %x : f32[batch, 8]\n%b = relu %a : f32[batch, 8]
                 %h = recur %b {bound: 1} : f32[batch, 8] (%c: f32[batch, 8], %i: u32[]) { %d = gelu %c : f32[batch, 8] yield %d }
                 %e, %f, %g = map %h, %x, %x, %x {f: tuple(mul(a, sub(b, c)), mul(a, d), mul(a, sub(1.0, d)))} : f32[batch, 8], f32[batch, 8], f32[batch, 8]";
    let sound = graph(nodes, RETURN);
    assert_eq!(said(&sound), "");
    let broken = |change: &dyn Fn(&mut Graph)| {
        let mut graph = sound.clone();
        change(&mut graph);
        said(&graph)
    };
    let maps: Vec<NodeId> = sound.walk(MAIN).into_iter().filter(|n| sound.node(*n).op == Op::Map).collect();
    let (gelu, relu, last, end) = (maps[0], maps[1], maps[maps.len() - 1], find(&sound, Op::Return));
    let result = |n: NodeId| sound.node(n).results[0];
    let body: RegionId = sound.node(find(&sound, Op::Recur)).body.unwrap();

    let early = broken(&|g| g.set_operands(gelu, vec![result(relu)]));
    assert!(early.contains("operand 0 (%b) is not defined before, here or in a region around"), "{early}");
    let inner = broken(&|g| g.set_operands(end, vec![sound.params(body)[0]]));
    assert!(inner.contains("operand 0 (%c) is not defined before"), "{inner}");
    let gone = broken(&|g| g.remove(gelu));
    assert!(gone.contains("operand 0 is not a value of the graph"), "{gone}");
    let count = broken(&|g| g.set_operands(relu, vec![]));
    assert!(count.contains("a map has 1 to 8 operands"), "{count}");
    let rows = broken(&|g| g.retain_results(last, |n| n < 2));
    assert!(rows.contains("the row gives f32[batch, 8], f32[batch, 8], f32[batch, 8]"), "{rows}");
    let attrs = broken(&|g| g.set_attr(gelu, rtc_compiler::ir::attribute::RANK, 1));
    assert!(attrs.contains("`map` has no attribute `rank`"), "{attrs}");
}

/// What is simpler has the same bits: a share of 0 of an infinite number is no number, and two shares of one number round.
#[test]
fn shares_of_what_is_not_known_are_no_simpler() {
    let share = |args: [Scalar; 3]| Scalar::call(Pointwise::Lerp, args.to_vec());
    let (number, x, y) = (Scalar::Number, || Scalar::Operand(0), || Scalar::Operand(1));
    for args in [
        [number(0.0), x(), y()],
        [number(1.0), x(), y()],
        [y(), x(), x()],
        [number(0.0), number(f64::INFINITY), number(2.0)],
    ] {
        assert_eq!(share(args.clone()), Scalar::Call(Pointwise::Lerp, args.to_vec()));
    }
    assert_eq!(share([number(-100.0), number(100.0), number(f64::NEG_INFINITY)]), number(f64::NEG_INFINITY));
    assert_eq!(share([number(0.25), number(4.0), number(8.0)]), number(7.0));
}
