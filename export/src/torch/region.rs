//! Regions as methods: the nodes of a region in order, a statement each, and a loop around the method of its body.

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;

use rtc_compiler::ir::graph::{Graph, MAIN, Node, NodeId, RegionId, Value};
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::pointwise::{self, Pointwise, Scalar};
use rtc_compiler::pass::branches::Branches;

use super::code::{Binds, Code};
use super::layers::{LayerCopies, TorchStatement, items};
use super::ops::{OpCall, known};
use super::parts::ModuleParameters;
use super::python::{comment, repr};
use super::scope::MethodScope;
use crate::Refused;

/// So many nodes stand in one statement at most.
const NESTED: usize = 4;

/// A method of the class.
#[derive(Default)]
pub(super) struct TorchMethod {
    pub(super) name: String,
    /// Its parameters behind `self` and `rows`.
    pub(super) params: Vec<String>,
    pub(super) doc: String,
    pub(super) lines: Vec<String>,
}

/// Writes the methods of a graph.
pub(super) struct MethodWriter<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: &'a ModuleParameters,
    pub(super) branches: Branches,
    pub(super) methods: Vec<TorchMethod>,
    pub(super) sections: Vec<&'static str>,
    /// Whether a loop can be left out in evaluation.
    pub(super) flat: bool,
    /// The slot of the copy that is written, whose parameters are those of `layer`.
    pub(super) copy: Option<String>,
}

/// A region while it is written.
pub(super) struct MethodBody {
    pub(super) scope: MethodScope,
    pub(super) lines: Vec<String>,
    /// Expressions that stand inside the statement of their only reader.
    inlined: BTreeMap<Value, Code>,
    /// The last statement that reads a value.
    last: BTreeMap<Value, usize>,
    /// The number of the statement that is written.
    pub(super) at: usize,
    slot: String,
}

impl MethodBody {
    fn new() -> Self {
        Self {
            scope: MethodScope::default(),
            lines: vec![],
            inlined: BTreeMap::new(),
            last: BTreeMap::new(),
            at: 0,
            slot: String::new(),
        }
    }

    /// Says which slot of the spec the next lines belong to.
    pub(super) fn enter(&mut self, slot: String) {
        if self.slot == slot || slot.is_empty() {
            return;
        }
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        self.lines.push(format!("# {}", comment(&slot)));
        self.slot = slot;
    }

    /// Until when a value is read; a value without a reader is held for its own statement alone.
    pub(super) fn until(&self, value: Value) -> usize {
        self.last.get(&value).copied().unwrap_or(self.at)
    }

    /// Names a result.
    pub(super) fn define(&mut self, value: Value, wish: &str) -> String {
        match self.last.get(&value) {
            Some(last) => self.scope.define(value, wish, self.at, *last),
            None => "_".to_owned(),
        }
    }
}

impl<'a> MethodWriter<'a> {
    /// The values from outside that a region reads, in the order in which it reads them.
    pub(super) fn captures(&self, region: RegionId) -> Vec<Value> {
        let graph = self.graph;
        let inside = |value: Value| graph.encloses(region, graph.scope(value));
        self.read_outside(&graph.walk(region), inside)
    }

    /// The values that nodes read and that are not `inside` nor parameters.
    fn read_outside(&self, nodes: &[NodeId], inside: impl Fn(Value) -> bool) -> Vec<Value> {
        let mut found = vec![];
        for value in nodes.iter().flat_map(|id| &self.graph.node(*id).operands) {
            if !inside(*value) && self.parts.name(*value).is_none() && !found.contains(value) {
                found.push(*value);
            }
        }
        found
    }

    /// The values that copies read besides what goes from one to the next.
    pub(super) fn seen_by(&self, layers: &LayerCopies) -> Vec<Value> {
        let graph = self.graph;
        let own = |value: Value| graph.producer(value).is_some_and(|id| layers.pattern().contains(&id));
        let handed = layers.made_by(0, graph);
        self.read_outside(layers.pattern(), |value| own(value) || handed.contains(&value))
    }

