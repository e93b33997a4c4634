//! Searches beside an independent implementation, on random weights, with noise and alignment given: values and gradients.
//!
//! `RTC_PEER` names the file of that implementation, `RTC_PEER_PYTHON` a Python that can run it; without them there is
//! nothing to compare with.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower};
use rtc_exec::{Halting, NoiseSource};
use rtc_kernel::beam::{NoiseSite, NoiseTarget};
use rtc_tests::models;
use rtc_tests::numeric::{Arrays, differentiated, distance, executor, weights};
use serde_json::{Value as Json, json};

use crate::folds::{counting, ours};

const SCRIPT: &str = include_str!("../../src/peer_search.py");
const D: usize = 6;
const SLICE: usize = 4;

/// A number in (0, 1) that depends on these places alone; the script has the same.
fn number(places: &[usize]) -> f64 {
    let sum: f64 = places.iter().enumerate().map(|(i, p)| (i + 1) as f64 * 12.9898 * (p + 1) as f64).sum();
    let x = sum.sin() * 43758.5453;
    (x - x.floor()).clamp(1e-9, 1.0 - 1e-9)
}

/// Draws of the script, for one row.
#[derive(Debug)]
struct Places {
    beam: usize,
    /// Of every level: the nodes of each chunk, and those of a full one.
    levels: Vec<(Vec<usize>, usize)>,
}

impl Places {
    fn new(beam: usize, chunk: usize, mut length: usize) -> Self {
        let mut levels = vec![];
        while length > 1 {
            let width = if length >= chunk + chunk / 2 { chunk } else { length };
            let count = length.div_ceil(width);
            levels.push(((0..count).map(|n| width.min(length - n * width)).collect(), width));
            length = count;
        }
        Self { beam, levels }
    }
}

impl NoiseSource for Places {
    fn noise(&self, level: u64, NoiseSite { row, step, draw }: NoiseSite) -> f64 {
        let level = level as usize;
        let (chunks, width) = &self.levels[level];
        let u = match draw {
            NoiseTarget::Pair { beam, pair } => number(&[level, step, 0, row, beam, pair]),
            // A short chunk at its last merge: there, every beam is followed by places that hold no pair.
            NoiseTarget::Candidate(n) if chunks[row] - step == 2 => {
                number(&[level, step, 1, row, n * (width - 1 - step).min(self.beam)])
            }
            NoiseTarget::Candidate(n) => {
                let (own, all) = ((chunks[row] - 1 - step).min(self.beam), (width - 1 - step).min(self.beam));
                number(&[level, step, 1, row, n / own * all + n % own])
            }
        };
        -(-u.ln()).ln()
    }

    fn beam(&self, level: u64, chunk: usize, slot: usize) -> usize {
        let width = self.levels[level as usize].1;
        let beams = rtc_compiler::ir::schedule::beam::BeamRules {
            cut: rtc_compiler::ir::loops::Cut::whole(),
            size: self.beam,
            every: false,
            soft: false,
        };
        let live = (0..level as usize).fold(1, |live, level| beams.chunk(self.levels[level].1, live).live);
        let slots = beams.chunk(width, live).live;
        (number(&[level as usize, chunk, slot]) * slots as f64) as usize
    }
}

struct Case {
    model: &'static str,
    beam: usize,
    chunk: usize,
    noisy: bool,
    length: usize,
}

fn cases() -> Vec<Case> {
    let mut out = vec![];
    for (n, (beam, chunk)) in [3, 5, 7].into_iter().flat_map(|b| [3, 5, 10, 30].map(|k| (b, k))).enumerate() {
        for length in [1, 2, 4, 7, 16, 33, 47, 62, 137] {
            out.push(Case { model: "rir-ebt", beam, chunk, noisy: n % 2 == 0, length });
        }
    }
    for beam in [3, 5, 7] {
        for length in [1, 2, 3, 9, 40] {
            out.push(Case { model: "ebt", beam, chunk: usize::MAX / 4, noisy: true, length });
        }
    }
    out
}

fn source(case: &Case) -> String {
    let noise = if case.noisy { "gumbel" } else { "none" };
    let beam = format!(
        "recurse beam {{ size: {}, score mlp {{ slice: {SLICE} }}, select top_k {{ noise: {noise} }}, cell grc {{ hidden: {} }} }}",
        case.beam,
        4 * D
    );
    let fold = match case.model {
        "ebt" => beam,
        _ => format!("recurse balanced {{ arity: {}, {beam} }}", case.chunk),
    };
    format!("model m {{ embed {{ width: {D} }}, {fold}, readout root, head linear }}")
}

fn place(case: &Case) -> (&'static str, &'static str) {
    if case.model == "ebt" { ("beam", "beam.grc") } else { ("balanced", "balanced.beam.grc") }
}

