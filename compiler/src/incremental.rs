//! Incremental runs: the answers of new positions from what the positions before them have left behind.
//!
//! A text that is generated grows by one position at a time. A model whose positions see only those before them need not
//! compute those again: attention takes up the keys and values of the earlier positions, a scan its state, a chunk loop its
//! memory. [`incremental`] decides from the graph, before anything runs, whether that can be done for every op that the
//! answers need; else it names the op that reads more, and the whole row has to be computed again for every token.
//!
//! **What always holds.** A value with positions depends on the positions up to each one. A value without positions (slots of
//! a memory, products of parameters) is the same for all new positions of its chunk and step, and is computed once there.

use crate::ir::attribute::{self, Chunking, Mask, Side};
use std::collections::{BTreeMap, BTreeSet};

use crate::causality::{Analysis, analyse};
use crate::ir::dependence::Dependence;
use crate::ir::graph::{Graph, MAIN, Node, NodeId, Value, ValueOrigin};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};
use crate::ir::types::{LENGTH, Type};
use crate::plan::{Plan, captured};

/// What an incremental run does with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Nothing: no answer needs it.
    Skip,
    /// It runs over the new positions.
    Run,
    /// Its results have no positions: it runs once for a chunk and a step of a recurrence.
    Once,
}

/// How a plan runs over new positions alone.
#[derive(Clone, Debug)]
pub struct Incremental {
    takes: Vec<Take>,
}

impl Incremental {
    /// What to do with a step. Steps of a group are taken alike.
    pub fn take(&self, node: NodeId) -> Take {
        self.takes.get(node.index()).copied().unwrap_or(Take::Skip)
    }
}

/// How to run a plan over new positions for its result of this name.
///
/// # Errors
/// A sentence that names the first op which needs more than new positions and what earlier ones leave.
pub fn incremental(plan: &Plan, result: &str) -> Result<Incremental, String> {
    let graph = &plan.graph;
    let answer = graph.output(result).ok_or_else(|| format!("the graph has no `{result}`"))?;
    let mut needs =
        NeededNodes { plan, ranges: ranges(plan), needed: BTreeSet::new(), open: vec![answer], seen: BTreeSet::new() };
    needs.settle();
    let rules = IncrementalRules { graph, analysis: analyse(graph) };
    for &id in &needs.needed {
        rules.check(id).map_err(|why| sentence(graph.node(id), &why))?;
    }
    let mut takes = vec![Take::Skip; graph.walk(MAIN).iter().map(|id| id.index() + 1).max().unwrap_or(0)];
    for &id in needs.needed.iter().filter(|id| graph.node(**id).op != Op::Param) {
        let together = needs.ranges.get(&id).map_or(std::slice::from_ref(&id), Vec::as_slice);
        let results = together.iter().flat_map(|id| &graph.node(*id).results);
        let positions = graph.node(id).op == Op::Any || results.into_iter().any(|v| graph.ty(*v).ragged().is_some());
        takes[id.index()] = if positions { Take::Run } else { Take::Once };
    }
    Ok(Incremental { takes })
}

fn sentence(node: &Node, why: &str) -> String {
    let place = if node.label.is_empty() { String::new() } else { format!(" of {}", node.label) };
    format!("`{}`{place} {why}", node.op)
}

/// For every step of a group the steps of the group.
fn ranges(plan: &Plan) -> BTreeMap<NodeId, Vec<NodeId>> {
    let groups = plan.regions.iter().flat_map(|own| own.groups.iter().map(|group| &own.steps[group.steps.clone()]));
    let nodes = groups.map(|steps| steps.iter().map(|step| step.node).collect::<Vec<_>>());
    nodes.flat_map(|nodes| nodes.clone().into_iter().map(move |id| (id, nodes.clone()))).collect()
}

/// The nodes that an answer needs.
struct NeededNodes<'p> {
    plan: &'p Plan,
    ranges: BTreeMap<NodeId, Vec<NodeId>>,
    needed: BTreeSet<NodeId>,
    open: Vec<Value>,
    seen: BTreeSet<Value>,
}

impl NeededNodes<'_> {
    fn settle(&mut self) {
        while let Some(value) = self.open.pop() {
            if !self.seen.insert(value) {
                continue;
            }
            match self.plan.graph.def(value) {
                ValueOrigin::Result(node, _) => self.need(node),
                ValueOrigin::Param(region, _) => {
                    self.plan.graph.owner(region).into_iter().for_each(|owner| self.need(owner))
                }
            }
        }
    }

    /// The node runs, and with it the steps of its group.
    fn need(&mut self, id: NodeId) {
        let together = self.ranges.get(&id).cloned().unwrap_or_else(|| vec![id]);
        for id in together {
            if self.needed.insert(id) {
                self.open.extend(self.reads(id));
            }
        }
    }

    /// What the node reads, outside and inside of its body. What a chunk hands on is computed where the chunk is complete,
    /// all of its positions at once.
    fn reads(&self, id: NodeId) -> Vec<Value> {
        let graph = &self.plan.graph;
        let node = graph.node(id);
        let mut reads = node.operands.clone();
        let Some(body) = node.body else { return reads };
        let (layout, yields) = (loops::layout(graph, id), loops::yielded(graph, id));
        match node.op {
            Op::Chunks => {
                reads.extend(&yields[layout.carried..]);
                reads.extend(captured(graph, body));
            }
            _ => reads.extend(yields),
        }
        reads
    }
}

/// The rules for what an op may read where only new positions are computed.
struct IncrementalRules<'p> {
    graph: &'p Graph,
    analysis: Analysis<'p>,
}

