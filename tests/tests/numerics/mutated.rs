//! Graphs that nobody wrote: those of the gradient cases with operands, ops, attributes and types exchanged. Either the verifier refuses
//! one, or the CPU computes it and its gradient, or says which number is not finite: what a row of the op table takes, kernels take.
//!
//! `RTC_MUTATED=100000` tries more, `RTC_MUTATED_ONE=1234` one of them.

#![allow(clippy::print_stderr, reason = "the counts are wanted where nothing fails")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::document::{GraphDocument, NodeDoc, Problem};
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Type;
use rtc_compiler::ir::{text, verify};
use rtc_exec::{ExecutionFault, Halting};
use rtc_tests::numeric::{KEY, differentiated, executor, weights};

use super::device_work::in_parallel;
use super::gradients;

/// Mutated graphs of an ordinary run.
const COUNT: usize = 10_000;

/// What attributes are made of, besides what other nodes say.
const VALUES: &[&str] =
    &["0", "1", "2", "3", "4", "8", "-1", "0.5", "true", "left", "right", "first", "last", "causal", "all"];

/// A small deterministic generator; the sequence is of no importance.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Calls a function of all nodes, those of bodies among them.
fn each(nodes: &mut [NodeDoc], f: &mut impl FnMut(&mut NodeDoc)) {
    for node in nodes {
        f(node);
        if let Some(body) = &mut node.body {
            each(&mut body.nodes, f);
        }
    }
}

fn all_nodes(document: &GraphDocument) -> Vec<NodeDoc> {
    let mut found = vec![];
    each(&mut document.nodes.clone(), &mut |node| found.push(node.clone()));
    found
}

/// Changes a node in one of the ways in which a graph can go wrong.
fn mutate(document: &mut GraphDocument, draws: &mut Draws) {
    let nodes = all_nodes(document);
    let values: Vec<String> = nodes.iter().flat_map(|node| node.results.iter().map(|one| one.name.clone())).collect();
    let attributes: Vec<(String, String)> = nodes.iter().flat_map(|node| node.attrs.clone()).collect();
    let chosen = draws.below(nodes.len());
    let way = draws.below(10);
    let change = |node: &mut NodeDoc, draws: &mut Draws| match way {
        0..=3 if !node.operands.is_empty() => {
            let n = draws.below(node.operands.len());
            node.operands[n] = draws.of(&values).clone();
        }
        4 => drop(node.operands.pop()),
        5 => node.operands.push(draws.of(&values).clone()),
        6 => node.op = draws.of(Op::ALL).def().name.to_owned(),
        7 => drop(node.attrs.pop_last()),
        8 => {
            let (name, value) = draws.of(&attributes).clone();
            node.attrs.insert(name, value);
        }
        _ => {
            let op = Op::named(&node.op);
            let takes: Vec<&str> =
                op.into_iter().flat_map(|op| op.def().attrs()).map(|takes| takes.attribute.name).collect();
            if !takes.is_empty() {
                node.attrs.insert((*draws.of(&takes)).to_owned(), (*draws.of(VALUES)).to_owned());
            }
        }
    };
    let mut n = 0;
    each(&mut document.nodes, &mut |node| {
        if n == chosen {
            change(node, draws);
        }
        n += 1;
    });
}

/// Writes the types that the rows give, where only these are wrong: most of a graph hangs on what was exchanged.
fn retyped(mut document: GraphDocument) -> Result<Graph, Vec<Problem>> {
    for _ in 0..40 {
        let problems = match document.to_graph() {
            Ok(graph) => return Ok(graph),
            Err(problems) => problems,
        };
        let mut changed = false;
        for problem in &problems {
            let Some((_, rest)) = problem.message.split_once(" gives ") else { return Err(problems) };
            let Some((gives, _)) = rest.split_once(", not ") else { return Err(problems) };
            let types: Vec<String> =
                gives.split_inclusive(']').map(|ty| ty.trim_matches([',', ' ']).to_owned()).collect();
            each(&mut document.nodes, &mut |node| {
                if node.head() == problem.node && node.results.len() == types.len() {
                    for (one, ty) in node.results.iter_mut().zip(&types) {
                        changed |= one.ty != *ty;
                        one.ty.clone_from(ty);
                    }
                }
            });
        }
        if !changed {
            return Err(problems);
        }
    }
    document.to_graph()
}

