//! Exports by the path of a user: every spec is trained, exported and asked by the real binary, then one process of Python loads all
//! modules and ONNX files, and compares logits with `rtc predict --logits` and gradients with rtc's own.
//!
//! Two updates at a rate of 0.05 move every gain away from 0 and 1. A third of the specs runs by turns; `tests/exports.sh` runs all.
//! `RTC_TORCH_PYTHON` names a Python with torch and onnxruntime, `RTC_TURN` a turn (`rtc_tests::turn`), `RTC_PROGRAM` another program
//! than the one of this build.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why, and figures are worth seeing")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rtc_base::batch::{Batch, Given, Labels};
use rtc_compiler::check::check;
use rtc_compiler::ir::graph::{Graph, Parameter};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::{Binding, Objective, attach_loss};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::{pass, pipeline};
use rtc_exec::Halting;
use rtc_export::weights::{Weight, safetensors};
use rtc_task::{DOCUMENT, documents};
use rtc_tests::numeric::{self, Arrays, CHAOTIC, differentiated};
use rtc_tests::subjects::{self, Subject};
use rtc_tests::turn::Turn;
use rtc_tests::{models, peer, python};
use serde_json::{Value, json};

/// Generated models of all turns.
const GENERATED: u64 = 200;
/// Allowed difference of logits in single precision, relative to the larger of 1 and the largest logit.
const LOGITS: f64 = 1e-5;
/// The same in double precision.
const DOUBLE: f64 = 1e-9;
/// Allowed difference of gradients in double precision, relative to the largest gradient of the weight.
const GRADIENTS: f64 = 1e-5;
/// Exports that are refused: format, start of the spec's name, and the reason as the message gives it.
const REFUSED: &[(&str, &str, &str)] = &[
    ("onnx", "bt_grc", "`beam` is a beam search"),
    ("onnx", "ebt_grc", "`beam` is a beam search"),
    ("onnx", "rir_ebt_grc", "`beam` is a beam search"),
    ("onnx", "moba", "`top_keys` is a choice"),
    ("onnx", "moeut", "`top` is a choice"),
    ("onnx", "mor", "`top` is a choice"),
    ("onnx", "huginn ", "`normal` is a random draw"),
    ("onnx", "parcae ", "`normal` is a random draw"),
    ("onnx", "generated_", "`normal` is a random draw"),
    ("onnx", "generated_", "`uniform` is a random draw"),
    ("onnx", "language recursions", "`top` is a choice"),
    ("onnx", "language mixture", "`top` is a choice"),
    ("onnx", "language beams_in_chunks", "`beam` is a beam search"),
    ("onnx", "looped_models routed", "`top` is a choice"),
    ("onnx", "looped_models mixture", "`top` is a choice"),
    ("onnx", "looped_models recurrent_depth", "`normal` is a random draw"),
    ("onnx", "looped_models decaying", "`normal` is a random draw"),
    ("onnx", "diagnostics_", "`beam` is a beam search"),
    ("onnx", "language packed", "an ONNX file has the tokens alone"),
    ("onnx", "own_data apart", "an ONNX file has the tokens alone"),
    ("onnx", "packed", "an ONNX file has the tokens alone"),
];
/// Specs that this test cannot train, and why.
const UNTRAINED: &[(&str, &str)] = &[
    ("language puzzles", "takes `least` from the rows"),
    ("own_data readers", "takes `reader` from the rows"),
    ("diagnostics_", "takes its depth from the examples, which have none"),
];
/// Models whose answers rounding decides, and where: half a unit in the last place of the weights moves them by more than 1e-4.
const ROUNDED: &[(&str, &str)] = &[
    ("generated_16 m", "`go` asks whether a number near 0.1 is above it"),
    ("generated_49 m", "`until` asks whether the mean of a norm is below 0"),
    ("generated_91 m", "`go` asks whether the mean of a norm is at least 0"),
    ("generated_13 m", "`until` asks whether the mean of a norm, which is 0 up to rounding, is at most 0"),
    ("generated_27 m", "`go` asks whether the mean of a norm is above 0"),
];
/// Lengths of the rows that are asked.
const LENGTHS: [usize; 6] = [5, 1, 10, 2, 9, 4];
/// Steps of models with `depth: given`.
const DEPTH: u32 = 3;
/// The experiments, tried in this order.
const EXPERIMENTS: [&str; 4] = ["table", "language", "tagging", "depths"];
/// Models that answer in another way, too: for pairs, with a number and with several labels.
const OTHERWISE: [&str; 4] = ["transformer", "gut", "ebt_grc", "tlb"];
/// The experiments of those answers.
const ANSWERS: [&str; 3] = ["pairs", "number", "several"];
/// A model whose logits move less than this between rows answers all of them alike.
const ALIKE: f64 = 1e-4;

