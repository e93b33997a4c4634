//! Whole searches against an independent PyTorch implementation: the file that `RTC_RECURSIVE` names (default
//! `../shared/fixtures/recursive_goldens.json` beside the project). Where it is absent, there is nothing to compare with.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::fs;
use std::path::{Path, PathBuf};

use rtc_base::rng::Key;
use rtc_kernel::beam::SearchRules;
use serde_json::Value;

use super::driver::{Batch, Plan, Run, Seen};
use super::model::{Model, sizes};
use super::s4d::S4d;

const D: usize = 4;
const SLICE: usize = 2;

fn goldens() -> Option<Value> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/recursive_goldens.json");
    let text = fs::read_to_string(std::env::var_os("RTC_RECURSIVE").map_or(default, PathBuf::from)).ok();
    if text.is_none() {
        eprintln!("skipped: no recursive_goldens.json (RTC_RECURSIVE names another file)");
    }
    Some(serde_json::from_str(&text?).expect("the file is JSON"))
}

/// Every number of an array of arrays.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Bool(value) => vec![f64::from(u8::from(*value))],
        value => vec![value.as_f64().expect("a number")],
    }
}

/// The parameter that stands at place `p`, counted from 1.
fn wave(name: &str, p: usize, len: usize) -> Vec<f64> {
    let norm = name.contains("ln.");
    let (base, size) = (f64::from(u8::from(name.ends_with("ln.weight"))), if norm { 0.1 } else { 0.5 });
    (0..len).map(|i| base + size * (0.7 * i as f64 + p as f64).sin()).collect()
}

/// The parameters of a case, and those of its S4D layer if it has one.
fn parameters(names: &Value) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let names: Vec<&str> = names.as_array().expect("names").iter().map(|n| n.as_str().expect("a name")).collect();
    let mut lengths = sizes(D, SLICE);
    let scorer_of_parents = lengths.split_off(14);
    // Channels, modes of the case and complex numbers as two reals.
    let s4d = [2 * D, 4 * D, 4 * D, 8 * D, 8 * D, 2 * D, 4 * D * D, 2 * D];
    let (mut model, mut scan) = (vec![], vec![]);
    for (p, name) in names.iter().enumerate() {
        if name.starts_with("s4.") {
            scan.push(wave(name, p + 1, s4d[scan.len()]));
        } else {
            model.push(wave(name, p + 1, lengths[model.len()]));
        }
    }
    model.extend(scorer_of_parents.iter().map(|&len| vec![0.0; len]));
    (model, scan)
}

#[track_caller]
fn close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() < 1e-10, "number {i}: {got} instead of {expected}");
    }
}

#[test]
fn the_scorer_of_a_pair() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["pair_score"];
    let mut weights = super::model::random(D, SLICE, 1);
    for (p, weights) in weights[10..14].iter_mut().enumerate() {
        *weights = wave("a", p + 1, weights.len());
    }
    let model = Model::<f64>::new(D, SLICE, &weights);
    let side = |name: &str| numbers(&goldens["gate3"][name])[..SLICE].to_vec();
    close(&model.score_pairs(&[side("left"), side("right")].concat()), &numbers(&case["out"]));
}

/// Compares one row of a step with what the other implementation wrote down: `row` is its number there.
fn same_step(seen: &Seen, before: &[Vec<u32>], step: &Value, row: usize) {
    let live = numbers(&step["alive"][row]).iter().filter(|&&alive| alive == 1.0).count();
    assert_eq!(seen.beams.len(), live);
    close(&seen.scores, &numbers(&step["score"][row])[..live]);
    let (parents, places) = (numbers(&step["parent"][row]), numbers(&step["pos"][row]));
    for (beam, list) in seen.beams.iter().enumerate() {
        let (parent, place) = (&before[parents[beam] as usize], places[beam] as usize);
        assert_eq!(list[..place], parent[..place]);
        assert!(!parent.contains(&list[place]), "a new node");
        assert_eq!(list[place + 1..], parent[place + 2..]);
    }
}

#[test]
fn a_search_with_two_beams() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["ebt_beam2"];
    let model = Model::<f64>::new(D, SLICE, &parameters(&case["params"]).0);
    let lengths: Vec<usize> = numbers(&case["lengths"]).into_iter().map(|n| n as usize).collect();
    let x: Vec<f64> =
        lengths.iter().enumerate().flat_map(|(row, &n)| numbers(&case["x"][row])[..n * D].to_vec()).collect();
    let leaves = model.leaves(&x);
    let offsets = [0, lengths[0], lengths[0] + lengths[1]];
    let keys = [Key::new(1), Key::new(2)];
    let rules = SearchRules { width: 2, ..SearchRules::default() };
    let run = Run::forward(&model, Plan::flat(rules), Batch { offsets: &offsets, keys: &keys }, &leaves);
    close(&run.out, &numbers(&case["out"]));
    let steps = case["steps"].as_array().expect("steps");
    let mut before: Vec<Vec<Vec<u32>>> =
        offsets.windows(2).map(|row| vec![(row[0] as u32..row[1] as u32).collect()]).collect();
    for (seen, step) in run.seen.iter().zip(steps) {
        for seen in seen {
            same_step(seen, &before[seen.row], step, seen.row);
            before[seen.row] = seen.beams.clone();
        }
    }
    assert_eq!(run.seen.len(), steps.len());
}

#[test]
fn chunks_of_three_with_two_beams() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["rir_ebt_k3_b2"];
    let (weights, scan) = parameters(&case["params"]);
    let model = Model::<f64>::new(D, SLICE, &weights);
    let leaves = model.leaves(&S4d(&scan).run(&numbers(&case["x"]), D));
    let draws = |chunk: usize, slot: usize| [[0, 0], [0, 1], [0, 0]][chunk][slot];
    let plan = Plan { given: Some(&draws), ..Plan::chunked(SearchRules { width: 2, ..SearchRules::default() }, 3) };
    let run = Run::forward(&model, plan, Batch { offsets: &[0, 7], keys: &[Key::new(1)] }, &leaves);
    close(&run.out, &numbers(&case["out"]));
    let steps = case["steps"].as_array().expect("steps");
    assert_eq!(run.seen.len(), steps.len());
    // The last chunk is one leaf and takes no step.
    assert_eq!(run.seen.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1]);
    for (seen, step) in run.seen.iter().zip(steps) {
        for seen in seen {
            close(&seen.scores, &numbers(&step["score"][seen.row])[..seen.scores.len()]);
        }
    }
}
