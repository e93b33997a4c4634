//! What `rtc cost` says against what the executor does: operations that it counts, memory that it takes, steps that it
//! runs one after the other.
#![allow(clippy::print_stdout, reason = "the figures are worth seeing with --nocapture")]

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective, attach_loss};
use rtc_compiler::pipeline::{self, cost::Cost};
use rtc_compiler::plan::memory::{BatchShape, estimate};
use rtc_compiler::plan::plan;
use rtc_exec::Halting;
use rtc_exec::counter::RunCounters;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, differentiated, executor, labelled_tokens, weights};

/// How far counted operations may be from those that are asked for.
const FLOPS: f64 = 0.05;
/// The same for the peak of memory.
const MEMORY: f64 = 0.07;
/// The same for a forward pass in which some rows reach the bound and others stop well before it: the mean depth does not say
/// how many rows are still there when most is held, and as many as can be are counted.
const MIXED: f64 = 0.25;
/// How far counted operations of folds may be where others are exact: the full chunks of a level and its last one are one run
/// of the body, and count as two that add to the gradients of weights.
const LEVELS: f64 = 1e-3;
/// Rows of a batch, and their tokens: no multiple of any chunk.
const ROWS: usize = 8;
const LENGTH: usize = 58;

/// Sizes at which the arrays of a model outweigh the lists that say where they lie.
const SIZES: &[&str] = &[
    "self.heads: 4",
    "embed.width: 64",
    "stack.copies: 3",
    "depthwise.depth: 6",
    "gate.hidden: 128",
    "feedforward.hidden: 128",
    "depthwise.feedforward.hidden: 128",
    "stack.feedforward.hidden: 128",
    "chunkwise.size: 10",
];

/// What one run did: counters, and the peak of the arena.
struct Ran {
    counted: RunCounters,
    peak: u64,
}

fn ran(graph: &Graph, weights: &Arrays, rows: &Batch) -> Ran {
    let mut executor = executor::<f32>(graph, weights, Halting::Compact);
    executor.records.counted = Some(RunCounters::default());
    executor.run(rows, Key::new(1)).expect("the batch fits");
    Ran { counted: executor.records.counted.expect("it was set"), peak: executor.arena().usage().most as u64 }
}

/// The batch of a model, and its graphs: forward pass, training step, training step with everything kept.
fn graphs(model: &Model, objective: Objective, length: usize) -> (Batch, [Graph; 3], Binding) {
    let rows = batch(&[length; ROWS], VOCAB as u64, CLASSES as u64, 5);
    let rows = if objective == Objective::Each { labelled_tokens(rows, 2, 5) } else { rows };
    let binding = binding(objective);
    let stages = [pipeline::inference, pipeline::training, pipeline::optimised];
    (rows, stages.map(|stage| stage(&model.spec, &binding).expect("the spec lowers")), binding)
}

/// Weights whose halting heads, and scorers of what vanishes, add `bias` and answer `gain` times as strongly.
fn shifted(graph: &Graph, bias: f64, gain: f64) -> Arrays {
    let mut weights = weights(graph, 3, 0.05);
    for (name, values) in &mut weights {
        if name.contains(".halt.output.") || name.contains("continuous.score.output.") {
            let shift = if name.ends_with("bias") { bias } else { 0.0 };
            values.iter_mut().for_each(|v| *v = gain * *v + shift);
        }
    }
    weights
}

/// Whether a model searches: beams that are alike share what they join, so the work is at most what the lengths say.
fn searches(model: &Model) -> bool {
    model.spec.root.any(&|block| block.slot == "recurse" && block.variant == "beam")
}

/// How far below that searches and choices are.
const SHARED: f64 = 2.5;

/// Says what is further away than it may be.
fn compare(what: &str, estimate: f64, real: f64, tolerance: f64, faults: &mut Vec<String>) {
    let ratio = if estimate == real { 1.0 } else { estimate / real };
    println!("{what}: {estimate:.0}, really {real:.0}, ratio {ratio:.4}");
    if (ratio - 1.0).abs() > tolerance {
        faults.push(format!("{what}: {estimate:.0} by `rtc cost`, really {real:.0}"));
    }
}

