//! Fusion: neighbours that one kernel computes in one pass over memory.
//!
//! - `map` into `map`: the expression of one takes the place of the operand of the other.
//! - `mul_unit`, then `add`: `add_scaled`.

use crate::ir::attribute::Attrs;
use crate::ir::graph::{Graph, MAIN, NewNode, NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, PointwiseSteps, Scalar};

/// Most functions in an expression that was put together, equal parts once.
const MOST_STEPS: usize = 12;

/// Most functions of it, equal parts as often as they stand there: an expression is a tree, whose gradient has for every place of an
/// operand a product of all that lies above it.
const MOST_CALLS: usize = 64;

/// Fuses every pair that fits. True when one did.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    // A fusion removes nodes, so each search starts anew from the nodes that are left.
    for rule in [maps, add_scaled] {
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
        graph.hand_on_hint(*old, value);
        graph.replace_uses(*old, value);
    }
}

/// The expression of a map that only another map reads goes into the reader's, where that takes no more operands than before:
/// then a backward run needs no more values than it did.
fn maps(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    if node.op != Op::Map {
        return None;
    }
    let outer = pointwise::results(&node.attrs).ok()?;
    let (made, (operands, attrs)) = node.operands.iter().find_map(|value| {
        let made = near(graph, id, *value, Op::Map).filter(|_| only_user(graph, *value, id))?;
        let inner = pointwise::results(&graph.node(made).attrs).ok()?;
        let [inner] = &inner[..] else { return None };
        let count = node.operands.len();
        let inside = inner.with(&|m| Scalar::Operand(count + m));
        let whole = |m: usize| if node.operands[m] == *value { inside.clone() } else { Scalar::Operand(m) };
        let exprs: Vec<Scalar> = outer.iter().map(|expr| expr.with(&whole)).collect();
        if exprs.iter().map(Scalar::calls).sum::<usize>() > MOST_CALLS {
            return None;
        }
        let fused = pointwise::map(&exprs, &[&node.operands[..], &graph.node(made).operands].concat());
        let fits = (1..=count).contains(&fused.0.len()) && PointwiseSteps::of(&exprs).steps.len() <= MOST_STEPS;
        fits.then_some((made, fused))
    })?;
    let old = node.results.clone();
    replace(graph, id, Op::Map, operands, attrs, &old);
    graph.remove(id);
    graph.remove(made);
    Some(())
}

fn add_scaled(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    let (Op::Map, Some(Pointwise::Add), [a, b]) = (node.op, pointwise::function(node), &node.operands[..]) else {
        return None;
    };
    let (a, b) = (*a, *b);
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