    /// The statements of a region; `params` are its parameters and what it captures, with their names.
    pub(super) fn body(&mut self, region: RegionId, params: &[(Value, String)]) -> Result<MethodBody, Refused> {
        let graph = self.graph;
        let nodes = graph.nodes(region).iter().copied().filter(|id| !graph.node(*id).op.has(Flag::Leaf));
        let nodes: Vec<NodeId> = nodes.collect();
        self.statements(&nodes, "", &[], params)
    }

    /// The statements of some nodes: `below` is the slot of the copy that they are, whose results are `results`.
    pub(super) fn statements(
        &mut self,
        nodes: &[NodeId],
        below: &str,
        results: &[Value],
        params: &[(Value, String)],
    ) -> Result<MethodBody, Refused> {
        nodes.iter().try_for_each(|id| known(self.graph.node(*id)))?;
        let items = items(self.graph, self.parts, nodes, below);
        let inlined = self.inlined(&items);
        let mut body = MethodBody::new();
        let mut place: BTreeMap<NodeId, usize> = BTreeMap::new();
        // From the last one to the first: a part of a statement is read where its reader is.
        let whole = |item: &TorchStatement| !matches!(item, TorchStatement::Node(id) if inlined.contains_key(id));
        let mut statement = 1 + items.iter().filter(|item| whole(item)).count();
        for value in results {
            body.last.insert(*value, statement);
        }
        for item in items.iter().rev() {
            statement -= usize::from(whole(item));
            let here = match item {
                TorchStatement::Node(id) => {
                    let reader = inlined.get(id).and_then(|reader| place.get(reader).copied());
                    place.insert(*id, reader.unwrap_or(statement));
                    place[id]
                }
                TorchStatement::Layers(_) => statement,
            };
            for value in self.read_by(item) {
                let last = body.last.entry(value).or_default();
                *last = here.max(*last);
            }
        }
        for (value, name) in params {
            let last = body.until(*value).max(1);
            body.scope.define(*value, name, 0, last);
        }
        for item in &items {
            match item {
                TorchStatement::Node(id) if inlined.contains_key(id) => {
                    let node = self.graph.node(*id);
                    let code = self.code(&body, node)?;
                    body.inlined.insert(node.results[0], code);
                }
                TorchStatement::Node(id) => {
                    body.at += 1;
                    self.statement(&mut body, *id)?;
                }
                TorchStatement::Layers(layers) => {
                    body.at += 1;
                    self.copies(&mut body, layers)?;
                }
            }
        }
        Ok(body)
    }

    /// What a statement reads, with what the bodies of loops capture.
    fn read_by(&self, item: &TorchStatement) -> Vec<Value> {
        match item {
            TorchStatement::Node(id) => {
                let node = self.graph.node(*id);
                let inside = node.body.map_or_else(Vec::new, |body| self.captures(body));
                node.operands.iter().copied().chain(inside).collect()
            }
            TorchStatement::Layers(layers) => layers.starts().into_iter().chain(self.seen_by(layers)).collect(),
        }
    }

    /// The nodes that stand inside the statement of their only reader, with that reader.
    fn inlined(&self, items: &[TorchStatement]) -> BTreeMap<NodeId, NodeId> {
        let graph = self.graph;
        let mut readers: BTreeMap<Value, Vec<Option<NodeId>>> = BTreeMap::new();
        for item in items {
            for value in self.read_by(item) {
                readers.entry(value).or_default().push(if let TorchStatement::Node(id) = item {
                    Some(*id)
                } else {
                    None
                });
            }
        }
        let mut sizes: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for item in items {
            let TorchStatement::Node(id) = item else { continue };
            let node = graph.node(*id);
            let operands = node.operands.iter().filter_map(|v| graph.producer(*v)).filter(|p| found.contains_key(p));
            let size = 1 + operands.map(|p| sizes[&p]).sum::<usize>();
            sizes.insert(*id, size);
            let [result] = node.results[..] else { continue };
            let Some([Some(reader)]) = readers.get(&result).map(Vec::as_slice) else { continue };
            if size < NESTED && fits(node, graph.node(*reader)) {
                found.insert(*id, *reader);
            }
        }
        found
    }

