//! Logical inference: the published files, the generated buckets, and broken rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use rtc_task::logic::{Relation, parse, relation};
use rtc_task::{DataSource, TaskSettings};
use rtc_task::{Example, ExampleTarget, OptionValue, Options, Task, describe, load, load_split, sample, task_named};

use crate::published::published;

/// Rows of the published buckets 0 to 12, training and test together.
const PUBLISHED: [usize; 13] = [36, 2729, 14649, 27356, 35734, 40179, 38768, 31378, 22309, 14864, 9625, 5758, 5684];

fn task() -> &'static dyn Task {
    task_named("logic").expect("it exists")
}

fn settings(pairs: u64, sizes: &[(&str, usize)]) -> TaskSettings {
    TaskSettings {
        name: "logic".into(),
        options: BTreeMap::from([("pairs".to_owned(), OptionValue::Integer(pairs))]),
        sizes: sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect(),
        seed: 3,
        ..TaskSettings::default()
    }
}

/// Both formulas of an example as text.
fn sides(example: &Example) -> [String; 2] {
    let text = |tokens: &[u32]| task().decode(tokens, &Options::default());
    [text(&example.tokens), text(example.second.as_deref().expect("a pair"))]
}

/// The larger number of operators, and the relation that the calculator finds.
fn judged(example: &Example) -> (usize, Relation) {
    let [left, right] = sides(example).map(|text| parse(&text).expect("a formula"));
    (left.operators().max(right.operators()), relation(&left, &right).expect("neither is trivial"))
}

fn class(example: &Example) -> usize {
    match example.label {
        ExampleTarget::Class(class) => class as usize,
        _ => panic!("a pair has one class"),
    }
}

/// The reader refuses a row whose relation is not the calculator's, so reading is checking.
#[test]
fn the_calculator_agrees_with_every_published_row() {
    let Some(folder) = published("propositional_logic") else { return };
    let mut rows = 0;
    let mut buckets = [0; 13];
    for kind in ["train", "test"] {
        for (bucket, count) in buckets.iter_mut().enumerate() {
            let examples = task().read(&folder.join(format!("{kind}{bucket}.gz")), &Options::default());
            let examples = examples.expect("no disagreement");
            rows += examples.len();
            *count += examples.len();
            assert!(examples.iter().all(|example| judged(example).0.min(12) == bucket), "{kind}{bucket}");
        }
    }
    assert_eq!((rows, buckets), (249_069, PUBLISHED));
}

#[test]
fn the_published_folder_gives_the_usual_split() {
    let Some(folder) = published("propositional_logic") else { return };
    let mut settings = settings(1000, &[]);
    settings.data = Some(DataSource::Folder(folder.display().to_string()));
    let data = load(&settings, &["train", "dev", "ops-7", "ops-12"]).expect("read");
    let sizes = ["train", "dev", "ops-7", "ops-12"].map(|name| data.split(name).len());
    assert_eq!(sizes, [121_977, 13_552, 4_707, 853]);
    assert_eq!(data.generated, Vec::<String>::new());
    let shares = describe(data.split("train")).label_shares;
    assert!((shares[&6] - 0.542).abs() < 0.002, "independence: {}", shares[&6]);
    // The tenth row of the first file is the first of dev.
    let first = task().read(&folder.join("train0.gz"), &Options::default()).expect("read");
    assert_eq!(data.split("dev")[0], first[9]);
    assert_eq!(data.split("train")[9], first[10]);
}

/// The tolerances are three and a half times the root of the published size, and of the generated one.
#[test]
fn generated_buckets_have_the_published_sizes() {
    let mut names = vec!["train".to_owned(), "dev".to_owned()];
    names.extend((0..=12).map(|bucket| format!("ops-{bucket}")));
    let sizes: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 10_000_000)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let data = load(&settings(500_000, &sizes), &names).expect("generated");
    for (bucket, published) in PUBLISHED.iter().enumerate() {
        // 15 % of a bucket are for testing.
        let found = data.split(&format!("ops-{bucket}")).len() as f64 / 0.15;
        let tolerance = 5.0 * (*published as f64).sqrt() + 7.0;
        assert!((found - *published as f64).abs() < tolerance, "{bucket}: {found} instead of {published}");
    }
    let (train, dev) = (data.split("train").len(), data.split("dev").len());
    assert!((train as f64 - 121_977.0).abs() < 1_700.0, "{train} for training");
    assert_eq!((train + dev) / 10, dev);
    let shares = describe(data.split("train")).label_shares;
    let expected = [0.021, 0.106, 0.107, 0.019, 0.102, 0.102, 0.542];
    for (class, expected) in expected.iter().enumerate() {
        let found = shares[&(class as u32)];
        assert!((found - expected).abs() < 0.005, "{}: {found}", Relation::ALL[class].sign());
    }
    let longest = |name: &str| describe(data.split(name)).lengths[2];
    assert!(longest("train") <= 37 + 8 && longest("ops-12") > 60);
}

