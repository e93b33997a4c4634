//! A graph as plain data with names instead of ids: what the text form, YAML and JSON hold.
//!
//! Names are unique in a document and follow the hints of the values, in print order. Reading checks everything that
//! building a graph needs (ops, arity, attributes, names, types by the shape rules) and reports all problems; it
//! does not replace [`verify`](super::verify).

use super::attribute::Attrs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::attr;
use super::graph::{Graph, MAIN, NewNode, NodeId, RegionId, Value};
use super::ops::{Flag, Op};
use super::pointwise::{self, Pointwise};
use super::types::{Dim, Type};
use crate::source::Position;

/// How deep loops may nest in a document.
pub const NESTING: usize = 32;
/// The largest size of an axis in a document.
const LARGEST: usize = 1 << 32;

/// A whole graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphDocument {
    /// The name of the model.
    pub graph: String,
    /// Nodes of the outermost region in execution order.
    pub nodes: Vec<NodeDoc>,
}

/// A value where it is defined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The name, without `%`.
    pub name: String,
    /// The type in the text form.
    #[serde(rename = "type")]
    pub ty: String,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDoc {
    /// What it gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Named>,
    /// The name of the op.
    pub op: String,
    /// Names of the operands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operands: Vec<String>,
    /// Attributes in the text form, in the order of their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, String>,
    /// The slot of the spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The body of a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RegionDocument>,
    /// Where the node starts in a text.
    #[serde(skip)]
    pub at: Option<Position>,
}

/// The region of a loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionDocument {
    /// Its parameters.
    pub params: Vec<Named>,
    /// Its nodes.
    pub nodes: Vec<NodeDoc>,
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place in the text, when the document was read from one.
    pub at: Option<Position>,
    /// The node: `%x = add`; empty for the document itself.
    pub node: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{at}: ")?;
        }
        if !self.node.is_empty() {
            write!(f, "in `{}`: ", self.node)?;
        }
        write!(f, "{}", self.message)
    }
}

impl Named {
    fn sized(&self, sizes: &[(&str, usize)]) -> Self {
        let size = |dim: &Dim| {
            let found = sizes.iter().find(|(axis, _)| dim.symbol() == Some(*axis));
            found.map_or_else(|| dim.clone(), |(_, size)| Dim::Fixed(*size))
        };
        let ty = match self.ty.parse() {
            Ok(Type::Tensor(elem, dims)) => Type::Tensor(elem, dims.iter().map(size).collect()).to_string(),
            _ => self.ty.clone(),
        };
        Self { name: self.name.clone(), ty }
    }
}

impl NodeDoc {
    fn sized(&self, sizes: &[(&str, usize)]) -> Self {
        let values = |values: &[Named]| values.iter().map(|value| value.sized(sizes)).collect();
        let body = self.body.as_ref().map(|body| RegionDocument {
            params: values(&body.params),
            nodes: body.nodes.iter().map(|node| node.sized(sizes)).collect(),
        });
        Self { results: values(&self.results), body, ..self.clone() }
    }

    /// Results and op, to say which node is meant.
    pub fn head(&self) -> String {
        let names: Vec<String> = self.results.iter().map(|r| format!("%{}", r.name)).collect();
        if names.is_empty() { self.op.clone() } else { format!("{} = {}", names.join(", "), self.op) }
    }
}

/// Unique names of the values of a graph, by value index; empty for values that no node of the graph defines.
pub fn names(graph: &Graph) -> Vec<String> {
    let mut names =
        UniqueNames { taken: BTreeSet::new(), next: BTreeMap::new(), out: vec![String::new(); graph.value_count()] };
    for node in graph.walk(MAIN) {
        let node = graph.node(node);
        let params = node.body.map_or(&[][..], |b| graph.params(b));
        for value in node.results.iter().chain(params) {
            names.give(*value, graph.hint(*value));
        }
    }
    names.out
}

struct UniqueNames {
    taken: BTreeSet<String>,
    /// The next number to try for a hint.
    next: BTreeMap<String, usize>,
    out: Vec<String>,
}

impl UniqueNames {
    fn give(&mut self, value: Value, hint: &str) {
        let mut base: String = hint.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            base.insert(0, 'v');
        }
        let mut name = base.clone();
        while !self.taken.insert(name.clone()) {
            let next = self.next.entry(base.clone()).or_insert(1);
            name = format!("{base}_{next}");
            *next += 1;
        }
        self.out[value.index()] = name;
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_name_char)
}

impl From<&Graph> for GraphDocument {
    fn from(graph: &Graph) -> Self {
        let names = names(graph);
        Self { graph: graph.name.clone(), nodes: region_nodes(graph, MAIN, &names) }
    }
}

