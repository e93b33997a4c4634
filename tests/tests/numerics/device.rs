//! The kernels and the executor of a GPU against those of the CPU, on an emulated device: every op, every loop, every spec.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective, attach_loss};
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_compiler::spec::Spec;
use rtc_cuda::device::{Device, KernelTarget};
use rtc_cuda::driver::Gpu;
use rtc_cuda::{Launching, generated};
use rtc_exec::learner::{FlatArrays, Learner, Lookahead, MuonStep, OptimiserKind, UpdateRule};
use rtc_exec::model::Backend;
use rtc_exec::storage::Element;
use rtc_exec::{Halting, StateTrace};
use rtc_kernel::Precision;
use rtc_task::Example;
use rtc_tests::emulated::{Emulated, Kernels, Options};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, KEY, Run, asking, assert_same, batch, differentiated, executor, executor_on, formula, graph, run, run_on,
    untied, weights,
};
use rtc_train::examine::Examined;

use rtc_tests::numeric::differences;
use rtc_tests::turn::Turn;

use super::device_work::in_parallel;
use super::{draws, gradients};

/// A graph with a batch, and how halted rows are treated.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) graph: Graph,
    pub(super) weights: Arrays,
    pub(super) batch: Batch,
    pub(super) halting: Halting,
}

impl Case {
    pub(super) fn new(name: impl Into<String>, graph: Graph, batch: Batch) -> Self {
        let weights = weights(&graph, 1, 0.7);
        Self { name: name.into(), graph, weights, batch, halting: Halting::Compact }
    }
}

/// A device on which memory is NaN whenever it is handed out.
pub(super) fn emulated(kernels: &Arc<Kernels>) -> Rc<dyn Device> {
    Rc::new(Emulated::with(kernels.clone(), Options { watches: true, ..Options::default() }))
}

/// An executor on a device with the weights of a case.
fn loaded<T: Element>(case: &Case, device: Rc<dyn Device>) -> rtc_cuda::DeviceExecutor<T> {
    executor_on(&case.graph, &case.weights, case.halting, device)
}

/// What a device makes of a case.
pub(super) fn on_device<T: Element>(case: &Case, device: Rc<dyn Device>) -> Run {
    run_on::<T>(&case.graph, &case.weights, &case.batch, case.halting, device)
}

/// The kernels for some graphs on the host; nothing where there is no compiler.
pub(super) fn kernels<'g>(real: &str, graphs: impl IntoIterator<Item = &'g Graph>) -> Option<Arc<Kernels>> {
    kernels_for(real, graphs, KernelTarget::default())
}

/// The same for a device that they are made for.
pub(super) fn kernels_for<'g>(
    real: &str,
    graphs: impl IntoIterator<Item = &'g Graph>,
    target: KernelTarget,
) -> Option<Arc<Kernels>> {
    let made = graphs.into_iter().flat_map(|graph| generated(&plan(graph.clone()), target));
    let made: BTreeSet<_> = made.chain([rtc_cuda::update_kernel(&formula())]).collect();
    let kernels = Kernels::compile(real, &made);
    if kernels.is_none() {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
    }
    kernels
}

/// Compares all cases with the CPU: in double precision to the rounding of sums, in single precision to that of activations.
pub(super) fn compare(cases: &[Case]) {
    let graphs = || cases.iter().map(|case| &case.graph);
    let (Some(double), Some(single)) = (kernels("double", graphs()), kernels("float", graphs())) else { return };
    for case in cases {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        assert_same(&case.name, &on_device::<f64>(case, emulated(&double)), &exact, 1e-10);
        assert_same(&case.name, &on_device::<f32>(case, emulated(&single)), &exact, 2e-3);
    }
}

/// A training step with every op and every loop.
pub(super) fn all_ops() -> Vec<Case> {
    let graphs = gradients::all().into_iter();
    graphs.map(|(name, graph, batch, _)| Case::new(name, differentiated(&graph), batch)).collect()
}

