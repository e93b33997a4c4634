//! Exported modules in PyTorch against rtc itself: logits, halting costs and all gradients of every model.
//!
//! `RTC_TORCH_PYTHON` names a Python with torch and safetensors; without it nothing can be compared, and the test says so. The
//! goldens of two modules need neither.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rtc_base::batch::{Batch, Labels};
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::lower::{Objective, attach_loss};
use rtc_compiler::{pass, pipeline};
use rtc_exec::Halting;
use rtc_export::torch;
use rtc_export::weights::{Weight, safetensors};
use rtc_tests::choices::{self, CHOICES};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{self, Arrays, Run, asking, batch, differentiated, rounded, singles, weights};
use rtc_tests::peer;
use rtc_tests::python::{self, Process};
use rtc_tests::turn::Turn;
use serde_json::{Value, json};

/// Lengths of the rows of a batch: an even number, for pairs.
const LENGTHS: [usize; 6] = [5, 1, 13, 2, 9, 4];
/// Steps of the rows, where those come with the examples.
const DEPTHS: [u32; 6] = [2, 4, 1, 3, 5, 2];
/// What the working precision allows; [`numeric::single_limit`] has the rule for results of models that multiply rounding.
const RESULTS: f64 = 1e-5;
const GRADIENTS: f64 = 1e-4;
/// What double precision allows: less says that a translation is wrong.
const DOUBLE: f64 = 1e-9;

/// A model with its export and what rtc makes of a batch.
struct Case {
    name: String,
    folder: PathBuf,
    graph: Graph,
    weights: Arrays,
    batch: Batch,
    expected: Run,
}

impl Case {
    /// The results of rtc in double precision, one behind the other.
    fn results(&self, weights: &Arrays) -> Vec<f64> {
        let outputs = numeric::run::<f64>(&self.graph, weights, &self.batch, Halting::Compact).outputs;
        outputs.into_iter().filter(|(name, _)| !LOSSES.contains(&name.as_str())).flat_map(|(_, x)| x).collect()
    }
}

/// A model that takes the best of positions before it knows where they are: equal tokens of a row have equal scores, and which of them it
/// takes is a matter of rounding. It is compared in double precision only.
const TIED: &str = "recursions";

/// Results that a module does not have.
const LOSSES: [&str; 2] = ["loss", "task_loss"];

/// A model, for a kind of answers, and what becomes of its graph before it is exported.
type Tried = (Model, Objective, fn(&Graph) -> Graph);

fn example(objective: Objective) -> Batch {
    // Where a row begins with a token twice, both positions have the same numbers up to rounding, which would decide what `top` takes.
    let twice = |rows: &Batch| (0..rows.rows()).any(|row| matches!(rows.row(row), [a, b, ..] if a == b));
    let mut drawn = (5..).map(|seed| batch(&LENGTHS, VOCAB as u64, CLASSES as u64, seed));
    let rows = drawn.find(|rows| !twice(rows)).expect("one of many");
    // Both sides of a pair take as many steps.
    let depths = if objective == Objective::Pair { [&DEPTHS[..3], &DEPTHS[..3]].concat() } else { DEPTHS.to_vec() };
    asking(Batch { depths: Some(depths), ..rows }, objective, 5)
}

fn described(graph: &Graph, model: &Model, objective: Objective, batch: &Batch, double: bool) -> Value {
    let (labels, own) = match &batch.labels {
        Labels::Class(labels) | Labels::Several(labels) => (json!(labels), None),
        Labels::Each { class, weight } => (json!(class), Some(weight)),
        Labels::Number(numbers) => (json!(numbers), None),
    };
    let rows: Vec<&[u32]> = (0..batch.rows()).map(|row| batch.row(row)).collect();
    let by_batch =
        ["balanced", "batch"].map(|word| rtc_compiler::spec::text(&model.spec).contains(&format!(": {word}")));
    json!({
        "objective": format!("{objective:?}").to_lowercase(),
        "rows": rows, "labels": labels, "weights": own, "depths": batch.depths, "takes_depths": torch::takes_depths(graph),
        "independent": !by_batch.contains(&true), "double": double,
    })
}

