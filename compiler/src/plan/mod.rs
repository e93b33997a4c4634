//! The plan: the order in which the runtime executes a graph, when values die, which buffers are reused in place, and
//! which gradients are added straight into their accumulators.

pub mod cost;
pub mod group;
pub mod memory;
mod order;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ir::attribute;
use crate::ir::graph::{Graph, MAIN, NodeId, Parameter, RegionId, Value};
use crate::ir::ops::{Flag, Op};
use crate::ir::roles;
use crate::ir::types::Type;

use group::Group;
pub use text::text;

/// An executable graph.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The graph; nodes are looked up by the ids in the steps.
    pub graph: Arc<Graph>,
    /// The plan of each region, by region index; regions that are no longer part of the graph are empty.
    pub regions: Vec<RegionPlan>,
    /// Parameters in the order of their names: the order of the flat parameter array.
    pub parameters: Vec<Parameter>,
    /// The smallest number of tokens that a table has vectors for; `None` if no table is read at the tokens.
    pub vocabulary: Option<usize>,
    /// The number of classes that labels choose among; `None` if nothing says it.
    pub classes: Option<usize>,
}

/// The plan of a region.
#[derive(Clone, Debug, Default)]
pub struct RegionPlan {
    /// The nodes to execute, in order; the terminator is not among them.
    pub steps: Vec<Step>,
    /// In a body that halts: the number of steps after which `go` is known, where work for the rows that go on follows.
    pub early_exit: Option<usize>,
    /// Steps that run together, block by block, from first to last.
    pub groups: Vec<Group>,
    /// What the terminator hands out.
    pub yields: Vec<Value>,
    /// What the `save` of a loop body tapes.
    pub saves: Vec<Value>,
    /// Batched values of outer regions that the body reads: they must be cut to the rows that take part.
    pub captures: Vec<Value>,
    /// Parameters that no step uses: they die at once.
    pub unused: Vec<Value>,
}

/// One node, with the values that it frees and the buffers that it reuses.
#[derive(Clone, Debug)]
pub struct Step {
    pub node: NodeId,
    /// Values of this region that are used here for the last time.
    pub frees: Vec<Value>,
    /// The operand whose buffer becomes the result's, when there is no other handle to it.
    pub in_place: Option<usize>,
    /// For each result: the parameter to whose gradient it is added instead of being kept.
    pub accumulates_into: Vec<Option<usize>>,
}

impl Plan {
    /// The same plan over other parameters, its own among them: plans over equal parameters share one flat array.
    #[must_use]
    pub fn over(mut self, parameters: Vec<Parameter>) -> Self {
        let place = |own: usize| parameters.iter().position(|other| other.name == self.parameters[own].name);
        for into in self.regions.iter_mut().flat_map(|region| &mut region.steps).flat_map(|s| &mut s.accumulates_into) {
            *into = into.and_then(place);
        }
        Self { parameters, ..self }
    }
}

/// Plans a graph.
pub fn plan(graph: Graph) -> Plan {
    let mut parameters = graph.parameters();
    parameters.sort_by(|a, b| a.name.cmp(&b.name));
    let index: BTreeMap<String, usize> = parameters.iter().enumerate().map(|(n, p)| (p.name.clone(), n)).collect();
    let mut regions = vec![RegionPlan::default(); graph.region_count()];
    let bodies = graph.walk(MAIN).into_iter().filter_map(|n| graph.node(n).body);
    for region in std::iter::once(MAIN).chain(bodies) {
        regions[region.index()] = plan_region(&graph, region, &index);
    }
    let (vocabulary, classes) = (roles::vocabulary(&graph), roles::classes(&graph));
    Plan { graph: Arc::new(graph), regions, parameters, vocabulary, classes }
}