pub(super) fn training(model: &models::Model, objective: Objective) -> Graph {
    pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

pub(super) fn example(lengths: &[usize], objective: Objective) -> Batch {
    drawn(lengths, objective, 3)
}

fn drawn(lengths: &[usize], objective: Objective, seed: u64) -> Batch {
    let depths = (0..lengths.len() as u32).map(|row| 1 + (2 * row + 2) % 5).collect();
    let rows = Batch { depths: Some(depths), ..batch(lengths, VOCAB as u64, CLASSES as u64, seed) };
    asking(rows, objective, seed)
}

/// A training step of the models at a small size, with heads that let rows halt at different steps.
pub(super) fn all_specs() -> Vec<Case> {
    let mut cases = vec![];
    for objective in [Objective::Classify, Objective::Each] {
        for model in models::telling(objective, &[]) {
            let graph = training(&model, objective);
            let mut weights = weights(&graph, 3, 0.4);
            for (name, values) in weights.iter_mut().filter(|(name, _)| name.contains(".halt.output.")) {
                let shift = if name.ends_with("bias") { -1.0 } else { 0.0 };
                values.iter_mut().for_each(|value| *value = 4.0 * *value + shift);
            }
            let batch = untied(&graph, |seed| drawn(&[7, 1, 4, 12, 2], objective, seed));
            cases.push(Case { weights, ..Case::new(model.name, graph, batch) });
        }
    }
    cases
}

/// A training step with each mask and bias of the library, and with some that see more than distances.
pub(super) fn all_masks() -> Vec<Case> {
    let case = |(n, fields): (usize, &&str)| {
        let graph = pipeline::training(&masked(fields), &binding(Objective::Classify));
        masked_case(n, fields, graph.unwrap_or_else(|e| panic!("{fields}: {e}")))
    };
    MASKS.iter().enumerate().map(case).collect()
}

/// The same with keys that heads share, capped scores, and rotated halves.
pub(super) fn all_masks_with_shared_keys() -> Vec<Case> {
    let case = |(n, fields): (usize, &&str)| {
        let bound = binding(Objective::Classify);
        let mut graph = pipeline::forward(&masked(fields), &bound).unwrap_or_else(|e| panic!("{fields}: {e}"));
        attach_loss(&mut graph, &bound).unwrap_or_else(|e| panic!("{fields}: {e}"));
        masked_case(n, fields, differentiated(&models::with_shared_keys(&graph)))
    };
    MASKS.iter().enumerate().map(case).collect()
}

fn masked(fields: &str) -> Spec {
    models::parse(&format!(
        "use \"lib/masks.rt\"\nmask late(w) = i % w <= j and (j <= i or length - j < 2)\n\
         bias corner = learn_c[head, min(j, 2)] / (1 + i) + 0.25 * max(0.1 * (i - j), learn_d[step % 3])\n\
         model m {{ embed {{ width: 8 }}\n recur depthwise {{ depth: 4\n\
         attend self {{ heads: 2, {fields} }}\n feedforward {{ hidden: 6, activation: gelu_tanh }} }}\n readout mean }}"
    ))
}

fn masked_case(n: usize, fields: &str, graph: Graph) -> Case {
    let mut case = Case::new(fields, graph, example(&[7, 1, 4, 12, 2, [40, 33][n % 2]], Objective::Classify));
    // Slopes of a power stay in their range.
    case.weights.values_mut().flatten().for_each(|value| *value = value.clamp(-0.9, 0.9));
    case
}

/// Masks, biases and positions of an attention.
const MASKS: &[&str] = &[
    "mask: causal, dropout: 0.2",
    "mask: window(3)",
    "mask: window(20), bias: alibi(2)",
    "mask: block(4)",
    "mask: block(4), bias: kerple_log, bias_init: uniform",
    "mask: sliding_dilated(2), bias: hops(2)",
    "mask: sliding_dilated(3), bias: hops(3), dropout: 0.3",
    "mask: prefix(2)",
    "mask: past, bias: t5",
    "mask: past, bias: kerple_log, bias_init: uniform",
    "mask: past, bias: kerple_power, bias_init: uniform",
    "mask: late(3)",
    "mask: late(3), bias: corner",
    "bias: corner, dropout: 0.2",
    "position: relative_xl, mask: window(3)",
    "position: relative_xl, mask: block(4), bias: corner",
    "position: relative_xl, mask: past, bias: t5",
    "position: relative_xl, mask: segment_and_memory(4, 3), stop: earlier_segments(4), dropout: 0.2",
    "position: rope, mask: past, stop: i - j > step",
    "mask: late(3), bias: corner, stop: j % 2 == head",
    "stop: all",
    "talking: true, mask: past, dropout: 0.2",
    "talking: true, mask: sliding_dilated(3), bias: hops(3), dropout: 0.3",
    // Parts without a number for some pairs; one bias has none for learned numbers near 0.25.
    "mask: not (log(i - j) < 1.2)",
    "mask: log(i - j) < 1.0 or j >= i",
    "mask: (i - j)^0.5 != 1.0 and j % (i - 3) <= 2",
    "mask: past, bias: 2^(j - i)",
    "mask: j < 0, bias: learn[head]",
    "mask: past, bias: log(100 * (learn[head] - 0.25)^2 - 4)",
    "mask: late(3), bias: log(head + 9 - step) * (1 + j)",
    "talking: true, mask: late(3), bias: corner",
    "talking: true, position: relative_xl, mask: block(4), bias: corner",
    // Scores that are more than a bound and a bias; one has no number for some pairs.
    "mask: past, score: scalable",
    "mask: late(3), score: tanh(score) * learn_a[head, min(j, 2)] + sigmoid(score) * learn_b[step % 3], dropout: 0.2",
    "position: relative_xl, mask: block(4), score: score / sqrt(1 + score^2), dropout: 0.2",
    "score: exp(0.3 * score) + 0.1 * (i - j), stop: i - j > step",
    "mask: past, score: log(100 * (score - learn[head] + 1.25)^2 - 4)",
];

#[test]
fn ops_and_loops_agree_with_the_cpu() {
    compare(&all_ops());
}

/// Draws are made of operations that every machine rounds alike.
#[test]
fn draws_have_the_bits_of_the_cpu() {
    let graph = graph(draws::DRAWS);
    let mut inferred = graph.clone();
    rtc_compiler::pass::inference::run(&mut inferred);
    for graph in [graph, inferred] {
        let case = Case::new("draws", graph, batch(&[7, 1, 4, 12, 2], 7, 2, 3));
        let Some(kernels) = kernels("float", [&case.graph]) else { return };
        let host = run::<f32>(&case.graph, &case.weights, &case.batch, case.halting);
        assert_eq!(on_device::<f32>(&case, emulated(&kernels)).outputs, host.outputs);
    }
}

#[test]
fn masks_and_biases_agree_with_the_cpu() {
    compare(&all_masks());
}

#[test]
fn shared_keys_and_capped_scores_agree_with_the_cpu() {
    compare(&all_masks_with_shared_keys());
}

/// Answers that are numbers or several labels: a training step, and what a model that is evaluated there says.
#[test]
fn numbers_and_labels_agree_with_the_cpu() {
    for objective in [Objective::Number, Objective::Several] {
        let model = models::one("gut.rt", "gut", objective, &[]);
        let batch = example(&[7, 1, 4], objective);
        let case = Case::new(format!("{objective:?}"), training(&model, objective), batch.clone());
        compare(&[case]);
        let plans = || pipeline::plans(&model.spec, &binding(objective)).expect("it lowers");
        let (first, second) = plans();
        let Some(kernels) = kernels("double", [&*first.graph, &*second.graph]) else { return };
        let mut host = rtc_exec::model::Model::<f64>::new(first, second, binding(objective), 5);
        let (training, inference) = plans();
        let device = emulated(&kernels);
        let mut ours = rtc_cuda::model::<f64>(training, inference, binding(objective), 5, device).expect("it fits");
        for learner in [&mut host as &mut dyn Learner, &mut ours] {
            learner.accumulate(&batch, 1.0).expect("it fits");
            learner.update(&UpdateRule { learning_rate: 0.01, ..UpdateRule::ADAMW }).expect("finite");
        }
        let [host, ours] =
            [&mut host as &mut dyn Learner, &mut ours].map(|model| model.evaluate(&batch).expect("finite"));
        assert!((host.loss_sum - ours.loss_sum).abs() < 1e-9, "{host:?} {ours:?}");
        assert_eq!((host.correct, host.scored, &host.predictions), (ours.correct, ours.scored, &ours.predictions));
        let far = |a: &[f64], b: &[f64]| a.len() != b.len() || a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-9);
        assert!(!far(&host.numbers, &ours.numbers) && !far(&host.confidence, &ours.confidence), "{host:?} {ours:?}");
        let of_rows =
            if objective == Objective::Number { host.numbers.len() } else { host.predictions.len() / CLASSES };
        assert_eq!(of_rows, 3);
    }
}

