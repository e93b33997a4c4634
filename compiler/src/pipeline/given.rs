//! Models that are given as graphs: the text of a forward graph, as `rtc compile --emit graph` prints it, in the place of a spec.
//!
//! What lowering guarantees of its graphs is checked of a text, with the place of every problem: it reads back, it is valid, it is
//! a forward graph with the inputs and results of a model, its rows are independent, and its sizes are those of the task. If
//! the task asks for later tokens, the graph must provably not see them.

use std::collections::BTreeMap;

use crate::causality::{Leak, Why, analyse, leaks};
use crate::ir::attribute::{self, StepBound};
use crate::ir::dependence::Dependence;
use crate::ir::document::{GraphDocument, NodeDoc, Problem};
use crate::ir::graph::{Graph, MAIN, Node, NodeId, Value};
use crate::ir::hash;
use crate::ir::ops::Op;
use crate::ir::text;
use crate::ir::types::{Attr, BATCH, CLASSES, Dim, Elem, LENGTH, PAIRS, Type, VOCAB};
use crate::ir::verify::verify;
use crate::lower::{Binding, forget};
use crate::pass::dce;
use crate::schema::{Catalog, Objective};
use crate::source::Position;

/// The most numbers of a value, for every row and position of it.
const LARGEST: u128 = 1 << 40;

/// The most steps of a recurrence.
pub const MOST_STEPS: usize = 1_000_000;

/// The most nodes, each counted three times for every loop around it: costs and memory walk three steps of a loop.
pub const MOST_WALKED: usize = 2_000_000;

/// How parameters may start.
const STARTS: &[&str] = &[
    "zeros",
    "ones",
    "pairs_of_one",
    "identity",
    "unit",
    "normal",
    "xavier",
    "fan_in",
    "constant",
    "uniform",
    "alternating",
    "s4d_inverse",
    "orthogonal",
];

/// A model that was given as a graph. Its sizes may be symbols that only a task gives.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenGraph {
    document: GraphDocument,
    hash: String,
}

impl GivenGraph {
    /// Reads the text of a forward graph.
    ///
    /// # Errors
    /// Every problem, at its place.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let document = text::read(text).map_err(|problem| vec![problem])?;
        let graph = document.to_graph()?;
        let judge = Judge::new(&graph, &document);
        judge.validity()?;
        judge.model()?;
        Ok(Self { hash: hash::hash(&graph), document })
    }

    /// The name of the model.
    pub fn name(&self) -> &str {
        &self.document.graph
    }

    /// The text of the graph, as it is printed.
    pub fn text(&self) -> String {
        text::write(&self.document)
    }

    /// The hash of the graph before a task gave it sizes.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The graph for a task. Sizes that only a task gives stay symbols without one.
    ///
    /// # Errors
    /// What does not fit the task.
    pub fn forward(&self, task: &Catalog) -> Result<Graph, Vec<Problem>> {
        let binding = Binding::from(task);
        let sizes = [(VOCAB, binding.vocab), (CLASSES, binding.outputs())];
        let sizes: Vec<(&str, usize)> = sizes.into_iter().filter_map(|(axis, size)| Some((axis, size?))).collect();
        let document = self.document.sized(&sizes);
        let graph = document.to_graph()?;
        let judge = Judge::new(&graph, &document);
        judge.validity()?;
        judge.task(task)?;
        Ok(graph)
    }
}

/// Checks a graph, and knows where its nodes stand in the text.
struct Judge<'g> {
    graph: &'g Graph,
    places: BTreeMap<NodeId, Position>,
    heads: BTreeMap<NodeId, String>,
}

