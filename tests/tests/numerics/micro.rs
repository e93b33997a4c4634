//! Micro-batches: together they give the gradients of the whole, and each draws masks of its own. Restoring a state.

use rtc_base::rng::Key;
use rtc_compiler::lower::{Objective, attach_loss};
use rtc_compiler::pass;
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_exec::learner::{FlatArrays, Learner, LearnerState, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_task::batching::split;
use rtc_task::{Example, ExampleTarget};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};

const LENGTHS: [usize; 5] = [7, 1, 12, 4, 9];

const RULE: UpdateRule = UpdateRule {
    learning_rate: 1e-2,
    beta1: 0.9,
    beta2: 0.98,
    epsilon: 1e-8,
    weight_decay: 0.1,
    clip: None,
    ..UpdateRule::ADAMW
};

fn examples(objective: Objective) -> Vec<Example> {
    let draw = |row: usize, n: usize, bound: usize| Key::new(5).at(row as u64).below(n as u64, bound as u64) as u32;
    let example = |(row, &length): (usize, &usize)| {
        let tokens = (0..length).map(|n| draw(row, n, VOCAB)).collect();
        if objective == Objective::Classify {
            return Example::classified(tokens, draw(row, 99, CLASSES));
        }
        let class = (0..length).map(|n| draw(row, 100 + n, 2)).collect();
        let weight = (0..length).map(|n| draw(row, 200 + n, 2) as f32).collect();
        Example { label: ExampleTarget::Each { class, weight }, ..Example::classified(tokens, 0) }
    };
    LENGTHS.iter().enumerate().map(example).collect()
}

/// The model without dropout, in training and evaluation.
fn still(model: &Model, objective: Objective) -> Trained<f64> {
    let binding = binding(objective);
    let mut graph = pipeline::forward(&model.spec, &binding).expect("it can be lowered");
    pass::inference::run(&mut graph);
    attach_loss(&mut graph, &binding).expect("it has logits");
    pass::grad::run(&mut graph).expect("it has a loss");
    pass::optimise(&mut graph);
    let inference = pipeline::inference(&model.spec, &binding).expect("it can be lowered");
    Trained::new(plan(graph), plan(inference), binding, 1)
}

/// The gradients after all micro-batches, and the weighted sum of their losses.
fn accumulated(trained: &mut Trained<f64>, examples: &[&Example], parts: usize) -> (Vec<f64>, f64) {
    let micro = split(examples, parts);
    let losses = micro.iter().map(|(batch, share)| {
        let report = trained.accumulate(batch, *share).expect("the batch fits");
        share * report.loss
    });
    let loss = losses.sum();
    trained.sum_gradients();
    (trained.executor().gradients().to_vec(), loss)
}

#[test]
fn micro_batches_add_up_to_the_whole() {
    for objective in [Objective::Classify, Objective::Each] {
        let examples = examples(objective);
        let all: Vec<&Example> = examples.iter().collect();
        for model in models::of_turn(models::all(objective, &[])) {
            // The mean of the halting costs is one over rows: the shares of tokens are others.
            if objective == Objective::Each && (model.halts() || model.pays()) {
                continue;
            }
            let mut trained = still(&model, objective);
            let (whole, loss) = accumulated(&mut trained, &all, 1);
            trained.update(&UpdateRule { learning_rate: 0.0, ..RULE }).expect("the gradients are finite");
            for parts in [2, 3, 5] {
                let (sum, parts_loss) = accumulated(&mut trained, &all, parts);
                trained.update(&UpdateRule { learning_rate: 0.0, ..RULE }).expect("the gradients are finite");
                assert!((loss - parts_loss).abs() < 1e-12, "{}: {loss} in one, {parts_loss} in {parts}", model.name);
                let far = whole.iter().zip(&sum).find(|(a, b)| (*a - *b).abs() > 1e-11 * (1.0 + a.abs()));
                assert!(far.is_none(), "{}: {far:?} in {parts} parts", model.name);
            }
        }
    }
}