/// Writes the export of a model, and runs the model on a batch.
fn case(number: usize, (model, objective, change): &Tried, double: bool, root: &Path) -> Case {
    let objective = *objective;
    let name = format!("{}_{objective:?}{}", model.name.replace(':', "_"), if double { "_double" } else { "" });
    let folder = root.join(format!("{number}_{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for an export");
    let bound = binding(objective);
    let forward =
        change(&pipeline::unlabelled(pipeline::forward(&model.spec, &bound).unwrap_or_else(|e| panic!("{name}: {e}"))));
    let batch = example(objective);
    let case = described(&forward, model, objective, &batch, double);
    let weights = rounded(weights(&forward, 3, 0.3));
    let singles = singles(&forward.parameters(), &weights);
    let held = held(&singles);
    let module = torch::module(&model.spec, &forward, &bound, &held).unwrap_or_else(|e| panic!("{name}: {e}"));
    fs::write(folder.join("model.py"), module).expect("model.py");
    fs::write(folder.join("config.json"), r#"{"inference": "recursive"}"#).expect("config.json");
    fs::write(folder.join("weights.safetensors"), safetensors(&held)).expect("weights.safetensors");
    fs::write(folder.join("case.json"), case.to_string()).expect("case.json");
    let mut graph = forward;
    pass::inference::run(&mut graph);
    attach_loss(&mut graph, &bound).unwrap_or_else(|e| panic!("{name}: {e}"));
    let graph = differentiated(&graph);
    let run = if double { numeric::run::<f64> } else { numeric::run::<f32> };
    let expected = run(&graph, &weights, &batch, Halting::Compact);
    Case { name, folder, graph, weights, batch, expected }
}

/// The weights of a file.
fn held(singles: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) -> Vec<Weight<'_>> {
    singles.iter().map(|(name, (shape, numbers))| Weight { name, shape, numbers }).collect()
}

/// What failed in exports that ran.
fn failures(python: &mut Process, cases: &[Case]) -> Vec<String> {
    let fault = |case: &Case| match python.ask(&json!(case.folder)) {
        Value::Null => None,
        said => Some(format!("{}: {}", case.name, said["error"].as_str().unwrap_or("no error"))),
    };
    cases.iter().filter_map(fault).collect()
}

/// What differs from rtc in an export that ran.
fn differences(case: &Case, (results, gradients): (f64, f64)) -> Vec<String> {
    let found = match peer::load(&case.folder.join("found.safetensors")) {
        Ok(found) => found,
        Err(message) => return vec![format!("{}: {message}", case.name)],
    };
    let of = |prefix: &str| -> Arrays {
        found.iter().filter_map(|(name, x)| Some((name.strip_prefix(prefix)?.to_owned(), x.data.clone()))).collect()
    };
    let mut expected = case.expected.outputs.clone();
    expected.retain(|name, _| !LOSSES.contains(&name.as_str()));
    let ours = of("result.");
    let mut all = numeric::differences(&ours, &expected, results);
    if !all.is_empty() && results == RESULTS {
        let limit = numeric::single_limit(&case.name, RESULTS, &case.weights, |weights| case.results(weights));
        all = numeric::differences(&ours, &expected, limit);
    }
    let far = numeric::differences(&of("gradient."), &case.expected.gradients, gradients);
    all.extend(far.into_iter().map(|line| format!("gradient of {line}")));
    all.into_iter().map(|line| format!("{}: {line}", case.name)).collect()
}

/// Compares exports with rtc, in both precisions.
fn compare(tried: &[Tried], folder: &str) {
    let Some(mut python) = Process::start("export_check.py") else { return };
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let mut faults = vec![];
    for (double, limits) in [(false, (RESULTS, GRADIENTS)), (true, (DOUBLE, DOUBLE))] {
        let numbered = tried.iter().enumerate().filter(|(_, (model, ..))| double || model.name != TIED);
        let cases: Vec<Case> = numbered.map(|(n, tried)| case(n, tried, double, &root)).collect();
        faults.extend(failures(&mut python, &cases));
        faults.extend(cases.iter().flat_map(|case| differences(case, limits)));
        eprintln!("{} models, {} precision", cases.len(), if double { "double" } else { "single" });
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn ops_that_no_model_has_give_the_logits_and_gradients_of_rtc() {
    let any = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    compare(&[(any, Objective::Classify, |_| numeric::graph(models::EQUATIONS))], "exported_graphs");
}

#[test]
fn loops_that_count_their_steps_give_the_logits_and_gradients_of_rtc() {
    let any = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    compare(&[(any, Objective::Classify, |_| numeric::graph(models::STEPS))], "exported_steps");
}

#[test]
fn what_a_choice_does_not_take_has_the_gradients_of_rtc() {
    let model = |name: &str, equations: &str| Model { name: name.replace(' ', "_"), spec: choices::model(equations) };
    let tried =
        CHOICES.iter().map(|(name, equations)| (model(name, equations), Objective::Classify, Graph::clone as _));
    compare(&tried.collect::<Vec<_>>(), "exported_choices");
}

#[test]
fn draws_come_from_the_generator_of_pytorch() {
    let model = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    for (draw, call) in [
        ("normal %x {std: 0.5, stream: 1}", "torch.empty_like(x).normal_(0.0, 0.5)"),
        ("normal %x {std: 0.5, cut: 2.0, stream: 1}", "cut_normal(x, 0.5, 2.0)"),
        ("uniform %x {low: -1.0, high: 2.0, stream: 1}", "torch.empty_like(x).uniform_(-1.0, 2.0)"),
    ] {
        let drawn = numeric::graph(&models::STEPS.replace("full %x {value: 0.0, rank: 3}", draw));
        let module = torch::module(&model.spec, &drawn, &binding(Objective::Classify), &[]).expect("every op is known");
        assert!(module.contains(call), "{draw}: {module}");
        assert_eq!(module.contains("def cut_normal("), draw.contains("cut"));
    }
}

#[test]
fn exported_modules_give_the_logits_and_gradients_of_rtc() {
    let mut all: Vec<(Model, Objective)> = vec![];
    for objective in [Objective::Classify, Objective::Each] {
        all.extend(models::all(objective, &[]).into_iter().map(|model| (model, objective)));
    }
    let more = ["folds.rt", "searches.rt"].into_iter().flat_map(|file| models::cases(file, Objective::Classify));
    all.extend(more.map(|model| (model, Objective::Classify)));
    let few = [("transformer.rt", "transformer"), ("gut.rt", "gut"), ("ebt_grc.rt", "ebt_grc"), ("tlb.rt", "tlb")];
    let held = models::one("s4d.rt", "s4d", Objective::Classify, &["stack.s4d.discretisation: zoh"]);
    all.push((held, Objective::Classify));
    for objective in [Objective::Pair, Objective::Number, Objective::Several] {
        all.extend(few.map(|(file, name)| (models::one(file, name, objective, &[]), objective)));
    }
    let all = Turn::of_run().of(all, |(model, _)| &model.name);
    let tried: Vec<Tried> = all.into_iter().map(|(model, objective)| (model, objective, Graph::clone as _)).collect();
    compare(&tried, "exports");
}

#[test]
fn shared_keys_capped_scores_and_rotated_halves_are_those_of_rtc() {
    let mut tried: Vec<Tried> = vec![];
    for (file, name) in [("transformer.rt", "transformer"), ("gut.rt", "gut"), ("tlb.rt", "tlb")] {
        for edit in ["self.position: rope", "self.position: xpos", "self.position: relative_xl"] {
            let model = models::one(file, name, Objective::Classify, &[edit]);
            tried.push((model, Objective::Classify, models::with_shared_keys));
        }
    }
    compare(&tried, "exports_with_shared_keys");
}

#[test]
fn talking_heads_and_attention_to_all_steps_are_those_of_rtc() {
    let talking = || models::cases("zoo.rt", Objective::Classify).into_iter().find(|model| model.name == "talking");
    let talking = || talking().expect("the zoo has it");
    let recurrent = |file, name| models::one(file, name, Objective::Classify, &["self.position: rope"]);
    let mut tried: Vec<Tried> = vec![(talking(), Objective::Classify, Graph::clone)];
    for model in [recurrent("ut.rt", "ut"), recurrent("gut.rt", "gut"), talking()] {
        let graph = pipeline::forward(&model.spec, &binding(Objective::Classify)).expect("the model lowers");
        let graph = models::with_steps(&graph);
        let sees_steps = |id: &NodeId| graph.node(*id).operands.iter().any(|v| graph.ty(*v).dims().len() > 3);
        assert!(graph.walk(MAIN).iter().any(sees_steps), "{}", model.name);
        tried.push((model, Objective::Classify, models::with_steps));
    }
    compare(&tried, "exports_with_steps");
}

/// What a reader of an export sees.
#[test]
fn modules_are_readable() {
    let model = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    let equations = numeric::graph(models::EQUATIONS);
    let module = torch::module(&model.spec, &equations, &binding(Objective::Classify), &[]).expect("every op is known");
    let (_, outputs) = module.split_once("    def outputs(").expect("a module has results");
    insta::assert_snapshot!("torch_equations", outputs);
    for (file, name) in [("transformer.rt", "transformer"), ("gut.rt", "gut")] {
        let model = models::one(file, name, Objective::Classify, &[]);
        let bound = binding(Objective::Classify);
        let graph = pipeline::forward(&model.spec, &bound).expect("a spec of the project lowers");
        let module = torch::module(&model.spec, &graph, &bound, &[]).expect("it can be exported");
        insta::assert_snapshot!(format!("torch_{name}"), module);
    }
}

/// Names of parameters that would end a string, a line or a statement, or that Python and PyTorch use themselves.
const NAMES: [&str; 12] = [
    "a\"); open(\"ran\", \"w\") #",
    "b\n        open(\"ran\", \"w\")",
    "c'\\",
    "d\0\r\t\u{85}\u{2028}",
    "class.None",
    "train.type",
    "__init__.__x",
    "0.1",
    "é.\u{1f600}",
    "self.forward",
    " ",
    "\"\"\"",
];

/// Names that Python would read otherwise are entries of a module, under which its file is loaded.
#[test]
fn names_of_parameters_are_never_code() {
    let model = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    let forward = pipeline::forward(&model.spec, &binding(Objective::Classify)).expect("a spec of the project lowers");
    let mut graph = pipeline::unlabelled(forward);
    let is_param = |id: &&NodeId| graph.node(**id).op == Op::Param;
    let params: Vec<NodeId> = graph.nodes(MAIN).iter().filter(is_param).copied().collect();
    assert!(params.len() >= NAMES.len(), "{} parameters", params.len());
    for (id, name) in params.iter().zip(NAMES) {
        graph.set_attr(*id, attribute::NAME, name);
        let value = graph.node(*id).results[0];
        graph.set_hint(value, name);
    }
    let singles = singles(&graph.parameters(), &weights(&graph, 3, 0.3));
    let held = held(&singles);
    let origin = torch::ModelDescription {
        name: "\"\"\"",
        doc: "ends with \"",
        kind: "graph",
        text: "\\\"\"\"\0".to_owned(),
        documents: None,
    };
    let module = torch::module(origin, &graph, &binding(Objective::Classify), &held).expect("every op is known");
    assert!(!module.contains('\0') && !module.contains("\n        open(") && !module.contains("\"ran\""), "{module}");
    let bare = torch::module(&model.spec, &graph, &binding(Objective::Classify), &[]).expect("every op is known");
    assert!(bare.contains("self.hold(\"train\","), "{bare}");
    let Some(python) = python::with_torch() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export_names");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for an export");
    fs::write(folder.join("model.py"), module).expect("model.py");
    fs::write(folder.join("config.json"), r#"{"inference": "recursive"}"#).expect("config.json");
    fs::write(folder.join("weights.safetensors"), safetensors(&held)).expect("weights.safetensors");
    let script = "import json, torch; from model import Model; model = Model.from_folder('.'); \
                  model(torch.tensor([[1, 2, 3]]), torch.tensor([3])); \
                  print(json.dumps([name for name, _ in model.named_parameters()]))";
    let output = Command::new(&python).args(["-c", script]).current_dir(&folder).output().expect("python runs");
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut found: Vec<&str> = found.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let mut names: Vec<&str> = held.iter().map(|weight| weight.name).collect();
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
    assert!(!folder.join("ran").exists(), "a name ran as code");
}

/// A parameter whose name is the path of another one has no place in a module.
#[test]
fn a_path_and_its_part_are_refused() {
    let model = models::one("transformer.rt", "transformer", Objective::Classify, &[]);
    let mut graph = numeric::graph(models::EQUATIONS);
    let is_param = |id: &&NodeId| graph.node(**id).op == Op::Param;
    let params: Vec<NodeId> = graph.nodes(MAIN).iter().filter(is_param).copied().collect();
    graph.set_attr(params[0], attribute::NAME, "a.b");
    graph.set_attr(params[1], attribute::NAME, "a");
    let refused = torch::module(&model.spec, &graph, &binding(Objective::Classify), &[]).expect_err("two parts");
    assert!(refused.0.contains("the parameter `a`"), "{refused}");
}
