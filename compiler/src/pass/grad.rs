//! Reverse-mode differentiation as a pass: adds to a graph with a result `loss` the nodes that compute the gradient of
//! every parameter and hand it over through `accumulate`. Any other result can stand in its place, with a cotangent that is given.
//!
//! A region is differentiated by walking its nodes backwards with the gradient rules of the op table. A loop becomes a
//! forward loop that saves, step by step, the values of its body that the backward body reads, and an `unwind` that
//! runs the backward body over the taped steps from the last to the first.

use crate::ir::attribute::{self, Attrs};
use std::collections::{BTreeMap, BTreeSet};

use crate::ir::gradient::Backward;
use crate::ir::graph::{Graph, InvalidNode, MAIN, NewNode, Node, NodeId, RegionId, Value};
use crate::ir::loops::{LoopLayout, layout, yielded};
use crate::ir::ops::{Flag, Op};
use crate::ir::pointwise::{self, Pointwise};
use crate::ir::types::Type;
use crate::pass::branches::{self, Branches};
use crate::pass::{dce, stops};

/// Cotangents of values: how the loss changes with them.
type Cotangents = BTreeMap<Value, Value>;

/// Differentiates the graph with respect to all its parameters.
///
/// # Errors
/// A graph without a scalar result `loss`.
pub fn run(graph: &mut Graph) -> Result<(), InvalidNode> {
    differentiate(graph, "loss", |d, at, loss| {
        let one = Attrs::of(attribute::VALUE, 1.0).with(attribute::RANK, 0);
        Ok(d.emit(at, "loss", Op::Full, &[loss], one)[0])
    })
}

/// Multiplies a cotangent of a result, which the input of this name gives, with the Jacobian of the result with respect to all
/// parameters: the gradient of any function of the result, whose own gradient the cotangent is.
///
/// # Errors
/// A graph without a result of this name.
pub fn pull_back(graph: &mut Graph, result: &str, input: &str) -> Result<(), InvalidNode> {
    differentiate(graph, result, |d, _, value| {
        let (attrs, types) = (Attrs::of(attribute::NAME, input), vec![d.graph.ty(value).clone()]);
        let new = NewNode { op: Op::Input, operands: vec![], attrs, types, body: None, label: result.to_owned() };
        let node = d.graph.insert_at(MAIN, 0, new)?;
        Ok(d.graph.node(node).results[0])
    })
}

/// Differentiates a result, whose cotangent `seed` makes.
fn differentiate(
    graph: &mut Graph,
    result: &str,
    seed: impl FnOnce(&mut Differentiator<'_>, InsertPoint, Value) -> Result<Value, InvalidNode>,
) -> Result<(), InvalidNode> {
    let value = graph.output(result).ok_or_else(|| InvalidNode(format!("the graph has no result `{result}`")))?;
    let end = graph.terminator(MAIN).ok_or_else(|| InvalidNode("the graph returns nothing".to_owned()))?;
    let (active, branches) = (active(graph), Branches::of(graph));
    let mut d = Differentiator { graph, active, branches, fault: None };
    let forward: Vec<NodeId> = d.graph.nodes(MAIN).iter().copied().filter(|n| *n != end).collect();
    let at = InsertPoint { region: MAIN, before: Some(end) };
    let seed = seed(&mut d, at, value)?;
    let mut cotangents = Cotangents::new();
    d.add(value, Some(seed), at, result, &mut cotangents);
    d.backward(&forward, at, &mut cotangents);
    d.fault.map_or(Ok(()), Err)?;
    stops::run(graph);
    Ok(())
}

/// The values that depend on a parameter through differentiable operands, loops included (a fixed point).
fn active(graph: &Graph) -> BTreeSet<Value> {
    let nodes = graph.walk(MAIN);
    let mut active = BTreeSet::new();
    loop {
        let before = active.len();
        for &id in &nodes {
            mark(graph, id, &mut active);
        }
        if active.len() == before {
            return active;
        }
    }
}

fn mark(graph: &Graph, id: NodeId, active: &mut BTreeSet<Value>) {
    let node = graph.node(id);
    let Some(body) = node.body else {
        let moved = node.op == Op::Param || node.operands.iter().any(|v| active.contains(v));
        if moved {
            active.extend(node.results.iter().filter(|v| graph.ty(**v).is_real()));
        }
        return;
    };
    let carried = layout(graph, id).carried;
    let yields = yielded(graph, id);
    for (n, &param) in graph.params(body).iter().enumerate().take(node.operands.len()) {
        let moved = n < carried && yields.get(n).is_some_and(|y| active.contains(y));
        if (moved || active.contains(&node.operands[n])) && graph.ty(param).is_real() {
            active.insert(param);
        }
    }
    if node.op == Op::Beam {
        // Both kinds of pairs are made of the leaves and of what was joined, and every score weighs in the root.
        let params = graph.params(body);
        if params.iter().chain(yields).any(|v| active.contains(v)) {
            active.extend(params.iter().chain(node.results.first()));
        }
    }
    for (n, &result) in node.results.iter().enumerate() {
        let from_init = n < carried && active.contains(&node.operands[n]);
        if (from_init || yields.get(n).is_some_and(|y| active.contains(y))) && graph.ty(result).is_real() {
            active.insert(result);
        }
    }
}

/// Where backward nodes go.
#[derive(Clone, Copy, Debug)]
struct InsertPoint {
    region: RegionId,
    before: Option<NodeId>,
}

struct Differentiator<'g> {
    graph: &'g mut Graph,
    active: BTreeSet<Value>,
    branches: Branches,
    fault: Option<InvalidNode>,
}