fn region_nodes(graph: &Graph, region: RegionId, names: &[String]) -> Vec<NodeDoc> {
    let with_body = |id: &NodeId| {
        let body = graph.node(*id).body.map(|body| RegionDocument {
            params: graph.params(body).iter().map(|v| named(graph, *v, names)).collect(),
            nodes: region_nodes(graph, body, names),
        });
        NodeDoc { body, ..node_doc(graph, *id, names) }
    };
    graph.nodes(region).iter().map(with_body).collect()
}

fn named(graph: &Graph, value: Value, names: &[String]) -> Named {
    Named { name: names[value.index()].clone(), ty: graph.ty(value).to_string() }
}

/// One node without its body; `names` are those of [`names`].
pub fn node_doc(graph: &Graph, id: NodeId, names: &[String]) -> NodeDoc {
    let node = graph.node(id);
    // A map of one function is written as that function.
    let function = pointwise::function(node);
    let attrs = node.attrs.texts().filter(|_| function.is_none());
    NodeDoc {
        results: node.results.iter().map(|v| named(graph, *v, names)).collect(),
        op: function.map_or_else(|| node.op.to_string(), |func| func.def().name.to_owned()),
        operands: node.operands.iter().map(|v| names[v.index()].clone()).collect(),
        attrs: attrs.map(|(name, value)| (name.to_owned(), value)).collect(),
        label: node.label.clone(),
        body: None,
        at: None,
    }
}

impl GraphDocument {
    /// The same with sizes for symbolic axes. Types that can't be read stay as they are.
    #[must_use]
    pub fn sized(&self, sizes: &[(&str, usize)]) -> Self {
        Self { graph: self.graph.clone(), nodes: self.nodes.iter().map(|node| node.sized(sizes)).collect() }
    }

    /// The graph, or every problem that building it meets.
    pub fn to_graph(&self) -> Result<Graph, Vec<Problem>> {
        let graph = Graph::new(&self.graph);
        let mut builder =
            GraphBuilder { graph, names: BTreeSet::new(), visible: BTreeMap::new(), problems: vec![], depth: 0 };
        builder.region(MAIN, &self.nodes);
        if builder.problems.is_empty() { Ok(builder.graph) } else { Err(builder.problems) }
    }
}

struct GraphBuilder {
    graph: Graph,
    /// Every name met so far.
    names: BTreeSet<String>,
    /// Names that a node may use here; `None` for results of nodes that were refused, which is reported already.
    visible: BTreeMap<String, Option<Value>>,
    problems: Vec<Problem>,
    depth: usize,
}

impl GraphBuilder {
    fn problem(&mut self, node: &NodeDoc, message: impl Into<String>) {
        self.problems.push(Problem { at: node.at, node: node.head(), message: message.into() });
    }

    fn region(&mut self, region: RegionId, nodes: &[NodeDoc]) {
        for node in nodes {
            let results = self.node(region, node);
            for (n, named) in node.results.iter().enumerate() {
                let value = results.as_ref().and_then(|r| r.get(n)).copied();
                self.define(node, named, value);
            }
        }
    }

    fn define(&mut self, node: &NodeDoc, named: &Named, value: Option<Value>) {
        if !is_name(&named.name) {
            self.problem(node, format!("`{}` is not a name", named.name));
        } else if !self.names.insert(named.name.clone()) {
            self.problem(node, format!("the name `%{}` is taken", named.name));
        }
        if let Some(value) = value {
            self.graph.set_hint(value, &named.name);
        }
        self.visible.insert(named.name.clone(), value);
    }

    /// Adds the node and gives its results; `None` when it was refused.
    fn node(&mut self, region: RegionId, doc: &NodeDoc) -> Option<Vec<Value>> {
        let before = self.problems.len();
        let function = Pointwise::named(&doc.op);
        let op = Op::named(&doc.op).or(function.map(|_| Op::Map));
        if op.is_none() {
            self.problem(doc, format!("there is no op `{}`", doc.op));
        }
        let attrs = match function {
            Some(_) if !doc.attrs.is_empty() => {
                self.problem(doc, format!("`{}` has no attributes", doc.op));
                None
            }
            Some(func) => Some(pointwise::attrs(&[func.of_operands()])),
            None => op.map(|op| self.attrs(doc, op)),
        };
        let types = self.types(doc, &doc.results);
        let operands = self.operands(doc);
        let body = match &doc.body {
            Some(_) if op.is_some_and(|op| !op.has(Flag::Loop)) => {
                self.problem(doc, format!("`{}` has no body", doc.op));
                None
            }
            Some(body) => self.body(doc, body),
            None => None,
        };
        let (op, attrs, types, operands) = (op?, attrs?, types?, operands?);
        if let Some(arity) = function.map(|func| func.def().arity).filter(|arity| *arity != operands.len()) {
            self.problem(doc, format!("`{}` takes {arity} operands, not {}", doc.op, operands.len()));
        }
        if op.has(Flag::Loop) && doc.body.is_none() {
            self.problem(doc, format!("`{op}` needs a body"));
        }
        if self.problems.len() > before {
            return None;
        }
        let new = NewNode { op, operands, attrs, types, body, label: doc.label.clone() };
        self.check(doc, &new)?;
        match self.graph.push(region, new) {
            Ok(node) => Some(self.graph.node(node).results.clone()),
            Err(invalid) => {
                self.problem(doc, invalid.0);
                None
            }
        }
    }

