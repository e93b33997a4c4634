//! `rtc export --format onnx` of the real binary: what is written, what is refused, and that onnxruntime gives the answers of `predict`.

use std::fs;

use crate::support::Place;
use serde_json::Value;

/// Reads sequences of token ids and prints the probabilities of the classes.
const ASK: &str = "
import json, numpy, onnxruntime, sys
session = onnxruntime.InferenceSession('model.onnx')
facts = session.get_modelmeta().custom_metadata_map
ids = {name: n for n, name in enumerate(json.loads(facts['vocabulary']))}
rows = [[ids[token] for token in line.split()] for line in sys.argv[1:]]
width = max(map(len, rows))
tokens = numpy.array([row + [0] * (width - len(row)) for row in rows])
(logits,) = session.run(['logits'], {'tokens': tokens, 'lengths': numpy.array([len(row) for row in rows])})
for row in logits:
    powers = numpy.exp(row - row.max())
    best = int(row.argmax())
    print(json.dumps({'class': json.loads(facts['classes'])[best], 'confidence': float(powers[best] / powers.sum())}))
";

const ROWS: [&str; 2] = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 3 ]"];

#[test]
fn a_run_becomes_a_file_that_gives_its_answers() {
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "4"]).code(0);
    let export = ["export", "runs/one", "--format", "onnx", "--output", "model.onnx"];
    place.rtc(&export).code(0).says("model.onnx");
    let bytes = fs::read(place.path("model.onnx")).expect("the file");
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("head.output.weight") && holds("\"[MAX\"") && holds("tiny"), "names of weights and tokens");
    place.rtc(&export).code(0);
    assert_eq!(bytes, fs::read(place.path("model.onnx")).expect("the file"), "the same again");
    place.rtc(&[&export[..4], &["--output", "no/such/folder/model.onnx"]].concat()).code(6).says("no/such/folder");
    let Some(python) = rtc_tests::python::with_torch() else { return };
    let answer = place.command(python).args(["-c", ASK]).args(ROWS).output().expect("Python runs");
    let answer = crate::support::Answer::from(answer);
    answer.code(0);
    for (row, theirs) in ROWS.iter().zip(answer.stdout.lines()) {
        let theirs: Value = serde_json::from_str(theirs).expect("a line of JSON");
        let ours = place.rtc(&["predict", "one", row, "--json"]).code(0).json();
        assert_eq!(ours["class"], theirs["class"], "{row}");
        let confidence = |answer: &Value| answer["confidence"].as_f64().expect("a number");
        assert!((confidence(&ours) - confidence(&theirs)).abs() < 1e-5, "{row}: {ours} {theirs}");
    }
}

#[test]
fn a_search_is_refused_by_name_and_nothing_is_written() {
    let place = Place::new();
    let small = ["--set", "embed.width=16", "--max-steps", "1", "--run", "beam"];
    place.rtc(&[&["train", "bt_grc", "--experiment", "tiny.yaml"], &small[..]].concat()).code(0);
    let refused = place.rtc(&["export", "beam", "--format", "onnx", "--output", "model.onnx"]);
    refused.code(2).says("op `beam` is a beam search");
    assert!(!place.path("model.onnx").exists());
}
