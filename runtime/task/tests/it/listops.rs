//! ListOps: the published files, the generated distribution, and broken rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rtc_task::listops::{CLOSE, MAX, MED, MIN, SM, evaluate, nesting};
use rtc_task::{DataSource, TaskSettings};
use rtc_task::{
    Example, ExampleTarget, OptionValue, Options, WantedSplits, describe, load, load_split, load_wanted, sample,
    task_named,
};

use crate::published::published;

fn settings(options: &[(&str, u64)], sizes: &[(&str, usize)]) -> TaskSettings {
    TaskSettings {
        name: "listops".into(),
        options: options.iter().map(|(name, value)| (name.to_string(), OptionValue::Integer(*value))).collect(),
        sizes: sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect(),
        seed: 11,
        ..TaskSettings::default()
    }
}

fn class(example: &Example) -> u32 {
    match example.label {
        ExampleTarget::Class(class) => class,
        _ => panic!("ListOps has one class per sequence"),
    }
}

#[test]
fn values_by_hand() {
    let cases: [(&[u32], u32); 7] = [
        (&[7], 7),
        (&[MAX, 2, 9, CLOSE], 9),
        (&[SM, 6, 5, 9, 0, CLOSE], 0),
        (&[MED, 7, 9, CLOSE], 8),
        (&[MED, 8, 9, CLOSE], 8),
        (&[MED, 4, 1, 0, CLOSE], 1),
        (&[MIN, 3, MAX, MED, 5, 0, CLOSE, 1, CLOSE, CLOSE], 2),
    ];
    for (tokens, value) in cases {
        assert_eq!(evaluate(tokens), Ok(value));
    }
    let broken: [&[u32]; 7] = [&[], &[CLOSE], &[MAX, 1], &[MAX, CLOSE], &[1, 2], &[15], &[MAX, 1, CLOSE, 2]];
    for tokens in broken {
        assert!(evaluate(tokens).is_err(), "{tokens:?}");
    }
    assert_eq!(evaluate(&[MIN; 200_000]), Err("a bracket is never closed".into()));
}

#[test]
fn every_label_of_the_published_files_is_what_the_evaluator_says() {
    let task = task_named("listops").expect("it exists");
    for name in ["test_d20s.tsv.gz", "test_d20a.tsv.gz", "train_d20s_first20.tsv"] {
        let Some(path) = published(&format!("listops/{name}")) else { continue };
        // The reader refuses a row whose label is not the value.
        let examples = task.read(&path, &Options::default()).expect("no disagreement");
        assert_eq!(examples.len(), if name.starts_with("test") { 10_000 } else { 20 });
        if name == "test_d20s.tsv.gz" {
            let description = describe(&examples);
            assert_eq!((description.lengths[0], description.lengths[2]), (1, 939));
            assert!((description.mean_length - 42.85).abs() < 0.01);
            assert_eq!(examples.iter().filter(|e| e.tokens.len() <= 100).count(), 8_933);
            assert!((description.label_shares[&9] - 0.1141).abs() < 1e-9);
        }
    }
}

/// The expected numbers were measured on 100,000 examples or on the 10,000 published ones, so the tolerances are about
/// three standard errors of 20,000: 0.0035 to 0.0045 on the shares, 2 tokens on the mean, whose law has a long tail.
#[test]
fn the_generated_pool_has_the_published_distribution() {
    let settings = settings(&[("train_length", 0)], &[("train", 89_000)]);
    let examples = load_split(&settings, "train").expect("generated");
    let sample = &examples[..];
    let distinct: BTreeSet<&Vec<u32>> = sample.iter().map(|example| &example.tokens).collect();
    assert_eq!(distinct.len(), 89_000);
    let share = |holds: &dyn Fn(&Example) -> bool| sample.iter().filter(|e| holds(e)).count() as f64 / 89_000.0;
    let mean = describe(sample).mean_length;
    assert!((mean - 42.82).abs() < 2.0, "mean length {mean}");
    let short = share(&|e| e.tokens.len() <= 100);
    assert!((short - 0.8925).abs() < 0.0035, "share of at most 100 tokens {short}");
    let depths = [(1, 0.207), (2, 0.235), (3, 0.139), (4, 0.091), (5, 0.066), (6, 0.050), (19, 0.031)];
    for (depth, expected) in depths {
        let found = share(&|e| nesting(&e.tokens) == depth);
        assert!((found - expected).abs() < 0.0045, "nesting {depth}: {found} instead of {expected}");
    }
    let digits = sample.iter().filter(|e| e.tokens.len() == 1).count();
    assert!((5..=10).contains(&digits), "{digits} single digits: nearly all ten, once each");
    assert!(sample.iter().all(|e| nesting(&e.tokens) <= 19));
}

