//! Exports by the path of a user: every spec is trained, exported and asked by the real binary, then one process of Python loads all
//! modules and ONNX files, and compares logits with `rtc predict --logits` and gradients with rtc's own.
//!
//! Two updates at a rate of 0.05 move every gain away from 0 and 1. A third of the specs runs by turns; `tests/exports.sh` runs all.
//! `RTC_TORCH_PYTHON` names a Python with torch and onnxruntime, `RTC_TURN` a turn (`0`, `1`, `2`, `all`, or a part of the names of
//! specs), `RTC_PROGRAM` another program than the one of this build.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why, and figures are worth seeing")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rtc_compiler::check::check;
use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::{Binding, Objective, attach_loss};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::{pass, pipeline};
use rtc_export::weights::{Weight, safetensors};
use rtc_runtime::batch::{Batch, Labels};
use rtc_runtime::exec::Halting;
use rtc_tests::numeric::{self, Arrays, differentiated};
use rtc_tests::subjects::{self, Subject};
use rtc_tests::{models, peer, python};
use serde_json::{Value, json};

/// Generated models of all turns.
const GENERATED: u64 = 200;
/// Allowed difference of logits in single precision, relative to the larger of 1 and the largest logit.
const LOGITS: f64 = 1e-5;
/// Allowed difference of gradients in double precision, relative to the largest gradient of the weight.
const GRADIENTS: f64 = 1e-5;
/// Exports that are refused: format, start of the spec's name, and the reason as the message gives it.
const REFUSED: &[(&str, &str, &str)] = &[
    ("onnx", "bt_grc", "`beam` is a beam search"),
    ("onnx", "ebt_grc", "`beam` is a beam search"),
    ("onnx", "rir_ebt_grc", "`beam` is a beam search"),
    ("onnx", "moeut", "`top` is a choice"),
    ("onnx", "mor", "`top` is a choice"),
    ("onnx", "huginn ", "`normal` is a random draw"),
    ("onnx", "parcae ", "`normal` is a random draw"),
    ("onnx", "generated_", "`normal` is a random draw"),
    ("onnx", "generated_", "`uniform` is a random draw"),
];
/// Specs that this test cannot train, and why.
const UNTRAINED: &[(&str, &str)] = &[];
/// Lengths of the rows that are asked.
const LENGTHS: [usize; 6] = [5, 1, 10, 2, 9, 4];
/// Steps of models with `depth: given`.
const DEPTH: u32 = 3;
/// The experiments, tried in this order.
const EXPERIMENTS: [&str; 4] = ["table", "language", "tagging", "depths"];

/// A subject after its exports.
#[derive(Default)]
struct Exported {
    /// The case for Python; none where the spec was not trained.
    case: Option<Value>,
    refused: Vec<(&'static str, String)>,
    failed: Vec<String>,
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
        let classes = |n| format!("{},{}\n", row(n).join(" "), label(n));
        write(&format!("{split}.csv"), "text,label\n".to_owned() + &(0..count).map(classes).collect::<String>());
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
        ("table", "name: table, data: { train: train.csv, dev: dev.csv }, tokens: blanks"),
        ("tagging", "name: tagging, data: { train: train.jsonl, dev: dev.jsonl }, input: tokens, label: tags"),
        ("language", "name: language, data: { train: train.txt, dev: dev.txt }, tokens: blanks, length: 10"),
        ("depths", "name: looped_addition, options: { train_length: 3, test_length: 3 }, sizes: { train: 16, dev: 8 }"),
    ] {
        write(&format!("{name}.yaml"), format!("task: {{ {task} }}\n{common}"));
    }
}

/// The words of all texts.
const WORDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The rows that are asked; two equal tokens never begin a row, since rounding alone would say which one a choice takes.
fn rows(words: &[&str]) -> Vec<Vec<String>> {
    let word = |length: usize, k: usize| words[(length * 3 + k * 5 + k / 3) % words.len()].to_owned();
    LENGTHS.iter().map(|length| (0..*length).map(|k| word(*length, k)).collect()).collect()
}

