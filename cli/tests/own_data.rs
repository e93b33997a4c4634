//! Tasks on files of the user's own, from the file to the answer: the real binary.

mod support;

use std::fs;

use support::Place;

/// An experiment on files, small enough to be trained in a moment.
fn experiment(task: &str, more: &str) -> String {
    format!(
        "task: {{ {task} }}\noptimiser: {{ learning_rate: 0.01, clip: 1 }}\nschedule: {{ kind: constant }}\n\
         batch: {{ size: 16 }}\nepochs: 2\nlog_every: 1\n{more}"
    )
}

/// Reviews with a comma, a quotation mark and a line break in some of them.
fn reviews(rows: usize, salt: usize) -> String {
    let one = |n: usize| {
        let n = n + salt;
        let (word, label) = if n.is_multiple_of(3) { ("bad", "negative") } else { ("good", "positive") };
        format!("{n},\"the \"\"film\"\" number {n},\nwas {word}\",{label}\r\n")
    };
    "id,text,label\r\n".to_owned() + &(0..rows).map(one).collect::<String>()
}

fn place() -> Place {
    let place = Place::new();
    place.write("train.csv", &reviews(120, 0));
    let lines = (200..230).map(|n| format!("{{\"label\": \"positive\", \"text\": \"film {n} was good\"}}\n"));
    place.write("test.jsonl", &lines.collect::<String>());
    let task = "name: table, data: { train: train.csv, dev: 10%, test: test.jsonl }, tokens: words";
    place.write("mine.yaml", &experiment(task, "evaluate: [test]\n"));
    place
}

fn train(place: &Place, args: &[&str]) -> support::Answer {
    place.rtc(&[&["train", "tiny.rt", "--experiment", "mine.yaml", "--run", "r"], args].concat())
}

#[test]
fn a_table_is_trained_measured_and_asked() {
    let place = place();
    let trained = train(&place, &["--json"]);
    trained.code(0).says("data: train 108, dev 12, test 30").says("test: the vocabulary does not have");
    let found = trained.json();
    assert_eq!(found["splits"][0]["examples"], 30, "{found:#}");
    let again = place.rtc(&["eval", "runs/r", "--json"]).code(0).json();
    assert_eq!(again["splits"][0]["accuracy"], found["splits"][0]["accuracy"]);
    let said = place.rtc(&["predict", "runs/r", "--json", "the film was good"]).code(0).json();
    assert!(["positive", "negative"].contains(&said["class"].as_str().unwrap_or_default()), "{said:#}");
    // What was learned is kept with the run: the training file is not needed any more.
    fs::remove_file(place.path("train.csv")).expect("it was there");
    place.rtc(&["predict", "runs/r", "a word that nobody knows"]).code(0);
    place.rtc(&["eval", "runs/r"]).code(0);
    place.rtc(&["eval", "runs/r", "--data", "test.jsonl"]).code(0);
    place.rtc(&["report", "runs/r"]).code(0);
    place.rtc(&["eval", "runs/r", "--split", "dev"]).code(4).says("train.csv");
}

#[test]
fn paths_start_from_the_experiment_and_are_found_again() {
    let place = place();
    fs::create_dir(place.path("below")).expect("a new folder");
    for name in ["train.csv", "test.jsonl", "mine.yaml"] {
        fs::rename(place.path(name), place.path("below").join(name)).expect("moved");
    }
    place.rtc(&["train", "tiny.rt", "--experiment", "below/mine.yaml", "--run", "r"]).code(0);
    let other = place.command(support::RTC).current_dir(place.path("below")).args(["eval", "../runs/r"]).output();
    support::Answer::from(other.expect("the binary runs")).code(0);
}

