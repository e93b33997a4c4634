//! `masked`: hidden tokens of a text are learned, measured, asked for, and hidden anew in every pass.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Place, RTC, signal};
use serde_json::Value;

const SPEC: &str = "\
/// A model that sees the whole row, as small as it gets.
model filler {
    dropout: 0.1
    embed { width: 32 }
    stack 2 {
        attend self { heads: 2, position: rope }
        feedforward { hidden: 64 }
    }
    readout each { sees: all }
}

/// The past alone.
variant blind of filler { readout each { sees: past } }
";

/// A folder with a text in which neighbours tell every word.
fn place(epochs: usize) -> Place {
    let place = Place::new();
    place.write("filler.rt", SPEC);
    let words = ["one", "two", "three", "four", "five", "six", "seven"];
    let line = |n: usize| (0..6).map(|k| words[(n + k) % 7]).collect::<Vec<_>>().join(" ") + "\n";
    place.write("text.txt", &(0..400).map(|n| line(n * n % 11)).collect::<String>());
    place.write(
        "text.yaml",
        &format!(
            "task: {{ name: masked, data: {{ train: text.txt, dev: 10% }}, length: 25 }}\n\
             optimiser: {{ learning_rate: 0.005, clip: 1 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 16 }}\n\
             epochs: {epochs}\nlog_every: 1\nevaluate: [dev]\n"
        ),
    );
    place
}

const TRAIN: [&str; 6] = ["train", "filler.rt:filler", "--experiment", "text.yaml", "--quiet", "--run"];

#[test]
fn hidden_tokens_are_learned_and_asked_for() {
    let place = place(25);
    place.rtc(&[&TRAIN[..], &["r"]].concat()).code(0);
    let dev = &place.rtc(&["eval", "r", "--json"]).code(0).json()["splits"][0];
    assert!(dev["accuracy"].as_f64().is_some_and(|share| share > 0.7), "{dev:#}");
    assert!(dev["perplexity"].as_f64().is_some_and(|found| found > 1.0), "{dev:#}");
    let text = r"three four five six seven one\none two <mask> four five six\nfour five six seven one two";
    let asked = place.rtc(&["predict", "r", text, "--json"]).code(0).json();
    assert_eq!(asked["classes"].as_array().map(Vec::len), Some(20), "{asked:#}");
    assert_eq!((&asked["classes"][9], &asked["unknown"]), (&"three".into(), &0.into()), "{asked:#}");
    place.rtc(&["generate", "r", "one"]).code(2).says("answer with the next token").says("rtc predict");
    place.rtc(&["export", "r", "--format", "torch", "--output", "exported"]).code(0);
    let config: Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
    let mask = config["tokens"]["marks"]["<mask>"].as_u64().expect("an id");
    assert_eq!(config["vocabulary"][mask as usize], "<mask>");
    // Rows of a file are hidden as those of a split are.
    place.write("same.txt", &place.read("text.txt"));
    place.write("same.yaml", &place.read("text.yaml").replace("dev: 10%", "dev: same.txt"));
    place.rtc(&["train", "filler.rt:filler", "--experiment", "same.yaml", "--run", "s", "--max-steps", "2"]).code(0);
    let split = place.rtc(&["eval", "s", "--json"]).code(0).json();
    let file = place.rtc(&["eval", "s", "--data", "same.txt", "--json"]).code(0).json();
    assert_eq!(split["splits"][0]["loss"], file["splits"][0]["loss"]);
    let good = place.read("text.yaml");
    for (more, why) in [
        ("share: 1.5", "`share` must lie above 0 and below 1: got 1.5"),
        ("label: a", "`masked` has no labels"),
        ("given: [a]", "`masked` has no rows"),
    ] {
        place.write("text.yaml", &good.replace("length: 25", more));
        place.rtc(&[&TRAIN[..], &["x"]].concat()).code(2).says(why);
    }
    place.write("text.yaml", &good.replace("name: masked", "name: language, share: 0.2"));
    place.rtc(&[&TRAIN[..], &["x"]].concat()).code(2).says("`share` belongs to `masked`");
}

/// Tokens are hidden by the pass, so a run that was killed trains on the rows that it would have had.
#[test]
fn a_run_that_was_killed_goes_on_to_the_same_bits() {
    let place = place(3);
    place.rtc(&[&TRAIN[..], &["whole", "--threads", "1"]].concat()).code(0);
    let whole = place.contents("whole");
    for lines in [8, 13] {
        let mut child = place.command(RTC).args([&TRAIN[..], &["other"]].concat()).spawn().expect("the binary runs");
        let metrics = place.path("runs/other/metrics.jsonl");
        let written = || fs::read_to_string(&metrics).unwrap_or_default().lines().count();
        while written() < lines && child.try_wait().expect("the state of a child").is_none() {
            sleep(Duration::from_millis(1));
        }
        signal(&child, if lines == 8 { libc::SIGTERM } else { libc::SIGKILL });
        child.wait().expect("it ends");
    }
    place.rtc(&[&TRAIN[..], &["other"]].concat()).code(0);
    assert_eq!(place.contents("other"), whole);
    place.rtc(&["verify", "other", "--again"]).code(0);
}