#[test]
fn every_split_keeps_its_promise_and_nothing_leaks() {
    let names = [
        "train",
        "dev",
        "test",
        "200-300",
        "300-400",
        "400-500",
        "500-600",
        "600-700",
        "700-800",
        "800-900",
        "900-1000",
        "args-5",
        "args-10",
        "args-15",
        "lra",
        "lra-dev",
        "lra-train",
    ];
    let sizes: Vec<(&str, usize)> = names.iter().map(|name| (*name, 300)).collect();
    let data = load(&settings(&[], &sizes), &names).expect("generated");
    let bounds = |name: &str| match name {
        "train" => (1, 100),
        "dev" | "test" => (1, usize::MAX),
        name if name.starts_with("args") => (100, 1000),
        name if name.starts_with("lra") => (501, 1999),
        name => {
            let (low, high) = name.split_once('-').expect("two numbers");
            let number = |text: &str| text.parse::<usize>().expect("a number");
            (number(low) + 1, number(high) - 1)
        }
    };
    let mut seen = BTreeMap::new();
    for name in names {
        assert_eq!(data.split(name).len(), 300);
        let (shortest, longest) = bounds(name);
        let mut most = 0;
        for example in data.split(name) {
            let length = example.tokens.len();
            assert!((shortest..=longest).contains(&length), "{name}: {length} tokens");
            assert_eq!(evaluate(&example.tokens), Ok(class(example)));
            assert_eq!(seen.insert(example.tokens.clone(), name), None, "{name} repeats an expression");
            if name.starts_with("args") {
                assert!(nesting(&example.tokens) <= 8);
                most = most.max(widest(&example.tokens));
            }
        }
        match name {
            "args-10" => assert_eq!(most, 10),
            "args-15" => assert_eq!(most, 15),
            _ => {}
        }
    }
    assert_eq!((data.vocabulary, data.classes), (15, 10));
}

/// The largest number of arguments of one operator.
fn widest(tokens: &[u32]) -> usize {
    let (mut open, mut most) = (vec![0], 0);
    for token in tokens {
        match *token {
            CLOSE => most = most.max(open.pop().expect("balanced")),
            token => {
                *open.last_mut().expect("inside") += 1;
                if token >= MIN {
                    open.push(0);
                }
            }
        }
    }
    most
}

#[test]
fn generation_is_a_function_of_the_seed_and_a_smaller_split_is_a_prefix() {
    let large = load_split(&settings(&[], &[("test", 200)]), "test").expect("generated");
    let small = load_split(&settings(&[], &[("test", 50)]), "test").expect("generated");
    assert_eq!(large[..50], small[..]);
    let mut other = settings(&[], &[("test", 50)]);
    other.seed = 12;
    assert_ne!(load_split(&other, "test").expect("generated"), small);
}

/// Whatever the seeds and sizes, no training set can hold an expression that any test set can hold.
#[test]
fn training_and_test_are_disjoint_for_different_seeds() {
    let short = [("train_length", 12), ("held_out_length", 12)];
    let mut train = settings(&short, &[("train", 3000)]);
    let test = load_split(&settings(&short, &[("test", 300)]), "test").expect("generated");
    let test: BTreeSet<Vec<u32>> = test.into_iter().map(|example| example.tokens).collect();
    for seed in 0..5 {
        train.seed = seed;
        let train = load_split(&train, "train").expect("generated");
        assert!(train.iter().all(|example| !test.contains(&example.tokens)));
    }
}

