//! Sizes at which kernels of the device take another way than at those of the small models: many rows, wide ones, many classes. And
//! what costs no launch.

use std::rc::Rc;
use std::sync::Arc;

use rtc_base::batch::Batch;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{batch, differentiated, graph, run, run_on, weights};

use super::device::{Case, compare, example, kernels};

/// Norms, a map with its bias and a loss, `width` channels wide.
fn text(width: usize) -> String {
    format!(
        "graph \"of {width}\" {{
           %tokens = input {{name: \"tokens\"}} : u32[batch, length]
           %labels = input {{name: \"labels\"}} : u32[batch]
           %table = param {{name: \"table\", init: zeros}} : f32[7, {width}]
           %gain = param {{name: \"gain\", init: ones}} : f32[{width}]
           %shift = param {{name: \"shift\", init: zeros}} : f32[{width}]
           %w = param {{name: \"w\", init: zeros}} : f32[24, {width}]
           %bias = param {{name: \"bias\", init: zeros}} : f32[24]
           %head = param {{name: \"head\", init: zeros}} : f32[2, 24]
           %x = embed %tokens, %table : f32[batch, length, {width}]
           %r = rms_norm %x, %gain {{eps: 1e-5}} : f32[batch, length, {width}]
           %n = layer_norm %r, %gain, %shift {{eps: 1e-5}} : f32[batch, length, {width}]
           %y = linear %n, %w, %bias : f32[batch, length, 24]
           %z = mean %y : f32[batch, 24]
           %logits = linear %z, %head : f32[batch, 2]
           %each = cross_entropy_each %logits, %labels : f32[batch]
           %loss = average %each : f32[]
           return %loss {{names: \"loss\"}}
         }}"
    )
}

fn model(width: usize) -> Graph {
    graph(&text(width))
}

/// Rows of these lengths for it.
fn rows(lengths: &[usize]) -> Batch {
    batch(lengths, 7, 2, 5)
}

fn case(name: &str, graph: &Graph, lengths: &[usize]) -> Case {
    Case::new(name, differentiated(graph), rows(lengths))
}

#[test]
fn wide_rows_agree_with_the_cpu() {
    // A number of each lane, up to four, up to sixteen; and rows that are too wide to be kept.
    compare(&[12, 40, 136, 520].map(|width| case(&format!("{width} wide"), &model(width), &[5, 1, 3])));
}

#[test]
fn sums_over_many_rows_agree_with_the_cpu() {
    // More rows than a block sums at once, and columns that do not fill the last block.
    compare(&[12, 136].map(|width| case(&format!("{width} wide"), &model(width), &[700, 1, 424])));
}

#[test]
fn many_classes_agree_with_the_cpu() {
    let graph = graph(
        "graph \"classes\" {
           %tokens = input {name: \"tokens\"} : u32[batch, length]
           %labels = input {name: \"labels\"} : u32[batch]
           %table = param {name: \"table\", init: zeros} : f32[7, 70]
           %x = embed %tokens, %table : f32[batch, length, 70]
           %logits = mean %x : f32[batch, 70]
           %each = cross_entropy_each %logits, %labels : f32[batch]
           %plain = average %each : f32[]
           %one = cross_entropy_each %logits, %labels {kind: softmax} : f32[batch]
           %two = cross_entropy_each %logits, %labels {kind: stablemax} : f32[batch]
           %answer = right %logits, %labels : f32[batch]
           %right = average %answer : f32[]
           %all = map %one, %two, %answer {f: add(a, mul(b, add(c, 0.5)))} : f32[batch]
           %mean = average %all : f32[]
           %loss = add %mean, %plain : f32[]
           return %loss, %right {names: \"loss, right\"}
         }",
    );
    let lengths: Vec<usize> = (0..150).map(|row| 1 + row % 3).collect();
    let case = Case::new("70 classes", differentiated(&graph), batch(&lengths, 7, 70, 5));
    let right = run::<f64>(&case.graph, &case.weights, &case.batch, Halting::Compact).outputs["right"][0];
    assert!(right > 0.0 && right < 0.5, "some labels are met, others are not: {right}");
    compare(&[case]);
}

/// A table of more numbers than a warp adds up, and more pairs of queries and keys than one part has.
#[test]
fn large_tables_of_pairs_agree_with_the_cpu() {
    let spec = models::parse(
        "bias wide = 0.5 * learn_w[min(i, 30), min(j, 30)]
         model m { embed { width: 8 }
           recur depthwise { depth: 2
             attend self { heads: 2, bias: wide }
             feedforward { hidden: 6 } }
           readout mean }",
    );
    let graph = pipeline::training(&spec, &binding(Objective::Classify)).expect("it lowers");
    compare(&[Case::new("a wide table", graph, example(&[40, 3, 33], Objective::Classify))]);
}

/// How many commands a run of a graph has.
fn commands(kernels: &Arc<Kernels>, graph: &Graph, lengths: &[usize]) -> u64 {
    let device = Rc::new(Emulated::direct(kernels.clone()));
    run_on::<f64>(graph, &weights(graph, 1, 0.7), &rows(lengths), Halting::Compact, device.clone());
    device.counts().started
}

#[test]
fn more_rows_are_no_more_launches() {
    let graph = differentiated(&model(12));
    let Some(kernels) = kernels("double", [&graph]) else { return };
    // But for one: an embedding adds up what the pieces of the tokens of an id got.
    assert_eq!(commands(&kernels, &graph, &[3, 2]) + 1, commands(&kernels, &graph, &[900, 400]));
}

#[test]
fn a_bias_is_no_launch() {
    let biased = model(12);
    let plain = graph(&text(12).replace("linear %n, %w, %bias", "linear %n, %w"));
    let Some(kernels) = kernels("double", [&biased, &plain]) else { return };
    assert_eq!(commands(&kernels, &biased, &[3, 2]), commands(&kernels, &plain, &[3, 2]));
}

/// Two maps of one operand, of a gated layer: forward with their biases, backward with the gradients of both.
const GATED: &str = "graph \"gated\" {
  %tokens = input {name: \"tokens\"} : u32[batch, length]
  %labels = input {name: \"labels\"} : u32[batch]
  %table = param {name: \"table\", init: zeros} : f32[7, 12]
  %gain = param {name: \"gain\", init: ones} : f32[12]
  %w1 = param {name: \"gate.weight\", init: zeros} : f32[20, 12]
  %b1 = param {name: \"gate.bias\", init: zeros} : f32[20]
  %w2 = param {name: \"value.weight\", init: zeros} : f32[20, 12]
  %b2 = param {name: \"value.bias\", init: zeros} : f32[20]
  %head = param {name: \"head\", init: zeros} : f32[2, 20]
  %x = embed %tokens, %table : f32[batch, length, 12]
  %n = rms_norm %x, %gain {eps: 1e-5} : f32[batch, length, 12]
  %y1 = linear %n, %w1, %b1 : f32[batch, length, 20]
  %y2 = linear %n, %w2, %b2 : f32[batch, length, 20]
  %g = map %y1, %y2 {f: mul(sigmoid(a), b)} : f32[batch, length, 20]
  %z = mean %g : f32[batch, 20]
  %logits = linear %z, %head : f32[batch, 2]
  %each = cross_entropy_each %logits, %labels : f32[batch]
  %loss = average %each : f32[]
  return %loss {names: \"loss\"}
}";

#[test]
fn products_of_one_form_are_one() {
    let gated = differentiated(&graph(GATED));
    // The same maps of two operands.
    let apart = GATED.replace("%y2 = linear %n, %w2, %b2", "%y2 = linear %x, %w2, %b2");
    let apart = differentiated(&graph(&apart));
    let Some(kernels) = kernels("double", [&gated, &apart]) else { return };
    let (together, alone) = (commands(&kernels, &gated, &[3, 2]), commands(&kernels, &apart, &[3, 2]));
    // Forward, both gradients, and the sums that are those of the biases.
    assert_eq!(together + 4, alone);
    compare(&[Case::new("gated", gated, rows(&[5, 1, 3])), Case::new("apart", apart, rows(&[5, 1, 3]))]);
}

/// What an update of the models of the paper launches, at the depth, the chunks and the halting of the paper: sizes do not matter.
#[test]
fn an_update_has_no_more_launches_than_the_log_says() {
    for (file, name, edits, lengths, most) in
        [("gut.rt", "gut", &["depthwise.depth: 10"][..], [6, 6], 780), ("gutlb.rt", "gutlb", &[], [20, 20], 2800)]
    {
        let model = models::one(file, name, Objective::Classify, edits);
        let plans = pipeline::plans(&model.spec, &binding(Objective::Classify)).expect("it lowers");
        let Some(kernels) = kernels("double", [&*plans.0.graph, &*plans.1.graph]) else { return };
        let device = Rc::new(Emulated::direct(kernels));
        let mut model = rtc_cuda::model::<f64>(plans.0, plans.1, binding(Objective::Classify), 5, device.clone());
        let model = model.as_mut().expect("it fits");
        model.set_halting(Halting::Never);
        device.counts();
        model.accumulate(&batch(&lengths, VOCAB as u64, CLASSES as u64, 3), 1.0).expect("it fits");
        model.update(&UpdateRule { clip: Some(1.0), ..UpdateRule::ADAMW }).expect("finite");
        let count = device.counts().started;
        assert!(count <= most, "{name}: {count} launches");
    }
}
