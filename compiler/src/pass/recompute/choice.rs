//! The choice between saving a value for the backward run and rematerialising it.

use crate::ir::attribute::Attrs;
use std::collections::{BTreeMap, BTreeSet};

use super::frames::Frames;
use super::rewrite::rewrite;
use crate::ir::cost::{Costed, Extent, Sizes, turns};
use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};
use crate::ir::types::{Elem, Type};
use crate::pass::dce;

/// Operations per byte saved up to which a value is nearly free: an activation takes about ten operations for the four
/// bytes of its result.
const CHEAP: f64 = 4.0;
/// The part of all kept bytes that a value must save to be worth a node by itself.
const WORTH: f64 = 0.005;
/// Length of the row for which values are weighed where no batch is known. Only proportions matter.
const NOMINAL: usize = 128;
/// Most nodes that are computed again for one value. Longer chains end at values that are kept.
const CHAIN: usize = 24;

/// The node that rematerialises a value.
pub(super) struct Recipe {
    /// The node that computed it first.
    pub(super) node: NodeId,
    pub(super) op: Op,
    pub(super) operands: Vec<Value>,
    pub(super) attrs: Attrs,
    /// The result of the new node that is the value.
    pub(super) result: usize,
}

/// How to compute a value again; `None` for parameters of regions, leaves, results of loops, and what mixes rows.
pub(super) fn recipe(graph: &Graph, value: Value) -> Option<Recipe> {
    let id = graph.producer(value)?;
    let node = graph.node(id);
    let fixed = [Flag::Effect, Flag::Loop, Flag::Leaf, Flag::Terminator].into_iter().any(|f| node.op.has(f));
    if fixed || graph.mixes_rows(id) {
        return None;
    }
    let result = node.results.iter().position(|v| *v == value)?;
    Some(Recipe { node: id, op: node.op, operands: node.operands.clone(), attrs: node.attrs.clone(), result })
}

/// The ops that may be rematerialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecomputeLevel {
    /// What takes few operations per element.
    Cheap,
    /// Everything that has a recipe.
    All,
}

impl RecomputeLevel {
    fn allows(self, op: Op) -> bool {
        self == Self::All || !op.has(Flag::Heavy)
    }
}

/// A step of the choice: one value that is no longer kept, with its saving and its cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Move {
    /// Values that are computed again: the value, and what lies between it and kept ones.
    again: BTreeSet<Value>,
    /// Values that are kept from now on.
    keep: BTreeSet<Value>,
    /// Bytes saved, by the sizes of the choice.
    bytes: f64,
    /// Floating-point operations added.
    flops: f64,
    value: Option<Value>,
}

impl Move {
    fn rate(&self) -> f64 {
        self.bytes / (self.flops + 1.0)
    }
}

/// The values of a graph that its backward run needs, divided into kept ones and those computed again.
#[derive(Clone, Debug)]
pub struct RecomputeChoice<'g> {
    graph: &'g Graph,
    frames: Frames,
    /// For every forward region: how often it runs with which sizes inside.
    runs: BTreeMap<RegionId, Vec<(f64, Sizes)>>,
    kept: BTreeSet<Value>,
    again: BTreeSet<Value>,
    refused: BTreeSet<Value>,
}

impl<'g> RecomputeChoice<'g> {
    /// What the pass chooses: that is computed again which is nearly free, and everything else is kept that the
    /// backward run reads.
    pub fn of_pass(graph: &'g Graph) -> Self {
        let frames = Frames::of(graph);
        let kept = frames.read(graph);
        let (again, refused) = (BTreeSet::new(), BTreeSet::new());
        let mut choice = Self { graph, frames, runs: BTreeMap::new(), kept, again, refused };
        choice.weigh(Sizes::row(NOMINAL));
        choice.take_cheap();
        choice
    }

    /// Weighs values by these sizes from now on.
    pub fn weigh(&mut self, sizes: Sizes) {
        let mut runs = BTreeMap::from([(MAIN, vec![(1.0, sizes)])]);
        for node in self.graph.walk(MAIN) {
            let n = self.graph.node(node);
            if let (Some(body), Some(around)) = (n.body, runs.get(&n.region)) {
                let inside = |(times, sizes): &(f64, Sizes)| {
                    turns(self.graph, node, sizes).into_iter().map(|t| (times * t.steps, t.sizes)).collect::<Vec<_>>()
                };
                let inside = around.iter().flat_map(inside).collect();
                runs.insert(body, inside);
            }
        }
        self.runs = runs;
    }

    fn take_cheap(&mut self) {
        let worth = WORTH * self.kept.iter().map(|v| self.bytes(*v)).sum::<f64>();
        while let Some(best) = self.best(RecomputeLevel::Cheap, |m| m.bytes >= worth && m.flops <= CHEAP * m.bytes) {
            self.take(&best);
        }
    }

    /// The move that saves most bytes per operation, refused ones left out; `None` when nothing is left to save.
    pub fn next(&self) -> Option<Move> {
        self.best(RecomputeLevel::All, |m| m.bytes > 0.0)
    }

    /// Makes a move.
    pub fn take(&mut self, chosen: &Move) {
        self.kept.extend(&chosen.keep);
        self.again.extend(&chosen.again);
        self.kept.retain(|v| !chosen.again.contains(v));
    }

    /// Remembers not to give this move again.
    pub fn refuse(&mut self, refused: &Move) {
        self.refused.extend(refused.value);
    }

