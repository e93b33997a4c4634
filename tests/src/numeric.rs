//! Running graphs on given numbers and comparing what comes out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN, Parameter};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::ir::{text, verify};
use rtc_compiler::lower::Objective;
use rtc_compiler::pass;
use rtc_compiler::plan::{Plan, plan};
use rtc_cuda::device::Device;
use rtc_exec::storage::Element;
use rtc_exec::{Executor, Halting, Outputs, parameter_ranges};
use rtc_tensor::{TensorExecutor, TensorNumber};

/// Number of tokens of the small models.
pub const VOCAB: usize = 9;
/// Number of classes of the small models.
pub const CLASSES: usize = 4;

/// How an executor runs a batch.
#[cfg(not(test))]
type RunBatch<T> = fn(&mut Executor<T>, &Batch, Key) -> Result<Outputs<T>, rtc_exec::ExecutionFault>;

/// Compiles the executor for `f64` once, here: every test program would compile it again.
#[cfg(not(test))]
#[used]
static DOUBLE: RunBatch<f64> = Executor::run;

/// Named arrays: weights, gradients or results.
pub type Arrays = BTreeMap<String, Vec<f64>>;

/// What one run of a graph gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The results of the graph.
    pub outputs: Arrays,
    /// The gradient of every parameter; zero where the graph computes none.
    pub gradients: Arrays,
}

/// The optimiser of tests for [`OptimiserKind::Formula`](rtc_exec::learner::OptimiserKind::Formula): it has every name, and moves what has
/// no gradient.
const FORMULA: &str = "
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ^ 2  # of squares
    ahead = when(step > 2, m / (1 - beta1 ^ step), momentum * g)
    p = p - rate * (ahead / (sqrt(v / (1 - beta2 ^ step)) + epsilon) + decay * p + 0.001)
";

/// The lines of it.
///
/// # Panics
/// Never: they are lines of an optimiser.
pub fn formula() -> UpdateFormula {
    UpdateFormula::parse(FORMULA).expect("lines of an optimiser")
}

/// The key of every run: the same masks each time.
pub const KEY: u64 = 11;

/// The verified graph of a text.
///
/// # Panics
/// With every problem of the text.
pub fn graph(source: &str) -> Graph {
    let lines = |items: Vec<String>| items.join("\n");
    let graph = text::parse(source)
        .unwrap_or_else(|p| panic!("{}\n{source}", lines(p.iter().map(ToString::to_string).collect())));
    checked(&graph, "the text");
    graph
}

/// Verifies a graph.
///
/// # Panics
/// With every violation.
pub fn checked(graph: &Graph, what: &str) {
    if let Err(broken) = verify::verify(graph) {
        let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
        panic!("{what}: {}", lines.join("\n"));
    }
}

/// The graph with the gradients of all its parameters, not optimised.
///
/// # Panics
/// When it has no scalar result `loss`.
pub fn differentiated(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    pass::grad::run(&mut graph).expect("the graph has a loss");
    checked(&graph, "the differentiated graph");
    graph
}

/// Names of the results of a graph.
pub fn results(graph: &Graph) -> Vec<String> {
    let end = graph.terminator(MAIN).map(|n| graph.node(n));
    let names = end.map(|end| end.get(attribute::NAMES)).unwrap_or_default();
    names.split(',').map(|n| n.trim().to_owned()).collect()
}

/// Random numbers for one parameter: normal with deviation `scale`, around 1 for the gains of norms.
pub fn numbers(parameter: &Parameter, seed: u64, scale: f64) -> Vec<f64> {
    let count: usize = parameter.ty.dims().iter().filter_map(Dim::fixed).product();
    let key = Key::new(seed).stream(&parameter.name);
    let centre = if parameter.init.text() == Some("ones") { 1.0 } else { 0.0 };
    (0..count as u64).map(|n| centre + scale * key.normal(n)).collect()
}

/// Random numbers for all parameters of a graph.
pub fn weights(graph: &Graph, seed: u64, scale: f64) -> Arrays {
    graph.parameters().iter().map(|p| (p.name.clone(), numbers(p, seed, scale))).collect()
}

/// The numbers as a file in single precision holds them, so that both precisions of rtc run with the same.
pub fn rounded(arrays: Arrays) -> Arrays {
    arrays.into_iter().map(|(name, x)| (name, x.into_iter().map(|x| f64::from(x as f32)).collect())).collect()
}