fn training(case: &Case) -> Graph {
    let binding = Binding { vocab: Some(140), classes: Some(D), objective: Objective::Classify };
    let graph = lower(&models::parse(&source(case)), &binding);
    let graph = graph.and_then(|mut graph| attach_loss(&mut graph, &binding).map(|()| graph));
    differentiated(&graph.unwrap_or_else(|e| panic!("{e}")))
}

const NAMES: &[(&str, usize)] = &[
    ("lift.lin.weight", D * D),
    ("lift.lin.bias", D),
    ("lift.ln.weight", D),
    ("lift.ln.bias", D),
    ("cell.up.weight", 8 * D * D),
    ("cell.up.bias", 4 * D),
    ("cell.down.weight", 16 * D * D),
    ("cell.down.bias", 4 * D),
    ("cell.ln.weight", D),
    ("cell.ln.bias", D),
    ("tree.scorer.a.weight", 2 * SLICE * SLICE),
    ("tree.scorer.a.bias", SLICE),
    ("tree.scorer.b.weight", SLICE),
    ("tree.scorer.b.bias", 1),
];

fn random() -> Vec<(&'static str, Vec<f64>)> {
    let value = |name: &str, i: u64| {
        let centre = if name.ends_with("ln.weight") { 1.0 } else { 0.0 };
        centre + 0.6 * Key::new(9).stream(name).normal(i)
    };
    NAMES.iter().map(|(name, len)| (*name, (0..*len as u64).map(|i| value(name, i)).collect())).collect()
}

fn asked(peer: &str, python: &str, question: &Json) -> Json {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .env("RTC_PEER", peer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("RTC_PEER_PYTHON is a program");
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin.write_all(question.to_string().as_bytes()).expect("it reads its question");
    drop(stdin);
    let answer = child.wait_with_output().expect("it ends");
    assert!(answer.status.success(), "the other implementation failed");
    serde_json::from_slice(&answer.stdout).expect("it answers in JSON")
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

#[test]
fn searches_agree_with_another_implementation() {
    let (Ok(peer), Ok(python)) = (std::env::var("RTC_PEER"), std::env::var("RTC_PEER_PYTHON")) else {
        eprintln!("skipped: RTC_PEER and RTC_PEER_PYTHON are not set");
        return;
    };
    let (cases, known) = (cases(), random());
    let row = |length: usize| -> Vec<f64> { (0..(length * D) as u64).map(|i| Key::new(4).normal(i)).collect() };
    let question = json!({
        "d": D,
        "widen": 4,
        "slice": SLICE,
        "weights": known.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "cases": cases.iter().map(|case| json!({
            "model": case.model, "beam": case.beam, "chunk": case.chunk.min(1 << 30), "noisy": case.noisy, "x": row(case.length),
        })).collect::<Vec<_>>(),
    });
    let answers = asked(&peer, &python, &question);
    for (case, answer) in cases.iter().zip(answers.as_array().expect("a list of answers")) {
        let what = format!("{} {} beams, chunks of {}, {} tokens", case.model, case.beam, case.chunk, case.length);
        let graph = training(case);
        let mut values: Arrays = weights(&graph, 0, 0.0);
        let (fold, cell) = place(case);
        for (name, value) in &known {
            values.insert(ours(name, fold, cell), value.clone());
        }
        let identity = (0..D * D).map(|n| if n % (D + 1) == 0 { 1.0 } else { 0.0 }).collect();
        values.insert("head.output.weight".to_owned(), identity);
        values.insert("head.output.bias".to_owned(), vec![0.0; D]);
        let x = row(case.length);
        values.get_mut("embed.table").expect("tokens are embedded")[D..][..x.len()].copy_from_slice(&x);
        let mut executor = executor::<f64>(&graph, &values, Halting::Compact);
        executor.noise = Some(Rc::new(Places::new(case.beam, case.chunk, case.length)));
        let outputs = executor.run(&counting(&[case.length], case.length), Key::new(0)).expect("the batch fits");
        let logits = outputs.real("logits").expect("the model classifies");
        assert!(distance(logits, &numbers(&answer["out"])) < 1e-10, "{what}: {logits:?}, {}", answer["out"]);
        let plan = executor.plan().clone();
        let ranges = rtc_exec::parameter_ranges(&plan);
        let gradient = |name: &str| {
            let at = plan.parameters.iter().position(|p| p.name == name).expect("the model has it");
            &executor.gradients()[ranges[at].clone()]
        };
        let found = &gradient("embed.table")[D..][..x.len()];
        assert!(distance(found, &numbers(&answer["x"])) < 1e-9, "{what}: gradient of the input");
        for (name, expected) in answer["grads"].as_object().expect("gradients by name") {
            let found = gradient(&ours(name, fold, cell));
            assert!(distance(found, &numbers(expected)) < 1e-9, "{what}: gradient of {name}");
        }
    }
}
