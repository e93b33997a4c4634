//! Weights of classes: the loss is the weighted mean over the answers of the update, its gradients are its slopes on every machine, and
//! an evaluation knows no weights.

use rtc_base::batch::{Batch, Labels};
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pass;
use rtc_compiler::pipeline::class_weights::{CLASS_WEIGHTS, WeightFault, Weighted};
use rtc_compiler::pipeline::each_step::EachStep;
use rtc_compiler::pipeline::{self, Forward};
use rtc_compiler::plan::plan;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_task::class_weights::AnswerWeights;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{asking, batch, check_gradients, distance, run, run_on_tensors, weights};

use super::device::{Case, compare};
use super::each_step::fresh;

/// Weights of classes, with and without each label.
fn of_classes() -> AnswerWeights {
    AnswerWeights { present: vec![0.5, 4.0, 1.25, 3.0], absent: vec![1.0, 0.25, 2.0, 1.5] }
}

/// The cross entropy of an answer with label smoothing, of which a single logit stands for two classes.
fn cross_entropy(logits: &[f64], label: usize, smoothing: f64) -> f64 {
    let logits = if let [z] = logits { vec![0.0, *z] } else { logits.to_vec() };
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = most + logits.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
    let target = |class| smoothing / logits.len() as f64 + if class == label { 1.0 - smoothing } else { 0.0 };
    logits.iter().enumerate().map(|(class, z)| target(class) * (log_sum - z)).sum()
}

