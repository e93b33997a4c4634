//! Models at sizes at which kernels have more than one block of everything: on an emulated device, and larger on a GPU.

use std::rc::Rc;

use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_cuda::device::Device;
use rtc_exec::Halting;
use rtc_exec::storage::Element;
use rtc_tests::emulated::Emulated;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, KEY, Run, batch, executor_on, run, weights};

use super::device::{Case, kernels};

/// Width, heads, hidden width and depth of a model.
struct Size {
    width: usize,
    heads: usize,
    hidden: usize,
    depth: usize,
}

/// A training step of a model of this size, with weights as they are drawn for a training.
fn case(Size { width, heads, hidden, depth }: Size, lengths: &[usize]) -> Case {
    let text = format!(
        "model m {{ dropout: 0.1\n embed {{ width: {width}, tokens: start_end }}\n recur depthwise {{ depth: {depth}\n\
         halt global {{ sees: state, threshold: 0.999, cost: 0.1 }}\n gate mlp {{ hidden: {hidden} }}\n attend self {{ heads: {heads}, position: xpos }}\n\
         feedforward {{ hidden: {hidden} }} }}\n readout mean }}"
    );
    let name = format!("width {width}, {heads} heads, {} rows", lengths.len());
    step(name, &text, lengths, 1.0 / (width as f64).sqrt())
}

/// So many tokens that tables of a number for each fill several blocks of uploads, on a GPU the ring that these go through.
fn many(lengths: &[usize]) -> Case {
    step("many tokens".to_owned(), "model m { embed { width: 2 }\n readout mean }", lengths, 0.7)
}

fn step(name: String, text: &str, lengths: &[usize], scale: f64) -> Case {
    let graph = pipeline::training(&models::parse(text), &binding(Objective::Classify));
    let graph = graph.unwrap_or_else(|e| panic!("{name}: {e}"));
    let batch = batch(lengths, VOCAB as u64, CLASSES as u64, 7);
    let weights = weights(&graph, 3, scale);
    Case { weights, ..Case::new(name, graph, batch) }
}

/// On a host, threads of a block are 64: channels of a head beyond the first 128, three blocks of rows, channels in three blocks.
fn on_a_host() -> Vec<Case> {
    let wide = Size { width: 160, heads: 1, hidden: 72, depth: 1 };
    vec![case(wide, &[150, 70, 61]), many(&[1000; 270])]
}

/// On a GPU they are 256, and a model is as large as in use.
pub(super) fn on_a_gpu() -> Vec<Case> {
    let [usual, wide] =
        [(512, 8, 1024, 3), (320, 2, 512, 2)].map(|(width, heads, hidden, depth)| Size { width, heads, hidden, depth });
    vec![case(usual, &[100; 64]), case(wide, &[300, 211, 70, 1]), many(&[1000; 3000])]
}

/// The same batch several times on one executor, so that the device replays what it has recorded.
fn again<T: Element>(case: &Case, device: Rc<dyn Device>) -> Vec<Run> {
    let mut executor = executor_on::<T>(&case.graph, &case.weights, Halting::Compact, device);
    let doubles = |values: &[T]| values.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let once = |_| {
        let gradients = executor.gradients().clone();
        executor.pool().device().clear(gradients.at(), gradients.len() * size_of::<T>());
        let outputs = executor.run(&case.batch, Key::new(KEY)).unwrap_or_else(|f| panic!("{}: {f}", case.name));
        let all: Vec<T> = executor.pool().download(&gradients);
        let names = executor.plan().parameters.iter().map(|parameter| parameter.name.clone());
        let gradients = names.zip(executor.ranges()).map(|(name, range)| (name, doubles(&all[range.clone()])));
        let named = |name: &String| Some((name.clone(), doubles(outputs.real(name)?)));
        Run {
            outputs: rtc_tests::numeric::results(&case.graph).iter().filter_map(named).collect(),
            gradients: gradients.collect(),
        }
    };
    (0..4).map(once).collect()
}

/// Arrays that are further apart than `limit` of their largest number, or of a thousandth of the largest of all.
fn apart(ours: &Arrays, theirs: &Arrays, limit: f64) -> Vec<String> {
    let largest = |numbers: &[f64]| numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let least = 1e-3 * theirs.values().map(|numbers| largest(numbers)).fold(0.0, f64::max);
    let far = |(name, theirs): (&String, &Vec<f64>)| {
        let ours = &ours[name];
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let difference = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
        // A number that is not one is no difference of 0.
        let difference = difference.fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x) });
        let share = difference / largest(theirs).max(least);
        (share > limit).then(|| format!("`{name}` differs by {share:.1e}"))
    };
    theirs.iter().filter_map(far).collect()
}

#[test]
fn sizes_that_cross_blocks_agree_with_the_cpu() {
    let cases = on_a_host();
    let Some(kernels) = kernels("double", cases.iter().map(|case| &case.graph)) else { return };
    for case in &cases {
        let device = Rc::new(Emulated::new(kernels.clone()));
        let runs = again::<f64>(case, device.clone());
        assert!(runs.iter().all(|run| *run == runs[0]), "{}: the same bits each time", case.name);
        let counts = device.counts();
        assert!(counts.replayed > 0 && counts.replayed.is_multiple_of(2), "{}: {counts:?}", case.name);
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact);
        let mut far = apart(&runs[3].outputs, &exact.outputs, 1e-9);
        far.extend(apart(&runs[3].gradients, &exact.gradients, 1e-9));
        assert!(far.is_empty(), "{}:\n{}", case.name, far.join("\n"));
    }
}

/// What differs on a GPU from the CPU in the same precision, or from one time to the next.
pub(super) fn differences_on(device: &Rc<dyn Device>, case: &Case) -> Vec<String> {
    let host = run::<f32>(&case.graph, &case.weights, &case.batch, Halting::Compact);
    let runs = again::<f32>(case, device.clone());
    let mut far = vec![];
    if runs.iter().any(|run| *run != runs[0]) {
        far.push(format!("{}: other bits the second time, or when it is replayed", case.name));
    }
    let outputs = apart(&runs[0].outputs, &host.outputs, 1e-3).into_iter();
    let gradients = apart(&runs[0].gradients, &host.gradients, 1e-3).into_iter();
    far.extend(outputs.map(|d| format!("{}: {d}", case.name)));
    far.extend(gradients.map(|d| format!("{}: gradient of {d}", case.name)));
    far
}
