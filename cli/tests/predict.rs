//! `rtc predict`: all numbers of all classes, many sequences at once, from files and to files.

mod support;

use serde_json::Value;
use support::Place;

/// A folder with the trained run `r`.
fn place() -> Place {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "3", "--quiet"]).code(0);
    place
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn all_classes_have_their_probability_and_logit() {
    let place = place();
    let one = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--all", "--top", "3", "--json"]).code(0).json();
    let (probabilities, logits) = (&one["probabilities"], &one["logits"]);
    let classes: Vec<String> = (0..10).map(|digit: u32| digit.to_string()).collect();
    let sum: f64 = classes.iter().map(|class| number(&probabilities[class])).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    let total: f64 = classes.iter().map(|class| number(&logits[class]).exp()).sum();
    for class in &classes {
        assert!((number(&probabilities[class]) - number(&logits[class]).exp() / total).abs() < 1e-9, "{one}");
    }
    let class = one["class"].as_str().expect("a class");
    assert!((number(&probabilities[class]) - number(&one["confidence"])).abs() < 1e-6, "{one}");
    let top = one["top"].as_array().expect("a list");
    assert_eq!((top.len(), top[0]["class"].as_str()), (3, Some(class)));
    assert!(top.windows(2).all(|pair| number(&pair[0]["probability"]) >= number(&pair[1]["probability"])));
    let text = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--all"]).code(0).stdout.clone();
    assert_eq!(text.lines().count(), 11, "the answer, and a line per class: {text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(&format!("    {class}  "))), "{text}");
}

#[test]
fn files_are_read_and_written_in_their_order() {
    let place = place();
    let rows: Vec<String> = (0..75).map(|n| format!("[MAX {} {} ]", n % 10, n / 10)).collect();
    place.write("rows.txt", &format!("\u{feff}{}\r\n\n", rows.join("\r\n")));
    let all = ["predict", "r", "--input", "rows.txt", "--probabilities"];
    place.rtc(&[&all[..], &["--output", "many.jsonl"]].concat()).code(0).is_silent();
    place.rtc(&[&all[..], &["--output", "one.jsonl", "--batch", "1"]].concat()).code(0);
    let many = place.read("many.jsonl");
    assert_eq!(many, place.read("one.jsonl"), "how many are computed at once changes nothing");
    let answers = objects(&many);
    let texts: Vec<&str> = answers.iter().filter_map(|answer| answer["text"].as_str()).collect();
    assert_eq!(texts, rows);
    assert!(answers.iter().all(|answer| answer["steps"].is_number()), "steps of every sequence, not of the batch");

    place.rtc(&[&all[..], &["--output", "many.csv", "--top", "2"]].concat()).code(0);
    let csv = place.read("many.csv");
    let mut lines = csv.lines();
    let head = "text,class,confidence,steps,probability 0,";
    assert!(
        lines.next().is_some_and(|line| line.starts_with(head) && line.ends_with("class 2,probability 2")),
        "{csv}"
    );
    for (line, answer) in lines.by_ref().zip(&answers) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 4 + 10 + 4);
        assert_eq!((Some(fields[0]), Some(fields[1])), (answer["text"].as_str(), answer["class"].as_str()));
        assert_eq!(fields[4].parse::<f64>().ok(), answer["probabilities"]["0"].as_f64());
    }
    assert_eq!(csv.lines().count(), 76);
}

#[test]
fn a_class_per_token_is_a_row_per_token() {
    let place = Place::new();
    let text = place.read("tiny.rt");
    place.write("tiny.rt", &(text + "\nvariant causal of tiny {\n    embed.tokens: none\n    readout each\n}\n"));
    let tiny = place.read("tiny.yaml");
    let (_, rest) = tiny.split_once("optimiser").expect("the block after the task");
    let task = "task:\n  name: flip_flop\n  options: { pairs: 8, long_pairs: 12 }\n  sizes: { train: 160, dev: 35, dense: 32, long-sparse: 32 }\n";
    place.write("flip.yaml", &format!("{task}optimiser{}", rest.replace("[test]", "[dense, long-sparse]")));
    place.rtc(&["train", "tiny.rt:causal", "--experiment", "flip.yaml", "--run", "r", "--max-steps", "1"]).code(0);
    let one = place.rtc(&["predict", "r", "w 0 r", "--all", "--json"]).code(0).json();
    for name in ["classes", "confidence", "probabilities", "logits"] {
        assert_eq!(one[name].as_array().map(Vec::len), Some(3), "{name}: {one}");
    }
    assert_eq!(number(&one["logits"][0]["0"]), 0.0, "of two classes the logit is that of the second against the first");
    let csv =
        place.rtc_with(&["predict", "r", "--format", "csv", "--probabilities"], "w 0 r\nw 1\n").code(0).stdout.clone();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows[0], "sequence,position,token,class,confidence,steps,probability 0,probability 1");
    let places: Vec<Vec<&str>> = rows[1..].iter().map(|row| row.split(',').take(3).collect()).collect();
    let expected = [["1", "0", "w"], ["1", "1", "0"], ["1", "2", "r"], ["2", "0", "w"], ["2", "1", "1"]];
    assert_eq!(places, expected);
}

#[test]
fn what_can_not_be_read_or_written_is_said() {
    let place = place();
    place.write("rows.txt", "[MAX 1 2 ]\n\n[MAX 1 x ]\n");
    place
        .rtc(&["predict", "r", "--input", "rows.txt", "--output", "out.csv"])
        .code(4)
        .says("rows.txt:3")
        .says("`x` is no symbol");
    assert!(!place.path("out.csv").exists(), "a file takes its name when it is complete");
    assert!(!place.path("out.csv.part").exists(), "what was begun is removed");
    place.rtc(&["predict", "r", "--input", "none.txt"]).code(6).says("none.txt");
    place.rtc(&["predict", "r", "--input", "."]).code(6).says("a folder is no file of sequences");
    place.rtc(&["predict", "r", "3", "--output", "out.dat"]).code(2).says("`.jsonl` or `.csv`");
    place.rtc(&["predict", "r", "3", "--format", "csv", "--trees"]).code(2).says("no columns");
    place.rtc(&["predict", "r", "3", "--input", "rows.txt"]).code(2);
    place.write("empty.txt", "\n");
    place.rtc(&["predict", "r", "--input", "empty.txt", "--output", "empty.csv"]).code(0);
    assert_eq!(place.read("empty.csv"), "text,class,confidence,steps\n");
    std::fs::write(place.path("bytes.txt"), b"[MAX 1 2 ]\n\xff\n").expect("a file");
    let found = place.rtc(&["predict", "r", "--input", "bytes.txt"]);
    assert_eq!(found.code(4).says("bytes.txt:2").stdout.lines().count(), 1, "what came before is answered");
}