#[test]
fn every_kind_of_task_is_trained() {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let pair =
        |n: usize| format!("{}\tleft {n}\tright {}\n", if n.is_multiple_of(2) { "same" } else { "other" }, n % 2);
    place.write("pairs.tsv", &("kind\ta\tb\n".to_owned() + &(0..60).map(pair).collect::<String>()));
    let tagged =
        |n: usize| format!("{{\"text\": [\"the\", \"cat{}\", \"sat\"], \"label\": [\"D\", \"N\", null]}}\n", n % 5);
    place.write("tags.jsonl", &(0..60).map(tagged).collect::<String>());
    place.write("text.txt", &"to be, or not to be: that is the question\n".repeat(120));
    let cases = [
        ("pairs", "name: pairs, data: { train: pairs.tsv, dev: 20% }, input: [a, b], label: kind", "tiny.rt"),
        ("tags", "name: tagging, data: { train: tags.jsonl, dev: tags.jsonl }", "each.rt"),
        ("text", "name: language, data: { train: text.txt, dev: 10% }, length: 32", "each.rt"),
    ];
    for (name, task, spec) in cases {
        place.write(&format!("{name}.yaml"), &experiment(task, "evaluate: [dev]\n"));
        let file = format!("{name}.yaml");
        place.rtc(&["train", spec, "--experiment", &file, "--run", name]).code(0);
        place.rtc(&["eval", name, "--json"]).code(0);
    }
    place.rtc(&["predict", "pairs", "left 1 ||| right 1"]).code(0);
    let tags = place.rtc(&["predict", "tags", "--json", "the cat1 sat"]).code(0).json();
    assert_eq!(tags["classes"].as_array().map(Vec::len), Some(3), "{tags:#}");
    let text = place.rtc(&["eval", "text", "--json"]).code(0).json();
    assert!(text["splits"][0]["perplexity"].as_f64().is_some_and(|found| found > 1.0), "{text:#}");
}

#[test]
fn mistakes_in_the_experiment_are_placed() {
    let place = place();
    let good = place.read("mine.yaml");
    for (from, to, why) in [
        ("tokens: words", "tokens: wrds", "`wrds` is no way to make tokens"),
        ("dev: 10%", "dev: 110%", "is no share of `train`"),
        ("train: train.csv, ", "", "names no file for `train`"),
        ("evaluate: [test]", "evaluate: [tes]", "did you mean `test`?"),
        ("dev: 10%, ", "", "there is no split of table `dev`"),
        ("tokens: words", "options: { a: 1 }", "has no options"),
        ("name: table", "name: listops", "`tokens` belongs to tasks on files of your own"),
        ("tokens: words", "tokens: words, input: [text, id]", "`input` of `table` is one column"),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good, "{from}");
        place.write("mine.yaml", &wrong);
        train(&place, &[]).code(2).says("mine.yaml:").says(why);
    }
}

#[test]
fn broken_files_are_refused_with_their_lines() {
    let place = place();
    let good = place.read("train.csv");
    for (from, to, line, why) in [
        ("text,label", "texd,label", 1, "there is no column `text`; did you mean `texd`?"),
        ("4,\"the", "4,x,\"the", 10, "the header has 3 columns, and this row has 4"),
        ("was good\",positive\r\n5,", "was good\"x,positive\r\n5,", 10, "behind the closing quotation mark"),
        ("118,\"the", "118,the", 239, "the header has 3 columns"),
        (
            "119,\"the \"\"film\"\" number 119,\nwas good\"",
            "119,\"the \"\"film\"\" number 119,\nwas good",
            240,
            "never closes",
        ),
        ("5,\"the \"\"film\"\" number 5,\nwas good\"", "5,\"\"", 12, "`text` has no tokens"),
    ] {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good, "{from}");
        place.write("train.csv", &wrong);
        train(&place, &[]).code(4).says(&format!("train.csv:{line}: ")).says(why);
    }
    place.write("train.csv", &good);
    place
        .write("test.jsonl", "{\"text\": \"a\", \"label\": \"positive\"}\n{\"text\": \"b\", \"label\": \"neutral\"}\n");
    train(&place, &[]).code(4).says("test.jsonl:2: there is no class `neutral`").says("negative, positive");
    place.write("test.jsonl", "{\"text\": \"a\", \"label\": \n");
    train(&place, &[]).code(4).says("test.jsonl:1: this line is no JSON");
    fs::remove_file(place.path("train.csv")).expect("it was there");
    train(&place, &[]).code(4).says("train.csv: ");
}

