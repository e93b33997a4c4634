//! A device works later than it is told, and may fail at any call: neither changes a number, and a failure is told as what it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rtc_compiler::lower::Objective;
use rtc_cuda::device::{Device, KernelArgument};
use rtc_cuda::memory::{DeviceArray, DevicePool, whole};
use rtc_exec::learner::{LearnError, Learner, OptimiserKind, UpdateRule};
use rtc_tests::emulated::failing::{Call, Failing};
use rtc_tests::emulated::lazy::{Lazy, RING, Wrong};
use rtc_tests::emulated::{Emulated, Options};
use rtc_tests::models::binding;
use rtc_tests::turn::{TURNS, Turn};

use super::device::{example, kernels};
use super::device_launches::{COMPILED, history, model, on, plans};
use super::device_work::in_parallel;

/// Models with a loop that waits for rows to halt, and with one that waits for choices.
const MODELS: [(&str, &str); 2] = [("gutlb.rt", "gutlb"), ("rir_grc.rt", "rir_grc")];

#[test]
fn a_lazy_device_gives_the_same_bits() {
    let Some(kernels) = &*COMPILED else { return };
    let mut seeds = vec![None, Some(1), Some(2), Some(3)];
    if let Turn::Third(turn) = Turn::of_run() {
        seeds = vec![None, Some(*turn as u64 + 1)];
    }
    in_parallel(MODELS.len() * 2, |n| {
        let (file, name) = MODELS[n / 2];
        let model = model(file, name);
        let options = Options { records: n % 2 == 0, watches: true, ..Options::default() };
        let run = |device: Rc<dyn Device>| history(&mut on(&model, device), OptimiserKind::Adamw);
        let expected = run(Rc::new(Emulated::with(kernels.clone(), options)));
        for seed in &seeds {
            let found = run(Rc::new(Lazy::new(kernels.clone(), options, *seed)));
            assert_eq!(found, expected, "{name} {options:?} {seed:?}");
        }
    });
}

/// Runs whose uploads take the places of those before, and go round the ring; the host waits in the end.
fn uploads_in_turn(device: Rc<dyn Device>) -> Vec<Vec<f64>> {
    let pool = DevicePool::new(device);
    // Both uploads of a turn go as one, and two turns have room in the ring.
    let count = RING / size_of::<f64>() / 5;
    let turn = |n: usize| {
        pool.begin();
        let numbers: Vec<f64> = (0..count).map(|at| (n * count + at) as f64).collect();
        let (sum, first) = (pool.zeros::<f64>(count), pool.upload(&numbers));
        pool.add(&first, &sum);
        let second = pool.upload(&numbers);
        pool.add(&second, &sum);
        sum
    };
    let sums: Vec<DeviceArray> = (0..10).map(turn).collect();
    sums.iter().map(|sum| pool.download(sum)).collect()
}

/// A block that was let go of is still written by commands that are held back when a new block of uploads of its size is needed.
fn uploads_beside_commands(device: Rc<dyn Device>) -> Vec<Vec<f64>> {
    /// Numbers of a block of uploads.
    const BLOCK: usize = (1 << 20) / size_of::<f64>();
    let pool = DevicePool::new(device);
    pool.begin();
    let (x, y) = (pool.take::<f64>(BLOCK), pool.take::<f64>(BLOCK / 2));
    pool.each("fill", BLOCK, &[x.arg(), KernelArgument::Real(7.0), whole(BLOCK)]);
    pool.device().copy(x.at(), y.at(), BLOCK / 2 * size_of::<f64>());
    drop(x);
    let numbers: Vec<f64> = (0..BLOCK * 3 / 4).map(|n| n as f64).collect();
    let upload = pool.upload(&numbers);
    vec![pool.download(&y), pool.download(&upload)]
}

/// What a pool does on a device, and the numbers that it reads there.
type Scene = fn(Rc<dyn Device>) -> Vec<Vec<f64>>;

