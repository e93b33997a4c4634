//! Dead code elimination: removes nodes on which no result of the graph and no effect depends.
//!
//! One marking finds the live values, then one sweep removes the rest, so that values that only feed each other around
//! a loop die together. A loop's interface shrinks part by part: carried values, sequences, outputs, saved values
//! with the parameters of the `unwind` that reads them, slices and captured contributions. What tells a loop
//! how many rows and tokens there are stays: one carried value of a `recur`, a sequence where its bound is a rule of the
//! length, one sequence of a `chunks`, the one that chooses where there is such, the nodes of a `fold`, `beam` or `part`, the tape of
//! an `unwind`. A map keeps the results that something reads.

use crate::ir::attribute::{self, Chunking};
use std::collections::{BTreeMap, BTreeSet};

use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value, ValueOrigin};
use crate::ir::loops::{self, LoopLayout};
use crate::ir::ops::{Flag, Op};
use crate::ir::pointwise::{self, Scalar};

/// Removes dead nodes and dead parts of loops. True when something was removed.
pub fn run(graph: &mut Graph) -> bool {
    let mut marks = LiveMarks { graph, live: BTreeSet::new(), needed: BTreeSet::new(), todo: vec![] };
    marks.mark();
    let LiveMarks { live, needed, .. } = marks;
    let shrunk: Vec<Shrunk> = needed.iter().filter_map(|n| Shrunk::of(graph, *n, &live)).collect();
    let dead: Vec<NodeId> = graph.walk(MAIN).into_iter().filter(|n| !needed.contains(n)).collect();
    let changed = !shrunk.is_empty() || !dead.is_empty();
    for part in &shrunk {
        part.drop_uses(graph);
    }
    // Users before definitions; a loop after its body.
    for node in dead.into_iter().rev() {
        graph.remove(node);
    }
    for part in &shrunk {
        part.drop_definitions(graph);
    }
    graph.walk(MAIN).into_iter().fold(changed, |changed, node| narrow(graph, node) || changed)
}

/// Drops the results of a map that nothing reads, and the operands that only they need. True when there were some.
pub(super) fn narrow(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let used: Vec<bool> = node.results.iter().map(|v| !graph.is_unused(*v)).collect();
    if node.op != Op::Map || used.iter().all(|used| *used) {
        return false;
    }
    let Ok(exprs) = pointwise::results(&node.attrs) else { return false };
    let kept: Vec<Scalar> = exprs.into_iter().zip(&used).filter(|(_, used)| **used).map(|(expr, _)| expr).collect();
    let (operands, attrs) = pointwise::map(&kept, &node.operands);
    graph.retain_results(id, |n| used[n]);
    graph.set_operands(id, operands);
    graph.set_attr(id, attribute::F, attrs.get(attribute::F));
    true
}

/// The nodes that the results and effects need.
struct LiveMarks<'g> {
    graph: &'g Graph,
    live: BTreeSet<Value>,
    needed: BTreeSet<NodeId>,
    todo: Vec<Value>,
}