#[test]
fn a_split_that_can_not_be_filled_is_an_error() {
    let error = load_split(&settings(&[("train_length", 1)], &[("train", 11)]), "train").expect_err("ten digits");
    assert!(error.message.contains("only"), "{error}");
    let error = load_split(&settings(&[("depth", 2)], &[]), "900-1000").expect_err("too long");
    assert!(error.message.contains("no expression of 901 to 999 tokens"), "{error}");
}

#[test]
fn files_are_read_in_both_formats_and_broken_rows_are_placed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let task = task_named("listops").expect("it exists");
    let read = |text: &[u8]| {
        let path = folder.path().join("x.tsv");
        fs::write(&path, text).expect("writable");
        task.read(&path, &Options::default())
    };
    let expected = vec![Example::classified(vec![MAX, 2, MIN, 9, 6, CLOSE, CLOSE], 6)];
    assert_eq!(read(b"6\t( ( ( [MAX 2 ) ( ( ( [MIN 9 ) 6 ) ] ) ) ] )\n").as_ref(), Ok(&expected));
    assert_eq!(read(b"Source\tTarget\r\n( ( ( [MAX 2 ) ( ( ( [MIN 9 ) 6 ) ] ) ) ] )\t6\r\n").as_ref(), Ok(&expected));
    let broken: [(&[u8], usize, &str); 8] = [
        (b"6\t[MAX 2 6 ]\n5\t[MAX 2 6 ]\n", 2, "the label is 5, but the expression has the value 6"),
        (b"6\t[MAX 2 6 ]\n\n", 2, "two columns"),
        (b"6\t[MAX 2 6 ]\t7\n", 1, "has 3"),
        (b"x\t[MAX 2 6 ]\n", 1, "`x` is no digit"),
        (b"6\t[FIRST 6 2 ]\n", 1, "`[FIRST` is no symbol"),
        (b"6\t[MAX 2 6\n", 1, "never closed"),
        (b"6\t6\n6\t\n", 2, "empty"),
        (b"6\t6\n6\t\xFF\n", 2, "UTF-8"),
    ];
    for (text, line, message) in broken {
        let error = read(text).expect_err(message);
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    assert!(task.read(&folder.path().join("absent.tsv"), &Options::default()).is_err());
    fs::write(folder.path().join("x.tsv.gz"), b"no gzip").expect("writable");
    assert!(task.read(&folder.path().join("x.tsv.gz"), &Options::default()).is_err());
}

#[test]
fn a_data_folder_gives_what_it_has_and_generated_splits_leave_it_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The whole space of two-token-argument MAX: the generator would draw many of these for training.
    let rows: Vec<String> =
        (0..100).map(|n| format!("{}\t[MAX {} {} ]", (n / 10).max(n % 10), n / 10, n % 10)).collect();
    fs::write(folder.path().join("test_d20s.tsv"), rows.join("\n") + "\n").expect("writable");
    let mut settings = settings(&[("train_length", 5)], &[("train", 300), ("test", 90)]);
    settings.data = Some(DataSource::Folder(folder.path().display().to_string()));
    let data = load(&settings, &["train", "test"]).expect("read and generated");
    assert_eq!(data.split("test")[13].tokens, [MAX, 1, 3, CLOSE]);
    assert_eq!((data.split("train").len(), data.split("test").len()), (300, 90));
    let test: BTreeSet<&Vec<u32>> = data.split("test").iter().map(|example| &example.tokens).collect();
    assert!(data.split("train").iter().all(|example| !test.contains(&example.tokens)));
    // Without a file of its own, dev is the head of the training file; training drops what is too long.
    fs::write(folder.path().join("train_d20s.tsv"), "1\t1\n2\t2\n3\t[MAX 1 3 ]\n4\t[MAX 1 2 3 4 ]\n")
        .expect("writable");
    settings.sizes.insert("dev".into(), 2);
    let data = load(&settings, &["train", "dev"]).expect("read");
    let labels = |name: &str| data.split(name).iter().map(class).collect::<Vec<_>>();
    assert_eq!((labels("dev"), labels("train")), (vec![1, 2], vec![3]));
}