fn rtc(folder: &Path, args: &[&str]) -> Output {
    let program = std::env::var_os("RTC_PROGRAM").unwrap_or_else(|| support::RTC.into());
    Command::new(program).current_dir(folder).args(args).stdin(Stdio::null()).output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Trains, exports and asks a model.
fn exported(folder: &Path, number: usize, subject: &Subject) -> Exported {
    let mut all = Exported::default();
    let run = format!("run_{number}");
    let Some(experiment) = trained(folder, &run, subject, &mut all) else { return all };
    let words = if experiment == "depths" { &["0", "1", "+", ">"][..] } else { &WORDS[..] };
    let rows = rows(words);
    let path = format!("runs/{run}");
    let Some(answers) = asked(folder, &path, &rows, experiment == "depths", &mut all) else { return all };
    let mut case = json!({ "name": subject.name, "rows": rows, "depth": DEPTH, "answers": answers });
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
        match catch_unwind(|| gradients(folder, number, &rows)) {
            Ok((labels, file)) => (case["labels"], case["gradients"]) = (labels, json!(file)),
            Err(_) => all.failed.push("rtc's own gradients: a panic, see above".to_owned()),
        }
    }
    all.case = Some(case);
    all
}

/// The file of the answers of `rtc predict` to the rows.
fn asked(folder: &Path, run: &str, rows: &[Vec<String>], depths: bool, all: &mut Exported) -> Option<PathBuf> {
    let [input, answers] = ["txt", "jsonl"].map(|ending| folder.join(format!("{}.{ending}", run.replace('/', "_"))));
    let texts: String = rows.iter().map(|row| row.join(" ") + "\n").collect();
    fs::write(&input, texts).expect("a file of this test");
    let [from, to] = [&input, &answers].map(|file| file.display().to_string());
    let mut args = vec!["predict", run, "--input", &from, "--logits", "--output", &to, "--batch", "6"];
    let depth = DEPTH.to_string();
    if depths {
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
fn trained(folder: &Path, run: &str, subject: &Subject, all: &mut Exported) -> Option<&'static str> {
    let (edits, mut refusals) = (subject.edits(), vec![]);
    for experiment in EXPERIMENTS {
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

/// Labels of the rows, and a file with the gradients of rtc in double precision for the weights of a run.
fn gradients(folder: &Path, number: usize, rows: &[Vec<String>]) -> (Value, PathBuf) {
    let run = folder.join(format!("runs/run_{number}"));
    let config = fs::read_to_string(folder.join(format!("module_{number}/config.json"))).expect("an export");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let listed = |key: &str| config[key].as_array().map_or(0, Vec::len);
    let each = config["answers"] == "class of every token";
    let objective = if each { Objective::Each } else { Objective::Classify };
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
    let (labels, batch) = batch(rows, &config, each, listed("classes"));
    let found = numeric::run::<f64>(&differentiated(&graph), &weights, &batch, Halting::Compact).gradients;
    let shaped: Vec<(&String, Vec<usize>, Vec<f32>)> = parameters
        .iter()
        .filter(|p| saved.contains_key(&p.name))
        .map(|p| {
            let shape = p.ty.dims().iter().filter_map(Dim::fixed).collect();
            (&p.name, shape, found[&p.name].iter().map(|x| *x as f32).collect())
        })
        .collect();
    let arrays: Vec<Weight<'_>> = shaped.iter().map(|(name, shape, numbers)| Weight { name, shape, numbers }).collect();
    let file = folder.join(format!("gradients_{number}.safetensors"));
    fs::write(&file, safetensors(&arrays)).expect("a file of this test");
    (labels, file)
}

/// The rows as a batch with labels.
fn batch(rows: &[Vec<String>], config: &Value, each: bool, classes: usize) -> (Value, Batch) {
    let vocabulary = config["vocabulary"].as_array().expect("a list");
    let id = |word: &String| vocabulary.iter().position(|token| token == word).expect("a known token") as u32;
    let mut offsets = vec![0];
    rows.iter().for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len()));
    let tokens: Vec<u32> = rows.iter().flatten().map(id).collect();
    let count = if each { tokens.len() } else { rows.len() };
    let class: Vec<u32> = (0..count).map(|n| ((n * 7 + n / 2) % classes) as u32).collect();
    let labels = json!(class);
    let labelled = if each { Labels::Each { weight: vec![1.0; count], class } } else { Labels::Class(class) };
    let depths = config["takes_depths"].as_bool().unwrap_or(false).then(|| vec![DEPTH; rows.len()]);
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    (labels, Batch { tokens, labels: labelled, width, depths, given: vec![], offsets })
}

/// The turn, as `RTC_TURN` or the commit says, and what belongs to it.
fn turn(all: Vec<Subject>) -> (String, Vec<Subject>) {
    let turn = std::env::var("RTC_TURN").unwrap_or_else(|_| {
        let head = Command::new("git").args(["rev-parse", "--short=7", "HEAD"]).current_dir(root()).output();
        let head = head.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        (u64::from_str_radix(&head, 16).unwrap_or(0) % 3).to_string()
    });
    let mut number = 0;
    let mut belongs = |subject: &Subject| {
        number += 1;
        match turn.parse::<usize>() {
            Ok(turn) => number % 3 == turn,
            Err(_) => turn == "all" || subject.name.contains(&turn),
        }
    };
    let chosen = all.into_iter().filter(|subject| belongs(subject)).collect();
    (turn, chosen)
}

/// All exports, two at a time.
fn export(folder: &Path, subjects: &[Subject]) -> Vec<Exported> {
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
    let status = Command::new(python).arg(script).args([&listed, &found]).env("OMP_NUM_THREADS", "1").status();
    assert!(status.expect("Python runs").success(), "the script ends well");
    let text = fs::read_to_string(found).expect("the script writes");
    let found: Vec<Value> = serde_json::from_str(&text).expect("a list");
    found.into_iter().map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one)).collect()
}