    /// Operand `n` as an expression.
    pub(super) fn operand(&self, body: &MethodBody, value: Value) -> Result<Code, Refused> {
        if let Some(code) = body.inlined.get(&value) {
            return Ok(code.clone());
        }
        if let Some(name) = self.parts.name(value) {
            return Ok(self.parts.path(name, self.copy.as_deref()));
        }
        let name = body.scope.name(value);
        name.map(Code::atom).ok_or_else(|| Refused(format!("a value of `{}` that is not in sight", self.graph.name)))
    }

    fn code(&mut self, body: &MethodBody, node: &Node) -> Result<Code, Refused> {
        let operands = node.operands.iter().map(|v| self.operand(body, *v)).collect::<Result<Vec<_>, _>>()?;
        let (graph, parts, sections) = (self.graph, self.parts, &mut self.sections);
        let in_branch = self.branches.holds(node);
        OpCall { graph, parts, in_branch, copy: self.copy.as_deref(), node, operands: &operands, sections }.code()
    }

    fn statement(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        let node = self.graph.node(id);
        if matches!(node.op, Op::Yield | Op::Return) {
            return Ok(());
        }
        body.enter(self.slot(node));
        if node.op.has(Flag::Loop) {
            return self.looped(body, id);
        }
        let code = self.code(body, node)?.inside(Binds::Argument);
        let names: Vec<String> = node.results.iter().map(|v| body.define(*v, &self.wish(body, *v))).collect();
        body.lines.push(format!("{} = {code}", names.join(", ")));
        Ok(())
    }

    /// The slot of the spec that a node belongs to; a linear map and a norm belong to the layer around them.
    fn slot(&self, node: &Node) -> String {
        let module = node.operands.get(1).and_then(|v| self.parts.module(*v));
        let own = module.filter(|path| *path == node.label).and_then(|path| path.rsplit_once('.'));
        let slot = own.map_or_else(|| node.label.clone(), |(around, _)| around.to_owned());
        match self.copy.as_deref().and_then(|copy| Some((copy.rsplit_once('.')?.0, slot.strip_prefix(copy)?))) {
            Some((around, rest)) => format!("{around}{rest}"),
            None => slot,
        }
    }

    /// What a value would like to be called.
    fn wish(&self, body: &MethodBody, value: Value) -> String {
        let graph = self.graph;
        let Some(node) = graph.producer(value).map(|id| graph.node(id)) else { return graph.hint(value).to_owned() };
        if let Some(name) = self.carried_name(node.region, value) {
            let until = body.at;
            return if body.scope.is_held(&name, until) { format!("new_{name}") } else { name };
        }
        if let Some(name) = self.returned_name(value) {
            return name;
        }
        let operand = |n: usize| node.operands.get(n).and_then(|v| body.scope.name(*v)).map(str::to_owned);
        let hint = graph.hint(value);
        let halts = node.label.ends_with("halt");
        match node.op {
            _ if hint != node.hint() => hint.to_owned(),
            Op::Map => match pointwise::outermost(node) {
                Some(Pointwise::Sigmoid) if halts => "p".to_owned(),
                Some(Pointwise::Mul) if halts => "spent".to_owned(),
                Some(Pointwise::Add | Pointwise::Lerp) => "x".to_owned(),
                Some(Pointwise::Gelu | Pointwise::GeluTanh | Pointwise::Relu | Pointwise::Silu) => "active".to_owned(),
                Some(Pointwise::Sigmoid) => "gate".to_owned(),
                _ => node.hint().to_owned(),
            },
            Op::Full => match node.get(attribute::VALUE) {
                0.0 => "zeros".to_owned(),
                1.0 => "ones".to_owned(),
                _ => "start".to_owned(),
            },
            Op::Dropout | Op::Rotate | Op::Frame | Op::AddPosition | Op::PadRagged | Op::Detach => {
                operand(0).unwrap_or_else(|| self.wish(body, node.operands[0]))
            }
            Op::Embed | Op::AddScaled => "x".to_owned(),
            Op::LayerNorm | Op::RmsNorm => "normed".to_owned(),
            Op::Linear => {
                let path = self.parts.module(node.operands[1]).unwrap_or("linear");
                path.rsplit('.').next().unwrap_or("linear").to_owned()
            }
            Op::Attention | Op::GeometricAttention => "attended".to_owned(),
            Op::Mean | Op::Max | Op::Position => "pooled".to_owned(),
            Op::Concat | Op::Pair => "features".to_owned(),
            Op::True => "all_live".to_owned(),
            Op::Slice => "channels".to_owned(),
            Op::Scan => "scanned".to_owned(),
            op => op.def().name.to_owned(),
        }
    }

