//! Cases small enough to do by hand, run by the graph ops and loops of the executor.
//!
//! A token stands for a unit with its halting probabilities `p_0, p_1, ...` and its states `H_0, H_1, ...`: two tables hold
//! them, and every step of the recurrence takes the first of each list and shifts the lists by one.

use rtc_base::batch::{Batch, Labels};
use rtc_compiler::ir::graph::Graph;
use rtc_exec::Halting;
use rtc_kernel::position::{Direction, PositionKind, PositionTables, Rotation, rotate};
use rtc_runs::schedule::{Beta1, Schedule, ScheduleKind};
use rtc_task::{ExampleTarget, flip_flop, logic};
use rtc_tests::numeric::{Arrays, Run, differentiated, graph, run};

/// Entries of a list of probabilities, and one less than those of a list of states.
const LIST: usize = 6;

/// A unit's probabilities; missing ones are 0.5.
type Unit<'a> = &'a [f64];

/// The states `10^l`.
const POWERS: [f64; LIST + 1] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// Rows of tokens, packed.
fn rows(rows: &[&[u32]]) -> Batch {
    let mut offsets = vec![0];
    for row in rows {
        offsets.push(offsets[offsets.len() - 1] + row.len());
    }
    let width = rows.iter().map(|r| r.len()).max().unwrap_or(0);
    Batch {
        offsets,
        tokens: rows.concat(),
        labels: Labels::Class(vec![0; rows.len()]),
        width,
        depths: None,
        given: vec![],
    }
}