/// A batch after one step more each time, and rows whose depth comes with them.
#[test]
fn given_depths_agree_with_the_cpu() {
    let graph =
        training(&models::one("looped.rt", "looped", Objective::Each, &["depthwise.depth: given"]), Objective::Each);
    let case =
        Case { weights: weights(&graph, 3, 0.4), ..Case::new("looped", graph, example(&[7, 1, 4], Objective::Each)) };
    let Some(kernels) = kernels("double", [&case.graph]) else { return };
    let mut device = loaded::<f64>(&case, emulated(&kernels));
    let mut host = executor::<f64>(&case.graph, &case.weights, Halting::Compact);
    assert!(device.takes_depth() && case.batch.depths.is_some());
    let (ours, theirs) =
        (device.each_step(&case.batch, Key::new(KEY), 4), host.each_step(&case.batch, Key::new(KEY), 4));
    let (ours, theirs) = (ours.expect("it fits"), theirs.expect("it fits"));
    assert_eq!((ours.len(), theirs.len()), (4, 4));
    for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let far = ours.real("logits").into_iter().flatten().zip(theirs.real("logits").into_iter().flatten());
        let far = far.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 1e-10 && ours.real("logits").is_some_and(|x| !x.is_empty()), "after {} steps: {far:e}", step + 1);
    }
    let none = Batch { depths: None, ..case.batch.clone() };
    let message = device.run(&none, Key::new(KEY)).expect_err("no depth").to_string();
    assert_eq!(message, host.run(&none, Key::new(KEY)).expect_err("no depth").to_string());
}

