//! Common subexpression elimination: of equal nodes the first one serves all.
//!
//! Two nodes are equal when op, operands and attributes are; the slot that they come from does not matter. The first may
//! lie in a region around the second. Effects and loops stay. Random ops are equal when their stream, which is an
//! attribute, is: the counters of the loops around are part of a draw, so they must also share the region. So must ops
//! that mix rows, because a loop may run on fewer rows. Region parameters that receive the same sequence, or the same
//! saved value, are equal too.

use std::collections::BTreeMap;

use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};

/// The key by which nodes are equal: op, operands, attributes, and the region where it matters.
type NodeKey = (Op, Vec<Value>, Vec<(&'static str, String)>, Option<RegionId>);

/// Merges equal nodes. True when something was merged.
pub fn run(graph: &mut Graph) -> bool {
    let twins = params(graph);
    let mut merges = vec![];
    visit(graph, MAIN, &mut BTreeMap::new(), &mut BTreeMap::new(), &mut merges);
    for (node, first) in &merges {
        let pairs: Vec<(Value, Value)> =
            graph.node(*node).results.iter().copied().zip(graph.node(*first).results.iter().copied()).collect();
        for (old, new) in pairs {
            graph.replace_uses(old, new);
        }
    }
    for (node, _) in merges.iter().rev() {
        graph.remove(*node);
    }
    twins || !merges.is_empty()
}

/// Lets the first of equal region parameters serve all; the others are left without use.
fn params(graph: &mut Graph) -> bool {
    let mut changed = false;
    for node in graph.walk(MAIN) {
        let Some(body) = graph.node(node).body else { continue };
        let parts = loops::layout(graph, node);
        let mut first: BTreeMap<Value, Value> = BTreeMap::new();
        for (n, param) in graph.params(body).to_vec().into_iter().enumerate().skip(parts.carried) {
            let source = if n < parts.carried + parts.sliced {
                graph.node(node).operands.get(parts.tape + n).copied()
            } else {
                loops::saved_source(graph, body, n)
            };
            let Some(source) = source else { continue };
            let one = *first.entry(source).or_insert(param);
            if one != param && !graph.is_unused(param) {
                graph.replace_uses(param, one);
                changed = true;
            }
        }
    }
    changed
}

/// Finds merges in execution order; `same` maps results of merged nodes to those of the first.
fn visit(
    graph: &Graph,
    region: RegionId,
    seen: &mut BTreeMap<NodeKey, NodeId>,
    same: &mut BTreeMap<Value, Value>,
    merges: &mut Vec<(NodeId, NodeId)>,
) {
    for &id in graph.nodes(region) {
        let node = graph.node(id);
        if let Some(body) = node.body {
            // What a body computes is not visible outside it.
            visit(graph, body, &mut seen.clone(), same, merges);
            continue;
        }
        if node.op.has(Flag::Effect) {
            continue;
        }
        let operands = node.operands.iter().map(|v| same.get(v).copied().unwrap_or(*v)).collect();
        let attrs = node.attrs.texts().collect();
        let bound = (node.op.has(Flag::Random) || graph.mixes_rows(id)).then_some(region);
        match seen.entry((node.op, operands, attrs, bound)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(id);
            }
            std::collections::btree_map::Entry::Occupied(entry) => {
                let first = graph.node(*entry.get());
                same.extend(node.results.iter().copied().zip(first.results.iter().copied()));
                merges.push((id, *entry.get()));
            }
        }
    }
}
