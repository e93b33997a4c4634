//! Models written as specs, beside the numbers of an independent PyTorch implementation.
//!
//! Every spec of `cases/routing` and `cases/latent` is a case. The folder of its name in `RTC_ROUTING` or `RTC_LATENT` (default
//! `../shared/fixtures/routing` and `latent` beside the project) has weights, one batch, logits, loss and all gradients. Without
//! that folder there is nothing to compare with, and the test says so. Where `NAME.steps.json` stands beside a case, updates after every
//! step of its loop are compared, too.
//!
//! The weights have other names there. [`RULES`] and the lines at the top of a case say what they are called here:
//! - `//: name theirs = ours`: neighbouring parts of a name may be called so. Every rule is an alternative to the parts as they are,
//!   and the parameters that have one of the names so made hold the weight. Where several do, its gradient is the sum of theirs.
//! - `//: zero ours`: a parameter that does not exist there. It is 0, and its gradient is not compared.
//! - `//: columns theirs = a b`: a matrix whose name ends so stands here as one vector for each of its columns.
//! - `//: unused theirs`: a weight that the case does without.
//! - `//: given ours = theirs`: a value that comes with the examples, and what it is called among theirs.
//! - `//: depths a + b`: the rows take as many steps as these numbers of theirs make together.
//!
//! Some are laid out in another way. Four lines say so; their weight is the one whose name begins with these parts:
//! - `//: stack gates.#`: as many weights as there are numbers in the place of `#`, one for each step. Here they are one, with an
//!   axis of steps; in what follows it is called with the `#`.
//! - `//: unstack theirs`: what its first axis holds are weights of their own here; in what follows they are called `theirs.0`,
//!   `theirs.1` and so on.
//! - `//: reverse theirs`: what comes first on its first axis comes last here.
//! - `//: axes theirs 0 2 1`: its axes, counted from 0, stand in this order here. Neighbouring axes may be one.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::Path;

use rtc_base::batch::{Batch, Given, Labels};
use rtc_compiler::ir::graph::FIXED;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::each_step::EachStep;
use rtc_compiler::plan::Plan;
use rtc_compiler::spec::Spec;
use rtc_exec::learner::Learner;
use rtc_exec::model::Model;
use rtc_exec::parameter_ranges;
use rtc_exec::storage::Element;
use rtc_tests::fixture::{Comparison, DOUBLE, Fixture, SINGLE, Tolerance, doubles, folder};
use rtc_tests::peer::{Filled, Tensor, Tensors, fill, holders};
use rtc_train::CarriedState;
use serde_json::Value as Json;

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
fn cut(tensors: &Tensors, rule: &str) -> Result<Tensors, String> {
    let (theirs, ours) = rule.split_once(" = ").ok_or_else(|| format!("`{rule}` names no columns"))?;
    let ours: Vec<&str> = ours.split(' ').collect();
    let (matrices, mut all): (Tensors, Tensors) =
        tensors.clone().into_iter().partition(|(name, _)| name.ends_with(theirs));
    if matrices.is_empty() {
        return Err(format!("no weight is called `{theirs}`"));
    }
    for (name, matrix) in matrices {
        let [rows, columns] = matrix.shape[..] else { return Err(format!("`{name}` is no matrix")) };
        if columns != ours.len() {
            return Err(format!("`{name}` has {columns} columns"));
        }
        for (n, column) in ours.iter().enumerate() {
            let data = matrix.data.iter().skip(n).step_by(columns).copied().collect();
            all.insert(name.replace(theirs, column), Tensor { shape: vec![rows], data });
        }
    }
    Ok(all)
}

/// The tensors without one that the case does without.
fn without(tensors: &Tensors, name: &str) -> Result<Tensors, String> {
    let mut all = tensors.clone();
    all.remove(name).map(|_| all).ok_or_else(|| format!("no weight is called `{name}`"))
}

