//! Models whose depth comes with the examples: step by step, rules to stop, and next tokens decoded one by one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use rtc_base::batch::Batch;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_compiler::spec::Spec;
use rtc_exec::learner::{Evaluation, Learner, UpdateRule};
use rtc_exec::model::Model;
use rtc_task::TaskSettings;
use rtc_task::batching::collect;
use rtc_task::{Example, ExampleTarget, OptionValue, Scale, load_split, task_named};
use rtc_tests::models;
use rtc_train::stopping::{BySteps, Stop, Stopped, evaluate_stopping};
use rtc_train::{Measurement, Silent, evaluate};

const CLASSES: usize = 6;

/// The looped model at a small size, and others that take their depth from the examples.
fn specs() -> [Spec; 4] {
    let body = "attend self { heads: 2, mask: past }\n feedforward { hidden: 12 }\n";
    let model = |layers: &str| {
        models::parse(&format!(
            "model m {{\n embed {{ width: 8, init: 0.5 }}\n {layers}\n readout each {{ sees: all }}\n}}"
        ))
    };
    [
        model(&format!("recur depthwise {{\n depth: given, start: zero\n inject add\n {body} norm\n }}")),
        model(&format!("recur depthwise {{\n depth: given\n {body} }}")),
        // What follows can't go on from the step before.
        model(&format!(
            "recur depthwise {{\n depth: given\n {body} }}\n recur depthwise {{\n depth: given\n {body} }}"
        )),
        model(&format!("recur depthwise {{\n depth: given\n halt token {{ cost: 0.0 }}\n {body} }}")),
    ]
}

fn model(spec: &Spec) -> Model<f32> {
    let binding = Binding { vocab: Some(CLASSES), classes: Some(CLASSES), objective: Objective::Each };
    let (training, inference) = pipeline::plans(spec, &binding).expect("it compiles");
    Model::new(training, inference, binding, 5)
}

fn examples(task: &str, split: &str, count: usize, options: &[(&str, u64)]) -> Vec<Example> {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), OptionValue::Integer(*value))).collect();
    let sizes = BTreeMap::from([(split.to_owned(), count)]);
    let settings = TaskSettings { name: task.to_owned(), options, sizes, seed: 1, ..TaskSettings::default() };
    load_split(&settings, split).expect("generated")
}

fn packed(examples: &[Example]) -> Batch {
    let examples: Vec<&Example> = examples.iter().collect();
    let width = examples.iter().map(|example| example.length()).max().unwrap_or(0);
    collect(&examples, width)
}

fn learned(model: &mut Model<f32>, batches: impl Iterator<Item = Batch>) {
    let rule = UpdateRule { learning_rate: 0.02, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, ..UpdateRule::ADAMW };
    for batch in batches {
        model.accumulate(&batch, 1.0).expect("finite");
        model.update(&rule).expect("finite");
    }
}

#[test]
fn a_step_after_the_other_gives_the_bits_of_as_many_steps_at_once() {
    let batch = packed(&examples("looped_copy", "1-5", 10, &[]));
    for (n, spec) in specs().iter().enumerate() {
        let mut model = model(spec);
        let steps = model.by_step(&batch, 7).expect("finite");
        assert_eq!(steps.len(), 7);
        for (at, after) in steps.iter().enumerate() {
            model.set_depth(Some(at + 1));
            let whole = model.evaluate(&batch).expect("finite");
            assert_eq!(after.evaluation, whole, "model {n} after {} steps", at + 1);
            let sum: f64 = after.losses.iter().sum();
            assert!((sum - whole.loss_sum).abs() < 1e-4 * whole.loss_sum, "{sum} {}", whole.loss_sum);
        }
        model.set_depth(None);
        assert_ne!(steps[0].evaluation.confidence, steps[6].evaluation.confidence, "model {n}: steps change something");
        let again = model.by_step(&batch, 7).expect("finite");
        assert_eq!(again, steps, "model {n}: nothing is left from the first time");
    }
}

fn stopped(model: &mut Model<f32>, examples: &[Example], rule: Stop, beyond: usize) -> Stopped {
    let metrics = task_named("looped_copy").expect("it exists").about().metrics;
    let measurement = Measurement {
        split: "s",
        examples,
        batch: 5,
        metrics,
        scale: Scale::default(),
        perplexity: false,
        asked: vec![],
        classes: vec![],
        each_class: false,
    };
    let found = evaluate_stopping(model, measurement, (rule, beyond), &AtomicBool::new(false), &mut Silent);
    found.expect("finite").expect("not stopped")
}

/// The mean of `-log max p` over the scored answers.
fn unsure(examples: &[Example], evaluation: &Evaluation) -> f64 {
    let weights = examples.iter().flat_map(|example| example.asked().into_iter().map(|(_, weight)| weight));
    let scored = evaluation.confidence.iter().zip(weights).filter(|(_, weight)| *weight > 0.0);
    let (sum, count) = scored.fold((0.0, 0.0), |(sum, count), (p, _)| (sum - p.ln(), count + 1.0));
    sum / count
}