/// The door through which gradient rules emit.
struct Emitter<'d, 'g> {
    d: &'d mut Differentiator<'g>,
    at: InsertPoint,
    label: &'d str,
}

impl Backward for Emitter<'_, '_> {
    fn emit(&mut self, op: Op, operands: &[Value], attrs: Attrs) -> Vec<Value> {
        self.d.emit(self.at, self.label, op, operands, attrs)
    }

    fn ty(&self, value: Value) -> Type {
        self.d.graph.ty(value).clone()
    }
}

impl Differentiator<'_> {
    /// Emits a node. An invalid node is remembered and reported at the end; the node's operands stand in for its results.
    fn emit(&mut self, at: InsertPoint, label: &str, op: Op, operands: &[Value], attrs: Attrs) -> Vec<Value> {
        let new =
            NewNode { op, operands: operands.to_vec(), attrs, types: vec![], body: None, label: label.to_owned() };
        self.insert(at, new)
    }

    fn insert(&mut self, at: InsertPoint, new: NewNode) -> Vec<Value> {
        let fallback = new.operands.clone();
        let node = match at.before {
            Some(anchor) => self.graph.insert_before(anchor, new),
            None => self.graph.push(at.region, new),
        };
        match node {
            Ok(node) => self.graph.node(node).results.clone(),
            Err(invalid) => {
                self.fault.get_or_insert(invalid);
                fallback
            }
        }
    }

    /// Walks `forward` (nodes of one region) backwards.
    fn backward(&mut self, forward: &[NodeId], at: InsertPoint, cotangents: &mut Cotangents) {
        for &id in forward.iter().rev() {
            let node = self.graph.node(id).clone();
            let dy: Vec<Option<Value>> = node.results.iter().map(|v| cotangents.get(v).copied()).collect();
            if dy.iter().all(Option::is_none) {
                continue;
            }
            if node.body.is_some() {
                self.unwind(id, &node, &dy, at, cotangents);
                continue;
            }
            let (rule, finite) = (node.op.def().gradient, self.finite(&node, at));
            let parts = rule(&mut Emitter { d: self, at, label: &node.label }, &finite, &dy);
            for (operand, part) in node.operands.iter().zip(parts) {
                self.add(*operand, part, at, &node.label, cotangents);
            }
        }
    }

    /// A node with 0 in the place of numbers that are not finite because no choice takes them.
    fn finite(&mut self, node: &Node, at: InsertPoint) -> Node {
        let (mut finite, result) = (node.clone(), node.results.first().copied());
        for value in finite.operands.iter_mut().chain(&mut finite.results) {
            if self.branches.hide(node, *value) {
                let beside = result.filter(|y| y != value && self.graph.ty(*y) == self.graph.ty(*value));
                let (operands, attrs) = branches::finite(*value, beside);
                *value = self.emit(at, &node.label, Op::Map, &operands, attrs)[0];
            }
        }
        if finite.find(attribute::EPS) == Some(0.0) && finite.operands != node.operands {
            // A mean square of 0, of numbers that have just become 0, too, must have a finite root.
            finite.attrs.set(attribute::EPS, f64::from(f32::MIN_POSITIVE));
        }
        finite
    }

    fn accumulate(&mut self, param: &Node, gradient: Value, at: InsertPoint) {
        let attrs = Attrs::of(attribute::PARAM, param.get(attribute::NAME));
        self.emit(at, &param.label, Op::Accumulate, &[gradient], attrs);
    }

    /// Adds a part to the cotangent of a value. Parts of a parameter go straight to its gradient, so that no loop has to
    /// carry gradients of weights.
    fn add(&mut self, value: Value, part: Option<Value>, at: InsertPoint, label: &str, cotangents: &mut Cotangents) {
        let Some(part) = part.filter(|_| self.active.contains(&value)) else { return };
        if let Some(producer) = self.graph.producer(value) {
            let node = self.graph.node(producer).clone();
            if node.op == Op::Param {
                self.accumulate(&node, part, at);
                return;
            }
        }
        let sum = match cotangents.get(&value) {
            Some(&old) => {
                let (operands, attrs) = pointwise::map(&[Pointwise::Add.of_operands()], &[old, part]);
                self.emit(at, label, Op::Map, &operands, attrs)[0]
            }
            None => part,
        };
        cotangents.insert(value, sum);
    }

    fn zeros(&mut self, at: InsertPoint, label: &str, like: Value) -> Value {
        let rank = self.graph.ty(like).dims().len();
        let attrs = Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, rank);
        self.emit(at, label, Op::Full, &[like], attrs)[0]
    }

    /// Differentiates a loop.
    fn unwind(&mut self, id: NodeId, node: &Node, dy: &[Option<Value>], at: InsertPoint, cotangents: &mut Cotangents) {
        let Some(body) = node.body else { return };
        if node.op == Op::Beam {
            self.unwind_beam(id, node, dy, at, cotangents);
            return;
        }
        let parts = layout(self.graph, id);
        let yields = yielded(self.graph, id).to_vec();
        let carried = self.carried_with_cotangent(body, parts, &yields, dy);
        let outputs: Vec<usize> = (parts.carried..parts.carried + parts.given).filter(|n| dy[*n].is_some()).collect();

        let back = self.graph.add_region();
        let inner = InsertPoint { region: back, before: None };
        let label = node.label.as_str();
        let mut local = Cotangents::new();
        for &n in carried.iter().chain(&outputs) {
            let ty = self.graph.ty(yields[n]).clone();
            let param = self.graph.add_param(back, ty, "d");
            self.add(yields[n], Some(param), inner, label, &mut local);
        }
        let forward: Vec<NodeId> = self.graph.nodes(body).to_vec();
        let inner_forward = &forward[..forward.len().saturating_sub(1)];
        self.backward(inner_forward, inner, &mut local);

        let params = self.graph.params(body).to_vec();
        let mut results = vec![];
        for (k, &n) in carried.iter().enumerate() {
            // Of a fold and of a part, what goes in has another type than what comes out.
            let like = if matches!(node.op, Op::Fold | Op::Part) { params[n] } else { self.graph.params(back)[k] };
            let cotangent = local.get(&params[n]).copied();
            results.push(cotangent.unwrap_or_else(|| self.zeros(inner, label, like)));
        }
        let sliced = |n: &usize| local.contains_key(&params[*n]);
        let slices: Vec<usize> = (parts.carried..parts.carried + parts.sliced).filter(sliced).collect();
        results.extend(slices.iter().map(|n| local[&params[*n]]));
        let captured: Vec<Value> =
            local.keys().copied().filter(|v| !self.graph.encloses(body, self.graph.scope(*v))).collect();
        results.extend(captured.iter().map(|v| local[v]));
        self.emit(inner, label, Op::Yield, &results, Attrs::new());

        prune(self.graph, back);
        self.tape(id, body, back);
        let mut types: Vec<Type> = carried.iter().map(|n| self.graph.ty(node.operands[*n]).clone()).collect();
        types.extend(slices.iter().map(|n| self.graph.ty(node.operands[*n]).clone()));
        types.extend(captured.iter().map(|v| self.graph.ty(*v).clone()));
        let new = self.unwind_node(id, back, at, dy, (&carried, &outputs, slices.len()), types);
        let gradients = self.insert(at, new);
        let targets = carried.iter().chain(&slices).map(|n| node.operands[*n]).chain(captured);
        for (target, gradient) in targets.zip(gradients) {
            self.add(target, Some(gradient), at, label, cotangents);
        }
    }

    /// Differentiates a beam search: besides what a fold has, the body gets the cotangent of the score of a pair, as its last
    /// parameter, and yields the cotangent of the pair, as its last value.
    fn unwind_beam(
        &mut self,
        id: NodeId,
        node: &Node,
        dy: &[Option<Value>],
        at: InsertPoint,
        cotangents: &mut Cotangents,
    ) {
        let Some(body) = node.body else { return };
        let parts = layout(self.graph, id);
        let yields = yielded(self.graph, id).to_vec();
        let outputs: Vec<usize> = (parts.carried..parts.carried + parts.given).filter(|n| dy[*n].is_some()).collect();
        let back = self.graph.add_region();
        let inner = InsertPoint { region: back, before: None };
        let label = node.label.as_str();
        let mut local = Cotangents::new();
        let score = parts.carried + parts.given;
        let mut seed = |d: &mut Self, n: usize| {
            let ty = d.graph.ty(yields[n]).clone();
            let param = d.graph.add_param(back, ty, "d");
            d.add(yields[n], Some(param), inner, label, &mut local);
            param
        };
        seed(self, 0);
        for &n in &outputs {
            seed(self, n);
        }
        let scored = seed(self, score);
        let forward: Vec<NodeId> = self.graph.nodes(body).to_vec();
        self.backward(&forward[..forward.len().saturating_sub(1)], inner, &mut local);

        let captured: Vec<Value> =
            local.keys().copied().filter(|v| !self.graph.encloses(body, self.graph.scope(*v))).collect();
        let pairs = self.graph.params(body).to_vec();
        let of_pairs =
            |d: &mut Self, n: usize| local.get(&pairs[n]).copied().unwrap_or_else(|| d.zeros(inner, label, pairs[n]));
        let (joined, scored_pair) = (of_pairs(self, 0), of_pairs(self, 1));
        let contributions = captured.iter().map(|v| local[v]);
        let results: Vec<Value> = std::iter::once(joined).chain(contributions).chain([scored_pair]).collect();
        self.emit(inner, label, Op::Yield, &results, Attrs::new());

        prune(self.graph, back);
        self.tape(id, body, back);
        self.graph.move_param_last(back, scored);
        let types = [&node.operands[0]].into_iter().chain(&captured).map(|v| self.graph.ty(*v).clone()).collect();
        let new = self.unwind_node(id, back, at, dy, (&[0], &outputs, 0), types);
        let gradients = self.insert(at, new);
        for (target, gradient) in [node.operands[0]].into_iter().chain(captured).zip(gradients) {
            self.add(target, Some(gradient), at, label, cotangents);
        }
    }

    fn unwind_node(
        &mut self,
        id: NodeId,
        back: RegionId,
        at: InsertPoint,
        dy: &[Option<Value>],
        (carried, outputs, slices): (&[usize], &[usize], usize),
        types: Vec<Type>,
    ) -> NewNode {
        let node = self.graph.node(id).clone();
        let tape = *node.results.last().expect("`tape` has just added this result");
        let mut operands = vec![tape];
        for &n in carried {
            operands.push(dy[n].unwrap_or_else(|| self.zeros(at, &node.label, node.results[n])));
        }
        operands.extend(outputs.iter().filter_map(|n| dy[*n]));
        let mut attrs = node.attrs;
        attrs.retain(Op::Unwind);
        attrs.set(attribute::CARRIED, carried.len());
        attrs.set(attribute::OUTPUTS, outputs.len());
        attrs.set(attribute::SLICES, slices);
        NewNode { op: Op::Unwind, operands, attrs, types, body: Some(back), label: node.label }
    }

    /// The carried values that need a cotangent: those whose result has one, and those that flow into such a one.
    fn carried_with_cotangent(
        &self,
        body: RegionId,
        parts: LoopLayout,
        yields: &[Value],
        dy: &[Option<Value>],
    ) -> Vec<usize> {
        let params = self.graph.params(body);
        let movable = |n: usize| self.active.contains(&params[n]) || self.active.contains(&yields[n]);
        let outputs = parts.carried..parts.carried + parts.given;
        let mut wanted: BTreeSet<usize> = (0..parts.carried).filter(|n| dy[*n].is_some() && movable(*n)).collect();
        loop {
            let targets = wanted.iter().copied().chain(outputs.clone().filter(|n| dy[*n].is_some()));
            let sources = self.reaches(body, targets.map(|n| yields[n]).collect());
            let before = wanted.len();
            wanted.extend((0..parts.carried).filter(|n| movable(*n) && sources.contains(&params[*n])));
            if wanted.len() == before {
                return wanted.into_iter().collect();
            }
        }
    }

    /// All values of the body on which the targets depend.
    fn reaches(&self, body: RegionId, targets: BTreeSet<Value>) -> BTreeSet<Value> {
        let mut reached = targets;
        for &id in self.graph.nodes(body).iter().rev() {
            let node = self.graph.node(id);
            if node.results.iter().any(|v| reached.contains(v)) {
                reached.extend(node.operands.iter().copied());
                if let Some(inner) = node.body {
                    reached.extend(self.graph.walk(inner).iter().flat_map(|n| self.graph.node(*n).operands.clone()));
                }
            }
        }
        reached
    }

    /// Replaces uses of forward-body values in the backward body by saved values.
    fn tape(&mut self, node: NodeId, body: RegionId, back: RegionId) {
        let mut saved: BTreeMap<Value, Value> = BTreeMap::new();
        for id in self.graph.walk(back) {
            let operands = self.graph.node(id).operands.clone();
            if operands.iter().all(|v| self.graph.scope(*v) != body) {
                continue;
            }
            let mut replaced = operands;
            for value in &mut replaced {
                if self.graph.scope(*value) != body {
                    continue;
                }
                let (ty, hint) = (self.graph.ty(*value).clone(), self.graph.hint(*value).to_owned());
                let graph = &mut *self.graph;
                *value = *saved.entry(*value).or_insert_with(|| graph.add_param(back, ty, &hint));
            }
            self.graph.set_operands(id, replaced);
        }
        // Parameters are made in order of first use, so the list follows the parameters and not the values.
        let mut list: Vec<(Value, Value)> = saved.into_iter().map(|(value, param)| (param, value)).collect();
        list.sort_unstable();
        let at = InsertPoint { region: body, before: self.graph.terminator(body) };
        let operands: Vec<Value> = list.into_iter().map(|(_, value)| value).collect();
        let label = self.graph.node(node).label.clone();
        self.emit(at, &label, Op::Save, &operands, Attrs::new());
        self.graph.add_result(node, Type::Tape, "tape");
    }
}

/// Removes nodes of a backward body that nothing uses, so that nothing is saved for them.
fn prune(graph: &mut Graph, region: RegionId) {
    for id in graph.nodes(region).to_vec().into_iter().rev() {
        let node = graph.node(id);
        let wanted = node.op.has(Flag::Effect) || node.body.is_some_and(|b| has_effect(graph, b));
        if !wanted && node.results.iter().all(|v| graph.is_unused(*v)) {
            graph.remove(id);
        } else {
            dce::narrow(graph, id);
        }
    }
}

fn has_effect(graph: &Graph, body: RegionId) -> bool {
    graph.walk(body).iter().any(|n| graph.node(*n).op == Op::Accumulate)
}
