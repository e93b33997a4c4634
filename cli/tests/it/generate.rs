//! `rtc generate`: a small model of characters writes on.

use crate::support::Place;
use serde_json::Value;

const SPEC: &str = "\
/// A model of characters with a memory, as small as it gets.
model writer {
    embed { width: 16 }
    recur chunkwise {
        size: 6
        memory { slots: 2, init: normal }
        attend self { heads: 2, position: rope }
        attend memory { heads: 2 }
        update memory { attend chunk { heads: 2 } }
    }
    readout each
}

/// As many positions as it has learned.
model placed {
    embed { width: 16, position: learned, positions: 40 }
    stack 1 { attend self { heads: 2 } }
    readout each
}
";

const EXPERIMENT: &str = "\
task:
  name: characters
  options: { length: 16 }
  sizes: { train: 64, dev: 8, 1x: 8 }
optimiser: { learning_rate: 0.01 }
schedule: { kind: constant }
batch: { size: 8 }
max_steps: 4
evaluate: [1x]
";

/// A folder with the trained models `w` and `p`.
fn place() -> Place {
    let place = Place::new();
    place.write("writer.rt", SPEC);
    place.write("characters.yaml", EXPERIMENT);
    for (model, run) in [("writer.rt:writer", "w"), ("writer.rt:placed", "p")] {
        place.rtc(&["train", model, "--experiment", "characters.yaml", "--run", run, "--quiet"]).code(0);
    }
    place
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

#[test]
fn a_model_writes_on() {
    let place = place();
    let text = place.rtc(&["generate", "w", "ROMEO:", "--length", "40"]);
    text.code(0).says("40 tokens, ");
    let line =
        text.stdout.strip_prefix("ROMEO:").and_then(|rest| rest.strip_suffix('\n')).expect("the prompt comes first");
    assert_eq!(line.chars().count(), 40, "{line}");
    let same = place.rtc(&["generate", "w", "ROMEO:", "--length", "40"]);
    assert_eq!(same.code(0).stdout, text.stdout, "the same seed writes the same");
    let other = place.rtc(&["generate", "w", "ROMEO:", "--length", "40", "--seed", "2"]);
    assert_ne!(other.code(0).stdout, text.stdout);

    let args = ["generate", "w", "ROMEO:", "--length", "40", "--json"];
    let object = place.rtc(&args).code(0).json();
    assert_eq!((&object["prompt"], &object["text"]), (&"ROMEO:".into(), &line.into()));
    assert_eq!((&object["end"], &object["way"]), (&"length".into(), &"incremental".into()));
    assert_eq!(object["tokens"].as_array().map(Vec::len), Some(40));
    let whole = place.rtc(&[&args[..], &["--whole-row"]].concat()).code(0).json();
    assert_eq!((&whole["text"], &whole["way"]), (&object["text"], &"whole row".into()));
}

#[test]
fn prompts_come_from_lines_and_continuations_are_counted() {
    let place = place();
    let args = ["generate", "w", "--json", "--count", "2", "--length", "12", "--top-k", "9", "--top-p", "0.9"];
    let found = objects(&place.rtc_with(&args, "ab\n\nthe q\n").code(0).stdout);
    let prompts: Vec<&str> = found.iter().filter_map(|object| object["prompt"].as_str()).collect();
    assert_eq!(prompts, ["ab", "ab", "the q", "the q"]);
    assert_ne!(found[0]["text"], found[1]["text"]);
    let greedy = ["generate", "w", "--json", "--count", "2", "--length", "12", "--temperature", "0"];
    let found = objects(&place.rtc_with(&greedy, "ab\n").code(0).stdout);
    assert_eq!(found[0]["text"], found[1]["text"], "nothing is drawn");
    let written = found[0]["text"].as_str().expect("a text");
    let stop = written.chars().nth(3).expect("twelve characters").to_string();
    let stopped = place.rtc(&["generate", "w", "ab", "--json", "--temperature", "0", "--stop", &stop]).code(0).json();
    assert_eq!(stopped["end"], "stop");
    assert_eq!(stopped["text"].as_str(), written.split(&stop).next());
    let long = ["generate", "w", "ab", "--json", "--length", "1500"];
    let lines = place.rtc(&long).code(0).json();
    let first = lines["text"].as_str().and_then(|text| Some(text.split_once('\n')?.0));
    let stopped = place.rtc(&[&long[..], &["--stop", "⏎"]].concat()).code(0).json();
    assert!(first.is_some() && stopped["text"].as_str() == first, "the end of a line is a stop: {stopped}");
}

#[test]
fn what_can_not_write_is_refused() {
    let place = place();
    place.rtc(&["generate", "w", ""]).code(4).says("the prompt is empty");
    place.rtc(&["generate", "p", "ab", "--length", "39"]).code(0);
    place.rtc(&["generate", "p", "ab", "--length", "40"]).code(4).says("`--length 39`");
    place.rtc(&["generate", "w", "ab", "--temperature=-1"]).code(2).says("a number from 0 on");
    place.rtc(&["generate", "w", "ab", "--top-p", "0"]).code(2).says("above 0 and up to 1");
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
    place.rtc(&["generate", "r", "[MAX 2 9 ]"]).code(2).says("answer with the next token").says("rtc predict");
    place.rtc(&["generate", "nothing", "ab"]).code(6).says("no such run");
}
