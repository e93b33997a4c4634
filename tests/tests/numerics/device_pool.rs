//! The memory of a device: uploads keep their order, flat arrays are aligned, and what batches of other lengths left goes back where it
//! is needed.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rtc_base::batch::Batch;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_compiler::spec::Spec;
use rtc_cuda::device::{Device, KernelArgument};
use rtc_cuda::memory::{DevicePool, whole};
use rtc_exec::learner::{LearnError, Learner, LearnerState, OptimiserKind, UpdateRule};
use rtc_tests::emulated::{Emulated, Kernels};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{batch, formula};

use super::device::{emulated, kernels};

/// Bytes of a block of uploads.
const UPLOADS: usize = 1 << 20;

/// A block that was let go of is still written by commands that are held back: no upload may lie in it.
#[test]
fn uploads_leave_memory_alone_that_commands_still_use() {
    const COUNT: usize = UPLOADS / size_of::<f64>();
    let Some(kernels) = kernels("double", []) else { return };
    let numbers: Vec<f64> = (0..COUNT * 3 / 4).map(|n| n as f64).collect();
    let run = |device: Emulated| {
        let pool = DevicePool::new(Rc::new(device));
        pool.begin();
        let (x, y) = (pool.take::<f64>(COUNT), pool.take::<f64>(COUNT));
        pool.each("fill", COUNT, &[x.arg(), KernelArgument::Real(7.0), whole(COUNT)]);
        pool.device().copy(x.at(), y.at(), UPLOADS);
        drop(x);
        let uploads = [pool.upload(&numbers), pool.upload(&numbers)];
        (uploads.map(|array| pool.download::<f64>(&array)), pool.download::<f64>(&y))
    };
    let (uploads, copied) = run(Emulated::new(kernels.clone()));
    assert!(uploads.iter().all(|found| *found == numbers), "commands wrote over an upload");
    assert!(copied.iter().all(|x| *x == 7.0), "an upload came before the commands that use its place");
    assert!(run(Emulated::direct(kernels)) == (uploads, copied), "the same launched one by one");
}

/// A model at a size at which its activations outweigh everything else that is held.
fn spec() -> Spec {
    models::parse(
        "model m { embed { width: 32 }\n recur depthwise { depth: 4\n feedforward { hidden: 64, activation: relu } }\n\
         readout mean }",
    )
}

fn plans() -> [rtc_compiler::plan::Plan; 2] {
    pipeline::plans(&spec(), &binding(Objective::Classify)).expect("it lowers").into()
}

static COMPILED: LazyLock<Option<Arc<Kernels>>> = LazyLock::new(|| {
    let graphs = plans().map(|plan| plan.graph);
    kernels("float", graphs.iter().map(|graph| &**graph))
});

fn on(device: Rc<dyn Device>) -> Result<rtc_cuda::Model<f32>, LearnError> {
    let [training, inference] = plans();
    rtc_cuda::model(training, inference, binding(Objective::Classify), 5, device)
}

/// Lengths of the rows of the batches of a training, which hardly ever are as many together as before.
fn lengths(step: usize) -> Vec<usize> {
    (0..6).map(|row| 30 + (17 * row + 41 * step * step) % 43).collect()
}

/// More than the longest batch has.
const LONGEST: [usize; 6] = [73; 6];

const STEPS: usize = 5;

fn rows(step: usize) -> Batch {
    batch(&lengths(step), VOCAB as u64, CLASSES as u64, step as u64)
}

/// An update with the rows of a step: what it says of the loss.
fn update(model: &mut rtc_cuda::Model<f32>, step: usize) -> Result<u64, LearnError> {
    let loss = model.accumulate(&rows(step), 1.0)?.loss.to_bits();
    model.update(&UpdateRule { clip: Some(0.5), learning_rate: 0.01, ..UpdateRule::ADAMW })?;
    Ok(loss)
}

/// The losses of a training of mixed lengths, and what it leaves.
fn training(model: &mut rtc_cuda::Model<f32>) -> Result<(Vec<u64>, LearnerState), LearnError> {
    Ok(((0..STEPS).map(|step| update(model, step)).collect::<Result<_, _>>()?, model.state()))
}

fn taken(model: &mut rtc_cuda::Model<f32>) -> usize {
    model.executor().pool().taken()
}

/// What the plan of the longest batch needs, and a block of uploads.
fn needed() -> usize {
    let training = BatchShape { lengths: LONGEST.to_vec(), depth: None };
    let work = LargestBatches { training, evaluation: None, fixed_bytes: UPLOADS as u64, target: MemoryTarget::Device };
    let fitted = plans_within(&spec(), &binding(Objective::Classify), &work, None).expect("it lowers");
    fitted.need.total() as usize
}

