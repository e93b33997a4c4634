//! `rtc predict --frames`: batches as frames of bytes, for programs that ask often.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Place, RTC};
use serde_json::Value;

/// Kinds of frames.
const TOKENS: u32 = 0;
const TEXTS: u32 = 1;
const OBJECTS: u32 = 2;
const READY: u32 = 0;
const LOGITS: u32 = 1;
const FAILURE: u32 = 2;

/// What was answered.
struct Frames {
    frames: Vec<(u32, Vec<u8>)>,
    code: Option<i32>,
    stderr: String,
}

/// A batch of logits: the answers of every row, and the numbers of each.
type Logits = Vec<Vec<Vec<f32>>>;

fn numbers(values: impl IntoIterator<Item = usize>) -> Vec<u8> {
    values.into_iter().flat_map(|value| (value as u32).to_le_bytes()).collect()
}

fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(payload.len() as u64).to_le_bytes(), payload].concat()
}

/// A frame of rows with their lengths.
fn rows(kind: u32, rows: &[Vec<u8>], size: usize) -> Vec<u8> {
    let lengths = rows.iter().map(|row| row.len() / size);
    frame(kind, &[numbers([rows.len()].into_iter().chain(lengths)), rows.concat()].concat())
}

fn texts(kind: u32, texts: &[&str]) -> Vec<u8> {
    rows(kind, &texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>(), 1)
}

fn tokens(all: &[&[usize]]) -> Vec<u8> {
    rows(TOKENS, &all.iter().map(|row| numbers(row.iter().copied())).collect::<Vec<_>>(), 4)
}

fn words(bytes: &[u8]) -> Vec<usize> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")) as usize).collect()
}

impl Frames {
    fn logits(&self, at: usize) -> Logits {
        let (kind, payload) = &self.frames[at];
        assert_eq!(*kind, LOGITS, "{}", String::from_utf8_lossy(payload));
        let head = words(payload);
        let (count, width) = (head[0], head[1]);
        let mut numbers = payload[4 * (2 + count)..]
            .chunks_exact(4)
            .map(|number| f32::from_le_bytes(number.try_into().expect("four bytes")));
        let mut answer = || numbers.by_ref().take(width).collect::<Vec<f32>>();
        let found = head[2..2 + count].iter().map(|answers| (0..*answers).map(|_| answer()).collect()).collect();
        assert_eq!(numbers.next(), None);
        found
    }

    /// The exit code and the message of a failure.
    fn failure(&self, at: usize) -> (usize, String) {
        let (kind, payload) = &self.frames[at];
        assert_eq!(*kind, FAILURE);
        (words(&payload[..4])[0], String::from_utf8_lossy(&payload[4..]).into_owned())
    }
}

/// Asks a run, batch after batch.
fn asked(place: &Place, run: &str, more: &[&str], input: &[Vec<u8>]) -> Frames {
    let mut command = place.command(RTC);
    let mut child =
        command.args(["predict", run, "--frames"]).args(more).stdin(Stdio::piped()).spawn().expect("the binary runs");
    // It may end without reading everything.
    let _ = child.stdin.take().expect("a pipe").write_all(&input.concat());
    let output = child.wait_with_output().expect("the binary ends");
    let (mut rest, mut frames) = (&output.stdout[..], vec![]);
    while !rest.is_empty() {
        let kind = words(&rest[..4])[0] as u32;
        let length = u64::from_le_bytes(rest[4..12].try_into().expect("eight bytes")) as usize;
        frames.push((kind, rest[12..12 + length].to_vec()));
        rest = &rest[12 + length..];
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Frames { frames, code: output.status.code(), stderr }
}

fn place() -> Place {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "3", "--quiet"]).code(0);
    place
}

/// What `rtc predict` prints of texts.
fn predicted(place: &Place, run: &str, texts: &[&str]) -> Vec<Value> {
    let told = place.rtc_with(&["predict", run, "--logits", "--json"], &(texts.join("\n") + "\n"));
    told.code(0).stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[track_caller]
fn near(found: &[f32], logits: &Value) {
    let expected: Vec<f64> = logits.as_object().expect("logits").values().filter_map(Value::as_f64).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} and {expected}");
    }
}

