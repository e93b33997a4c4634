//! Tasks on files of the user's own, from the file to the answer: the real binary.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Place;

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

fn train(place: &Place, args: &[&str]) -> crate::support::Answer {
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
    let other =
        place.command(crate::support::RTC).current_dir(place.path("below")).args(["eval", "../runs/r"]).output();
    crate::support::Answer::from(other.expect("the binary runs")).code(0);
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
        ("tokens: words", "tokens: words, input: [text, text]", "`input` names the column `text` twice"),
        ("name: table", "name: tagging, input: [text, id]", "`input` of `tagging` is one column"),
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
    train(&place, &[]).code(4).says("mine.yaml:").says("`task.data.train`: there is no file `train.csv`");
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

/// The time in which everything ends that does not wait for ever.
const LONG: Duration = Duration::from_secs(180);

/// Waits until something holds while a child runs, and for the end of the child where it never does.
fn wait(child: &mut Child, mut holds: impl FnMut(&mut Child) -> bool) {
    let begun = Instant::now();
    while !holds(child) {
        if begun.elapsed() > LONG {
            child.kill().expect("it runs");
            panic!("it does not end");
        }
        sleep(Duration::from_millis(5));
    }
}

/// Puts another file in place of one, of the same size and time.
fn replace(place: &Place, name: &str, by: &str) {
    let time = place.path(name).metadata().and_then(|found| found.modified()).expect("a time");
    let other = fs::File::options().write(true).open(place.path(by)).expect(by);
    other.set_modified(time).expect("it takes a time");
    fs::rename(place.path(by), place.path(name)).expect("it takes the name");
}

#[test]
fn a_streamed_file_that_is_replaced_ends_the_training_until_it_is_back() {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    // Texts above 64 MiB are read while they are needed.
    let line = "to be, or not to be: that is the question\n";
    let text = line.repeat((66 << 20) / line.len());
    place.write("text.txt", &text);
    place.write("other.txt", &text.replace("not", "yes"));
    place.write("copy.txt", &text);
    drop(text);
    place.write("dev.txt", &line.repeat(4));
    let task = "name: language, data: { train: text.txt, dev: dev.txt }, tokens: bytes, length: 16";
    let steps = "max_steps: 1500\nevaluate_every: 20\nevaluate: [dev]\n";
    place.write("mine.yaml", &experiment(task, steps).replace("epochs: 2\n", "").replace("size: 16", "size: 4"));
    let args = ["train", "each.rt", "--experiment", "mine.yaml", "--run", "r"];
    let mut child = place.command(crate::support::RTC).args(args).arg("--quiet").spawn().expect("the binary runs");
    let saved = place.path("runs/r/checkpoints/last");
    wait(&mut child, |child| saved.exists() || child.try_wait().expect("it is ours").is_some());
    replace(&place, "text.txt", "other.txt");
    wait(&mut child, |child| child.try_wait().expect("it is ours").is_some());
    let ended: crate::support::Answer = child.wait_with_output().expect("it ended").into();
    ended.code(4).says("text.txt: the file has changed while it was trained on");
    place.rtc(&args).code(7).says("its data has changed");
    // A copy of the file is the same data.
    replace(&place, "text.txt", "copy.txt");
    place.rtc(&args).code(0).says("going on after update");
}

#[test]
fn data_is_read_from_regular_files_alone() {
    let place = place();
    train(&place, &[]).code(0);
    let ends = |command: &str| place.shell(&format!("timeout 120 \"$RTC\" {command}"));
    let refused = |command: &str, kind: &str| {
        ends(command).code(4).says(&format!("no regular file but {kind}: copy its content into a file"));
    };
    place.shell("mkfifo pipe.csv && ln -s /dev/zero zero.csv && ln -s /dev/zero zero.parquet").code(0);
    refused("eval runs/r --data pipe.csv", "a pipe");
    refused("eval runs/r --data zero.csv", "a device");
    refused("eval runs/r --data zero.parquet", "a device");
    ends("task check zero.csv").code(4).says("is read several times");
    place.shell("rm train.csv && mkfifo train.csv").code(0);
    for command in [
        "train tiny.rt --experiment mine.yaml --run other",
        "eval runs/r --split dev",
        "task check mine.yaml",
        "task sample mine.yaml",
    ] {
        refused(command, "a pipe");
    }
    place.shell("rm train.csv && mkfifo tokenizer.json").code(0);
    place.write("train.csv", &reviews(120, 0));
    let task = "name: table, data: { train: train.csv, dev: 10% }, tokens: tokenizer.json";
    place.write("mine.yaml", &experiment(task, "evaluate: [dev]\n"));
    refused("train tiny.rt --experiment mine.yaml --run other", "a pipe");
    // What these print of a run without its data is not the matter here, but that they end.
    place.shell("rm test.jsonl && mkfifo test.jsonl").code(0);
    for command in ["report runs/r", "verify runs/r --again"] {
        assert_ne!(ends(command).status(), Some(124), "{command} waits for another program");
    }
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
    // Equal rows are in one split, and then none is left for the other.
    let equal = place.read("mine.yaml").replace("train.csv", "equal.csv").replace("10%", "50%");
    place.write("equal.yaml", &equal);
    place.write("equal.csv", &format!("text,label\n{}", "the same,positive\n".repeat(20)));
    place
        .rtc(&["task", "check", "equal.yaml"])
        .code(4)
        .says("no row is left for training: equal rows go into the same split");
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

/// A model whose answers depend on what comes with the rows, and one that goes on with each row for its own number of steps.
const TOLD: &str = "\
/// Every puzzle has a vector of its own.
model told {
    embed { width: 16 }
    puzzle = given(0) { ids: 6 }
    trust = given(0)
    known = embedding(puzzle)
    state = state + trust * known
    feedforward { hidden: 32 }
    readout mean
}

variant plain of told { feedforward { hidden: 16 } }

model stepped {
    embed { width: 16 }
    puzzle = given(0) { ids: 6 }
    least = given(0)
    input = state + embedding(puzzle)
    loop {
        steps: 4
        carry y = given(input)
        y = norm(y + input + linear(silu(linear(y))))
        loss average(answer(y))
        y = stop(y)
        until step + 1.5 > least
    }
    state = y
    readout mean
}
";

/// A row: its text says nothing; its class is that of its puzzle, turned around where its trust is negative.
struct Told {
    puzzle: usize,
    trust: f64,
}

impl Told {
    /// Row `n`; `shift` gives it the puzzle of another row.
    fn of(n: usize, shift: usize) -> Self {
        Self { puzzle: (n * 5 + n / 7 + shift) % 6, trust: if n % 5 < 2 { -1.5 } else { 1.5 } }
    }

    fn class(&self) -> &'static str {
        if self.puzzle.is_multiple_of(2) == (self.trust > 0.0) { "even" } else { "odd" }
    }
}

/// Texts of several lengths.
fn words(n: usize) -> String {
    vec!["a"; 1 + n % 4].join(" ")
}

/// Rows in CSV with the values in columns of other names; `shift` turns the puzzles against the rows.
fn told_csv(rows: std::ops::Range<usize>, shift: usize) -> String {
    let row = |n: usize| {
        let Told { trust, .. } = Told::of(n, 0);
        format!("{},{},{trust},{}\n", words(n), Told::of(n, shift).puzzle, Told::of(n, 0).class())
    };
    "text,number,how,label\n".to_owned() + &rows.map(row).collect::<String>()
}

/// The same rows in JSON lines, with the values under their own names, and what `stepped` takes.
fn told_json(rows: std::ops::Range<usize>) -> String {
    let row = |n: usize| {
        let own = Told::of(n, 0);
        let (Told { puzzle, trust }, class) = (&own, own.class());
        let y = vec![vec![*trust / 4.0; 16]; 1 + n % 4];
        format!(
            "{{\"text\": \"{}\", \"label\": \"{class}\", \"puzzle\": {puzzle}, \"trust\": {trust:?}, \"least\": {}, \
             \"y\": {y:?}}}\n",
            words(n),
            1 + n % 3
        )
    };
    rows.map(row).collect()
}

const LEARNS: &str = "evaluate: [test]\nlog_every: 20\n";

/// An experiment in which `told` learns all there is.
fn told_experiment(task: &str, more: &str) -> String {
    experiment(&format!("name: table, {task}"), &format!("{LEARNS}{more}"))
        .replace("log_every: 1\n", "")
        .replace("epochs: 2", "epochs: 12")
}

fn told_place() -> Place {
    let place = Place::new();
    place.write("told.rt", TOLD);
    place.write("train.csv", &told_csv(0..240, 0));
    place.write("test.csv", &told_csv(240..300, 0));
    place.write("turned.csv", &told_csv(240..300, 1));
    place.write("train.jsonl", &told_json(0..240));
    place.write("test.jsonl", &told_json(240..300));
    let csv = "data: { train: train.csv, dev: test.csv, test: test.csv }, given: { puzzle: number, trust: how }";
    place.write("csv.yaml", &told_experiment(csv, ""));
    let json = "data: { train: train.jsonl, dev: test.jsonl, test: test.jsonl }, given: [puzzle, trust]";
    place.write("json.yaml", &told_experiment(json, ""));
    let json = json.replace("[puzzle, trust]", "[puzzle, least, y]");
    place.write("steps.yaml", &told_experiment(&json, "supervision: each_step\n"));
    place
}

fn train_told(place: &Place, model: &str, experiment: &str, run: &str, more: &[&str]) -> crate::support::Answer {
    place.rtc(&[&["train", model, "--experiment", experiment, "--run", run], more].concat())
}

#[test]
fn every_row_is_answered_by_the_values_that_come_with_it() {
    let place = told_place();
    let learned = train_told(&place, "told.rt:told", "csv.yaml", "csv", &["--json"]).code(0).json();
    assert_eq!(learned["splits"][0]["accuracy"], 1.0, "{learned:#}");
    let json = train_told(&place, "told.rt:told", "json.yaml", "json", &["--json"]).code(0).json();
    assert_eq!(json["splits"], learned["splits"], "the same rows, written otherwise");
    let weights = |run: &str| fs::read(place.path("runs").join(run).join("checkpoints/last/weights.safetensors"));
    assert_eq!(weights("csv").expect("they are there"), weights("json").expect("they are there"));
    // Rows with the puzzles of others are answered wrong: the values decide, and they are those of the row.
    let turned = place.rtc(&["eval", "csv", "--data", "turned.csv", "--json"]).code(0).json();
    assert!(turned["splits"][0]["accuracy"].as_f64().is_some_and(|share| share < 0.3), "{turned:#}");
    let parts = ["--json", "--with", "batch={ size: 16, accumulate: 3, buckets: length }"];
    let parts = train_told(&place, "told.rt:told", "csv.yaml", "parts", &parts).code(0).json();
    assert_eq!(parts["splits"][0]["accuracy"], 1.0, "{parts:#}");
    place.rtc(&["eval", "csv"]).code(0);
    place.rtc(&["verify", "csv", "parts", "--again"]).code(0);
    place.rtc(&["report", "runs/csv"]).code(0);
    let compared = format!("{}compare: [\"told.rt:told\", \"told.rt:plain\"]\nseeds: [1]\n", place.read("csv.yaml"));
    place.write("grid.yaml", &compared);
    let grid = ["ablate", "grid.yaml", "--grid", "G", "--jobs", "1", "--with", "max_steps=4"];
    place.rtc(&grid).code(0);
}

#[test]
fn predictions_take_the_values_of_every_row() {
    let place = told_place();
    train_told(&place, "told.rt:told", "csv.yaml", "r", &[]).code(0);
    let rows: String = (240..260)
        .map(|n| {
            let own = Told::of(n, 0);
            format!("{{\"text\": \"{}\", \"number\": {}, \"how\": {:?}}}\n", words(n), own.puzzle, own.trust)
        })
        .collect();
    let said = place.rtc_with(&["predict", "r"], &rows);
    let classes: Vec<&str> = said.code(0).stdout.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(classes, (240..260).map(|n| Told::of(n, 0).class()).collect::<Vec<_>>());
    place.write("rows.jsonl", &rows);
    let all = place.rtc(&["predict", "r", "--input", "rows.jsonl", "--json"]);
    let first: Value = serde_json::from_str(all.code(0).stdout.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!(first["text"], words(240).as_str());
    place.rtc(&["predict", "r", r#"{"text": "a", "number": 2, "how": 1.5, "more": 3}"#]).code(0);
    for (row, why) in [
        (
            "a a",
            "the model takes `puzzle`, `trust` from its rows: write a row as a JSON object with the text and \"number\": .., \"how\": ..",
        ),
        (r#"{"text": "a", "number": 2}"#, "`how`, which gives `trust`, is missing: give every row a number"),
        (r#"{"text": "a", "number": 6, "how": 1}"#, "is 6, and the model knows 0 to 5"),
        (r#"{"number": 2, "how": 1}"#, "there is no column `text` (known: number, how)"),
        (r#"{"text": "a", "number": 2, "how": 1"#, "this line is no JSON"),
    ] {
        place.rtc(&["predict", "r", row]).code(4).says(why);
    }
}

#[test]
fn values_are_a_part_of_the_data_and_are_shown() {
    let place = told_place();
    train_told(&place, "told.rt:told", "csv.yaml", "r", &["--max-steps", "4"]).code(0);
    let good = place.read("test.csv");
    let edited = good.replacen(",1.5,", ",1.25,", 1);
    assert_ne!(edited, good);
    place.write("test.csv", &edited);
    train_told(&place, "told.rt:told", "csv.yaml", "r", &["--max-steps", "4"]).code(7).says("other rows in dev, test");
    place.rtc(&["eval", "r"]).code(7).says("other rows in test");
    let measured = place.rtc(&["eval", "r", "--data", "test.csv", "--json"]).code(0).json();
    place.write("test.csv", &good);
    let before = place.rtc(&["eval", "r", "--data", "test.csv", "--json"]).code(0).json();
    assert_ne!(measured["splits"][0]["loss"], before["splits"][0]["loss"]);
    let checked = place.rtc(&["task", "check", "csv.yaml"]);
    let shown = &checked.code(0).stdout;
    let row = shown.lines().find(|line| line.starts_with("puzzle") && line.contains("train")).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["puzzle", "number", "train", "1", "0", "5"], "{shown}");
    let sampled =
        place.rtc(&["task", "sample", "csv.yaml", "--split", "test", "--count", "3", "--json"]).code(0).json();
    assert_eq!(sampled[0]["given"]["trust"].as_f64().map(f64::abs), Some(1.5), "{sampled:#}");
    let sampled = place.rtc(&["task", "sample", "csv.yaml", "--split", "test", "--count", "3"]);
    assert!(sampled.code(0).stdout.lines().all(|line| line.contains("\tpuzzle ")), "{}", sampled.stdout);
}

#[test]
fn rows_of_a_program_and_of_pairs_come_with_values() {
    let place = told_place();
    let program = r#"awk -v count="$6" 'BEGIN { for (n = 0; n < count; n++)
        printf "{\"text\": \"a\", \"label\": \"%s\", \"puzzle\": %d, \"trust\": 1}\n", n % 2 ? "odd" : "even", n % 6 }'
"#;
    place.write("gen.sh", program);
    let program = "command: [sh, gen.sh], sizes: { train: 120, dev: 20, test: 20 }, given: [puzzle, trust]";
    place.write("made.yaml", &told_experiment(program, ""));
    let mut train = place.command(crate::support::RTC);
    train.env("XDG_CACHE_HOME", place.path("cache"));
    train.args(["train", "told.rt:told", "--experiment", "made.yaml", "--run", "made", "--run-commands", "--json"]);
    let made = crate::support::Answer::from(train.output().expect("the binary runs")).code(0).json();
    assert_eq!(made["splits"][0]["accuracy"], 1.0, "{made:#}");
    let pair = |n: usize| {
        let (puzzle, label) = (n % 6, if n.is_multiple_of(2) { "even" } else { "odd" });
        format!(
            "{{\"a\": \"{}\", \"b\": \"y\", \"puzzle\": {puzzle}, \"trust\": 1, \"label\": \"{label}\"}}\n",
            words(n)
        )
    };
    place.write("pairs.jsonl", &(0..120).map(pair).collect::<String>());
    let task = "name: pairs, data: { train: pairs.jsonl, dev: pairs.jsonl }, input: [a, b], given: [puzzle, trust]";
    let pairs = experiment(task, "evaluate: [dev]\n").replace("epochs: 2", "epochs: 12");
    place.write("pairs.yaml", &pairs);
    let learned = train_told(&place, "told.rt:told", "pairs.yaml", "pairs", &["--json"]).code(0).json();
    assert_eq!(learned["splits"][0]["accuracy"], 1.0, "{learned:#}");
    let row = r#"{"a": "a a", "b": "y", "puzzle": 3, "trust": 1}"#;
    let said = place.rtc(&["predict", "pairs", "--json", row]).code(0).json();
    assert_eq!((&said["class"], &said["text"]), (&"odd".into(), &"a a ||| y".into()));
}

#[test]
fn wrong_values_are_refused_with_their_line() {
    let place = told_place();
    let (csv, json) = (place.read("train.csv"), place.read("train.jsonl"));
    for (from, to, why) in [
        (",1.5,", ",,", "train.csv:4: `how`, which gives `trust`, is empty: give every row a number"),
        (
            ",1.5,",
            ",much,",
            "train.csv:4: `how`, which gives `trust`, is `much`, which is no finite number: correct it",
        ),
        (",1.5,", ",1 2,", "train.csv:4: `how`, which gives `trust`, has 2 numbers, and the model takes 1 for a row"),
        (
            "a a a,4,",
            "a a a,6,",
            "train.csv:4: `number`, which gives `puzzle`, is 6, and the model knows 0 to 5: correct it, or give the `ids` of the spec at least 7",
        ),
        ("a a a,4,", "a a a,0.5,", "is 0.5, and the model takes whole numbers from 0 to 5: correct it"),
        ("text,number,", "text,numbr,", "train.csv:1: there is no column `number`; did you mean `numbr`?"),
    ] {
        let wrong = csv.replacen(from, to, 1);
        assert_ne!(wrong, csv, "{from}");
        place.write("train.csv", &wrong);
        train_told(&place, "told.rt:told", "csv.yaml", "r", &[]).code(4).says(why);
    }
    place.write("train.csv", &csv);
    for (from, to, why) in [
        ("\"puzzle\": 4, ", "", "train.jsonl:3: `puzzle` is missing: give every row a number"),
        ("[0.375, ", "[", "train.jsonl:3: `y` has 15 numbers in its list 1, and the model takes 16 in each"),
        (
            "\"y\": [[",
            "\"y\": [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [",
            "train.jsonl:1: `y` has 32 numbers, and the model takes 16 for a row of 1 token, 16 for each",
        ),
        (
            "\"least\": 3",
            "\"least\": [3, null]",
            "train.jsonl:3: `least` is `null`, its number 2, which is no finite number",
        ),
    ] {
        let wrong = json.replacen(from, to, 1);
        assert_ne!(wrong, json, "{from}");
        place.write("train.jsonl", &wrong);
        train_told(&place, "told.rt:stepped", "steps.yaml", "r", &[]).code(4).says(why);
    }
    place.write("train.jsonl", &json);
    let short = ["--with", "task.length=2"];
    let why = "train.jsonl:3: `y` has a value for every position, and the text has 3 tokens, more than `length: 2` leaves of it";
    train_told(&place, "told.rt:stepped", "steps.yaml", "r", &short).code(4).says(why);
    assert!(!place.path("runs/r").exists(), "nothing was trained");
}

#[test]
fn a_model_is_not_trained_without_the_values_that_it_takes() {
    let place = told_place();
    let good = place.read("csv.yaml");
    for (to, code, why) in [
        (
            "given: { puzle: number, trust: how }",
            4,
            "the model told takes `puzzle` from the rows, as `puzzle = given(..)`, and its column is not named: say `given: { puzzle: COLUMN }` in the `task` of the experiment; did you mean `puzle`?",
        ),
        ("seed: 1", 4, "takes `puzzle` from the rows"),
        ("given: [puzzle, puzzle]", 2, "`puzzle` stands there twice"),
        ("given: { \"carried.y\": how }", 2, "`carried.y` is no name of an equation"),
        ("given: 3", 2, "task.given: takes a column for each value"),
    ] {
        let wrong = good.replace("given: { puzzle: number, trust: how }", to);
        assert_ne!(wrong, good);
        place.write("csv.yaml", &wrong);
        train_told(&place, "told.rt:told", "csv.yaml", "r", &[]).code(code).says(why);
    }
    train_told(&place, "told.rt:told", "tiny.yaml", "r", &[]).code(4).says(
        "no values come with those of listops: a task on files of your own has them, as `given: { puzzle: COLUMN }`",
    );
    place.write("text.txt", &"to be, or not to be\n".repeat(50));
    let text = "name: language, data: { train: text.txt, dev: 10% }";
    let each = place.read("told.rt").replace("readout mean", "readout each");
    place.write("each.rt", &each);
    place.write("text.yaml", &experiment(text, "evaluate: [dev]\n"));
    train_told(&place, "each.rt:told", "text.yaml", "r", &[]).code(4).says("`language` has no rows");
    place.write("text.yaml", &experiment(&format!("{text}, given: [puzzle]"), "evaluate: [dev]\n"));
    train_told(&place, "each.rt:told", "text.yaml", "r", &[]).code(2).says("`language` has no rows");
    let tiny = place.read("tiny.yaml").replace("  name: listops\n", "  name: listops\n  given: [puzzle]\n");
    place.write("tiny.yaml", &tiny);
    train_told(&place, "told.rt:told", "tiny.yaml", "r", &[])
        .code(2)
        .says("`given` belongs to tasks on files of your own");
    assert!(!place.path("runs/r").exists());
}

/// Rows keep their values in the slots of a training by single steps, and everywhere when a run goes on.
#[test]
fn a_run_with_values_goes_on_to_the_same_bits() {
    let place = told_place();
    for (model, experiment) in [("told.rt:told", "csv.yaml"), ("told.rt:stepped", "steps.yaml")] {
        let args = ["--with", "log_every=1", "--with", "max_steps=60", "--with", "evaluate_every=20"];
        let (whole, other) = (format!("whole-{experiment}"), format!("other-{experiment}"));
        train_told(&place, model, experiment, &whole, &[&args[..], &["--threads", "1"]].concat()).code(0);
        for lines in [8, 31] {
            let command = [&["train", model, "--experiment", experiment, "--run", &other], &args[..]].concat();
            let mut child = place.command(crate::support::RTC).args(command).spawn().expect("the binary runs");
            let metrics = place.path("runs").join(&other).join("metrics.jsonl");
            let written = || fs::read_to_string(&metrics).unwrap_or_default().lines().count();
            while written() < lines && child.try_wait().expect("the state of a child").is_none() {
                sleep(Duration::from_millis(1));
            }
            crate::support::signal(&child, if lines == 8 { libc::SIGTERM } else { libc::SIGKILL });
            child.wait().expect("it ends");
        }
        train_told(&place, model, experiment, &other, &args).code(0);
        assert_eq!(place.contents(&other), place.contents(&whole), "{model}");
        place.rtc(&["verify", &other, "--again"]).code(0);
    }
}

#[test]
fn values_of_every_token_stay_at_their_tokens() {
    let place = Place::new();
    let spec = "model each {\n    embed { width: 8 }\n    hint = given(state)\n    state = state + hint\n    feedforward { hidden: 16 }\n    readout each\n}\n";
    place.write("each.rt", spec);
    // The word says nothing of its class: the first number of its list does.
    let row = |n: usize| {
        let signs: Vec<f64> =
            (0..1 + n % 5).map(|at| if (n * 7 + at * at * 3 + n / 5).is_multiple_of(3) { -1.0 } else { 1.0 }).collect();
        let hints: Vec<Vec<f64>> = signs.iter().map(|sign| [vec![*sign], vec![0.5; 7]].concat()).collect();
        let labels: Vec<&str> = signs.iter().map(|sign| if *sign > 0.0 { "up" } else { "down" }).collect();
        let text = vec!["w"; signs.len()];
        format!("{}\n", serde_json::json!({ "text": text, "label": labels, "hint": hints }))
    };
    place.write("train.jsonl", &(0..200).map(row).collect::<String>());
    place.write("test.jsonl", &(200..240).map(row).collect::<String>());
    let task = "name: tagging, data: { train: train.jsonl, dev: test.jsonl, test: test.jsonl }, given: [hint]";
    place.write("mine.yaml", &experiment(task, "evaluate: [test]\n").replace("epochs: 2", "epochs: 8"));
    let learned = train_told(&place, "each.rt", "mine.yaml", "r", &["--json"]).code(0).json();
    assert_eq!(learned["splits"][0]["accuracy"], 1.0, "{learned:#}");
}

/// Rows of `tagging` without a scored answer are neither right nor wrong, and a split of them is no measure.
#[test]
fn rows_without_a_label_do_not_count() {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let row = |n: usize, label: &str| format!("{{\"text\": [\"the\", \"cat{}\"], \"label\": {label}}}\n", n % 5);
    let labelled: String =
        (0..40).map(|n| row(n, if n % 2 == 0 { "[\"D\", \"N\"]" } else { "[\"N\", \"D\"]" })).collect();
    let none: String = (0..40).map(|n| row(n, "[null, null]")).collect();
    place.write("labelled.jsonl", &labelled);
    place.write("none.jsonl", &none);
    place.write("half.jsonl", &(labelled + &none));
    let task =
        |dev: &str| format!("name: tagging, data: {{ train: half.jsonl, dev: {dev}.jsonl, test: labelled.jsonl }}");
    place.write("tags.yaml", &experiment(&task("half"), "evaluate: [dev]\n"));
    place.rtc(&["train", "each.rt", "--experiment", "tags.yaml", "--run", "r"]).code(0);
    let split = |file: &str| place.rtc(&["eval", "r", "--data", file, "--json"]).code(0).json()["splits"][0].clone();
    let (whole, half) = (split("labelled.jsonl"), split("half.jsonl"));
    for name in ["exact", "accuracy", "loss", "scored", "metrics"] {
        assert_eq!(whole[name], half[name], "{name}");
    }
    place.rtc(&["eval", "r", "--data", "none.jsonl"]).code(4).says("none.jsonl: it has no label");
    // Neither for the choice of the best checkpoint nor at the end.
    place.write("dev.yaml", &experiment(&task("none"), "evaluate: [test]\n"));
    place.rtc(&["train", "each.rt", "--experiment", "dev.yaml", "--run", "s"]).code(4).says("dev: it has no label");
    let at_end = experiment(&task("labelled").replace("test: labelled", "test: none"), "evaluate: [test]\n");
    place.write("test.yaml", &at_end);
    place.rtc(&["train", "each.rt", "--experiment", "test.yaml", "--run", "t"]).code(4).says("test: it has no label");
    place.rtc(&["report", "r"]).code(0);
}

/// Numbers whose squares are too large for double precision have errors of their own size.
#[test]
fn numbers_of_any_size_are_measured_again() {
    let place = Place::new();
    let row = |n: usize| format!("word {} {},{}e154\n", n % 7, n % 3, n % 5);
    place.write("a.csv", &("text,label\n".to_owned() + &(0..60).map(row).collect::<String>()));
    let task = "name: table, data: { train: a.csv, dev: a.csv }, answer: number";
    place.write("n.yaml", &experiment(task, "evaluate: [dev]\n"));
    place.rtc(&["train", "tiny.rt", "--experiment", "n.yaml", "--run", "r"]).code(0);
    let found = place.rtc(&["eval", "r", "--json"]).code(0).json();
    let rmse = found["splits"][0]["numbers"]["rmse"].as_f64().expect("a finite number");
    assert!((1e153..1e155).contains(&rmse), "{rmse}");
    place.write("far.csv", "text,label\nword,1\nword,1e250\n");
    place.rtc(&["eval", "r", "--data", "far.csv"]).code(4).says("far.csv").says("too far from them");
}

#[test]
fn classes_that_look_the_same_are_told() {
    let place = Place::new();
    let row = |n: usize| format!("word {n},{}\n", ["caf\u{e9}", "cafe\u{301}"][n % 2]);
    place.write("a.csv", &("text,label\n".to_owned() + &(0..20).map(row).collect::<String>()));
    place.write("m.yaml", &experiment("name: table, data: { train: a.csv, dev: 20% }", "evaluate: [dev]\n"));
    let said = place.rtc(&["task", "check", "m.yaml"]);
    said.code(0).says("look the same, and are two classes").says("cafe<U+0301>");
    let json = place.rtc(&["task", "check", "m.yaml", "--json"]).code(0).json();
    assert_eq!(json["alike"].as_array().map(Vec::len), Some(1), "{json:#}");
}

/// A trigram stands beside the perplexity and the most frequent class of a text wherever results are printed.
#[test]
fn a_trigram_is_a_baseline() {
    let place = Place::new();
    let line = |n: usize| format!("{} {} is {}\n", ["a", "the"][n % 2], ["cat", "dog", "film"][n * n % 3], n % 4);
    place.write("one.txt", &(0..400).map(line).collect::<String>());
    let task = "name: language, data: { train: one.txt, dev: 10% }, tokens: words, length: 32";
    place.write("one.yaml", &experiment(task, "evaluate: [dev]\n"));
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let trained = place.rtc(&["train", "each.rt", "--experiment", "one.yaml", "--run", "one"]);
    assert!(trained.code(0).stdout.contains("trigram perplexity"), "{}", trained.stdout);
    let results: Value = serde_json::from_str(&place.read("runs/one/results.json")).expect("JSON");
    let dev = &results["splits"][0];
    let number = |name: &str| dev[name].as_f64().unwrap_or_else(|| panic!("{name} in {dev}"));
    // The words behind an article and behind `is` are open; all else follows from the two tokens before.
    assert!((1.2..2.0).contains(&number("trigram_perplexity")), "{dev}");
    assert!((0.6..0.9).contains(&number("trigram")) && number("majority") < number("trigram"), "{dev}");
    assert!(dev.get("bag_of_words").is_none(), "{dev}");
    place.rtc(&["verify", "runs/one", "--again"]).code(0);
    place.rtc(&["report", "runs/one", "--output", "one.html"]).code(0);
    assert!(place.read("one.html").contains("trigram perplexity"));
    let grid = "compare: [each.rt]\nseeds: [1]\nmax_steps: 2\n";
    place.write("grid.yaml", &place.read("one.yaml").replace("epochs: 2\n", grid));
    let table = place.rtc(&["ablate", "grid.yaml", "--metric", "accuracy", "--metric", "perplexity"]);
    let row = table.code(0).stdout.lines().find(|line| line.starts_with("trigram ")).expect("a row").to_owned();
    let cells = [format!("{:.1}", 100.0 * number("trigram")), format!("{:.3}", number("trigram_perplexity"))];
    assert!(cells.iter().all(|cell| row.contains(cell)), "{row}");
}

/// A bag of words stands beside the most frequent class wherever results are printed.
#[test]
fn a_bag_of_words_is_a_baseline() {
    let place = Place::new();
    // Single words tell the class, in most rows.
    let row = |n: usize| {
        let class = (n * 7).is_multiple_of(3);
        let tells = if n.is_multiple_of(11) { !class } else { class };
        let filler = (0..6).map(|k| format!("w{}", (n * 13 + k * 5) % 17)).collect::<Vec<_>>().join(" ");
        format!("{filler} {},{}\n", if tells { "great" } else { "poor" }, if class { "yes" } else { "no" })
    };
    place.write("one.csv", &format!("text,label\n{}", (0..330).map(row).collect::<String>()));
    place.rtc(&["task", "check", "one.csv", "--write", "one.yaml"]).code(0);
    let sizes =
        ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8", "--max-steps", "5"];
    let train = ["train", "transformer", "--experiment", "one.yaml", "--run", "one"];
    let trained = place.rtc(&[&train[..], &sizes].concat());
    assert!(trained.code(0).stdout.contains("bag of words"), "{}", trained.stdout);
    let results: Value = serde_json::from_str(&place.read("runs/one/results.json")).expect("JSON");
    let dev = &results["splits"][0];
    let share = dev["bag_of_words"].as_f64().expect("a share");
    assert!(share > 0.8 && share < 1.0, "{dev}");
    place.rtc(&["verify", "runs/one", "--again"]).code(0);
    place.rtc(&["report", "runs/one", "--output", "one.html"]).code(0);
    assert!(place.read("one.html").contains("bag of words"));
    let models = "compare: [transformer]\nseeds: [1]\nmax_steps: 2\n";
    let grid = place.read("one.yaml").replace("epochs: 5\n", models).replace("embed.width=128", "embed.width=8");
    place.write("grid.yaml", &grid);
    let table = place.rtc(&["ablate", "grid.yaml"]);
    let rows: Vec<&str> = table.code(0).stdout.lines().filter_map(|line| line.split("  ").next()).collect();
    assert!(rows.contains(&"majority") && rows.contains(&"bag of words"), "{}", table.stdout);
}
