//! The specs of the project at small sizes, and models with the features that the specs do not combine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rtc_compiler::check::{Loader, check, check_form, names};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::expr::{Expr, ScoreExpr};
use rtc_compiler::ir::attribute::{self, Attrs, Layout};
use rtc_compiler::ir::graph::{Graph, MAIN, NewNode, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::ir::types::{Attr, Dim};
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::{self, Block, Spec};

use crate::numeric;
pub use crate::numeric::{CLASSES, VOCAB};
use crate::turn::Turn;

/// A graph of ops and functions that no model has, for [`VOCAB`] tokens and [`CLASSES`] classes.
pub const EQUATIONS: &str = include_str!("equations.rtir");

/// A graph whose loops count their steps.
pub const STEPS: &str = include_str!("steps.rtir");

/// Edits that make a model small, in the order in which they are tried; those that a model has no place for are left out.
const SMALL: &[&str] = &[
    "self.heads: 2",
    "depthwise.memory.heads: 2",
    "stack.memory.heads: 2",
    "chunk.heads: 2",
    "memory.slots: 3",
    "chunkwise.size: 4",
    "stack.copies: 2",
    "depthwise.depth: 5",
    "gate.hidden: 12",
    "feedforward.hidden: 12",
    "depthwise.feedforward.hidden: 12",
    "stack.feedforward.hidden: 12",
    "update.feedforward.hidden: 8",
    "cell.hidden: 6",
    "balanced.arity: 4",
    "ordered_memory.slots: 3",
    "beam.size: 3",
    "score.slice: 5",
    "s4d.state: 6",
    "stack.s4d.state: 6",
    "stack.mega.shared: 6",
    "stack.mega.hidden: 10",
    "stack.mega.feedforward: 12",
    "stack.mega.dim: 3",
    "stack.mega.reach: 5",
    "let heads = 2",
    // A start that is not drawn.
    "loop.carry.s = zeros(state)",
    "let segments = 2",
    // A task has classes of its own here, and of two of them one number.
    "loop.paid = answer(y)",
    "loop.paid = answer(h)",
    "replace tied by head linear { bias: false }",
    "embed.width: 8",
];

/// The width of a small model stays below this.
const LARGEST: usize = 128;

/// Reads files of one folder.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Loader for Folder {
    fn load(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(path)).map_err(|_| "not found".to_owned())
    }
}

/// A model at a small size.
#[derive(Clone, Debug)]
pub struct Model {
    /// `gut:no_gate`.
    pub name: String,
    /// The checked spec.
    pub spec: Spec,
}

/// What the small models are asked for.
pub fn binding(objective: Objective) -> Binding {
    let classes = if objective == Objective::Each { 2 } else { CLASSES };
    Binding { vocab: Some(VOCAB), classes: Some(classes), objective }
}

/// The repository: where the tests were built, or, where they were carried to another machine, the folder that they run in.
fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if built.is_dir() { built } else { PathBuf::from(".") }
}

fn folder() -> PathBuf {
    root().join("specs")
}

/// The files that a spec of a test can use.
pub fn library() -> Folder {
    Folder(folder())
}

/// What a model that answers for every token has instead.
const EACH: &[&str] = &["embed.tokens: none", "readout each { sees: all }"];

/// Makes each answer see the past alone; a model of which that is not proved keeps seeing all tokens.
const PAST: &str = "readout each";

/// Which edits a model gets, and what it must pass.
#[derive(Clone, Copy)]
struct Form<'a> {
    each: bool,
    edits: &'a [&'a str],
    /// Promises are kept.
    proved: bool,
}

impl Form<'_> {
    /// The edits that do not depend on what the test asks for.
    fn common(&self) -> impl Iterator<Item = &'static str> + use<> {
        SMALL.iter().chain(if self.each { EACH } else { &[] }).copied()
    }

    /// The edits after those.
    fn own(&self) -> impl Iterator<Item = &str> {
        self.edits.iter().chain(self.each.then_some(&PAST)).copied()
    }
}

/// What was found before, by what was asked.
type Known<K, V> = Mutex<BTreeMap<K, V>>;

