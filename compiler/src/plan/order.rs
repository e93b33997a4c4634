//! The order of the steps of a region.
//!
//! **Contract.** The nodes are those of the region, each once, and each after all that it reads; nodes that nothing forces
//! apart keep the order of the graph. Where `early_exit` is given, `go` depends on the first `early_exit` nodes alone and
//! work worth saving comes after them: the executor lets the rows that reject the step leave at that point. Any
//! further change of the order may move no node across it.

use std::collections::BTreeSet;

use super::reads;
use crate::ir::graph::{Graph, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};

/// An order of the nodes of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeOrder {
    /// The nodes, the terminator last.
    pub(super) nodes: Vec<NodeId>,
    /// The number of nodes after which it is known which rows accept the step.
    pub(super) early_exit: Option<usize>,
}

/// The order in which a region is executed: the nodes that decide about the step come first, if that saves work.
pub(super) fn order(graph: &Graph, region: RegionId) -> NodeOrder {
    let nodes = graph.nodes(region);
    let cone = go(graph, region).map(|go| cone(graph, region, go)).unwrap_or_default();
    let (mut first, rest): (Vec<_>, Vec<_>) = nodes.iter().copied().partition(|id| cone.contains(id));
    if first.is_empty() || !rest.iter().any(|id| is_work(graph, *id)) {
        return NodeOrder { nodes: nodes.to_vec(), early_exit: None };
    }
    let early_exit = Some(first.len());
    first.extend(rest);
    NodeOrder { nodes: first, early_exit }
}

/// The condition that a region yields beside its carried values, if it is the body of a recurrence that halts.
fn go(graph: &Graph, region: RegionId) -> Option<Value> {
    let owner = graph.owner(region)?;
    let halts = graph.node(owner).op == Op::Recur && loops::layout(graph, owner).go > 0;
    if halts { loops::yielded(graph, owner).last().copied() } else { None }
}

/// The nodes of the region that a value depends on.
fn cone(graph: &Graph, region: RegionId, value: Value) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let producer = graph.producer(value).filter(|id| graph.node(*id).region == region);
        if let Some(id) = producer.filter(|id| found.insert(*id)) {
            open.extend(reads(graph, id));
        }
    }
    found
}

/// True for nodes that cost more than moving data does.
fn is_work(graph: &Graph, id: NodeId) -> bool {
    let op = graph.node(id).op;
    op.has(Flag::Loop) || op.has(Flag::Heavy)
}