    /// The graph with this choice; `None` when nothing is computed again.
    pub fn rewritten(&self) -> Option<Graph> {
        if self.again.is_empty() {
            return None;
        }
        let mut graph = self.graph.clone();
        rewrite(&mut graph, &self.frames, &self.again);
        dce::run(&mut graph);
        Some(graph)
    }

    /// Values that are kept, and values that are computed again: their names and types, in the order of the graph.
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        let name = |v: &Value| {
            let label = self.graph.producer(*v).map_or("", |n| self.graph.node(n).label.as_str());
            let dot = if label.is_empty() { "" } else { " of " };
            format!("{}{dot}{label}: {}", self.graph.hint(*v), self.graph.ty(*v))
        };
        (self.kept.iter().map(name).collect(), self.again.iter().map(name).collect())
    }

    fn best(&self, level: RecomputeLevel, wanted: impl Fn(&Move) -> bool) -> Option<Move> {
        let open = self.kept.iter().filter(|v| !self.refused.contains(v));
        let moves = open.filter_map(|v| self.consider(*v, level)).filter(wanted);
        // The first of equals, so that the order of the graph decides and nothing else.
        moves.reduce(|best, m| if m.rate() > best.rate() { m } else { best })
    }

    /// What it takes not to keep a value.
    fn consider(&self, value: Value, level: RecomputeLevel) -> Option<Move> {
        let mut chosen = Move { value: Some(value), ..Move::default() };
        if !self.repeat(value, level, &mut chosen) {
            return None;
        }
        chosen.bytes = self.bytes(value) - self.total(&chosen.keep);
        chosen.flops = chosen.again.iter().map(|v| self.flops(*v)).sum();
        Some(chosen)
    }

    /// Adds to `chosen` that a value is computed again, and how its operands come about; false where it can't be.
    fn repeat(&self, value: Value, level: RecomputeLevel, chosen: &mut Move) -> bool {
        let Some(recipe) = recipe(self.graph, value) else { return false };
        if !level.allows(recipe.op) || chosen.again.len() >= CHAIN || !self.has_frame(value) {
            return false;
        }
        chosen.again.insert(value);
        for operand in recipe.operands {
            self.need(operand, level, chosen);
        }
        true
    }

    /// Adds to `chosen` how an operand comes about: it is there, or is computed again, or is kept, whichever takes less.
    fn need(&self, operand: Value, level: RecomputeLevel, chosen: &mut Move) {
        let there = [&self.kept, &self.again, &chosen.again, &chosen.keep].iter().any(|set| set.contains(&operand));
        if there || self.bytes(operand) == 0.0 {
            // What takes no memory is still put onto the tape where it must be.
            return;
        }
        let mut repeated = chosen.clone();
        if self.repeat(operand, level, &mut repeated)
            && self.total(&repeated.keep) < self.total(&chosen.keep) + self.bytes(operand)
        {
            *chosen = repeated;
        } else {
            chosen.keep.insert(operand);
        }
    }

    fn has_frame(&self, value: Value) -> bool {
        self.frames.of_forward(self.graph.scope(value)).is_some()
    }

    fn total(&self, values: &BTreeSet<Value>) -> f64 {
        values.iter().map(|v| self.bytes(*v)).sum()
    }

    /// Bytes that keeping a value takes in all steps of the loops around it.
    fn bytes(&self, value: Value) -> f64 {
        let graph = self.graph;
        let leaf = graph.producer(value).is_some_and(|n| graph.node(n).op.has(Flag::Leaf));
        let end = graph.terminator(MAIN).map(|n| graph.node(n).operands.contains(&value));
        // A value that the next step starts from is its parameter there: one buffer serves both.
        let shared = self.carried_twin(value).is_some_and(|twin| self.kept.contains(&twin));
        let size = match graph.ty(value) {
            Type::Tensor(Elem::Bool, _) => 1.0,
            Type::Tensor(..) => 4.0,
            Type::Tape => 0.0,
        };
        match self.runs.get(&graph.scope(value)) {
            Some(runs) if !leaf && end != Some(true) && !shared => {
                runs.iter().map(|(times, sizes)| times * sizes.elements(graph.ty(value)) * size).sum()
            }
            _ => 0.0,
        }
    }

    /// The parameter that a yielded value becomes.
    fn carried_twin(&self, value: Value) -> Option<Value> {
        let body = self.graph.scope(value);
        let owner = self.graph.owner(body)?;
        let carried = loops::layout(self.graph, owner).carried;
        let place = loops::yielded(self.graph, owner).iter().take(carried).position(|v| *v == value)?;
        self.graph.params(body).get(place).copied()
    }

    /// Operations of computing a value again in all steps.
    fn flops(&self, value: Value) -> f64 {
        let (Some(recipe), Some(runs)) = (recipe(self.graph, value), self.runs.get(&self.graph.scope(value))) else {
            return 0.0;
        };
        let types = |values: &[Value]| values.iter().map(|v| self.graph.ty(*v)).collect();
        let (operands, results): (Vec<_>, Vec<_>) = (types(&recipe.operands), types(&[value]));
        let once = |sizes| {
            let (operands, results) = (operands.clone(), results.clone());
            (recipe.op.def().cost.number)(&Costed { operands, results, attrs: &recipe.attrs, sizes })
        };
        runs.iter().map(|(times, sizes)| times * once(sizes)).sum()
    }
}
