//! Values in 16 bits on the emulated device: what they change, what they save, and a training beside one in single precision.
#![allow(clippy::print_stdout, reason = "the figures are worth seeing with --nocapture")]

use std::rc::Rc;
use std::sync::Arc;

use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::plan::Plan;
use rtc_cuda::device::KernelTarget;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_kernel::Precision;
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{KEY, assert_same, batch, executor_on, run, weights};

use super::device::{Case, example, kernels_for, on_device};

const F32: KernelTarget = KernelTarget { precision: Precision::F32, fixed_sizes: false };
const BF16: KernelTarget = KernelTarget { precision: Precision::Bf16, fixed_sizes: false };

/// So that values are in 16 bits at all.
const WIDTH: &str = "embed.width: 32";

/// The block of uploads, which is no value.
const UPLOADS: usize = 1 << 20;

/// Models of every kind of loop, wide enough for values in 16 bits.
const MODELS: [(&str, &str); 4] =
    [("transformer.rt", "transformer"), ("tlb.rt", "tlb"), ("gut.rt", "gut"), ("gutlb.rt", "gutlb")];

fn model(file: &str, name: &str) -> Model {
    let objective = if name == "huginn" { Objective::Each } else { Objective::Classify };
    models::one(file, name, objective, &[WIDTH])
}

/// Training steps in which every kernel for 16 bits runs.
pub(super) fn cases() -> Vec<Case> {
    let models =
        [("gut.rt", "gut"), ("huginn.rt", "huginn"), ("gutlb.rt", "gutlb")].map(|(file, name)| model(file, name));
    let case = |model: &Model| {
        let objective = if model.name == "huginn" { Objective::Each } else { Objective::Classify };
        let graph =
            pipeline::training(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name));
        Case::new(format!("{} in 16 bits", model.name), graph, example(&[7, 1, 20, 12], objective))
    };
    models.iter().map(case).collect()
}

fn plans(model: &Model) -> (Plan, Plan) {
    pipeline::plans(&model.spec, &binding(Objective::Classify)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// Kernels for the plans of the models in both precisions; nothing where there is no compiler.
fn compiled(models: &[Model]) -> Option<[Arc<Kernels>; 2]> {
    let graphs: Vec<_> = models.iter().flat_map(|model| <[_; 2]>::from(plans(model))).map(|plan| plan.graph).collect();
    let [Some(f32), Some(bf16)] =
        [F32, BF16].map(|target| kernels_for("float", graphs.iter().map(|graph| &**graph), target))
    else {
        return None;
    };
    Some([f32, bf16])
}

fn all() -> Vec<Model> {
    MODELS.iter().map(|(file, name)| model(file, name)).collect()
}

#[test]
fn values_of_16_bits_stay_near() {
    let models = all();
    let Some([f32, bf16]) = compiled(&models) else { return };
    for model in &models {
        let graph = pipeline::training(&model.spec, &binding(Objective::Classify)).expect("it lowers");
        // Rows that halt a step earlier are no matter of rounding.
        let case = Case {
            weights: weights(&graph, 3, 0.2),
            halting: Halting::Never,
            ..Case::new(model.name.as_str(), graph, batch(&[7, 1, 40, 12], VOCAB as u64, CLASSES as u64, 3))
        };
        let on = |kernels: &Arc<Kernels>, target| {
            on_device::<f32>(&case, Rc::new(Emulated::made_for(kernels.clone(), target)))
        };
        let (single, narrow) = (on(&f32, F32), on(&bf16, BF16));
        assert_eq!(on(&bf16, BF16), narrow, "{}: twice the same bits", model.name);
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        assert_same(&model.name, &narrow, &exact, 5e-2);
        assert_ne!(single.outputs, narrow.outputs, "{}: something was rounded", model.name);
    }
}

/// What stays in 32 bits: sums, what is decided, and operands that a kernel wants widened.
#[test]
fn values_of_16_bits_take_less_memory() {
    for ((file, name), most) in MODELS.into_iter().zip([0.62, 0.55, 0.76, 0.66]) {
        let wide =
            [WIDTH, "feedforward.hidden: 64", "stack.feedforward.hidden: 64", "depthwise.feedforward.hidden: 64"];
        let model = models::one(file, name, Objective::Classify, &wide);
        let Some(kernels) = compiled(std::slice::from_ref(&model)) else { return };
        let graph = pipeline::training(&model.spec, &binding(Objective::Classify)).expect("it lowers");
        let (weights, rows) = (weights(&graph, 3, 0.4), batch(&[60; 4], VOCAB as u64, CLASSES as u64, 3));
        let [single, narrow] = [F32, BF16].map(|target| {
            let kernels = kernels[usize::from(target == BF16)].clone();
            let device = Rc::new(Emulated::made_for(kernels, target));
            let mut executor = executor_on::<f32>(&graph, &weights, Halting::Never, device.clone());
            // What is free goes back at once, and what is left is what the step needs.
            executor.pool().hold_at_most(Some(0));
            let before = device.taken() + UPLOADS;
            executor.run(&rows, Key::new(KEY)).expect("it fits");
            device.most_taken() - before
        });
        println!("{name}: {narrow} of {single} bytes, {:.3}", narrow as f64 / single as f64);
        assert!(narrow as f64 <= most * single as f64, "{name}: {narrow} of {single} bytes");
    }
}

/// Losses of some updates on batches that come again.
fn losses(model: &Model, kernels: &Arc<Kernels>, target: KernelTarget) -> Vec<f64> {
    let (training, inference) = plans(model);
    let device = Rc::new(Emulated::made_for(kernels.clone(), target));
    let mut learner =
        rtc_cuda::model::<f32>(training, inference, binding(Objective::Classify), 5, device).expect("it fits");
    let rule = UpdateRule { learning_rate: 0.002, ..UpdateRule::ADAMW };
    let one = |update: u64| {
        let report = learner.accumulate(&batch(&[9, 12, 7, 12], VOCAB as u64, CLASSES as u64, update % 3), 1.0);
        learner.update(&rule).expect("finite");
        report.expect("it fits").loss
    };
    (0..40).map(one).collect()
}

#[test]
fn trainings_in_16_bits_follow_those_in_single_precision() {
    let models = [model("gut.rt", "gut"), model("transformer.rt", "transformer")];
    let Some([f32, bf16]) = compiled(&models) else { return };
    for model in &models {
        let (single, narrow) = (losses(model, &f32, F32), losses(model, &bf16, BF16));
        let far = single.iter().zip(&narrow).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(single[39] < 0.7 * single[0], "{}: {single:?}", model.name);
        assert!(far > 0.0 && far < 0.1, "{}: {far}\n{single:?}\n{narrow:?}", model.name);
    }
}
