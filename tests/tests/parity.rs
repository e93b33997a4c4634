//! Numerical parity with an independent PyTorch implementation.
//!
//! Every folder of `RTC_FIXTURES` (default `../shared/fixtures/recurrent` beside the project) that has a `meta.json` is
//! a case: weights, one batch, logits, halting cost, steps used, all gradients, and the weights after one AdamW step.
//! The spec is made from the meta data, whatever its sizes. Without the folder there is nothing to compare and
//! the test says so.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::{Path, PathBuf};

use rtc_compiler::pipeline;
use rtc_runtime::batch::{Batch, Labels};
use rtc_runtime::exec::storage::Element;
use rtc_runtime::exec::{Halting, HaltingRecorder, HaltingTrace};
use rtc_runtime::kernel::Real;
use rtc_runtime::learner::{Learner, UpdateRule};
use rtc_runtime::model::Model;
use rtc_tests::peer::{self, Description, Tensors};
use serde_json::Value as Json;

/// One folder.
struct Case {
    name: String,
    meta: Json,
    model: Description,
    weights: Tensors,
    io: Tensors,
    gradients: Tensors,
    after: Tensors,
}

/// How far a computed array may be from the reference.
#[derive(Clone, Copy)]
struct Tolerance {
    outputs: f64,
    gradients: f64,
}

const DOUBLE: Tolerance = Tolerance { outputs: 1e-10, gradients: 1e-10 };
const SINGLE: Tolerance = Tolerance { outputs: 1e-5, gradients: 1e-4 };

fn folder() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/recurrent");
    std::env::var_os("RTC_FIXTURES").map_or(default, PathBuf::from)
}

fn load(path: &Path) -> Tensors {
    peer::load(path).unwrap_or_else(|e| panic!("{e}"))
}

fn cases() -> Vec<Case> {
    let Ok(entries) = std::fs::read_dir(folder()) else { return vec![] };
    let mut dirs: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.join("meta.json").exists()).collect();
    dirs.sort();
    let case = |dir: &PathBuf| {
        let meta = std::fs::read(dir.join("meta.json")).expect("meta.json is readable");
        let meta: Json = serde_json::from_slice(&meta).expect("meta.json is JSON");
        Case {
            name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            model: Description(meta["spec"].clone()),
            meta,
            weights: load(&dir.join("weights.safetensors")),
            io: load(&dir.join("io.safetensors")),
            gradients: load(&dir.join("grads.safetensors")),
            after: load(&dir.join("after_adamw.safetensors")),
        }
    };
    dirs.iter().map(case).collect()
}

impl Case {
    /// Our name of a parameter of the fixture.
    fn rename(&self, name: &str) -> String {
        self.model.rename(name).unwrap_or_else(|| panic!("{}: unknown parameter `{name}`", self.name))
    }

    /// Positions that hold real tokens, row after row.
    fn kept(&self) -> Vec<usize> {
        self.io["keep"].data.iter().enumerate().filter(|(_, k)| **k != 0.0).map(|(n, _)| n).collect()
    }

    fn batch(&self) -> Batch {
        let keep = &self.io["keep"];
        let (rows, width) = (keep.shape[0], keep.shape[1]);
        let kept = self.kept();
        let mut offsets = vec![0];
        for row in 0..rows {
            let count = kept.iter().filter(|n| **n / width == row).count();
            offsets.push(offsets[row] + count);
        }
        let pick = |name: &str| kept.iter().map(|n| self.io[name].data[*n]).collect::<Vec<f64>>();
        let labels = if self.model.causal() {
            Labels::Each {
                class: pick("labels").iter().map(|v| *v as u32).collect(),
                weight: pick("weight").iter().map(|v| *v as f32).collect(),
            }
        } else {
            Labels::Class(self.io["labels"].data.iter().map(|v| *v as u32).collect())
        };
        Batch { offsets, tokens: pick("tokens").iter().map(|v| *v as u32).collect(), labels, width, depths: None }
    }
}

/// The largest difference relative to the largest reference value; `floor` bounds that value from below.
fn distance(ours: &[f64], reference: &[f64], floor: f64) -> f64 {
    assert_eq!(ours.len(), reference.len(), "sizes differ");
    let scale = reference.iter().fold(floor, |m, v| m.max(v.abs()));
    ours.iter()
        .zip(reference)
        .fold(0.0, |m: f64, (a, b)| if (a - b).is_finite() { m.max((a - b).abs() / scale) } else { f64::INFINITY })
}

fn doubles<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

fn model<T: Element>(case: &Case, halting: Halting) -> Model<T> {
    let binding = case.model.binding();
    let spec = rtc_tests::spec(&case.model.source(), &binding);
    let (training, inference) = pipeline::plans(&spec, &binding).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut model = Model::new(training, inference, binding, 0);
    model.set_halting(halting);
    let idle = case.model.fill(&mut model, &case.weights).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    for name in &idle {
        let known = case.meta["no_grad"].as_array().is_some_and(|list| list.iter().any(|n| n == name));
        assert!(known, "{}: the model has no `{name}`", case.name);
    }
    model
}