#[test]
fn a_batch_has_the_logits_of_the_command() {
    let place = place();
    let inputs = ["[MAX 2 9 ]", "[MIN 3 [MAX 1 7 ] 4 ]", "5"];
    let told = predicted(&place, "r", &inputs);
    place.rtc(&["export", "r", "--format", "torch", "--output", "exported"]).code(0);
    let config: Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
    let names: Vec<&str> = config["vocabulary"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let id = |word: &str| names.iter().position(|name| *name == word).expect(word);
    let ids: Vec<Vec<usize>> = inputs.iter().map(|text| text.split_whitespace().map(id).collect()).collect();
    let ids: Vec<&[usize]> = ids.iter().map(Vec::as_slice).collect();
    let found = asked(&place, "r", &[], &[texts(TEXTS, &inputs), tokens(&ids), tokens(&ids[1..2])]);
    assert_eq!((found.code, found.frames.len(), found.frames[0].0), (Some(0), 4, READY), "{}", found.stderr);
    let ready: Value = serde_json::from_slice(&found.frames[0].1).expect("JSON");
    assert_eq!((ready["answers"].as_str(), ready["vocabulary"].as_u64()), (Some("class"), Some(15)));
    assert_eq!(ready["bytes"], 67_108_864);
    assert_eq!(ready["classes"], config["classes"]);
    let logits = found.logits(1);
    assert_eq!(logits, found.logits(2), "token ids are the same rows");
    for (row, told) in logits.iter().zip(&told) {
        near(&row[0], &told["logits"]);
    }
    near(&found.logits(3)[0][0], &told[1]["logits"]);
}

#[test]
fn a_failure_is_a_frame_and_the_next_batch_is_answered() {
    let place = place();
    let good = tokens(&[&[1, 2]]);
    let wrong = [
        (tokens(&[&[1], &[99]]), "token id 99 is outside the vocabulary of 15"),
        (tokens(&[&[1], &[]]), "row 2 is empty"),
        (tokens(&[]), "a batch must have a row"),
        (texts(TEXTS, &["3", "x"]), "row 2: `x` is no symbol"),
        (rows(TEXTS, &[vec![0xff]], 1), "row 1: it is not UTF-8 text"),
        (frame(TOKENS, &[1]), "4 more bytes must follow: got 1"),
        (frame(TOKENS, &numbers([1, 2, 3])), "8 more bytes must follow: got 4"),
        (frame(TOKENS, &numbers([1, 1, 3, 4])), "4 bytes follow the last row"),
    ];
    let input: Vec<Vec<u8>> = wrong.iter().flat_map(|(frame, _)| [frame.clone(), good.clone()]).collect();
    let found = asked(&place, "r", &[], &input);
    assert_eq!((found.code, found.frames.len()), (Some(0), 1 + 2 * wrong.len()), "{}", found.stderr);
    for (n, (_, says)) in wrong.iter().enumerate() {
        let (code, message) = found.failure(1 + 2 * n);
        assert!(code == 4 && message.contains(says), "{code}: {message}, and not {says}");
        assert_eq!(found.logits(2 + 2 * n), found.logits(2));
    }
}

#[test]
fn what_is_no_frame_ends_the_command() {
    let place = place();
    let long = [&TOKENS.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
    for (input, says) in [
        (vec![0; 5], "the last frame is cut off"),
        (frame(TOKENS, &[1, 2, 3])[..14].to_vec(), "the last frame is cut off"),
        (frame(7, &[]), "a frame must be of kind 0, 1 or 2: got 7"),
        (long, "a frame must have at most 67108864 bytes: got 18446744073709551615"),
    ] {
        let found = asked(&place, "r", &[], &[tokens(&[&[1]]), input]);
        assert_eq!((found.code, found.frames.len()), (Some(4), 3), "{}", found.stderr);
        let (code, message) = found.failure(2);
        assert!(code == 4 && message.contains(says) && found.stderr.contains(says), "{message}");
    }
    assert_eq!(asked(&place, "none", &[], &[]).code, Some(6));
    assert_eq!(asked(&place, "r", &["--json"], &[]).code, Some(2));
}

#[test]
fn a_class_per_token_is_a_row_of_logits_per_token() {
    let place = Place::new();
    let text = place.read("tiny.rt");
    place.write("tiny.rt", &(text + "\nvariant causal of tiny {\n    embed.tokens: none\n    readout each\n}\n"));
    let tiny = place.read("tiny.yaml");
    let (_, rest) = tiny.split_once("optimiser").expect("the block after the task");
    let task = "task:\n  name: flip_flop\n  options: { pairs: 8, long_pairs: 12 }\n  sizes: { train: 160, dev: 35, dense: 32, long-sparse: 32 }\n";
    place.write("flip.yaml", &format!("{task}optimiser{}", rest.replace("[test]", "[dense]")));
    place.rtc(&["train", "tiny.rt:causal", "--experiment", "flip.yaml", "--run", "r", "--max-steps", "1"]).code(0);
    let inputs = ["w 0 r", "w 1 i 0 r"];
    let found = asked(&place, "r", &[], &[texts(TEXTS, &inputs)]);
    for (row, told) in found.logits(1).iter().zip(predicted(&place, "r", &inputs)) {
        let told = told["logits"].as_array().expect("a list").clone();
        assert_eq!(row.len(), told.len());
        row.iter().zip(&told).for_each(|(found, told)| near(found, told));
    }
}

/// A pair of columns.
const PAIRS: &str = "\
task: { name: pairs, data: { train: rows.csv, dev: 20% }, input: [first, second], tokens: words }
optimiser: { learning_rate: 0.05 }
schedule: { kind: constant }
batch: { size: 16 }
max_steps: 2
evaluate: [dev]
";

#[test]
fn pairs_have_all_first_sides_before_the_second_ones() {
    let place = Place::new();
    let row = |n: usize| format!("film {},story {},{}\n", n % 5, n % 3, ["good", "bad"][n % 2]);
    place.write("rows.csv", &("first,second,label\n".to_owned() + &(0..60).map(row).collect::<String>()));
    place.write("pairs.yaml", PAIRS);
    place.rtc(&["train", "tiny.rt", "--experiment", "pairs.yaml", "--run", "r"]).code(0);
    let inputs = ["film 1\tstory 2", "film 3\tstory"];
    let told = predicted(&place, "r", &inputs);
    let objects = [r#"{"first": "film 1", "second": "story 2"}"#, r#"{"first": "film 3", "second": "story"}"#];
    let found =
        asked(&place, "r", &[], &[texts(TEXTS, &inputs), texts(OBJECTS, &objects), tokens(&[&[1], &[2], &[3]])]);
    let logits = found.logits(1);
    assert_eq!(logits, found.logits(2));
    for (row, told) in logits.iter().zip(&told) {
        near(&row[0], &told["logits"]);
    }
    assert!(found.failure(3).1.contains("as many second sides as first ones: got 3 rows"));
    // A pair is not the same the other way round.
    let found =
        asked(&place, "r", &[], &[tokens(&[&[1], &[2], &[3], &[4]]), tokens(&[&[1], &[3]]), tokens(&[&[3], &[1]])]);
    assert_eq!(found.logits(1)[0], found.logits(2)[0]);
    assert_ne!(found.logits(2), found.logits(3));
}