/// Shapes and numbers of parameters for a file in single precision, by name.
pub fn singles(parameters: &[Parameter], numbers: &Arrays) -> rtc_export::onnx::ParameterArrays {
    let one = |p: &Parameter| {
        let shape = p.ty.dims().iter().filter_map(Dim::fixed).collect();
        (p.name.clone(), (shape, numbers[&p.name].iter().map(|x| *x as f32).collect()))
    };
    parameters.iter().map(one).collect()
}

/// How far the results of a model in double precision move, at most, in `SHAKEN` runs with each weight moved by half a unit in the last
/// place of single precision.
pub fn moved(weights: &Arrays, results: impl Fn(&Arrays) -> Vec<f64>) -> f64 {
    let still = results(weights);
    let shaken = |seed: u64| {
        let key = Key::new(seed).stream("rounding");
        let one = |(name, numbers): (&String, &Vec<f64>)| {
            let half = |n: usize| if key.stream(name).below(n as u64, 2) == 0 { 1.0 + HALF } else { 1.0 - HALF };
            (name.clone(), numbers.iter().enumerate().map(|(n, x)| x * half(n)).collect())
        };
        distance(&results(&weights.iter().map(one).collect()), &still)
    };
    (0..SHAKEN).map(shaken).fold(0.0, f64::max)
}

/// What single precision allows a model: `least`, or, for loops that multiply rounding, four times as much as its results are
/// [`moved`].
///
/// # Panics
/// If results move by more than [`CHAOTIC`]: such a comparison says nothing, and needs smaller weights.
pub fn single_limit(what: &str, least: f64, weights: &Arrays, results: impl Fn(&Arrays) -> Vec<f64>) -> f64 {
    let moved = moved(weights, results);
    assert!(moved <= CHAOTIC, "{what}: rounding of the weights moves the results by {moved:.1e}: take smaller weights");
    least.max(4.0 * moved)
}

/// Beyond this [`moved`] says that rounding decides the results.
pub const CHAOTIC: f64 = 1e-4;
/// Runs of [`moved`].
const SHAKEN: u64 = 6;
/// Half a unit in the last place of single precision, relative.
const HALF: f64 = 1.0 / (1 << 24) as f64;

/// Random weights with halting heads that answer strongly, so that positions halt at different steps.
pub fn strong(graph: &Graph, seed: u64) -> Arrays {
    let mut weights = weights(graph, seed, 0.5);
    for (name, values) in &mut weights {
        if name.contains(".halt.output.") {
            let shift = if name.ends_with("bias") { [2.0, -1.0][(seed % 2) as usize] } else { 0.0 };
            values.iter_mut().for_each(|v| *v = 4.0 * *v + shift);
        }
    }
    weights
}

/// A batch of random tokens below `vocab` with the given row lengths and one label below `classes` per row.
pub fn batch(lengths: &[usize], vocab: u64, classes: u64, seed: u64) -> Batch {
    let key = Key::new(seed).stream("batch");
    let mut offsets = vec![0];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + length);
    }
    let total = offsets[lengths.len()] as u64;
    Batch {
        tokens: (0..total).map(|n| key.stream("tokens").below(n, vocab) as u32).collect(),
        labels: Labels::Class(
            (0..lengths.len() as u64).map(|n| key.stream("labels").below(n, classes) as u32).collect(),
        ),
        width: lengths.iter().copied().max().unwrap_or(0),
        depths: None,
        given: vec![],
        offsets,
    }
}

/// The batch with a label and a weight for every token.
pub fn labelled_tokens(mut batch: Batch, classes: u64, seed: u64) -> Batch {
    let key = Key::new(seed).stream("token labels");
    let count = batch.tokens.len() as u64;
    batch.labels = Labels::Each {
        class: (0..count).map(|n| key.below(n, classes) as u32).collect(),
        weight: (0..count).map(|n| if n == 0 || key.stream("weight").uniform(n) < 0.7 { 1.0 } else { 0.0 }).collect(),
    };
    batch
}

/// The batch with labels of what is asked for: for pairs one for every two rows, for tokens weights, too.
pub fn asking(mut batch: Batch, objective: Objective, seed: u64) -> Batch {
    let key = Key::new(seed).stream("answers");
    let rows = batch.rows() as u64;
    match objective {
        Objective::Classify => {}
        Objective::Pair => {
            let half = batch.labels.classes()[..batch.rows() / 2].to_vec();
            batch.labels = Labels::Class(half);
        }
        Objective::Each => return labelled_tokens(batch, 2, seed),
        Objective::Number => batch.labels = Labels::Number((0..rows).map(|n| key.normal(n) as f32).collect()),
        Objective::Several => {
            let all = rows * CLASSES as u64;
            batch.labels = Labels::Several((0..all).map(|n| key.below(n, 2) as u32).collect());
        }
    }
    batch
}