/// Counts of a format, and what is worst.
#[derive(Default)]
struct Tally {
    compared: usize,
    refused: usize,
    failed: usize,
    constant: usize,
    logits: (f64, String),
    gradients: (f64, String),
    seconds: f64,
}

impl Tally {
    /// Counts a comparison; gives its faults.
    fn count(&mut self, name: &str, found: &Value) -> Vec<String> {
        self.seconds += found["seconds"].as_f64().unwrap_or(0.0);
        if let Some(error) = found["error"].as_str() {
            self.failed += 1;
            return vec![error.to_owned()];
        }
        self.compared += 1;
        self.constant += usize::from(found["spread"].as_f64().is_some_and(|spread| spread < 1e-4));
        let mut faults = vec![];
        let worse = |worst: &mut (f64, String), what: &str, limit: f64| {
            let far = found[what].as_f64().unwrap_or(0.0);
            if far > worst.0 {
                *worst = (far, name.to_owned());
            }
            (far > limit)
                .then(|| format!("{what} differ by {far:.1e} {}", found["weight"].as_str().unwrap_or_default()))
        };
        faults.extend(worse(&mut self.logits, "logits", LOGITS));
        faults.extend(worse(&mut self.gradients, "gradients", GRADIENTS));
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
    fn add(&mut self, subject: &Subject, one: &Exported, found: Option<&Value>) {
        let name = &subject.name;
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
        for format in ["torch", "onnx"] {
            if let Some(found) = found.and_then(|found| found.get(format)) {
                let faults = self.tallies.entry(format).or_default().count(name, found);
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
            let Tally { compared, refused, failed, constant, logits, gradients, seconds } = tally;
            eprintln!(
                "{format}: {compared} compared in {seconds:.0} s, {refused} refused, {failed} failed, {constant} answer all rows alike"
            );
            eprintln!(
                "  worst logits {:.1e} ({}), gradients {:.1e} ({})",
                logits.0, logits.1, gradients.0, gradients.1
            );
        }
    }
}

#[test]
fn every_spec_gives_its_logits_and_gradients_in_its_exports() {
    let Some(python) = python::with("torch, safetensors, onnxruntime") else { return };
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export_paths");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a new folder");
    furnish(&folder);
    let all =
        [subjects::built_in(&folder), subjects::documented(&folder), subjects::random(&folder, GENERATED)].concat();
    let total = all.len();
    let (turn, subjects) = turn(all);
    eprintln!("turn {turn}: {} of {total} specs, found after {:.0} s", subjects.len(), seconds());
    let exports = export(&folder, &subjects);
    eprintln!("trained, exported and asked after {:.0} s", seconds());
    let found = compared(&python, &folder, &exports);
    let mut report = Report::default();
    subjects.iter().zip(&exports).for_each(|(subject, one)| report.add(subject, one, found.get(&subject.name)));
    report.print();
    eprintln!("{:.0} s", seconds());
    if turn == "all" {
        report.faults.extend(report.idle());
    }
    let faults = report.faults;
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
