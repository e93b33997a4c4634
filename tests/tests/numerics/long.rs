//! Long rows: hundreds of chunks on a small stack, and a steady state without allocations.

use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::batch;

const RULE: UpdateRule = UpdateRule {
    learning_rate: 1e-3,
    beta1: 0.9,
    beta2: 0.98,
    epsilon: 1e-8,
    weight_decay: 0.1,
    clip: Some(1.0),
    ..UpdateRule::ADAMW
};

fn new(model: &Model) -> Trained<f32> {
    let binding = binding(Objective::Classify);
    let (training, inference) =
        pipeline::plans(&model.spec, &binding).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    Trained::new(training, inference, binding, 1)
}

#[test]
fn two_hundred_chunks_fit_on_a_small_stack() {
    let run = || {
        let model = models::one("tlb.rt", "tlb", Objective::Classify, &["chunkwise.size: 10"]);
        let mut trained = new(&model);
        let rows = batch(&[2000, 1990, 1, 640], VOCAB as u64, CLASSES as u64, 1);
        let report = trained.accumulate(&rows, 1.0).expect("the batch fits");
        assert!(report.loss.is_finite());
        let slots = trained.executor().plan().parameters.iter().position(|p| p.name == "chunkwise.memory.slots");
        let range = rtc_exec::parameter_ranges(trained.executor().plan())[slots.expect("the memory")].clone();
        assert!(trained.executor().gradients()[range].iter().any(|g| *g != 0.0), "the first memory gets a gradient");
        trained.update(&RULE).expect("the gradients are finite");
        let after = trained.evaluate(&rows).expect("the batch fits");
        assert!(after.loss_sum.is_finite());
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread starts");
    thread.join().expect("200 chunks run forwards and backwards in 2 MiB of stack");
}

/// What one shape leaves serves any other: batches of other lengths, and rows that halt at other steps as the weights
/// change, need no more memory than the largest of them, apart from a little that lies between blocks; for the smallest
/// models that is as much as a block of the widest kind, five vectors per token.
#[test]
fn the_arena_follows_the_largest_batch() {
    for model in models::telling(Objective::Classify, &["embed.width: 64"]) {
        let mut trained = new(&model);
        let shapes: &[&[usize]] = &[&[40, 3, 25, 17, 31], &[11, 12], &[60, 2, 2, 44], &[1], &[29, 30, 31, 32]];
        for (n, lengths) in shapes.iter().cycle().take(20).enumerate() {
            let rows = batch(lengths, VOCAB as u64, CLASSES as u64, n as u64);
            trained.accumulate(&rows, 1.0).expect("the batch fits");
            trained.update(&RULE).expect("the gradients are finite");
            trained.evaluate(&rows).expect("the batch fits");
        }
        let usage = trained.executor().arena().usage();
        assert_eq!(usage.chunks, 1, "{}: {usage:?}", model.name);
        assert!(usage.touched <= usage.most + usage.most / 4 + (320 << 10), "{}: {usage:?}", model.name);
    }
}
