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
//!
//! Some are laid out in another way. Three lines say so; their weight is the one whose name begins with these parts:
//! - `//: stack gates.#`: as many weights as there are numbers in the place of `#`, one for each step. Here they are one, with an
//!   axis of steps; in what follows it is called with the `#`.
//! - `//: reverse theirs`: what comes first on its first axis comes last here.
//! - `//: transpose theirs`: its two axes stand the other way round here.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::Path;

use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_runtime::exec::parameter_ranges;
use rtc_runtime::exec::storage::Element;
use rtc_runtime::model::Model;
use rtc_tests::fixture::{Comparison, DOUBLE, Fixture, SINGLE, Tolerance, doubles, folder};
use rtc_tests::peer::{Filled, Tensor, Tensors, fill};

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

/// The tensors whose names begin with these parts, as a layout of ours.
fn relaid(tensors: &Tensors, parts: &str, layout: fn(&Tensor) -> Option<Tensor>) -> Result<Tensors, String> {
    let begins = |name: &str| name == parts || name.strip_prefix(parts).is_some_and(|rest| rest.starts_with('.'));
    if !tensors.keys().any(|name| begins(name)) {
        return Err(format!("no weight is called `{parts}`"));
    }
    let of = |(name, tensor): (&String, &Tensor)| {
        let new = if begins(name) { layout(tensor) } else { Some(tensor.clone()) };
        Ok((name.clone(), new.ok_or_else(|| format!("`{name}` has the axes {:?}", tensor.shape))?))
    };
    tensors.iter().map(of).collect()
}

fn reversed(tensor: &Tensor) -> Option<Tensor> {
    let size = tensor.data.len() / tensor.shape.first().filter(|n| **n > 0)?;
    Some(Tensor { shape: tensor.shape.clone(), data: tensor.data.rchunks(size).flatten().copied().collect() })
}

fn transposed(tensor: &Tensor) -> Option<Tensor> {
    let [rows, columns] = tensor.shape[..] else { return None };
    let data = (0..columns).flat_map(|c| (0..rows).map(move |r| tensor.data[r * columns + c])).collect();
    Some(Tensor { shape: vec![columns, rows], data })
}

/// The tensors that differ in one number of their names, in the place of the `#`, as one with an axis more.
fn stacked(tensors: &Tensors, parts: &str) -> Result<Tensors, String> {
    let (before, behind) = parts.split_once('#').ok_or_else(|| format!("`stack {parts}` has no `#`"))?;
    let numbered = |name: &str| {
        let (number, rest) = name.strip_prefix(before)?.split_at_checked(name[before.len()..].find('.')?)?;
        let fits = rest.strip_prefix(behind).is_some_and(|end| end.is_empty() || end.starts_with('.'));
        Some((format!("{before}#{rest}"), number.parse::<usize>().ok().filter(|_| fits)?))
    };
    let mut all = Tensors::new();
    for (name, tensor) in tensors {
        let Some((stack, _)) = numbered(name) else {
            all.insert(name.clone(), tensor.clone());
            continue;
        };
        if all.contains_key(&stack) {
            continue;
        }
        let mut slices: Vec<(usize, &Tensor)> = tensors
            .iter()
            .filter_map(|(name, slice)| numbered(name).filter(|(of, _)| *of == stack).map(|(_, n)| (n, slice)))
            .collect();
        slices.sort_by_key(|(n, _)| *n);
        if slices.iter().enumerate().any(|(n, (number, slice))| *number != n || slice.shape != tensor.shape) {
            return Err(format!("the steps of `{stack}` are not alike, or one is missing"));
        }
        let shape = std::iter::once(slices.len()).chain(tensor.shape.iter().copied()).collect();
        let data = slices.iter().flat_map(|(_, slice)| &slice.data).copied().collect();
        all.insert(stack, Tensor { shape, data });
    }
    if all.len() == tensors.len() { Err(format!("no weight is called `{parts}`")) } else { Ok(all) }
}

/// The fixture with weights and gradients as they are laid out here.
fn laid_out(case: &str, mut fixture: Fixture) -> Result<Fixture, String> {
    for line in case.lines().filter_map(|line| line.strip_prefix("//: ")) {
        let of = |tensors: &Tensors| match line.split_once(' ') {
            Some(("stack", parts)) => stacked(tensors, parts),
            Some(("reverse", parts)) => relaid(tensors, parts, reversed),
            Some(("transpose", parts)) => relaid(tensors, parts, transposed),
            _ => Ok(tensors.clone()),
        };
        (fixture.weights, fixture.gradients) = (of(&fixture.weights)?, of(&fixture.gradients)?);
    }
    Ok(fixture)
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
        for line in case.lines().filter_map(|line| line.strip_prefix("//: ")) {
            let unknown = || format!("unknown line `//: {line}`");
            match line.split_once(' ').ok_or_else(unknown)? {
                ("name", rule) => rules.push(rule.split_once(" = ").ok_or_else(unknown)?),
                ("zero", parameter) => zeros.push(parameter),
                ("stack" | "reverse" | "transpose", _) => {}
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
    let fixture = laid_out(text, Fixture::read(&all.join(case.file_stem().unwrap_or_default())))?;
    let names = Names::of(text, &fixture)?;
    let mut model = model::<T>(text, &fixture, &names)?;
    let outputs = model.forward_backward(&fixture.batch())?;
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
