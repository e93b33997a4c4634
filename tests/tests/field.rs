//! Models written as specs, beside the numbers of an independent PyTorch implementation.
//!
//! Every spec of `cases/routing` and `cases/latent` is a case. The folder of its name in `RTC_ROUTING` or `RTC_LATENT` (default
//! `../shared/fixtures/routing` and `latent` beside the project) has weights, one batch, logits, loss and all gradients. Without
//! that folder there is nothing to compare with, and the test says so.
//!
//! The weights have other names there. [`RULES`] and the lines at the top of a case say what they are called here:
//! - `//: name theirs = ours`: neighbouring parts of a name may be called so. Every rule is an alternative to the parts as they are,
//!   and the parameters that have one of the names so made hold the weight. Where several do, its gradient is the sum of theirs.
//! - `//: zero ours`: a parameter that does not exist there. It is 0, and its gradient is not compared.
//! - `//: columns theirs = a b`: a matrix whose name ends so stands here as one vector for each of its columns.
//! - `//: unused theirs`: a weight that the case does without.
//! - `//: given ours = theirs`: a value that comes with the examples, and what it is called among theirs.
//! - `//: depths a + b`: the rows take as many steps as these numbers of theirs make together.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::Path;

use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_runtime::batch::Given;
use rtc_runtime::exec::parameter_ranges;
use rtc_runtime::exec::storage::Element;
use rtc_runtime::model::Model;
use rtc_tests::fixture::{Comparison, DOUBLE, Fixture, SINGLE, Tolerance, doubles, folder};
use rtc_tests::peer::{Filled, Tensor, fill};

type Outcome = datatest_stable::Result<()>;

/// What parts of a name may be called in every case.
const RULES: &[(&str, &str)] = &[
    ("embed", "embed.table"),
    ("embed.weight", "embed.table"),
    ("pos", "embed.positions"),
    ("core", "stack"),
    ("norm1", "self.norm"),
    ("attn", "self"),
    ("q", "query"),
    ("k", "key"),
    ("v", "value"),
    ("o", "output"),
    ("norm2", "feedforward.norm"),
    ("ffn", "feedforward"),
    ("norm_f", "norm.norm"),
    ("head", "head.output"),
];

/// The lines at the top of a case: what each says, by its first word.
fn lines(case: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = case.lines().filter_map(|line| line.strip_prefix("//: "));
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Puts the columns of matrices in their places, as `theirs = a b` says.
fn cut(fixture: &mut Fixture, rule: &str) -> Result<(), String> {
    let (theirs, ours) = rule.split_once(" = ").ok_or_else(|| format!("`{rule}` names no columns"))?;
    let ours: Vec<&str> = ours.split(' ').collect();
    let names: Vec<String> = fixture.weights.keys().filter(|name| name.ends_with(theirs)).cloned().collect();
    if names.is_empty() {
        return Err(format!("no weight is called `{theirs}`"));
    }
    for name in names {
        for tensors in [&mut fixture.weights, &mut fixture.gradients] {
            let Some(matrix) = tensors.remove(&name) else { continue };
            let [rows, columns] = matrix.shape[..] else { return Err(format!("`{name}` is no matrix")) };
            if columns != ours.len() {
                return Err(format!("`{name}` has {columns} columns"));
            }
            for (n, column) in ours.iter().enumerate() {
                let data = matrix.data.iter().skip(n).step_by(columns).copied().collect();
                tensors.insert(name.replace(theirs, column), Tensor { shape: vec![rows], data });
            }
        }
    }
    Ok(())
}

/// The values of a fixture that a model takes from the examples.
fn given(text: &str, fixture: &Fixture) -> Result<Vec<Given>, String> {
    let mut out = vec![];
    for (_, rule) in lines(text).filter(|(word, _)| *word == "given") {
        let (ours, theirs) = rule.split_once(" = ").ok_or_else(|| format!("`{rule}` gives nothing"))?;
        out.push(Given { name: ours.into(), numbers: fixture.of_rows(theirs) });
    }
    Ok(out)
}

/// What a case says about names.
struct Names<'a> {
    /// Its own rules, and those of all cases.
    rules: Vec<(&'a str, &'a str)>,
    /// Parameters that are 0.
    zeros: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(case: &'a str, fixture: &Fixture) -> Result<Self, String> {
        let (mut rules, mut zeros) = (vec![], vec![]);
        for (word, rest) in lines(case) {
            let unknown = || format!("unknown line `//: {word} {rest}`");
            match word {
                "name" => rules.push(rest.split_once(" = ").ok_or_else(unknown)?),
                "zero" => zeros.push(rest),
                "columns" | "unused" | "given" | "depths" => {}
                _ => return Err(unknown()),
            }
        }
        zeros.sort_unstable();
        let dotted = |name: &str| format!(".{name}.");
        let used = |theirs: &str| fixture.weights.keys().any(|name| dotted(name).contains(&dotted(theirs)));
        if let Some((theirs, _)) = rules.iter().find(|(theirs, _)| !used(theirs)) {
            return Err(format!("no weight has `{theirs}` in its name"));
        }
        rules.extend(RULES);
        Ok(Self { rules, zeros })
    }

    /// The names that a weight may have here.
    fn of_weight(&self, name: &str) -> Vec<String> {
        let name = format!("{name}.");
        let (mut found, mut begun) = (vec![], vec![(String::new(), name.as_str())]);
        while let Some((known, rest)) = begun.pop() {
            let Some(same) = rest.split_once('.') else {
                found.push(known.trim_end_matches('.').to_owned());
                continue;
            };
            let fits = |&(theirs, ours)| Some((ours, rest.strip_prefix(theirs)?.strip_prefix('.')?));
            let next = self.rules.iter().filter_map(fits).chain([same]);
            begun.extend(next.map(|(part, rest)| (format!("{known}{part}."), rest)));
        }
        found
    }
}