/// The tables of units that share their states.
fn tables(units: &[Unit<'_>], states: &[f64]) -> Arrays {
    let list = |values: &[f64], len: usize, fill: f64| -> Vec<f64> {
        values.iter().copied().chain(std::iter::repeat(fill)).take(len).collect()
    };
    let probabilities = units.iter().flat_map(|unit| list(unit, LIST, 0.5)).collect();
    let states = units.iter().flat_map(|_| list(states, LIST + 1, 0.0)).collect();
    Arrays::from([("p".to_owned(), probabilities), ("h".to_owned(), states), ("runs".to_owned(), vec![0.0])])
}

fn tables_text(units: usize) -> String {
    format!(
        r#"%tokens = input {{name: "tokens"}} : u32[batch, length]
  %tp = param {{name: "p", init: zeros}} : f32[{units}, 6]
  %th = param {{name: "h", init: zeros}} : f32[{units}, 7]
  %nothing = param {{name: "runs", init: zeros}} : f32[1]
  %ep = embed %tokens, %tp : f32[batch, length, 6]
  %eh = embed %tokens, %th : f32[batch, length, 7]"#
    )
}

/// What every step of a recurrence does; `A` are the axes of a unit. Gives `%hs1` and `%ps1` (shifted lists), `%h1`, `%q1`,
/// `%t1`, `%c1`, `%n1`, and counts the run in the gradient of `runs`.
const STEP: &str = r#"
    %p1 = slice %ps {start: 0, width: 1} : f32[A, 1]
    %prob = squeeze %p1 : f32[A]
    %prest = slice %ps {start: 1, width: 5} : f32[A, 5]
    %ps1 = pad %prest {start: 0, width: 6} : f32[A, 6]
    %h1 = slice %hs {start: 1, width: 1} : f32[A, 1]
    %hrest = slice %hs {start: 1, width: 6} : f32[A, 6]
    %hs1 = pad %hrest {start: 0, width: 7} : f32[A, 7]
    %alpha = mul %t, %prob : f32[A]
    %t1 = sub %t, %alpha : f32[A]
    %q1 = add_scaled %q, %h, %alpha : f32[A, 1]
    %c1 = add %c, %t : f32[A]
    %n1 = map %n {f: add(a, 1.0)} : f32[A]
    %one = map %nothing {f: add(a, 1.0)} : f32[1]
    accumulate %one {param: "runs"}
"#;

fn step(axes: &str) -> String {
    STEP.replace("[A", &format!("[{axes}"))
}

/// The halting recurrence on rows, with the lists `%ps0` and `%hs0` of every row. Results `%out`, `%cost`, `%steps`.
fn per_row(bound: usize, cap: &str) -> String {
    format!(
        r#"
  %hz = slice %hs0 {{start: 0, width: 1}} : f32[batch, 1]
  %qz = full %hz {{value: 0.0, rank: 2}} : f32[batch, 1]
  %tz = full %hz {{value: 1.0, rank: 1}} : f32[batch]
  %nz = full %hz {{value: 0.0, rank: 1}} : f32[batch]
  %hn, %qn, %tn, %cost, %steps, %psn, %hsn = recur %hz, %qz, %tz, %nz, %nz, %ps0, %hs0 {{bound: {bound}}} : f32[batch, 1], f32[batch, 1], f32[batch], f32[batch], f32[batch], f32[batch, 6], f32[batch, 7] (%h: f32[batch, 1], %q: f32[batch, 1], %t: f32[batch], %c: f32[batch], %n: f32[batch], %ps: f32[batch, 6], %hs: f32[batch, 7], %step: u32[]) {{
    {}
    %go = halt_test %t1, %step {{threshold: 0.999{cap}}} : bool[batch]
    yield %h1, %q1, %t1, %c1, %n1, %ps1, %hs1, %go
  }}
  %mixture = add_scaled %qn, %hn, %tn : f32[batch, 1]
  %out = squeeze %mixture : f32[batch]"#,
        step("batch")
    )
}

/// Rows that halt as wholes, with the lists of their first token.
fn global(units: usize, bound: usize) -> Graph {
    let lists = "%ps0 = position %ep {at: first} : f32[batch, 6]\n  %hs0 = position %eh {at: first} : f32[batch, 7]";
    graph(&format!(
        "graph \"global\" {{\n  {}\n  {lists}{}\n  %loss = average %cost : f32[]\n  return %out, %cost, %steps, %loss {{names: \"out, cost, steps, loss\"}}\n}}\n",
        tables_text(units),
        per_row(bound, ", cap: length")
    ))
}

/// Positions that halt by themselves; `%log` collects what keys are made of at steps 0, 1 and 2.
fn by_token(units: usize, bound: usize) -> Graph {
    let log = r#"
    %source = add_scaled %q, %h, %t : f32[batch, length, 1]
    %older = slice %log {start: 1, width: 2} : f32[batch, length, 2]
    %shifted = pad %older {start: 0, width: 3} : f32[batch, length, 3]
    %newest = pad %source {start: 2, width: 3} : f32[batch, length, 3]
    %log1 = add %shifted, %newest : f32[batch, length, 3]"#;
    let accept = ["h", "q"].map(|n| format!("%{n}2 = select %go, %{n}1, %{n} : f32[batch, length, 1]")).join("\n    ");
    let accept_units =
        ["t", "c", "n"].map(|n| format!("%{n}2 = select %go, %{n}1, %{n} : f32[batch, length]")).join("\n    ");
    graph(&format!(
        r#"graph "token" {{
  {}
  %hz = slice %eh {{start: 0, width: 1}} : f32[batch, length, 1]
  %qz = full %hz {{value: 0.0, rank: 3}} : f32[batch, length, 1]
  %tz = full %hz {{value: 1.0, rank: 2}} : f32[batch, length]
  %nz = full %hz {{value: 0.0, rank: 2}} : f32[batch, length]
  %lz = slice %qz {{start: 0, width: 1}} : f32[batch, length, 1]
  %empty = pad %lz {{start: 0, width: 3}} : f32[batch, length, 3]
  %all = true %hz {{rank: 2}} : bool[batch, length]
  %hn, %qn, %tn, %paid, %steps, %psn, %hsn, %keys, %ln = recur %hz, %qz, %tz, %nz, %nz, %ep, %eh, %empty, %all {{bound: {bound}}} : f32[batch, length, 1], f32[batch, length, 1], f32[batch, length], f32[batch, length], f32[batch, length], f32[batch, length, 6], f32[batch, length, 7], f32[batch, length, 3], bool[batch, length] (%h: f32[batch, length, 1], %q: f32[batch, length, 1], %t: f32[batch, length], %c: f32[batch, length], %n: f32[batch, length], %ps: f32[batch, length, 6], %hs: f32[batch, length, 7], %log: f32[batch, length, 3], %live: bool[batch, length], %step: u32[]) {{
    {}{log}
    %test = halt_test %t1, %step {{threshold: 0.999}} : bool[batch, length]
    %go = and %live, %test : bool[batch, length]
    {accept}
    {accept_units}
    %any = any %go : bool[batch]
    yield %h2, %q2, %t2, %c2, %n2, %ps1, %hs1, %log1, %go, %any
  }}
  %mixture = add_scaled %qn, %hn, %tn : f32[batch, length, 1]
  %out = squeeze %mixture : f32[batch, length]
  %cost = mean %paid : f32[batch]
  %loss = average %cost : f32[]
  return %out, %paid, %cost, %steps, %keys, %loss {{names: "out, paid, cost, steps, keys, loss"}}
}}
"#,
        tables_text(units),
        step("batch, length")
    ))
}