/// A folder with every MAX of two digits but one as training rows, and settings that read it.
fn folder_of_pairs(folder: &Path, sizes: &[(&str, usize)]) -> TaskSettings {
    let row = |n: usize| format!("{}\t[MAX {} {} ]", (n / 10).max(n % 10), n / 10, n % 10);
    let rows: Vec<String> = (0..99).map(row).collect();
    fs::write(folder.join("train_d20s.tsv"), rows.join("\n") + "\n").expect("writable");
    let mut settings = settings(&[("train_length", 5)], sizes);
    settings.data = Some(DataSource::Folder(folder.display().to_string()));
    settings
}

#[test]
fn a_split_is_the_same_whichever_others_are_wanted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = folder_of_pairs(folder.path(), &[("dev", 9), ("train", 90), ("test", 40)]);
    let used = ["train", "dev", "test"];
    let all = load(&settings, &used).expect("read and generated");
    assert_eq!((all.split("dev").len(), all.split("train").len()), (9, 90));
    let trained: BTreeSet<&Vec<u32>> = all.split("train").iter().map(|example| &example.tokens).collect();
    assert!(all.split("test").iter().all(|example| !trained.contains(&example.tokens)));
    for splits in [&["test"][..], &["test", "dev"], &["dev"], &["lra-dev", "test"]] {
        for most in [5, usize::MAX] {
            let some =
                load_wanted(&settings, WantedSplits { used: &used, splits, most, whole: false, streamed: false });
            let some = some.unwrap_or_else(|error| panic!("{splits:?}: {error}"));
            assert_eq!(some.splits.len(), splits.len());
            for split in splits.iter().filter(|split| used.contains(split)) {
                let whole = all.split(split);
                assert_eq!(some.split(split), &whole[..most.min(whole.len())], "{split} of {splits:?}, {most}");
            }
        }
    }
}

#[test]
fn the_head_of_the_training_file_is_only_taken_for_a_dev_that_is_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = folder_of_pairs(folder.path(), &[("dev", 9)]);
    let lengths = |splits: &[&str], wanted: &[&str]| {
        let data = load_wanted(
            &settings,
            WantedSplits { used: splits, splits: wanted, most: usize::MAX, whole: false, streamed: false },
        )
        .expect("read");
        wanted.iter().map(|split| data.split(split).len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&["train", "dev"], &["train", "dev"]), [90, 9]);
    assert_eq!(lengths(&["train", "dev"], &["train"]), [90]);
    assert_eq!(lengths(&["train"], &["train"]), [99]);
    // What a run has trained on is no dev afterwards: one is generated without those rows.
    let data = load_wanted(
        &settings,
        WantedSplits { used: &["train"], splits: &["dev"], most: usize::MAX, whole: false, streamed: false },
    )
    .expect("made");
    assert_eq!(data.generated, ["dev"]);
    let train = load(&settings, &["train"]).expect("read");
    assert!(data.split("dev").iter().all(|example| !train.split("train").contains(example)));
}

#[test]
fn where_files_are_named_nothing_is_generated_unless_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut settings = folder_of_pairs(folder.path(), &[("dev", 9), ("lra", 4)]);
    let train = folder.path().join("train_d20s.tsv").display().to_string();
    let named = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(split, file)| ((*split).to_owned(), (*file).to_owned()));
        Some(DataSource::Files(files.collect()))
    };
    settings.data = named(&[("train", &train), ("test", &train)]);
    let data = load(&settings, &["train", "dev", "test"]).expect("read");
    assert_eq!(data.generated, Vec::<String>::new());
    assert_eq!(["train", "dev", "test"].map(|split| data.split(split).len()), [90, 9, 99]);
    assert_eq!(
        data.split("dev"),
        &data.split("test")[..9],
        "without a word on dev it is the head of the training file"
    );
    let error = load(&settings, &["train", "lra"]).expect_err("there is no file");
    assert!(error.message.contains("files are named, and none for `lra`"), "{error}");
    settings.data = named(&[("train", &train), ("dev", "20%"), ("lra", "generated")]);
    let data = load(&settings, &["train", "dev", "lra"]).expect("read and generated");
    assert_eq!(data.generated, ["lra"]);
    let sizes = ["train", "dev"].map(|split| data.split(split).len());
    assert!(sizes[0] + sizes[1] <= 99 && sizes[1] == 9, "{sizes:?}: a share, of which `sizes` takes the first");
    let dev: Vec<_> = data.split("dev").iter().map(Example::key).collect();
    assert!(data.split("train").iter().all(|row| !dev.contains(&row.key())));
}

