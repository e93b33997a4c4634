//! Weights in and out of the real binary: lists of parameters, trainings that begin with given weights, and measurements of them.

use std::fs;

use crate::support::{Answer, Place, RTC};
use serde_json::Value;

#[test]
fn parameters_are_listed_with_names_shapes_and_starts() {
    let place = Place::new();
    let listed = place.rtc(&["show", "tiny.rt", "--parameters"]);
    listed.code(0);
    assert!(listed.stdout.contains("head.output.weight"), "{}", listed.stdout);
    assert!(listed.stdout.contains("[vocab, 16]") && listed.stdout.contains("16 vocab"), "{}", listed.stdout);
    let json = place.rtc(&["show", "tiny.rt", "--parameters", "--json", "--experiment", "tiny.yaml"]).code(0).json();
    let parameters = json["parameters"].as_array().expect("a list");
    let total: u64 = parameters.iter().map(|p| p["numbers"].as_u64().expect("sizes are known")).sum();
    place.train(&["--run", "one", "--max-steps", "1"]).code(0);
    let run: Value = serde_json::from_str(&place.read("runs/one/run.json")).expect("valid JSON");
    assert_eq!(run["parameters"], total);
    assert!(run.get("start").is_none(), "{run}");
    for p in parameters {
        assert!(p["start"].is_string() && p["shape"].is_array() && p["name"].is_string(), "{p}");
    }
    place.rtc(&["show", "tiny.rt", "--task", "listops", "--experiment", "tiny.yaml"]).code(2);
}

#[test]
fn a_training_begins_with_given_weights_which_are_part_of_what_it_is() {
    let place = Place::new();
    place.train(&["--run", "first", "--max-steps", "8"]).code(0);
    let saved = |run: &str| place.path(&format!("runs/{run}/checkpoints/last/weights.safetensors"));
    fs::copy(saved("first"), place.path("first.safetensors")).expect("weights");
    let given = ["--weights", "first.safetensors", "--max-steps", "3"];
    let begun = place.train(&[&given[..], &["--json"]].concat());
    let run = begun.code(0).json()["run"].as_str().expect("a path").to_owned();
    let info: Value = serde_json::from_str(&place.read(&format!("{run}/run.json"))).expect("valid JSON");
    assert_eq!(info["start"]["file"], "first.safetensors");
    let again = place.train(&given);
    again.code(0).says("is finished");
    // Another file of the same name is another run.
    place.train(&["--run", "other", "--max-steps", "5", "--seed", "2"]).code(0);
    fs::copy(saved("other"), place.path("first.safetensors")).expect("weights");
    let other = place.train(&[&given[..], &["--json"]].concat()).code(0).json();
    assert_ne!(other["run"], run.as_str());
    // A folder that holds a run with other weights, or none, is refused.
    place.train(&[&given[..], &["--run", "first", "--max-steps", "8"]].concat()[..]).code(2);
    let named = ["--run", "first", "--weights", "first.safetensors", "--max-steps", "8"];
    place.train(&named).code(7).says("another value of the weights at its start");
    assert_ne!(
        fs::read(saved("first")).expect("weights"),
        fs::read(place.path(&run).join("checkpoints/last/weights.safetensors")).expect("weights"),
    );
}

#[test]
fn given_weights_are_measured_and_asked_with_and_without_a_run() {
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "8"]).code(0);
    fs::copy(place.path("runs/one/checkpoints/best/weights.safetensors"), place.path("w.safetensors"))
        .expect("weights");
    let splits = |args: &[&str]| place.rtc(args).code(0).json()["splits"].clone();
    let own = splits(&["eval", "runs/one", "--json"]);
    assert_eq!(own, splits(&["eval", "one", "--weights", "w.safetensors", "--json"]));
    let without = ["eval", "tiny.rt", "--experiment", "tiny.yaml", "--weights", "w.safetensors"];
    assert_eq!(own, splits(&[&without[..], &["--json"]].concat()));
    let measured = place.rtc(&without);
    measured.code(0).says("tiny, weights of w.safetensors");
    let sequence = "[MAX 2 9 ]";
    let answer = place.rtc(&["predict", "one", sequence]);
    let predict = ["predict", "tiny.rt", sequence, "--experiment", "tiny.yaml", "--weights", "w.safetensors"];
    assert_eq!(answer.code(0).stdout, place.rtc(&predict).code(0).stdout);
    // What is said to come next asks the same weights.
    let next = measured.stderr.lines().find_map(|line| line.strip_prefix("next: rtc ")).expect("a hint");
    let next = place
        .shell(&format!("\"$RTC\" {}", next.replace("TOKENS --", "'[MAX 2 9 ]' --").replace(" --show-halting", "")));
    assert_eq!(next.code(0).stdout, answer.stdout);
    place.rtc(&["eval", "one", "--weights", "w.safetensors", "--checkpoint", "last"]).code(2).says("give one of them");
    place.rtc(&["eval", "tiny.rt", "--experiment", "tiny.yaml"]).code(2);
    place.rtc(&["eval", "one", "--weights", "absent.pt"]).code(6).says("absent.pt");
    place.write("text.pt", "not weights");
    place.rtc(&["eval", "one", "--weights", "text.pt"]).code(7).says("text.pt: neither safetensors");
    let gate = place.rtc(&["train", "tiny.rt:no_gate", "--experiment", "tiny.yaml", "--weights", "w.safetensors"]);
    gate.code(7).says("is no parameter of the model");
    place.write("map.json", "{\"a\": 3}");
    place.rtc(&["eval", "one", "--weights", "w.safetensors", "--weights-map", "map.json"]).code(2).says("map.json:1");
}