    /// The written types are the ones of the shape rule.
    fn check(&mut self, doc: &NodeDoc, new: &NewNode) -> Option<()> {
        let inferred = match self.graph.infer(&NewNode { types: vec![], ..new.clone() }) {
            Ok(types) => types,
            Err(invalid) => {
                self.problem(doc, invalid.0);
                return None;
            }
        };
        let declared = new.op.has(Flag::Leaf) || new.op.has(Flag::Loop);
        let message = if new.op.has(Flag::Leaf) && new.types.len() != 1 {
            format!("`{}` gives one result", new.op)
        } else if !declared && inferred != new.types {
            let list = |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let gives = if inferred.is_empty() { "no result".to_owned() } else { list(&inferred) };
            let written = if new.types.is_empty() { "no result".to_owned() } else { list(&new.types) };
            format!("`{}` gives {gives}, not {written}", doc.op)
        } else if inferred.iter().any(|t| !is_small(t)) {
            format!("`{}` makes an axis longer than {LARGEST}", new.op)
        } else {
            return Some(());
        };
        self.problem(doc, message);
        None
    }

    fn attrs(&mut self, doc: &NodeDoc, op: Op) -> Attrs {
        let mut out = Attrs::new();
        for (name, text) in &doc.attrs {
            let known: Vec<&str> = op.def().attrs().map(|takes| takes.attribute.name).collect();
            match (op.def().attribute(name), attr::parse(text)) {
                (None, _) if known.is_empty() => {
                    self.problem(doc, format!("`{op}` has no attributes, `{name}` is one"))
                }
                (None, _) => {
                    self.problem(doc, format!("`{op}` has no attribute `{name}`; it has {}", known.join(", ")));
                }
                (Some(_), Err(message)) => self.problem(doc, format!("attribute `{name}`: {message}")),
                (Some(attribute), Ok(value)) => out.insert(attribute, value),
            }
        }
        out
    }

    fn types(&mut self, doc: &NodeDoc, values: &[Named]) -> Option<Vec<Type>> {
        let mut out = Some(vec![]);
        for named in values {
            match (read_type(&named.ty), &mut out) {
                (Ok(ty), Some(types)) => types.push(ty),
                (Ok(_), None) => {}
                (Err(message), _) => {
                    self.problem(doc, message);
                    out = None;
                }
            }
        }
        out
    }

    fn operands(&mut self, doc: &NodeDoc) -> Option<Vec<Value>> {
        for name in &doc.operands {
            if !self.visible.contains_key(name) {
                let reason = if self.names.contains(name) { "is not visible here" } else { "is not defined above" };
                self.problem(doc, format!("`%{name}` {reason}"));
            }
        }
        doc.operands.iter().map(|name| self.visible.get(name).copied().flatten()).collect()
    }

    fn body(&mut self, doc: &NodeDoc, body: &RegionDocument) -> Option<RegionId> {
        if self.depth == NESTING {
            self.problem(doc, format!("loops nest deeper than {NESTING}"));
            return None;
        }
        let types = self.types(doc, &body.params);
        let region = self.graph.add_region();
        let outer = self.visible.clone();
        for (n, named) in body.params.iter().enumerate() {
            let ty = types.as_ref().and_then(|t| t.get(n));
            let value = ty.map(|ty| self.graph.add_param(region, ty.clone(), &named.name));
            self.define(doc, named, value);
        }
        self.depth += 1;
        self.region(region, &body.nodes);
        self.depth -= 1;
        self.visible = outer;
        Some(region)
    }
}

fn is_small(ty: &Type) -> bool {
    ty.dims().iter().all(|d| d.fixed().is_none_or(|n| n <= LARGEST))
}

/// A type whose symbols are words and whose sizes can be added without care.
fn read_type(text: &str) -> Result<Type, String> {
    let ty: Type = text.parse()?;
    for dim in ty.dims() {
        match dim {
            Dim::Sym(name) if !attr::is_word(name) => return Err(format!("`{name}` in `{text}` is not an axis")),
            _ => {}
        }
    }
    if is_small(&ty) { Ok(ty) } else { Err(format!("an axis of `{text}` is longer than {LARGEST}")) }
}
