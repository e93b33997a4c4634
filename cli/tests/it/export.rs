//! `rtc export` in the real binary: its files, what it refuses, and the module in PyTorch where that is at hand.

use std::fs;
use std::path::Path;

use crate::support::Place;
use rtc_tests::python::{self, Process};
use serde_json::{Value, json};

fn exported() -> Place {
    let place = Place::new();
    place.train(&["--max-steps", "3", "--run", "r"]).code(0);
    place
        .rtc(&["export", "r", "--format", "torch", "--output", "exported"])
        .code(0)
        .says("wrote model.py, weights.safetensors, config.json and tokenizer.py");
    place
}

#[test]
fn an_export_says_what_it_is() {
    let place = exported();
    let config: Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
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
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
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
    let Some(python) = python::with_torch() else { return };
    let place = exported();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/export.md");
    let page = fs::read_to_string(page).expect("the page about exports");
    for block in blocks(&page, "python") {
        place.write("block.py", &block);
        let ran = place.command(&python).arg("block.py").output().expect("python runs");
        let ran: crate::support::Answer = ran.into();
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

/// Two updates at a rate that moves every gain away from 0 and 1.
const EXPERIMENT: &str = "\
task:
  name: table
  data: { train: rows.csv, dev: 20% }
  tokens: words
optimiser: { learning_rate: 0.05 }
schedule: { kind: constant }
batch: { size: 16 }
max_steps: 2
evaluate: [dev]
";

/// Rows, one of a single token, and one with words that training does not have.
const TEXTS: [&str; 4] =
    ["good film the", "was", "a very short story plot of bad film", "naïve, क्षत्रिय\u{2028}a_b\u{1c}plot 5%!"];

/// Trains a spec that lies in the folder, and exports it.
fn trained(place: &Place, spec: &str, run: &str, experiment: &str) {
    place.rtc(&["train", spec, "--experiment", experiment, "--run", run]).code(0);
    place.rtc(&["export", run, "--format", "torch", "--output", &format!("of {run}")]).code(0);
}

/// An export with what `rtc predict` says of some texts.
fn case(place: &Place, run: &str, texts: &[&str]) -> Value {
    let input: String = texts.iter().map(|text| format!("{}\n", text.replace('\n', "\\n"))).collect();
    let told = place.rtc_with(&["predict", run, "--logits", "--json"], &input);
    let config: Value = serde_json::from_str(&place.read(&format!("of {run}/config.json"))).expect("JSON");
    let classes = config["classes"].as_array().expect("classes").clone();
    // Two classes have one logit.
    let shown = if classes.len() == 2 { &classes[1..] } else { &classes };
    let logits = told.code(0).stdout.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).expect("a line of JSON");
        shown.iter().map(|class| answer["logits"][class.as_str().expect("a name")].clone()).collect::<Vec<_>>()
    });
    json!({ "folder": place.path(&format!("of {run}")), "texts": texts, "logits": logits.collect::<Vec<_>>() })
}

/// What is wrong with exports.
fn faults(python: &mut Process, cases: &[Value]) -> Vec<String> {
    let fault = |case: &Value| match python.ask(case) {
        Value::Null => None,
        said => Some(format!("{}: {}", case["folder"], said["error"].as_str().unwrap_or("no error"))),
    };
    cases.iter().filter_map(fault).collect()
}

/// Every model of `tests/cases/exports` gives the logits of the command in single and in double precision and in ONNX, and finite
/// gradients.
#[test]
fn exports_of_small_models_answer_as_the_command_does() {
    let Some(mut python) = Process::start("export_answers.py") else { return };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/exports");
    let place = Place::new();
    place.write("e.yaml", EXPERIMENT);
    place.write("rows.csv", &fs::read_to_string(cases.join("rows.csv")).expect("rows"));
    let mut names: Vec<String> = fs::read_dir(&cases)
        .expect("a folder of models")
        .filter_map(|entry| entry.ok()?.file_name().to_string_lossy().strip_suffix(".rt").map(str::to_owned))
        .collect();
    names.sort();
    let all: Vec<Value> = names
        .iter()
        .map(|name| {
            let spec = format!("{name}.rt");
            place.write(&spec, &fs::read_to_string(cases.join(&spec)).expect("a model"));
            trained(&place, &spec, name, "e.yaml");
            let mut case = case(&place, name, &TEXTS);
            let file = format!("{name}.onnx");
            let written = place.rtc(&["export", name, "--format", "onnx", "--output", &file]);
            if written.stderr.contains("` is a choice") {
                written.code(2);
            } else {
                written.code(0);
                case["onnx"] = json!(place.path(&file));
            }
            case
        })
        .collect();
    let faults = faults(&mut python, &all);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
}