impl LiveMarks<'_> {
    fn mark(&mut self) {
        let mut parameters = BTreeMap::new();
        for node in self.graph.walk(MAIN) {
            let n = self.graph.node(node);
            match n.op {
                Op::Param => drop(parameters.insert(n.find(attribute::NAME), n.results[0])),
                Op::Return => self.need(node),
                // A parameter on which no result depends may still have a gradient, if one of zeros.
                Op::Accumulate => {
                    self.need(node);
                    parameters.get(&n.find(attribute::PARAM)).into_iter().for_each(|param| self.want(*param));
                }
                _ => {}
            }
        }
        loop {
            while let Some(value) = self.todo.pop() {
                self.follow(value);
            }
            self.keep_rows();
            if self.todo.is_empty() {
                return;
            }
        }
    }

    fn want(&mut self, value: Value) {
        if self.live.insert(value) {
            self.todo.push(value);
        }
    }

    fn want_at(&mut self, values: &[Value], n: usize) {
        if let Some(value) = values.get(n) {
            self.want(*value);
        }
    }

    /// The node runs: so does the loop around it, and its operands are live. Of a loop, single parts are.
    fn need(&mut self, node: NodeId) {
        if !self.needed.insert(node) {
            return;
        }
        let n = self.graph.node(node);
        if let Some(owner) = self.graph.owner(n.region) {
            self.need(owner);
        }
        match n.op {
            op if op.has(Flag::Loop) => self.need_loop(node),
            Op::Yield | Op::Save => {}
            _ => n.operands.iter().for_each(|v| self.want(*v)),
        }
    }

    fn need_loop(&mut self, node: NodeId) {
        let n = self.graph.node(node);
        let parts = loops::layout(self.graph, node);
        if let Some(end) = n.body.and_then(|b| self.graph.terminator(b)) {
            self.need(end);
        }
        if parts.tape > 0 {
            self.want_at(&n.operands, 0);
        }
        if parts.go > 0 {
            self.want_at(loops::yielded(self.graph, node), parts.carried + parts.given);
        }
    }

    fn follow(&mut self, value: Value) {
        match self.graph.def(value) {
            ValueOrigin::Result(node, n) => {
                self.need(node);
                if self.graph.node(node).op.has(Flag::Loop) {
                    self.follow_result(node, n, value);
                }
            }
            ValueOrigin::Param(region, n) => {
                if let Some(owner) = self.graph.owner(region) {
                    self.need(owner);
                    self.follow_param(owner, region, n);
                }
            }
        }
    }

    fn follow_result(&mut self, node: NodeId, n: usize, value: Value) {
        let parts = loops::layout(self.graph, node);
        if loops::tape(self.graph, node) == Some(value) {
            if let Some(save) = self.graph.node(node).body.and_then(|b| loops::save(self.graph, b)) {
                self.need(save);
            }
        } else if n < parts.carried {
            self.want_carried(node, n);
        } else {
            self.want_at(loops::yielded(self.graph, node), n);
        }
    }

    fn follow_param(&mut self, owner: NodeId, region: RegionId, n: usize) {
        let parts = loops::layout(self.graph, owner);
        if n < parts.carried {
            self.want_carried(owner, n);
        } else if n < parts.carried + parts.sliced {
            self.want_at(&self.graph.node(owner).operands, parts.tape + n);
        } else if let Some(source) = loops::saved_source(self.graph, region, n) {
            self.want(source);
        }
    }

    /// Start, parameter, yielded value and result of a carried value live together.
    fn want_carried(&mut self, node: NodeId, n: usize) {
        let owner = self.graph.node(node);
        let tape = loops::layout(self.graph, node).tape;
        self.want_at(&owner.operands, tape + n);
        self.want_at(loops::yielded(self.graph, node), n);
        self.want_at(&owner.results, n);
        if let Some(body) = owner.body {
            self.want_at(self.graph.params(body), n);
        }
    }

    fn keep_rows(&mut self) {
        for node in self.needed.clone() {
            let n = self.graph.node(node);
            let Some(body) = n.body else { continue };
            let params = self.graph.params(body);
            let parts = loops::layout(self.graph, node);
            let range = match n.op {
                Op::Recur | Op::Fold | Op::Beam | Op::Part => 0..parts.carried,
                // A search gives the gradients of what it joined to what it was made of.
                Op::Unwind if parts.step > 0 => 0..parts.carried,
                Op::Chunks => parts.carried..parts.carried + parts.sliced,
                _ => continue,
            };
            if n.op == Op::Chunks && n.get(attribute::CUT) == Chunking::Chosen {
                self.want_at(params, parts.carried);
            }
            if !range.is_empty() && !params[range.clone()].iter().any(|p| self.live.contains(p)) {
                self.want(params[range.start]);
            }
            if loops::counts_length(self.graph, node) {
                let mut sequences = params[range].iter().filter(|p| self.graph.ty(**p).ragged().is_some());
                if !sequences.clone().any(|p| self.live.contains(p)) {
                    sequences.next().copied().into_iter().for_each(|first| self.want(first));
                }
            }
        }
    }
}