#[test]
fn a_training_file_that_is_all_head_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = load(&folder_of_pairs(folder.path(), &[("dev", 99)]), &["train", "dev"]).expect_err("nothing is left");
    assert!(error.file.ends_with("train_d20s.tsv"), "{error}");
    assert_eq!(
        error.message,
        "it has 99 rows, the first 99 (`task.sizes.dev`) are `dev`, and none is left to train on: set `task.sizes.dev` \
         below 99, or name a file for `dev`"
    );
    assert!(load(&folder_of_pairs(folder.path(), &[("dev", 98)]), &["train", "dev"]).is_ok());
}

#[test]
fn examples_can_be_shown() {
    let task = task_named("listops").expect("it exists");
    let options = rtc_task::resolve_options(task.about().options, &BTreeMap::new()).expect("defaults");
    let rows = sample(task, &options, &[Example::classified(vec![SM, 1, 2, CLOSE], 3)], 5);
    assert_eq!((rows[0].text.as_str(), rows[0].label.as_str()), ("[SM 1 2 ]", "3"));
}

#[test]
fn expressions_are_read_as_people_write_them() {
    let task = task_named("listops").expect("it exists");
    let options = rtc_task::resolve_options(task.about().options, &BTreeMap::new()).expect("defaults");
    let read = |text: &str| task.encode(text, &options);
    for text in ["[SM 1 2 ]", "  [SM 1 2]", "( [SM ( 1 2 ) ] )"] {
        assert_eq!(read(text), Ok(vec![SM, 1, 2, CLOSE]), "{text}");
    }
    assert_eq!(read("[MAX[SM 1]2]"), Ok(vec![MAX, SM, 1, CLOSE, 2, CLOSE]));
    for (text, message) in
        [("", "empty"), ("[SM 1", "never closed"), ("[SUM 1 ]", "`[SUM` is no symbol"), ("1 2", "ended")]
    {
        assert!(read(text).is_err_and(|error| error.contains(message)), "{text}");
    }
}

/// 96 of 186 examples are those of `lra-train`, in their order; the others are those of training without the option.
#[test]
fn a_mixture_has_the_examples_of_both_parts() {
    let of = |mix: u64, split: &str, count: usize| {
        let settings = settings(&[("train_length", 20), ("mix", mix)], &[(split, count)]);
        load_split(&settings, split).expect("generated")
    };
    let mixed = of(1, "train", 62);
    let (long, short): (Vec<Example>, Vec<Example>) = mixed.iter().cloned().partition(|e| e.tokens.len() > 500);
    assert_eq!((short.clone(), long.clone()), (of(0, "train", 30), of(0, "lra-train", 32)));
    assert_eq!(of(1, "train", 31)[..], mixed[..31], "a smaller mixture is a prefix");
    assert!(mixed.chunks(2).skip(1).take(20).all(|two| two.iter().any(|e| e.tokens.len() > 500)), "evenly");
    assert_eq!(of(1, "lra-train", 32), long, "other splits are as they were");
}

#[test]
fn a_mixture_is_read_from_two_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut settings = settings(&[("train_length", 3), ("mix", 1)], &[("dev", 1), ("train", 4)]);
    settings.data = Some(DataSource::Folder(folder.path().display().to_string()));
    fs::write(folder.path().join("train_d20s.tsv"), "1\t1\n2\t2\n4\t[MAX 1 2 3 4 ]\n3\t3\n").expect("writable");
    // One of two files: all of training is generated.
    let data = load(&settings, &["train"]).expect("generated");
    assert_eq!(data.generated, ["train"]);
    fs::write(folder.path().join("basic_train.tsv"), "Source\tTarget\n[MAX 7 6 5 4 ]\t7\n[MIN 7 6 ]\t6\n")
        .expect("writable");
    let data = load(&settings, &["train", "dev"]).expect("read");
    let labels: Vec<u32> = data.split("train").iter().map(class).collect();
    // The head is dev, the long short one is left out, and the long ones have no limit.
    assert_eq!((labels, data.generated.len()), (vec![2, 7, 3, 6], 0));
}
