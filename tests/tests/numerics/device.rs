//! The kernels and the executor of a GPU against those of the CPU, on an emulated device: every op, every loop, every spec.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_runtime::batch::Batch;
use rtc_runtime::cuda::device::Device;
use rtc_runtime::cuda::{self, generated};
use rtc_runtime::exec::storage::Element;
use rtc_runtime::exec::{Halting, parameter_ranges};
use rtc_runtime::learner::{Arrays as Saved, Learner, OptimiserKind, UpdateRule};
use rtc_runtime::rng::Key;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, KEY, Run, assert_same, batch, differentiated, labelled_tokens, results, run, weights,
};

#[cfg(feature = "cuda")]
use rtc_tests::numeric::differences;

use super::gradients;

/// A graph with a batch, and how halted rows are treated.
struct Case {
    name: String,
    graph: Graph,
    weights: Arrays,
    batch: Batch,
    halting: Halting,
}

impl Case {
    fn new(name: impl Into<String>, graph: Graph, batch: Batch) -> Self {
        let weights = weights(&graph, 1, 0.7);
        Self { name: name.into(), graph, weights, batch, halting: Halting::Compact }
    }
}

fn emulated(kernels: &Arc<Kernels>) -> Rc<dyn Device> {
    Rc::new(Emulated::new(kernels.clone()))
}

/// What a device makes of a case.
fn on_device<T: Element>(case: &Case, device: Rc<dyn Device>) -> Run {
    let plan = Arc::new(plan(case.graph.clone()));
    let mut executor = cuda::Executor::<T>::new(plan.clone(), device);
    executor.halting = case.halting;
    let mut flat = vec![];
    for parameter in &plan.parameters {
        flat.extend(case.weights[&parameter.name].iter().map(|w| T::from_f64(*w)));
    }
    executor.pool().write(executor.parameters(), &flat);
    let outputs = executor.run(&case.batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{}: {f}", case.name));
    let doubles = |values: &[T]| values.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    let named = |name: &String| Some((name.clone(), doubles(outputs.real(name)?)));
    let outputs = results(&case.graph).iter().filter_map(named).collect();
    let all: Vec<T> = executor.pool().download(executor.gradients());
    let mut gradients: Arrays = case.weights.iter().map(|(n, w)| (n.clone(), vec![0.0; w.len()])).collect();
    for (parameter, range) in plan.parameters.iter().zip(parameter_ranges(&plan)) {
        gradients.insert(parameter.name.clone(), doubles(&all[range]));
    }
    Run { outputs, gradients }
}

/// Without the cases that a device refuses, which are named; what it is that they use stands on the page.
fn accepted(mut cases: Vec<Case>) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(folder.join("docs/cuda.md")).expect("the page is there");
    let (_, page) = page.split_once("## What it refuses").expect("the page says what is refused");
    cases.retain(|case| match cuda::check(&plan(case.graph.clone())) {
        Ok(()) => true,
        Err(reason) => {
            eprintln!("{}: {reason}", case.name);
            let op = reason.split_once(" uses `").and_then(|(_, what)| what.split('`').next()).expect("it names an op");
            assert!(page.contains(&format!("`{op}`")), "docs/cuda.md does not say that `{op}` is refused");
            let spec = format!("specs/{}.rt", case.name.split(':').next().unwrap_or_default());
            let introduced = !folder.join(&spec).is_file() || page.contains(&format!("`{spec}`"));
            assert!(introduced, "docs/cuda.md does not say that {spec} is refused");
            false
        }
    });
    cases
}

/// The kernels for some graphs on the host; nothing where there is no compiler.
pub(super) fn kernels<'g>(real: &str, graphs: impl IntoIterator<Item = &'g Graph>) -> Option<Arc<Kernels>> {
    let made: BTreeSet<_> = graphs.into_iter().flat_map(|graph| generated(&plan(graph.clone()))).collect();
    let kernels = Kernels::compile(real, &made);
    if kernels.is_none() {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
    }
    kernels
}