/// The model of a case with the weights of its fixture.
fn model<T: Element>(text: &str, fixture: &Fixture, names: &Names<'_>) -> Result<Model<T>, String> {
    let size = |name: &str| fixture.meta["spec"][name].as_u64().map(|size| size as usize);
    let objective = if fixture.each() { Objective::Each } else { Objective::Classify };
    let binding = Binding { vocab: size("vocab"), classes: size("classes").or(size("vocab")), objective };
    let spec = rtc_tests::spec(text, &binding);
    let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| e.to_string())?;
    let mut model = Model::new(training, inference, binding, 0);
    let Filled { idle, empty } = fill(&mut model, &fixture.weights, &|name| names.of_weight(name))?;
    if !idle.is_empty() || empty != names.zeros {
        return Err(format!("weights without a parameter: {idle:?}\nparameters without a weight: {empty:?}"));
    }
    let plan = model.executor().plan().clone();
    for (parameter, range) in plan.parameters.iter().zip(parameter_ranges(&plan)) {
        if empty.contains(&parameter.name) {
            model.executor().parameters_mut()[range].fill(T::ZERO);
        }
    }
    Ok(model)
}

fn compared<T: Element>(case: &Path, text: &str, tolerance: Tolerance) -> Outcome {
    let kind = case.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let all = folder(&format!("RTC_{}", kind.to_uppercase()), kind);
    if !all.is_dir() {
        eprintln!("skipped: no fixtures in {}", all.display());
        return Ok(());
    }
    let mut fixture = Fixture::read(&all.join(case.file_stem().unwrap_or_default()));
    for (word, rest) in lines(text) {
        match word {
            "columns" => cut(&mut fixture, rest)?,
            "unused" if fixture.weights.remove(rest).is_none() => {
                return Err(format!("no weight is called `{rest}`").into());
            }
            "unused" => drop(fixture.gradients.remove(rest)),
            _ => {}
        }
    }
    let names = Names::of(text, &fixture)?;
    let mut model = model::<T>(text, &fixture, &names)?;
    let mut batch = fixture.batch();
    batch.given = given(text, &fixture)?;
    for (_, names) in lines(text).filter(|(word, _)| *word == "depths") {
        let steps = |row: usize| names.split(" + ").map(|name| fixture.io[name].data[row] as u32).sum();
        batch.depths = Some((0..batch.rows()).map(steps).collect());
    }
    let outputs = model.forward_backward(&batch)?;
    let mut comparison = Comparison::default();
    let mut check = |what: &str, ours: &[f64], reference: &[f64]| {
        comparison.check(what, ours, reference, 1e-3, tolerance.outputs);
    };
    check("logits", &doubles(outputs.real("logits").ok_or("no logits")?), &fixture.logits());
    check("loss", &[outputs.scalar("loss").ok_or("no loss")?], &fixture.io["loss"].data);
    fixture.compare_gradients(&mut model, &|name| names.of_weight(name), tolerance.gradients, &mut comparison);
    if comparison.faults.is_empty() { Ok(()) } else { Err(comparison.faults.join("\n").into()) }
}

fn double(case: &Path, text: String) -> Outcome {
    compared::<f64>(case, &text, DOUBLE)
}

fn single(case: &Path, text: String) -> Outcome {
    compared::<f32>(case, &text, SINGLE)
}

datatest_stable::harness! {
    { test = double, root = "cases/routing", pattern = r"^[^/]*\.rt$" },
    { test = single, root = "cases/routing", pattern = r"^[^/]*\.rt$" },
    { test = double, root = "cases/latent", pattern = r"^[^/]*\.rt$" },
    { test = single, root = "cases/latent", pattern = r"^[^/]*\.rt$" },
}
