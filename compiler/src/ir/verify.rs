//! The verifier: checks that a graph means something.
//!
//! **Values.** Every operand is a result or a region parameter of this graph, defined before its use in the same
//! region or in a region around it. No value depends on itself.
//!
//! **Structure.** Every region ends with its only terminator: `return` for the outermost, `yield` for bodies. Loops have a
//! body and nothing else has. Inputs and parameters lie in the outermost region. `save` lies in the body of a
//! forward loop, at most one in each.
//!
//! **Types.** Operand count, kinds of elements, attribute names and result types agree with the op's row. Only the first two axes of a value,
//! its rows and their positions, have sizes that a batch decides. Attributes that an op cannot do
//! without are there and of their kind, and masks, biases and bounds are expressions. Symbolic axes are those of a batch, those that only a task knows, and inside a
//! loop over slices the loop's own. A tape goes to one `save` or one `unwind` and nowhere else.
//!
//! **Names.** Names of inputs, parameters, results, groups and slots are words with `.` between them, and axes are words. Inputs have
//! distinct names, so have parameters. `return` names each of its operands. `accumulate` names a
//! parameter and adds a value of its type.
//!
//! **Loops.** What each takes and gives is listed in `interface`, where it is checked. A weight that is read step by step has a
//! place for every step that its recurrence can take. Numbers of steps alone can be drawn, and have a largest value.
//!
//! A graph without violations runs through every pass, the cost rules and the kernels without panic (`numerics mutated`). Not checked:
//! whether a stream is meant to be shared.

mod interface;
mod names;

pub use interface::uncounted;

use super::attribute::{self, StepBound};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::document;
use super::graph::{Graph, MAIN, NewNode, NodeId, RegionId, Value};
use super::loops;
use super::ops::{Flag, Op, Takes};
use super::schedule::recur::{is_bounded, most};
use super::text;
use super::types::{Attr, BATCH, CLASSES, Dim, Elem, FRAMED, LENGTH, PAIRS, Type, VOCAB, unframed};
use crate::expr::{Expr, Var};

/// Attributes that hold an expression of the language, or of a mask one of two words.
const EXPRESSIONS: [&str; 6] = [
    attribute::MASK.row.name,
    attribute::SCORE.row.name,
    attribute::STOP.row.name,
    attribute::BOUND.row.name,
    attribute::OF.row.name,
    attribute::ANGLE.row.name,
];

/// A broken invariant. Always a fault of the compiler, never of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The node; none for the graph as a whole.
    pub id: Option<NodeId>,
    /// The text of the node, empty for the graph as a whole.
    pub node: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.node.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{}\n  {}", self.message, self.node)
        }
    }
}

/// Checks every invariant of the module's list and gives all violations. Types and loops are looked at only when values
/// and structure are sound.
pub fn verify(graph: &Graph) -> Result<(), Vec<Violation>> {
    let mut checker = GraphChecker { graph, names: document::names(graph), found: vec![] };
    checker.values();
    for node in graph.walk(MAIN) {
        checker.place(node);
    }
    checker.regions();
    if checker.found.is_empty() {
        let symbols = [BATCH, LENGTH, FRAMED, PAIRS, VOCAB, CLASSES].map(str::to_owned).into();
        checker.symbols(MAIN, &symbols);
        for node in graph.walk(MAIN) {
            checker.row(node);
            checker.attributes(node);
            checker.words(node);
            checker.draws(node);
            match graph.node(node).op {
                Op::Recur => checker.recur(node),
                Op::Chunks => checker.chunks(node),
                Op::Fold => checker.fold(node),
                Op::Beam => checker.beam(node),
                Op::Part => checker.part(node),
                Op::Unwind => checker.unwind(node),
                Op::Embed | Op::EmbedGrad => checker.of_step(node),
                Op::Top => checker.top(node),
                Op::PadRagged | Op::PadRaggedGrad => checker.filled(node),
                _ => {}
            }
        }
        checker.tapes();
        checker.model_names();
    }
    if checker.found.is_empty() { Ok(()) } else { Err(checker.found) }
}