fn near(what: &str, ours: &[f64], expected: &[f64]) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{what}: {ours:?} should be {expected:?}");
    }
}

fn runs(run: &Run) -> f64 {
    run.gradients["runs"][0]
}

/// One row that halts as a whole, with enough positions that the cap does not cut.
fn single(p: Unit<'_>, bound: usize, states: &[f64], halting: Halting) -> Run {
    run::<f64>(&global(1, bound), &tables(&[p], states), &rows(&[&[0; 9]]), halting)
}

fn check(run: &Run, out: f64, cost: f64, steps: f64, block_runs: f64) {
    near("output", &run.outputs["out"], &[out]);
    near("cost", &run.outputs["cost"], &[cost]);
    near("accepted steps", &run.outputs["steps"], &[steps]);
    near("block runs", &[runs(run)], &[block_runs]);
}

const FIRST: [f64; 3] = [0.2, 0.5, 0.9];
const A: [f64; 2] = [0.9, 0.995];
const B: [f64; 3] = [0.1, 0.2, 0.3];

#[test]
fn case_01_the_bound_is_reached() {
    check(&single(&FIRST, 3, &POWERS, Halting::Compact), 80.2, 2.2, 3.0, 3.0);
    check(&single(&FIRST, 3, &[1.0, -2.0, 4.0, 8.0], Halting::Compact), 1.16, 2.2, 3.0, 3.0);
    // The mixture after one and two steps: what is left goes to the newest state.
    check(&single(&FIRST, 1, &POWERS, Halting::Compact), 0.2 + 8.0, 1.0, 1.0, 1.0);
    check(&single(&FIRST, 2, &POWERS, Halting::Compact), 0.2 + 4.0 + 40.0, 1.8, 2.0, 2.0);
    let backward = differentiated(&global(1, 3));
    let slopes = run::<f64>(&backward, &tables(&[&FIRST], &POWERS), &rows(&[&[0; 9]]), Halting::Compact);
    near("slope of the cost", &slopes.gradients["p"][..3], &[-1.5, -0.8, 0.0]);
}

#[test]
fn case_02_the_threshold_rejects_a_step() {
    check(&single(&[0.2, 0.5, 0.9, 0.98, 0.5], 5, &POWERS, Halting::Compact), 80.2, 2.2, 3.0, 4.0);
}

#[test]
fn case_03_rejected_at_once() {
    check(&single(&[0.9995], 5, &POWERS, Halting::Compact), 1.0, 0.0, 0.0, 1.0);
}

#[test]
fn case_04_positions_halt_by_themselves() {
    for batch in [rows(&[&[0, 1]]), rows(&[&[0, 1], &[1, 1, 1]])] {
        let out = run::<f64>(&by_token(2, 3), &tables(&[&A, &B], &POWERS), &batch, Halting::Compact);
        near("outputs", &out.outputs["out"][..2], &[1.9, 527.5]);
        near("costs", &out.outputs["paid"][..2], &[1.0, 2.62]);
        near("row cost", &out.outputs["cost"][..1], &[1.81]);
        near("accepted steps", &out.outputs["steps"][..2], &[1.0, 3.0]);
        near("block runs", &[runs(&out)], &[3.0]);
        near("keys of A", &out.outputs["keys"][..3], &[1.0, 1.9, 1.9]);
        near("keys of B", &out.outputs["keys"][3..6], &[1.0, 0.1 + 9.0, 0.1 + 1.8 + 72.0]);
    }
}

#[test]
fn case_05_rows_halt_by_themselves() {
    let (graph, tables) = (global(2, 3), tables(&[&A, &B], &POWERS));
    let both = rows(&[&[0; 9], &[1; 9]]);
    for halting in [Halting::Compact, Halting::Batch, Halting::Never] {
        let out = run::<f64>(&graph, &tables, &both, halting);
        near("outputs", &out.outputs["out"], &[1.9, 527.5]);
        near("costs", &out.outputs["cost"], &[1.0, 2.62]);
        near("mean cost", &out.outputs["loss"], &[1.81]);
        near("block runs", &[runs(&out)], &[3.0]);
    }
    for (halting, expected) in [(Halting::Compact, 2.0), (Halting::Batch, 2.0), (Halting::Never, 3.0)] {
        let alone = run::<f64>(&graph, &tables, &rows(&[&[0; 9]]), halting);
        check(&alone, 1.9, 1.0, 1.0, expected);
    }
}

#[test]
fn case_06_the_length_caps_the_steps() {
    let out = run::<f64>(&global(1, 5), &tables(&[&[0.1; LIST]], &POWERS), &rows(&[&[0]]), Halting::Compact);
    check(&out, 82.0, 1.9, 2.0, 3.0);
}

