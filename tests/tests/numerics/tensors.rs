//! The executor on tensors of Candle against the one on the processor, in double precision: no kernel of it is one of ours.
#![allow(clippy::print_stderr, reason = "how near they come is worth seeing")]

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, OptimiserKind, UpdateRule};
use rtc_exec::model::Backend;
use rtc_tensor::TensorDevice;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{KEY, Run, distance, executor, executor_on_tensors, formula, run, run_on_tensors, weights};
use rtc_tests::turn::Turn;

use super::device::{Case, all_masks, all_masks_with_shared_keys, all_ops, all_specs, example, training};
use super::device_work::in_parallel;

/// Allowed difference, relative to the larger of 1 and the largest number of an array.
const LIMIT: f64 = 1e-10;

fn on_tensors(case: &Case, halting: Halting) -> Run {
    run_on_tensors::<f64>(&case.graph, &case.weights, &case.batch, halting, candle_core::Device::Cpu)
}

/// Compares all cases, and says how far the worst is.
fn compare(what: &str, cases: &[Case]) {
    let found = in_parallel(cases.len(), |n| {
        let case = &cases[n];
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        let ours = on_tensors(case, case.halting);
        assert_eq!(exact.outputs.len(), ours.outputs.len(), "{}", case.name);
        let outputs = exact.outputs.iter().zip(&ours.outputs).map(|((name, a), (_, b))| (name.clone(), distance(a, b)));
        let gradients = exact.gradients.iter().zip(&ours.gradients);
        let gradients = gradients.map(|((name, a), (_, b))| (format!("gradient of {name}"), distance(a, b)));
        let worst = outputs.chain(gradients).max_by(|a, b| a.1.total_cmp(&b.1)).expect("a graph has results");
        (case.name.clone(), worst)
    });
    let beyond: Vec<String> = found
        .iter()
        .filter(|(_, (_, far))| *far > LIMIT)
        .map(|(case, (name, far))| format!("{case}: {name} {far:.1e}"))
        .collect();
    let worst = found.iter().map(|(_, (_, far))| *far).fold(0.0, f64::max);
    eprintln!("{what}: {} cases, at most {worst:.1e} apart", found.len());
    assert!(beyond.is_empty(), "{} of {}:\n{}", beyond.len(), found.len(), beyond.join("\n"));
}

#[test]
fn ops_and_loops_agree() {
    compare("ops and loops", &all_ops());
}

#[test]
fn specs_agree() {
    compare("specs", &all_specs());
}

#[test]
fn masks_and_biases_agree() {
    compare("masks", &all_masks());
}

#[test]
fn shared_keys_and_capped_scores_agree() {
    compare("shared keys", &all_masks_with_shared_keys());
}

/// A training of a model that halts: what updates do, what is measured afterwards, and every policy of halting.
#[test]
fn trainings_and_policies_agree() {
    for kind in OptimiserKind::ALL {
        let model = models::one("gut.rt", "gut", Objective::Classify, &[]);
        let plans = || pipeline::plans(&model.spec, &binding(Objective::Classify)).expect("it lowers");
        let ((training, inference), (first, second)) = (plans(), plans());
        let bound = || binding(Objective::Classify);
        let mut host = rtc_exec::model::Model::<f64>::new(training, inference, bound(), 5);
        let mut ours = rtc_tensor::model::<f64>(first, second, bound(), 5, TensorDevice::processor());
        host.set_formula(Some(formula()));
        ours.set_formula(Some(formula()));
        let batch = example(&[7, 1, 4, 9], Objective::Classify);
        let rule = UpdateRule { kind, learning_rate: 0.01, clip: Some(0.5), weight_decay: 0.1, ..UpdateRule::ADAMW };
        for halting in [Halting::Compact, Halting::Batch, Halting::Never] {
            host.set_halting(halting);
            ours.set_halting(halting);
            let losses = [&mut host as &mut dyn Learner, &mut ours].map(|learner| {
                let loss = learner.accumulate(&batch, 1.0).expect("it fits").loss;
                learner.update(&rule).expect("finite");
                (loss, learner.evaluate(&batch).expect("finite").loss_sum)
            });
            let [a, b] = losses;
            assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9, "{kind:?} {halting:?}: {losses:?}");
        }
    }
}

/// A batch after one step more each time, and a batch that has not the depths that the model takes.
#[test]
fn given_depths_agree() {
    let graph =
        training(&models::one("looped.rt", "looped", Objective::Each, &["depthwise.depth: given"]), Objective::Each);
    let batch = example(&[7, 1, 4], Objective::Each);
    let weights = weights(&graph, 3, 0.4);
    let mut host = executor::<f64>(&graph, &weights, Halting::Compact);
    let mut ours = executor_on_tensors::<f64>(&graph, &weights, Halting::Compact, candle_core::Device::Cpu);
    let [host_steps, our_steps] = [host.each_step(&batch, Key::new(KEY), 4), ours.each_step(&batch, Key::new(KEY), 4)];
    for (step, (a, b)) in host_steps.expect("it fits").iter().zip(&our_steps.expect("it fits")).enumerate() {
        let [a, b] = [a, b].map(|outputs| outputs.real("logits").expect("it answers").to_vec());
        assert!(!a.is_empty() && distance(&a, &b) < LIMIT, "after {} steps", step + 1);
    }
    let none = Batch { depths: None, ..batch };
    let message = ours.run(&none, Key::new(KEY)).expect_err("no depth").to_string();
    assert_eq!(message, host.run(&none, Key::new(KEY)).expect_err("no depth").to_string());
}

/// NaN in a weight shows in what comes out, wherever the processor shows it.
#[test]
fn nothing_swallows_what_is_no_number() {
    let mut swallowed = vec![];
    for case in Turn::of_run().of(all_specs(), |case| &case.name) {
        for name in case.weights.keys() {
            let mut weights = case.weights.clone();
            weights.get_mut(name).expect("it is there")[0] = f64::NAN;
            let run = |found: Result<rtc_exec::Outputs<f64>, _>| {
                found.ok().map(|outputs| outputs.scalar("loss").is_none_or(|loss| loss.is_finite()))
            };
            let mut host = executor::<f64>(&case.graph, &weights, case.halting);
            let here = candle_core::Device::Cpu;
            let mut ours = executor_on_tensors::<f64>(&case.graph, &weights, case.halting, here);
            let [host, ours] = [run(host.run(&case.batch, Key::new(KEY))), run(ours.run(&case.batch, Key::new(KEY)))];
            if host != ours {
                swallowed.push(format!("{}: {name}: {host:?} on the processor, {ours:?} here", case.name));
            }
        }
    }
    assert!(swallowed.is_empty(), "{swallowed:#?}");
}