/// A device that has no more than the plan needs, and one on which no more may be held, give the numbers of one that keeps all blocks.
#[test]
fn a_training_of_mixed_lengths_fits_where_its_plan_fits() {
    let Some(kernels) = &*COMPILED else { return };
    let mut free = on(emulated(kernels)).expect("it fits");
    let expected = training(&mut free).expect("it fits");
    assert!(taken(&mut free) > needed(), "{} and {}: memory is short", taken(&mut free), needed());
    let device = Rc::new(Emulated::with_room(kernels.clone(), needed()));
    let mut full = on(device.clone()).expect("it fits");
    assert!(training(&mut full).expect("its plan fits") == expected, "memory changes no bit");
    let mut bound = on(emulated(kernels)).expect("it fits");
    bound.executor().pool().hold_at_most(Some(needed()));
    for step in 0..STEPS {
        assert_eq!(update(&mut bound, step).expect("it fits"), expected.0[step]);
        assert!(taken(&mut bound) <= needed(), "{} of {}", taken(&mut bound), needed());
    }
    assert!(bound.state() == expected.1);
    // A shape that comes again is replayed, whatever was given back before.
    for step in 0..5 {
        device.counts();
        update(&mut full, 3).expect("it fits");
        let counts = device.counts();
        assert!(step < 4 || counts.replayed > 10 * counts.started, "{counts:?}");
    }
    drop(full);
    assert_eq!(device.taken(), 0, "all memory goes back with the model");
    // Without a bound the free blocks of every size are kept, for the lengths that come again.
    let held = taken(&mut free);
    training(&mut free).expect("it fits");
    assert_eq!(taken(&mut free), held);
}

#[test]
fn a_step_that_does_not_fit_says_so_and_does_nothing() {
    let Some(kernels) = &*COMPILED else { return };
    let device = Rc::new(Emulated::with_room(kernels.clone(), needed() / 2));
    let mut model = on(device.clone()).expect("the parameters fit");
    let error = training(&mut model).expect_err("no step fits").to_string();
    assert!(error.contains("no room"), "{error}");
    device.counts();
    let again = update(&mut model, 0).expect_err("a failure stays").to_string();
    assert_eq!((again, device.counts().started), (error, 0));
    drop(model);
    assert_eq!(device.taken(), 0, "the next model has all of it");
    let mut small = on(device).expect("the parameters fit");
    small.accumulate(&batch(&[5, 3], VOCAB as u64, CLASSES as u64, 1), 1.0).expect("it fits");
}

/// Parameters begin at whole vectors, so the library for products finds their matrices aligned; what lies between them is updated with
/// them, is in the norm of the gradients, and is zero.
#[test]
fn zeros_between_parameters_stay_zeros() {
    let Some(kernels) = &*COMPILED else { return };
    for kind in OptimiserKind::ALL {
        let mut model = on(emulated(kernels)).expect("it fits");
        let [training, inference] = plans();
        let mut host = rtc_exec::model::Model::<f32>::new(training, inference, binding(Objective::Classify), 5);
        assert_eq!(model.parameter_count(), host.parameter_count());
        model.set_formula(Some(formula()));
        host.set_formula(Some(formula()));
        for step in 0..3 {
            let rule = UpdateRule { kind, weight_decay: 0.1, learning_rate: 0.01, ..UpdateRule::ADAMW };
            let [ours, theirs] = [&mut model as &mut dyn Learner, &mut host].map(|model| {
                let rows = batch(&[5, 3], VOCAB as u64, CLASSES as u64, step);
                model.accumulate(&rows, 1.0).expect("it fits");
                model.update(&rule).expect("finite")
            });
            assert!((ours / theirs - 1.0).abs() < 1e-4, "{kind:?}: norms {ours} and {theirs}");
            model.average(0.9);
        }
        let executor = model.executor();
        let ranges = executor.ranges().to_vec();
        assert!(ranges.iter().all(|range| range.start % 64 == 0), "{ranges:?}");
        for array in [executor.parameters().clone(), executor.gradients().clone()] {
            let numbers: Vec<f32> = executor.pool().download(&array);
            for between in ranges.windows(2) {
                assert!(numbers[between[0].end..between[1].start].iter().all(|x| x.to_bits() == 0), "{kind:?}");
            }
        }
        assert!(ranges.windows(2).any(|between| between[0].end < between[1].start), "there is something between");
    }
}