impl IncrementalRules<'_> {
    fn ragged(&self, value: Value) -> Option<&str> {
        self.graph.ty(value).ragged()
    }

    fn check(&self, id: NodeId) -> Result<(), String> {
        let node = self.graph.node(id);
        let x = node.operands.first().and_then(|v| self.ragged(*v));
        let must = |holds: bool, why: &str| if holds { Ok(()) } else { Err(why.to_owned()) };
        match node.op.def().dependence {
            Dependence::Nothing | Dependence::Effect => Ok(()),
            Dependence::Input => must(self.ragged(node.results[0]) == Some(LENGTH), "is no value of every token"),
            Dependence::Units => self.by_position(node, &node.operands),
            Dependence::First => self.by_position(node, &node.operands[..1]),
            Dependence::Channels => {
                let along = |v: &Value| self.graph.ty(*v).dims().len() == 2 && self.ragged(*v).is_some();
                must(!node.operands.iter().any(along), "goes along the row")?;
                self.by_position(node, &node.operands)
            }
            Dependence::Prefix => {
                must(node.op.has(Flag::Continues) || x.is_none(), "reads the row before its position")
            }
            Dependence::Scan => {
                let past = node.op.has(Flag::Continues) && node.get(attribute::SIDE) == Side::Left;
                must(past || x.is_none(), "reads positions behind its own")
            }
            // Whether any position goes on: those that do are among the new ones.
            Dependence::Pool if node.op == Op::Any => Ok(()),
            Dependence::Pool | Dependence::Position => must(x.is_none(), "reads the whole row"),
            Dependence::HaltTest => must(!node.has(attribute::CAP), "reads the length of the row"),
            Dependence::Depth => must(
                node.get(attribute::BOUND).steps().is_some(),
                "asks for the steps that the row or the example gives",
            ),
            Dependence::Attention => self.attention(id),
            Dependence::Recur => self.recur(id),
            Dependence::Chunks => self.chunks(id),
            Dependence::Frame => Err("puts END behind the row".to_owned()),
            Dependence::Moved => Err("moves the positions of the row".to_owned()),
            Dependence::Rows => Err("reads other rows".to_owned()),
            Dependence::Fold | Dependence::Part => Err("brings all positions of the row together".to_owned()),
            Dependence::Backward => Err("belongs to training".to_owned()),
        }
    }

    /// Each result is made of what these operands are at its own position.
    fn by_position(&self, node: &Node, read: &[Value]) -> Result<(), String> {
        let results = node.results.iter().any(|v| self.ragged(*v).is_some());
        let pooled = !results && read.iter().any(|v| self.ragged(*v).is_some());
        match node.op {
            Op::PadRagged => Err("moves the positions of the row".to_owned()),
            _ if pooled => Err("reads the whole row".to_owned()),
            _ => Ok(()),
        }
    }

    /// Keys with positions are those of the queries' row, up to each one. Keys without are the same for all.
    fn attention(&self, id: NodeId) -> Result<(), String> {
        let node = self.graph.node(id);
        let (queries, keys) = (self.ragged(node.operands[0]), self.ragged(node.operands[1]));
        let biased = node.attrs.score().map_or(true, |score| score.of_pairs().is_some());
        let placed = node.get(attribute::MASK) != Mask::All || biased;
        match (queries, keys) {
            (None, None) => Ok(()),
            (Some(_), None) if placed || node.has(attribute::POSITION) => {
                Err("places positions among keys that have none".to_owned())
            }
            (Some(_), None) => Ok(()),
            (Some(queries), Some(keys))
                if queries == keys && node.op.has(Flag::Continues) && self.analysis.sees_past(id) =>
            {
                Ok(())
            }
            _ => Err("sees positions behind its own".to_owned()),
        }
    }

    /// The number of steps is known, and a position that has halted stays as it is however long others go on.
    fn recur(&self, id: NodeId) -> Result<(), String> {
        let node = self.graph.node(id);
        let moves = |n: usize| !self.graph.is_unused(node.results[n]) && !self.analysis.stays(id, n);
        if node.get(attribute::BOUND).steps().is_none() {
            return Err("takes as many steps as the row or the example says".to_owned());
        }
        if loops::layout(self.graph, id).go > 0 && (0..node.operands.len()).any(moves) {
            return Err("halts all positions of the row at once".to_owned());
        }
        Ok(())
    }

    /// Chunks are cut at places that no later token moves, and no op inside a chunk reads the row around it.
    fn chunks(&self, id: NodeId) -> Result<(), String> {
        let node = self.graph.node(id);
        let carried = loops::layout(self.graph, id).carried;
        let (before, sliced) = node.operands.split_at(carried);
        let body = node.body.into_iter().flat_map(|body| captured(self.graph, body));
        if node.get(attribute::CUT) == Chunking::Chosen {
            return Err("computes the chosen positions of the row together".to_owned());
        }
        if node.get(attribute::CUT) != Chunking::Position || !node.has(attribute::SIZE) {
            return Err("cuts the row by its length".to_owned());
        }
        if before.iter().copied().chain(body).any(|v| self.ragged(v).is_some() || *self.graph.ty(v) == Type::Tape) {
            return Err("reads the row around a chunk".to_owned());
        }
        match sliced.iter().all(|v| self.graph.ty(*v).is_real() && self.ragged(*v).is_some()) {
            true => Ok(()),
            false => Err("takes chunks of something other than states".to_owned()),
        }
    }
}
