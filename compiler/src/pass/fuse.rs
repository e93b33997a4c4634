//! Fusion: neighbours that one kernel computes in one pass over memory.
//!
//! - `sigmoid`, then `lerp`: `gate`. Its backward pair `lerp_grad`, `sigmoid_grad` becomes `gate_grad`, which needs the
//!   value before the sigmoid; a loop then saves that one in place of the sigmoid.
//! - `mul_unit`, then `add`: `add_scaled`.

use crate::ir::graph::{Def, Graph, MAIN, NewNode, NodeId, Value};
use crate::ir::loops;
use crate::ir::ops::Op;
use crate::ir::types::Attrs;

/// Fuses every pair that fits. True when one did.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    // A fusion removes nodes, so each search starts anew from the nodes that are left.
    for rule in [gate_backward, gate, add_scaled] {
        for node in graph.walk(MAIN) {
            changed |= rule(graph, node).is_some();
        }
    }
    changed
}

/// The node that makes a value, if it is of this op and lies in the same region as `user`.
fn near(graph: &Graph, user: NodeId, value: Value, op: Op) -> Option<NodeId> {
    let node = graph.producer(value)?;
    let same = graph.node(node).op == op && graph.node(node).region == graph.node(user).region;
    same.then_some(node)
}

fn only_user(graph: &Graph, value: Value, user: NodeId) -> bool {
    graph.users(value) == [user]
}

/// Puts a node in front of `anchor`, with its slot, and lets it give `old` results.
fn replace(graph: &mut Graph, anchor: NodeId, op: Op, operands: Vec<Value>, attrs: Attrs, old: &[Value]) {
    let label = graph.node(anchor).label.clone();
    let new = NewNode { op, operands, attrs, types: vec![], body: None, label };
    let new = graph.insert_before(anchor, new).expect("a fused op takes what its parts took");
    for (value, old) in graph.node(new).results.clone().into_iter().zip(old) {
        let hint = graph.hint(*old).to_owned();
        graph.set_hint(value, &hint);
        graph.replace_uses(*old, value);
    }
}

fn gate(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    if node.op != Op::Lerp {
        return None;
    }
    let [g, u, h] = node.operands[..] else { return None };
    let sigmoid = near(graph, id, g, Op::Sigmoid)?;
    if !only_user(graph, g, id) || u == g || h == g {
        return None;
    }
    let (z, old) = (graph.node(sigmoid).operands[0], node.results.clone());
    replace(graph, id, Op::Gate, vec![z, u, h], Attrs::new(), &old);
    graph.remove(id);
    graph.remove(sigmoid);
    Some(())
}

fn gate_backward(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    if node.op != Op::SigmoidGrad {
        return None;
    }
    let [y, dg] = node.operands[..] else { return None };
    let lerp = near(graph, id, dg, Op::LerpGrad)?;
    let [g, u, h, dy] = graph.node(lerp).operands[..] else { return None };
    let results = graph.node(lerp).results.clone();
    if g != y || results[0] != dg || !only_user(graph, dg, id) || [u, h, dy].contains(&y) {
        return None;
    }
    let z = before_sigmoid(graph, y, [lerp, id])?;
    let old = [graph.node(id).results[0], results[1], results[2]];
    replace(graph, lerp, Op::GateGrad, vec![z, u, h, dy], Attrs::new(), &old);
    graph.remove(id);
    graph.remove(lerp);
    Some(())
}

/// The value before the sigmoid that made `y`. Where `y` comes from a tape and only the pair `users` reads it, the tape
/// holds the value before the sigmoid from now on.
fn before_sigmoid(graph: &mut Graph, y: Value, users: [NodeId; 2]) -> Option<Value> {
    let sigmoid = |graph: &Graph, value: Value| {
        graph.producer(value).map(|n| graph.node(n)).filter(|n| n.op == Op::Sigmoid).map(|n| n.operands[0])
    };
    // Any other use keeps the sigmoid itself alive, and nothing would be gained.
    let others = |graph: &Graph, value: Value| -> Vec<Op> {
        graph.users(value).iter().filter(|u| !users.contains(u)).map(|u| graph.node(*u).op).collect()
    };
    let Def::Param(region, n) = graph.def(y) else {
        return sigmoid(graph, y).filter(|_| others(graph, y) == [Op::Lerp]);
    };
    let source = loops::saved_source(graph, region, n)?;
    let z = sigmoid(graph, source)?;
    let mut around = others(graph, source);
    around.sort_unstable();
    if !others(graph, y).is_empty() || around != [Op::Lerp, Op::Save] {
        return None;
    }
    let unwind = graph.owner(region)?;
    let parts = loops::layout(graph, unwind);
    let forward = loops::forward(graph, *graph.node(unwind).operands.first()?)?;
    let save = loops::save(graph, graph.node(forward).body?)?;
    let mut saved = graph.node(save).operands.clone();
    *saved.get_mut(n.checked_sub(parts.carried + parts.sliced)?)? = z;
    graph.set_operands(save, saved);
    let hint = graph.hint(z).to_owned();
    graph.set_hint(y, &hint);
    Some(y)
}

fn add_scaled(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    if node.op != Op::Add {
        return None;
    }
    let [a, b] = node.operands[..] else { return None };
    let (product, rest) = [(b, a), (a, b)]
        .into_iter()
        .find(|(v, _)| near(graph, id, *v, Op::MulUnit).is_some() && only_user(graph, *v, id) && a != b)?;
    let product = graph.producer(product)?;
    let [h, s] = graph.node(product).operands[..] else { return None };
    let old = node.results.clone();
    replace(graph, id, Op::AddScaled, vec![rest, h, s], Attrs::new(), &old);
    graph.remove(id);
    graph.remove(product);
    Some(())
}