/// Compares all cases with the CPU: in double precision to the rounding of sums, in single precision to that of activations.
fn compare(cases: &[Case]) {
    let graphs = || cases.iter().map(|case| &case.graph);
    let (Some(double), Some(single)) = (kernels("double", graphs()), kernels("float", graphs())) else { return };
    for case in cases {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        assert_same(&case.name, &on_device::<f64>(case, emulated(&double)), &exact, 1e-10);
        assert_same(&case.name, &on_device::<f32>(case, emulated(&single)), &exact, 2e-3);
    }
}

/// A training step with every op and every loop.
fn all_ops() -> Vec<Case> {
    let graphs = gradients::all().into_iter();
    let cases =
        accepted(graphs.map(|(name, graph, batch, _)| Case::new(name, differentiated(&graph), batch)).collect());
    assert!(cases.len() > 90, "most ops are there");
    cases
}

fn training(model: &models::Model, objective: Objective) -> Graph {
    pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

pub(super) fn example(lengths: &[usize], objective: Objective) -> Batch {
    let rows = batch(lengths, VOCAB as u64, CLASSES as u64, 3);
    if objective == Objective::Each { labelled_tokens(rows, 2, 3) } else { rows }
}

/// A training step of every model at a small size, with heads that let rows halt at different steps.
fn all_specs() -> Vec<Case> {
    let mut cases = vec![];
    for objective in [Objective::Classify, Objective::Each] {
        for model in models::all(objective, &[]) {
            let graph = training(&model, objective);
            let mut weights = weights(&graph, 3, 0.4);
            for (name, values) in weights.iter_mut().filter(|(name, _)| name.contains(".halt.output.")) {
                let shift = if name.ends_with("bias") { -1.0 } else { 0.0 };
                values.iter_mut().for_each(|value| *value = 4.0 * *value + shift);
            }
            let batch = example(&[7, 1, 4, 12, 2], objective);
            cases.push(Case { weights, ..Case::new(model.name, graph, batch) });
        }
    }
    let cases = accepted(cases);
    assert!(cases.len() > 40, "most specs are there");
    cases
}

#[test]
fn ops_and_loops_agree_with_the_cpu() {
    compare(&all_ops());
}

#[test]
fn specs_agree_with_the_cpu() {
    compare(&all_specs());
}

#[test]
fn rows_that_stay_change_nothing() {
    let loops = || gradients::all().into_iter().filter(|(.., steady)| !steady.is_empty());
    let policies = [Halting::Compact, Halting::Batch, Halting::Never].map(|halting| {
        let case = |(name, graph, batch, _)| Case { halting, ..Case::new(name, differentiated(&graph), batch) };
        accepted(loops().map(case).collect())
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

/// The largest relative difference of two sets of named arrays.
fn apart(a: &Saved, b: &Saved) -> f64 {
    let far = |(name, (_, values)): (&String, &(Vec<usize>, Vec<f32>))| {
        let other = &b.items[name].1;
        let far = values.iter().zip(other).map(|(x, y)| f64::from((x - y).abs() / y.abs().max(1e-2)));
        far.fold(0.0, f64::max)
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
            cuda::Model::<f64>::new(training, inference, bound, 5, emulated(&kernels)).expect("it fits the device")
        };
        for kind in [OptimiserKind::Adamw, OptimiserKind::Adam, OptimiserKind::Ranger] {
            let (training, inference) = plans();
            let mut host = rtc_runtime::model::Model::<f64>::new(training, inference, bound, 5);
            let mut device = fresh();
            let rule =
                UpdateRule { kind, weight_decay: 0.1, clip: Some(0.5), learning_rate: 0.01, ..UpdateRule::ADAMW };
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
            for (a, b) in [
                (&ours.parameters, &theirs.parameters),
                (&ours.first_moment, &theirs.first_moment),
                (&ours.second_moment, &theirs.second_moment),
                (&ours.slow, &theirs.slow),
                (&ours.average, &theirs.average),
            ] {
                assert!(apart(a, b) < 1e-6, "{name} {kind:?}: {:e}", apart(a, b));
            }
            let mut resumed = fresh();
            resumed.restore(&ours).expect("the same model");
            let after = |model: &mut cuda::Model<f64>| {
                model.accumulate(&micro[1], 1.0).expect("it fits");
                model.update(&rule).expect("finite");
                (model.state(), model.evaluate(&micro[0]).expect("it fits"))
            };
            // A checkpoint is single precision.
            let ((a, seen), (b, again)) = (after(&mut device), after(&mut resumed));
            assert!(apart(&a.parameters, &b.parameters) < 1e-4 && (seen.loss_sum - again.loss_sum).abs() < 1e-4);
        }
    }
}

/// The kernels made for every spec compile for a real device, too.
#[cfg(feature = "cuda")]
#[test]
fn the_kernels_of_every_spec_compile_for_a_gpu() {
    use rtc_runtime::cuda::driver::compile;
    if !compile::is_there() {
        eprintln!("skipped: there is no NVRTC library");
        return;
    }
    let graphs = [Objective::Classify, Objective::Each].map(|objective| {
        let models = models::all(objective, &[]).into_iter();
        let graphs = models.map(|model| training(&model, objective));
        graphs.filter(|graph| cuda::check(&plan(graph.clone())).is_ok()).collect::<Vec<_>>()
    });
    let made: BTreeSet<_> = graphs.into_iter().flatten().flat_map(|graph| generated(&plan(graph))).collect();
    assert!(made.len() > 20, "specs have chains");
    let source: String = made.iter().map(|kernel| kernel.source.as_str()).collect();
    let code = compile::compile(&format!("{}{source}", cuda::KERNELS), 90).unwrap_or_else(|e| panic!("{e}"));
    assert!(!code.is_empty());
}

/// Every op and every spec on the GPU of this machine; outputs to 1e-4 and gradients to 1e-3, as single precision allows.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_agrees_with_the_cpu() {
    use rtc_runtime::cuda::driver::Gpu;
    use rtc_runtime::cuda::{Launching, Precision};
    let device = match Gpu::open(Precision::F32, Launching::Graph) {
        Ok(device) => device,
        Err(reason) => {
            // A machine that was asked to test its GPU must not pass for want of one.
            assert!(std::env::var_os("RTC_GPU").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let mut far = vec![];
    for case in all_ops().iter().chain(&all_specs()) {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        let found = on_device::<f32>(case, device.clone());
        assert_eq!(on_device::<f32>(case, device.clone()), found, "{}: twice the same bits", case.name);
        far.extend(
            differences(&found.outputs, &exact.outputs, 1e-4).into_iter().map(|d| format!("{}: {d}", case.name)),
        );
        let gradients = differences(&found.gradients, &exact.gradients, 1e-3).into_iter();
        far.extend(gradients.map(|d| format!("{}: gradient of {d}", case.name)));
    }
    assert!(far.is_empty(), "on {}:\n{}", device.name(), far.join("\n"));
}

#[test]
fn what_a_device_does_not_know_is_refused_by_name() {
    let refused = |body: &str| {
        let body = format!(
            "graph \"g\" {{\n%ids = input {{name: \"tokens\"}} : u32[batch, length]\n\
             %t = param {{name: \"t\", init: zeros}} : f32[7, 4]\n%x = embed %ids, %t : f32[batch, length, 4]\n\
             {body}\nreturn %y {{names: \"y\"}}\n}}\n"
        );
        cuda::check(&plan(rtc_compiler::ir::text::parse(&body).expect("it is written as it should be")))
    };
    assert_eq!(refused("%y = position %x {at: last} : f32[batch, 4]"), Ok(()));
    let given = |bound: &str| {
        let body = "{\n%z = add %h, %h : f32[batch, length, 4]\nyield %z\n}";
        let parameters = "(%h: f32[batch, length, 4], %step: u32[])";
        format!("%y = recur %x {{bound: {bound}}} : f32[batch, length, 4] {parameters} {body}")
    };
    assert_eq!(refused(&given("length")), Ok(()));
    for (body, what) in [
        ("%y = position %x {at: middle} : f32[batch, 4]", "`position` with `at: middle`"),
        ("%y = gelu_tanh %x : f32[batch, length, 4]", "`gelu_tanh`"),
        (
            "%y = attention %x, %x, %x {heads: 2, bias: sub(i, j)} : f32[batch, length, 4]",
            "`attention` with `bias: sub(i, j)`",
        ),
        (&given("given"), "`recur` with `bound: given`"),
    ] {
        let message = refused(body).expect_err("a device does not know it");
        assert_eq!(message, format!("the model uses {what}, which `--device cuda` can't run"));
    }
}