/// A subject after its exports.
#[derive(Default)]
struct Exported {
    /// The case for Python; none where the spec was not trained.
    case: Option<Value>,
    refused: Vec<(&'static str, String)>,
    failed: Vec<String>,
    reference: Option<Reference>,
}

/// A trained model in rtc itself.
struct Reference {
    /// With a loss.
    graph: Graph,
    weights: Arrays,
    batch: Batch,
}

impl Reference {
    /// How far rounding of the weights moves the logits.
    fn moved(&self) -> f64 {
        let logits = |weights: &Arrays| {
            numeric::run::<f64>(&self.graph, weights, &self.batch, Halting::Compact).outputs["logits"].clone()
        };
        numeric::moved(&self.weights, logits)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Small data for the experiments.
fn furnish(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file of this test");
    for (split, count) in [("train", 48), ("dev", 8)] {
        let row =
            |n: usize| -> Vec<&str> { (0..1 + (n * 7) % 10).map(|k| WORDS[(n * n + 3 * k * n + k) % 8]).collect() };
        let label = |n: usize| ["x", "y", "z"][(n * 5 + n / 3) % 3];
        let line = |n| {
            let several = ["", "x", "z, x", "y"][n % 4];
            let (text, other) = (row(n).join(" "), row(n + 5).join(" "));
            format!("{text},{other},{},{},\"{several}\"\n", label(n), 100 + n * n % 17)
        };
        let head = "text,other,label,number,several\n".to_owned();
        write(&format!("{split}.csv"), head + &(0..count).map(line).collect::<String>());
        let tags = |n: usize| {
            let tags: Vec<&str> = (0..row(n).len()).map(|k| label(n + k)).collect();
            format!("{}\n", json!({ "tokens": row(n), "tags": tags }))
        };
        write(&format!("{split}.jsonl"), (0..count).map(tags).collect());
        write(&format!("{split}.txt"), (0..count).map(|n| row(n + 3).join(" ") + " a b c\n").collect());
    }
    let common = "optimiser: { learning_rate: 0.05 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nmax_steps: 2\n\
        evaluate: [dev]\n";
    for (name, task) in [
        ("table", "name: table, data: { train: train.csv, dev: dev.csv }, input: text, label: label, tokens: blanks"),
        ("pairs", "name: pairs, data: { train: train.csv, dev: dev.csv }, input: [text, other], tokens: blanks"),
        (
            "number",
            "name: table, data: { train: train.csv, dev: dev.csv }, label: number, answer: number, tokens: blanks",
        ),
        (
            "several",
            "name: table, data: { train: train.csv, dev: dev.csv }, label: several, answer: labels, tokens: blanks",
        ),
        ("tagging", "name: tagging, data: { train: train.jsonl, dev: dev.jsonl }, input: tokens, label: tags"),
        (
            "language",
            "name: language, data: { train: train.txt, dev: dev.txt }, tokens: blanks, length: 10, documents: c",
        ),
        ("depths", "name: looped_addition, options: { train_length: 2, test_length: 2 }, sizes: { train: 16, dev: 8 }"),
    ] {
        write(&format!("{name}.yaml"), format!("task: {{ {task} }}\n{common}"));
    }
}

/// The token that ends a document in the experiment `language`.
const DOCUMENT_END: &str = "c";
/// The words of all texts.
const WORDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The rows that are asked; two equal tokens never begin a row, since rounding alone would say which one a choice takes.
fn rows(words: &[&str]) -> Vec<Vec<String>> {
    let word = |length: usize, k: usize| words[(length * 3 + k * 5 + k / 3) % words.len()].to_owned();
    LENGTHS.iter().map(|length| (0..*length).map(|k| word(*length, k)).collect()).collect()
}

fn rtc(folder: &Path, args: &[&str]) -> Output {
    let program = std::env::var_os("RTC_PROGRAM").unwrap_or_else(|| crate::support::RTC.into());
    Command::new(program).current_dir(folder).args(args).stdin(Stdio::null()).output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Trains, exports and asks a model.
fn exported(folder: &Path, number: usize, asked: &Asked) -> Exported {
    let mut all = Exported::default();
    let run = format!("run_{number}");
    let Some(experiment) = trained(folder, &run, asked, &mut all) else { return all };
    let words = if experiment == "depths" { &["0", "1", "+", ">"][..] } else { &WORDS[..] };
    let rows = rows(words);
    let path = format!("runs/{run}");
    let Some(answers) = answered(folder, &path, &rows, experiment, &mut all) else { return all };
    let objective = objective(experiment);
    let mut case = json!({
        "name": asked.name, "rows": rows, "objective": format!("{objective:?}").to_lowercase(), "depth": DEPTH,
        "answers": answers,
    });
    let outputs = [("torch", "module", format!("module_{number}")), ("onnx", "onnx", format!("{number}.onnx"))];
    for (format, key, output) in outputs {
        let written = rtc(folder, &["export", &path, "--format", format, "--output", &output]);
        match written.status.code() {
            Some(0) => case[key] = json!(folder.join(&output)),
            Some(2) => all.refused.push((format, said(&written))),
            code => all.failed.push(format!("export as {format} ends with {code:?}: {}", said(&written))),
        }
    }
    if case.get("module").is_some() {
        match catch_unwind(|| referred(folder, number, &rows, objective)) {
            Ok((facts, reference)) => {
                facts.into_iter().for_each(|(key, value)| case[key] = value);
                all.reference = Some(reference);
            }
            Err(_) => all.failed.push("rtc's own gradients: a panic, see above".to_owned()),
        }
    }
    all.case = Some(case);
    all
}

/// The file of the answers of `rtc predict` to the rows.
fn answered(folder: &Path, run: &str, rows: &[Vec<String>], experiment: &str, all: &mut Exported) -> Option<PathBuf> {
    let [input, answers] = ["txt", "jsonl"].map(|ending| folder.join(format!("{}.{ending}", run.replace('/', "_"))));
    let texts: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    let (first, second) = texts.split_at(if experiment == "pairs" { rows.len() / 2 } else { rows.len() });
    let line = |(n, text): (usize, &String)| match second.get(n) {
        Some(other) => format!("{text} ||| {other}\n"),
        None => format!("{text}\n"),
    };
    fs::write(&input, first.iter().enumerate().map(line).collect::<String>()).expect("a file of this test");
    let [from, to] = [&input, &answers].map(|file| file.display().to_string());
    let mut args = vec!["predict", run, "--input", &from, "--output", &to, "--batch", "6"];
    if experiment != "number" {
        args.push("--logits");
    }
    let depth = DEPTH.to_string();
    let takes = fs::read_to_string(folder.join(run).join("spec.rt")).expect("the spec of a run").contains("given");
    if experiment == "depths" && takes {
        args.extend(["--depth", &depth]);
    }
    let asked = rtc(folder, &args);
    if !asked.status.success() {
        all.failed.push(format!("predict: {}", said(&asked)));
        return None;
    }
    Some(answers)
}

/// Trains a model in the first experiment that it fits.
fn trained(folder: &Path, run: &str, asked: &Asked, all: &mut Exported) -> Option<&'static str> {
    let Asked { subject, experiments, .. } = asked;
    let (edits, mut refusals) = (subject.edits(), vec![]);
    for experiment in *experiments {
        let file = format!("{experiment}.yaml");
        let mut args =
            vec!["train", &subject.spec, "--experiment", &file, "--run", run, "--fresh", "--threads", "1", "-q"];
        edits.iter().for_each(|edit| args.extend(["--set", edit]));
        let training = rtc(folder, &args);
        if training.status.success() {
            return Some(experiment);
        }
        let _ = fs::remove_dir_all(folder.join("runs").join(run));
        refusals.push(format!("{experiment}: {}", said(&training)));
    }
    all.failed.push(format!("training: {}", refusals.join("\n")));
    None
}

/// What an experiment asks for.
fn objective(experiment: &str) -> Objective {
    match experiment {
        "table" => Objective::Classify,
        "pairs" => Objective::Pair,
        "several" => Objective::Several,
        "number" => Objective::Number,
        _ => Objective::Each,
    }
}

/// What rtc itself gives in double precision for the weights of a run: labels of the rows, logits, and a file with gradients.
fn referred(
    folder: &Path,
    number: usize,
    rows: &[Vec<String>],
    objective: Objective,
) -> ([(&'static str, Value); 3], Reference) {
    let run = folder.join(format!("runs/run_{number}"));
    let config = fs::read_to_string(folder.join(format!("module_{number}/config.json"))).expect("an export");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let listed = |key: &str| config[key].as_array().map_or(0, Vec::len);
    let bound = Binding { vocab: Some(listed("vocabulary")), classes: Some(listed("classes")), objective };
    let catalog =
        Catalog { vocabulary: bound.vocab, classes: bound.classes, objective: Some(objective), ..Catalog::default() };
    let source = Source::new("spec.rt", fs::read_to_string(run.join("spec.rt")).expect("the spec of the run"));
    let spec = check(&models::library(), source, None, &[], &catalog).0.expect("the spec of a run is sound");
    let mut graph = pipeline::unlabelled(pipeline::forward(&spec, &bound).expect("it was lowered before"));
    let parameters = graph.parameters();
    pass::inference::run(&mut graph);
    attach_loss(&mut graph, &bound).expect("a loss for labels");
    let saved = peer::load(&run.join("checkpoints/best/weights.safetensors")).expect("the weights of the run");
    // A weight that no training reads is in no file.
    let numbers = |p: &Parameter| {
        let count: usize = p.ty.dims().iter().filter_map(Dim::fixed).product();
        saved.get(&p.name).map_or_else(|| vec![0.0; count], |found| found.data.clone())
    };
    let weights: Arrays = parameters.iter().map(|p| (p.name.clone(), numbers(p))).collect();
    let (labels, batch) = batch(rows, &config, objective, listed("classes"));
    let found = numeric::run::<f64>(&differentiated(&graph), &weights, &batch, Halting::Compact);
    let singles = numeric::singles(&parameters, &found.gradients);
    let kept = singles.iter().filter(|(name, _)| saved.contains_key(*name));
    let arrays: Vec<Weight<'_>> = kept.map(|(name, (shape, numbers))| Weight { name, shape, numbers }).collect();
    let file = folder.join(format!("gradients_{number}.safetensors"));
    fs::write(&file, safetensors(&arrays)).expect("a file of this test");
    let facts = [("labels", labels), ("double", json!(found.outputs["logits"])), ("gradients", json!(file))];
    (facts, Reference { graph, weights, batch })
}

/// The rows as a batch with labels; the sides of pairs are its halves.
fn batch(rows: &[Vec<String>], config: &Value, objective: Objective, classes: usize) -> (Value, Batch) {
    let vocabulary = config["vocabulary"].as_array().expect("a list");
    let id = |word: &String| vocabulary.iter().position(|token| token == word).expect("a known token") as u32;
    let mut offsets = vec![0];
    rows.iter().for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len()));
    let tokens: Vec<u32> = rows.iter().flatten().map(id).collect();
    let class = |count: usize, classes: usize| (0..count).map(|n| ((n * 7 + n / 2) % classes) as u32).collect();
    let labels = match objective {
        Objective::Classify => Labels::Class(class(rows.len(), classes)),
        Objective::Pair => Labels::Class(class(rows.len() / 2, classes)),
        Objective::Each => Labels::Each { weight: vec![1.0; tokens.len()], class: class(tokens.len(), classes) },
        Objective::Several => Labels::Several(class(rows.len() * classes, 2)),
        Objective::Number => Labels::Number((0..rows.len()).map(|n| n as f32 / 4.0 - 0.5).collect()),
    };
    let told = match &labels {
        Labels::Number(numbers) => json!(numbers),
        other => json!(other.classes()),
    };
    let depths = config["takes_depths"].as_bool().unwrap_or(false).then(|| vec![DEPTH; rows.len()]);
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let numbers = |end: usize| -> Vec<f64> {
        let of_row = |row: &[usize]| documents(&tokens[row[0]..row[1]], end as u32, 0).numbers;
        offsets.windows(2).flat_map(of_row).collect()
    };
    // The token that ends a document in the experiment of texts.
    let end = vocabulary.iter().position(|token| token == DOCUMENT_END);
    let given = end.map(|end| Given { name: DOCUMENT.into(), numbers: numbers(end) });
    (told, Batch { given: given.into_iter().collect(), tokens, labels, width, depths, offsets })
}

/// A subject, and what it is asked for.
#[derive(Clone)]
struct Asked {
    name: String,
    subject: Subject,
    /// Tried in this order.
    experiments: &'static [&'static str],
}

/// Every subject, and some for further answers.
///
/// # Panics
/// Where two have one name.
fn all(folder: &Path) -> Vec<Asked> {
    let subjects =
        [subjects::built_in(folder), subjects::documented(folder), subjects::random(folder, GENERATED)].concat();
    let ordinary = subjects.iter().map(|subject| Asked {
        name: subject.name.clone(),
        subject: subject.clone(),
        experiments: &EXPERIMENTS,
    });
    let others = OTHERWISE.iter().flat_map(|name| {
        let subject = subjects.iter().find(|subject| subject.name == *name).expect("a model of the project");
        let one = move |answer: &'static &'static str| Asked {
            name: format!("{name} ({answer})"),
            subject: subject.clone(),
            experiments: std::slice::from_ref(answer),
        };
        ANSWERS.iter().map(one)
    });
    let all: Vec<Asked> = ordinary.chain(others).collect();
    let names: BTreeSet<&str> = all.iter().map(|asked| asked.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "every subject has a name of its own");
    all
}

/// All exports, two at a time.
fn export(folder: &Path, subjects: &[Asked]) -> Vec<Exported> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = vec![];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(subject) = subjects.get(number) else { return done };
            done.push((number, exported(folder, number, subject)));
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut done: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("caught")).collect();
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, exported)| exported).collect()
    })
}

