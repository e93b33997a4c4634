//! Regions as methods: the nodes of a region in order, a statement each, and a loop around the method of its body.

use std::collections::BTreeMap;

use rtc_compiler::ir::graph::{Graph, Node, NodeId, RegionId, Value};
use rtc_compiler::ir::ops::{Flag, Op};

use super::ops::{Call, Code};
use super::parts::Parts;
use super::scope::Scope;
use crate::Refused;

/// So many nodes stand in one statement at most.
const NESTED: usize = 4;

/// A method of the class.
pub(super) struct Method {
    pub(super) name: String,
    /// Its parameters behind `self` and `rows`.
    pub(super) params: Vec<String>,
    pub(super) doc: String,
    pub(super) lines: Vec<String>,
}

/// Writes the methods of a graph.
pub(super) struct Writer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: &'a Parts,
    pub(super) methods: Vec<Method>,
    pub(super) sections: Vec<&'static str>,
    /// Whether a loop can be left out in evaluation.
    pub(super) flat: bool,
}

/// A region while it is written.
pub(super) struct Body {
    pub(super) scope: Scope,
    pub(super) lines: Vec<String>,
    /// Expressions that stand inside the statement of their only reader.
    inlined: BTreeMap<Value, Code>,
    /// The last statement that reads a value.
    last: BTreeMap<Value, usize>,
    /// The number of the statement that is written.
    pub(super) at: usize,
    slot: String,
}

impl Body {
    fn new() -> Self {
        Self {
            scope: Scope::default(),
            lines: vec![],
            inlined: BTreeMap::new(),
            last: BTreeMap::new(),
            at: 0,
            slot: String::new(),
        }
    }

    /// Until when a value is read; a value that nobody reads is held for its own statement alone.
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

impl<'a> Writer<'a> {
    /// The values from outside that a region reads, in the order in which it reads them.
    pub(super) fn captures(&self, region: RegionId) -> Vec<Value> {
        let graph = self.graph;
        let mut found = vec![];
        for id in graph.walk(region) {
            for &value in &graph.node(id).operands {
                let outside = !graph.encloses(region, graph.scope(value));
                if outside && self.parts.name(value).is_none() && !found.contains(&value) {
                    found.push(value);
                }
            }
        }
        found
    }

    /// The statements of a region; `params` are its parameters and what it captures, with their names.
    pub(super) fn body(&mut self, region: RegionId, params: &[(Value, String)]) -> Result<Body, Refused> {
        let graph = self.graph;
        let nodes: Vec<NodeId> =
            graph.nodes(region).iter().copied().filter(|id| !graph.node(*id).op.has(Flag::Leaf)).collect();
        let inlined = self.inlined(&nodes);
        let mut body = Body::new();
        let whole: Vec<NodeId> = nodes.iter().copied().filter(|id| !inlined.contains_key(id)).collect();
        for &id in &nodes {
            // What is read by a part of a statement is read by the statement.
            let outermost = std::iter::successors(Some(id), |id| inlined.get(id).copied()).last().unwrap_or(id);
            let statement = 1 + whole.iter().position(|n| *n == outermost).unwrap_or(0);
            for value in self.reads(id) {
                let last = body.last.entry(value).or_default();
                *last = statement.max(*last);
            }
        }
        for (value, name) in params {
            let last = body.until(*value).max(1);
            body.scope.define(*value, name, 0, last);
        }
        for &id in &nodes {
            let node = graph.node(id);
            if inlined.contains_key(&id) {
                let code = self.code(&body, node)?;
                body.inlined.insert(node.results[0], code);
                continue;
            }
            body.at += 1;
            self.statement(&mut body, id)?;
        }
        Ok(body)
    }

    /// What a node reads, with what the bodies of its regions capture.
    fn reads(&self, id: NodeId) -> Vec<Value> {
        let node = self.graph.node(id);
        let inside = node.body.map_or_else(Vec::new, |body| self.captures(body));
        node.operands.iter().copied().chain(inside).collect()
    }

    /// The nodes that stand inside the statement of their only reader, with that reader.
    fn inlined(&self, nodes: &[NodeId]) -> BTreeMap<NodeId, NodeId> {
        let graph = self.graph;
        let mut readers: BTreeMap<Value, Vec<NodeId>> = BTreeMap::new();
        for &id in nodes {
            for value in self.reads(id) {
                readers.entry(value).or_default().push(id);
            }
        }
        let mut sizes: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for &id in nodes {
            let node = graph.node(id);
            let operands = node.operands.iter().filter_map(|v| graph.producer(*v)).filter(|p| found.contains_key(p));
            let size = 1 + operands.map(|p| sizes[&p]).sum::<usize>();
            sizes.insert(id, size);
            let [result] = node.results[..] else { continue };
            let Some([reader]) = readers.get(&result).map(Vec::as_slice) else { continue };
            if size < NESTED && fits(node, graph.node(*reader)) {
                found.insert(id, *reader);
            }
        }
        found
    }