/// `sum of w_i loss_i / sum of w_i` over the answers that are scored, as `torch.nn.CrossEntropyLoss(weight=w)` has it.
fn expected(logits: &[f64], rows: &Batch, outputs: usize, smoothing: f64) -> f64 {
    let AnswerWeights { present, absent } = of_classes();
    let (mut sum, mut weight) = (0.0, 0.0);
    let mut add = |n: usize, label: u32, own: f64, width: usize| {
        sum += own * cross_entropy(&logits[n * width..(n + 1) * width], label as usize, smoothing);
        weight += own;
    };
    match &rows.labels {
        Labels::Class(labels) => {
            labels.iter().enumerate().for_each(|(n, label)| add(n, *label, present[*label as usize], outputs));
        }
        Labels::Each { class, weight } => {
            let scored = class.iter().zip(weight).enumerate().filter(|(_, (_, weight))| **weight > 0.0);
            scored.for_each(|(n, (label, _))| add(n, *label, present[*label as usize], outputs));
        }
        Labels::Several(labels) => {
            let own = |n: usize, label: u32| if label == 1 { present[n % CLASSES] } else { absent[n % CLASSES] };
            labels.iter().enumerate().for_each(|(n, label)| add(n, *label, own(n, *label), 1));
        }
        Labels::Number(_) => panic!("no numbers are asked for"),
    }
    sum / weight
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

fn rows(binding: &Binding, seed: u64) -> Batch {
    let classes = binding.classes.expect("they are known") as u64;
    asking(batch(&[5, 2, 7, 3], VOCAB as u64, classes, seed), binding.objective, seed + 1)
}

/// The batch alone with the weights of its answers.
fn weighted(rows: Batch) -> Batch {
    let mut all = [(rows, 1.0)];
    of_classes().give(&mut all);
    let [(rows, _)] = all;
    rows
}

#[test]
fn the_loss_is_the_weighted_mean_and_gradients_are_its_slopes_on_every_machine() {
    let mut cases = vec![];
    for binding in tasks() {
        let (objective, classes) = (binding.objective, binding.classes.expect("they are known"));
        for (name, smoothing) in [("transformer", 0.0), ("gut", 0.0), ("transformer", 0.2)] {
            let smooth = format!("model.label_smoothing: {smoothing}");
            let model = models::one(&format!("{name}.rt"), name, objective, &["model.dropout: 0", &smooth]);
            let found = Weighted::new(&model.spec, &binding);
            if objective == Objective::Several && smoothing > 0.0 {
                let Err(WeightFault::Model(why)) = found else {
                    panic!("labels that are smoothed have one number a row")
                };
                assert!(why.contains("`label_smoothing`"), "{why}");
                continue;
            }
            let model = found.expect("answers");
            let graph = model.with_loss(&binding).expect("a loss");
            let numbers = weights(&graph, 5, 0.5);
            let outputs = if classes == 2 { 1 } else { classes };
            for seed in 3..6 {
                let rows = weighted(rows(&binding, seed));
                let found = run::<f64>(&graph, &numbers, &rows, Halting::Compact).outputs;
                let meant = expected(&found["logits"], &rows, outputs, smoothing);
                let loss = found["task_loss"][0];
                assert!((loss - meant).abs() < 1e-12, "{name} {objective:?} of {classes}: {loss} should be {meant}");
            }
            let training = pipeline::training(&model, &binding).expect("it lowers");
            let rows = weighted(rows(&binding, 3));
            check_gradients(name, (&graph, &training), &numbers, &rows, Some(3), &[], 1e-6);
            let exact = run::<f64>(&training, &numbers, &rows, Halting::Compact);
            let tensors = run_on_tensors::<f64>(&training, &numbers, &rows, Halting::Compact, candle_core::Device::Cpu);
            for (name, gradient) in &exact.gradients {
                assert!(distance(gradient, &tensors.gradients[name]) < 1e-10, "{name} on tensors");
            }
            assert!(distance(&exact.outputs["task_loss"], &tensors.outputs["task_loss"]) < 1e-10);
            let name = format!("{name} {objective:?} {classes} {smoothing}");
            cases.push(Case { weights: numbers, ..Case::new(name, training, rows) });
        }
    }
    compare(&cases);
}

/// Numbers, and losses of one number for several answers, have no answer to weigh.
#[test]
fn what_is_no_answer_is_refused() {
    let model = models::one("transformer.rt", "transformer", Objective::Number, &[]);
    let number = Weighted::new(&model.spec, &binding(Objective::Number)).expect_err("numbers");
    assert!(number.to_string().contains("numbers"), "{number}");
    let spec = rtc_tests::spec(
        "model rows {\n    embed { width: 8 }\n    loss average(mean(answer(state)))\n    readout each { sees: all }\n}",
        &binding(Objective::Each),
    );
    let row = Weighted::new(&spec, &binding(Objective::Each)).expect_err("a number a row");
    assert!(row.to_string().contains("one number for several answers"), "{row}");
}

/// Weights that are all 1 change no bit of an update, and an evaluation has none.
#[test]
fn weights_of_one_are_none() {
    for binding in tasks() {
        let model = models::one("gut.rt", "gut", binding.objective, &["model.dropout: 0.1"]);
        let make = |training| {
            let inference = pipeline::inference(&model.spec, &binding).expect("it lowers");
            Trained::<f32>::new(plan(training), plan(inference), binding, 3)
        };
        let heavy = Weighted::new(&model.spec, &binding).expect("answers");
        let training = || pipeline::training(&heavy, &binding).expect("it lowers");
        let mut learners = [make(pipeline::training(&model.spec, &binding).expect("it lowers")), make(training())];
        let mut unequal = make(training());
        for seed in 3..6 {
            let plain = rows(&binding, seed);
            let mut ones = [(plain.clone(), 1.0)];
            AnswerWeights { present: vec![1.0; CLASSES], absent: vec![1.0; CLASSES] }.give(&mut ones);
            let reports = learners.each_mut().map(|learner| learner.accumulate(&ones[0].0, 1.0).expect("it fits"));
            assert_eq!(reports[0], reports[1], "{binding:?}");
            unequal.accumulate(&weighted(plain.clone()), 1.0).expect("it fits");
            for learner in learners.iter_mut().chain([&mut unequal]) {
                learner.update(&UpdateRule::ADAMW).expect("finite gradients");
            }
            let [a, b] = learners.each_mut().map(|learner| learner.evaluate(&plain).expect("it fits"));
            assert_eq!(a, b);
        }
        assert!(learners[0].state() == learners[1].state(), "{binding:?}");
        // Two pairs of one class have the plain mean, whatever their weight.
        assert!(learners[0].state() != unequal.state() || binding.objective == Objective::Pair, "{binding:?}");
    }
}

/// However an update is cut, its gradient is the same, of what the model pays besides its answers, too.
#[test]
fn micro_batches_add_up_to_the_whole() {
    for objective in [Objective::Classify, Objective::Several] {
        for name in ["transformer", "gut"] {
            let model = models::one(&format!("{name}.rt"), name, objective, &["model.dropout: 0"]);
            let binding = binding(objective);
            let mut forward = pipeline::forward(&model.spec, &binding).expect("it lowers");
            pass::inference::run(&mut forward);
            let mut training = Weighted::new(&forward, &binding).expect("answers").with_loss(&binding).expect("a loss");
            pass::grad::run(&mut training).expect("it has a loss");
            let inference = pipeline::inference(&model.spec, &binding).expect("it lowers");
            let mut learner = Trained::<f64>::new(plan(training), plan(inference), binding, 1);
            let of = |cuts: &[&[usize]]| {
                let parts = cuts.iter().enumerate().map(|(n, lengths)| {
                    let part = batch(lengths, VOCAB as u64, CLASSES as u64, 3 + n as u64);
                    (asking(part, objective, 3 + n as u64), lengths.len() as f64 / 5.0)
                });
                let mut parts: Vec<(Batch, f64)> = parts.collect();
                of_classes().give(&mut parts);
                let sum: f64 = parts
                    .iter()
                    .flat_map(|(part, _)| &part.given)
                    .filter(|given| &*given.name == CLASS_WEIGHTS)
                    .flat_map(|given| &given.numbers)
                    .sum();
                let answers: usize = parts.iter().map(|(part, _)| part.labels.answers()).sum();
                assert!((sum - answers as f64).abs() < 1e-12, "the mean weight is 1");
                parts
            };
            let cut = of(&[&[7, 1], &[12, 4, 9]]);
            let mut whole = cut[0].0.clone();
            let (second, _) = &cut[1];
            whole.tokens.extend(&second.tokens);
            whole.offsets.extend(second.offsets[1..].iter().map(|end| end + cut[0].0.tokens.len()));
            whole.width = second.width;
            match (&mut whole.labels, &second.labels) {
                (Labels::Class(all), Labels::Class(more)) | (Labels::Several(all), Labels::Several(more)) => {
                    all.extend(more);
                }
                _ => panic!("labels of one kind"),
            }
            let more = second.given[0].numbers.clone();
            whole.given[0].numbers.extend(more);
            let mut gradient = |parts: &[(Batch, f64)]| {
                let losses =
                    parts.iter().map(|(part, share)| share * learner.accumulate(part, *share).expect("it fits").loss);
                let loss: f64 = losses.sum();
                learner.sum_gradients();
                let found = learner.executor().gradients().to_vec();
                learner.update(&UpdateRule { learning_rate: 0.0, ..UpdateRule::ADAMW }).expect("finite");
                (loss, found)
            };
            let (parts, (loss, together)) = (gradient(&cut), gradient(&[(whole, 1.0)]));
            assert!((parts.0 - loss).abs() < 1e-12, "{name}: {} {loss}", parts.0);
            assert!(distance(&parts.1, &together) < 1e-12, "{name} {objective:?}");
        }
    }
}

/// An update after every step weighs the answers of the step: with fixed weights the steps add up to all of them at once.
#[test]
fn steps_of_a_loop_weigh_their_answers() {
    let binding = binding(Objective::Classify);
    let spec = rtc_tests::spec(
        "model steps {
            embed { width: 8 }
            loop {
                steps: 3
                carry h = state
                h = norm(h + attention(h) { heads: 2 })
                loss average(answer(h))
                h = stop(h)
            }
            state = h
            readout mean
        }",
        &binding,
    );
    let heavy = Weighted::new(&spec, &binding).expect("answers");
    let whole = pipeline::training(&heavy, &binding).expect("it lowers");
    let rows = weighted(rows(&binding, 3));
    let numbers = weights(&whole, 5, 0.5);
    let together = run::<f64>(&whole, &numbers, &rows, Halting::Compact);
    let step = EachStep::of_weighted(heavy).expect("it pays in its loop");
    let graph = pipeline::training(&step, &binding).expect("it lowers");
    let lengths: Vec<usize> = (0..rows.rows()).map(|row| rows.row(row).len()).collect();
    let mut carried = fresh(&graph, &lengths);
    let (mut gradient, mut loss) = (vec![0.0; together.gradients["embed.table"].len()], 0.0);
    for _ in 0..3 {
        let given = [&rows.given[..], &carried].concat();
        let found = run::<f64>(&graph, &numbers, &Batch { given, ..rows.clone() }, Halting::Compact);
        loss += found.outputs["task_loss"][0];
        gradient.iter_mut().zip(&found.gradients["embed.table"]).for_each(|(sum, own)| *sum += own);
        carried.iter_mut().for_each(|given| given.numbers.clone_from(&found.outputs[&*given.name]));
    }
    assert!((loss - together.outputs["task_loss"][0]).abs() < 1e-12, "{loss}");
    assert!(distance(&gradient, &together.gradients["embed.table"]) < 1e-12);
}