/// A loop with what stays of its interface.
struct Shrunk {
    node: NodeId,
    body: RegionId,
    parts: LoopLayout,
    /// What stays of operands, parameters, yielded values, results and saved values, by index.
    operands: Vec<bool>,
    params: Vec<bool>,
    yields: Vec<bool>,
    results: Vec<bool>,
    saved: Vec<bool>,
}

impl Shrunk {
    /// The loop, if a part of it is dead.
    fn of(graph: &Graph, node: NodeId, live: &BTreeSet<Value>) -> Option<Self> {
        let n = graph.node(node);
        let body = n.body?;
        let parts = loops::layout(graph, node);
        let lives = |values: &[Value]| values.iter().map(|v| live.contains(v)).collect::<Vec<_>>();
        let mut params = lives(graph.params(body));
        if parts.step > 0
            && let Some(step) = params.last_mut()
        {
            *step = true;
        }
        let results = lives(&n.results);
        let operands = (0..n.operands.len()).map(|i| i < parts.tape || params[i - parts.tape]).collect();
        let yields = (0..loops::yielded(graph, node).len())
            .map(|i| match i {
                _ if i < parts.carried => params[i],
                _ if parts.go > 0 && i == parts.carried + parts.given => true,
                _ => results[i],
            })
            .collect();
        let taped = loops::tape(graph, node).is_some_and(|t| live.contains(&t));
        let saved = loops::save(graph, body).filter(|_| taped).map_or(vec![], |s| saved_uses(graph, s, live));
        let out = Self { node, body, parts, operands, params, yields, results, saved };
        let all = [&out.operands, &out.params, &out.yields, &out.results, &out.saved];
        all.iter().any(|part| part.contains(&false)).then_some(out)
    }

    /// Takes the dead values out of the operands of the loop, its terminator and its `save`.
    fn drop_uses(&self, graph: &mut Graph) {
        let end = graph.terminator(self.body);
        let save = loops::save(graph, self.body).filter(|_| !self.saved.is_empty());
        let lists = [(Some(self.node), &self.operands), (end, &self.yields), (save, &self.saved)];
        for (node, keep) in lists {
            let Some(node) = node else { continue };
            let operands = graph.node(node).operands.iter().zip(keep).filter(|(_, k)| **k).map(|(v, _)| *v).collect();
            graph.set_operands(node, operands);
        }
    }

    /// Takes the dead parameters and results away and counts the parts anew.
    fn drop_definitions(&self, graph: &mut Graph) {
        let Self { node, parts, .. } = *self;
        graph.retain_params(self.body, |n| self.params[n]);
        graph.retain_results(node, |n| self.results[n]);
        let op = graph.node(node).op;
        let count = |list: &[bool]| list.iter().filter(|k| **k).count();
        let carried = count(&self.params[..parts.carried]);
        if matches!(op, Op::Chunks | Op::Unwind) {
            graph.set_attr(node, attribute::CARRIED, carried);
        }
        if op == Op::Unwind {
            let slices = graph.node(node).get(attribute::SLICES);
            let outputs = count(&self.params[parts.carried..parts.carried + parts.sliced]);
            graph.set_attr(node, attribute::OUTPUTS, outputs);
            let slices = count(&self.results[parts.carried..parts.carried + slices]);
            graph.set_attr(node, attribute::SLICES, slices);
        }
    }
}

/// Which operands of a `save` are read by the backward loop.
fn saved_uses(graph: &Graph, save: NodeId, live: &BTreeSet<Value>) -> Vec<bool> {
    let body = graph.node(save).region;
    let mut uses = vec![false; graph.node(save).operands.len()];
    for node in graph.walk(MAIN) {
        let n = graph.node(node);
        let (Op::Unwind, Some(region), Some(tape)) = (n.op, n.body, n.operands.first()) else { continue };
        if loops::forward(graph, *tape).and_then(|f| graph.node(f).body) != Some(body) {
            continue;
        }
        let parts = loops::layout(graph, node);
        let saved = graph.params(region).get(parts.carried + parts.sliced..).unwrap_or_default();
        for (used, param) in uses.iter_mut().zip(saved) {
            *used |= live.contains(param);
        }
    }
    uses
}
