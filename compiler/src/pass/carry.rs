//! Carrying: a step hands on the results that the next step would compute again from the carried values.
//!
//! Where a depth recurrence applies the same op to a carried value and to the value that takes its place (the mean of the
//! state before a step and after it, which a halting head that looks ahead compares), the second result goes round as a
//! carried value of its own, and the first is computed once, before the loop. A row that rejects a step keeps both.

use crate::ir::graph::{Graph, MAIN, NewNode, NodeId, Value, ValueOrigin};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};

/// Carries what every step computes again. True when the graph changed.
pub fn run(graph: &mut Graph) -> bool {
    let mut owners = graph.walk(MAIN);
    // A loop with a tape is differentiated already: its backward run knows only the values that were carried then.
    owners.retain(|n| graph.node(*n).op == Op::Recur && loops::tape(graph, *n).is_none());
    let mut changed = false;
    for owner in owners {
        while let Some((before, after)) = repeated(graph, owner) {
            carry(graph, owner, before, after);
            changed = true;
        }
    }
    changed
}

/// A node of carried values, and the node that does the same with the values that follow them.
fn repeated(graph: &Graph, owner: NodeId) -> Option<(NodeId, NodeId)> {
    let nodes = graph.nodes(graph.node(owner).body?);
    nodes.iter().filter(|n| can_go_round(graph, **n)).find_map(|&before| {
        let operands = &graph.node(before).operands;
        let wanted: Vec<Value> = operands.iter().map(|v| next(graph, owner, *v)).collect::<Option<_>>()?;
        if wanted == *operands {
            return None;
        }
        let same = |n: &&NodeId| **n != before && alike(graph, before, **n) && graph.node(**n).operands == wanted;
        nodes.iter().find(same).map(|after| (before, *after))
    })
}

/// True for what is worth carrying, being smaller than what it is made of, and can be: it belongs to a row and depends on
/// that row alone.
fn can_go_round(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let fixed = [Flag::Effect, Flag::Random, Flag::Loop, Flag::Leaf].into_iter().any(|f| node.op.has(f));
    let axes = |v: &Value| graph.ty(*v).dims().len();
    let shrinks =
        matches!(node.results[..], [v] if graph.ty(v).is_batched() && node.operands.iter().any(|x| axes(x) > axes(&v)));
    !fixed && shrinks && !graph.mixes_rows(id) && !graph.is_unused(node.results[0])
}

fn alike(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (a, b) = (graph.node(a), graph.node(b));
    a.op == b.op && a.attrs.texts().eq(b.attrs.texts())
}

/// What stands in the place of a value one step on: what is yielded for a carried value, a value from outside itself.
fn next(graph: &Graph, owner: NodeId, value: Value) -> Option<Value> {
    let body = graph.node(owner).body?;
    match graph.def(value) {
        ValueOrigin::Param(region, n) if region == body => {
            let carried = loops::layout(graph, owner).carried;
            (n < carried).then(|| loops::yielded(graph, owner)[n])
        }
        _ => (!graph.encloses(body, graph.scope(value))).then_some(value),
    }
}

fn carry(graph: &mut Graph, owner: NodeId, before: NodeId, after: NodeId) {
    let body = graph.node(owner).body.expect("a loop has a body");
    let carried = loops::layout(graph, owner).carried;
    let step = *graph.params(body).last().expect("a recurrence counts its steps");
    let (old, node) = (graph.node(before).results[0], graph.node(before).clone());
    let start = |v: &Value| match graph.def(*v) {
        ValueOrigin::Param(region, n) if region == body => graph.node(owner).operands[n],
        _ => *v,
    };
    let operands = node.operands.iter().map(start).collect();
    let (ty, hint) = (graph.ty(old).clone(), graph.hint(old).to_owned());
    let first =
        NewNode { op: node.op, operands, attrs: node.attrs, types: vec![ty.clone()], body: None, label: node.label };
    let first = graph.insert_before(owner, first).expect("the same op on values of the same types");
    let mut starts = graph.node(owner).operands.clone();
    starts.push(graph.node(first).results[0]);
    graph.set_operands(owner, starts);
    let param = graph.add_param(body, ty.clone(), &hint);
    graph.move_param_last(body, step);
    let end = graph.terminator(body).expect("a body ends with a yield");
    let mut yields = graph.node(end).operands.clone();
    yields.insert(carried, graph.node(after).results[0]);
    graph.set_operands(end, yields);
    graph.add_result(owner, ty, &hint);
    graph.replace_uses(old, param);
    graph.remove(before);
}