/// The common edits that a model has a place for: most of the time of a test would go into finding them again. Its key is the file,
/// the name, whether the model answers for every token, and whether its promises are kept.
static FITTING: Known<(String, String, bool, bool), Vec<String>> = Mutex::new(BTreeMap::new());

/// Every model and variant of `specs/` and of the cases in `cases/models` that can answer what is asked, with those of the
/// given further edits that it has a place for, each once: two that are the same after all edits are one. What folds the
/// sequence to one vector has no answer for every token; what answers for every token by itself has no other one. What takes numbers
/// of positions from the rows has tests of its own.
///
/// # Panics
/// When one has errors, or can't be made small.
pub fn all(objective: Objective, edits: &[&str]) -> Vec<Model> {
    let mut found = every(Form { each: objective == Objective::Each, edits, proved: true });
    // The steps of a loop belong to rows, and the answers of pairs to two of them.
    found.retain(|model| objective != Objective::Pair || !(model.pays() || model.mentions("probabilities(")));
    found.retain(|model| !model.mentions("given(positions("));
    found
}

/// Those of [`all`] in which something stands that is in none before them: an op on values with so many axes, inside of certain loops.
/// What is tested of them is tested of every op in every place that it has. `RTC_ALL_MODELS=1` gives all.
///
/// # Panics
/// See [`all`].
pub fn telling(objective: Objective, edits: &[&str]) -> Vec<Model> {
    let mut found = all(objective, edits);
    if std::env::var_os("RTC_ALL_MODELS").is_none() {
        let mut seen = BTreeSet::new();
        found.retain(|model| {
            let graph = lower(&model.spec, &binding(objective)).expect("a model of the project lowers");
            graph
                .walk(MAIN)
                .into_iter()
                .map(|id| standing(&graph, id))
                .filter(|found| seen.insert(found.clone()))
                .count()
                > 0
        });
    }
    found
}

/// Those of them that this run takes.
pub fn of_turn(models: Vec<Model>) -> Vec<Model> {
    Turn::of_run().of(models, |model| &model.name)
}

/// An op with the axes of its operands and results, where its pairs stand, whether its second and third operand are of one type, and the
/// loops around it.
fn standing(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let axes = node.operands.iter().chain(&node.results).map(|value| graph.ty(*value).dims().len());
    let around = std::iter::successors(graph.owner(node.region), |id| graph.owner(graph.node(*id).region));
    let around = around.map(|id| graph.node(id).op);
    let places = PairPlaces::of(graph, node);
    let alike = node.operands.get(1..3).is_some_and(|both| graph.ty(both[0]) == graph.ty(both[1]));
    format!("{:?} {:?} {places:?} {alike} {:?}", node.op, axes.collect::<Vec<_>>(), around.collect::<Vec<_>>())
}

/// As [`all`], with an answer per token that promises to see only the past, whether the promise is kept or not.
///
/// # Panics
/// See [`all`].
pub fn promising(edits: &[&str]) -> Vec<Model> {
    every(Form { each: true, edits, proved: false })
}

/// The models of a form that a test has asked for.
static MODELS: Known<(bool, bool, Vec<String>), Vec<Model>> = Mutex::new(BTreeMap::new());

fn every(form: Form<'_>) -> Vec<Model> {
    let key = (form.each, form.proved, form.edits.iter().map(|edit| (*edit).to_owned()).collect());
    let known = MODELS.lock().expect("no test stops while it holds the table").get(&key).cloned();
    known.unwrap_or_else(|| {
        let models = checked(form);
        MODELS.lock().expect("no test stops while it holds the table").insert(key, models.clone());
        models
    })
}

fn checked(form: Form<'_>) -> Vec<Model> {
    let entries = std::fs::read_dir(folder()).expect("specs/ exists");
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "rt"));
    let cases = root().join("tests/cases/models");
    let names = [
        "angles.rt",
        "choices.rt",
        "definitions.rt",
        "halting.rt",
        "loops.rt",
        "masks_in_equations.rt",
        "nestings.rt",
        "places_of_pairs.rt",
        "value_widths.rt",
        "values_in_masks.rt",
        "zoo.rt",
    ];
    files.extend(names.map(|name| cases.join(name)));
    files.sort();
    let mut out: Vec<Model> = vec![];
    for file in files {
        out.extend(of_file(&file, form));
    }
    let mut seen = BTreeSet::new();
    out.retain(|model| seen.insert(spec::hash(&model.spec)));
    out
}