    /// Operand `n` as an expression.
    pub(super) fn operand(&self, body: &Body, value: Value) -> Result<Code, Refused> {
        if let Some(code) = body.inlined.get(&value) {
            return Ok(code.clone());
        }
        if let Some(name) = self.parts.name(value) {
            return Ok(Code::atom(self.parts.path(name)));
        }
        let name = body.scope.name(value);
        name.map(Code::atom).ok_or_else(|| Refused(format!("a value of `{}` that is not in sight", self.graph.name)))
    }

    fn code(&mut self, body: &Body, node: &Node) -> Result<Code, Refused> {
        let operands = node.operands.iter().map(|v| self.operand(body, *v)).collect::<Result<Vec<_>, _>>()?;
        let (graph, parts, sections) = (self.graph, self.parts, &mut self.sections);
        Call { graph, parts, node, operands: &operands, sections }.code()
    }

    fn statement(&mut self, body: &mut Body, id: NodeId) -> Result<(), Refused> {
        let node = self.graph.node(id);
        if matches!(node.op, Op::Yield | Op::Return) {
            return Ok(());
        }
        let slot = self.slot(node);
        if body.slot != slot && !slot.is_empty() {
            if !body.lines.is_empty() {
                body.lines.push(String::new());
            }
            body.lines.push(format!("# {slot}"));
            body.slot = slot;
        }
        if node.op.has(Flag::Loop) {
            return self.looped(body, id);
        }
        let code = self.code(body, node)?.text;
        let names: Vec<String> = node.results.iter().map(|v| body.define(*v, &self.wish(body, *v))).collect();
        body.lines.push(format!("{} = {code}", names.join(", ")));
        Ok(())
    }

    /// The slot of the spec that a node belongs to; a linear map and a norm belong to the layer around them.
    fn slot(&self, node: &Node) -> String {
        let module = node.operands.get(1).and_then(|v| self.parts.module(*v));
        let own = module.filter(|path| *path == node.label).and_then(|path| path.rsplit_once('.'));
        own.map_or_else(|| node.label.clone(), |(around, _)| around.to_owned())
    }

    /// What a value would like to be called.
    fn wish(&self, body: &Body, value: Value) -> String {
        let graph = self.graph;
        let Some(node) = graph.producer(value).map(|id| graph.node(id)) else { return graph.hint(value).to_owned() };
        if let Some(name) = self.carried_name(node.region, value) {
            let until = body.at;
            return if body.scope.is_held(&name, until) { format!("new_{name}") } else { name };
        }
        let operand = |n: usize| node.operands.get(n).and_then(|v| body.scope.name(*v)).map(str::to_owned);
        let hint = graph.hint(value);
        match node.op {
            _ if hint != node.op.def().name => hint.to_owned(),
            Op::Dropout | Op::Rotate | Op::Frame | Op::AddPosition | Op::Fill | Op::Detach => {
                operand(0).unwrap_or_else(|| self.wish(body, node.operands[0]))
            }
            Op::Embed | Op::Add | Op::AddScaled | Op::Gate | Op::Lerp => "x".to_owned(),
            Op::LayerNorm => "normed".to_owned(),
            Op::Linear => {
                let path = self.parts.module(node.operands[1]).unwrap_or("linear");
                path.rsplit('.').next().unwrap_or("linear").to_owned()
            }
            Op::Attention | Op::OffsetAttention => "attended".to_owned(),
            Op::Mean | Op::Max | Op::Position => "pooled".to_owned(),
            Op::Gelu | Op::GeluTanh | Op::Relu => "active".to_owned(),
            Op::Sigmoid => "gate".to_owned(),
            Op::Concat | Op::Pair => "features".to_owned(),
            Op::Full => "start".to_owned(),
            Op::True => "all_live".to_owned(),
            Op::Slice => "channels".to_owned(),
            Op::S4d | Op::Ema => "scanned".to_owned(),
            op => op.def().name.to_owned(),
        }
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
            Some(axis) => format!("\"{axis}\""),
            None if ty.is_batched() => "\"row\"".to_owned(),
            None => "None".to_owned(),
        }
    }
}

/// Whether the expression of a node may stand inside that of its reader.
fn fits(node: &Node, reader: &Node) -> bool {
    let readable = !matches!(reader.op, Op::Yield | Op::Return | Op::Attention | Op::OffsetAttention)
        && !reader.op.has(Flag::Loop);
    let small = matches!(
        node.op,
        Op::Gelu
            | Op::GeluTanh
            | Op::Relu
            | Op::Sigmoid
            | Op::Scale
            | Op::Offset
            | Op::Squeeze
            | Op::Unsqueeze
            | Op::Slice
            | Op::Dropout
            | Op::Concat
            | Op::Detach
            | Op::Pick
    );
    let linear = node.op == Op::Linear && !matches!(reader.op, Op::Linear | Op::Mul | Op::Select | Op::Rotate);
    let norm = node.op == Op::LayerNorm && matches!(reader.op, Op::Linear);
    let product = node.op == Op::Mul && matches!(reader.op, Op::Add | Op::Dropout | Op::Linear);
    let constant = matches!(node.op, Op::Position | Op::Mean) && matches!(reader.op, Op::Slice | Op::Concat);
    readable && (small || linear || norm || product || constant)
}