/// The weights of a checkpoint with averages are these, wherever the file is named; a copy of the file alone is refused.
#[test]
fn averaged_weights_are_those_that_a_run_is_measured_by() {
    let place = Place::new();
    place.write("ema.yaml", &(place.read("tiny.yaml") + "ema: { decay: 0.9 }\n"));
    let train = ["train", "tiny.rt", "--experiment", "ema.yaml"];
    place.rtc(&[&train[..], &["--run", "one", "--max-steps", "12"]].concat()).code(0);
    let file = "runs/one/checkpoints/best/weights.safetensors";
    let splits = |args: &[&str]| place.rtc(args).code(0).json()["splits"].clone();
    let own = splits(&["eval", "runs/one", "--json"]);
    let of_spec = ["tiny.rt", "--experiment", "ema.yaml", "--weights", file];
    assert_eq!(own, splits(&[&["eval", "--json"], &of_spec[..]].concat()));
    place.rtc(&[&["eval"], &of_spec[..]].concat()).code(0).says("the averaged weights of the checkpoint");
    let answer = place.rtc(&["predict", "one", "[MAX 2 9 ]"]).code(0).stdout.clone();
    let said = place.rtc(&["predict", "tiny.rt", "[MAX 2 9 ]", "--experiment", "ema.yaml", "--weights", file]);
    assert_eq!(said.code(0).says("averaged weights").stdout, answer);
    let export = |from: &[&str], to: &str| {
        let args = [&["export"], from, &["--format", "torch", "--output", to]].concat();
        place.rtc(&args).code(0);
        fs::read(place.path(to).join("weights.safetensors")).expect("weights")
    };
    assert_eq!(export(&["one"], "a"), export(&of_spec, "b"));
    let begun = place.rtc(&[&train[..], &["--weights", file, "--max-steps", "1", "--run", "two"]].concat());
    begun.code(0).says("averaged weights");
    // A link is the file that it leads to.
    std::os::unix::fs::symlink(place.path(file), place.path("link.safetensors")).expect("a link");
    assert_eq!(own, splits(&["eval", "one", "--weights", "link.safetensors", "--json"]));
    fs::copy(place.path(file), place.path("copy.safetensors")).expect("weights");
    let copied = place.rtc(&["eval", "one", "--weights", "copy.safetensors"]);
    copied.code(7).says("without the averages").says("name the file in the checkpoint of the run");
}

#[test]
fn a_damaged_file_is_told_in_a_line_with_backtraces_asked_for() {
    let place = Place::new();
    let tensors = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/runs/tests/data/tensors.pt");
    let mut bytes = fs::read(tensors).expect("a file of PyTorch");
    let pickle = bytes.windows(3).position(|found| found == b"\x80\x02}").expect("a pickle");
    bytes[pickle] = 0xff;
    fs::write(place.path("damaged.pt"), bytes).expect("a new file");
    let mut command = place.command(RTC);
    command.args(["train", "tiny.rt", "--experiment", "tiny.yaml", "--weights", "damaged.pt"]);
    let answer: Answer = command.env("RUST_BACKTRACE", "1").output().expect("the binary runs").into();
    assert_eq!(answer.code(7).stderr.lines().count(), 1, "{}", answer.stderr);
    answer.says("damaged.pt: its pickle can't be read: unknown op-code 255");
}