#[test]
fn specs_agree_with_the_cpu() {
    compare(&Turn::of_run().of(all_specs(), |case| &case.name));
}

#[test]
fn rows_that_stay_change_nothing() {
    let loops = || gradients::all().into_iter().filter(|(.., steady)| !steady.is_empty());
    let policies = [Halting::Compact, Halting::Batch, Halting::Never].map(|halting| {
        let case = |(name, graph, batch, _)| Case { halting, ..Case::new(name, differentiated(&graph), batch) };
        loops().map(case).collect::<Vec<_>>()
    });
    let Some(kernels) = kernels("double", policies[0].iter().map(|case| &case.graph)) else { return };
    for cases in policies[0].iter().zip(&policies[1]).zip(&policies[2]) {
        let ((compact, batch), never) = cases;
        let kept = on_device::<f64>(compact, emulated(&kernels));
        assert_eq!(on_device::<f64>(compact, emulated(&kernels)), kept, "{}: twice the same bits", compact.name);
        for other in [batch, never] {
            let same = on_device::<f64>(other, emulated(&kernels));
            assert_same(&format!("{} {:?}", other.name, other.halting), &same, &kept, 1e-12);
        }
    }
}

/// The largest relative difference of two sets of named arrays, of the numbers whose moment is larger than the given rounding where moments are given.
fn apart(a: &FlatArrays, b: &FlatArrays, moments: Option<(&FlatArrays, f32)>) -> f64 {
    let far = |(name, (_, values)): (&String, &(Vec<usize>, Vec<f32>))| {
        let other = &b.items[name].1;
        let counts = |n: usize| moments.is_none_or(|(moments, rounding)| moments.items[name].1[n].abs() > rounding);
        let far = values.iter().zip(other).enumerate().filter(|(n, _)| counts(*n));
        far.map(|(_, (x, y))| f64::from((x - y).abs() / y.abs().max(1e-2))).fold(0.0, f64::max)
    };
    a.items.iter().map(far).fold(0.0, f64::max)
}