#[test]
fn evaluation_drops_nothing_and_micro_batches_drop_differently() {
    let examples = examples(Objective::Classify);
    let all: Vec<&Example> = examples.iter().collect();
    let (batch, _) = split(&all, 1).remove(0);
    let model = models::one("gut.rt", "gut", Objective::Classify, &[]);
    let (training, inference) = pipeline::plans(&model.spec, &binding(Objective::Classify)).expect("plans");
    let mut trained = Trained::<f64>::new(training, inference, binding(Objective::Classify), 1);
    let before = trained.evaluate(&batch).expect("the batch fits");
    let first = trained.accumulate(&batch, 0.5).expect("the batch fits");
    let second = trained.accumulate(&batch, 0.5).expect("the batch fits");
    assert_ne!(first.task_loss, second.task_loss, "the masks of the second micro-batch are others");
    assert_eq!(before, trained.evaluate(&batch).expect("the batch fits"), "evaluation has no masks");
    let quiet = still(&model, Objective::Classify).accumulate(&batch, 1.0).expect("the batch fits");
    assert!((before.loss_sum / before.scored as f64 - quiet.task_loss).abs() < 1e-12);
}

#[test]
fn a_restored_state_replaces_all_of_the_old_one() {
    let examples = examples(Objective::Classify);
    let all: Vec<&Example> = examples.iter().collect();
    let (batch, _) = split(&all, 1).remove(0);
    let model = models::one("gut.rt", "gut", Objective::Classify, &[]);
    let step = |trained: &mut Trained<f64>| {
        trained.accumulate(&batch, 1.0).expect("the batch fits");
        trained.update(&RULE).expect("the gradients are finite");
    };
    let mut trained = still(&model, Objective::Classify);
    let weights = LearnerState { parameters: trained.state().parameters, ..LearnerState::default() };
    trained.restore(&weights).expect("it is its own");
    step(&mut trained);
    let once = trained.state();
    trained.restore(&weights).expect("it is its own");
    step(&mut trained);
    assert!(trained.state() == once, "a state without moments starts with none");
    let mut broken = once.clone();
    broken.optimiser.insert("second_moment".to_owned(), wrong());
    assert!(trained.restore(&broken).is_err());
    assert!(trained.state() == once, "a state that is refused changes nothing");
}

/// The average begins as a copy, follows the weights, is what evaluations use, and changes no training step.
#[test]
fn averaged_weights_are_measured_and_leave_the_training_alone() {
    let examples = examples(Objective::Classify);
    let all: Vec<&Example> = examples.iter().collect();
    let (batch, _) = split(&all, 1).remove(0);
    let model = models::one("gut.rt", "gut", Objective::Classify, &[]);
    let step = |trained: &mut Trained<f64>| {
        trained.accumulate(&batch, 1.0).expect("the batch fits");
        trained.update(&RULE).expect("the gradients are finite");
    };
    let (mut averaged, mut plain) = (still(&model, Objective::Classify), still(&model, Objective::Classify));
    step(&mut averaged);
    averaged.average(0.75);
    let first = averaged.state();
    assert!(first.average == first.parameters, "it begins as a copy");
    let before = averaged.evaluate(&batch).expect("the batch fits");
    step(&mut averaged);
    assert_eq!(averaged.evaluate(&batch).expect("the batch fits"), before, "the average has not moved");
    averaged.average(0.75);
    let second = averaged.state();
    for (name, (_, values)) in &second.average.items {
        let (old, new) = (&first.average.items[name].1, &second.parameters.items[name].1);
        for ((found, old), new) in values.iter().zip(old).zip(new) {
            assert!((found - (0.75 * old + 0.25 * new)).abs() < 1e-6, "{name}");
        }
    }
    let measured = averaged.evaluate(&batch).expect("the batch fits");
    assert_ne!(measured, before);
    let only = LearnerState { parameters: second.average.clone(), ..LearnerState::default() };
    plain.restore(&only).expect("its own names");
    let as_weights = plain.evaluate(&batch).expect("the batch fits");
    assert!((as_weights.loss_sum - measured.loss_sum).abs() < 1e-5, "its weights alone give the same");
    plain.restore(&LearnerState { average: FlatArrays::default(), ..second.clone() }).expect("its own names");
    averaged.restore(&second).expect("its own names");
    step(&mut plain);
    step(&mut averaged);
    assert!(plain.state().parameters == averaged.state().parameters, "no step knows of the average");
    assert!(averaged.state().average == second.average && plain.state().average.items.is_empty());
}

fn wrong() -> FlatArrays {
    FlatArrays { items: [("nothing".to_owned(), (vec![1], vec![0.0]))].into() }
}
