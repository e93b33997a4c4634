//! Rare classes: weights in the loss, and shares of a file with the same part of every class.

use std::collections::BTreeMap;
use std::fs;

use rtc_base::rng::Key;
use serde_json::Value;

use crate::support::Place;

const SMALL: [&str; 6] = ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8"];

/// Rows in which three of ten with a word are spam, and all others are ham: only weights make spam the likelier answer.
fn spam(rows: usize, seed: u64) -> String {
    const FILL: [&str; 12] = ["a", "the", "one", "some", "this", "that", "here", "there", "now", "then", "up", "down"];
    let key = Key::new(seed);
    let row = |n: u64| {
        let fill = |at: u64| FILL[key.at(n).below(at, 12) as usize];
        let free = key.at(n).below(9, 4) == 0;
        let label = if free && key.at(n).below(10, 10) < 3 { "spam" } else { "ham" };
        let word = if free { "free" } else { fill(2) };
        format!("{} {} {word} {} {},{label}\n", fill(0), fill(1), fill(3), fill(4))
    };
    "text,label\n".to_owned() + &(0..rows as u64).map(row).collect::<String>()
}

const TASK: &str = "task:\n  name: table\n  data: { train: mail.csv, dev: 25% }\n  stratify: true\n\
                    optimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 32 }\nmax_steps: 60\n\
                    evaluate_every: 30\nchoose: last\nevaluate: [dev]\n";

fn train<'a>(place: &Place, run: &'a str, more: &[&'a str]) -> crate::support::Answer {
    let args = ["train", "transformer", "--experiment", "mail.yaml", "--run", run];
    place.rtc(&[&args[..], &SMALL, more].concat())
}

/// Recall of a class on dev.
fn recall(place: &Place, run: &str, class: &str) -> f64 {
    let found = place.rtc(&["eval", &format!("runs/{run}"), "--split", "dev", "--classes", "--json"]).code(0).json();
    let rows = found["splits"][0]["classes"].as_array().expect("classes").clone();
    let row = rows.iter().find(|row| row["class"] == class).expect("the class is there");
    row["right"].as_f64().expect("a count") / row["labelled"].as_f64().expect("a count")
}

#[test]
fn weights_raise_the_recall_of_a_rare_class() {
    let place = Place::new();
    place.write("mail.csv", &spam(600, 3));
    place.write("mail.yaml", TASK);
    train(&place, "plain", &[]).code(0);
    train(&place, "balanced", &["--with", "loss.class_weights=balanced"]).code(0);
    train(&place, "named", &["--with", "loss.class_weights={spam: 8}"]).code(0);
    let [plain, balanced, named] = ["plain", "balanced", "named"].map(|run| recall(&place, run, "spam"));
    assert!(plain < 0.2, "{plain}");
    assert!(balanced > 0.9 && named > 0.9, "{balanced} {named}");

    // An evaluation has no weights: the loss on dev is that of the predicted probabilities.
    let found = place.rtc(&["eval", "runs/balanced", "--split", "dev", "--json"]).code(0).json();
    let recorded: Value = serde_json::from_str(&place.read("runs/balanced/results.json")).expect("JSON");
    assert!(found["splits"][0]["loss"].is_number() && recorded.is_object(), "{found}");
    place.rtc(&["verify", "runs/balanced", "--again"]).code(0);

    // The weights are those of scikit-learn on the rows that are trained on.
    place.write("weighted.yaml", &(TASK.to_owned() + "loss: { class_weights: balanced }\n"));
    let checked = place.rtc(&["task", "check", "weighted.yaml", "--json"]).code(0).json();
    let train = &checked["splits"].as_array().expect("splits").iter().find(|split| split["split"] == "train");
    let train = train.expect("it is trained on");
    let (rows, classes) = (train["rows"].as_f64().expect("a count"), ["ham", "spam"]);
    for class in classes {
        let own = (train["labels"][class].as_f64().expect("a share") * rows).round();
        let weight = checked["class_weights"][class].as_f64().expect("a weight");
        assert!((weight - rows / (2.0 * own)).abs() < 1e-9, "{class}: {weight}");
    }
    let shown = place.rtc(&["task", "check", "weighted.yaml"]);
    assert!(shown.code(0).stdout.contains("weight"), "{}", shown.stdout);
}

