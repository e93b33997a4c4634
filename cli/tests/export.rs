//! `rtc export` in the real binary: its files, what it refuses, and the module in PyTorch where that is at hand.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

mod support;

use std::fs;
use std::path::Path;

use support::Place;

fn exported() -> Place {
    let place = Place::new();
    place.train(&["--max-steps", "3", "--run", "r"]).code(0);
    place
        .rtc(&["export", "r", "--format", "torch", "--output", "exported"])
        .code(0)
        .says("wrote model.py, weights.safetensors and config.json");
    place
}

#[test]
fn an_export_says_what_it_is() {
    let place = exported();
    let config: serde_json::Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
    assert_eq!(config["answers"], "class");
    assert_eq!(config["outputs"], 10);
    assert_eq!(config["width"], 16);
    assert_eq!(config["task"]["name"], "listops");
    assert_eq!(config["run"]["updates"], 3);
    assert_eq!(config["vocabulary"].as_array().map(Vec::len), Some(15));
    let module = place.read("exported/model.py");
    assert!(module.contains("class Model(Slots):") && module.contains("model tiny {"), "{module}");
    // The names of the file are those of the run.
    let names = |file: &str| {
        let bytes = fs::read(place.path(file)).expect(file);
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
        header.as_object().expect("names").keys().filter(|k| *k != "__metadata__").cloned().collect::<Vec<_>>()
    };
    let (mut ours, mut own) =
        (names("exported/weights.safetensors"), names("runs/r/checkpoints/best/weights.safetensors"));
    ours.sort();
    own.sort();
    assert_eq!(ours, own);
}

#[test]
fn an_export_may_be_repeated_and_overwrites_nothing_else() {
    let place = exported();
    let again = ["export", "r", "--format", "torch", "--output", "exported"];
    place.rtc(&again).code(0);
    place.write("exported/notes.txt", "mine");
    place.rtc(&again).code(2).says("holds `notes.txt`, which is no part of an export");
    place.rtc(&["export", "nobody", "--format", "torch", "--output", "x"]).code(6).says("there is no such run");
    place.rtc(&["export", "r", "--format", "tensorflow", "--output", "x"]).code(2).says("torch");
    assert!(!place.path("x").exists(), "nothing is written before everything is known");
}

/// The blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}

#[test]
fn the_module_answers_as_the_command_does() {
    let Ok(python) = std::env::var("RTC_TORCH_PYTHON") else {
        eprintln!("skipped: RTC_TORCH_PYTHON names no Python with torch and safetensors");
        return;
    };
    let place = exported();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/export.md");
    let page = fs::read_to_string(page).expect("the page about exports");
    for block in blocks(&page, "python") {
        place.write("block.py", &block);
        let ran = place.command(&python).arg("block.py").output().expect("python runs");
        let ran: support::Answer = ran.into();
        ran.code(0);
        if block.contains("predicted") {
            let told = place.rtc(&["predict", "r", "[MAX 2 9 [MIN 4 7 ] 0 ]", "--json"]);
            let told = told.code(0).json();
            let mut words = ran.stdout.split_whitespace();
            assert_eq!(words.next(), told["class"].as_str(), "{} and {told}", ran.stdout);
            let (ours, own) = (words.next().and_then(|word| word.parse::<f64>().ok()), told["confidence"].as_f64());
            let (ours, own) = (ours.expect("a probability"), own.expect("a probability"));
            assert!((ours - own).abs() < 1e-4, "{ours} and {own}");
        }
    }
}
