//! Rows do not see one another, and threads do not change a bit.

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::plan::Plan;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_exec::{Executor, Halting};
use rtc_kernel::Vectors;
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{asking, batch, executor, weights};

/// Lengths of the rows of the batch.
const LENGTHS: [usize; 16] = [1, 60, 7, 33, 2, 19, 48, 5, 12, 1, 27, 3, 55, 9, 16, 41];

/// `cut: balanced` and `plan: batch` cut by the padded width, so that rows do see the longest one; these specs are cut by
/// position and row here.
const BY_POSITION: &[&str] = &["chunkwise.cut: position", "balanced.plan: row"];
/// Wide enough that products are blocked and shared among threads.
const WIDE: &[&str] = &[
    "chunkwise.cut: position",
    "balanced.plan: row",
    "embed.width: 72",
    "feedforward.hidden: 100",
    "depthwise.feedforward.hidden: 100",
    "stack.feedforward.hidden: 100",
    "cell.hidden: 100",
];

const OBJECTIVES: [Objective; 2] = [Objective::Classify, Objective::Each];

/// The row alone, in a batch of width `width`.
fn alone(whole: &Batch, row: usize, width: usize) -> Batch {
    let range = whole.offsets[row]..whole.offsets[row + 1];
    let labels = match &whole.labels {
        Labels::Class(class) => Labels::Class(vec![class[row]]),
        Labels::Each { class, weight } => {
            Labels::Each { class: class[range.clone()].to_vec(), weight: weight[range.clone()].to_vec() }
        }
        others => panic!("{others:?} are not asked for"),
    };
    let depths = whole.depths.as_ref().map(|depths| vec![depths[row]]);
    Batch { offsets: vec![0, range.len()], tokens: whole.tokens[range].to_vec(), labels, width, depths, given: vec![] }
}

/// The executor of a model as it predicts, with random weights.
fn predicting(model: &Model, objective: Objective) -> Executor<f32> {
    let graph = pipeline::inference(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    executor(&graph, &weights(&graph, 2, 0.4), Halting::Compact)
}

/// The logits of a batch, bit by bit.
fn logits(executor: &mut Executor<f32>, batch: &Batch) -> Vec<u32> {
    let outputs = executor.run(batch, Key::new(0)).expect("the batch fits");
    outputs.real("logits").expect("a model gives logits").iter().map(|x| x.to_bits()).collect()
}

fn rows(objective: Objective, lengths: &[usize]) -> Batch {
    let rows = batch(lengths, VOCAB as u64, CLASSES as u64, 8);
    asking(rows, objective, 8)
}

#[test]
fn a_row_gives_the_same_bits_alone_and_among_others() {
    for objective in OBJECTIVES {
        let all = [BY_POSITION, WIDE].into_iter().flat_map(|edits| models::telling(objective, edits));
        for model in models::of_turn(all.collect()) {
            let mut executor = predicting(&model, objective);
            let whole = rows(objective, &LENGTHS);
            let together = logits(&mut executor, &whole);
            let unit = together.len() / if objective == Objective::Each { whole.tokens.len() } else { whole.rows() };
            for (row, length) in LENGTHS.into_iter().enumerate() {
                let span = if objective == Objective::Each {
                    whole.offsets[row]..whole.offsets[row + 1]
                } else {
                    row..row + 1
                };
                let expected = &together[span.start * unit..span.end * unit];
                for width in [length, 60, 77] {
                    let one = logits(&mut executor, &alone(&whole, row, width));
                    assert_eq!(one, expected, "{}: row {row} of length {length} alone, width {width}", model.name);
                }
            }
            let wider = Batch { width: 100, ..whole };
            assert_eq!(logits(&mut executor, &wider), together, "{}: padded to 100", model.name);
        }
    }
}

#[test]
fn folds_planned_by_the_batch_are_the_other_exception() {
    let model = models::one("rir_grc.rt", "rir_grc:padded", Objective::Classify, &["balanced.arity: 3"]);
    let mut executor = predicting(&model, Objective::Classify);
    let row = rows(Objective::Classify, &[3]);
    let alone = logits(&mut executor, &row);
    let padded = logits(&mut executor, &Batch { width: 5, ..row });
    assert_ne!(alone, padded, "one level alone, two in a batch of width 5");
}

#[test]
fn balanced_chunks_are_the_exception() {
    let mut seen = 0;
    for model in models::all(Objective::Classify, &["chunkwise.cut: balanced", "chunkwise.size: 6"]) {
        let by_size = model.spec.root.any(&|b| b.word("cut") == Some("balanced") && b.int("size").is_some());
        // A fold around cuts the row first.
        if !by_size || model.folds() {
            continue;
        }
        seen += 1;
        let mut executor = predicting(&model, Objective::Classify);
        let row = rows(Objective::Classify, &[13]);
        let alone = logits(&mut executor, &row);
        let padded = logits(&mut executor, &Batch { width: 18, ..row });
        assert_ne!(alone, padded, "{}: 5 + 5 + 3 alone, 6 + 6 + 1 in a batch of width 18", model.name);
    }
    assert!(seen >= 2, "tlb and gutlb are cut this way");
}

/// Loss, gradients and parameters, bit by bit.
type Bits = (Vec<u64>, Vec<u32>, Vec<u32>);

/// Five updates on `threads` threads; the gradients are those of the last.
fn trained((training, inference): (Plan, Plan), objective: Objective, threads: usize) -> Bits {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool starts");
    pool.install(|| {
        let mut trained = Trained::<f32>::new(training, inference, binding(objective), 3);
        let rule = UpdateRule {
            learning_rate: 0.01,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-8,
            weight_decay: 0.1,
            clip: Some(1.0),
            ..UpdateRule::ADAMW
        };
        let (mut losses, mut gradients) = (vec![], vec![]);
        for step in 0..5 {
            let mut lengths = LENGTHS;
            lengths.rotate_left(step);
            let report = trained.accumulate(&rows(objective, &lengths), 1.0).expect("the batch fits");
            losses.push(report.loss.to_bits());
            gradients = trained.executor().gradients().iter().map(|g| g.to_bits()).collect();
            trained.update(&rule).expect("the gradients are finite");
        }
        let parameters = trained.executor().parameters().iter().map(|p| p.to_bits()).collect();
        (losses, gradients, parameters)
    })
}

#[test]
fn threads_and_vectors_do_not_change_a_bit() {
    for objective in OBJECTIVES {
        // Wide ones once: they take most of the time.
        let sizes: &[&[&str]] = if objective == Objective::Classify { &[&[], WIDE] } else { &[&[]] };
        let all = sizes.iter().flat_map(|edits| models::telling(objective, edits));
        for model in models::of_turn(all.collect()) {
            let plans = pipeline::plans(&model.spec, &binding(objective));
            let plans = plans.unwrap_or_else(|e| panic!("{}: {e}", model.name));
            let one = trained(plans.clone(), objective, 1);
            for (threads, vectors) in [(2, Vectors::Widest), (3, Vectors::Avx2)] {
                // The same vectors again, where the machine has no others.
                let _ = vectors.allow();
                let several = trained(plans.clone(), objective, threads);
                assert!(one == several, "{} on {threads} threads, vectors {}", model.name, vectors.name());
            }
            assert_eq!(Vectors::Widest.allow(), Ok(()));
        }
    }
}