/// What `make` gives for the first seed from 3 on. For a graph that chooses positions, it is one whose rows do not begin with equal
/// tokens: these have equal scores, and rounding alone says which of them is chosen.
///
/// # Panics
/// Never: tokens are drawn.
pub fn untied(graph: &Graph, make: impl Fn(u64) -> Batch) -> Batch {
    let chooses = graph.walk(MAIN).into_iter().any(|n| graph.node(n).op == Op::Top);
    let tied = |row: &[u32]| row.len() > 1 && row[0] == row[1];
    let sound = |rows: &Batch| !rows.offsets.windows(2).any(|at| tied(&rows.tokens[at[0]..at[1]]));
    (3..).map(make).find(|rows| !chooses || sound(rows)).expect("there are seeds without end")
}

/// An executor of the graph with the given weights.
pub fn executor<T: Element>(graph: &Graph, weights: &Arrays, halting: Halting) -> Executor<T> {
    let plan = Arc::new(plan(graph.clone()));
    let mut executor = Executor::new(plan.clone());
    executor.settings.halting = halting;
    fill(executor.parameters_mut(), &plan, &parameter_ranges(&plan), weights);
    executor
}

/// Runs a graph once.
///
/// # Panics
/// When the batch does not fit.
pub fn run<T: Element>(graph: &Graph, weights: &Arrays, batch: &Batch, halting: Halting) -> Run {
    let mut executor = executor::<T>(graph, weights, halting);
    let outputs = executor.run(batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{}: {f}", graph.name));
    let plan = executor.plan();
    told((graph, weights, plan), &outputs, executor.gradients(), &parameter_ranges(plan))
}

/// An executor of the graph on tensors of Candle with the given weights.
pub fn executor_on_tensors<T: TensorNumber>(
    graph: &Graph,
    weights: &Arrays,
    halting: Halting,
    device: candle_core::Device,
) -> TensorExecutor<T> {
    let plan = Arc::new(plan(graph.clone()));
    let mut executor = TensorExecutor::new(plan.clone(), device);
    executor.settings.halting = halting;
    fill(executor.parameters_mut(), &plan, &parameter_ranges(&plan), weights);
    executor
}

/// Runs a graph once on tensors of Candle.
///
/// # Panics
/// When the batch does not fit.
pub fn run_on_tensors<T: TensorNumber>(
    graph: &Graph,
    weights: &Arrays,
    batch: &Batch,
    halting: Halting,
    device: candle_core::Device,
) -> Run {
    let mut executor = executor_on_tensors::<T>(graph, weights, halting, device);
    let outputs = executor.run(batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{}: {f}", graph.name));
    let plan = executor.plan();
    told((graph, weights, plan), &outputs, executor.gradients(), &parameter_ranges(plan))
}

/// An executor of the graph on a device with the given weights.
pub fn executor_on<T: Element>(
    graph: &Graph,
    weights: &Arrays,
    halting: Halting,
    device: Rc<dyn Device>,
) -> rtc_cuda::DeviceExecutor<T> {
    let plan = Arc::new(plan(graph.clone()));
    let mut executor = rtc_cuda::DeviceExecutor::<T>::new(plan.clone(), device);
    executor.settings.halting = halting;
    let mut flat = vec![T::ZERO; executor.parameters().len()];
    fill(&mut flat, &plan, executor.ranges(), weights);
    executor.pool().write(executor.parameters(), &flat);
    executor
}

/// Runs a graph once on a device.
///
/// # Panics
/// When the batch does not fit.
pub fn run_on<T: Element>(
    graph: &Graph,
    weights: &Arrays,
    batch: &Batch,
    halting: Halting,
    device: Rc<dyn Device>,
) -> Run {
    let mut executor = executor_on::<T>(graph, weights, halting, device);
    let outputs = executor.run(batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{}: {f}", graph.name));
    let gradients: Vec<T> = executor.pool().download(executor.gradients());
    told((graph, weights, executor.plan()), &outputs, &gradients, executor.ranges())
}

/// Puts weights where the parameters of a plan lie in a flat array.
fn fill<T: Element>(flat: &mut [T], plan: &Plan, ranges: &[Range<usize>], weights: &Arrays) {
    for (parameter, range) in plan.parameters.iter().zip(ranges) {
        for (to, from) in flat[range.clone()].iter_mut().zip(&weights[&parameter.name]) {
            *to = T::from_f64(*from);
        }
    }
}

/// What a run has given, in double precision and by name; weights that the plan does not have get gradients of 0.
fn told<T: Element>(
    (graph, weights, plan): (&Graph, &Arrays, &Plan),
    outputs: &Outputs<T>,
    gradients: &[T],
    ranges: &[Range<usize>],
) -> Run {
    let doubles = |values: &[T]| values.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    let named = |name: &String| Some((name.clone(), doubles(outputs.real(name)?)));
    let mut all: Arrays = weights.iter().map(|(n, w)| (n.clone(), vec![0.0; w.len()])).collect();
    for (parameter, range) in plan.parameters.iter().zip(ranges) {
        all.insert(parameter.name.clone(), doubles(&gradients[range.clone()]));
    }
    Run { outputs: results(graph).iter().filter_map(named).collect(), gradients: all }
}

/// The largest difference relative to the larger of 1 and the largest value of `b`; infinite where one is not finite.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let scale = b.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
    let far = |(x, y): (&f64, &f64)| if (x - y).is_finite() { (x - y).abs() / scale } else { f64::INFINITY };
    a.iter().zip(b).map(far).fold(0.0, f64::max)
}

/// Every array of `a` and of the same name in `b` that differ by more than `limit`, one line each.
pub fn differences(a: &Arrays, b: &Arrays, limit: f64) -> Vec<String> {
    let names: Vec<&String> = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))).collect();
    let empty = vec![];
    let of = |arrays: &'_ Arrays, name: &str| arrays.get(name).unwrap_or(&empty).clone();
    let line = |name: &&String| {
        let d = distance(&of(a, name), &of(b, name));
        (d > limit).then(|| format!("`{name}` differs by {d:.1e}"))
    };
    names.iter().filter_map(line).collect()
}

