//! What the real binary shows on a terminal, and what it needs of the system: a small stack, a disk that is full.
#![cfg(unix)]

use std::fs;

use crate::support::{Place, on_a_terminal};

/// Clears a terminal, gives it another title, turns the direction of a line, and begins a sequence with one character of C1.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{202e}\u{9b}31m\u{7f}";
/// The same as it is shown.
const SHOWN: &str = r"x\u001b[2J\u001b]0;t\u0007\u202e\u009b31m\u007f";

/// A place with rows whose texts hold control characters, and a run on them.
fn place() -> Place {
    let place = Place::new();
    let row = |n: usize| format!("{HOSTILE} w{},{}\n", n % 5, if n.is_multiple_of(2) { "a" } else { HOSTILE });
    place.write("rows.csv", &format!("text,label\n{}", (0..40).map(row).collect::<String>()));
    let rest = place.read("tiny.yaml").split_once("optimiser:").map(|(_, rest)| rest.replace("[test]", "[dev]"));
    let task = "task: { name: table, data: { train: rows.csv, dev: 20% }, tokens: words }\n";
    place.write("rows.yaml", &format!("{task}optimiser:{}", rest.expect("an optimiser")));
    place
}

/// Whether a terminal obeys a character of a text.
fn is_obeyed(text: &str) -> bool {
    text.contains(|c: char| (c.is_control() && !"\n\r\t".contains(c)) || ('\u{202a}'..='\u{202e}').contains(&c))
}

#[test]
fn messages_have_no_control_characters() {
    let place = place();
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
    fs::write(place.path("bad.csv"), format!("text,label\na,b\n\"{HOSTILE}\n")).expect("a new file");
    place.write("bad.rt", &format!("model m {{\n    {HOSTILE} // {HOSTILE}\n}}\n"));
    place.write(&format!("{HOSTILE}.rt"), "model m { embed { widht: 16 }\n readout end }\n");
    let spec = format!("{HOSTILE}.rt");
    for args in [
        &["predict", "r", HOSTILE][..],
        &["predict", HOSTILE, "3"],
        &["runs", "note", "r", HOSTILE],
        &["runs", "note", "r"],
        &["task", "check", "bad.csv"],
        &["task", "check", HOSTILE],
        &["task", "describe", HOSTILE],
        &["check", "bad.rt"],
        &["check", &spec],
        &["explain", HOSTILE],
        &["train", HOSTILE],
        &["train", "tiny.rt", "--run", HOSTILE],
        &["ablate", "tiny.yaml", "--grid", HOSTILE],
        &["verify", HOSTILE],
        &["fmt", HOSTILE],
        // What clap says of words.
        &[HOSTILE],
        &["check", &format!("--{HOSTILE}")],
        &["compile", "gut", "--emit", HOSTILE],
    ] {
        let answer = place.rtc(args);
        assert!(!is_obeyed(&answer.stderr), "{args:?}: {:?}", answer.stderr);
    }
    place.rtc(&["predict", "r", HOSTILE]).code(4).says(r"`x\u001b` is no symbol of ListOps");
    place.rtc(&["runs", "note", "r", HOSTILE]).code(0).says(SHOWN);
}

#[test]
fn results_are_escaped_on_a_terminal_and_exact_elsewhere() {
    let place = place();
    place.rtc(&["train", "tiny.rt", "--experiment", "rows.yaml", "--run", "r", "--max-steps", "1"]).code(0);
    for args in [
        &["predict", "r", HOSTILE, "--all"][..],
        &["predict", "r", HOSTILE, "--json"],
        &["predict", "r", HOSTILE, "--format", "csv"],
        &["task", "check", "rows.csv"],
        &["task", "check", "rows.yaml"],
        &["task", "sample", "rows.yaml"],
        &["task", "sample", "rows.yaml", "--json"],
    ] {
        let mut command = place.command(crate::support::RTC);
        let shown = on_a_terminal(command.args(args));
        assert!(shown.contains("\\u001b") && !is_obeyed(&shown), "{args:?}: {shown:?}");
    }
    let predicted = place.rtc(&["predict", "r", HOSTILE]).code(0).stdout.clone();
    assert!(predicted.ends_with(&format!("\t{HOSTILE}\n")), "{predicted:?}");
    let json = place.rtc(&["predict", "r", HOSTILE, "--json"]).code(0).json();
    assert_eq!(json["text"], HOSTILE);
    let shown = on_a_terminal(place.command(crate::support::RTC).args(["predict", "r", HOSTILE, "--json"]));
    let same: serde_json::Value = serde_json::from_str(&shown).expect("what is shown is JSON, too");
    assert_eq!(same, json);
}

/// The main thread has the stack that the system gives it; everything else has a large one.
#[test]
fn a_small_stack_is_enough() {
    let place = Place::new();
    for args in ["--version", "--help", "check tiny.rt", "train --help", "schema", "cost tiny.rt --length 10"] {
        place.shell(&format!("ulimit -s 64; \"$RTC\" {args}")).code(0);
    }
    place.shell("ulimit -s 64; \"$RTC\" chekc").code(2).says("check");
}

#[test]
fn a_full_disk_leaves_no_draft() {
    let place = Place::new();
    let names = |place: &Place| {
        let entries = fs::read_dir(place.path("")).expect("a folder").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let comments = "// a comment of some length that is kept\n".repeat(100);
    place.write(
        "long.rt",
        &format!("{comments}{}", place.read("tiny.rt").replace("    dropout: 0.1", "  dropout: 0.1")),
    );
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
    place.write("rows.txt", &"[MAX 2 9 ]\n".repeat(400));
    let before = names(&place);
    for (kilobytes, command) in [
        (1, "fmt long.rt"),
        (1, "predict r --input rows.txt --output answers.jsonl --all"),
        (1, "export r --format onnx --output model.onnx"),
    ] {
        place.shell(&format!("ulimit -f {kilobytes}; \"$RTC\" {command}")).code(6).says("File too large");
        assert_eq!(names(&place), before, "{command}");
    }
    assert!(place.read("long.rt").starts_with("// a comment"));
}

#[test]
fn a_draft_that_is_a_link_leads_nowhere() {
    let place = Place::new();
    place.write("mine", "mine");
    for link in ["long.rt.new", "answers.csv.part"] {
        std::os::unix::fs::symlink(place.path("mine"), place.path(link)).expect("a new link");
    }
    place.write("long.rt", &place.read("tiny.rt").replace("    dropout: 0.1", "  dropout: 0.1"));
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
    place.rtc(&["fmt", "long.rt"]).code(0);
    place.rtc_with(&["predict", "r", "--output", "answers.csv"], "[MAX 2 9 ]\n").code(0);
    assert_eq!(place.read("mine"), "mine");
    assert!(place.read("answers.csv").starts_with("text,class"));
}