/// What Python finds, by the names of specs.
fn compared(python: &Path, folder: &Path, all: &[Exported]) -> BTreeMap<String, Value> {
    let cases: Vec<&Value> = all.iter().filter_map(|one| one.case.as_ref()).collect();
    let (listed, found) = (folder.join("cases.json"), folder.join("found.json"));
    fs::write(&listed, json!(cases).to_string()).expect("a file of this test");
    let script = root().join("tests/src/export_paths.py");
    let quiet = [("OMP_NUM_THREADS", "1"), ("PYTHONDONTWRITEBYTECODE", "1")];
    let status = Command::new(python).arg(script).args([&listed, &found]).envs(quiet).status();
    assert!(status.expect("Python runs").success(), "the script ends well");
    let text = fs::read_to_string(found).expect("the script writes");
    let found: Vec<Value> = serde_json::from_str(&text).expect("a list");
    assert_eq!(found.len(), cases.len(), "the script answers for every case");
    found.into_iter().map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one)).collect()
}

/// Counts of a format, and what is worst.
#[derive(Default)]
struct Tally {
    compared: usize,
    refused: usize,
    failed: usize,
    constant: usize,
    rounded: usize,
    logits: (f64, String),
    double: (f64, String),
    gradients: (f64, String),
    seconds: f64,
}