/// Fails unless outputs and gradients of two runs agree.
///
/// # Panics
/// With the arrays that differ.
pub fn assert_same(what: &str, a: &Run, b: &Run, limit: f64) {
    let mut all = differences(&a.outputs, &b.outputs, limit);
    all.extend(differences(&a.gradients, &b.gradients, limit).into_iter().map(|d| format!("gradient of {d}")));
    assert!(all.is_empty(), "{what}: {}", all.join(", "));
}

/// Half the distance between the two points of a central difference: so little that a drawn point hardly ever has a kink of `relu` or a
/// jump of a choice in between, and so much that rounding stays below 1e-9 of the loss.
pub const DELTA: f64 = 1e-6;

/// Compares the gradients of `differentiated` with central differences of the `loss` of `forward`, at every
/// coordinate or at `samples` of them per parameter; `steady` results must not move at all.
///
/// # Panics
/// With the first coordinate at which they differ.
pub fn check_gradients(
    what: &str,
    (forward, differentiated): (&Graph, &Graph),
    weights: &Arrays,
    batch: &Batch,
    samples: Option<usize>,
    steady: &[&str],
    limit: f64,
) {
    let at = run::<f64>(differentiated, weights, batch, Halting::Compact);
    let largest = at.gradients.values().flatten().fold(0.0, |m: f64, g| m.max(g.abs()));
    assert!(largest > 0.0, "{what}: every gradient is zero");
    let key = Key::new(KEY).stream(what);
    let mut moved = executor::<f64>(forward, weights, Halting::Compact);
    let ranges = parameter_ranges(moved.plan());
    let starts: BTreeMap<String, usize> =
        moved.plan().parameters.iter().zip(ranges).map(|(p, range)| (p.name.clone(), range.start)).collect();
    for (name, values) in weights {
        let Some(start) = starts.get(name) else { continue };
        let count = samples.map_or(values.len(), |n| n.min(values.len()));
        for n in 0..count {
            let index = samples.map_or(n, |_| key.stream(name).below(n as u64, values.len() as u64) as usize);
            let mut loss = |delta: f64| {
                moved.parameters_mut()[start + index] = values[index] + delta;
                let there = moved.run(batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{what}: {f}"));
                for result in steady {
                    let same = there.real(result) == Some(&at.outputs[*result][..]);
                    assert!(same, "{what}: `{result}` moves with {name}[{index}]");
                }
                there.real("loss").expect("the graph has a loss")[0]
            };
            let ours = at.gradients[name][index];
            let slope = (loss(DELTA) - loss(-DELTA)) / (2.0 * DELTA);
            moved.parameters_mut()[start + index] = values[index];
            let close = (ours - slope).abs() / largest.max(1.0) < limit;
            assert!(close, "{what}: gradient of {name}[{index}] is {ours:e}, differences give {slope:e}");
        }
    }
}