fn plan_region(graph: &Graph, region: RegionId, parameters: &BTreeMap<String, usize>) -> RegionPlan {
    let mut out = RegionPlan { captures: captures(graph, region), ..RegionPlan::default() };
    let mut accumulated: BTreeMap<Value, usize> = BTreeMap::new();
    let order = order::order(graph, region);
    for &id in &order.nodes {
        let node = graph.node(id);
        match node.op {
            Op::Yield | Op::Return => out.yields.clone_from(&node.operands),
            Op::Save => out.saves.clone_from(&node.operands),
            Op::Accumulate => {
                if let Some((value, param)) = direct(graph, id, parameters) {
                    accumulated.insert(value, param);
                }
            }
            _ => {}
        }
    }
    let held: BTreeSet<Value> = out.yields.iter().chain(&out.saves).copied().collect();
    let last = last_uses(graph, region, &order.nodes);
    let (mut steps, mut early_exit) = (vec![], None);
    for (n, &id) in order.nodes.iter().enumerate() {
        if order.early_exit == Some(n) {
            early_exit = Some(steps.len());
        }
        let node = graph.node(id);
        let skipped = matches!(node.op, Op::Yield | Op::Return | Op::Save)
            || (node.op == Op::Accumulate && accumulated.contains_key(&node.operands[0]));
        if skipped {
            continue;
        }
        let mut frees: Vec<Value> = reads(graph, id).into_iter().filter(|v| last.get(v) == Some(&id)).collect();
        frees.extend(node.results.iter().filter(|v| graph.is_unused(**v) && !held.contains(v)));
        frees.retain(|v| !held.contains(v));
        let in_place = in_place(graph, id, &frees);
        let accumulates_into = node.results.iter().map(|v| accumulated.get(v).copied()).collect();
        steps.push(Step { node: id, frees, in_place, accumulates_into });
    }
    (out.steps, out.groups) = group::group(graph, steps, early_exit, &held);
    out.early_exit = early_exit;
    out.unused = graph.params(region).iter().copied().filter(|v| !last.contains_key(v) && !held.contains(v)).collect();
    out
}

/// The values that a node reads: its operands, and the captures of its body.
fn reads(graph: &Graph, id: NodeId) -> BTreeSet<Value> {
    let node = graph.node(id);
    let mut out: BTreeSet<Value> = node.operands.iter().copied().collect();
    out.extend(node.body.into_iter().flat_map(|body| captured(graph, body)));
    out
}

/// The last node of the region, in this order, that reads each value of the region.
fn last_uses(graph: &Graph, region: RegionId, order: &[NodeId]) -> BTreeMap<Value, NodeId> {
    let mut last = BTreeMap::new();
    for &id in order {
        let own = reads(graph, id).into_iter().filter(|v| graph.scope(*v) == region);
        last.extend(own.map(|v| (v, id)));
    }
    last
}

/// The captures of a body: the values of outer regions that it reads.
pub(crate) fn captured(graph: &Graph, body: RegionId) -> BTreeSet<Value> {
    let inside = graph.walk(body).into_iter().flat_map(|id| graph.node(id).operands.clone());
    inside.filter(|v| !graph.encloses(body, graph.scope(*v))).collect()
}

/// The captures that are cut to the rows that take part.
fn captures(graph: &Graph, region: RegionId) -> Vec<Value> {
    let by_row = |v: &Value| graph.ty(*v).is_batched() || *graph.ty(*v) == Type::Tape;
    captured(graph, region).into_iter().filter(by_row).collect()
}

/// The value and parameter of an `accumulate` whose operand comes from an op that can add into an accumulator, has no
/// other user, and lies in the same region.
fn direct(graph: &Graph, accumulate: NodeId, parameters: &BTreeMap<String, usize>) -> Option<(Value, usize)> {
    let node = graph.node(accumulate);
    let value = node.operands[0];
    let producer = graph.node(graph.producer(value)?);
    let adds = match producer.op.def().by_unit {
        Some(roles) => producer.results.iter().position(|v| *v == value).is_some_and(|n| roles.sums.contains(&n)),
        None => producer.op.has(Flag::Accumulates),
    };
    let alone = graph.users(value) == [accumulate] && producer.region == node.region;
    let param = parameters.get(node.find(attribute::PARAM)?)?;
    (adds && alone).then_some((value, *param))
}

/// The first operand, if the op can write over it, it dies here, occurs once, and has the result's type.
fn in_place(graph: &Graph, id: NodeId, frees: &[Value]) -> Option<usize> {
    let node = graph.node(id);
    let operand = *node.operands.first().filter(|_| node.op.has(Flag::InPlace))?;
    let once = node.operands.iter().filter(|v| **v == operand).count() == 1;
    (once && frees.contains(&operand) && graph.ty(operand) == graph.ty(node.results[0])).then_some(0)
}