#[test]
fn what_relies_on_work_that_is_not_done_shows() {
    let Some(kernels) = kernels("double", []) else { return };
    let scenes: [Scene; 2] = [uploads_in_turn, uploads_beside_commands];
    let found = |wrong: Option<Wrong>, records: bool| {
        let options = Options { records, ..Options::default() };
        scenes.map(|scene| match wrong {
            Some(wrong) => scene(Rc::new(Lazy::wrong(kernels.clone(), options, wrong))),
            None => scene(Rc::new(Lazy::new(kernels.clone(), options, None))),
        })
    };
    let right = scenes.map(|scene| scene(Rc::new(Emulated::direct(kernels.clone()))));
    assert_eq!(right[0][3][2], 2.0 * (3.0 * right[0][0].len() as f64 + 2.0));
    assert!(right[1][0].iter().all(|x| *x == 7.0) && right[1][1].iter().enumerate().all(|(n, x)| *x == n as f64));
    for records in [true, false] {
        assert!(found(None, records) == right);
        let shows = |wrong| {
            let found = found(Some(wrong), records);
            [found[0] != right[0], found[1] != right[1]]
        };
        assert!(shows(Wrong::ForgetsToWait)[0] && shows(Wrong::UploadsFirst)[0], "{records}");
        // Where nothing is held back, an upload that the ring can't hold waits for all before it, and a block may be given again at once.
        assert_eq!(shows(Wrong::ReadsEarly), [true, records], "{records}");
        assert_eq!(shows(Wrong::GivesAgain)[1], records);
    }
}

/// The first thing that went wrong while a small model was trained and asked.
fn trained(device: Rc<dyn Device>) -> Result<Vec<f64>, LearnError> {
    let (training, inference) = plans(&model("gutlb.rt", "gutlb"));
    let mut model = rtc_cuda::model::<f64>(training, inference, binding(Objective::Classify), 5, device)?;
    let batch = example(&[5, 1, 4], Objective::Classify);
    let mut numbers = vec![];
    for _ in 0..3 {
        numbers.push(model.accumulate(&batch, 1.0)?.loss);
        numbers.push(model.update(&UpdateRule::ADAMW)?);
    }
    numbers.push(model.evaluate(&batch)?.loss_sum);
    Ok(numbers)
}

/// How many of the first calls fail in turn; of those after them every so many-th.
const EVERY_CALL: usize = 40;
const STEP: usize = 29;

/// The calls that fail: of those after the first ones the part that belongs to the turn.
fn failing() -> impl Iterator<Item = usize> {
    let (first, step) = match Turn::of_run() {
        Turn::Third(turn) => (EVERY_CALL + turn * STEP, TURNS * STEP),
        _ => (EVERY_CALL, STEP),
    };
    (0..EVERY_CALL).chain((first..).step_by(step))
}

#[test]
fn a_failure_at_any_call_is_told() {
    let Some(kernels) = &*COMPILED else { return };
    let options = Options { watches: true, ..Options::default() };
    let fresh = || trained(Rc::new(Emulated::with(kernels.clone(), options))).expect("nothing fails");
    let expected = fresh();
    let calls = [Call::Allocation, Call::Launch, Call::Capture, Call::Upload, Call::Wait];
    let counts = in_parallel(calls.len(), |n| {
        let call = calls[n];
        let mut count = 0;
        for after in failing() {
            let device = Rc::new(Failing::new(kernels.clone(), options, call, after));
            match catch_unwind(AssertUnwindSafe(|| trained(device))).expect("a failure is no panic") {
                Ok(numbers) => {
                    assert_eq!(numbers, expected, "{call:?} is asked for {after} times");
                    break;
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains(&Failing::message(call)), "{call:?} after {after}: {told}");
                }
            }
            count += 1;
        }
        assert_eq!(fresh(), expected, "another device is not affected");
        count
    });
    assert!(counts.iter().all(|count| *count > 3), "every call came: {counts:?}");
}
