//! An update after every step of a loop: with fixed weights the gradients of the steps add up to those of all steps at once, the bits do
//! not depend on memory or machine, and what has no such meaning is refused.
//!
//! `field.rs` compares the updates themselves with those of PyTorch.

use rtc_base::batch::{Batch, Given};
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline::each_step::{CARRIED, EachStep, OVER, TAKEN, size};
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::pipeline::{self, each_step};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_compiler::spec::Spec;
use rtc_exec::Halting;
use rtc_tests::models::{CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, Run, asking, assert_same, batch, checked, run, weights};

use super::device::{Case, compare};

/// Two states, an answer after every segment, and rows that leave by what they say and by how many they have taken.
const RECURSIVE: &str = "
def block(x) {
    read = attention(norm(x)) { heads: 2, position: rope }
    out x + read
}
model recursive {
    embed { width: 8 }
    share net = block
    start = learn[width] { trained: false }
    input = state
    loop {
        steps: 4
        carry y = zeros(input) + stop(learn[width])
        carry z = zeros(input) + start
        loop {
            steps: 2, grad: 1
            loop {
                steps: 2
                z = net(z + y + input)
            }
            y = net(y + z)
        }
        sure = number(mean(y))
        wrong = max(1 - right(y))
        loss average(mean(answer(y)))
        loss 0.5 * average(when(last(), 2, 1) * (softplus(sure) - (1 - wrong) * sure))
        y = stop(y)
        z = stop(z)
        until sure > -0.2 and step + 1.5 > 2
    }
    state = y
    readout each { sees: all }
}";

/// Steps that a row refuses, a number of steps by the length, a start that is trained, positions before the row.
const REFUSES: &str = "
model refuses {
    embed { width: 8 }
    input = prefix(state, mean(state))
    loop {
        steps: log(length, 2) + 1
        carry h = input
        carry heard = zeros(mean(input))
        go number(mean(h)) + 0.4 * step < 0.6
        h = norm(h + attention(h + input) { heads: 2 })
        heard = heard + mean(h)
        loss average(mean(answer(drop(h, 1))))
        loss 0.1 * average(abs(number(heard)))
        h = stop(h)
        heard = stop(heard)
    }
    state = drop(h, 1)
    readout each { sees: all }
}";

/// A class for every row, without any condition; what it drew at its start stays.
const CLASSIFIES: &str = "
model classifies {
    embed { width: 8 }
    input = mean(state)
    loop {
        steps: 3
        carry h = input
        carry told = stop(number(input))
        h = norm(linear(gelu(linear(cat(h, input)) { to: 16 })) { to: 8 })
        loss 0.5 * average((1 + 0.1 * step) * answer(h) + abs(number(h) - told))
        told = told + stop(number(h))
        h = stop(h)
    }
    state = zeros(state) + h
    readout mean
}";

fn spec(text: &str, objective: Objective) -> Spec {
    rtc_tests::spec(text, &binding(objective))
}

const CASES: [(&str, Objective); 3] =
    [(RECURSIVE, Objective::Each), (REFUSES, Objective::Each), (CLASSIFIES, Objective::Classify)];

/// A training step for all steps of the loop, and one for one of them.
fn graphs(text: &str, objective: Objective) -> [Graph; 2] {
    let (spec, binding) = (spec(text, objective), binding(objective));
    let each = EachStep::new(&spec, &binding).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let graphs = [pipeline::training(&spec, &binding), pipeline::training(&each, &binding)];
    let graphs = graphs.map(|graph| graph.expect("it lowers"));
    graphs.iter().for_each(|graph| checked(graph, text));
    graphs
}

/// What fresh rows are given.
pub(super) fn fresh(graph: &Graph, lengths: &[usize]) -> Vec<Given> {
    let inputs = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Input);
    let carried = inputs.filter(|node| node.get(attribute::NAME).starts_with(CARRIED));
    let zeros = |node: &rtc_compiler::ir::graph::Node| {
        let (around, width) = size(graph.ty(node.results[0]));
        let count: usize = lengths.iter().map(|length| around.map_or(1, |around| length + around) * width).sum();
        Given { name: node.get(attribute::NAME).into(), numbers: vec![0.0; count] }
    };
    carried.map(zeros).collect()
}

