//! `sequences`: a text for every text, from the file to the written target.

use std::fs;

use crate::support::Place;
use serde_json::Value;

const SPEC: &str = "\
/// A causal model as small as it gets.
model writer {
    embed { width: 32 }
    stack 2 {
        attend self { heads: 2, position: rope }
        feedforward { hidden: 64 }
    }
    readout each
}
";

/// A target says the words of its source in another language, in the same order.
fn row(n: usize) -> String {
    const WORDS: [(&str, &str); 5] =
        [("one", "eins"), ("two", "zwei"), ("six", "sechs"), ("ten", "zehn"), ("no", "nein")];
    let of = |k: usize| WORDS[(n / 5_usize.pow(k as u32)) % 5];
    let words: Vec<_> = (0..1 + n % 3).map(of).collect();
    let say =
        |side: fn(&(&'static str, &'static str)) -> &'static str| words.iter().map(side).collect::<Vec<_>>().join(" ");
    format!("{} {n},{}\n", say(|word| word.0), say(|word| word.1))
}

/// A folder with a trained run `r`.
fn place() -> Place {
    let place = Place::new();
    place.write("writer.rt", SPEC);
    place.write("rows.csv", &("source,target\n".to_owned() + &(0..240).map(row).collect::<String>()));
    place.write("few.csv", &("source,target\n".to_owned() + &(300..330).map(row).collect::<String>()));
    place.write(
        "rows.yaml",
        "task: { name: sequences, data: { train: rows.csv, dev: few.csv }, tokens: words, length: 12 }\n\
         optimiser: { learning_rate: 0.005, clip: 1 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nepochs: 8\n\
         evaluate: [dev]\n",
    );
    place.rtc(&["train", "writer.rt", "--experiment", "rows.yaml", "--run", "r", "--quiet"]).code(0);
    place
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

#[test]
fn written_targets_are_those_that_are_measured() {
    let place = place();
    let measured = place.rtc(&["eval", "r", "--json"]).code(0).json();
    let dev = &measured["splits"][0];
    let exact = dev["metrics"]["exact"].as_f64().expect("a share");
    assert!(exact > 0.5, "{dev:#}");
    assert!(dev["perplexity"].as_f64().is_some_and(|found| found > 1.0), "{dev:#}");
    // A greedy answer is the target if and only if every token is right behind the right ones.
    let found = objects(&place.rtc(&["predict", "r", "--input", "few.csv", "--json"]).code(0).stdout);
    assert_eq!(found.len(), 30);
    let right = found.iter().filter(|row| row["target"] == row["label"]).count();
    assert!((right as f64 / 30.0 - exact).abs() < 1e-9, "{right} of 30, {exact}");
    // One by one, without the label, by another command.
    let text = found[0]["text"].as_str().expect("a text");
    let target = found[0]["target"].as_str().expect("a text");
    let line = place.rtc(&["predict", "r", text]);
    assert!(line.code(0).stdout.starts_with(&format!("{target}\t")), "{}", line.stdout);
    let written = place.rtc(&["generate", "r", text, "--temperature", "0"]);
    assert_eq!(written.code(0).stdout, format!("{target}\n"));
    let object = place.rtc(&["generate", "r", text, "--temperature", "0", "--json"]).code(0).json();
    assert_eq!((&object["text"], &object["end"]), (&target.into(), &"answer".into()));
    place.rtc(&["predict", "r", "--input", "few.csv", "--output", "few_answers.csv"]).code(0);
    let csv = place.read("few_answers.csv");
    assert!(csv.starts_with("text,target,confidence,steps,label\n"), "{csv}");
    assert_eq!(csv.lines().count(), 31);
    // The vocabulary is kept with the run.
    fs::remove_file(place.path("rows.csv")).expect("it was there");
    place.rtc(&["predict", "r", "{\"source\": \"one two 7\"}", "--json", "--top", "2"]).code(0);
}

#[test]
fn long_inputs_and_other_answers_are_told() {
    let place = place();
    let long = "one ".repeat(20);
    let said = place.rtc(&["predict", "r", &long, "--json"]);
    assert_eq!(said.code(0).json()["cut"], 8);
    place.rtc(&["generate", "r", &long, "--length", "3"]).code(0).says("8 tokens of").says("cut to the length");
    place.rtc(&["predict", "r", "one", "--show-halting"]).code(2).says("a pass per token");
    place.rtc(&["predict", "r", "one", "--format", "csv", "--all"]).code(2).says("--format jsonl");
    place.rtc(&["predict", "r", "--frames"]).code(2).says("rtc generate");
    place.rtc(&["predict", "r", " "]).code(4).says("the sequence is empty");
    let good = place.read("rows.yaml");
    for (more, why) in [
        ("given: [n]", "`sequences` takes a text and nothing else"),
        ("answer: number", "`answer` belongs to `table`"),
        ("input: [source, target]", "`input` of `sequences` is one column"),
    ] {
        place.write("rows.yaml", &good.replace("length: 12", more));
        place.rtc(&["train", "writer.rt", "--experiment", "rows.yaml", "--run", "x"]).code(2).says(why);
    }
}

#[test]
fn an_export_has_the_separator_behind_every_text() {
    let place = place();
    place.rtc(&["export", "r", "--format", "torch", "--output", "exported"]).code(0);
    let config: Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
    let names = config["vocabulary"].as_array().expect("names");
    let separator = config["tokens"]["behind"][0].as_u64().expect("an id");
    assert_eq!(names[separator as usize], "<separator>");
}