/// The tensors whose names begin with these parts, as a layout of ours.
fn relaid(tensors: &Tensors, parts: &str, layout: impl Fn(&Tensor) -> Option<Tensor>) -> Result<Tensors, String> {
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

/// The tensor with its axes in another order.
fn permuted(tensor: &Tensor, order: &[usize]) -> Option<Tensor> {
    let mut all = order.to_vec();
    all.sort_unstable();
    if !all.into_iter().eq(0..tensor.shape.len()) {
        return None;
    }
    let stride = |axis: usize| tensor.shape[axis + 1..].iter().product::<usize>();
    let mut places = vec![0];
    for &axis in order {
        let along = |place: usize| (0..tensor.shape[axis]).map(move |n| place + n * stride(axis));
        places = places.into_iter().flat_map(along).collect();
    }
    let data = places.into_iter().map(|place| tensor.data[place]).collect();
    Some(Tensor { shape: order.iter().map(|axis| tensor.shape[*axis]).collect(), data })
}

/// The tensors with axes in the order that a line says.
fn with_axes(tensors: &Tensors, rule: &str) -> Result<Tensors, String> {
    let (parts, order) = rule.split_once(' ').ok_or_else(|| format!("`axes {rule}` has no order"))?;
    let order: Result<Vec<usize>, _> = order.split(' ').map(str::parse).collect();
    let order = order.map_err(|e| format!("`axes {rule}`: {e}"))?;
    relaid(tensors, parts, |tensor| permuted(tensor, &order))
}

/// The tensors with the parts of one on its first axis as tensors of their own.
fn unstacked(tensors: &Tensors, name: &str) -> Result<Tensors, String> {
    let mut all = without(tensors, name)?;
    let tensor = &tensors[name];
    let [count, shape @ ..] = &tensor.shape[..] else { return Err(format!("`{name}` has no axes")) };
    for (n, data) in tensor.data.chunks(tensor.data.len() / count.max(&1)).enumerate() {
        all.insert(format!("{name}.{n}"), Tensor { shape: shape.to_vec(), data: data.to_vec() });
    }
    Ok(all)
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
    for (word, rest) in lines(case) {
        let of = |tensors: &Tensors| match word {
            "columns" => cut(tensors, rest),
            "unused" => without(tensors, rest),
            "stack" => stacked(tensors, rest),
            "reverse" => relaid(tensors, rest, reversed),
            "unstack" => unstacked(tensors, rest),
            "axes" => with_axes(tensors, rest),
            _ => Ok(tensors.clone()),
        };
        (fixture.weights, fixture.gradients) = (of(&fixture.weights)?, of(&fixture.gradients)?);
    }
    Ok(fixture)
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
                "columns" | "unused" | "stack" | "unstack" | "reverse" | "axes" | "given" | "depths" => {}
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

/// The plans of a model: of a training step, and of a forward pass.
type Plans = fn(&Spec, &Binding) -> Result<(Plan, Plan), String>;

/// With one update for all steps of a loop.
fn at_once(spec: &Spec, binding: &Binding) -> Result<(Plan, Plan), String> {
    pipeline::plans(spec, binding).map_err(|e| e.to_string())
}

/// With an update after every one.
fn each_step(spec: &Spec, binding: &Binding) -> Result<(Plan, Plan), String> {
    let each = EachStep::new(spec, binding).map_err(|e| e.to_string())?;
    pipeline::plans(&each, binding).map_err(|e| e.to_string())
}

/// The model of a case with the weights of its fixture.
fn model<T: Element>(text: &str, fixture: &Fixture, names: &Names<'_>, plans: Plans) -> Result<Model<T>, String> {
    let size = |name: &str| fixture.meta["spec"][name].as_u64().map(|size| size as usize);
    let objective = if fixture.each() { Objective::Each } else { Objective::Classify };
    let binding = Binding { vocab: size("vocab"), classes: size("classes").or(size("vocab")), objective };
    let spec = rtc_tests::spec(text, &binding);
    let (training, inference) = plans(&spec, &binding)?;
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

fn compared<T: Element>(case: &Path, text: &str, tolerance: Tolerance, trained: bool) -> Outcome {
    let kind = case.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let all = folder(&format!("RTC_{}", kind.to_uppercase()), kind);
    if !all.is_dir() {
        eprintln!("skipped: no fixtures in {}", all.display());
        return Ok(());
    }
    let fixture = laid_out(text, Fixture::read(&all.join(case.file_stem().unwrap_or_default())))?;
    let names = Names::of(text, &fixture)?;
    let mut model = model::<T>(text, &fixture, &names, at_once)?;
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
    if trained {
        updated(case, &fixture, &names, (&mut model, &batch), &mut comparison)?;
        if let Ok(steps) = std::fs::read_to_string(case.with_extension("steps.json")) {
            let model = self::model::<T>(text, &fixture, &names, each_step)?;
            updated_each_step(&serde_json::from_str(&steps)?, &fixture, (model, &batch), &mut comparison)?;
        }
    }
    if comparison.faults.is_empty() { Ok(()) } else { Err(comparison.faults.join("\n").into()) }
}

/// Compares the losses of the first updates with those beside the case, which `field_losses.py` makes. The gradients of the first one
/// are known. A weight that several parameters hold, or that does not exist there, would move in another way.
fn updated<T: Element>(
    case: &Path,
    fixture: &Fixture,
    names: &Names<'_>,
    (model, batch): (&mut Model<T>, &Batch),
    comparison: &mut Comparison,
) -> Outcome {
    let plan = model.executor().plan().clone();
    let held = |name: &str| holders(&plan, &names.of_weight(name));
    let copied = fixture.weights.keys().any(|name| held(name).len() > 1);
    // A weight without a gradient stays there, and here it decays.
    let trained = |n: usize| plan.parameters[n].group.as_deref() != Some(FIXED);
    let still = fixture.meta["no_grad"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let decays = still.flat_map(held).any(trained);
    if copied || decays || !names.zeros.is_empty() {
        eprintln!("skipped: weights of {} move in another way", fixture.name);
        return Ok(());
    }
    let expected: Vec<f64> = serde_json::from_str(&std::fs::read_to_string(case.with_extension("losses.json"))?)?;
    let rule = fixture.update_rule();
    for (n, expected) in expected.iter().enumerate().skip(1) {
        model.update(&rule)?;
        let loss = model.accumulate(batch, 1.0)?.loss;
        comparison.check(&format!("loss after {n} updates"), &[loss], &[*expected], 1e-3, 1e-6);
    }
    Ok(())
}

/// Compares updates after every step with those beside the case, which `field_losses.py` makes: the rows of the batch come into the slots
/// in turn, and stay there until they are through.
fn updated_each_step<T: Element>(
    updates: &Json,
    fixture: &Fixture,
    (mut model, all): (Model<T>, &Batch),
    comparison: &mut Comparison,
) -> Outcome {
    const SLOTS: usize = 3;
    let rule = fixture.update_rule();
    let carries = model.carries().to_vec();
    let (mut carried, mut rows): (CarriedState, Vec<usize>) = (CarriedState::new(SLOTS), (0..SLOTS).collect());
    let mut next = SLOTS;
    for (n, expected) in updates.as_array().ok_or("no updates")?.iter().enumerate() {
        let of: Vec<usize> = rows.iter().map(|row| row % all.rows()).collect();
        let mut batch = some_rows(all, &of);
        carried.give(&carries, 0, &mut batch);
        let loss = model.accumulate(&batch, 1.0)?.loss;
        let expected_loss = expected["loss"].as_f64().ok_or("no loss")?;
        comparison.check(&format!("loss of update {n}"), &[loss], &[expected_loss], 1e-3, 1e-9);
        let through = carried.keep(&carries, 0, &batch, &model.left());
        let slots = |found: &[usize]| format!("update {n}: slots {found:?} are through");
        let over: Vec<usize> = serde_json::from_value(expected["over"].clone())?;
        if through != over {
            return Err(format!("{}, and not those of {}", slots(&through), slots(&over)).into());
        }
        for slot in through {
            rows[slot] = next;
            next += 1;
        }
        model.update(&rule)?;
    }
    Ok(())
}

/// Some rows of a batch whose tokens are labelled.
fn some_rows(all: &Batch, rows: &[usize]) -> Batch {
    let Labels::Each { class, weight } = &all.labels else { panic!("tokens are labelled") };
    let ranges: Vec<_> = rows.iter().map(|row| all.offsets[*row]..all.offsets[row + 1]).collect();
    let lengths = ranges.iter().map(std::ops::Range::len);
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    let given = all.given.iter().map(|given| {
        let each = given.numbers.len() / all.rows();
        let numbers = rows.iter().flat_map(|row| &given.numbers[row * each..(row + 1) * each]).copied().collect();
        Given { name: given.name.clone(), numbers }
    });
    Batch {
        offsets: [0].into_iter().chain(ends).collect(),
        tokens: ranges.iter().flat_map(|range| &all.tokens[range.clone()]).copied().collect(),
        labels: Labels::Each {
            class: ranges.iter().flat_map(|range| &class[range.clone()]).copied().collect(),
            weight: ranges.iter().flat_map(|range| &weight[range.clone()]).copied().collect(),
        },
        width: all.width,
        depths: None,
        given: given.collect(),
    }
}

pub(crate) fn double(case: &Path, text: String) -> Outcome {
    compared::<f64>(case, &text, DOUBLE, true)
}

pub(crate) fn single(case: &Path, text: String) -> Outcome {
    compared::<f32>(case, &text, SINGLE, false)
}