struct GraphChecker<'g> {
    graph: &'g Graph,
    names: Vec<String>,
    found: Vec<Violation>,
}

impl GraphChecker<'_> {
    fn say(&mut self, id: NodeId, message: impl Into<String>) {
        let node = text::node_line(&document::node_doc(self.graph, id, &self.names));
        self.found.push(Violation { id: Some(id), node, message: message.into() });
    }

    fn say_graph(&mut self, message: impl Into<String>) {
        self.found.push(Violation { id: None, node: String::new(), message: message.into() });
    }

    // Values.

    fn values(&mut self) {
        let mut visible = BTreeSet::new();
        self.values_of(MAIN, &mut visible);
        if self.found.is_empty() && !self.graph.is_acyclic() {
            self.say_graph("a value depends on itself");
        }
    }

    fn values_of(&mut self, region: RegionId, visible: &mut BTreeSet<Value>) {
        let graph = self.graph;
        for &id in graph.nodes(region) {
            let node = graph.node(id);
            for (n, value) in node.operands.iter().enumerate() {
                if !visible.contains(value) {
                    let name = &self.names[value.index()];
                    let what = match name.as_str() {
                        "" => "is not a value of the graph".to_owned(),
                        name => format!("(%{name}) is not defined before, here or in a region around"),
                    };
                    self.say(id, format!("operand {n} {what}"));
                }
            }
            if let Some(body) = node.body {
                let mut inner = visible.clone();
                inner.extend(graph.params(body));
                self.values_of(body, &mut inner);
            }
            visible.extend(&node.results);
        }
    }

    // Structure.

    fn place(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let owner = self.graph.owner(node.region).map(|o| self.graph.node(o).op);
        if node.op.has(Flag::Loop) != node.body.is_some() {
            self.say(id, if node.body.is_some() { "only loops have a body" } else { "a loop needs a body" });
        }
        if node.op.has(Flag::Leaf) && node.region != MAIN {
            self.say(id, "inputs and parameters lie in the outermost region");
        }
        if node.op == Op::Save && !owner.is_some_and(loops::is_forward) {
            self.say(id, "`save` lies in the body of a forward loop");
        }
        let expected = if node.region == MAIN { Op::Return } else { Op::Yield };
        if node.op.has(Flag::Terminator) && node.op != expected {
            self.say(id, format!("this region ends with `{expected}`"));
        } else if node.op.has(Flag::Terminator) && self.graph.nodes(node.region).last() != Some(&id) {
            self.say(id, "a terminator stands before the end of its region");
        }
    }

    fn regions(&mut self) {
        let bodies: Vec<(Option<NodeId>, RegionId)> =
            self.graph.walk(MAIN).into_iter().filter_map(|n| Some((Some(n), self.graph.node(n).body?))).collect();
        for (owner, region) in [(None, MAIN)].into_iter().chain(bodies) {
            if self.graph.terminator(region).is_none() {
                match owner {
                    Some(owner) => self.say(owner, "the body does not end with `yield`"),
                    None => self.say_graph("the graph does not end with `return`"),
                }
            }
            let saves = self.graph.nodes(region).iter().filter(|n| self.graph.node(**n).op == Op::Save).count();
            if let (Some(owner), 2..) = (owner, saves) {
                self.say(owner, "the body has more than one `save`");
            }
        }
    }

    // Types.

    fn row(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let types: Vec<Type> = self.types(&node.results);
        let declared = node.op.has(Flag::Leaf) || node.op.has(Flag::Loop);
        let new = NewNode {
            op: node.op,
            operands: node.operands.clone(),
            attrs: node.attrs.clone(),
            types: if declared { types.clone() } else { vec![] },
            body: None,
            label: String::new(),
        };
        match self.graph.infer(&new) {
            Err(invalid) => self.say(id, invalid.0),
            Ok(inferred) if inferred != types => self.say(id, format!("the row gives {}", list(&inferred))),
            Ok(_) if node.op.has(Flag::Leaf) && types.len() != 1 => self.say(id, "a leaf gives one result"),
            Ok(_) => {}
        }
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.graph.ty(*v).clone()).collect()
    }

    fn attributes(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        for Takes { attribute, optional } in node.op.def().attrs() {
            let name = attribute.name;
            match node.attrs.iter().find(|(given, _)| *given == name) {
                None if !optional => self.say(id, format!("attribute `{name}` is missing")),
                Some((_, value)) if !(attribute.fits)(value) => {
                    self.say(id, format!("attribute `{name}` is not {}", (attribute.expected)()));
                }
                Some((_, value))
                    if EXPRESSIONS.contains(&name) && !["all", "causal"].map(Some).contains(&value.text()) =>
                {
                    if let Err(why) = Expr::try_from(value) {
                        self.say(id, format!("attribute `{name}`: {why}"));
                    }
                }
                _ => {}
            }
        }
    }

    /// Only a number of steps can be drawn, and it says what it is at most.
    fn draws(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let read = |attr: Option<&Attr>| attr.and_then(|attr| Expr::try_from(attr).ok());
        let of = node.find(attribute::OF).and_then(StepBound::rule);
        let stop = node.find(attribute::STOP);
        let seen = [node.get(attribute::MASK).rule(), node.find(attribute::SCORE), stop, of];
        if seen.into_iter().filter_map(read).any(|expr| expr.holds_draw()) {
            self.say(id, "a mask, a score or a number of choices holds a draw");
        }
        let bound = read(node.find(attribute::BOUND).and_then(StepBound::rule));
        if bound.is_some_and(|bound| !is_bounded(&bound)) {
            self.say(id, "a number of steps that is drawn needs a largest value, as in `min(.., 64)`");
        }
    }

    /// Axes of every value defined in the region are known there.
    fn symbols(&mut self, region: RegionId, known: &BTreeSet<String>) {
        let graph = self.graph;
        for &id in graph.nodes(region) {
            let node = graph.node(id);
            self.axes(id, &node.results, known);
            if let Some(cap) = node.find(attribute::CAP).filter(|cap| !is_known(cap, known)) {
                self.say(id, format!("no axis is called `{cap}` here"));
            }
            if let Some(body) = node.body {
                let mut inner = known.clone();
                inner.extend(
                    [attribute::AXIS, attribute::FILLED]
                        .into_iter()
                        .filter_map(|key| node.find(key))
                        .map(str::to_owned),
                );
                self.axes(id, graph.params(body), &inner);
                self.symbols(body, &inner);
            }
        }
    }

    fn axes(&mut self, id: NodeId, values: &[Value], known: &BTreeSet<String>) {
        let axes = values.iter().flat_map(|v| self.graph.ty(*v).dims());
        let unknown = axes.filter_map(Dim::symbol).find(|axis| !is_known(axis, known));
        if let Some(symbol) = unknown {
            self.say(id, format!("no axis is called `{symbol}` here"));
        }
        if let Some(ty) = values.iter().map(|v| self.graph.ty(*v)).find(|ty| !has_places(ty)) {
            self.say(id, format!("{ty}: rows are the first axis, and positions the second, behind that of the rows"));
        }
    }

    fn tapes(&mut self) {
        let mut reader: BTreeMap<Value, NodeId> = BTreeMap::new();
        for id in self.graph.walk(MAIN) {
            let node = self.graph.node(id);
            for (n, value) in node.operands.iter().enumerate() {
                if *self.graph.ty(*value) != Type::Tape {
                    continue;
                }
                if !(node.op == Op::Save || (node.op == Op::Unwind && n == 0)) {
                    self.say(id, "a tape goes to `save` or is the first operand of `unwind`");
                } else if reader.insert(*value, id).is_some() {
                    self.say(id, format!("the tape %{} is read twice", self.names[value.index()]));
                }
            }
        }
    }

    /// Rows are filled to the axis of a fold, whose chunks they are.
    fn filled(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let values = if node.op == Op::PadRagged { [&node.results, &node.operands] } else { [&node.operands; 2] };
        let at = usize::from(node.op == Op::PadRaggedGrad);
        let (Some(full), Some(short)) = (values[0].first(), values[1].get(at)) else { return };
        let axes = [*full, *short].map(|v| self.graph.ty(v).ragged());
        let mut around = std::iter::successors(self.graph.owner(node.region), |owner| {
            self.graph.owner(self.graph.node(*owner).region)
        });
        let of = |owner: NodeId| [attribute::FILLED, attribute::AXIS].map(|key| self.graph.node(owner).find(key));
        if !around.any(|owner| of(owner) == axes) {
            self.say(id, "only the chunks of a fold around are filled, to its axis `filled`");
        }
    }

    /// The steps of the recurrence have places in a weight that a counter reads.
    fn of_step(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(step), Some(w)) = (node.operands.first(), node.operands.last()) else { return };
        if !self.graph.ty(*step).dims().is_empty() {
            return;
        }
        let Some(recur) = loops::counted(self.graph, *step) else {
            return self.say(id, "its counter is not the step of a `recur`");
        };
        let places = self.graph.ty(*w).dims().first().and_then(Dim::fixed).unwrap_or(0);
        let most = self.graph.node(recur).find(attribute::BOUND).map_or(f64::INFINITY, most);
        if most > places as f64 {
            let steps = if most.is_finite() { format!("up to {most}") } else { "any number of".to_owned() };
            self.say(id, format!("the recurrence takes {steps} steps, the weight has places for {places}"));
        }
    }

    /// How many are chosen reads the length of rows whose positions are chosen, and the step alone.
    fn top(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let rule = node.find(attribute::OF).and_then(StepBound::rule).and_then(|rule| Expr::try_from(rule).ok());
        let Some(rule) = rule else { return };
        let step = node.operands.last().is_some_and(|v| self.graph.ty(*v).elem() == Some(Elem::Index));
        let along = node.operands.first().is_some_and(|x| self.graph.ty(*x).dims().len() == 2);
        let ragged = along && node.operands.first().is_some_and(|x| self.graph.ty(*x).ragged().is_some());
        if rule.uses(Var::Step) && !step || rule.uses(Var::Length) && !ragged {
            self.say(id, "the number of choices reads a step or a length that is not there");
        }
        if rule.holds_given() || [Var::I, Var::J, Var::Head].into_iter().any(|var| rule.uses(var)) {
            self.say(id, "the number of choices reads more than the length and the step");
        }
    }
}

/// Whether only the first axes of a type have sizes that a batch decides: rows, and positions of rows.
fn has_places(ty: &Type) -> bool {
    let by_batch = |dim: &Dim| dim.symbol().is_some_and(|axis| ![VOCAB, CLASSES].contains(&axis));
    let [first, rest @ ..] = ty.dims() else { return true };
    let rows = !by_batch(first) || [BATCH, PAIRS].map(Some).contains(&first.symbol());
    rows && match rest.iter().position(by_batch) {
        None => true,
        Some(0) => ty.is_batched() && !rest[1..].iter().any(by_batch),
        Some(_) => false,
    }
}

/// Whether an axis, or what START and END stand around in it, is among those that are known.
fn is_known(axis: &str, known: &BTreeSet<String>) -> bool {
    known.contains(axis) || known.contains(unframed(axis).0)
}

fn list(types: &[Type]) -> String {
    if types.is_empty() {
        return "nothing".to_owned();
    }
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