impl Tally {
    /// Counts a comparison; gives its faults. `moved` says how far rounding of the weights moves the logits, `rounding` how far the module
    /// itself is in single precision from what it gives in double precision.
    fn count(&mut self, name: &str, found: &Value, moved: impl Fn() -> f64, rounding: f64) -> Vec<String> {
        self.seconds += found["seconds"].as_f64().unwrap_or(0.0);
        if let Some(error) = found["error"].as_str() {
            self.failed += 1;
            return vec![error.to_owned()];
        }
        self.compared += 1;
        self.constant += usize::from(found["spread"].as_f64().is_none_or(|spread| spread < ALIKE));
        let beyond = |what: &str, limit: f64| found[what].as_f64().is_some_and(|far| far > limit);
        let mut logits = LOGITS;
        if beyond("logits", LOGITS) || beyond("double", DOUBLE) {
            let moved = moved();
            if let Some((_, why)) = ROUNDED.iter().find(|(spec, _)| *spec == name) {
                self.rounded += 1;
                let is_rounded = moved > CHAOTIC;
                return if is_rounded { vec![] } else { vec![format!("rounding moves it by {moved:.1e} only: {why}")] };
            }
            logits = LOGITS.max(4.0 * moved.max(rounding).min(CHAOTIC));
        }
        let mut faults = vec![];
        for (worst, what, limit) in [
            (&mut self.logits, "logits", logits),
            (&mut self.double, "double", DOUBLE),
            (&mut self.gradients, "gradients", GRADIENTS),
        ] {
            let far = found[what].as_f64().unwrap_or(0.0);
            if far > worst.0 {
                *worst = (far, name.to_owned());
            }
            if far > limit {
                let weight = found["weight"].as_str().unwrap_or_default();
                faults.push(format!(
                    "{what} differ by {far:.1e} {weight}, rounding of the weights moves by {:.1e}",
                    moved()
                ));
            }
        }
        self.failed += usize::from(!faults.is_empty());
        faults
    }
}