/// The step, from 1, after which a model is surest, by running it anew for every number of steps.
fn surest(model: &mut Model<f32>, examples: &[Example], most: usize) -> usize {
    let mut best = (f64::INFINITY, 0);
    for steps in 1..=most {
        model.set_depth(Some(steps));
        let found = unsure(examples, &model.evaluate(&packed(examples)).expect("finite"));
        if found < best.0 {
            best = (found, steps);
        }
    }
    model.set_depth(None);
    best.1
}

#[test]
fn rules_to_stop_choose_what_their_definitions_say() {
    let mut model = model(&specs()[0]);
    learned(&mut model, (0..30).map(|_| packed(&examples("looped_copy", "1-3", 12, &[]))));
    let found = examples("looped_copy", "2-4", 24, &[]);
    let metrics = task_named("looped_copy").expect("it exists").about().metrics;
    let measurement = Measurement {
        split: "s",
        examples: &found,
        batch: 5,
        metrics,
        scale: Scale::default(),
        perplexity: false,
        asked: vec![],
        classes: vec![],
        each_class: false,
    };
    let plain = evaluate(&mut model, measurement, &AtomicBool::new(false), &mut Silent).expect("finite").expect("all");
    let oracle = stopped(&mut model, &found, Stop::Oracle, 3);
    assert_eq!(oracle.row.mean_depth, Some(3.0), "lengths 2, 3 and 4 in turn");
    assert_eq!((oracle.row.accuracy, &oracle.row.lengths), (plain.accuracy, &plain.lengths));
    assert_eq!(oracle.row.metrics, plain.metrics);
    assert!((oracle.row.loss - plain.loss).abs() < 1e-5);

    let (together, alone) =
        (stopped(&mut model, &found, Stop::Confidence, 3), stopped(&mut model, &found, Stop::Sample, 3));
    assert_eq!((&together.steps, &alone.steps), (&oracle.steps, &oracle.steps), "the table knows no rule");
    let (mut all_steps, mut own_steps, mut differ) = (0, 0, false);
    for length in 2..=4 {
        let group: Vec<Example> = found.iter().filter(|e| e.size == Some(length)).cloned().collect();
        let most = length as usize + 3;
        let rows: Vec<_> = oracle.steps.iter().filter(|row| row.length == length as usize).collect();
        assert_eq!(rows.iter().map(|row| row.steps).collect::<Vec<_>>(), (1..=most).collect::<Vec<_>>());
        let at = surest(&mut model, &group, most);
        assert_eq!(rows.iter().filter(|row| row.surest).map(|row| row.steps).collect::<Vec<_>>(), [at]);
        assert!(rows.iter().all(|row| (row.due == 8) == (row.steps == length as usize)));
        let row = together.row.lengths.iter().find(|row| row.length == length as usize).expect("measured");
        assert_eq!((row.accuracy, &row.metrics), (rows[at - 1].accuracy, &rows[at - 1].metrics));
        all_steps += at * group.len();
        for example in &group {
            let own = surest(&mut model, std::slice::from_ref(example), most);
            own_steps += own;
            differ |= own != at;
        }
    }
    assert_eq!(together.row.mean_depth, Some(all_steps as f64 / 24.0));
    assert_eq!(alone.row.mean_depth, Some(own_steps as f64 / 24.0));
    assert!(differ, "the rules differ in this case");
}

/// What a model writes behind the query, the likeliest token each time, until `end`.
fn decoded(model: &mut Model<f32>, query: &[u32], end: u32, most: usize) -> Vec<u32> {
    let mut tokens = query.to_vec();
    while tokens.len() < query.len() + most {
        let label = ExampleTarget::Each { class: vec![0; tokens.len()], weight: vec![1.0; tokens.len()] };
        let example = Example { label, ..Example::classified(tokens.clone(), 0) };
        let found = model.evaluate(&packed(&[example])).expect("finite");
        let next = *found.predictions.last().expect("one per token");
        tokens.push(next);
        if next == end {
            break;
        }
    }
    tokens.split_off(query.len())
}

#[test]
fn next_tokens_are_all_right_where_greedy_decoding_is() {
    const END: u32 = 3;
    let body = "attend self { heads: 2 }\n feedforward { hidden: 24 }\n";
    let text = format!("model m {{\n embed {{ width: 16, init: 0.5 }}\n stack 2 {{\n {body} }}\n readout each\n}}");
    let mut model = model(&models::parse(&text));
    let options = [("next_token", 1), ("pause", 1)];
    learned(&mut model, (0..60).map(|_| packed(&examples("looped_copy", "1-3", 24, &options))));
    let metric = task_named("looped_copy").expect("it exists").about().metrics[0];
    let (mut right, mut wrong) = (0, 0);
    for example in examples("looped_copy", "1-4", 40, &options) {
        let ExampleTarget::Each { class, weight } = &example.label else { panic!("one per token") };
        let first = weight.iter().position(|weight| *weight > 0.0).expect("an answer");
        let found = model.evaluate(&packed(std::slice::from_ref(&example))).expect("finite");
        let exact = (metric.count)(&example, &found.predictions).right == 1;
        let answer = decoded(&mut model, &example.tokens[..=first], END, class.len() - first + 2);
        assert_eq!(answer == class[first..], exact, "{:?}", example.tokens);
        *if exact { &mut right } else { &mut wrong } += 1;
    }
    assert!(right > 0 && wrong > 0, "some are learned and some are not: {right} right, {wrong} wrong");
}