/// Compares one case in one precision with one halting policy; gives a line per difference that is too large.
fn compare<T: Element>(case: &Case, halting: Halting, tolerance: Tolerance, faults: &mut Vec<String>) {
    let mut model = model::<T>(case, halting);
    let traces = model.executor().records.attach::<HaltingRecorder>();
    let batch = case.batch();
    let outputs = model.forward_backward(&batch).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut check = |what: &str, ours: &[f64], reference: &[f64], floor: f64, limit: f64| {
        let d = distance(ours, reference, floor);
        if d > limit {
            faults.push(format!("{} {halting:?}: {what} differs by {d:.1e} (limit {limit:.0e})", case.name));
        }
    };
    let logits = &case.io["logits"];
    // Logits of padded tokens have no counterpart; a token has one logit per output.
    let outputs_per_token = logits.shape.last().copied().unwrap_or(1);
    let of_token = |n: &usize| &logits.data[n * outputs_per_token..(n + 1) * outputs_per_token];
    let reference: Vec<f64> = if case.model.causal() {
        case.kept().iter().flat_map(of_token).copied().collect()
    } else {
        logits.data.clone()
    };
    check("logits", &doubles(outputs.real("logits").expect("logits")), &reference, 1e-3, tolerance.outputs);
    check("loss", &[outputs.scalar("loss").expect("loss")], &case.io["loss"].data, 1e-3, tolerance.outputs);
    if let Some(act) = case.io.get("act_per_row") {
        check(
            "halting cost",
            &doubles(outputs.real("halting_cost").expect("cost")),
            &act.data,
            1e-3,
            tolerance.outputs,
        );
    }
    used(case, &traces.take(), &mut check);

    let plan = model.executor().plan().clone();
    let ranges = rtc_runtime::exec::parameter_ranges(&plan);
    let largest = case.gradients.values().flat_map(|t| &t.data).fold(0.0, |m: f64, v| m.max(v.abs()));
    for (name, tensor) in &case.gradients {
        let ours = case.rename(name);
        let Some(index) = plan.parameters.iter().position(|p| p.name == ours) else { continue };
        let gradient = doubles(&model.executor().gradients()[ranges[index].clone()]);
        // A gradient that is zero in exact arithmetic has no scale of its own.
        check(&format!("gradient of {ours}"), &gradient, &tensor.data, largest * 1e-3, tolerance.gradients);
    }
    if tolerance.gradients <= 1e-10 {
        after_update(case, &mut model, &mut check);
    }
}

/// Accepted steps of every unit, chunk by chunk. Rows without a token in a chunk take no part in it.
fn used(case: &Case, watched: &[HaltingTrace], check: &mut impl FnMut(&str, &[f64], &[f64], f64, f64)) {
    let keep = &case.io["keep"];
    let width = keep.shape[1];
    let mut start = 0;
    for (chunk, seen) in watched.iter().enumerate() {
        let reference = &case.io[&format!("used.{chunk}")];
        let framed = case.model.word("engine") == "depth" && !case.model.causal();
        let per_row: Vec<f64> = match reference.shape.as_slice() {
            [_] => seen.rows.iter().map(|r| reference.data[*r as usize]).collect(),
            [_, span] => {
                let row = |r: &u64| {
                    let tokens = (0..width).filter(|n| keep.data[*r as usize * width + n] != 0.0).count();
                    let here = if framed { tokens + 2 } else { tokens.saturating_sub(start).min(*span) };
                    reference.data[*r as usize * span..*r as usize * span + here].to_vec()
                };
                seen.rows.iter().flat_map(row).collect()
            }
            other => panic!("{}: used has shape {other:?}", case.name),
        };
        check(&format!("steps in chunk {chunk}"), &seen.steps, &per_row, 1.0, 0.0);
        start += reference.shape.get(1).copied().unwrap_or(0);
    }
    let expected = case.io.keys().filter(|k| k.starts_with("used.")).count();
    assert_eq!(watched.len(), expected, "{}: halting recurrences run", case.name);
}

fn after_update<T: Element>(case: &Case, model: &mut Model<T>, check: &mut impl FnMut(&str, &[f64], &[f64], f64, f64)) {
    let rule = &case.meta["after_adamw"];
    let number = |key: &str| rule[key].as_f64().unwrap_or_default();
    let rule = UpdateRule {
        learning_rate: number("lr"),
        beta1: rule["betas"][0].as_f64().unwrap_or_default(),
        beta2: rule["betas"][1].as_f64().unwrap_or_default(),
        epsilon: number("eps"),
        weight_decay: number("weight_decay"),
        clip: Some(number("clip_norm")),
        ..UpdateRule::ADAMW
    };
    let norm = model.update(&rule).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    check("gradient norm", &[norm], &[case.meta["grad_norm"].as_f64().unwrap_or_default()], 1e-3, 1e-10);
    let plan = model.executor().plan().clone();
    let ranges = rtc_runtime::exec::parameter_ranges(&plan);
    for (name, tensor) in &case.after {
        let ours = case.rename(name);
        let Some(index) = plan.parameters.iter().position(|p| p.name == ours) else { continue };
        let weights = doubles(&model.executor().parameters()[ranges[index].clone()]);
        check(&format!("{ours} after AdamW"), &weights, &tensor.data, 1e-3, 1e-10);
    }
}

fn all(run: impl Fn(&Case, &mut Vec<String>)) {
    let cases = cases();
    if cases.is_empty() {
        eprintln!("skipped: no fixtures in {}", folder().display());
        return;
    }
    let mut faults = vec![];
    for case in &cases {
        run(case, &mut faults);
    }
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
    eprintln!("{} cases agree", cases.len());
}

#[test]
fn parity_f64() {
    all(|case, faults| {
        for halting in [Halting::Compact, Halting::Batch, Halting::Never] {
            compare::<f64>(case, halting, DOUBLE, faults);
        }
    });
}

#[test]
fn parity_f32() {
    all(|case, faults| {
        for halting in [Halting::Compact, Halting::Batch] {
            compare::<f32>(case, halting, SINGLE, faults);
        }
    });
}