/// Every model and variant of a file in `cases/models` that can answer what is asked.
///
/// # Panics
/// See [`all`].
pub fn cases(file: &str, objective: Objective) -> Vec<Model> {
    let file = root().join("tests/cases/models").join(file);
    of_file(&file, Form { each: objective == Objective::Each, edits: &[], proved: true })
}

fn of_file(file: &Path, form: Form<'_>) -> Vec<Model> {
    let text = std::fs::read_to_string(file).expect("a spec is readable");
    let stem = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::new(stem, text);
    let found = names(&source);
    assert!(!found.is_empty(), "{}: no model, or a syntax error", source.name);
    let wanted = found.iter().filter(|name| form.each || !answers_each(&source, name));
    wanted.map(|name| small(&source, name, form)).filter(|model| !form.each || !model.folds()).collect()
}

/// The spec of a text with one model.
///
/// # Panics
/// When it has errors.
pub fn parse(text: &str) -> Spec {
    let (spec, problems, sources) = check(&library(), Source::new("text.rt", text), None, &[], &Catalog::default());
    spec.unwrap_or_else(|| panic!("{}", render(&problems, &sources, Style::Plain)))
}

/// One model of `specs/` by its file and name.
///
/// # Panics
/// See [`all`].
pub fn one(file: &str, name: &str, objective: Objective, edits: &[&str]) -> Model {
    let text = std::fs::read_to_string(folder().join(file)).expect("the spec exists");
    small(&Source::new(file, text), name, Form { each: objective == Objective::Each, edits, proved: true })
}

/// Edits that only the tasks of these tests need.
const OF_TESTS: &[&str] = &[
    "loop.paid = answer(y)",
    "loop.paid = answer(h)",
    "loop.carry.s = zeros(state)",
    "replace tied by head linear { bias: false }",
];

/// The edits with which a user makes a model small, of those that it has a place for. Steps that come with examples stay.
///
/// # Panics
/// When an edit that only tests need is none of all.
pub fn shrinking(source: &Source, name: &str) -> Vec<String> {
    assert!(OF_TESTS.iter().all(|edit| SMALL.contains(edit)), "what is left out is one of all");
    let catalog = Catalog { vocabulary: Some(VOCAB), ..Catalog::default() };
    let attempt = |edits: &[String]| check(&library(), source.clone(), Some(name), edits, &catalog).0;
    let given = attempt(&[]).is_some_and(|spec| spec::text(&spec).contains("depth: given"));
    let mut kept: Vec<String> = vec![];
    for edit in SMALL.iter().filter(|edit| !(OF_TESTS.contains(edit) || given && edit.contains("depthwise.depth:"))) {
        kept.push((*edit).to_owned());
        if attempt(&kept).is_none() {
            kept.pop();
        }
    }
    kept
}

fn answers_each(source: &Source, name: &str) -> bool {
    let (spec, ..) = check(&library(), source.clone(), Some(name), &[], &Catalog::default());
    spec.is_some_and(|spec| spec.root.child("readout").is_some_and(|readout| readout.variant == "each"))
}