/// Trains a small model on the CPU and on a device with each optimiser, and goes on from what the device saved.
#[test]
fn training_agrees_with_the_cpu() {
    for (file, name) in [("gutlb.rt", "gutlb"), ("mega.rt", "mega")] {
        let model = models::one(file, name, Objective::Classify, &[]);
        let bound = binding(Objective::Classify);
        let plans = || pipeline::plans(&model.spec, &bound).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (first, second) = plans();
        let Some(kernels) = kernels("double", [&*first.graph, &*second.graph]) else { return };
        let fresh = || {
            let (training, inference) = plans();
            let device = emulated(&kernels);
            let mut model = rtc_cuda::model::<f64>(training, inference, bound, 5, device).expect("it fits the device");
            model.set_formula(Some(formula()));
            model
        };
        for kind in OptimiserKind::ALL {
            let (training, inference) = plans();
            let mut host = rtc_exec::model::Model::<f64>::new(training, inference, bound, 5);
            let mut device = fresh();
            host.set_formula(Some(formula()));
            // Constants that are not those of the default.
            let rule = UpdateRule {
                kind,
                weight_decay: 0.1,
                clip: Some(0.5),
                learning_rate: 0.01,
                muon_step: MuonStep::Original,
                lookahead: Lookahead { every: 2, follow: 0.6 },
                rectify_from: 4.0,
                ..UpdateRule::ADAMW
            };
            let micro = [example(&[5, 3], Objective::Classify), example(&[1, 9, 2], Objective::Classify)];
            for _ in 0..6 {
                for batch in &micro {
                    let (ours, theirs) = (device.accumulate(batch, 0.5), host.accumulate(batch, 0.5));
                    let (ours, theirs) = (ours.expect("it fits"), theirs.expect("it fits"));
                    assert!((ours.loss - theirs.loss).abs() < 1e-9, "{name}: {ours:?} {theirs:?}");
                    assert_eq!((ours.correct, ours.scored), (theirs.correct, theirs.scored));
                }
                let (ours, theirs) = (device.update(&rule).expect("finite"), host.update(&rule).expect("finite"));
                assert!((ours / theirs - 1.0).abs() < 1e-9, "{name}: the norms are {ours} and {theirs}");
                device.average(0.9);
                host.average(0.9);
            }
            let (ours, theirs) = (device.evaluate(&micro[0]), host.evaluate(&micro[0]));
            let (ours, theirs) = (ours.expect("it fits"), theirs.expect("it fits"));
            assert_eq!(ours.predictions, theirs.predictions);
            assert!((ours.loss_sum - theirs.loss_sum).abs() < 1e-9, "{name}: {ours:?} {theirs:?}");
            let (ours, theirs) = (device.state(), host.state());
            assert_eq!(ours.updates, theirs.updates);
            assert!(ours.optimiser.keys().eq(theirs.optimiser.keys()));
            // Without an epsilon a weight whose gradient is nothing but rounding moves as far as any other, in either direction.
            let meant = match kind {
                OptimiserKind::AdamAtan2 => theirs.optimiser.get("second_moment").map(|moments| (moments, 1e-24)),
                OptimiserKind::Lion => theirs.optimiser.get("first_moment").map(|moments| (moments, 1e-12)),
                _ => None,
            };
            let kept = ours.optimiser.values().zip(theirs.optimiser.values());
            let others = [(&ours.parameters, &theirs.parameters), (&ours.average, &theirs.average)];
            for (a, b) in kept.chain(others) {
                assert!(apart(a, b, meant) < 1e-6, "{name} {kind:?}: {:e}", apart(a, b, meant));
            }
            let mut resumed = fresh();
            resumed.restore(&ours).expect("the same model");
            let after = |model: &mut rtc_cuda::Model<f64>| {
                model.accumulate(&micro[1], 1.0).expect("it fits");
                model.update(&rule).expect("finite");
                (model.state(), model.evaluate(&micro[0]).expect("it fits"))
            };
            // A checkpoint is single precision.
            let ((a, seen), (b, again)) = (after(&mut device), after(&mut resumed));
            assert!(apart(&a.parameters, &b.parameters, meant) < 1e-4 && (seen.loss_sum - again.loss_sum).abs() < 1e-4);
        }
    }
}

