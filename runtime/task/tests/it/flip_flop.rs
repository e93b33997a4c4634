//! Flip-flop: the law of the sequences, splits that share none, and broken rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rtc_task::TaskSettings;
use rtc_task::flip_flop::{SYMBOLS, example, parse};
use rtc_task::{Example, ExampleTarget, OptionValue, Options, Task, load, load_split, task_named};

const SPLITS: [&str; 9] =
    ["train", "dev", "test", "dense", "medium", "sparse", "long-dense", "long-medium", "long-sparse"];

fn task() -> &'static dyn Task {
    task_named("flip_flop").expect("it exists")
}

fn settings(options: &[(&str, u64)], size: usize) -> TaskSettings {
    TaskSettings {
        name: "flip_flop".into(),
        options: options.iter().map(|(name, value)| (name.to_string(), OptionValue::Integer(*value))).collect(),
        sizes: SPLITS.iter().map(|name| (name.to_string(), size)).collect(),
        seed: 5,
        ..TaskSettings::default()
    }
}

fn scored(example: &Example) -> Vec<(usize, u32)> {
    let ExampleTarget::Each { class, weight } = &example.label else { panic!("one class per token") };
    (0..class.len()).filter(|at| weight[*at] == 1.0).map(|at| (at, class[at])).collect()
}

/// The sequence whose inputs the example has: one place to the left, and the last bit at the end.
fn symbols(example: &Example) -> Vec<u32> {
    let last = scored(example).last().expect("every sequence ends with a read").1;
    [&example.tokens[1..], &[last + 3]].concat()
}

/// With T symbols and a share p of ignored instructions a sequence has 1 + (T/2 - 2) (1 - p) / 2 reads on average.
#[test]
fn the_number_of_reads_is_the_expected_one() {
    let data = load(&settings(&[], 400), &SPLITS).expect("generated");
    let cases = [
        ("train", 26.4, 512),
        ("test", 26.4, 512),
        ("medium", 26.4, 512),
        ("dense", 115.3, 512),
        ("sparse", 3.54, 512),
        ("long-medium", 52.0, 1024),
        ("long-dense", 230.5, 1024),
        ("long-sparse", 6.1, 1024),
    ];
    for (split, expected, length) in cases {
        let examples = data.split(split);
        assert!(examples.iter().all(|example| example.tokens.len() == length), "{split}");
        let reads: Vec<f64> = examples.iter().map(|example| scored(example).len() as f64).collect();
        let mean = reads.iter().sum::<f64>() / reads.len() as f64;
        // The number of reads is one plus a binomial one: four standard errors of its mean.
        let error = ((expected - 1.0) / reads.len() as f64).sqrt();
        assert!((mean - expected).abs() < 4.0 * error + 0.05, "{split}: {mean} reads instead of {expected}");
    }
}

#[test]
fn sequences_are_flip_flops_and_no_two_splits_share_one() {
    let data = load(&settings(&[("pairs", 16), ("long_pairs", 24)], 300), &SPLITS).expect("generated");
    let mut seen = BTreeSet::new();
    for split in SPLITS {
        assert_eq!(data.split(split).len(), 300);
        for found in data.split(split) {
            let symbols = symbols(found);
            assert_eq!(example(&symbols).as_ref(), Ok(found), "{split}");
            assert_eq!(symbols[symbols.len() - 2], 2, "the last instruction reads");
            assert!(seen.insert(symbols), "{split} repeats a sequence");
        }
    }
    assert_eq!((data.vocabulary, data.classes), (5, 2));
}

#[test]
fn dev_takes_the_settings_in_turn() {
    let dev = load_split(&settings(&[("pairs", 16), ("long_pairs", 24)], 140), "dev").expect("generated");
    let long = dev.iter().filter(|example| example.tokens.len() == 48).count();
    assert!((55..=65).contains(&long), "three of seven are long: {long} of 140");
    let ignored = |example: &&Example| symbols(example).iter().filter(|id| **id == 1).count();
    assert!(dev.iter().filter(|e| ignored(e) >= 14).count() > 30, "sparse ones");
    assert!(dev.iter().filter(|e| ignored(e) <= 4).count() > 30, "dense ones");
}

/// Whatever the seed, no training sequence is one of a test: short ones, of which there are few, would meet.
#[test]
fn training_and_test_are_disjoint_for_different_seeds() {
    let options = [("pairs", 6), ("long_pairs", 8)];
    let test: BTreeSet<Vec<u32>> =
        load_split(&settings(&options, 60), "test").expect("generated").into_iter().map(|e| e.tokens).collect();
    for seed in 0..4 {
        let mut settings = settings(&options, 200);
        settings.seed = seed;
        let train = load_split(&settings, "train").expect("generated");
        assert!(train.iter().all(|example| !test.contains(&example.tokens)));
    }
    let error = load_split(&settings(&[("pairs", 2)], 10), "train").expect_err("there are only two");
    assert!(error.message.contains("10 distinct examples"), "{error}");
}

#[test]
fn generation_is_a_function_of_the_seed_and_a_smaller_split_is_a_prefix() {
    let options = [("pairs", 16), ("long_pairs", 24)];
    for split in SPLITS {
        let large = load_split(&settings(&options, 60), split).expect("generated");
        let small = load_split(&settings(&options, 20), split).expect("generated");
        assert_eq!(large[..20], small[..], "{split}");
        let mut other = settings(&options, 20);
        other.seed = 6;
        assert_ne!(load_split(&other, split).expect("generated"), small);
    }
}

#[test]
fn the_metric_counts_the_last_read_alone() {
    let found = example(&parse("w 1 r 1 i 0 r 1").expect("symbols")).expect("a flip-flop");
    let metric = task().about().metrics[0];
    assert_eq!(metric.name, "last_read");
    let share = |predicted: &[u32]| (metric.count)(&found, predicted).share().expect("answers that count");
    assert_eq!(share(&[0, 0, 0, 0, 0, 0, 0, 1]), 1.0);
    assert_eq!(share(&[1, 1, 1, 1, 1, 1, 1, 0]), 0.0);
}

#[test]
fn files_are_read_and_broken_rows_are_placed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("x.txt");
    let read = |text: &str| {
        fs::write(&path, text).expect("writable");
        task().read(&path, &Options::default())
    };
    let examples = read("w0i1w1r1\nw 1 r 1\n").expect("with blanks and without");
    assert_eq!(scored(&examples[0]), [(7, 1)]);
    assert_eq!(symbols(&examples[1]), [0, 4, 2, 4]);
    for (text, message) in [
        ("w0r0\nw0r1\n", "reads 1, but 0 was written"),
        ("w0r0\n\n", "pairs"),
        ("w0r0\nx0\n", "`x` is no symbol"),
        ("w0r0\nr0w0\n", "starts with `w`"),
    ] {
        let error = read(text).expect_err(message);
        assert_eq!(error.line, Some(2), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let options = rtc_task::resolve_options(task().about().options, &BTreeMap::new()).expect("defaults");
    assert_eq!(task().encode("w 0 r", &options), Ok(vec![0, 3, 2]));
    assert_eq!(SYMBOLS.len(), task().vocabulary(&options).len());
}