/// The results of the updates of a row, until it is through.
fn updates(graph: &Graph, weights: &Arrays, row: &Batch) -> Vec<Run> {
    let mut row = Batch { given: fresh(graph, &[row.row(0).len()]), ..row.clone() };
    let mut all = vec![];
    loop {
        let found = run::<f64>(graph, weights, &row, Halting::Compact);
        for given in &mut row.given {
            given.numbers.clone_from(&found.outputs[&*given.name]);
        }
        let over = found.outputs[OVER] == [1.0];
        all.push(found);
        if over {
            return all;
        }
        assert!(all.len() < 10, "the row never ends");
    }
}

fn example(lengths: &[usize], objective: Objective, seed: u64) -> Batch {
    asking(batch(lengths, VOCAB as u64, CLASSES as u64, seed), objective, seed)
}

#[test]
fn steps_add_up_to_all_of_them() {
    for (text, objective) in CASES {
        let [whole, step] = graphs(text, objective);
        let mut taken = vec![];
        for seed in 0..8 {
            let weights = weights(&whole, seed, 0.5);
            let row = example(&[1 + seed as usize], objective, seed);
            let expected = run::<f64>(&whole, &weights, &row, Halting::Compact);
            let found = updates(&step, &weights, &row);
            let mut sum = Run { outputs: Arrays::new(), gradients: found[0].gradients.clone() };
            for more in &found[1..] {
                for (name, gradient) in &mut sum.gradients {
                    gradient.iter_mut().zip(&more.gradients[name]).for_each(|(sum, more)| *sum += more);
                }
            }
            let loss: f64 = found.iter().map(|found| found.outputs["loss"][0]).sum();
            sum.outputs.insert("loss".to_owned(), vec![loss]);
            let last = found.last().expect("a row takes a step");
            for name in ["logits", "depth"] {
                let same = last.outputs.get(name).cloned();
                sum.outputs.extend(same.map(|numbers| (name.to_owned(), numbers)));
            }
            let outputs = expected.outputs.into_iter().filter(|(name, _)| sum.outputs.contains_key(name)).collect();
            assert_same(text, &sum, &Run { outputs, ..expected }, 1e-12);
            taken.push(last.outputs[TAKEN][0] as usize);
        }
        let most = taken.iter().max();
        assert!(objective == Objective::Classify || taken.iter().min() < most, "all rows take {most:?} steps\n{text}");
    }
}

/// Rows of a batch are in steps of their own, as if each were alone.
#[test]
fn rows_are_in_different_steps() {
    for (text, objective) in CASES {
        let [whole, step] = graphs(text, objective);
        let weights = weights(&whole, 4, 0.5);
        let lengths = [3, 6, 2, 5];
        let all = example(&lengths, objective, 7);
        let alone: Vec<Batch> = (0..lengths.len()).map(|row| one(&all, row)).collect();
        let each: Vec<Vec<Run>> = alone.iter().map(|row| updates(&step, &weights, row)).collect();
        // Row n has taken n steps, or as many as it may.
        let at: Vec<usize> = each.iter().enumerate().map(|(row, steps)| row.min(steps.len() - 1)).collect();
        let mut given = fresh(&step, &lengths);
        for given in &mut given {
            let own = |row: usize| match at[row].checked_sub(1) {
                Some(before) => each[row][before].outputs[&*given.name].clone(),
                None => {
                    fresh(&step, &lengths[row..=row])
                        .into_iter()
                        .find(|g| g.name == given.name)
                        .expect("it is there")
                        .numbers
                }
            };
            given.numbers = (0..lengths.len()).flat_map(own).collect();
        }
        let rows = Batch { given: given.clone(), ..all };
        let found = run::<f64>(&step, &weights, &rows, Halting::Compact);
        for name in given.iter().map(|given| &*given.name).chain([OVER]) {
            let expected: Vec<f64> =
                (0..lengths.len()).flat_map(|row| each[row][at[row]].outputs[name].clone()).collect();
            let distance = rtc_tests::numeric::distance(&found.outputs[name], &expected);
            assert!(distance < 1e-12, "{name} differs by {distance}\n{text}");
        }
    }
}

/// One row of a batch.
fn one(all: &Batch, row: usize) -> Batch {
    use rtc_base::batch::Labels;
    let range = all.offsets[row]..all.offsets[row + 1];
    let labels = match &all.labels {
        Labels::Each { class, weight } => {
            Labels::Each { class: class[range.clone()].to_vec(), weight: weight[range.clone()].to_vec() }
        }
        labels => Labels::Class(vec![labels.classes()[row]]),
    };
    Batch { offsets: vec![0, range.len()], tokens: all.tokens[range].to_vec(), labels, ..all.clone() }
}