fn check(model: &Model, objective: Objective, (bias, gain): (f64, f64), memory: bool, faults: &mut Vec<String>) {
    let (rows, graphs, binding) = graphs(model, objective, LENGTH);
    let weights = shifted(&graphs[1], bias, gain);
    let [forward, training, kept] = graphs.each_ref().map(|graph| ran(graph, &weights, &rows));
    // Weights that never halt need no mean, which would mix recurrences inside one another.
    let mean = |ran: &Ran| ran.counted.mean_depth().filter(|_| (bias, gain) != RESTLESS);
    let depth = mean(&training);
    let cost = Cost::of(&model.spec, &binding, ROWS, LENGTH).expect("the spec lowers");
    let (eval, step) = (cost.at(ROWS, LENGTH, mean(&forward)), cost.at(ROWS, LENGTH, depth));
    let name = format!("{} at depth {}", model.name, depth.map_or("of the bound".to_owned(), |d| format!("{d:.2}")));
    // Memory is estimated, and operations where nothing says how many are chosen, as if all positions were.
    let searches = searches(model) || model.chooses();
    let mut one = |what: &str, estimate: f64, real: f64, tolerance: f64| {
        let shared = searches && estimate > real && estimate < SHARED * real;
        compare(&format!("{name}, {what}"), estimate, real, if shared { SHARED } else { tolerance }, faults);
    };
    let peak = if (bias, gain) == SPREAD { MIXED } else { MEMORY };
    one("forward", eval.forward, forward.counted.flops, FLOPS);
    one("training", step.training, kept.counted.flops, FLOPS);
    one("again", step.again, training.counted.flops - kept.counted.flops, FLOPS);
    if memory {
        one("forward memory", eval.forward_memory.activations as f64, forward.peak as f64, peak);
        one("training memory", step.training_memory.activations as f64, training.peak as f64, MEMORY);
    }
}

/// Recurrences that run to their bound.
const RESTLESS: (f64, f64) = (-30.0, 1.0);
/// Whether its work is known before: a loop is left by a condition, whatever its biases are, and a drawn number of steps is not the one
/// that is expected. Of a token's own depth (`mor`) all steps are counted.
fn runs_on(model: &Model) -> bool {
    !model.leaves() && !model.draws() && !model.name.starts_with("mor")
}

/// Rows that halt after different depths, some of them at the bound.
const SPREAD: (f64, f64) = (1.0, 8.0);

