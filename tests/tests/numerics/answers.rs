//! Answers that are numbers or any of some labels: their losses, gradients and forms, and models that learn them.

use std::sync::atomic::AtomicBool;

use rtc_base::batch::Labels;
use rtc_base::rng::Key;
use rtc_compiler::ir::{export, hash, text};
use rtc_compiler::lower::{Objective, attach_loss, lower};
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_runs::record::table::ResultsRow;
use rtc_task::batching::split;
use rtc_task::{Example, ExampleTarget, SEVERAL, Scale};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{asking, batch, check_gradients, run, weights};
use rtc_train::{Measurement, Silent, evaluate};

const OBJECTIVES: [Objective; 2] = [Objective::Number, Objective::Several];

/// Models that halt by rows, go by chunks, fold, and draw.
fn some(objective: Objective) -> Vec<Model> {
    let files = [("gut.rt", "gut"), ("tlb.rt", "tlb"), ("rir_grc.rt", "rir_grc"), ("transformer.rt", "transformer")];
    files.map(|(file, name)| models::one(file, name, objective, &[])).into()
}

#[test]
fn gradients_are_slopes_and_graphs_read_back() {
    for objective in OBJECTIVES {
        for model in some(objective) {
            let binding = binding(objective);
            let what = format!("{} for {objective:?}", model.name);
            let mut forward = lower(&model.spec, &binding).expect("it lowers");
            attach_loss(&mut forward, &binding).expect("it has logits");
            let training = pipeline::training(&model.spec, &binding).expect("it lowers");
            let weights = weights(&forward, 3, 0.4);
            let rows = asking(batch(&[6, 1, 9, 4], VOCAB as u64, CLASSES as u64, 3), objective, 3);
            check_gradients(&what, (&forward, &training), &weights, &rows, Some(3), &[], 1e-6);
            let back = text::parse(&text::print(&training)).expect("the text reads back");
            assert_eq!(hash::hash(&back), hash::hash(&training), "{what}");
            let back = export::from_yaml(&export::yaml(&training)).expect("the YAML reads back");
            assert_eq!(hash::hash(&back), hash::hash(&training), "{what}");
        }
    }
}

/// The loss of a graph against its definition, from the logits that it gives.
#[test]
fn losses_are_those_of_the_definition() {
    for objective in OBJECTIVES {
        let model = models::one("transformer.rt", "transformer", objective, &["model.dropout: 0"]);
        let binding = binding(objective);
        let mut graph = lower(&model.spec, &binding).expect("it lowers");
        attach_loss(&mut graph, &binding).expect("it has logits");
        let rows = asking(batch(&[5, 2, 7], VOCAB as u64, CLASSES as u64, 3), objective, 4);
        let found = run::<f64>(&graph, &weights(&graph, 5, 0.5), &rows, Halting::Compact).outputs;
        let (logits, loss) = (&found["logits"], found["task_loss"][0]);
        let parts: Vec<f64> = match &rows.labels {
            Labels::Number(numbers) => logits.iter().zip(numbers).map(|(x, y)| (x - f64::from(*y)).powi(2)).collect(),
            Labels::Several(labels) => {
                let sides = logits.iter().zip(labels).map(|(z, label)| if *label == 1 { -z } else { *z });
                sides.map(|z| (1.0 + z.exp()).ln()).collect()
            }
            others => panic!("{others:?} are not asked for"),
        };
        let outputs = if objective == Objective::Number { 1 } else { CLASSES };
        assert_eq!(parts.len(), rows.rows() * outputs);
        let expected = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!((loss - expected).abs() < 1e-12, "{objective:?}: {loss} should be {expected}");
    }
}

/// A weight that no answer reads, whose name comes first, leaves the others where they are.
#[test]
fn weights_that_losses_alone_read_do_not_move_the_others() {
    let spec = models::parse(
        "model m {\nembed { width: 8 }\nfeedforward { hidden: 6 }\na = number(mean(state))\nloss 0.1 * average(a^2)\nreadout mean\n}",
    );
    let binding = binding(Objective::Classify);
    let (training, inference) = pipeline::plans(&spec, &binding).expect("it lowers");
    assert!(inference.parameters.len() < training.parameters.len(), "a forward pass needs fewer weights");
    let mut model: Trained<f64> = Trained::new(training, inference, binding, 1);
    let rows = batch(&[5, 2, 7], VOCAB as u64, CLASSES as u64, 3);
    let answered = model.answers(&rows).expect("it fits").logits;
    let outputs = model.forward_backward(&rows).expect("it fits");
    let trained = outputs.real("logits").expect("logits");
    let far = answered.iter().zip(trained).find(|(a, b)| (*a - *b).abs() > 1e-12);
    assert!(answered.len() == trained.len() && far.is_none(), "{far:?}");
}