    /// The name under which the graph returns a value.
    fn returned_name(&self, value: Value) -> Option<String> {
        let end = self.graph.node(self.graph.terminator(MAIN)?);
        let at = end.operands.iter().position(|v| *v == value)?;
        let names = end.find(attribute::NAMES)?;
        names.split(',').nth(at).map(|name| name.trim().to_owned())
    }

    /// The name of the carried value that a yielded one becomes, unless it is the state itself.
    fn carried_name(&self, region: RegionId, value: Value) -> Option<String> {
        let graph = self.graph;
        let owner = graph.owner(region)?;
        if graph.node(owner).op != Op::Recur {
            return None;
        }
        let end = graph.node(graph.terminator(region)?);
        let at = end.operands.iter().position(|v| *v == value)?;
        let carried = graph.node(owner).operands.len();
        match at {
            0 => None,
            at if at >= carried => Some("goes_on".to_owned()),
            at => Some(graph.hint(graph.params(region)[at]).to_owned()),
        }
    }

    /// Along what a value is packed, as `Rows.part` understands it.
    pub(super) fn packed(&self, value: Value) -> String {
        let ty = self.graph.ty(value);
        match ty.ragged() {
            Some(axis) => repr(axis),
            None if ty.is_batched() => "\"row\"".to_owned(),
            None => "None".to_owned(),
        }
    }
}

/// Whether the expression of a node may stand inside that of its reader.
fn fits(node: &Node, reader: &Node) -> bool {
    let attends = matches!(reader.op, Op::Attention | Op::GeometricAttention);
    let readable = !attends && !matches!(reader.op, Op::Yield | Op::Return) && !reader.op.has(Flag::Loop);
    let [function, of_reader] = [node, reader].map(pointwise::outermost);
    let small = match node.op {
        Op::Map => node.operands.len() == 1,
        Op::Squeeze | Op::Unsqueeze | Op::Slice | Op::Dropout | Op::Concat | Op::Detach | Op::SlotGet => true,
        _ => false,
    };
    let linear = node.op == Op::Linear
        && !matches!(reader.op, Op::Linear | Op::Select | Op::Rotate)
        && of_reader != Some(Pointwise::Mul);
    let norm = matches!(node.op, Op::LayerNorm | Op::RmsNorm) && matches!(reader.op, Op::Linear);
    let product = function == Some(Pointwise::Mul)
        && (of_reader == Some(Pointwise::Add) || matches!(reader.op, Op::Dropout | Op::Linear));
    let constant = matches!(node.op, Op::Position | Op::Mean) && matches!(reader.op, Op::Slice | Op::Concat);
    let penalty = node.op == Op::Average && reader.op == Op::Map && reader.operands.len() == 1;
    readable && !repeats(reader) && (small || linear || norm || product || constant || penalty)
}

/// Whether the expression of a node names an operand more than once: what stands in its place would be computed as often.
fn repeats(node: &Node) -> bool {
    match node.op {
        Op::Map => pointwise::results(&node.attrs).is_ok_and(|results| {
            let mut named = vec![];
            results.iter().for_each(|expr| expr.visit(&mut |n| named.push(n)));
            let is_plain = results.iter().all(is_operators);
            let twice = (1..named.len()).any(|n| named[..n].contains(&named[n]));
            twice || !is_plain
        }),
        Op::AddPosition | Op::Normal | Op::Uniform => true,
        Op::Full => node.has(attribute::COUNT),
        _ => false,
    }
}

/// Whether numbers of an expression stand beside operators alone: elsewhere they take the type of an operand.
fn is_operators(expr: &Scalar) -> bool {
    let Scalar::Call(func, args) = expr else { return true };
    let beside = matches!(func, Pointwise::Add | Pointwise::Sub | Pointwise::Mul | Pointwise::Div);
    let numbers = args.iter().any(|arg| matches!(arg, Scalar::Number(_)));
    (beside || !numbers) && *func != Pointwise::Less && args.iter().all(is_operators)
}
