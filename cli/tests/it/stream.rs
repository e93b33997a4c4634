//! `rtc train --stream`: the records of a training, a line of JSON each.

use std::io::{BufRead, BufReader};

use crate::support::{Place, signal};
use serde_json::{Value, json};

fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

/// The lines of metrics, without their checksums.
fn metrics(place: &Place, run: &str) -> Vec<Value> {
    let mut lines = records(&place.read(&format!("runs/{run}/metrics.jsonl")));
    for line in &mut lines {
        line.as_object_mut().expect("an object").remove("check");
    }
    lines
}

#[test]
fn a_stream_has_the_lines_of_the_metrics_and_then_the_results() {
    let place = Place::new();
    let told = place.train(&["--run", "r", "--stream"]);
    let all = records(&told.code(0).stdout);
    assert_eq!(all[0], json!({ "kind": "started", "run": "runs/r", "done": 0, "total": 40 }));
    let (last, lines) = all[1..].split_last().expect("lines");
    assert_eq!(lines, metrics(&place, "r"));
    assert_eq!(lines.len(), 45, "40 updates, dev four times, and test");
    // The same as an object, but for the kind; of a finished run it is all there is.
    let mut whole = place.train(&["--run", "r", "--json"]).code(0).json();
    whole["kind"] = "results".into();
    assert_eq!(*last, whole);
    assert_eq!(records(&place.train(&["--run", "r", "--stream"]).code(0).stdout), [whole]);
    place.train(&["--run", "r", "--stream", "--json"]).code(2);
}

#[test]
fn only_logged_updates_are_lines() {
    let place = Place::new();
    let told = place.train(&["--run", "r", "--stream", "--with", "log_every=7", "--quiet"]);
    let all = records(&told.code(0).stdout);
    let steps: Vec<u64> =
        all.iter().filter(|line| line["kind"] == "step").filter_map(|line| line["update"].as_u64()).collect();
    assert_eq!(steps, [1, 7, 14, 21, 28, 35]);
    assert_eq!(all[1..all.len() - 1], metrics(&place, "r"));
}

#[test]
fn a_stopped_stream_says_so_and_goes_on() {
    let place = Place::new();
    let asked = ["--run", "r", "--stream", "--with", "epochs=100000"];
    let mut child = place.start(&asked);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("an object"));
    while next().expect("a line")["update"].as_u64().unwrap_or(0) < 15 {}
    signal(&child, libc::SIGINT);
    let last = std::iter::from_fn(next).last().expect("lines");
    assert_eq!(child.wait().expect("an end").code(), Some(75));
    assert_eq!((last["kind"].as_str(), last["run"].as_str()), (Some("stopped"), Some("runs/r")));
    let updates = last["stopped"].as_u64().expect("a number");
    assert!(updates >= 15);
    let mut child = place.start(&asked);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first: Value = serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("an object");
    assert_eq!((first["kind"].as_str(), first["done"].as_u64()), (Some("started"), Some(updates)));
    let next: Value = serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("an object");
    assert!(next["update"].as_u64() <= Some(updates + 1));
    signal(&child, libc::SIGINT);
    lines.for_each(drop);
    assert_eq!(child.wait().expect("an end").code(), Some(75));
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_training() {
    let place = Place::new();
    place.shell("\"$RTC\" train tiny.rt --experiment tiny.yaml --run r --stream | head -n 1").code(0).says("update 40");
    assert_eq!(metrics(&place, "r").len(), 45);
    place.rtc(&["verify", "r"]).code(0);
}
