//! Exported ONNX models give the answers of rtc: every spec with every variant, run by onnxruntime where a Python has it.
//!
//! `RTC_TORCH_PYTHON` names that Python. Without it only the export itself is tested, and the test says so.

use std::collections::BTreeMap;
use std::path::Path;

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::model::Backend;
use rtc_exec::storage::Element;
use rtc_exec::{Halting, Inference};
use rtc_export::onnx::{OnnxMetadata, onnx};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, batch, distance, executor, graph, labelled_tokens, rounded, single_limit, singles, weights,
};
use rtc_tests::python::Process;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// Lengths of rows: alone, short of a chunk, at its border, and longer ones.
const LENGTHS: [usize; 8] = [1, 9, 4, 13, 2, 7, 16, 5];
/// Positions behind the longest row.
const BEHIND: usize = 2;
/// Allowed difference in single precision; [`single_limit`] has the rule for models that multiply rounding.
const LIMIT: f64 = 1e-5;
/// Deviation of the weights: beyond it loops of tens of steps are chaotic, and their rounding says nothing.
const SCALE: f64 = 0.2;

/// The logits that a model gives in onnxruntime.
fn run(python: &mut Process, model: &Path, inputs: &Json) -> Result<Vec<f64>, String> {
    let answer = python.ask(&json!({ "onnx": model.display().to_string(), "inputs": inputs, "packed": false }));
    match answer["onnx"]["numbers"].as_array() {
        Some(numbers) => Ok(numbers.iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()),
        None => Err(answer.to_string()),
    }
}

/// A model with weights, exported.
struct Case {
    name: String,
    graph: Graph,
    weights: Arrays,
    objective: Objective,
    flat: bool,
}

impl Case {
    fn new(model: &Model, objective: Objective) -> Self {
        let graph =
            pipeline::inference(&model.spec, &binding(objective)).unwrap_or_else(|e| panic!("{}: {e}", model.name));
        Self::of(format!("{} ({objective:?})", model.name), graph, objective)
    }

    fn of(name: String, graph: Graph, objective: Objective) -> Self {
        let weights = rounded(weights(&graph, 2, SCALE));
        Self { name, weights, graph, objective, flat: false }
    }

    /// Whether it chooses keys, which is not exported.
    fn chooses_keys(&self) -> bool {
        self.graph.walk(MAIN).into_iter().any(|id| self.graph.node(id).op == Op::TopKeys)
    }

    fn exported(&self) -> Result<Vec<u8>, String> {
        let about = OnnxMetadata { flat: self.flat, ..OnnxMetadata::default() };
        onnx(&self.graph, &singles(&self.graph.parameters(), &self.weights), &about)
            .map_err(|refused| refused.to_string())
    }

