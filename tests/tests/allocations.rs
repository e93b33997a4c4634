//! A step in the steady state allocates nothing: the arena of the executor is kept, and everything comes from it.
//!
//! Every allocation of the tenth training step and of the tenth inference of every model is caught with its backtrace,
//! in all threads. One test alone in its binary: the counter is that of the process.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::learner::{Learner, OptimiserKind, UpdateRule};
use rtc_exec::model::Model;
use rtc_exec::{Executor, Halting};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{batch, differentiated, executor, graph, weights};

struct Watching;

static WATCH: AtomicBool = AtomicBool::new(false);
static CAUGHT: Mutex<Vec<Backtrace>> = Mutex::new(vec![]);

thread_local! {
    /// True while an allocation is being noted, which allocates.
    static NOTING: Cell<bool> = const { Cell::new(false) };
}

fn note() {
    if WATCH.load(Ordering::SeqCst) && !NOTING.replace(true) {
        let trace = Backtrace::force_capture();
        CAUGHT.lock().expect("nobody panics with the lock").push(trace);
        NOTING.set(false);
    }
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// The lines of the runtime that stand behind an allocation, innermost first; the whole trace where there is none.
fn origin(trace: &Backtrace) -> String {
    let text = trace.to_string();
    let place = |line: &str| Some(line.trim().strip_prefix("at ")?.split_once("runtime/")?.1.to_owned());
    let found: Vec<String> = text.lines().filter_map(place).take(3).collect();
    if found.is_empty() { text } else { found.join(" < ") }
}

/// Runs `step` ten times; gives where the allocations of the last time come from, with their number.
fn caught(mut step: impl FnMut(&Batch)) -> BTreeMap<String, usize> {
    let lengths: [&[usize]; 3] = [&[9, 3, 14, 1], &[5, 5], &[2, 17, 8, 6, 4]];
    let batches: Vec<Batch> =
        lengths.iter().enumerate().map(|(n, l)| batch(l, VOCAB as u64, CLASSES as u64, n as u64)).collect();
    for n in 0..9 {
        step(&batches[n % 3]);
    }
    WATCH.store(true, Ordering::SeqCst);
    step(&batches[0]);
    WATCH.store(false, Ordering::SeqCst);
    let traces = std::mem::take(&mut *CAUGHT.lock().expect("nobody panics with the lock"));
    let mut out = BTreeMap::new();
    for trace in &traces {
        *out.entry(origin(trace)).or_default() += 1;
    }
    out
}

fn check(model: &models::Model, threads: usize, faults: &mut Vec<String>) {
    let rule = |kind| UpdateRule {
        kind,
        learning_rate: 1e-2,
        beta1: 0.9,
        beta2: 0.98,
        epsilon: 1e-8,
        weight_decay: 0.1,
        clip: Some(1.0),
        ..UpdateRule::ADAMW
    };
    let binding = binding(Objective::Classify);
    let (training, inference) = pipeline::plans(&model.spec, &binding).expect("the spec has a plan");
    let mut forward = Executor::<f32>::new(Arc::new(inference.clone()));
    let mut trained = Model::<f32>::new(training, inference, binding, 1);
    let mut steps = |kind| {
        caught(|rows| {
            trained.accumulate(rows, 1.0).expect("the batch fits");
            trained.update(&rule(kind)).expect("the gradients are finite");
        })
    };
    let (plain, muon) = (steps(OptimiserKind::Adamw), steps(OptimiserKind::Muon));
    let inferences = caught(|rows| drop(forward.run(rows, Key::new(1)).expect("the batch fits")));
    for (what, found) in [("training step", plain), ("step of muon", muon), ("inference", inferences)] {
        faults
            .extend(found.iter().map(|(place, n)| format!("{}, {what}, {threads} threads: {n} x {place}", model.name)));
    }
}

/// A training step of loops that count their steps, with draws, drawn depths and a loss of every label, which no model has.
fn check_graph(threads: usize, faults: &mut Vec<String>) {
    let loss = "%labels = input {name: \"labels\"} : u32[batch]
                %each = cross_entropy_each %logits, %labels {kind: stablemax} : f32[batch]
                %says = right %logits, %labels : f32[batch]
                %all = map %each, %says {f: mul(a, add(b, 0.5))} : f32[batch]
                %weights = uniform %all {low: 0.5, high: 1.0, stream: 2} : f32[batch]
                %loss = average %all, %weights : f32[]
                return %loss {names: \"loss\"}";
    let text = models::STEPS
        .replace("full %x {value: 0.0, rank: 3}", "normal %x {std: 0.5, cut: 2.0, stream: 1}")
        .replace("min(log(length, 2), 4)", "min(poisson(lognormal(2.0, 0.5, 2, row, 2.0), 1, row, 2), 4)")
        .replace("return %logits {names: \"logits\"}", loss);
    let graph = graph(&text);
    let mut trained = executor::<f32>(&differentiated(&graph), &weights(&graph, 1, 0.5), Halting::Compact);
    let found = caught(|rows| drop(trained.run(rows, Key::new(1)).expect("the batch fits")));
    faults.extend(found.iter().map(|(place, n)| format!("steps, {threads} threads: {n} x {place}")));
}

#[test]
fn the_tenth_step_allocates_nothing() {
    let mut faults = vec![];
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
        for model in models::all(Objective::Classify, &[]) {
            pool.install(|| check(&model, threads, &mut faults));
        }
        pool.install(|| check_graph(threads, &mut faults));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