/// The file `tokenizer.py` cuts texts as the command does, for every way of cutting them.
#[test]
fn exports_cut_texts_as_the_command_does() {
    let Some(mut python) = Process::start("export_answers.py") else { return };
    let place = Place::new();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/exports");
    place.write("rows.csv", &fs::read_to_string(cases.join("rows.csv")).expect("rows"));
    place.write("small.rt", "/// A.\nmodel m {\n    embed { width: 16 }\n    readout mean\n}\n");
    let mut all = vec![];
    for cut in ["words", "blanks", "characters", "bytes"] {
        for (length, run) in [("", cut.to_owned()), ("  length: 5\n", format!("{cut} cut"))] {
            let experiment = EXPERIMENT.replace("  tokens: words\n", &format!("  tokens: {cut}\n{length}"));
            place.write("e.yaml", &experiment);
            let run = run.replace(' ', "_");
            trained(&place, "small.rt", &run, "e.yaml");
            all.push(case(&place, &run, &TEXTS));
        }
    }
    // A task that brings its own tokens.
    place.train(&["--max-steps", "2", "--run", "brackets"]).code(0);
    place.rtc(&["export", "brackets", "--format", "torch", "--output", "of brackets"]).code(0);
    all.push(case(&place, "brackets", &["[MAX 2 9 [MIN 4 7 ] 0 ]", "( [SM 3 4 ] )"]));
    let faults = faults(&mut python, &all);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
}

/// Words of Python and names of PyTorch's modules, of whatever version is at hand, are names of bindings like all others.
#[test]
fn bindings_may_have_names_of_python_and_pytorch() {
    let (Some(python), Some(mut answers)) = (python::with_torch(), Process::start("export_answers.py")) else { return };
    let place = Place::new();
    let names = "import keyword, torch; print(*keyword.kwlist, *(n for n in dir(torch.nn.Module()) if n[0] != '_'))";
    let ran: crate::support::Answer = place.command(&python).args(["-c", names]).output().expect("python runs").into();
    // The language has these three words itself.
    let names = ran.code(0).stdout.split_whitespace().filter(|name| !["and", "not", "or"].contains(name));
    let bindings: String =
        names.map(|name| format!("    {name} = linear(state)\n    state = state + {name} / 100\n")).collect();
    place
        .write("named.rt", &format!("/// A.\nmodel m {{\n    embed {{ width: 16 }}\n{bindings}    readout mean\n}}\n"));
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/exports");
    place.write("rows.csv", &fs::read_to_string(cases.join("rows.csv")).expect("rows"));
    place.write("e.yaml", EXPERIMENT);
    trained(&place, "named.rt", "named", "e.yaml");
    let faults = faults(&mut answers, &[case(&place, "named", &TEXTS)]);
    assert!(faults.is_empty(), "{faults:?}");
}

/// What turns the output of a model of numbers into a number of the data is in both exports.
#[test]
fn exports_of_numbers_say_their_unit() {
    let place = Place::new();
    let rows: String = (0..40).map(|n| format!("{} {},{}\n", ["a", "b", "c"][n % 3], n % 7, 100 + 3 * n)).collect();
    place.write("rows.csv", &format!("text,label\n{rows}"));
    place.write("small.rt", "/// A.\nmodel m {\n    embed { width: 16 }\n    readout mean\n}\n");
    place.write("e.yaml", &EXPERIMENT.replace("  tokens: words\n", "  tokens: words\n  answer: number\n"));
    trained(&place, "small.rt", "n", "e.yaml");
    place.rtc(&["export", "n", "--format", "onnx", "--output", "n.onnx"]).code(0);
    let config: Value = serde_json::from_str(&place.read("of n/config.json")).expect("JSON");
    let scale = &config["scale"];
    assert!(scale["mean"].as_f64() > Some(100.0) && scale["deviation"].as_f64() > Some(1.0), "{scale}");
    // Metadata stand in the file as they are.
    let bytes = fs::read(place.path("n.onnx")).expect("a file");
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("scale") && holds(&scale.to_string()), "{scale}");
    assert!(holds(&config["tokens"].to_string()), "{}", config["tokens"]);
}
