//! `rtc diff`: what differs between two specs, as graphs, or between two runs.

mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clap::Args;
use rtc_compiler::diag::closest;
use rtc_compiler::ir::cost::{Sizes, region_cost};
use rtc_compiler::ir::diff::{Difference, Renamed, SlotDifference, diff};
use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::spec::{self, Block, Spec};
use rtc_session::failure::SessionFailure;
use rtc_session::model::{Compiled, catalog_of, plain};
use rtc_session::spec_file::SpecArg;
use rtc_session::text::number;
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::messages::check;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc diff gut gut:no_gate                         what the ablation changes
  rtc diff gut gut:no_gate --only gate             assert that nothing but the gate differs
  rtc diff trm trm:softmax --only loop.paid        the same of an equation
  rtc diff trm --set 'loop.loop.y = 0.5 * old'     what an edit changes
  rtc diff gut my.rt --task listops --length 1000  costs for rows of 1,000 tokens
  rtc diff runs/A runs/B                           spec, experiment, data, program and results of two runs
";

const CODES: &str = "\
Without --only, differences are the answer: the exit code is 0 whenever the two could be compared. With --only SLOT it \
is 0 if they are equal or differ in that slot alone, else 1. Names are no difference: what is the same under two names is listed, and a loop of one step \
is its body. What a slot changes around itself (a recurrence carries more \
values for one halting rule than for another) is its own doing, as long as the specs are equal outside of it.

Two runs are compared by their specs, experiments, data, programs and results. A name of both a spec and a run means the spec; runs/NAME \
means the run.
";

/// Arguments of `rtc diff`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub(crate) struct Options {
    /// The first spec: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`; or a run
    a: String,
    /// The second spec, or the second run; with `--set` and without it, the first spec edited
    b: Option<String>,
    /// The slot or equation in which alone they may differ, as `gate`, `depthwise.halt` or `loop.until`
    #[arg(long, value_name = "SLOT")]
    only: Option<String>,
    /// Tokens of the row for which operations are counted; recurrences run to their bound
    #[arg(long, value_name = "N", default_value_t = 100)]
    length: usize,
    /// Compare for this task: without one, vocabulary and classes count as 1
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Edit both models, as in `depthwise.depth=20`; with one spec, edit the second side
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Both graphs, compared.
struct GraphComparison {
    names: [String; 2],
    difference: Difference,
    verdict: Option<Verdict>,
    /// Equations that differ, by their paths; nothing on the side that has none.
    equations: Vec<(String, [Option<String>; 2])>,
    parameters: (f64, f64),
    flops: (f64, f64),
}

/// What `--only` finds.
struct Verdict {
    slot: String,
    /// Slots of the graphs that differ besides it.
    outside: Vec<String>,
    /// Whether the specs are equal but for the slot, so that the others follow from it.
    same_specs: bool,
}

impl Verdict {
    fn new(slot: &str, difference: &Difference, specs: [Option<&Spec>; 2]) -> Self {
        let path: Vec<&str> = slot.split('.').collect();
        let rest = specs.map(|spec| spec.map(|spec| without(&spec.root, &path)));
        let same_specs = matches!(&rest, [Some(a), Some(b)] if a.same(b))
            || matches!(specs, [Some(a), Some(b)] if differ_in_equation(a, b, slot));
        let outside = difference.outside(slot).into_iter().map(|name| title(name).to_owned()).collect();
        Self { slot: slot.to_owned(), outside, same_specs }
    }

    fn holds(&self) -> bool {
        self.outside.is_empty() || self.same_specs
    }

    fn message(&self) -> Option<String> {
        let others = self.outside.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        match (self.outside.is_empty(), self.same_specs) {
            (true, _) => None,
            (false, true) => Some(format!("the specs differ in `{}` alone; {others} follow from it", self.slot)),
            (false, false) => Some(format!("they differ outside `{}`: {others}", self.slot)),
        }
    }
}

/// Whether nothing but the equation of a path differs; without its number the path means all equations of the name.
fn differ_in_equation(a: &Spec, b: &Spec, path: &str) -> bool {
    let of = |found: &str| found == path || found.strip_prefix(path).is_some_and(|rest| rest.starts_with('['));
    let rest = |spec: &Spec| -> BTreeMap<String, String> {
        spec::bindings(spec).into_iter().filter(|(found, _)| !of(found)).collect()
    };
    let fields = |spec: &Spec| spec::without_equations(&spec.root);
    rest(a) == rest(b) && fields(a).same(&fields(b))
}