#[test]
fn splits_keep_their_promise_and_share_no_pair() {
    let names = ["train", "dev", "ops-0", "ops-3", "ops-6", "ops-7", "ops-12"];
    let data = load(&settings(20_000, &[]), &names).expect("generated");
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(!data.split(name).is_empty(), "{name}");
        for example in data.split(name) {
            let (operators, relation) = judged(example);
            assert_eq!(Relation::ALL[class(example)], relation);
            match name.strip_prefix("ops-") {
                Some("12") => assert!(operators >= 12),
                Some(bucket) => assert_eq!(operators.to_string(), bucket),
                None => assert!(operators <= 6),
            }
            let variables: BTreeSet<char> =
                sides(example).concat().chars().filter(|c| ('a'..='f').contains(c)).collect();
            assert!(!variables.is_empty());
            assert!(seen.insert(example.key()), "{name} repeats a pair");
        }
    }
    assert_eq!((data.vocabulary, data.classes), (11, 7));
}

#[test]
fn generation_is_a_function_of_the_seed_and_a_smaller_split_is_a_prefix() {
    for split in ["train", "dev", "ops-7"] {
        let large = load_split(&settings(5_000, &[(split, 60)]), split).expect("generated");
        let small = load_split(&settings(5_000, &[(split, 20)]), split).expect("generated");
        assert_eq!(large[..20], small[..]);
        let mut other = settings(5_000, &[(split, 20)]);
        other.seed = 4;
        assert_ne!(load_split(&other, split).expect("generated"), small);
    }
    // A prefix of training has formulas of all sizes.
    let train = load_split(&settings(5_000, &[("train", 200)]), "train").expect("generated");
    assert!((1..=6).all(|operators| train.iter().any(|example| judged(example).0 == operators)));
}

#[test]
fn broken_rows_and_files_are_placed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("writable");
        task().read(&path, &Options::default())
    };
    let good = "#\ta\tb\n=\t( not a )\t( not a )\n";
    let examples = read("x", good.as_bytes()).expect("two rows");
    assert_eq!((class(&examples[0]), class(&examples[1])), (6, 0));
    let broken: [(&str, usize, &str); 9] = [
        ("#\ta\tb\n<\ta\tb\n", 2, "the label is <, but the formulas are related by #"),
        ("#\ta\n", 1, "three columns"),
        ("#\ta\tb\tc\n", 1, "has 4"),
        ("#\ta\tb\n\n", 2, "three columns"),
        ("?\ta\tb\n", 1, "`?` is the sign of no relation"),
        ("#\ta\tg\n", 1, "`g` is no variable"),
        ("#\ta\t( not b\n", 1, "ends too early"),
        ("#\ta\t( b ( or ( not b ) ) )\n", 1, "a tautology"),
        ("#\t\tb\n", 1, "ends too early"),
    ];
    for (text, line, message) in broken {
        let error = read("x", text.as_bytes()).expect_err(message);
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let mut packed = GzEncoder::new(vec![], Compression::default());
    packed.write_all(good.repeat(1000).as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    assert_eq!(read("x.gz", &packed).map(|examples| examples.len()), Ok(2000));
    let error = read("x.gz", &packed[..packed.len() / 2]).expect_err("cut off");
    assert!(error.file.ends_with("x.gz") && error.line.is_some(), "{error}");
}

#[test]
fn a_folder_needs_all_parts_of_training() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut settings = settings(2_000, &[("train", 50)]);
    settings.data = Some(DataSource::Folder(folder.path().display().to_string()));
    let error = load(&settings, &["train"]).expect_err("nothing there");
    assert!(error.message.contains("train0"), "{error}");
    fs::write(folder.path().join("test7"), "#\ta\tb\n").expect("writable");
    let data = load(&settings, &["ops-7", "train"]).expect("read and generated");
    assert_eq!((data.split("ops-7").len(), data.generated.as_slice()), (1, &["train".to_owned()][..]));
    assert!(data.split("train").iter().all(|example| example.key() != data.split("ops-7")[0].key()));
    fs::write(folder.path().join("train0"), "#\ta\tb\n").expect("writable");
    let error = load(&settings, &["train"]).expect_err("train1 is missing");
    assert!(error.message.contains("train1"), "{error}");
}

#[test]
fn pairs_are_shown_and_read_as_people_write_them() {
    let pair = Example { second: Some(vec![6]), ..Example::classified(vec![0, 2, 5, 1], 6) };
    let rows = sample(task(), &Options::default(), &[pair], 1);
    assert_eq!((rows[0].text.as_str(), rows[0].label.as_str()), ("( not a ) ||| b", "#"));
    let read = |text: &str| task().encode(text, &Options::default());
    assert_eq!(read("(not a)"), Ok(vec![0, 2, 5, 1]));
    for (text, message) in [("", "too early"), ("not a", "no variable"), ("a b", "after the end")] {
        assert!(read(text).is_err_and(|error| error.contains(message)), "{text}");
    }
}