/// How units halt, the trees of searches, states step by step, and the saliency of tokens.
#[test]
fn what_is_recorded_agrees_with_the_cpu() {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let all = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b));
    let mut found = [0; 3];
    for (file, name) in [("gutlb.rt", "gutlb"), ("rir_grc.rt", "rir_grc"), ("bt_grc.rt", "bt_grc")] {
        let model = models::one(file, name, Objective::Classify, &[]);
        let bound = binding(Objective::Classify);
        let plans = || pipeline::plans(&model.spec, &bound).unwrap_or_else(|e| panic!("{name}: {e}"));
        let slopes = || pipeline::slopes(&model.spec, &Binding { vocab: Some(5), ..bound }).expect("it lowers");
        let ((first, second), third) = (plans(), slopes());
        let Some(kernels) = kernels("double", [&*first.graph, &*second.graph, &*third.graph]) else { return };
        let mut host = rtc_exec::model::Model::<f64>::new(first, second, bound, 5);
        let (training, inference) = plans();
        let mut device = rtc_cuda::model::<f64>(training, inference, bound, 5, emulated(&kernels)).expect("it fits");
        let batch = example(&[7, 1, 4, 12], Objective::Classify);
        let (ours, theirs) = (device.examine(&batch).expect("it fits"), host.examine(&batch).expect("it fits"));
        assert_eq!(ours.evaluation.predictions, theirs.evaluation.predictions);
        let (halting, trees) = (theirs.halting.len(), theirs.trees.len());
        assert_eq!((ours.halting.len(), ours.trees.len()), (halting, trees), "{name}");
        for (ours, theirs) in ours.halting.iter().zip(&theirs.halting) {
            assert_eq!((&ours.label, &ours.rows, ours.ran), (&theirs.label, &theirs.rows, theirs.ran), "{name}");
            assert!(all(&ours.steps, &theirs.steps) && ours.units.len() == theirs.units.len(), "{name}");
            for (ours, theirs) in ours.units.iter().zip(&theirs.units) {
                assert_eq!((ours.row, ours.start, ours.length), (theirs.row, theirs.start, theirs.length), "{name}");
                assert!(all(&ours.survival, &theirs.survival), "{name}: {ours:?} {theirs:?}");
            }
        }
        for (ours, theirs) in ours.trees.iter().zip(&theirs.trees) {
            assert_eq!((&ours.label, ours.row, ours.length), (&theirs.label, theirs.row, theirs.length), "{name}");
            assert_eq!(ours.beams.len(), theirs.beams.len(), "{name}");
            for (ours, theirs) in ours.beams.iter().zip(&theirs.beams) {
                assert!(ours.spans == theirs.spans && near(ours.weight, theirs.weight), "{name}: {ours:?} {theirs:?}");
            }
        }
        let (states, others) = (device.states(&batch).expect("it fits"), host.states(&batch).expect("it fits"));
        assert_eq!(states.len(), others.len(), "{name}");
        for (ours, theirs) in states.iter().zip(&others) {
            let place = |state: &StateTrace| (state.label.clone(), state.step, state.row, state.owners.clone());
            assert_eq!(place(ours), place(theirs), "{name}");
            let far = ours.states.iter().zip(&theirs.states).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(ours.states.len() == theirs.states.len() && far < 1e-5, "{name}: {far:e}");
        }
        let row = [Example::classified(vec![1, 4, 2, 2, 3], 0)];
        let ask = |model: &dyn Examined<Number = f64>| model.saliency(slopes(), CLASSES, &row).expect("it fits");
        let (ours, theirs) = (ask(&device), ask(&host));
        let (ours, theirs) = (ours[0].as_ref().expect("it counts"), theirs[0].as_ref().expect("it counts"));
        assert!(all(ours, theirs), "{name}: {ours:?} {theirs:?}");
        found = [found[0] + halting, found[1] + trees, found[2] + others.len()];
    }
    assert!(found.iter().all(|count| *count > 0), "each is recorded of some model: {found:?}");
}