/// Strings with what is asked for: how often token 1 occurs, or which of the tokens 0, 1, 2 occur.
fn examples(objective: Objective, count: u64, seed: u64) -> Vec<Example> {
    let key = Key::new(seed).stream("examples");
    let one = |index: u64| {
        let draws = key.at(index);
        let tokens: Vec<u32> = (0..2 + draws.below(0, 6)).map(|n| draws.below(n + 1, 6) as u32).collect();
        let label = match objective {
            Objective::Number => ExampleTarget::Number(tokens.iter().filter(|token| **token == 1).count() as f32 - 1.0),
            _ => ExampleTarget::Several((0..3).map(|label| tokens.contains(&label)).collect()),
        };
        Example { label, ..Example::classified(tokens, 0) }
    };
    (0..count).map(one).collect()
}

/// START and END let attention tell how long a row is, without which no mean over positions can count.
const SPEC: &str = "model m { embed { width: 16, tokens: start_end }\n attend self { heads: 2 }\n feedforward { hidden: 32 }\n readout max }";

fn learner(objective: Objective) -> Trained<f32> {
    let binding = rtc_compiler::lower::Binding { vocab: Some(6), classes: Some(3), objective };
    let (training, inference) = pipeline::plans(&models::parse(SPEC), &binding).expect("it lowers");
    Trained::new(training, inference, binding, 1)
}

fn measured(model: &mut Trained<f32>, examples: &[Example]) -> ResultsRow {
    let metrics = if matches!(examples[0].label, ExampleTarget::Several(_)) { SEVERAL } else { &[] };
    let scale = Scale { mean: 1.0, deviation: 2.0 };
    let measurement = Measurement {
        split: "test",
        examples,
        batch: 17,
        metrics,
        scale,
        perplexity: false,
        asked: vec![],
        classes: vec![],
        each_class: false,
    };
    let row = evaluate(model, measurement, &AtomicBool::new(false), &mut Silent).expect("finite");
    row.expect("nobody asked to stop")
}

fn trained(objective: Objective) -> Trained<f32> {
    let mut model = learner(objective);
    let data = examples(objective, 1536, 1);
    let rule = UpdateRule { learning_rate: 3e-3, ..UpdateRule::ADAMW };
    for epoch in 0..12 {
        for part in data.chunks(32) {
            let part: Vec<&Example> = part.iter().collect();
            for (batch, share) in split(&part, 1 + epoch % 2) {
                model.accumulate(&batch, share).expect("it fits");
            }
            model.update(&rule).expect("finite");
        }
    }
    model
}

#[test]
fn a_model_learns_to_count() {
    let test = examples(Objective::Number, 300, 2);
    let before = measured(&mut learner(Objective::Number), &test);
    let after = measured(&mut trained(Objective::Number), &test);
    assert!(before.numbers["r2"] < 0.2, "{before:?}");
    assert!(after.numbers["r2"] > 0.9, "{after:?}");
    assert_eq!((after.accuracy, after.majority, after.scored), (None, None, 300));
    // Errors are in the unit of the task, the loss in that of the model.
    assert!((after.numbers["rmse"] - 2.0 * after.loss.sqrt()).abs() < 1e-6, "{after:?}");
    assert!(after.numbers["mae"] <= after.numbers["rmse"]);
}

#[test]
fn a_model_learns_which_labels_apply() {
    let test = examples(Objective::Several, 300, 2);
    let found = measured(&mut trained(Objective::Several), &test);
    assert_eq!(found.scored, 900);
    let (accuracy, majority) = (found.accuracy.expect("classes"), found.majority.expect("classes"));
    assert!(accuracy > 0.97 && accuracy > majority + 0.2, "{found:?}");
    assert!(found.metrics["exact"] > 0.9 && found.metrics["exact"] <= accuracy, "{found:?}");
    assert!(found.metrics["f1"] > 0.97, "{found:?}");
    assert!(found.numbers.is_empty());
}