fn small(source: &Source, name: &str, form: Form<'_>) -> Model {
    let catalog = Catalog { vocabulary: Some(VOCAB), ..Catalog::default() };
    let checked = if form.proved { check } else { check_form };
    let attempt = |edits: &[String]| checked(&library(), source.clone(), Some(name), edits, &catalog);
    let fit = |kept: &mut Vec<String>, edit: &str| {
        kept.push(edit.to_owned());
        if attempt(kept).0.is_none() {
            kept.pop();
        }
    };
    let key = (source.name.clone(), name.to_owned(), form.each, form.proved);
    let known = FITTING.lock().expect("no test stops while it holds the table").get(&key).cloned();
    let mut kept = known.unwrap_or_else(|| {
        let mut kept = vec![];
        form.common().for_each(|edit| fit(&mut kept, edit));
        FITTING.lock().expect("no test stops while it holds the table").insert(key, kept.clone());
        kept
    });
    form.own().for_each(|edit| fit(&mut kept, edit));
    let (spec, problems, sources) = attempt(&kept);
    let spec = spec.unwrap_or_else(|| panic!("{name}: {}", render(&problems, &sources, Style::Plain)));
    let each = spec.root.child("readout").is_some_and(|r| r.variant == "each");
    let width = spec.root.child("embed").and_then(|b| b.int("width")).unwrap_or_default();
    assert!((1..LARGEST).contains(&width), "{name} is small after {kept:?}");
    let model = Model { name: name.to_owned(), spec };
    assert!(each == form.each || model.folds(), "{name} answers what is asked for after {kept:?}");
    model
}

/// A graph whose attentions share the first half of their keys, with scores of another scale that are capped, and whose rotations turn
/// the first channels of heads by halves.
///
/// # Panics
/// Where the heads of an attention are odd in number.
pub fn with_shared_keys(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for id in graph.walk(MAIN) {
        let node = graph.node(id).clone();
        let width = |n: usize| graph.ty(node.operands[n]).dims().last().and_then(Dim::fixed).expect("a width");
        match node.op {
            Op::Attention => {
                let (heads, kept) = (node.get(attribute::HEADS), width(1) / 2);
                let mut operands = node.operands.clone();
                let stopped = node.behind().talking.end..operands.len();
                for n in (1..3).chain(stopped) {
                    let operand = &mut operands[n];
                    let attrs = Attrs::of(attribute::START, 0).with(attribute::WIDTH, kept);
                    let (operands, label) = (vec![*operand], node.label.clone());
                    let slice = NewNode { op: Op::Slice, operands, attrs, types: vec![], body: None, label };
                    let slice = graph.insert_before(id, slice).expect("the first half of the channels");
                    *operand = graph.node(slice).results[0];
                }
                graph.set_operands(id, operands);
                graph.set_attr(id, attribute::KEY_HEADS, heads / 2);
                graph.set_attr(id, attribute::SCALE, 0.7);
                if let Ok(ScoreExpr::Parts { bias, .. }) = node.attrs.score() {
                    graph.set_attr(id, attribute::SCORE, &Attr::from(&Expr::score(Some(0.9), bias)));
                }
            }
            Op::Rotate => {
                let part = width(0) / node.get(attribute::HEADS) / 4 * 2;
                graph.set_attr(id, attribute::LAYOUT, Layout::Half);
                graph.set_attr(id, attribute::BASE, 300.0);
                graph.set_attr(id, attribute::PART, part.max(2));
            }
            _ => {}
        }
    }
    numeric::checked(&graph, "a graph with shared keys");
    graph
}

/// A graph whose attentions of positions to their row see the keys of all steps so far, in recurrences that take a fixed number of steps at
/// most. Nothing becomes of attentions with a bias, relative positions or a `stop`.
pub fn with_steps(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for id in graph.walk(MAIN) {
        let node = graph.node(id).clone();
        let Some(owner) = graph.owner(node.region).filter(|owner| graph.node(*owner).op == Op::Recur) else { continue };
        let steps = graph.node(owner).get(attribute::BOUND).steps();
        let plain = node.attrs.score().is_ok_and(|score| score.of_pairs().is_none());
        let (true, Some(steps), true) = (node.op == Op::Attention, steps, plain) else { continue };
        let [queries, keys] = [0, 1].map(|n| graph.ty(node.operands[n]).clone());
        let like = graph.node(owner).operands.iter().copied().find(|v| *graph.ty(*v) == keys);
        let (Some(like), true) = (like, queries.ragged().is_some() && queries.ragged() == keys.ragged()) else {
            continue;
        };
        if !node.has(attribute::POSITION) && !node.has(attribute::STOP) {
            see_all_steps(&mut graph, (owner, id), like, steps);
        }
    }
    numeric::checked(&graph, "a graph with attention to all steps");
    graph
}