#[test]
fn case_07_costs_of_chunks() {
    let inner = per_row(3, "");
    let source = format!(
        r#"graph "chunks" {{
  {}
  %zero = full %ep {{value: 0.0, rank: 1}} : f32[batch]
  %total, %count = chunks %zero, %zero, %ep, %eh {{carried: 2, size: 1, cut: position, over: length, axis: chunk}} : f32[batch], f32[batch] (%sum: f32[batch], %seen: f32[batch], %xp: f32[batch, chunk, 6], %xh: f32[batch, chunk, 7]) {{
    %ps0 = position %xp {{at: first}} : f32[batch, 6]
    %hs0 = position %xh {{at: first}} : f32[batch, 7]
    {inner}
    %sum1 = add %sum, %cost : f32[batch]
    %seen1 = map %seen {{f: add(a, 1.0)}} : f32[batch]
    yield %sum1, %seen1
  }}
  %row = div %total, %count : f32[batch]
  %mean = average %row : f32[]
  return %row, %mean {{names: "row, mean"}}
}}
"#,
        tables_text(3)
    );
    // Row X has the chunks of cost 2.2 and 1.0, row Y one of cost 2.62.
    let out =
        run::<f64>(&graph(&source), &tables(&[&FIRST, &A, &B], &POWERS), &rows(&[&[0, 1], &[2]]), Halting::Compact);
    near("row costs", &out.outputs["row"], &[1.6, 2.62]);
    near("mean cost", &out.outputs["mean"], &[2.11]);
}

#[test]
fn case_08_the_sum_so_far() {
    let source = r#"graph "sum" {
  %tokens = input {name: "tokens"} : u32[batch, length]
  %table = param {name: "table", init: zeros} : f32[3, 1]
  %x = embed %tokens, %table : f32[batch, length, 1]
  %y = running_sum %x {side: left} : f32[batch, length, 1]
  return %y {names: "y"}
}
"#;
    let table = Arrays::from([("table".to_owned(), vec![1.0, 3.0, 5.0])]);
    let out = run::<f64>(&graph(source), &table, &rows(&[&[0, 1, 2]]), Halting::Compact);
    near("sums", &out.outputs["y"], &[1.0, 4.0, 9.0]);
}

/// Widths of the chunks of one row of `length` tokens in a batch of width `width`: every position learns the largest
/// position of its chunk.
fn widths(length: usize, width: usize, how: &str) -> Vec<usize> {
    let source = format!(
        r#"graph "widths" {{
  %tokens = input {{name: "tokens"}} : u32[batch, length]
  %table = param {{name: "table", init: zeros}} : f32[1024, 1]
  %x = embed %tokens, %table : f32[batch, length, 1]
  %zero = full %x {{value: 0.0, rank: 1}} : f32[batch]
  %z, %y = chunks %zero, %x {{carried: 1, {how}, cut: balanced, over: length, axis: chunk}} : f32[batch], f32[batch, length, 1] (%m: f32[batch], %c: f32[batch, chunk, 1]) {{
    %last = position %c {{at: last}} : f32[batch, 1]
    %number = squeeze %last : f32[batch]
    %ones = full %c {{value: 1.0, rank: 3}} : f32[batch, chunk, 1]
    %all = mul_unit %ones, %number : f32[batch, chunk, 1]
    yield %m, %all
  }}
  return %y {{names: "y"}}
}}
"#
    );
    let table = Arrays::from([("table".to_owned(), (0..1024).map(f64::from).collect())]);
    let tokens: Vec<u32> = (0..length as u32).collect();
    let batch = Batch { width, ..rows(&[&tokens]) };
    let ends = run::<f64>(&graph(&source), &table, &batch, Halting::Compact).outputs["y"].clone();
    let mut out = vec![];
    let mut start = 0;
    while start < length {
        let end = ends[start] as usize + 1;
        assert!(ends[start..end].iter().all(|e| *e == ends[start]), "chunks lie side by side");
        out.push(end - start);
        start = end;
    }
    out
}

#[test]
fn case_09_widths_of_chunks() {
    let equal = |count: usize, width: usize, last: usize| [vec![width; count], vec![last]].concat();
    assert_eq!(widths(21, 21, "size: 20"), [11, 10]);
    assert_eq!(widths(13, 13, "size: 6"), [5, 5, 3]);
    assert_eq!(widths(18, 18, "size: 6"), [6, 6, 6]);
    assert_eq!(widths(13, 18, "size: 6"), [6, 6, 1]);
    assert_eq!(widths(512, 512, "size: 100"), equal(5, 86, 82));
    assert_eq!(widths(1024, 1024, "size: 100"), equal(10, 94, 84));
    assert_eq!(widths(512, 512, "size: 10"), equal(51, 10, 2));
    assert_eq!(widths(512, 512, "count: 5"), equal(4, 103, 100));
    assert_eq!(widths(1024, 1024, "count: 5"), equal(4, 205, 204));
}

