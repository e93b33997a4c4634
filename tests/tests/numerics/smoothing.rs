//! Label smoothing: the loss of targets that are spread over all classes, its gradients, and evaluations without it.

use rtc_base::batch::Labels;
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower};
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{asking, batch, check_gradients, run, weights};

/// `-sum of q log p` with the target `q` of smoothing, for the logits of one answer, of which one stands for two classes.
fn expected(logits: &[f64], label: usize, smoothing: f64) -> f64 {
    let logits = if let [z] = logits { vec![0.0, *z] } else { logits.to_vec() };
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = most + logits.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
    let target = |class| smoothing / logits.len() as f64 + if class == label { 1.0 - smoothing } else { 0.0 };
    logits.iter().enumerate().map(|(class, z)| target(class) * (log_sum - z)).sum()
}

/// The tasks with classes or labels, of two classes and of more.
fn tasks() -> Vec<Binding> {
    let all = [Objective::Classify, Objective::Pair, Objective::Each, Objective::Several];
    let of = |objective: Objective| {
        let counts = if objective == Objective::Several { vec![CLASSES] } else { vec![CLASSES, 2] };
        counts.into_iter().map(move |classes| Binding { classes: Some(classes), ..binding(objective) })
    };
    all.into_iter().flat_map(of).collect()
}

#[test]
fn the_loss_is_that_of_spread_targets_and_gradients_are_its_slopes() {
    for binding in tasks() {
        let (objective, classes) = (binding.objective, binding.classes.expect("they are known"));
        for name in ["transformer", "gut"] {
            let file = format!("{name}.rt");
            let model = models::one(&file, name, objective, &["model.dropout: 0", "model.label_smoothing: 0.2"]);
            let mut graph = lower(&model.spec, &binding).expect("it lowers");
            attach_loss(&mut graph, &binding).expect("it has logits");
            let rows = asking(batch(&[5, 2, 7, 3], VOCAB as u64, classes.min(CLASSES) as u64, 3), objective, 4);
            let numbers = weights(&graph, 5, 0.5);
            let found = run::<f64>(&graph, &numbers, &rows, Halting::Compact).outputs;
            let outputs = if classes == 2 { 1 } else { classes };
            let of = |n: usize, width: usize| &found["logits"][n * width..(n + 1) * width];
            let (mut sum, mut weight) = (0.0, 0.0);
            let mut add = |logits: &[f64], label: u32, w: f32| {
                if w > 0.0 {
                    sum += f64::from(w) * expected(logits, label as usize, 0.2);
                    weight += f64::from(w);
                }
            };
            match &rows.labels {
                Labels::Class(labels) => {
                    labels.iter().enumerate().for_each(|(n, label)| add(of(n, outputs), *label, 1.0))
                }
                Labels::Each { class, weight } => {
                    class.iter().zip(weight).enumerate().for_each(|(n, (label, w))| add(of(n, outputs), *label, *w));
                }
                Labels::Several(labels) => labels.iter().enumerate().for_each(|(n, label)| add(of(n, 1), *label, 1.0)),
                Labels::Number(_) => panic!("no numbers are asked for"),
            }
            let (loss, meant) = (found["task_loss"][0], sum / weight);
            assert!((loss - meant).abs() < 1e-12, "{name} {objective:?} of {classes}: {loss} should be {meant}");
            let training = pipeline::training(&model.spec, &binding).expect("it lowers");
            check_gradients(name, (&graph, &training), &numbers, &rows, Some(3), &[], 1e-6);
        }
    }
}

/// Logits far apart: no class has a probability of 0 in the loss.
#[test]
fn far_logits_have_a_finite_loss() {
    let binding = binding(Objective::Classify);
    let model = models::one("transformer.rt", "transformer", Objective::Classify, &["model.label_smoothing: 0.1"]);
    let training = pipeline::training(&model.spec, &binding).expect("it lowers");
    let rows = batch(&[5, 2, 7], VOCAB as u64, CLASSES as u64, 3);
    let found = run::<f32>(&training, &weights(&training, 5, 300.0), &rows, Halting::Compact).outputs;
    let most = found["logits"].iter().fold(0.0_f64, |most, z| most.max(z.abs()));
    assert!(most > 200.0, "{most}");
    assert!(found["task_loss"][0].is_finite() && found["task_loss"][0] > 0.0, "{:?}", found["task_loss"]);
}

/// An evaluation measures the labels themselves, and a model of numbers has no classes to smooth.
#[test]
fn evaluations_have_no_smoothing() {
    let rows = batch(&[5, 2, 7], VOCAB as u64, CLASSES as u64, 3);
    let of = |edits: &[&str]| {
        let found = models::one("gut.rt", "gut", Objective::Classify, edits);
        let (training, inference) = pipeline::plans(&found.spec, &binding(Objective::Classify)).expect("it has plans");
        Model::<f32>::new(training, inference, binding(Objective::Classify), 3)
    };
    let (mut plain, mut smooth) = (of(&["model.dropout: 0"]), of(&["model.dropout: 0", "model.label_smoothing: 0.2"]));
    let (a, b) = (plain.evaluate(&rows).expect("it fits"), smooth.evaluate(&rows).expect("it fits"));
    assert_eq!(a.loss_sum, b.loss_sum);
    let (a, b) = (plain.accumulate(&rows, 1.0).expect("it fits"), smooth.accumulate(&rows, 1.0).expect("it fits"));
    assert_ne!(a.task_loss, b.task_loss);
    smooth.update(&UpdateRule::ADAMW).expect("finite gradients");
}