impl<'g> Judge<'g> {
    fn new(graph: &'g Graph, document: &GraphDocument) -> Self {
        /// The nodes as `Graph::walk` visits them.
        fn walk<'d>(nodes: &'d [NodeDoc], found: &mut Vec<&'d NodeDoc>) {
            for node in nodes {
                found.push(node);
                walk(node.body.as_ref().map_or(&[], |body| &body.nodes), found);
            }
        }
        let mut written = vec![];
        walk(&document.nodes, &mut written);
        let nodes = graph.walk(MAIN);
        let places = nodes.iter().zip(&written).filter_map(|(id, node)| Some((*id, node.at?))).collect();
        let heads = nodes.iter().zip(&written).map(|(id, node)| (*id, node.head())).collect();
        Self { graph, places, heads }
    }

    fn problem(&self, id: NodeId, message: impl Into<String>) -> Problem {
        Problem { at: self.places.get(&id).copied(), node: self.heads[&id].clone(), message: message.into() }
    }

    /// A problem of a value: where it is made.
    fn of_value(&self, value: Value, message: impl Into<String>) -> Problem {
        match self.graph.producer(value) {
            Some(id) => self.problem(id, message),
            None => of_graph(message),
        }
    }

    fn nodes(&self) -> impl Iterator<Item = (NodeId, &'g Node)> {
        self.graph.walk(MAIN).into_iter().map(|id| (id, self.graph.node(id)))
    }

    /// The invariants of graphs, and sizes with which can be counted.
    fn validity(&self) -> Result<(), Vec<Problem>> {
        let place = |id: NodeId| self.places.get(&id).copied();
        verify(self.graph).map_err(|violations| {
            let problem = |found: crate::ir::verify::Violation| Problem {
                at: found.id.and_then(place),
                node: found.id.map_or_else(String::new, |id| self.heads[&id].clone()),
                message: found.message,
            };
            violations.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        let mut found = vec![];
        for (id, node) in self.nodes() {
            let inside = node.body.map_or(&[][..], |body| self.graph.params(body));
            let large = |value: &&Value| numbers(self.graph.ty(**value)) > LARGEST;
            if let Some(value) = node.results.iter().chain(inside).find(large) {
                found.push(self.problem(id, format!("{} has more than 2^40 numbers", self.graph.ty(*value))));
            }
        }
        let parameters =
            self.graph.parameters().iter().map(|parameter| numbers(&parameter.ty)).fold(0, u128::saturating_add);
        if parameters > LARGEST {
            found.push(of_graph("the graph has more than 2^40 trainable numbers"));
        }
        end(found)
    }

    /// Whether a node is an input of numbers that come with the rows, as `x = given(..)` takes them.
    fn comes_with_rows(&self, node: &Node) -> bool {
        let ty = self.graph.ty(node.results[0]);
        !["tokens", "labels", "weights"].contains(&node.get(attribute::NAME)) && ty.is_real() && ty.is_batched()
    }

    /// What every model has: the tokens as its input, answers, and nothing of a training step.
    fn model(&self) -> Result<(), Vec<Problem>> {
        let mut found = vec![];
        if !is_model_name(&self.graph.name) {
            let message = format!(
                "`{}` is no name of a model: one has letters, digits, `_` and `:`, as in `graph \"gut:no_gate\"`",
                self.graph.name
            );
            found.push(of_graph(message));
        }
        let tokens = Type::Tensor(Elem::Index, vec![Dim::sym(BATCH), Dim::sym(LENGTH)]);
        // The losses of the model itself read the labels, or which tokens have one, and nothing else does.
        let pays = ["answered", "penalty"].iter().any(|name| self.graph.output(name).is_some());
        for (id, node) in self.nodes() {
            match node.op {
                Op::Input if pays && ["labels", "weights"].contains(&node.get(attribute::NAME)) => {}
                Op::Input if self.comes_with_rows(node) => {}
                Op::Input if node.get(attribute::NAME) != "tokens" || *self.graph.ty(node.results[0]) != tokens => {
                    let message = format!(
                        "the only input of a model is `tokens`, {tokens}, besides real numbers of the rows: this is no forward graph"
                    );
                    found.push(self.problem(id, message));
                }
                Op::Accumulate | Op::Save => found.push(self.trained(id)),
                op if op.def().dependence == Dependence::Backward => found.push(self.trained(id)),
                Op::Param if !is_start(node.get(attribute::INIT)) => {
                    let message = format!(
                        "a parameter starts as one of {}, with numbers; a cut of `normal` is above 0",
                        STARTS.join(", ")
                    );
                    found.push(self.problem(id, message));
                }
                Op::Param if !is_weight(self.graph.ty(node.results[0])) => {
                    let message = "a parameter is an array of numbers, as f32[16, 8] or f32[vocab, 8]";
                    found.push(self.problem(id, message));
                }
                Op::Recur if node.get(attribute::BOUND).steps().is_some_and(|steps| steps > MOST_STEPS) => {
                    found.push(self.problem(id, format!("a recurrence takes at most {MOST_STEPS} steps")));
                }
                _ => {}
            }
        }
        let reads = |unwanted: &[&str], inputs: &[&str]| {
            let mut rest = self.graph.clone();
            forget(&mut rest, unwanted);
            dce::run(&mut rest);
            let read = |node: &Node| node.op == Op::Input && inputs.contains(&node.get(attribute::NAME));
            rest.walk(MAIN).into_iter().any(|id| read(rest.node(id)))
        };
        if reads(&["answered"], &["labels"]) || reads(&["answered", "penalty"], &["weights"]) {
            found.push(of_graph(
                "the labels reach more than the loss `answered`: no answer may depend on them".to_owned(),
            ));
        }
        found.extend(self.results());
        found.extend(self.loops());
        end(found)
    }

    /// Loops within each other that would take too long.
    fn loops(&self) -> Vec<Problem> {
        let steps = |id: NodeId| self.graph.node(id).find(attribute::BOUND).and_then(StepBound::steps).unwrap_or(1);
        let around =
            |id: NodeId| std::iter::successors(Some(id), |id| self.graph.owner(self.graph.node(*id).region)).skip(1);
        let taken = |id: NodeId| around(id).map(steps).fold(steps(id), usize::saturating_mul);
        let bodies = self.nodes().filter(|(_, node)| node.op == Op::Recur).map(|(id, _)| id);
        let long = |id: &NodeId| {
            taken(*id) > MOST_STEPS && steps(*id) <= MOST_STEPS && around(*id).all(|outer| taken(outer) <= MOST_STEPS)
        };
        let problem =
            |id| self.problem(id, format!("loops within each other take at most {MOST_STEPS} steps, multiplied"));
        let mut found: Vec<Problem> = bodies.filter(long).map(problem).collect();
        let walks = |id: NodeId| 3_usize.saturating_pow(around(id).count() as u32);
        let all = self.nodes().map(|(id, _)| walks(id)).fold(0, usize::saturating_add);
        if all > MOST_WALKED {
            let message = format!(
                "the graph has more than {MOST_WALKED} nodes, each counted three times for every loop around it: put fewer loops \
                 within each other"
            );
            found.push(of_graph(message));
        }
        found
    }

    fn trained(&self, id: NodeId) -> Problem {
        let op = self.graph.node(id).op;
        self.problem(
            id,
            format!(
                "`{op}` belongs to a loss or its gradient; the forward graph is wanted, as `--emit graph` prints it"
            ),
        )
    }

    /// The results, of which the answers must be there.
    fn results(&self) -> Vec<Problem> {
        let per_row = Type::real([Dim::sym(BATCH)]);
        let number = || Type::real([]);
        let known =
            [("answered", number()), ("penalty", number()), ("halting_cost", per_row.clone()), ("depth", per_row)];
        let mut found = vec![];
        let Some(end) = self.graph.terminator(MAIN) else { return found };
        let names = self.graph.node(end).get(attribute::NAMES).split(',').map(str::trim);
        for (name, value) in names.zip(&self.graph.node(end).operands) {
            let ty = self.graph.ty(*value);
            match known.iter().find(|(known, _)| *known == name) {
                _ if name == "logits" => {
                    let fits = SHAPES.iter().any(|(_, axes)| has_axes(ty, axes));
                    let message =
                        format!("the answers are {ty}: a row has f32[batch, n], a token f32[batch, length, n]");
                    found.extend((!fits).then(|| self.of_value(*value, message)));
                }
                Some((_, wanted)) if wanted != ty => {
                    found.push(self.of_value(*value, format!("`{name}` is {wanted}, not {ty}")));
                }
                Some(_) => {}
                None => {
                    let message = format!(
                        "there is no result `{name}`: a model gives logits, answered, penalty, halting_cost, depth"
                    );
                    found.push(self.problem(end, message));
                }
            }
        }
        if self.graph.output("logits").is_none() {
            found.push(self.problem(end, "the graph returns no `logits`, the answers of a model"));
        }
        found
    }

    /// What a task asks for.
    fn task(&self, task: &Catalog) -> Result<(), Vec<Problem>> {
        let mut found = vec![];
        let name = task.task.as_deref().unwrap_or("its task");
        let Some(logits) = self.graph.output("logits") else { return Ok(()) };
        for (id, node) in self.nodes().filter(|(_, node)| node.op == Op::Embed) {
            let table = node.operands[1];
            let own = self.graph.ty(table).dims().first().and_then(Dim::fixed);
            if let (Some(own), Some(wanted)) = (own, task.vocabulary)
                && own != wanted
                && self.is_tokens(node.operands[0])
            {
                let id = self.graph.producer(table).unwrap_or(id);
                found.push(
                    self.problem(
                        id,
                        format!("the graph has a vocabulary of {own} tokens, and `{name}` one of {wanted}"),
                    ),
                );
            }
        }
        let ty = self.graph.ty(logits);
        if let Some(objective) = task.objective
            && let Some((asked, axes)) = SHAPES.iter().find(|(asked, _)| asked.contains(&objective))
            && !has_axes(ty, axes)
        {
            let per = match asked[..] {
                [Objective::Pair] => "pair",
                [Objective::Each] => "token",
                _ => "row",
            };
            found.push(self.of_value(logits, format!("`{name}` asks for answers per {per}, and the graph gives {ty}")));
        }
        if let (Some(own), Some(wanted)) = (ty.dims().last().and_then(Dim::fixed), Binding::from(task).outputs())
            && own != wanted
        {
            found.push(self.of_value(
                logits,
                format!("the graph gives {own} numbers for an answer, and `{name}` asks for {wanted}"),
            ));
        }
        if task.next_token {
            found.extend(leaks(self.graph, "logits").iter().map(|leak| self.leak(leak, name)));
        }
        found.extend(
            self.mixture(logits).map(|(id, op)| self.problem(id, format!("`{op}` mixes the rows of the batch"))),
        );
        end(found)
    }

    /// The node through which an answer depends on other rows, besides the two rows of a pair.
    fn mixture(&self, logits: Value) -> Option<(NodeId, Op)> {
        let path = analyse(self.graph).leak(logits)?.path;
        path.iter().find_map(|step| match step.why {
            Why::Mixes(op) if op != Op::Pair => Some((step.node, op)),
            _ => None,
        })
    }

    fn is_tokens(&self, value: Value) -> bool {
        self.graph.producer(value).is_some_and(|id| self.graph.node(id).op == Op::Input)
    }

    fn leak(&self, leak: &Leak, task: &str) -> Problem {
        let op = self.graph.node(leak.node).hint();
        let message = format!("`{task}` asks for later tokens, and `{op}` {}", leak.why.describe());
        self.problem(leak.node, message)
    }
}

/// The axes of the answers before the last one, by what is asked for.
const SHAPES: &[(&[Objective], &[&str])] = &[
    (&[Objective::Classify, Objective::Number, Objective::Several], &[BATCH]),
    (&[Objective::Pair], &[PAIRS]),
    (&[Objective::Each], &[BATCH, LENGTH]),
];

/// Whether a value is an array of numbers with these axes and one more, which no batch decides.
fn has_axes(ty: &Type, axes: &[&str]) -> bool {
    let symbols: Vec<Option<&str>> = ty.dims().iter().map(Dim::symbol).collect();
    let Some((last, first)) = symbols.split_last() else { return false };
    let own = last.is_none_or(|axis| [VOCAB, CLASSES].contains(&axis));
    ty.is_real() && own && first.iter().eq(axes.iter().map(|axis| Some(*axis)).collect::<Vec<_>>().iter())
}

fn of_graph(message: impl Into<String>) -> Problem {
    Problem { at: None, node: String::new(), message: message.into() }
}

fn end(found: Vec<Problem>) -> Result<(), Vec<Problem>> {
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// How many numbers a value has, for every row and position.
fn numbers(ty: &Type) -> u128 {
    ty.dims().iter().filter_map(Dim::fixed).fold(1, |all, size| all.saturating_mul(size as u128))
}

/// Whether a value can be trained: no batch decides its sizes.
fn is_weight(ty: &Type) -> bool {
    let own = |dim: &Dim| dim.symbol().is_none_or(|axis| [VOCAB, CLASSES].contains(&axis));
    ty.is_real() && ty.dims().iter().all(own)
}

/// Whether a parameter can start so.
fn is_start(start: &Attr) -> bool {
    let finite = |arg: &Attr| arg.float().is_some_and(f64::is_finite);
    match start {
        Attr::Word(name) => STARTS[..4].contains(&name.as_str()),
        // Normal numbers can't be cut at or below 0.
        Attr::Call(name, args)
            if name == "normal" && args.get(1).and_then(Attr::float).is_some_and(|cut| cut <= 0.0) =>
        {
            false
        }
        Attr::Call(name, args) => STARTS[4..].contains(&name.as_str()) && args.iter().all(finite),
        _ => false,
    }
}

/// Whether a text is `model` or `model:variant`, of which names of folders are made.
fn is_model_name(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    !text.is_empty() && text.split(':').all(is_word)
}