    fn batch(&self) -> Batch {
        let mut rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 8);
        rows.depths = Some((0..rows.rows() as u32).map(|row| 1 + row % 4).collect());
        if self.objective == Objective::Each { labelled_tokens(rows, 2, 8) } else { rows }
    }

    /// What rtc answers in a precision, laid out in rows of `width` positions where every token has an answer.
    fn expected<T: Element>(&self, weights: &Arrays, batch: &Batch, width: usize) -> Vec<f64> {
        let mut executor = executor::<T>(&self.graph, weights, Halting::Compact);
        executor.settings.inference = if self.flat { Inference::Flat } else { Inference::Recursive };
        let outputs = executor.run(batch, Key::new(0)).unwrap_or_else(|f| panic!("{}: {f}", self.name));
        let logits: Vec<f64> =
            outputs.real("logits").expect("a model gives logits").iter().map(|x| x.to_f64()).collect();
        if self.objective != Objective::Each {
            return logits;
        }
        let unit = logits.len() / batch.tokens.len();
        let mut wide = vec![0.0; batch.rows() * width * unit];
        for (row, span) in batch.offsets.windows(2).enumerate() {
            let to = row * width * unit;
            wide[to..to + (span[1] - span[0]) * unit].copy_from_slice(&logits[span[0] * unit..span[1] * unit]);
        }
        wide
    }

    /// The inputs of a batch. What stands behind a row is no token at all.
    fn inputs(&self, batch: &Batch, width: usize) -> Json {
        let grid = |rows: std::ops::Range<usize>, width: usize| {
            let row = |row: usize| -> Vec<i64> {
                let own = batch.row(row);
                let behind = (own.len()..width).map(|n| n as i64 - 1000);
                own.iter().map(|token| i64::from(*token)).chain(behind).collect()
            };
            rows.map(row).collect::<Vec<_>>()
        };
        let lengths = |rows: std::ops::Range<usize>| rows.map(|row| batch.row(row).len()).collect::<Vec<_>>();
        let rows = batch.rows();
        let mut inputs = match self.objective {
            Objective::Pair => json!({
                "tokens": grid(0..rows / 2, width), "lengths": lengths(0..rows / 2),
                "tokens_2": grid(rows / 2..rows, width + 3), "lengths_2": lengths(rows / 2..rows),
            }),
            _ => json!({ "tokens": grid(0..rows, width), "lengths": lengths(0..rows) }),
        };
        if self.takes_depths() {
            let depths = batch.depths.as_deref().unwrap_or_default();
            let (first, second) = depths.split_at(if self.objective == Objective::Pair { rows / 2 } else { rows });
            inputs["depths"] = json!(first);
            if !second.is_empty() {
                inputs["depths_2"] = json!(second);
            }
        }
        inputs
    }

    fn takes_depths(&self) -> bool {
        executor::<f32>(&self.graph, &self.weights, Halting::Compact).takes_depth()
    }

    /// What is wrong with the exported model, if anything is.
    fn fault(&self, python: &mut Process, folder: &Path) -> Option<String> {
        let file = folder.join(format!("{}.onnx", self.name.replace([':', ' ', '(', ')'], "_")));
        match self.exported() {
            Ok(bytes) => std::fs::write(&file, bytes).expect("a file in a temporary folder"),
            Err(refused) => return Some(format!("{}: {refused}", self.name)),
        }
        let batch = self.batch();
        let width = batch.width + BEHIND;
        let logits = match run(python, &file, &self.inputs(&batch, width)) {
            Ok(logits) => logits,
            Err(error) => return Some(format!("{}: {error}", self.name)),
        };
        let far = distance(&logits, &self.expected::<f32>(&self.weights, &batch, width));
        let double = |weights: &Arrays| self.expected::<f64>(weights, &batch, width);
        let is_right = far <= LIMIT || far <= single_limit(&self.name, LIMIT, &self.weights, double);
        (!is_right).then(|| format!("{}: logits differ by {far:.1e}", self.name))
    }
}

/// Whether a model has a beam search or computes values for chosen positions alone, which is not exported.
fn is_refused(model: &Model) -> bool {
    searches(model) || model.chooses()
}

/// Whether a model has a beam search.
fn searches(model: &Model) -> bool {
    model.spec.root.any(&|block| block.slot == "recurse" && block.variant == "beam")
}

fn cases(objective: Objective) -> Vec<Case> {
    let models = models::all(objective, &[]);
    let cases = models.iter().filter(|model| !is_refused(model)).map(|model| Case::new(model, objective));
    cases.filter(|case| !case.chooses_keys()).collect()
}

