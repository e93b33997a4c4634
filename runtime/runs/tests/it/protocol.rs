//! Mistakes in the protocol of generated strings are refused with their line.

use rtc_runs::experiment::ExperimentFile;

const EXPERIMENT: &str = "
task:
  name: parity_check
  options: { train_length: 6 }
  sizes: { dev: 30, 7-9: 30 }
fresh: { lengths: each, curriculum: { from: 1, every: 4 }, pass: 9 }
ema: { decay: 0.9, after: 6 }
optimiser: { learning_rate: 0.05 }
schedule: { kind: cosine, start: 10 }
batch: { size: 8 }
max_steps: 30
evaluate: [dev, 7-9]
";

#[test]
fn mistakes_in_the_protocol_are_placed() {
    ExperimentFile::parse("x.yaml", EXPERIMENT).expect("valid");
    let cases = [
        ("every: 4", "every: 0", "`every` must be at least 1"),
        ("from: 1", "from: 0", "`from` must be at least 1"),
        ("pass: 9", "pass: 0", "`pass` must be at least 1"),
        ("pass: 9", "pass: 99999999999999", "at most 10000000"),
        ("decay: 0.9", "decay: 1", "`decay` must lie in 0..1"),
        ("decay: 0.9", "decay: .nan", "`decay` must lie in 0..1"),
        ("kind: cosine", "kind: constant", "`start` belongs to"),
        ("start: 10", "start: 10, total: 10", "`total` must be larger"),
        ("lengths: each", "lengths: eech", "did you mean `each`?"),
        ("size: 8", "size: 8, buckets: length", "for stored examples"),
        ("[dev, 7-9]", "[dev, 9-7]", "`9-7`"),
        ("name: parity_check", "name: flip_flop", "task option"),
    ];
    for (good, wrong, expected) in cases {
        let text = EXPERIMENT.replace(good, wrong);
        let error = ExperimentFile::parse("x.yaml", &text).expect_err(expected);
        assert!(error.message.contains(expected), "{error} should say {expected}");
        assert!(error.line.is_some(), "{error}");
    }
    let stored = EXPERIMENT.replace("parity_check", "listops").replace("  options: { train_length: 6 }\n", "");
    let error = ExperimentFile::parse("x.yaml", &stored.replace("7-9", "test")).expect_err("no strings").message;
    assert!(error.contains("listops is none"), "{error}");
}
