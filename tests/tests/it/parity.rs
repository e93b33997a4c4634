//! Numerical parity with an independent PyTorch implementation.
//!
//! Every folder of `RTC_FIXTURES` (default `../shared/fixtures/recurrent` beside the project) that has a `meta.json` is
//! a case: weights, one batch, logits, halting cost, steps used, all gradients, and the weights after one AdamW step.
//! The spec is made from the meta data, whatever its sizes. Without the folder there is nothing to compare and
//! the test says so.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::PathBuf;

use rtc_compiler::pipeline;
use rtc_exec::learner::Learner;
use rtc_exec::model::Model;
use rtc_exec::storage::Element;
use rtc_exec::{Halting, HaltingRecorder, HaltingTrace};
use rtc_tests::fixture::{Comparison, DOUBLE, Fixture, SINGLE, Tolerance, doubles};
use rtc_tests::peer::Description;

/// One folder.
struct Case {
    fixture: Fixture,
    model: Description,
}

fn folder() -> PathBuf {
    rtc_tests::fixture::folder("RTC_FIXTURES", "recurrent")
}

fn cases() -> Vec<Case> {
    let Ok(entries) = std::fs::read_dir(folder()) else { return vec![] };
    let mut dirs: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.join("meta.json").exists()).collect();
    dirs.sort();
    let case = |dir: &PathBuf| {
        let fixture = Fixture::read(dir);
        Case { model: Description(fixture.meta["spec"].clone()), fixture }
    };
    dirs.iter().map(case).collect()
}

impl Case {
    /// Our name of a parameter of the fixture.
    fn rename(&self, name: &str) -> String {
        self.model.rename(name).unwrap_or_else(|| panic!("{}: unknown parameter `{name}`", self.fixture.name))
    }
}

fn model<T: Element>(case: &Case, halting: Halting) -> Model<T> {
    let Case { fixture, model: description } = case;
    let binding = description.binding();
    let spec = rtc_tests::spec(&description.source(), &binding);
    let (training, inference) = pipeline::plans(&spec, &binding).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
    let mut model = Model::new(training, inference, binding, 0);
    model.set_halting(halting);
    let idle = description.fill(&mut model, &fixture.weights).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
    for name in &idle {
        let known = fixture.meta["no_grad"].as_array().is_some_and(|list| list.iter().any(|n| n == name));
        assert!(known, "{}: the model has no `{name}`", fixture.name);
    }
    model
}

/// Compares one case in one precision with one halting policy; gives a line per difference that is too large.
fn compare<T: Element>(case: &Case, halting: Halting, tolerance: Tolerance, faults: &mut Vec<String>) {
    let fixture = &case.fixture;
    let mut model = model::<T>(case, halting);
    let traces = model.executor().records.attach::<HaltingRecorder>();
    let outputs = model.forward_backward(&fixture.batch()).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
    let mut comparison = Comparison::default();
    let mut check = |what: &str, ours: &[f64], reference: &[f64]| {
        comparison.check(what, ours, reference, 1e-3, tolerance.outputs);
    };
    check("logits", &doubles(outputs.real("logits").expect("logits")), &fixture.logits());
    check("loss", &[outputs.scalar("loss").expect("loss")], &fixture.io["loss"].data);
    if let Some(act) = fixture.io.get("act_per_row") {
        check("halting cost", &doubles(outputs.real("halting_cost").expect("cost")), &act.data);
    }
    used(case, &traces.take(), &mut comparison);
    fixture.compare_gradients(&mut model, &|name| vec![case.rename(name)], tolerance.gradients, &mut comparison);
    if tolerance.gradients <= 1e-10 {
        after_update(case, &mut model, &mut comparison);
    }
    faults.extend(comparison.faults.iter().map(|fault| format!("{} {halting:?}: {fault}", fixture.name)));
}

/// Accepted steps of every unit, chunk by chunk. Rows without a token in a chunk take no part in it.
fn used(case: &Case, watched: &[HaltingTrace], comparison: &mut Comparison) {
    let Fixture { name, io, .. } = &case.fixture;
    let keep = &io["keep"];
    let width = keep.shape[1];
    let mut start = 0;
    for (chunk, seen) in watched.iter().enumerate() {
        let reference = &io[&format!("used.{chunk}")];
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
            other => panic!("{name}: used has shape {other:?}"),
        };
        comparison.check(&format!("steps in chunk {chunk}"), &seen.steps, &per_row, 1.0, 0.0);
        start += reference.shape.get(1).copied().unwrap_or(0);
    }
    let expected = io.keys().filter(|k| k.starts_with("used.")).count();
    assert_eq!(watched.len(), expected, "{name}: halting recurrences run");
}

fn after_update<T: Element>(case: &Case, model: &mut Model<T>, comparison: &mut Comparison) {
    let Fixture { name, meta, after, .. } = &case.fixture;
    let rule = case.fixture.update_rule();
    let norm = model.update(&rule).unwrap_or_else(|e| panic!("{name}: {e}"));
    comparison.check("gradient norm", &[norm], &[meta["grad_norm"].as_f64().unwrap_or_default()], 1e-3, 1e-10);
    let plan = model.executor().plan().clone();
    let ranges = rtc_exec::parameter_ranges(&plan);
    for (name, tensor) in after {
        let ours = case.rename(name);
        let Some(index) = plan.parameters.iter().position(|p| p.name == ours) else { continue };
        let weights = doubles(&model.executor().parameters()[ranges[index].clone()]);
        comparison.check(&format!("{ours} after AdamW"), &weights, &tensor.data, 1e-3, 1e-10);
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