/// Whether this machine has a GPU. A machine that was asked to test its GPU must not pass for want of one.
fn has_gpu() -> bool {
    let reason = Gpu::open(Precision::F32, Launching::Graph).err();
    if let Some(reason) = &reason {
        assert!(std::env::var_os("RTC_GPU").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
    }
    reason.is_none()
}

/// What is further from the CPU in double precision than single precision allows: outputs by 1e-4, gradients by 1e-3.
fn far(case: &Case, found: &Run, exact: &Run) -> Vec<String> {
    let outputs = differences(&found.outputs, &exact.outputs, 1e-4).into_iter();
    let gradients = differences(&found.gradients, &exact.gradients, 1e-3).into_iter();
    let gradients = gradients.map(|d| format!("{}: gradient of {d}", case.name));
    outputs.map(|d| format!("{}: {d}", case.name)).chain(gradients).collect()
}

/// The cases that `RTC_CASES` asks for, all of them without it: `K/N`, every Nth from number K on, or those whose names contain it.
fn chosen(cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    let asked = std::env::var("RTC_CASES").unwrap_or_default();
    let part = asked.split_once('/').and_then(|(k, n)| Some((k.parse::<usize>().ok()?, n.parse().ok()?)));
    match part {
        Some((first, every)) => cases.into_iter().skip(first).step_by(every).collect(),
        None => cases.into_iter().filter(|case| case.name.contains(&asked)).collect(),
    }
}

/// Tells a process the number of the case that it begins with.
const FROM: &str = "RTC_GPU_FROM";

/// Cases whose kernels are compiled together: many use all cores, few tell the first result soon. Every process takes the same ones
/// together, so that a cache of compiled kernels has them.
const TOGETHER: usize = 32;

/// Faults after which the device has said enough.
const MOST_FAULTS: usize = 20;

/// Runs cases on the GPU of this machine, `times` times with the same bits, and compares them with the CPU. It says how far it is. A fault
/// of a device spoils all that its process does after it, so cases run in another process, and the next one begins after the case that
/// failed. `test` is the name of the test that calls this.
fn on_the_gpu(test: &str, cases: &[Case], sizes: &[Case], times: usize) {
    let names: Vec<&str> = cases.iter().chain(sizes).map(|case| &*case.name).collect();
    if let Ok(from) = std::env::var(FROM) {
        return cases_from(from.parse().expect("the number of a case"), cases, sizes, times);
    }
    let begin = Instant::now();
    eprintln!("{} cases and {} sizes", cases.len(), sizes.len());
    let (mut done, mut wrong, mut faults) = (0, vec![], 0);
    while done < names.len() {
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command.args(["--exact", &format!("device::{test}"), "--nocapture"]).env(FROM, done.to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        for line in BufReader::new(child.stderr.take().expect("it is piped")).lines() {
            let line = line.expect("a line of text");
            eprintln!("{:6.1} s: {line}", begin.elapsed().as_secs_f64());
            if line.ends_with(DIFFERS) {
                wrong.push(line.clone());
            }
            done += usize::from(line.ends_with(AGREES) || line.ends_with(DIFFERS));
        }
        let status = child.wait().expect("it ends");
        let Some(case) = names.get(done) else {
            assert!(status.success() || !wrong.is_empty(), "the last process ended with {status}");
            break;
        };
        eprintln!("{:6.1} s: {case} FAULT", begin.elapsed().as_secs_f64());
        wrong.push(format!("{case} ended its process"));
        (done, faults) = (done + 1, faults + 1);
        if faults == MOST_FAULTS {
            wrong.push(format!("{} more have not run", names.len().saturating_sub(done)));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How the line of a case ends.
const AGREES: &str = " agrees";
const DIFFERS: &str = " DIFFERS";

/// The cases from one on, in this process.
fn cases_from(from: usize, cases: &[Case], sizes: &[Case], times: usize) {
    let device: Rc<dyn Device> =
        Gpu::open(Precision::F32, Launching::Graph).unwrap_or_else(|reason| panic!("{reason}"));
    let target = device.target();
    let prepare = |cases: &[Case]| {
        let made: BTreeSet<_> = cases.iter().flat_map(|case| generated(&plan(case.graph.clone()), target)).collect();
        device.prepare(&made.into_iter().collect::<Vec<_>>());
    };
    let mut all_agree = true;
    let mut tell = |case: &Case, wrong: &[String]| {
        wrong.iter().for_each(|what| eprintln!("    {what}"));
        eprintln!("{}{}", case.name, if wrong.is_empty() { AGREES } else { DIFFERS });
        all_agree &= wrong.is_empty();
    };
    for (n, chunk) in cases.chunks(TOGETHER).enumerate() {
        let left = chunk.get(from.saturating_sub(n * TOGETHER)..).unwrap_or_default();
        if left.is_empty() {
            continue;
        }
        prepare(chunk);
        let on_cpu = |case: &Case| run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        let exact = in_parallel(left.len(), |n| on_cpu(&left[n]));
        for (case, exact) in left.iter().zip(&exact) {
            let found = on_device::<f32>(case, device.clone());
            let mut wrong = far(case, &found, exact);
            if (1..times).any(|_| on_device::<f32>(case, device.clone()) != found) {
                wrong.push(format!("{}: other bits the second time", case.name));
            }
            tell(case, &wrong);
        }
    }
    prepare(sizes);
    for case in sizes.iter().skip(from.saturating_sub(cases.len())) {
        tell(case, &super::device_sizes::differences_on(&device, case));
    }
    assert!(all_agree, "cases differ on {}", device.name());
}

/// Every op and every spec on the GPU of this machine, twice, and models at the size of their use.
#[test]
fn a_gpu_agrees_with_the_cpu() {
    if has_gpu() {
        let cases = [all_ops(), all_specs(), all_masks(), all_masks_with_shared_keys()];
        let sizes = chosen(super::device_sizes::on_a_gpu());
        on_the_gpu("a_gpu_agrees_with_the_cpu", &chosen(cases.into_iter().flatten()), &sizes, 2);
    }
}

/// Every op once, at a small size: few launches, for tools under which each takes long.
#[test]
fn a_gpu_runs_every_op() {
    if has_gpu() {
        on_the_gpu("a_gpu_runs_every_op", &chosen(all_ops()), &[], 1);
    }
}