/// What became of a mutated graph.
enum Outcome {
    Refused,
    Computed,
    /// A fault of the numbers or of the batch, said in a sentence.
    Fault,
    Wrong(String),
}

fn runs(graph: &Graph, batch: &Batch) -> Result<(), ExecutionFault> {
    let weights = weights(graph, 1, 0.7);
    executor::<f64>(graph, &weights, Halting::Compact).run(batch, Key::new(KEY)).map(|_| ())
}

fn attempt(document: GraphDocument, batch: &Batch) -> Outcome {
    let Ok(graph) = retyped(document) else { return Outcome::Refused };
    if verify::verify(&graph).is_err() {
        return Outcome::Refused;
    }
    // What a user gives is a forward graph: its gradient is made by a pass.
    let forward = graph.walk(MAIN).iter().all(|id| {
        let op = graph.node(*id).op;
        op.def().dependence != rtc_compiler::ir::dependence::Dependence::Backward
            && !matches!(op, Op::Accumulate | Op::Save)
    });
    let computed = catch_unwind(AssertUnwindSafe(|| {
        runs(&graph, batch)?;
        if forward && graph.output("loss").is_some_and(|loss| *graph.ty(loss) == Type::real([])) {
            runs(&differentiated(&graph), batch)?;
        }
        Ok::<_, ExecutionFault>(())
    }));
    match computed {
        Ok(Ok(())) => Outcome::Computed,
        Ok(Err(ExecutionFault::NonFinite(_) | ExecutionFault::Batch(_))) => Outcome::Fault,
        Ok(Err(fault)) => Outcome::Wrong(format!("{fault}\n{}", text::print(&graph))),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Outcome::Wrong(format!("{}\n{}", message.unwrap_or_default(), text::print(&graph)))
        }
    }
}

#[test]
fn a_mutated_graph_is_refused_or_computed() {
    let asked = |name: &str| std::env::var(name).ok().map(|text| text.parse::<usize>().expect("a number"));
    let seeds: Vec<(GraphDocument, Batch)> =
        gradients::all().into_iter().map(|(_, graph, batch, _)| (GraphDocument::from(&graph), batch)).collect();
    let of = |number: usize| {
        let mut draws = Draws(number as u64);
        let (document, batch) = &seeds[number % seeds.len()];
        let mut document = document.clone();
        for _ in 0..=draws.below(2) {
            mutate(&mut document, &mut draws);
        }
        attempt(document, batch)
    };
    let numbers: Vec<usize> = match asked("RTC_MUTATED_ONE") {
        Some(one) => vec![one],
        None => (0..asked("RTC_MUTATED").unwrap_or(COUNT)).collect(),
    };
    let outcomes = in_parallel(numbers.len(), |n| of(numbers[n]));
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    let computed = count(|outcome| matches!(outcome, Outcome::Computed));
    let faults = count(|outcome| matches!(outcome, Outcome::Fault));
    eprintln!(
        "{} mutated graphs: {computed} computed, {faults} ended by a fault of numbers, the others refused",
        outcomes.len()
    );
    let wrong = numbers.iter().zip(&outcomes).filter_map(|(number, outcome)| match outcome {
        Outcome::Wrong(why) => Some(format!("number {number}: {why}")),
        _ => None,
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), outcomes.len(), wrong[..wrong.len().min(2000)].join("\n"));
    assert!(
        numbers.len() < COUNT || computed > COUNT / 20,
        "only {computed} were not refused: the test tries too little"
    );
}