/// The equations of two specs that differ, by their paths.
fn equations(a: &Spec, b: &Spec) -> Vec<(String, [Option<String>; 2])> {
    let (mut left, mut right) = (spec::bindings(a), spec::bindings(b));
    let paths: BTreeSet<String> = left.keys().chain(right.keys()).cloned().collect();
    let both = paths.into_iter().map(|path| {
        let sides = [left.remove(&path), right.remove(&path)];
        (path, sides)
    });
    both.filter(|(_, [a, b])| a != b).collect()
}

/// A slot that neither model has is a slip of the pen, not a finding.
fn known_slot(slot: &str, models: [&Compiled; 2]) -> Result<(), SessionFailure> {
    fn collect<'s>(block: &'s Block, names: &mut BTreeSet<&'s str>) {
        names.extend([&*block.slot, &*block.variant].into_iter().filter(|name| !name.is_empty()));
        block.children.iter().for_each(|child| collect(child, names));
    }
    let mut names = BTreeSet::new();
    for model in models {
        if let Some(spec) = model.definition.spec() {
            collect(&spec.root, &mut names);
        }
        let labels = model.graph.walk(MAIN).into_iter().map(|n| model.graph.node(n).label.as_str());
        names.extend(labels.flat_map(|label| label.split('.')).filter(|part| !part.is_empty()));
    }
    let is_bound = |model: &Compiled| {
        let bound = model.definition.spec().map(spec::bindings).unwrap_or_default();
        bound.keys().any(|path| path == slot || path.strip_prefix(slot).is_some_and(|rest| rest.starts_with('[')))
    };
    if models.into_iter().any(is_bound) {
        return Ok(());
    }
    let Some(part) = slot.split('.').find(|part| !names.contains(part)) else { return Ok(()) };
    let hint = closest(part, names).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    Err(SessionFailure::Usage(format!("--only: neither model has a slot `{part}`{hint}")))
}

/// The block without the statements at the end of `path`, wherever the path starts.
fn without(block: &Block, path: &[&str]) -> Block {
    let mut out = block.clone();
    out.children = vec![];
    for child in &block.children {
        let named = path.first().is_some_and(|name| child.slot == *name || child.variant == *name);
        match path {
            [_] if named => {}
            [_, rest @ ..] if named => out.children.push(without(&without(child, rest), path)),
            _ => out.children.push(without(child, path)),
        }
    }
    out
}

/// Prints the differences; with `--only` they are judged.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    if let Some(runs) = runs::named(options)? {
        return runs::run(options, runs, terminal);
    }
    let task = catalog_of(options.task.as_deref())?;
    let compile = |text: &str, edits: &[String]| -> Result<Compiled, SessionFailure> {
        let checked = check(&SpecArg::parse(text), edits, &task, terminal)?;
        Compiled::new(checked.definition, &task)
    };
    let edits = options.set.as_slice();
    let ((a, b), second) = match &options.b {
        Some(second) => ((compile(&options.a, edits)?, compile(second, edits)?), second.clone()),
        None if edits.is_empty() => {
            let message = "two specs are compared, or one with its edits: name the second one, or give `--set`";
            return Err(SessionFailure::Usage(message.to_owned()));
        }
        None => (
            (compile(&options.a, &[])?, compile(&options.a, edits)?),
            format!("{} {{ {} }}", options.a, edits.join(", ")),
        ),
    };
    if let Some(slot) = &options.only {
        known_slot(slot, [&a, &b])?;
    }
    let comparison = compare([&a, &b], [options.a.clone(), second], options);
    if options.json {
        terminal.json(&to_json(&comparison, options))?;
    } else {
        terminal.result(&to_text(&comparison, options))?;
    }
    let Some(verdict) = &comparison.verdict else { return Ok(Exit::Done) };
    if let Some(message) = verdict.message() {
        terminal.message(&message);
    }
    Ok(Exit::of(verdict.holds()))
}

/// Compares two models that have these names.
fn compare([a, b]: [&Compiled; 2], names: [String; 2], options: &Options) -> GraphComparison {
    let sizes = Sizes::row(options.length);
    let difference = diff(&plain(&a.graph), &plain(&b.graph), &sizes);
    let specs = [a, b].map(|model| model.definition.spec());
    GraphComparison {
        verdict: options.only.as_ref().map(|slot| Verdict::new(slot, &difference, specs)),
        equations: if let [Some(a), Some(b)] = specs { equations(a, b) } else { vec![] },
        difference,
        parameters: (a.parameter_count() as f64, b.parameter_count() as f64),
        flops: (region_cost(&a.graph, MAIN, &sizes), region_cost(&b.graph, MAIN, &sizes)),
        names,
    }
}

fn title(slot: &str) -> &str {
    if slot.is_empty() { "(results of the model)" } else { slot }
}

