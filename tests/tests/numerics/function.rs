//! Models as functions from weights to logits: the bits of predictions and training steps, products with the Jacobian against
//! differences and against the gradients of losses, and the same on the emulated device.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::rc::Rc;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{FIXED, Graph, MAIN, Parameter};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline::{self, jacobian};
use rtc_cuda::device::{Device, KernelTarget};
use rtc_cuda::{DeviceFunction, DeviceSpan, generated};
use rtc_exec::learner::{LearnError, Learner};
use rtc_exec::model::{Function, Model, PassMode};
use rtc_exec::storage::Element;
use rtc_exec::{Executor, Inference, Settings};
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{asking, batch, distance, numbers, untied};

/// The seed of the runs.
const SEED: u64 = 7;

/// Half the distance of a central difference.
const DELTA: f64 = 1e-6;

fn graph(model: &models::Model, objective: Objective) -> Graph {
    pipeline::forward(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

fn function<T: Element>(graph: &Graph, objective: Objective) -> Function<Executor<T>> {
    let made = Function::new(graph.clone(), binding(objective), SEED, |plan| Executor::new(plan.into()));
    made.unwrap_or_else(|e| panic!("{}: {e}", graph.name))
}

/// Weights of all parameters, end to end.
fn weights<T: Element>(function: &Function<Executor<T>>) -> Vec<T> {
    let all = function.parameters().iter().flat_map(|parameter| numbers(parameter, 5, 0.4));
    all.map(T::from_f64).collect()
}

fn rows(graph: &Graph, objective: Objective) -> Batch {
    let lengths: &[usize] = if objective == Objective::Pair { &[5, 1, 4, 2] } else { &[5, 1, 4] };
    let drawn = |seed| asking(batch(lengths, VOCAB as u64, CLASSES as u64, seed), objective, seed);
    let depths = if objective == Objective::Pair { vec![2, 1, 2, 1] } else { vec![2, 1, 3] };
    Batch { depths: Some(depths), ..untied(graph, drawn) }
}

fn random(count: usize, name: &str) -> Vec<f64> {
    let key = Key::new(3).stream(name);
    (0..count as u64).map(|n| key.normal(n)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Whether the gradient of a model is that of its logits: where a value is detached, and where an attention has a `stop`, a part is left out.
fn has_whole_gradient(graph: &Graph) -> bool {
    let mut nodes = graph.walk(MAIN).into_iter().map(|node| graph.node(node));
    !nodes.any(|node| node.op == Op::Detach || node.has(attribute::STOP))
}

/// How fast the product of the logits with a cotangent changes along a direction is the product of the gradient with the direction.
fn check_product(what: &str, function: &mut Function<Executor<f64>>, batch: &Batch, draws: PassMode) {
    let at = weights(function);
    let fail = |error: LearnError| -> ! { panic!("{what}: {error}") };
    let logits = |function: &mut Function<Executor<f64>>, weights: &[f64]| {
        function.set_weights(weights).unwrap_or_else(|e| fail(e));
        function.logits(batch, draws).unwrap_or_else(|e| fail(e))
    };
    let cotangent = random(logits(function, &at).len(), "cotangent");
    // Weights that are not trained have no gradient.
    let mut direction = random(at.len(), "direction").into_iter();
    let along = |parameter: &Parameter| {
        let fixed = parameter.group.as_deref() == Some(FIXED);
        let own = direction.by_ref().take(parameter.ty.dims().iter().filter_map(Dim::fixed).product());
        own.map(|x| if fixed { 0.0 } else { x }).collect::<Vec<f64>>()
    };
    let direction: Vec<f64> = function.parameters().iter().flat_map(along).collect();
    let step = |sign: f64| at.iter().zip(&direction).map(|(w, d)| w + sign * DELTA * d).collect::<Vec<f64>>();
    let [above, below] = [1.0, -1.0].map(|sign| dot(&logits(function, &step(sign)), &cotangent));
    let change = above - below;
    function.set_weights(&at).unwrap_or_else(|e| fail(e));
    let product = function.product(batch, &cotangent, draws).unwrap_or_else(|e| fail(e));
    let (slope, difference) = (dot(&product, &direction), change / (2.0 * DELTA));
    assert!((slope - difference).abs() < 1e-5 * slope.abs().max(1.0), "{what}: {slope} against {difference}");
}

#[test]
fn products_are_the_slopes_of_logits() {
    for objective in [Objective::Classify, Objective::Each, Objective::Pair] {
        let mut count = 0;
        for model in models::telling(objective, &["dropout: 0.2"]) {
            let graph = graph(&model, objective);
            if !has_whole_gradient(&graph) {
                continue;
            }
            count += 1;
            let (mut function, batch) = (function::<f64>(&graph, objective), rows(&graph, objective));
            check_product(&format!("{}, {objective:?}", model.name), &mut function, &batch, PassMode::Evaluation);
            check_product(
                &format!("{}, {objective:?}, drawn", model.name),
                &mut function,
                &batch,
                PassMode::Training(4),
            );
        }
        assert!(count > 0, "{objective:?}: no model has a whole gradient");
    }
}

#[test]
fn products_of_flat_folds_are_the_slopes_of_their_logits() {
    let mut count = 0;
    for model in models::all(Objective::Classify, &[]) {
        let graph = graph(&model, Objective::Classify);
        let settings = Settings { inference: Inference::Flat, ..Settings::default() };
        let (mut function, batch) = (function::<f64>(&graph, Objective::Classify), rows(&graph, Objective::Classify));
        let is_flat = graph.walk(MAIN).into_iter().any(|node| graph.node(node).has(attribute::FLAT));
        assert_eq!(function.set(settings).is_ok(), is_flat, "{}", model.name);
        if is_flat && has_whole_gradient(&graph) {
            check_product(&model.name, &mut function, &batch, PassMode::Evaluation);
            count += 1;
        }
    }
    assert!(count > 0, "no fold can do without its outer recursion");
}

/// The gradient of the mean cross entropy of the logits, by hand.
fn of_cross_entropy(logits: &[f64], batch: &Batch) -> Vec<f64> {
    let Labels::Class(labels) = &batch.labels else { panic!("rows have a class") };
    let (each, rows) = (logits.len() / labels.len(), labels.len() as f64);
    let row = |(logits, label): (&[f64], &u32)| {
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        let one = |n: usize| if n == *label as usize { 1.0 } else { 0.0 };
        logits.iter().enumerate().map(|(n, x)| (x.exp() / sum - one(n)) / rows).collect::<Vec<f64>>()
    };
    logits.chunks(each).zip(labels).flat_map(row).collect()
}

/// The logits, their products and the loss of an update drop the same units.
#[test]
fn a_loss_of_logits_has_the_gradient_of_the_training_step() {
    let mut count = 0;
    for model in models::telling(Objective::Classify, &["dropout: 0.2"]) {
        let graph = graph(&model, Objective::Classify);
        if ["penalty", "answered"].iter().any(|loss| graph.output(loss).is_some()) {
            continue;
        }
        let (mut function, batch) = (function::<f64>(&graph, Objective::Classify), rows(&graph, Objective::Classify));
        let at = weights(&function);
        function.set_weights(&at).expect("as many as it has");
        let fail = |error: LearnError| -> ! { panic!("{}: {error}", model.name) };
        let logits = function.logits(&batch, PassMode::Training(2)).unwrap_or_else(|e| fail(e));
        let cotangent = of_cross_entropy(&logits, &batch);
        let product = function.product(&batch, &cotangent, PassMode::Training(2)).unwrap_or_else(|e| fail(e));
        let (_, gradient) = function.loss(&batch, 2).unwrap_or_else(|e| fail(e));
        let far = distance(&product, &gradient);
        assert!(far < 1e-10, "{}: the gradients differ by {far:.1e}", model.name);
        count += 1;
    }
    assert!(count > 5, "few models pay nothing besides: {count}");
}

/// Whatever was asked before.
#[test]
fn answers_have_the_bits_of_predictions_and_training_steps() {
    for objective in [Objective::Classify, Objective::Each] {
        for model in models::telling(objective, &["dropout: 0.2"]) {
            let graph = graph(&model, objective);
            let plans = pipeline::plans(&graph, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name));
            let mut own = Model::<f32>::new(plans.0, plans.1, binding(objective), SEED);
            let (mut function, batch) = (function::<f32>(&graph, objective), rows(&graph, objective));
            let at = weights(&function);
            own.executor().parameters_mut().copy_from_slice(&at);
            let fail = |error: LearnError| -> ! { panic!("{}: {error}", model.name) };
            let outputs = own.forward_backward(&batch).unwrap_or_else(|e| fail(e));
            let answers = own.answers(&batch).unwrap_or_else(|e| fail(e));
            function.set_weights(&at).expect("as many as it has");
            for _ in 0..2 {
                let (loss, gradient) = function.loss(&batch, 0).unwrap_or_else(|e| fail(e));
                assert_eq!(Some(loss), outputs.scalar("loss"), "{}", model.name);
                assert_eq!(bits(&gradient), bits(own.executor().gradients()), "{}", model.name);
                let logits = function.logits(&batch, PassMode::Evaluation).unwrap_or_else(|e| fail(e));
                let wide: Vec<f64> = logits.iter().map(|x| f64::from(*x)).collect();
                // Of two classes the first one has the logit 0.
                let written = match binding(objective).outputs() {
                    Some(1) => wide.iter().flat_map(|x| [0.0, *x]).collect(),
                    _ => wide,
                };
                assert_eq!(written, answers.logits, "{}", model.name);
                let zeros = vec![0.0; logits.len()];
                let product = function.product(&batch, &zeros, PassMode::Evaluation).unwrap_or_else(|e| fail(e));
                assert!(product.iter().all(|x| *x == 0.0), "{}", model.name);
            }
        }
    }
}

#[test]
fn weights_and_cotangents_that_do_not_fit_are_refused() {
    let model = &models::all(Objective::Classify, &[])[0];
    let graph = graph(model, Objective::Classify);
    let (mut function, batch) = (function::<f32>(&graph, Objective::Classify), rows(&graph, Objective::Classify));
    let count = function.numbers();
    let refused = function.set_weights(&vec![0.0; count + 1]).expect_err("one too many");
    assert!(refused.to_string().contains(&format!("there are {} weights, and the model has {count}", count + 1)));
    let cotangent = vec![0.0; function.logits(&batch, PassMode::Evaluation).expect("it fits").len() - 1];
    let refused = function.product(&batch, &cotangent, PassMode::Evaluation).expect_err("one is missing");
    assert!(refused.to_string().contains(jacobian::COTANGENT), "{refused}");
}

/// Numbers that lie in the memory of a device and belong to somebody else.
struct Foreign(Rc<dyn Device>, DeviceSpan);

impl Foreign {
    fn new(device: &Rc<dyn Device>, len: usize) -> Self {
        Self(device.clone(), DeviceSpan { at: device.allocate(4 * len).expect("it has room"), len })
    }

    fn of(device: &Rc<dyn Device>, numbers: &[f32]) -> Self {
        let own = Self::new(device, numbers.len());
        own.write(numbers);
        own
    }

    fn write(&self, numbers: &[f32]) {
        self.0.upload(self.1.at, &numbers.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>());
    }

    fn read(&self) -> Vec<f64> {
        let mut bytes = vec![0; 4 * self.1.len];
        self.0.download(self.1.at, &mut bytes);
        bytes.chunks(4).map(|x| f64::from(f32::from_ne_bytes([x[0], x[1], x[2], x[3]]))).collect()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.release(self.1.at, 4 * self.1.len);
    }
}

/// On the device every question is asked three times, so that series are replayed; the weights and the results lie elsewhere each time.
#[test]
fn a_device_reads_and_writes_memory_of_others() {
    let objective = Objective::Classify;
    let named = ["transformer", "gut", "gutlb", "ebt_grc"];
    let of = |model: &models::Model| named.contains(&model.name.as_str());
    let models: Vec<_> = models::all(objective, &["dropout: 0.2"]).into_iter().filter(of).collect();
    assert_eq!(models.len(), named.len());
    let graphs: Vec<Graph> = models.iter().map(|model| graph(model, objective)).collect();
    let plans = |graph: &Graph| {
        let bound = binding(objective);
        let modes = [jacobian::Mode::Evaluation, jacobian::Mode::Training];
        let made = modes
            .into_iter()
            .flat_map(|mode| [jacobian::logits(graph, &bound, mode), jacobian::product(graph, &bound, mode)]);
        let training = pipeline::training(graph, &bound).map(rtc_compiler::plan::plan);
        made.chain([training]).map(|plan| plan.unwrap_or_else(|e| panic!("{}: {e}", graph.name))).collect::<Vec<_>>()
    };
    let made: BTreeSet<_> =
        graphs.iter().flat_map(plans).flat_map(|plan| generated(&plan, KernelTarget::default())).collect();
    let Some(kernels) = Kernels::compile("float", &made) else {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
        return;
    };
    for (model, graph) in models.iter().zip(&graphs) {
        let (mut host, batch) = (function::<f32>(graph, objective), rows(graph, objective));
        let at = weights(&host);
        let fail = |error: LearnError| -> ! { panic!("{}: {error}", model.name) };
        host.set_weights(&at).expect("as many as it has");
        let device: Rc<dyn Device> = Rc::new(Emulated::new(kernels.clone()));
        let own = device.clone();
        let there = Function::new(graph.clone(), binding(objective), SEED, |plan| {
            rtc_cuda::DeviceExecutor::<f32>::new(plan.into(), own)
        });
        let mut there = there.unwrap_or_else(|e| panic!("{}: {e}", model.name));
        let near = |what: &str, found: &Foreign, expected: &[f64]| {
            let far = distance(&found.read(), expected);
            assert!(far < 2e-3, "{}: {what} differs by {far:.1e}", model.name);
        };
        let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect::<Vec<f64>>();
        for draws in [PassMode::Evaluation, PassMode::Training(1)] {
            let expected = host.logits(&batch, draws).unwrap_or_else(|e| fail(e));
            let cotangent: Vec<f32> = random(expected.len(), "cotangent").iter().map(|x| *x as f32).collect();
            let product = wide(host.product(&batch, &cotangent, draws).unwrap_or_else(|e| fail(e)));
            let expected = wide(expected);
            for _ in 0..3 {
                let weights = Foreign::of(&device, &at);
                there.take_weights(weights.1).unwrap_or_else(|e| fail(e));
                let to = Foreign::new(&device, expected.len());
                there.logits_to(&batch, draws, to.1).unwrap_or_else(|e| fail(e));
                near("the logits", &to, &expected);
                let (from, to) = (Foreign::of(&device, &cotangent), Foreign::new(&device, at.len()));
                there.product_to(&batch, from.1, draws, to.1).unwrap_or_else(|e| fail(e));
                near("the product", &to, &product);
            }
        }
        let (loss, gradient) = host.loss(&batch, 3).unwrap_or_else(|e| fail(e));
        let to = Foreign::new(&device, 1 + at.len());
        let (first, rest) = to.1.split(1, 4);
        there.loss_to(&batch, 3, first, rest).unwrap_or_else(|e| fail(e));
        near("the loss", &to, &[vec![loss], wide(gradient)].concat());
        let short = Foreign::new(&device, at.len() - 1);
        assert!(there.take_weights(short.1).is_err() && there.loss_to(&batch, 3, first, short.1).is_err());
        // What a refused batch was given may change at once.
        let expected = wide(host.logits(&batch, PassMode::Evaluation).unwrap_or_else(|e| fail(e)));
        let (weights, to) = (Foreign::of(&device, &at), Foreign::new(&device, expected.len()));
        there.take_weights(weights.1).unwrap_or_else(|e| fail(e));
        let outside = Batch { tokens: vec![VOCAB as u32; batch.tokens.len()], ..batch.clone() };
        assert!(there.logits_to(&outside, PassMode::Evaluation, to.1).is_err());
        weights.write(&vec![f32::NAN; at.len()]);
        there.logits_to(&batch, PassMode::Evaluation, to.1).unwrap_or_else(|e| fail(e));
        near("what came after a refused batch", &to, &expected);
    }
}
