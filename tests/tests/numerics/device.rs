//! The kernels and the executor of a GPU against those of the CPU, on an emulated device: every op, every loop, every spec.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_runtime::batch::Batch;
use rtc_runtime::cuda::{self, generated};
use rtc_runtime::exec::storage::Element;
use rtc_runtime::exec::{Halting, parameter_ranges};
use rtc_runtime::rng::Key;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, KEY, Run, assert_same, batch, differentiated, labelled_tokens, results, run, weights,
};

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

/// What an emulated device makes of a case.
fn emulated<T: Element>(case: &Case, kernels: &Arc<Kernels>) -> Run {
    let plan = Arc::new(plan(case.graph.clone()));
    let mut executor = cuda::Executor::<T>::new(plan.clone(), Rc::new(Emulated::new(kernels.clone())));
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

/// Compares all cases with the CPU: in double precision to the rounding of sums, in single precision to that of activations.
fn compare(cases: &[Case]) {
    let made: BTreeSet<_> = cases.iter().flat_map(|case| generated(&plan(case.graph.clone()))).collect();
    let Some(double) = Kernels::compile("double", &made) else {
        println!("skipped: there is no C++ compiler to run the kernels with");
        return;
    };
    let single = Kernels::compile("float", &made).expect("the compiler was there a moment ago");
    for case in cases {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        assert_same(&case.name, &emulated::<f64>(case, &double), &exact, 1e-10);
        assert_same(&case.name, &emulated::<f32>(case, &single), &exact, 2e-3);
    }
}

#[test]
fn ops_and_loops_agree_with_the_cpu() {
    let graphs = gradients::all().into_iter();
    let cases: Vec<Case> =
        graphs.map(|(name, graph, batch, _)| Case::new(name, differentiated(&graph), batch)).collect();
    compare(&cases);
}

/// A training step of a model at a small size.
fn training(model: &models::Model, objective: Objective) -> Graph {
    pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

#[test]
fn specs_agree_with_the_cpu() {
    let mut cases = vec![];
    for objective in [Objective::Classify, Objective::Each] {
        for model in models::all(objective, &[]) {
            let rows = batch(&[7, 1, 4, 12, 2], VOCAB as u64, CLASSES as u64, 3);
            let batch = if objective == Objective::Each { labelled_tokens(rows, 2, 3) } else { rows };
            let graph = training(&model, objective);
            cases.push(Case { weights: weights(&graph, 3, 0.4), ..Case::new(model.name, graph, batch) });
        }
    }
    assert!(cases.len() > 40, "all specs are there");
    compare(&cases);
}

/// The kernels made for every spec compile for a real device, too.
#[cfg(feature = "cuda")]
#[test]
fn the_kernels_of_every_spec_compile_for_a_gpu() {
    use rtc_runtime::cuda::driver::compile;
    if !compile::is_there() {
        println!("skipped: there is no NVRTC library");
        return;
    }
    let graphs = [Objective::Classify, Objective::Each].map(|objective| {
        let models = models::all(objective, &[]).into_iter();
        models.map(|model| training(&model, objective)).collect::<Vec<_>>()
    });
    let made: BTreeSet<_> = graphs.into_iter().flatten().flat_map(|graph| generated(&plan(graph))).collect();
    assert!(made.len() > 20, "specs have chains");
    let source: String = made.iter().map(|kernel| kernel.source.as_str()).collect();
    let code = compile::compile(&format!("{}{source}", cuda::KERNELS), 90).unwrap_or_else(|e| panic!("{e}"));
    assert!(!code.is_empty());
}