fn to_text(comparison: &GraphComparison, options: &Options) -> String {
    let [a, b] = &comparison.names;
    let head = if comparison.difference.is_empty() { String::new() } else { format!("- {a}\n+ {b}\n") };
    head + &body(comparison, options)
}

/// The text behind its head, the names of both.
fn body(comparison: &GraphComparison, options: &Options) -> String {
    let [a, b] = &comparison.names;
    let renamed = &comparison.difference.renamed;
    match (comparison.difference.is_empty(), renamed.is_empty()) {
        (true, true) => return "the graphs are equal\n".to_owned(),
        (true, false) => {
            return format!("the graphs compute the same; names of {a} and {b} differ:\n{}", names(renamed));
        }
        (false, _) => {}
    }
    let mut out = String::new();
    if !renamed.is_empty() {
        let _ = write!(out, "\nthe same under another name:\n{}", names(renamed));
    }
    for (name, slot) in &comparison.difference.slots {
        let _ = writeln!(out, "\n{}{}", title(name), changes(slot));
        for (sign, lines) in [('-', &slot.left), ('+', &slot.right)] {
            for (line, times) in runs(lines) {
                let times = if times > 1 { format!("  ({times} times)") } else { String::new() };
                let _ = writeln!(out, "  {sign} {line}{times}");
            }
        }
        if slot.rewired {
            let _ = writeln!(out, "  the same nodes, wired differently");
        }
        for (sign, lines) in [('-', &slot.reads_left), ('+', &slot.reads_right)] {
            for line in lines {
                let _ = writeln!(out, "  {sign} reads {line}");
            }
        }
    }
    if !comparison.equations.is_empty() {
        out += "\nequations\n";
        for (path, sides) in &comparison.equations {
            for (sign, text) in ['-', '+'].into_iter().zip(sides) {
                let Some(text) = text else { continue };
                let _ = writeln!(out, "  {sign} {path}: {text}");
            }
        }
    }
    let _ = writeln!(out, "\nparameters  {}", change(comparison.parameters));
    let _ =
        writeln!(out, "operations  {} for a row of {} tokens", change(comparison.flops), number(options.length as f64));
    out
}

/// What has two names, a line for each; slots that no parameter names come last.
fn names(renamed: &Renamed) -> String {
    let all = renamed.parameters.iter().chain(renamed.other_slots());
    all.map(|(left, right)| format!("  {} is called {}\n", title(left), title(right))).collect()
}

/// Equal neighbours of a sorted list as one, with their number.
fn runs(lines: &[String]) -> Vec<(&str, usize)> {
    lines.chunk_by(|a, b| a == b).map(|run| (run[0].as_str(), run.len())).collect()
}

/// What changes in the costs of a slot, in brackets; nothing if nothing does.
fn changes(slot: &SlotDifference) -> String {
    let costs = [("parameters", slot.parameters), ("operations", slot.flops)];
    let changed = costs.iter().filter(|(_, (a, b))| a != b);
    let texts: Vec<String> = changed.map(|(what, costs)| format!("{what} {}", change(*costs))).collect();
    if texts.is_empty() { String::new() } else { format!("  [{}]", texts.join("; ")) }
}

/// `1,200 -> 1,000 (-200)`.
fn change((a, b): (f64, f64)) -> String {
    if a == b {
        return format!("{} in both", number(a));
    }
    let sign = if b > a { "+" } else { "" };
    format!("{} -> {} ({sign}{})", number(a), number(b), number(b - a))
}

fn to_json(comparison: &GraphComparison, options: &Options) -> Value {
    let slot = |(name, slot): (&String, &SlotDifference)| {
        json!({
            "slot": name, "left": slot.left, "right": slot.right, "rewired": slot.rewired,
            "reads_left": slot.reads_left, "reads_right": slot.reads_right,
            "parameters": [slot.parameters.0, slot.parameters.1], "flops": [slot.flops.0, slot.flops.1],
        })
    };
    let difference = &comparison.difference;
    let mut out = json!({
        "left": comparison.names[0], "right": comparison.names[1], "equal": difference.is_empty(),
        "renamed": { "slots": difference.renamed.slots, "parameters": difference.renamed.parameters },
        "slots": difference.slots.iter().map(slot).collect::<Vec<_>>(),
        "equations": comparison.equations.iter().map(|(path, [a, b])| json!({"path": path, "left": a, "right": b})).collect::<Vec<_>>(),
        "parameters": [comparison.parameters.0, comparison.parameters.1],
        "flops": [comparison.flops.0, comparison.flops.1], "length": options.length,
    });
    if let Some(verdict) = &comparison.verdict {
        out["only"] = json!({ "slot": verdict.slot, "holds": verdict.holds(), "outside": verdict.outside });
    }
    out
}
