//! The gradient of every op and loop against central differences in double precision.
//!
//! A case is the body of a graph in the text form: it computes `%y` of the given type from the values of the prelude. The
//! loss is the mean of `y (y + 0.3)`, so that every element of `y` has a cotangent of its own.

mod attention;
mod folds;
mod loops;
mod losses;
mod ops;
mod scans;

use std::collections::BTreeSet;

use rtc_base::batch::{Batch, Given};
use rtc_compiler::ir::gradient;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::loops as interface;
use rtc_compiler::ir::ops::Op;
use rtc_exec::Halting;
use rtc_tests::numeric::{batch, check_gradients, differentiated, graph, labelled_tokens, run, weights};

/// Sequences, rows and slots that depend on parameters and differ from row to row.
const PRELUDE: &str = r#"
  %tokens = input {name: "tokens"} : u32[batch, length]
  %ta = param {name: "a", init: zeros} : f32[7, 4]
  %tb = param {name: "b", init: zeros} : f32[7, 4]
  %tc = param {name: "c", init: zeros} : f32[7, 4]
  %w = param {name: "w", init: zeros} : f32[4, 4]
  %wide = param {name: "wide", init: zeros} : f32[3, 4]
  %half = param {name: "half", init: zeros} : f32[2, 4]
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
  %expanded = broadcast_batch %slots, %a : f32[batch, 3, 4]
  %glance = attention %expanded, %a, %b {heads: 1} : f32[batch, 3, 4]
  %m = add %expanded, %glance : f32[batch, 3, 4]
  %psig = sigmoid %s : f32[batch, length]
  %rpsig = sigmoid %rs : f32[batch]
  %r2 = map %m {f: mul(0.7, a)} : f32[batch, 3, 4]
"#;

const SEQUENCE: &str = "f32[batch, length, 4]";
const ROW: &str = "f32[batch, 4]";
const SLOTS: &str = "f32[batch, 3, 4]";

/// A case: name, type of `%y`, body.
type Case = (&'static str, &'static str, &'static str);

/// A case with a loop: name, result that must not move (or nothing), type of `%y`, body.
type Loop = (&'static str, &'static str, &'static str, &'static str);

fn source(name: &str, ty: &str, body: &str, steady: &str) -> String {
    let also = if steady.is_empty() { String::new() } else { format!(", %{steady}") };
    let names = if steady.is_empty() { "loss".to_owned() } else { format!("loss, {steady}") };
    format!(
        "graph \"{name}\" {{{PRELUDE}\n{body}\n%shifted = map %y {{f: add(a, 0.3)}} : {ty}\n\
         %product = mul %shifted, %y : {ty}\n%loss = average %product : f32[]\nreturn %loss{also} {{names: \"{names}\"}}\n}}\n"
    )
}

/// `select` and `mask_unit` need conditions, which only a test of halting gives: it reads a step, so it lives in a loop.
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

/// A given vector for every position.
fn start(rows: &Batch) -> Given {
    let numbers = (0..4 * rows.tokens.len()).map(|n| (n as f64).sin()).collect();
    Given { name: "start".into(), numbers }
}

/// A given row of a table for every row.
fn kinds() -> Given {
    Given { name: "kind".into(), numbers: vec![2.0, 0.0, 2.0, 1.0] }
}

pub(super) fn all() -> Vec<(&'static str, Graph, Batch, &'static str)> {
    let (rows, each) = batches();
    let mut out = vec![];
    for (name, ty, body) in [ops::OPS, attention::ATTENTION, scans::SCANS, losses::ROWS].concat() {
        let body =
            if body.contains("when, ") || body.contains("when {") { with_conditions(body) } else { body.to_owned() };
        out.push((name, graph(&source(name, ty, &body, "")), rows.clone(), ""));
    }
    for (name, ty, body) in losses::TOKENS {
        out.push((*name, graph(&source(name, ty, body, "")), each.clone(), ""));
    }
    for (name, ty, body) in ops::OF_ONE_LENGTH {
        out.push((*name, graph(&source(name, ty, body, "")), batch(&[4, 4, 4], 7, 2, 5), ""));
    }
    let started = Batch { given: vec![start(&rows), kinds()], ..rows.clone() };
    out.push(("given values", graph(&source("given values", ROW, ops::GIVEN, "")), started, ""));
    for (name, steady, ty, body) in [loops::LOOPS, folds::FOLDS].concat() {
        out.push((name, graph(&source(name, ty, body, steady)), rows.clone(), steady));
    }
    out
}

#[test]
fn every_differentiable_op_has_a_case() {
    let none = gradient::none as gradient::GradientRule;
    let graphs = all();
    let nodes = graphs.iter().flat_map(|(_, g, ..)| g.walk(MAIN).into_iter().map(|n| g.node(n).op));
    let seen: BTreeSet<Op> = nodes.collect();
    let wanted = |op: &Op| !std::ptr::fn_addr_eq(op.def().gradient, none) || interface::is_forward(*op);
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