/// A batch of rows in different steps.
fn mixed(graph: &Graph, objective: Objective) -> Batch {
    let lengths = [4, 1, 7, 3];
    let mut given = fresh(graph, &lengths);
    for given in &mut given {
        let wave = |n: usize| if &*given.name == TAKEN { (n % 3) as f64 } else { (0.7 * n as f64).sin() };
        given.numbers = (0..given.numbers.len()).map(wave).collect();
    }
    Batch { given, ..example(&lengths, objective, 3) }
}

#[test]
fn memory_changes_no_bit() {
    for (text, objective) in CASES {
        let (spec, binding) = (spec(text, objective), binding(objective));
        let each = EachStep::new(&spec, &binding).expect("it fits");
        let work = LargestBatches {
            training: BatchShape { lengths: vec![7, 4, 3, 1], depth: None },
            evaluation: None,
            fixed_bytes: 0,
            target: MemoryTarget::Processor,
        };
        let graph =
            |limit| plans_within(&each, &binding, &work, limit).expect("it lowers").training.graph.as_ref().clone();
        let (free, least) = (graph(None), graph(Some(0)));
        let (weights, rows) = (weights(&free, 5, 0.5), mixed(&free, objective));
        let [a, b] = [&free, &least].map(|graph| run::<f32>(graph, &weights, &rows, Halting::Compact));
        assert_eq!(a, b, "{text}");
        for halting in [Halting::Batch, Halting::Never] {
            assert_eq!(a.outputs[OVER], run::<f32>(&free, &weights, &rows, halting).outputs[OVER], "{text}");
        }
        assert_eq!(each.numbers(&[4, 1, 7, 3]), rows.given.iter().map(|given| given.numbers.len()).sum::<usize>());
    }
}

#[test]
fn a_device_computes_the_same() {
    let case = |(text, objective): (&str, Objective)| {
        let [_, step] = graphs(text, objective);
        let rows = mixed(&step, objective);
        Case::new(text.lines().find(|line| line.starts_with("model")).unwrap_or(text), step, rows)
    };
    compare(&CASES.into_iter().map(case).collect::<Vec<_>>());
}

#[test]
fn what_has_no_such_meaning_is_refused() {
    let edited = |from: &str, to: &str| {
        assert!(RECURSIVE.contains(from), "`{from}` is gone");
        RECURSIVE.replace(from, to)
    };
    let cases = [
        (
            "        y = stop(y)\n",
            "",
            "`loop`: it hands on `y` with a gradient, which ends with the update; end its step with `y = stop(y)`",
        ),
        ("steps: 4", "steps: min(poisson(3), 5)", "`loop`: the number of steps is drawn"),
        (
            "    state = y\n",
            "    state = y\n    loss average(mean(mean(y)) { over: width })\n",
            "`loop`: a loss behind the loop reads `y`",
        ),
        (
            "    input = state\n",
            "    input = state\n    loss average(number(mean(state)))\n",
            "a loss is paid outside of its loop",
        ),
        (
            "    input = state\n",
            "    input = state + normal(state)\n",
            "`loop`: its steps read what is drawn before it",
        ),
        ("steps: 4\n", "steps: 4\n        grad: 1\n", "several loops pay losses"),
        ("number(mean(y))", "number[step](mean(y))", "goes by the number of the step, and rows are in different steps"),
        ("until sure > -0.2 and", "until number(y) > 0 and", "`loop`: positions leave it one by one"),
    ];
    for (from, to, message) in cases {
        let mut text = edited(from, to);
        if to.contains("grad: 1") {
            text = text.replace("        until sure > -0.2 and step + 1.5 > 2\n", "");
        }
        let spec = spec(&text, Objective::Each);
        let error = EachStep::new(&spec, &binding(Objective::Each)).map(drop).map_err(|e| e.to_string());
        assert!(matches!(&error, Err(found) if found.contains(message)), "`{message}` is not in {error:?}");
    }
    let plain = spec(
        "model plain { embed { width: 8 }\n attend self { heads: 2 }\n readout each { sees: all } }",
        Objective::Each,
    );
    let error = EachStep::new(&plain, &binding(Objective::Each)).map(drop).expect_err("it has no loop");
    assert!(matches!(&error, each_step::Unfit::Model(_)), "{error}");
}
