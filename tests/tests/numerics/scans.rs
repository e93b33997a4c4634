//! Models that scan: what is frozen stays, and they learn.

use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model;
use rtc_tests::models::{CLASSES, VOCAB, binding, one};
use rtc_tests::numeric::{batch, differences, run, weights};

/// Longer rows than those that are convolved directly, and shorter ones.
const LENGTHS: [usize; 3] = [70, 3, 130];

/// Freezing cuts gradients and changes nothing else.
#[test]
fn the_frozen_direction_gets_no_gradient() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    let binding = binding(Objective::Classify);
    let of = |name: &str| {
        let found = one("s4d.rt", name, Objective::Classify, &[]);
        let (training, _) = pipeline::plans(&found.spec, &binding).expect("the spec has a plan");
        run::<f64>(&training.graph, &weights(&training.graph, 1, 0.5), &rows, Halting::Compact)
    };
    let (trained, frozen) = (of("s4d:single"), of("s4d:single_frozen"));
    assert!(differences(&trained.outputs, &frozen.outputs, 1e-12).is_empty());
    let behind: Vec<_> = frozen.gradients.iter().filter(|(name, _)| name.contains(".backward.")).collect();
    // Two layers at the small size, with six parameters each.
    assert_eq!(behind.len(), 12);
    for (name, gradient) in &behind {
        assert!(gradient.iter().all(|g| *g == 0.0), "{name}");
        assert!(trained.gradients[*name].iter().any(|g| *g != 0.0), "{name}");
    }
    assert!(
        frozen
            .gradients
            .iter()
            .filter(|(name, _)| name.contains(".forward."))
            .all(|(_, g)| g.iter().any(|g| *g != 0.0))
    );
    assert_ne!(trained.gradients["embed.table"], frozen.gradients["embed.table"]);
}

/// Training lowers the loss of a batch that is shown again and again.
#[test]
fn models_that_scan_learn() {
    let rows = batch(&[9, 4, 12, 7], VOCAB as u64, CLASSES as u64, 5);
    for (file, name) in [("s4d.rt", "s4d"), ("s4d.rt", "s4d:single_frozen"), ("mega.rt", "mega")] {
        let found = one(file, name, Objective::Classify, &["model.dropout: 0.0"]);
        let binding = binding(Objective::Classify);
        let (training, inference) = pipeline::plans(&found.spec, &binding).expect("the spec has a plan");
        let mut model = Model::<f32>::new(training, inference, binding, 3);
        let rule = UpdateRule { learning_rate: 0.02, ..UpdateRule::ADAMW };
        let mut losses = vec![];
        for _ in 0..50 {
            losses.push(model.accumulate(&rows, 1.0).expect("the batch fits").loss);
            model.update(&rule).expect("the gradients are finite");
        }
        assert!(losses[49] < 0.7 * losses[0], "{name}: {} to {}", losses[0], losses[49]);
    }
}