#[test]
fn a_file_that_was_edited_is_noticed() {
    let place = place();
    train(&place, &[]).code(0);
    train(&place, &[]).code(0).says("is finished");
    let test = place.read("test.jsonl");
    place.write("test.jsonl", &test.replacen("was good", "was bad", 1));
    train(&place, &[])
        .code(7)
        .says("its data has changed since the training began: other rows in test")
        .says("--fresh");
    place.rtc(&["eval", "r"]).code(7).says("other rows in test").says("--data FILE");
    place.rtc(&["eval", "r", "--split", "dev"]).code(0);
    place.rtc(&["eval", "r", "--data", "test.jsonl"]).code(0);
    place.rtc(&["report", "runs/r"]).code(7).says("other rows in test");
    place.write("test.jsonl", &test);
    place.rtc(&["eval", "r"]).code(0);
    train(&place, &[]).code(0).says("is finished");
    // A row more in training is other data, too, and so is an update that is not made yet.
    place.write("train.csv", &reviews(121, 0));
    train(&place, &[]).code(7).says("other rows in");
}

#[test]
fn files_are_looked_at_before_anything_is_trained() {
    let place = place();
    let seen = place.rtc(&["task", "check", "train.csv"]);
    seen.code(0);
    assert!(seen.stdout.contains("120 rows of CSV") && seen.stdout.contains("label: 'label'"), "{}", seen.stdout);
    place.rtc(&["task", "check", "train.csv", "--write", "draft.yaml"]).code(0).says("draft.yaml");
    place.rtc(&["task", "check", "train.csv", "--write", "draft.yaml"]).code(6).says("draft.yaml");
    place.rtc(&["train", "tiny.rt", "--experiment", "draft.yaml", "--max-steps", "2"]).code(0);
    let seen = place.rtc(&["task", "check", "mine.yaml", "--json"]).code(0).json();
    assert_eq!(seen["classes"], serde_json::json!(["negative", "positive"]));
    let test = &seen["splits"].as_array().expect("splits").iter().find(|split| split["split"] == "test").expect("test");
    assert!(test["unknown"].as_f64().is_some_and(|share| share > 0.1), "{test:#}");
    place.rtc(&["task", "check", "mine.yaml"]).code(0);
    place.write("test.jsonl", "{\"text\": 1}\n{}\n{\"text\": \"a\", \"label\": \"positive\"}\nno\n");
    let wrong = place.rtc(&["task", "check", "mine.yaml"]);
    wrong
        .code(4)
        .says("test.jsonl:1: `label` is missing")
        .says("test.jsonl:2: ")
        .says("test.jsonl:4: this line is no JSON");
    wrong.is_quiet_about("test.jsonl:3");
    place.rtc(&["task", "check", "test.jsonl"]).code(4).says("test.jsonl:4: ");
}

#[test]
fn samples_are_drawn_by_the_seed() {
    let place = place();
    place.write("train.yaml", &place.read("mine.yaml").replace("dev: 10%", "dev: train.csv"));
    let sample = |args: &[&str]| place.rtc(&[&["task", "sample"], args].concat()).code(0).stdout.clone();
    let rows = sample(&["train.yaml", "--split", "dev"]);
    assert_eq!(rows.lines().count(), 5);
    assert!(rows.contains("film"), "{rows}");
    assert_eq!(sample(&["train.yaml", "--split", "dev"]), rows);
    assert_ne!(sample(&["train.yaml", "--split", "dev", "--seed", "7"]), rows);
    // Lengths come in turn: a sample shows more than the shortest.
    let strings = sample(&["parity_check", "--split", "test", "--count", "4"]);
    assert!(strings.lines().any(|row| row.split_whitespace().count() > 10), "{strings}");
}
