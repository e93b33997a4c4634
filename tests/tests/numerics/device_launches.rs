//! Series of launches that are recorded and replayed: the same bits as launches one by one, whatever changes between them.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rtc_base::batch::Batch;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_cuda::device::Device;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, LearnerState, OptimiserKind, UpdateRule};
use rtc_tests::emulated::{Counts, Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::batch;

use super::device::kernels;

/// Models of every kind of loop: none, chunks, depth with halting, both, scans, folds.
const MODELS: [(&str, &str); 6] = [
    ("transformer.rt", "transformer"),
    ("tlb.rt", "tlb"),
    ("gut.rt", "gut"),
    ("gutlb.rt", "gutlb"),
    ("mega.rt", "mega"),
    ("rir_grc.rt", "rir_grc"),
];

pub(super) fn model(file: &str, name: &str) -> Model {
    models::one(file, name, Objective::Classify, &[])
}

/// The kernels of all models, compiled once; nothing where there is no compiler.
pub(super) static COMPILED: LazyLock<Option<Arc<Kernels>>> = LazyLock::new(|| {
    let plans = MODELS.iter().flat_map(|(file, name)| <[_; 2]>::from(plans(&model(file, name))));
    let graphs: Vec<_> = plans.map(|plan| plan.graph).collect();
    kernels("double", graphs.iter().map(|graph| &**graph))
});

pub(super) fn plans(model: &Model) -> (rtc_compiler::plan::Plan, rtc_compiler::plan::Plan) {
    pipeline::plans(&model.spec, &binding(Objective::Classify)).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

pub(super) fn on(model: &Model, device: Rc<dyn Device>) -> rtc_cuda::Model<f64> {
    let (training, inference) = plans(model);
    rtc_cuda::model(training, inference, binding(Objective::Classify), 5, device).expect("it fits the device")
}

/// Rows of these lengths, with other tokens and labels for every seed.
fn rows(lengths: &[usize], seed: u64) -> Batch {
    batch(lengths, VOCAB as u64, CLASSES as u64, seed)
}

/// What a training gave, to the bit.
#[derive(Debug, PartialEq)]
pub(super) struct History {
    numbers: Vec<u64>,
    state: LearnerState,
}

/// A training in which everything changes that can: tokens, shapes, shares of micro-batches, learning rates, clipping; with
/// evaluations in between, averaged weights that begin later, and a state that is put back.
pub(super) fn history(model: &mut rtc_cuda::Model<f64>, kind: OptimiserKind) -> History {
    let shapes: [&[usize]; 3] = [&[5, 3, 5], &[4, 9], &[5, 5, 3]];
    let mut numbers = vec![];
    let mut saved = None;
    for step in 0..17_u64 {
        // Mostly the first shape; and at times another one, or two micro-batches.
        let turn = [0, 0, 0, 0, 1, 0, 2, 1, 1][step as usize % 9];
        let shares: &[f64] = if step % 5 == 4 { &[0.25, 0.75] } else { &[1.0] };
        for (n, share) in shares.iter().enumerate() {
            let report = model.accumulate(&rows(shapes[turn], 2 * step + n as u64), *share).expect("it fits");
            numbers.extend([report.loss.to_bits(), report.correct.expect("classes")]);
        }
        let clip = (step % 3 == 0).then_some(0.1);
        let rate = 0.01 / (1.0 + step as f64);
        let rule = UpdateRule { kind, weight_decay: 0.1, clip, learning_rate: rate, ..UpdateRule::ADAMW };
        numbers.push(model.update(&rule).expect("finite").to_bits());
        if step >= 6 {
            model.average(0.9);
        }
        if step % 4 == 3 {
            let seen = model.evaluate(&rows(shapes[(turn + 1) % 3], step)).expect("it fits");
            numbers.push(seen.loss_sum.to_bits());
        }
        match step {
            7 => saved = Some(model.state()),
            13 => model.restore(saved.as_ref().expect("it was saved")).expect("the same model"),
            _ => {}
        }
    }
    History { numbers, state: model.state() }
}

#[test]
fn replays_have_the_bits_of_direct_launches() {
    let Some(kernels) = &*COMPILED else { return };
    for (n, (file, name)) in MODELS.iter().enumerate() {
        let model = model(file, name);
        let kind = [OptimiserKind::Adamw, OptimiserKind::Ranger][n % 2];
        let device = Rc::new(Emulated::new(kernels.clone()));
        let recorded = history(&mut on(&model, device.clone()), kind);
        let counts = device.counts();
        assert!(counts.replayed > counts.started / 4, "{name}: {counts:?}");
        assert_eq!(counts.kept, 0, "{name}: what was recorded goes with the model");
        let device = Rc::new(Emulated::direct(kernels.clone()));
        assert_eq!(recorded, history(&mut on(&model, device.clone()), kind), "{name}");
        assert_eq!(Counts { started: 0, ..device.counts() }, Counts::default(), "{name}: nothing is recorded");
    }
}

/// Commands of a step between which the host waits: of an update, and around the results.
const FEW: u64 = 12;

/// Once a shape has come a few times, all of a step is replayed, whatever its tokens, random keys and rates are.
#[test]
fn a_step_of_a_known_shape_launches_nothing_by_itself() {
    let Some(kernels) = &*COMPILED else { return };
    // Rows of `gutlb` halt with these weights, at steps that depend on their tokens: who takes a step is part of its shape.
    for (file, name) in MODELS.into_iter().rev().filter(|(_, name)| *name != "gutlb") {
        let model = model(file, name);
        let device = Rc::new(Emulated::new(kernels.clone()));
        let mut there = on(&model, device.clone());
        // Rows that halt leave at other steps with other tokens; these do not halt before the bound.
        there.set_halting(Halting::Never);
        for step in 0..8 {
            device.counts();
            there.accumulate(&rows(&[6, 4, 6], step), 1.0).expect("it fits");
            let rule = UpdateRule { learning_rate: 0.01 / (1.0 + step as f64), clip: Some(0.1), ..UpdateRule::ADAMW };
            there.update(&rule).expect("finite");
        }
        let Counts { started, replayed, recorded, .. } = device.counts();
        assert!(
            started <= FEW && replayed > 10 * started && recorded == 0,
            "{name}: {:?}",
            (started, replayed, recorded)
        );
        for seed in 0..6 {
            device.counts();
            there.evaluate(&rows(&[6, 4, 6], seed)).expect("it fits");
        }
        let Counts { started, replayed, recorded, .. } = device.counts();
        assert!(
            started <= FEW && replayed > 2 * started && recorded == 0,
            "{name}: {:?}",
            (started, replayed, recorded)
        );
        // What was run in between changes no address, unless its rows are longer than any before: tables of positions grow.
        there.accumulate(&rows(&[6, 2], 1), 1.0).expect("it fits");
        there.update(&UpdateRule::ADAMW).expect("finite");
        device.counts();
        there.accumulate(&rows(&[6, 4, 6], 77), 1.0).expect("it fits");
        let Counts { started, replayed, .. } = device.counts();
        assert!(started <= FEW && replayed > 10 * started, "{name}: {:?}", (started, replayed));
    }
}