#[test]
fn equal_weights_are_none_and_runs_with_weights_resume() {
    let place = Place::new();
    place.write("mail.csv", &spam(300, 5));
    place.write("mail.yaml", TASK);
    train(&place, "plain", &[]).code(0);
    train(&place, "ones", &["--with", "loss.class_weights={spam: 1, ham: 1}"]).code(0);
    let last =
        |run: &str, file: &str| fs::read(place.path(&format!("runs/{run}/checkpoints/last/{file}"))).expect("a file");
    for file in ["weights.safetensors", "optimiser.safetensors"] {
        assert!(last("plain", file) == last("ones", file), "{file}");
    }
    // What a line is checked by is that of its run.
    let lines = |run: &str| {
        let text = place.read(&format!("runs/{run}/metrics.jsonl"));
        text.lines().map(|line| line.split(",\"check\"").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines("plain"), lines("ones"));
    let heavy = ["--with", "loss.class_weights=balanced", "--with", "batch.accumulate=3"];
    train(&place, "whole", &[&heavy[..], &["--until", "90"]].concat()).code(0);
    train(&place, "on", &heavy).code(0);
    train(&place, "on", &[&heavy[..], &["--until", "90"]].concat()).code(0).says("going on after update 60");
    assert!(last("whole", "weights.safetensors") == last("on", "weights.safetensors"));
    assert!(last("whole", "weights.safetensors") != last("plain", "weights.safetensors"));
}

#[test]
fn weights_of_nothing_are_refused_before_a_run_is_made() {
    let place = Place::new();
    place.write("mail.csv", &spam(200, 5));
    place.write("mail.yaml", TASK);
    for (weights, why) in [
        ("{spom: 4}", "there is no class `spom`; did you mean `spam`?"),
        ("{spam: 0}", "the weight of `spam` must be positive: got 0"),
        ("{spam: .inf}", "must be positive"),
        ("balancd", "takes `balanced`, or weights of classes by their names"),
        ("[1, 2]", "takes `balanced`, or weights of classes by their names"),
    ] {
        train(&place, "no", &["--with", &format!("loss.class_weights={weights}")]).code(2).says(why);
    }
    place.write("wrong.yaml", &(TASK.to_owned() + "class_weight: balanced\n"));
    let wrong = ["train", "transformer", "--experiment", "wrong.yaml", "--run", "no"];
    place.rtc(&wrong).code(2).says("the block `loss` has the field `class_weights`");
    let numbers: String = (0..60).map(|n| format!("word {},{}.5\n", n % 7, n % 11)).collect();
    place.write("numbers.csv", &("text,target\n".to_owned() + &numbers));
    place.rtc(&["task", "check", "numbers.csv", "--write", "numbers.yaml"]).code(0);
    let args = [
        "train",
        "transformer",
        "--experiment",
        "numbers.yaml",
        "--run",
        "no",
        "--with",
        "loss.class_weights=balanced",
    ];
    place.rtc(&args).code(2).says("the answers are numbers, which have no classes");
    let fresh = ["train", "transformer", "--experiment", "looped_parity_smoke", "--run", "no"];
    place.rtc(&[&fresh[..], &["--with", "loss.class_weights=balanced"]].concat()).code(2).says("for stored examples");
    let row = |n: usize| {
        format!("{{\"text\": \"w{} w{}\", \"label\": {}}}\n", n % 5, n % 3, ["[]", "[\"a\"]", "[\"a\", \"b\"]"][n % 3])
    };
    place.write("several.jsonl", &(0..90).map(row).collect::<String>());
    place.rtc(&["task", "check", "several.jsonl", "--write", "several.yaml"]).code(0);
    let several = [
        "train",
        "transformer",
        "--experiment",
        "several.yaml",
        "--run",
        "no",
        "--max-steps",
        "3",
        "--with",
        "loss.class_weights=balanced",
    ];
    let several = [&several[..], &SMALL].concat();
    place.rtc(&[&several[..], &["--set", "model.label_smoothing=0.1"]].concat()).code(2).says("`label_smoothing`");
    assert!(!place.path("runs/no").exists());
    place.rtc(&several).code(0);
}

/// Rows of classes of these sizes in an order that is drawn; `again` rows stand twice, the second time with another class.
fn classes(sizes: &[(&str, usize)], again: usize, seed: u64) -> String {
    let mut rows: Vec<String> = sizes
        .iter()
        .flat_map(|(class, size)| (0..*size).map(move |n| format!("text {n} of {class},{class}\n")))
        .chain((0..again).map(|n| format!("text {n} of {},{}\n", sizes[0].0, sizes[1].0)))
        .collect();
    Key::new(seed).draws().shuffle(&mut rows);
    "text,label\n".to_owned() + &rows.concat()
}

/// The rows of every class in the splits of an experiment.
fn counts(place: &Place, experiment: &str) -> BTreeMap<(String, String), f64> {
    let checked = place.rtc(&["task", "check", experiment, "--json"]).code(0).json();
    let mut found = BTreeMap::new();
    for split in checked["splits"].as_array().expect("splits") {
        assert_eq!(split["also_in_train"].as_u64().unwrap_or(0), 0, "{split}");
        let (name, rows) = (split["split"].as_str().expect("a name"), split["rows"].as_f64().expect("a count"));
        for (class, share) in split["labels"].as_object().expect("shares") {
            found.insert((name.to_owned(), class.clone()), (share.as_f64().expect("a share") * rows).round());
        }
    }
    found
}

#[test]
fn every_share_has_the_same_part_of_every_class() {
    let place = Place::new();
    let sizes = [("often", 613), ("some", 88), ("few", 17), ("rare", 4), ("once", 1), ("7", 31)];
    let shares = [("dev", 0.1), ("test", 0.2)];
    let yaml = |seed: u64, more: &str| {
        format!(
            "task:\n  name: table\n  data: {{ train: rows.csv, dev: 10%, test: 20% }}\n  seed: {seed}\n{more}\
             optimiser: {{ learning_rate: 0.01 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 32 }}\nmax_steps: 5\nevaluate: [test]\n"
        )
    };
    for seed in 0..4 {
        place.write("rows.csv", &classes(&sizes, 0, seed));
        place.write("rows.yaml", &yaml(seed, "  stratify: true\n"));
        let found = counts(&place, "rows.yaml");
        for (class, size) in sizes {
            let of = |split: &str| found.get(&(split.to_owned(), class.to_owned())).copied().unwrap_or(0.0);
            for (split, share) in shares {
                assert!((of(split) - share * size as f64).abs() < 1.0, "{seed} {class} in {split}: {}", of(split));
            }
            assert!((of("train") + of("dev") + of("test") - size as f64).abs() < 0.5 && of("train") >= 1.0);
        }
    }
    // Another seed draws other rows; the option decides alone whether classes count.
    let dev = |seed: u64, more: &str| {
        place.write("rows.yaml", &yaml(seed, more));
        place.rtc(&["task", "sample", "rows.yaml", "--split", "dev", "--count", "100"]).code(0).stdout.clone()
    };
    assert_ne!(dev(1, "  stratify: true\n"), dev(2, "  stratify: true\n"));
    assert_eq!(dev(1, "  stratify: false\n"), dev(1, ""));

    // Equal inputs with several classes stay together, and a run knows its shares without the training file.
    place.write("rows.csv", &classes(&sizes[..2], 40, 9));
    place.write("rows.yaml", &yaml(3, "  stratify: true\n"));
    let found = counts(&place, "rows.yaml");
    let all: f64 = found.iter().filter(|((split, _), _)| split == "dev").map(|(_, rows)| rows).sum();
    assert!((all - 74.0).abs() <= 2.0, "{found:?}");
    place.rtc(&[&["train", "transformer", "--experiment", "rows.yaml", "--run", "rows"][..], &SMALL].concat()).code(0);
    let measured = place.rtc(&["eval", "runs/rows", "--split", "test", "--json"]).code(0).json();
    let rows: f64 = found.iter().filter(|((split, _), _)| split == "test").map(|(_, rows)| rows).sum();
    assert_eq!(measured["splits"][0]["scored"].as_f64(), Some(rows), "{measured}");
    place.rtc(&["verify", "runs/rows", "--again"]).code(0);
}

#[test]
fn shares_are_stratified_where_a_class_is_rare_and_only_there() {
    let place = Place::new();
    place.write("rare.csv", &classes(&[("yes", 400), ("no", 60)], 0, 1));
    let drafted = place.rtc(&["task", "check", "rare.csv", "--write", "rare.yaml"]);
    let why = "the class `no` has 60 rows, so shares are stratified";
    assert!(drafted.code(0).stdout.contains(why), "{}", drafted.stdout);
    assert!(place.read("rare.yaml").contains("\n  stratify: true\n"));
    let shown = place.rtc(&["task", "check", "rare.yaml"]);
    assert!(shown.code(0).stdout.contains("6 (13.0 %)"), "{}", shown.stdout);
    place.write("often.csv", &classes(&[("yes", 400), ("no", 160)], 0, 1));
    place.rtc(&["task", "check", "often.csv", "--write", "often.yaml"]).code(0);
    assert!(!place.read("often.yaml").contains("stratify"));

    let refused = |yaml: &str, why: &str| {
        place.write("no.yaml", yaml);
        place.rtc(&["task", "check", "no.yaml"]).code(2).says(why);
    };
    let rest = "optimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 32 }\nmax_steps: 5\nevaluate: []\n";
    let of = |task: &str| format!("task: {{ {task}, stratify: true }}\n{rest}");
    refused(&of("name: table, data: { train: rare.csv, dev: often.csv }"), "no split is a share of `train`");
    refused(&of("name: table, answer: labels, data: { train: rare.csv, dev: 10% }"), "rows with one class");
    refused(&of("name: tagging, data: { train: rare.csv, dev: 10% }"), "rows with one class");
    refused(&of("name: listops"), "belongs to tasks on files of your own");
}
