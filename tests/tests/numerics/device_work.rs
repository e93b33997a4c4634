//! What the checks of kernels run: every kernel at least once, in cases that are small.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_cuda::device::{Device, GeneratedKernel, KernelTarget};
use rtc_cuda::generated;
use rtc_exec::learner::{Learner, LearnerState, Lookahead, OptimiserKind, UpdateRule};
use rtc_kernel::Precision;
use rtc_task::Example;
use rtc_tests::models::{self, CLASSES, binding};
use rtc_tests::numeric::{Run, formula};
use rtc_tests::turn::Turn;
use rtc_train::examine::Examined;

use super::device::{Case, all_masks, all_ops, all_specs, example, on_device};
use super::{device_attention, device_narrow};

/// Of so many specs one is part of all work.
const SPECS: usize = 6;

/// Something that runs on a device in single precision.
pub(super) enum Work {
    /// A training step of a graph, with kernels made for this.
    Step(Box<Case>, KernelTarget),
    /// Updates of a small model with an optimiser, then all that can be asked of it.
    Training(OptimiserKind),
}

/// What came out.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Step(Run),
    Training(Vec<u64>, LearnerState),
}

impl Work {
    /// Every op, every loop, every mask, every engine of attention, every optimiser, and some specs, by turns. Where `RTC_WORK` is set, those
    /// with all specs whose name has this in it.
    pub(super) fn all() -> Vec<Self> {
        let single = KernelTarget::default();
        let wanted = std::env::var("RTC_WORK").ok();
        let every = if wanted.is_some() { 1 } else { SPECS };
        let cases = all_ops().into_iter().chain(all_specs().into_iter().step_by(every)).chain(all_masks());
        let cases = cases.chain(device_attention::cases_of_codes()).chain([one_id()]);
        let mut all: Vec<Self> = cases.map(|case| Self::Step(case.into(), single)).collect();
        for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
            let target = KernelTarget { precision, ..single };
            all.extend(device_attention::cases().into_iter().map(|case| Self::Step(case.into(), target)));
        }
        let bf16 = KernelTarget { precision: Precision::Bf16, ..single };
        all.extend(device_narrow::cases().into_iter().map(|case| Self::Step(case.into(), bf16)));
        all.extend(OptimiserKind::ALL.into_iter().map(Self::Training));
        match wanted {
            Some(part) => all.retain(|work| work.name().contains(&part)),
            None => {
                let mut numbers = 0..;
                all.retain(|work| numbers.next().is_some_and(|number| Turn::of_run().takes(number, &work.name())));
            }
        }
        all
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Step(case, target) => format!("{} {}", case.name, target.precision.name()),
            Self::Training(kind) => format!("{kind:?}"),
        }
    }

    /// The kernels that it needs made.
    pub(super) fn made(&self) -> BTreeSet<GeneratedKernel> {
        match self {
            Self::Step(case, target) => generated(&plan(case.graph.clone()), *target),
            Self::Training(_) => {
                let (first, second) = plans();
                let all = [first, second, slopes()];
                let made = all.iter().flat_map(|plan| generated(plan, KernelTarget::default()));
                made.chain([rtc_cuda::update_kernel(&formula())]).collect()
            }
        }
    }

    /// What kernels are made for.
    pub(super) fn target(&self) -> KernelTarget {
        if let Self::Step(_, target) = self { *target } else { KernelTarget::default() }
    }

    pub(super) fn run(&self, device: Rc<dyn Device>) -> Outcome {
        match self {
            Self::Step(case, _) => Outcome::Step(on_device::<f32>(case, device)),
            Self::Training(kind) => training(*kind, device),
        }
    }
}

/// A row of one token that comes more often than a piece of the gradient of a table holds.
fn one_id() -> Case {
    let spec = models::parse(
        "model m { embed { width: 8 }\n recur depthwise { depth: 1\n feedforward { hidden: 4 } }\n readout mean }",
    );
    let graph = pipeline::training(&spec, &binding(Objective::Classify)).expect("it lowers");
    let mut batch = example(&[300, 2], Objective::Classify);
    batch.tokens.fill(1);
    Case::new("one id", graph, batch)
}

fn model() -> models::Model {
    models::one("rir_grc.rt", "rir_grc", Objective::Classify, &[])
}

fn plans() -> (rtc_compiler::plan::Plan, rtc_compiler::plan::Plan) {
    pipeline::plans(&model().spec, &binding(Objective::Classify)).expect("it lowers")
}

fn slopes() -> rtc_compiler::plan::Plan {
    let bound = Binding { vocab: Some(5), ..binding(Objective::Classify) };
    pipeline::slopes(&model().spec, &bound).expect("it lowers")
}

fn training(kind: OptimiserKind, device: Rc<dyn Device>) -> Outcome {
    let (first, second) = plans();
    let mut model = rtc_cuda::model::<f32>(first, second, binding(Objective::Classify), 5, device).expect("it fits");
    model.set_formula(Some(formula()));
    let batch = example(&[5, 1, 9], Objective::Classify);
    let mut numbers = vec![];
    let lookahead = Lookahead { every: 2, follow: 0.6 };
    for clip in [None, Some(0.1)] {
        for _ in 0..2 {
            numbers.push(model.accumulate(&batch, 0.5).expect("it fits").loss);
        }
        numbers.push(
            model
                .update(&UpdateRule { kind, clip, weight_decay: 0.1, lookahead, ..UpdateRule::ADAMW })
                .expect("finite"),
        );
        model.average(0.9);
    }
    numbers.push(model.examine(&batch).expect("it fits").evaluation.loss_sum);
    let states = model.states(&batch).expect("it fits");
    numbers.extend(states.iter().flat_map(|state| &state.states).map(|x| f64::from(*x)));
    let row = [Example::classified(vec![1, 4, 2, 2, 3], 0)];
    let saliency = model.saliency(slopes(), CLASSES, &row).expect("it fits");
    numbers.extend(saliency.into_iter().flatten().flatten());
    Outcome::Training(numbers.into_iter().map(f64::to_bits).collect(), model.state())
}

/// Threads of a block.
pub(super) const THREADS: [u32; 2] = [64, 256];

/// Every work with the threads of its blocks: both numbers where `RTC_WORK` is set, else they take turns.
pub(super) fn with_threads(all: &[Work]) -> Vec<(usize, u32)> {
    let both = std::env::var_os("RTC_WORK").is_some();
    let of =
        |n: usize| THREADS.into_iter().enumerate().filter(move |(m, _)| both || n % 2 == *m).map(move |(_, t)| (n, t));
    (0..all.len()).flat_map(of).collect()
}

/// Does everything from 0 up to `count`, on as many threads as the machine has: a device belongs to one.
pub(super) fn in_parallel<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = vec![];
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return done;
            }
            done.push((n, run(n)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, done)| done).collect()
}