/// What became of the specs of a turn.
#[derive(Default)]
struct Report {
    tallies: BTreeMap<&'static str, Tally>,
    faults: Vec<String>,
    /// The lines of [`REFUSED`] and [`UNTRAINED`] that were met.
    met: BTreeSet<String>,
}

impl Report {
    /// Counts what a spec gave before Python saw it, and what Python found.
    fn add(&mut self, name: &str, one: &Exported, found: Option<&Value>) {
        let excuse =
            UNTRAINED.iter().find(|(spec, why)| name.starts_with(spec) && one.failed.iter().any(|f| f.contains(why)));
        match excuse {
            Some((spec, _)) => drop(self.met.insert((*spec).to_owned())),
            None => self.faults.extend(one.failed.iter().map(|fault| format!("{name}: {fault}"))),
        }
        for (format, reason) in &one.refused {
            self.tallies.entry(*format).or_default().refused += 1;
            let expected =
                REFUSED.iter().find(|(of, spec, why)| of == format && name.starts_with(spec) && reason.contains(why));
            match expected {
                Some((of, spec, why)) => drop(self.met.insert(format!("{of} {spec} {why}"))),
                None => self.faults.push(format!("{name}: the export as {format} is refused: {reason}")),
            }
        }
        let moved = || one.reference.as_ref().map_or(0.0, Reference::moved);
        let rounding = found.and_then(|found| found["torch"]["rounding"].as_f64()).unwrap_or(0.0);
        for format in ["torch", "onnx"] {
            if let Some(found) = found.and_then(|found| found.get(format)) {
                let faults = self.tallies.entry(format).or_default().count(name, found, moved, rounding);
                self.faults.extend(faults.into_iter().map(|fault| format!("{name}: {format}: {fault}")));
            }
        }
    }