fn compare(cases: &[Case]) {
    let Some(mut python) = Process::start("expression_runs.py") else { return };
    let folder = TempDir::new().expect("a temporary folder");
    let faults: Vec<String> = cases.iter().filter_map(|case| case.fault(&mut python, folder.path())).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

#[test]
fn every_spec_with_every_variant_gives_its_answers_in_onnxruntime() {
    compare(&cases(Objective::Classify));
}

#[test]
fn answers_for_every_token_are_the_same() {
    compare(&cases(Objective::Each));
}

#[test]
fn ops_that_no_model_has_are_the_same() {
    let case = Case::of("equations".to_owned(), graph(models::EQUATIONS), Objective::Classify);
    assert!(case.exported().is_ok_and(|bytes| !bytes.is_empty()));
    compare(&[case]);
}

#[test]
fn loops_that_count_their_steps_are_the_same() {
    let case = Case::of("steps".to_owned(), graph(models::STEPS), Objective::Classify);
    assert!(case.exported().is_ok_and(|bytes| !bytes.is_empty()));
    compare(&[case]);
}

#[test]
fn draws_are_refused_by_name() {
    let drawn = models::STEPS.replace("full %x {value: 0.0, rank: 3}", "normal %x {std: 0.5, stream: 1}");
    let refused = Case::of("drawn".to_owned(), graph(&drawn), Objective::Classify).exported().expect_err("a draw");
    assert!(refused.contains("`normal` is a random draw"), "{refused}");
}

#[test]
fn pairs_are_the_same() {
    compare(&cases(Objective::Pair));
}

#[test]
fn an_outer_recursion_that_is_left_out_is_left_out_there_too() {
    let mut flat: Vec<Case> = cases(Objective::Classify);
    let has = |case: &Case| {
        let graph = &case.graph;
        graph.walk(MAIN).iter().any(|id| graph.node(*id).get(rtc_compiler::ir::attribute::FLAT))
    };
    flat.retain(has);
    assert!(!flat.is_empty(), "some models can do without");
    flat.iter_mut().for_each(|case| case.flat = true);
    compare(&flat);
}

#[test]
fn talking_heads_and_attention_to_all_steps_are_the_same() {
    let talking = models::cases("zoo.rt", Objective::Classify).into_iter().find(|model| model.name == "talking");
    let talking = Case::new(&talking.expect("the zoo has it"), Objective::Classify);
    let mut cases = vec![];
    for (file, name) in [("ut.rt", "ut"), ("gut.rt", "gut")] {
        let model = models::one(file, name, Objective::Classify, &["self.position: rope"]);
        let case = Case::new(&model, Objective::Classify);
        let graph = models::with_steps(&case.graph);
        cases.push(Case::of(format!("{} steps", case.name), graph, Objective::Classify));
    }
    cases.push(talking);
    cases.iter().for_each(|case| assert!(case.exported().is_ok(), "{}", case.name));
    compare(&cases);
}

#[test]
fn shared_keys_capped_scores_and_rotated_halves_are_the_same() {
    let mut cases = vec![];
    for (file, name) in [("transformer.rt", "transformer"), ("gut.rt", "gut"), ("tlb.rt", "tlb")] {
        for edits in [&["self.position: rope"], &["self.position: xpos"], &["self.position: relative_xl"]] {
            let model = models::one(file, name, Objective::Classify, edits);
            let case = Case::new(&model, Objective::Classify);
            let graph = models::with_shared_keys(&case.graph);
            let name = format!("{} {}", case.name, edits[0].replace([':', '.'], ""));
            cases.push(Case::of(name, graph, Objective::Classify));
        }
    }
    cases.iter().for_each(|case| assert!(case.exported().is_ok(), "{}", case.name));
    compare(&cases);
}

#[test]
fn searches_are_refused_by_name() {
    let all = models::all(Objective::Classify, &[]);
    let searching: Vec<&Model> = all.iter().filter(|model| searches(model)).collect();
    assert!(!searching.is_empty());
    for model in searching {
        let refused = Case::new(model, Objective::Classify).exported().expect_err("a search");
        assert!(refused.contains("`beam` is a beam search"), "{}: {refused}", model.name);
    }
}

#[test]
fn choices_are_refused_by_name() {
    let choosing: Vec<Model> = models::cases("choices.rt", Objective::Classify);
    assert!(!choosing.is_empty());
    for model in &choosing {
        let refused = Case::new(model, Objective::Classify).exported().expect_err("a choice");
        let ways = ["`top` is a choice", "`chunks` is computed for chosen positions alone"];
        assert!(ways.iter().any(|way| refused.contains(way)), "{}: {refused}", model.name);
    }
    let keys = Case::new(&models::one("moba.rt", "moba", Objective::Each, &[]), Objective::Each).exported();
    assert!(keys.is_err_and(|refused| refused.contains("`top_keys` is a choice")));
}

/// Every forward graph exports, with and without a Python to run it.
#[test]
fn all_other_models_are_exported() {
    let mut sizes = BTreeMap::new();
    for objective in [Objective::Classify, Objective::Each, Objective::Pair] {
        for case in cases(objective) {
            let bytes = case.exported().unwrap_or_else(|refused| panic!("{}: {refused}", case.name));
            let numbers: usize = case.weights.values().map(Vec::len).sum();
            assert!(bytes.len() > 4 * numbers, "{} holds its weights", case.name);
            assert_eq!(bytes, case.exported().expect("again"), "{} is the same every time", case.name);
            sizes.insert(case.name, bytes.len());
        }
    }
    assert!(sizes.len() > 100, "{}", sizes.len());
}