#[test]
fn case_10_xpos() {
    let mut tables = PositionTables::<f64>::new();
    let mut rotated = |x: [f64; 4], kind: PositionKind, position: usize| {
        let mut y = [0.0; 4];
        rotate(&x, tables.upto(Rotation::new(kind, 4), None, position + 1), 1, 4, position, Direction::Forward, &mut y);
        y
    };
    let mut product = |query: usize, key: usize| {
        let q = rotated([1.0, 2.0, 3.0, 4.0], PositionKind::XposQuery, query);
        let k = rotated([0.5, -1.0, 2.0, 1.0], PositionKind::XposKey, key);
        q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>()
    };
    for (query, key, expected) in
        [(3, 1, 8.692_394_327_181), (1, 3, 12.570_235_246_965), (2, 2, 8.5), (0, 0, 8.5), (402, 400, 8.692_394_327_181)]
    {
        let ours = product(query, key);
        assert!((ours - expected).abs() < 1e-11, "query {query}, key {key}: {ours}");
    }
}

#[test]
fn case_11_the_gate() {
    let source = r#"graph "gate" {
  %tokens = input {name: "tokens"} : u32[batch, length]
  %table = param {name: "table", init: zeros} : f32[1, 4]
  %x = embed %tokens, %table : f32[batch, length, 4]
  %h = slice %x {start: 0, width: 1} : f32[batch, length, 1]
  %a = slice %x {start: 1, width: 1} : f32[batch, length, 1]
  %ff = slice %x {start: 2, width: 1} : f32[batch, length, 1]
  %z = slice %x {start: 3, width: 1} : f32[batch, length, 1]
  %u = add %ff, %a : f32[batch, length, 1]
  %fused = map %z, %u, %h {f: lerp(sigmoid(a), b, c)} : f32[batch, length, 1]
  %g = sigmoid %z : f32[batch, length, 1]
  %plain = lerp %g, %u, %h : f32[batch, length, 1]
  return %g, %u, %fused, %plain {names: "g, u, fused, plain"}
}
"#;
    let table = Arrays::from([("table".to_owned(), vec![1.0, 3.0, 2.0, 0.0])]);
    let out = run::<f64>(&graph(source), &table, &rows(&[&[0]]), Halting::Compact);
    for (name, expected) in [("g", 0.5), ("u", 5.0), ("fused", 3.0), ("plain", 3.0)] {
        near(name, &out.outputs[name], &[expected]);
    }
}

#[test]
fn case_12_the_inverse_root_schedule() {
    let schedule = Schedule {
        kind: ScheduleKind::InverseRoot,
        warmup: 1000,
        start: 1000,
        total: 10_000,
        beta1: Beta1::Fixed,
        formula: None,
    };
    for (t, expected) in [(0, 1.58114e-6), (999, 1.58114e-3), (3999, 7.90569e-4)] {
        let rate = 0.05 * schedule.factor(t);
        assert!((rate / expected - 1.0).abs() < 1e-5, "update {t}: {rate:e}");
    }
}

#[test]
fn case_13_a_flip_flop() {
    let symbols = |text: &str| flip_flop::parse(text).expect("symbols of a flip-flop");
    let example = flip_flop::example(&symbols("w 0 i 1 w 1 r 1")).expect("a flip-flop");
    assert_eq!(example.tokens, symbols("i w 0 i 1 w 1 r"));
    let ExampleTarget::Each { class, weight } = example.label else { panic!("a flip-flop answers for every token") };
    assert_eq!(weight, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(class[7], 1);
}

#[test]
fn case_14_relations() {
    for (left, right, sign) in [
        ("a", "a", "="),
        ("a", "( not a )", "^"),
        ("a", "( a ( or b ) )", "<"),
        ("( a ( or b ) )", "a", ">"),
        ("( a ( and b ) )", "( not a )", "|"),
        ("( not a )", "( a ( or b ) )", "v"),
        ("a", "b", "#"),
    ] {
        let [l, r] = [left, right].map(|text| logic::parse(text).expect("a formula"));
        assert_eq!(logic::relation(&l, &r).map(logic::Relation::sign), Ok(sign), "{left} and {right}");
    }
}