/// Lets an attention in a recurrence see the keys of all steps so far.
fn see_all_steps(graph: &mut Graph, (owner, id): (NodeId, NodeId), like: Value, steps: usize) {
    let (node, body) = (graph.node(id).clone(), graph.node(id).region);
    let step = *graph.params(body).last().expect("a recurrence counts its steps");
    let new =
        |op, operands, attrs| NewNode { op, operands, attrs, types: vec![], body: None, label: node.label.clone() };
    let mut operands = node.operands.clone();
    for operand in &mut operands[1..3] {
        let carried = graph.node(owner).operands.len();
        let attrs = Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, 3).with(attribute::COUNT, steps);
        let zeros = graph.insert_before(owner, new(Op::Full, vec![like], attrs)).expect("zeros with slots");
        let zeros = graph.node(zeros).results[0];
        let ty = graph.ty(zeros).clone();
        let starts = [&graph.node(owner).operands[..], &[zeros]].concat();
        graph.set_operands(owner, starts);
        let param = graph.add_param(body, ty.clone(), "steps");
        graph.move_param_last(body, step);
        let set = graph.insert_before(id, new(Op::SlotSet, vec![param, *operand, step], Attrs::new()));
        *operand = graph.node(set.expect("a slot of its own")).results[0];
        let end = graph.terminator(body).expect("a body ends with a yield");
        let mut yields = graph.node(end).operands.clone();
        yields.insert(carried, *operand);
        graph.set_operands(end, yields);
        graph.add_result(owner, ty, "steps");
    }
    if operands.get(3) != Some(&step) {
        operands.insert(3, step);
    }
    graph.set_operands(id, operands);
}

impl Model {
    /// Its forward graph with the loss of a classifier.
    pub fn with_loss(&self) -> Graph {
        let binding = binding(Objective::Classify);
        let made = lower(&self.spec, &binding).and_then(|mut graph| attach_loss(&mut graph, &binding).map(|()| graph));
        made.unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// True when the model folds its rows to one vector, whole or by chunks: no position has an answer of its own.
    pub fn folds(&self) -> bool {
        self.spec.root.any(&|block| block.slot == "recurse")
    }

    /// True when the model has a recursion that leaves rows when little of them exists.
    pub fn fades(&self) -> bool {
        self.spec.root.any(&|block| block.slot == "recurse" && block.variant == "continuous")
    }

    /// True when the model says its loss itself.
    pub fn pays(&self) -> bool {
        self.says(&["loss"])
    }

    /// True when rows or positions leave a loop by a condition of their own.
    pub fn leaves(&self) -> bool {
        self.says(&["go", "until"])
    }

    /// True when a number of steps is drawn.
    pub fn draws(&self) -> bool {
        self.spec.root.any(&|block| block.expr("steps").is_some_and(Expr::holds_draw))
    }

    /// True when it computes values for chosen positions alone.
    pub fn chooses(&self) -> bool {
        self.spec.root.any(&|block| block.feature.text().is_some_and(|text| text.contains("among(")))
    }

    /// True when one of its equations begins with one of the words.
    fn says(&self, words: &[&str]) -> bool {
        let begins = |line: &str| line.split_whitespace().next().is_some_and(|word| words.contains(&word));
        self.written(&|text| text.lines().any(begins))
    }

    /// True when one of its equations has this text in it.
    fn mentions(&self, part: &str) -> bool {
        self.written(&|text| text.contains(part))
    }

    /// Whether the equations of a statement, those of the library among them, have a property.
    fn written(&self, property: &dyn Fn(&str) -> bool) -> bool {
        let library = |block: &Block| block.feature.definition().is_some_and(|own| property(&own.text));
        self.spec.root.any(&|block| block.feature.text().is_some_and(property) || library(block))
    }

    /// True when rows or positions of the model halt by a probability.
    pub fn halts(&self) -> bool {
        self.spec.root.any(&|block| block.slot == "halt" && block.word("keys").is_some())
    }
}