#[test]
fn costs_are_what_the_executor_does() {
    let mut faults = vec![];
    for model in models::of_turn(models::all(Objective::Classify, SIZES)).into_iter().filter(runs_on) {
        check(&model, Objective::Classify, RESTLESS, true, &mut faults);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn costs_follow_the_mean_depth() {
    let mut faults = vec![];
    let mut models = models::all(Objective::Classify, SIZES);
    // Recurrences in one another have means of their own.
    models.retain(|model| model.halts() && !model.name.starts_with("nested") && !model.fades());
    models.extend(["crvnn", "crvnn:gru"].map(|name| models::one("crvnn.rt", name, Objective::Classify, SIZES)));
    for model in &models::of_turn(models) {
        for head in [SPREAD, (2.0, 8.0)] {
            check(model, Objective::Classify, head, true, &mut faults);
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn costs_of_causal_models_count_what_a_token_may_see() {
    let mut faults = vec![];
    for model in models::of_turn(models::telling(Objective::Each, SIZES)).into_iter().filter(runs_on) {
        check(&model, Objective::Each, RESTLESS, false, &mut faults);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Rows that are shorter than the bound, and last chunks that are: `cap: length` sends them away after their length + 1 steps.
#[test]
fn costs_know_the_cap_of_short_rows_and_of_short_last_chunks() {
    let mut faults = vec![];
    let mut models = models::all(Objective::Classify, SIZES);
    models.retain(Model::halts);
    for model in &models {
        for length in [1, 3, 13] {
            let (rows, graphs, binding) = graphs(model, Objective::Classify, length);
            let weights = shifted(&graphs[1], RESTLESS.0, RESTLESS.1);
            let [forward, training, kept] = graphs.each_ref().map(|graph| ran(graph, &weights, &rows));
            let cost = Cost::of(&model.spec, &binding, ROWS, length).expect("the spec lowers");
            let figures = cost.at(ROWS, length, None);
            let given = |name: &str| match name {
                "B" => Some(ROWS as f64),
                "n" => Some(length as f64),
                "depth" => Some(f64::INFINITY),
                "vocab" => Some(VOCAB as f64),
                "classes" => Some(CLASSES as f64),
                _ => None,
            };
            let mut one = |what: &str, estimate: f64, real: f64, tolerance: f64| {
                compare(&format!("{}, {length} tokens, {what}", model.name), estimate, real, tolerance, &mut faults);
            };
            // The formula of a fold knows the mean of its last chunks alone.
            let (steps, formula) = if model.folds() { (LEVELS, FLOPS) } else { (1e-9, 1e-9) };
            one("forward", figures.forward, forward.counted.flops, 1e-9);
            one("training", figures.training, kept.counted.flops, steps);
            one("again", figures.again, training.counted.flops - kept.counted.flops, steps);
            one("formula", cost.forward.value(&given), figures.forward, formula);
            if length > 10 {
                one("training memory", figures.training_memory.activations as f64, training.peak as f64, MEMORY);
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The rules themselves, by hand: the transformer of the paper, products and attention alone.
#[test]
fn a_transformer_costs_what_the_textbook_says() {
    let model = models::one("transformer.rt", "transformer", Objective::Classify, SIZES);
    let cost = Cost::of(&model.spec, &binding(Objective::Classify), ROWS, LENGTH).expect("the spec lowers");
    let (n, d, h, layers) = ((LENGTH + 2) as f64, 64.0, 128.0, 3.0);
    let layer = 2.0 * n * (4.0 * d * d + 2.0 * d * h) + 4.0 * n * n * d;
    let figures = cost.at(ROWS, LENGTH, None);
    let ratio = figures.forward / (ROWS as f64 * layers * layer);
    assert!((1.0..1.08).contains(&ratio), "norms, activations and the head cost the rest: {ratio}");
    let ratio = figures.training / figures.forward;
    assert!((2.9..3.2).contains(&ratio), "a gradient for the input and one for the weight: {ratio}");
    assert_eq!(figures.depth, 2.0 * layers + 1.0);
    let parameters = layers * (4.0 * d * d + 2.0 * d * h + h + d + 4.0 * d);
    let head = d * d + d + (d + 1.0) * CLASSES as f64;
    assert_eq!((figures.parameters, figures.embedding), (parameters + head, d * (VOCAB as f64 + 2.0)));
}

/// Heads that share keys have scores of their own, so the operations stay; the estimate of memory sees how wide keys are.
#[test]
fn shared_keys_cost_the_same_operations_and_their_own_memory() {
    let (model, bound) =
        (models::one("transformer.rt", "transformer", Objective::Classify, SIZES), binding(Objective::Classify));
    let mut graph = pipeline::forward(&model.spec, &bound).expect("the spec lowers");
    attach_loss(&mut graph, &bound).expect("the spec has a loss");
    let rows = batch(&[LENGTH; ROWS], VOCAB as u64, CLASSES as u64, 5);
    let both = [graph.clone(), models::with_shared_keys(&graph)].map(|graph| {
        let graph = differentiated(&graph);
        let ran = ran(&graph, &weights(&graph, 1, 0.5), &rows);
        let guess = estimate(&plan(graph), &BatchShape::even(ROWS, LENGTH)).activations as f64;
        assert!((guess / ran.peak as f64 - 1.0).abs() < MEMORY, "{guess} estimated, {} taken", ran.peak);
        ran.counted.flops
    });
    assert_eq!(both[0], both[1]);
}

/// Heads that talk mix the numbers of every query and key twice, and six more times backward.
#[test]
fn talking_heads_cost_their_mixtures() {
    let cost = |talking: &str| {
        let fields = format!("heads: 4, mask: past{talking}");
        let text = format!("model m {{\nembed {{ width: 64 }}\nattend self {{ {fields} }}\nreadout mean\n}}\n");
        Cost::of(&models::parse(&text), &binding(Objective::Classify), ROWS, LENGTH)
            .expect("the spec lowers")
            .at(ROWS, LENGTH, None)
    };
    let (plain, talking) = (cost(""), cost(", talking: true"));
    let pairs = (ROWS * LENGTH * (LENGTH + 1) / 2) as f64;
    assert_eq!(talking.forward - plain.forward, pairs * 2.0 * 2.0 * 16.0);
    assert_eq!(talking.parameters - plain.parameters, 2.0 * 16.0);
    assert_eq!(talking.training - plain.training, pairs * 8.0 * 2.0 * 16.0 + 2.0 * 16.0);
}

/// What is computed for chosen positions falls with their number, by the executor and by the estimate; what is computed for all stays.
#[test]
fn chosen_positions_alone_are_paid_for() {
    let of = |count: &str, body: &str| {
        let text = format!(
            "def f(x) {{\n out linear(gelu(linear(x) {{ to: 256 }}))\n}}\nmodel m {{\nembed {{ width: 64 }}\nchosen = top(mean(state) {{ over: width }}) {{ of: {count} }}\nstate = {body}\nreadout mean\n}}\n"
        );
        let model = Model { name: count.to_owned(), spec: models::parse(&text) };
        let (rows, graphs, binding) = graphs(&model, Objective::Classify, 64);
        let weights = weights(&graphs[1], 3, 0.5);
        let [forward, _, training] = graphs.each_ref().map(|graph| ran(graph, &weights, &rows).counted.flops);
        let cost = Cost::of(&model.spec, &binding, ROWS, 64).expect("the spec lowers").at(ROWS, 64, None);
        for (estimate, real) in [(cost.forward, forward), (cost.training, training)] {
            assert!((estimate / real - 1.0).abs() < FLOPS, "{count}: {estimate} estimated, {real} counted");
        }
        [forward, training]
    };
    let among = "among(chosen, state + f(state), state)";
    let [all, half, quarter, none] =
        ["length", "floor(length / 2)", "floor(length / 4)", "1"].map(|count| of(count, among));
    let dense = of("floor(length / 4)", "when(chosen, state + f(state), state)");
    for n in 0..2 {
        // One position of 64 is always chosen.
        let whole = (all[n] - none[n]) / (63.0 / 64.0);
        for (part, share) in [(half[n], 0.5), (quarter[n], 0.25)] {
            let paid = (part - none[n]) / whole + 1.0 / 64.0;
            assert!((paid - share).abs() < 1e-9, "{paid} of the operations for {share} of the positions");
        }
        assert!(quarter[n] < 0.35 * dense[n], "{} of {}", quarter[n], dense[n]);
    }
}

/// A tape of the last 8 of 64 steps takes the memory of a loop of 8 steps with all of its tape.
#[test]
fn steps_before_the_last_ones_keep_no_tape() {
    let peak = |steps: u64, grad: &str| {
        let text = format!(
            "def f(x) {{
                up = linear(norm(x)) {{ to: 256 }}
                out x + linear(gelu(up))
            }}
            model m {{
                embed {{ width: 64 }}
                loop {{
                    steps: {steps}
                    grad: {grad}
                    carry y = zeros(state)
                    y = f(y + state)
                }}
                state = y
                readout mean
            }}"
        );
        let model = Model { name: format!("{grad} of {steps}"), spec: models::parse(&text) };
        let (rows, graphs, _) = graphs(&model, Objective::Classify, 64);
        ran(&graphs[2], &weights(&graphs[2], 3, 0.1), &rows).peak as f64
    };
    let (last, alone, all) = (peak(64, "8"), peak(8, "all"), peak(64, "all"));
    assert!((last / alone - 1.0).abs() < 0.01, "{last} bytes with the last 8 of 64 steps, {alone} with 8 steps");
    assert!(all > 6.0 * last, "{all} bytes with all of 64 steps, {last} with the last 8");
}

#[test]
fn formulas_of_memory_give_what_the_walk_takes() {
    for model in models::all(Objective::Classify, SIZES) {
        let cost = Cost::of(&model.spec, &binding(Objective::Classify), ROWS, LENGTH).expect("the spec lowers");
        let figures = cost.at(ROWS, LENGTH, None);
        let given = |name: &str| match name {
            "B" => Some(ROWS as f64),
            "n" => Some(LENGTH as f64),
            "depth" => Some(f64::INFINITY),
            _ => None,
        };
        for (formula, walked) in [
            (&cost.forward_memory, figures.forward_memory.activations),
            (&cost.training_memory, figures.training_memory.activations),
        ] {
            let ratio = formula.value(&given) / walked as f64;
            let most = if model.folds() { 1.03 } else { 1.001 };
            assert!((0.97..=most).contains(&ratio), "{}: {formula} is {ratio} of {walked}", model.name);
        }
    }
}

/// Steps of loops in sequence by the executor, and the layers of the formula.
#[test]
fn sequential_depth_counts_steps() {
    let depth = |file: &str, name: &str| {
        let model = models::one(file, name, Objective::Classify, SIZES);
        let (rows, graphs, binding) = graphs(&model, Objective::Classify, LENGTH);
        let ran = ran(&graphs[0], &shifted(&graphs[1], RESTLESS.0, RESTLESS.1), &rows);
        let cost = Cost::of(&model.spec, &binding, ROWS, LENGTH).expect("the spec lowers");
        (ran.counted.steps as f64, cost.at(ROWS, LENGTH, None).depth, cost.depth.to_string())
    };
    // Self-attention and feed-forward in every step, then the last halting decision and the head.
    let (steps, layers, _) = depth("gut.rt", "gut");
    assert_eq!((steps, layers), (6.0, 2.0 * steps + 2.0));
    assert_eq!(depth("gut.rt", "no_halt").1, 2.0 * steps + 1.0);
    // Six chunks of three layers each per copy, two of the update, less the self-attention that need not wait for the memory.
    let (steps, layers, formula) = depth("tlb.rt", "tlb");
    assert_eq!((steps, layers), (6.0, 10.0 * steps + 2.0), "{formula}");
    let (steps, layers, formula) = depth("gutlb.rt", "gutlb");
    assert_eq!((steps, layers), (6.0 + 36.0, 3.0 * 36.0 + 2.0 * 6.0 + 2.0), "{formula}");
}

/// Long rows of a search are not walked step by step: their memory is extended from shorter ones, and about right.
#[test]
fn the_memory_of_long_searches_is_extended_from_shorter_ones() {
    let mut faults = vec![];
    for model in models::all(Objective::Classify, SIZES).into_iter().filter(searches) {
        let binding = binding(Objective::Classify);
        let cost = Cost::of(&model.spec, &binding, 1, LENGTH).expect("the spec lowers");
        let length = cost.walked * 3 / 2;
        let figures = cost.at(1, length, None);
        assert!(figures.extended && !cost.at(1, LENGTH, None).extended);
        let training = plan(pipeline::training(&model.spec, &binding).expect("the spec lowers"));
        let walked = estimate(&training, &BatchShape::even(1, length));
        let pairs = [
            ("values", figures.training_memory.activations, walked.activations),
            ("lists", figures.training_memory.lists, walked.lists),
        ];
        for (what, extended, walked) in pairs {
            compare(&format!("{}, {what}", model.name), extended as f64, walked as f64, MEMORY, &mut faults);
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