    /// Lines of the two tables that no spec met.
    fn idle(&self) -> Vec<String> {
        let refused = REFUSED.iter().map(|(of, spec, why)| format!("{of} {spec} {why}"));
        let all = refused.chain(UNTRAINED.iter().map(|(spec, _)| (*spec).to_owned()));
        all.filter(|line| !self.met.contains(line)).map(|line| format!("no spec meets the line: {line}")).collect()
    }

    fn print(&self) {
        for (format, tally) in &self.tallies {
            let Tally { compared, refused, failed, constant, rounded, logits, double, gradients, seconds } = tally;
            eprintln!("{format}: {compared} compared in {seconds:.0} s, {refused} refused, {failed} failed");
            eprintln!("  {constant} answer all rows alike, {rounded} are decided by rounding");
            for (what, (far, name)) in [("logits", logits), ("in double precision", double), ("gradients", gradients)] {
                eprintln!("  worst {what} {far:.1e} ({name})");
            }
        }
    }
}

#[test]
fn every_spec_gives_its_logits_and_gradients_in_its_exports() {
    let Some(python) = python::with_torch() else { return };
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export_paths");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a new folder");
    furnish(&folder);
    let all = all(&folder);
    let total = all.len();
    let turn = Turn::of_run();
    let subjects = turn.of(all, |asked| &asked.name);
    assert!(!subjects.is_empty(), "turn {turn}: no spec has this in its name");
    eprintln!("turn {turn}: {} of {total} specs, found after {:.0} s", subjects.len(), seconds());
    let exports = export(&folder, &subjects);
    eprintln!("trained, exported and asked after {:.0} s", seconds());
    let found = compared(&python, &folder, &exports);
    let mut report = Report::default();
    subjects.iter().zip(&exports).for_each(|(subject, one)| report.add(&subject.name, one, found.get(&subject.name)));
    report.print();
    eprintln!("{:.0} s", seconds());
    if *turn == Turn::All {
        report.faults.extend(report.idle());
    }
    let faults = report.faults;
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
