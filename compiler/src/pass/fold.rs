//! Constant folding and peephole rules: nodes that constants or neighbours make trivial.
//!
//! Constants in the expressions of maps, neutral elements (`mul_unit` by ones, dropout that drops nothing), pairs that undo
//! each other (`squeeze` and `unsqueeze`, `pad` and `slice`, `rope` and its transpose), choices between equal values, and
//! channels taken out of what was put side by side.

use crate::ir::attribute::{self, Attrs, PositionKind};
use crate::ir::graph::{Graph, MAIN, NewNode, Node, NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, Scalar};
use crate::ir::types::Dim;

/// Folds every node that a rule fits. True when one did.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for node in graph.walk(MAIN) {
        if let Some(rewrite) = rule(graph, node) {
            apply(graph, node, rewrite);
            changed = true;
        }
    }
    changed
}

/// What a node becomes.
enum Rewrite {
    /// A value that is there already.
    Use(Value),
    /// Another node with one result.
    Node(Op, Vec<Value>, Attrs),
}
use Rewrite::Use;

fn apply(graph: &mut Graph, id: NodeId, rewrite: Rewrite) {
    let Node { results, label, .. } = graph.node(id).clone();
    let value = match rewrite {
        Use(value) => value,
        Rewrite::Node(op, operands, attrs) => {
            let new = NewNode { op, operands, attrs, types: vec![], body: None, label };
            let new = graph.insert_before(id, new).expect("a rewrite fits because the old node did");
            let value = graph.node(new).results[0];
            graph.hand_on_hint(results[0], value);
            value
        }
    };
    graph.replace_uses(results[0], value);
    graph.remove(id);
}

fn rule(graph: &Graph, id: NodeId) -> Option<Rewrite> {
    let node = graph.node(id);
    let operand = |n: usize| node.operands[n];
    match node.op {
        Op::Dropout => (node.get(attribute::P) == 0.0).then(|| Use(operand(0))),
        Op::Map => map(graph, node),
        Op::MulUnit => is_full(graph, operand(1), 1.0).then(|| Use(operand(0))),
        Op::AddScaled if is_full(graph, operand(2), 0.0) => Some(Use(operand(0))),
        Op::AddScaled => {
            let (operands, attrs) = pointwise::map(&[Pointwise::Add.of_operands()], &node.operands);
            is_full(graph, operand(2), 1.0).then_some(Rewrite::Node(Op::Map, operands, attrs))
        }
        Op::And => (operand(0) == operand(1)).then(|| Use(operand(0))),
        Op::Squeeze => undo(graph, node, Op::Unsqueeze),
        Op::Unsqueeze => undo(graph, node, Op::Squeeze),
        Op::Merge => undo(graph, node, Op::Split),
        Op::Split => undo(graph, node, Op::Merge).filter(|same| has_type_of(graph, same, node)),
        Op::Slice => slice(graph, node),
        Op::Pad => (width(graph, operand(0))? == node.get(attribute::WIDTH)).then(|| Use(operand(0))),
        Op::Concat => concat(graph, node),
        Op::Select => select(graph, node),
        Op::MaskUnit => mask_unit(graph, node),
        Op::Rotate => rotate(graph, node),
        _ => None,
    }
}

/// Whether what stands for a node has its type.
fn has_type_of(graph: &Graph, rewrite: &Rewrite, node: &Node) -> bool {
    matches!(rewrite, Use(value) if graph.ty(*value) == graph.ty(node.results[0]))
}

fn producer(graph: &Graph, value: Value) -> Option<&Node> {
    graph.producer(value).map(|n| graph.node(n))
}

fn made_by(graph: &Graph, value: Value, op: Op) -> Option<&Node> {
    producer(graph, value).filter(|n| n.op == op)
}

fn width(graph: &Graph, value: Value) -> Option<usize> {
    graph.ty(value).dims().last().and_then(Dim::fixed)
}

fn is_full(graph: &Graph, value: Value, of: f64) -> bool {
    made_by(graph, value, Op::Full).is_some_and(|full| full.get(attribute::VALUE) == of)
}

fn channels(start: usize, width: usize) -> Attrs {
    Attrs::of(attribute::START, start).with(attribute::WIDTH, width)
}

/// The operand of a node that undoes `other`.
fn undo(graph: &Graph, node: &Node, other: Op) -> Option<Rewrite> {
    Some(Use(made_by(graph, node.operands[0], other)?.operands[0]))
}

/// Constants of operands go into the expression, which may then be simpler.
fn map(graph: &Graph, node: &Node) -> Option<Rewrite> {
    if let (Some(Pointwise::Add), [a, b]) = (pointwise::function(node), &node.operands[..])
        && let Some(x) = both_sides(graph, *a, *b)
    {
        return Some(Use(x));
    }
    let exprs = pointwise::results(&node.attrs).ok()?;
    let [expr] = &exprs[..] else { return None };
    let value = |n: usize| made_by(graph, node.operands[n], Op::Full).map(|full| full.get(attribute::VALUE));
    let constant = |n: usize| value(n).filter(|x| !x.is_nan());
    let first = |n: usize| node.operands.iter().position(|v| *v == node.operands[n]).unwrap_or(n);
    let simple = expr.with(&|n| constant(n).map_or(Scalar::Operand(first(n)), Scalar::Number));
    match simple {
        Scalar::Operand(n) => Some(Use(node.operands[n])),
        Scalar::Number(value) => {
            let full = made_by(graph, node.operands[0], Op::Full)?;
            let attrs = full.attrs.clone().with(attribute::VALUE, value);
            Some(Rewrite::Node(Op::Full, full.operands.clone(), attrs))
        }
        Scalar::Call(..) => {
            let (operands, attrs) = pointwise::map(&[simple], &node.operands);
            // A map of constants alone stays: its operands say how many numbers it has.
            let changes = !operands.is_empty() && (operands != node.operands || attrs != node.attrs);
            changes.then_some(Rewrite::Node(Op::Map, operands, attrs))
        }
    }
}

/// The value of which `a` keeps the units where a condition holds and `b` the others.
fn both_sides(graph: &Graph, a: Value, b: Value) -> Option<Value> {
    let (a, b) = (made_by(graph, a, Op::MaskUnit)?, made_by(graph, b, Op::MaskUnit)?);
    (a.operands == b.operands && a.get(attribute::WHEN) != b.get(attribute::WHEN)).then(|| a.operands[0])
}

fn slice(graph: &Graph, node: &Node) -> Option<Rewrite> {
    let (start, wide) = (node.get(attribute::START), node.get(attribute::WIDTH));
    let x = node.operands[0];
    if width(graph, x)? == wide {
        return Some(Use(x));
    }
    let inner = producer(graph, x)?;
    let cut = |value: Value, start: usize| Some(Rewrite::Node(Op::Slice, vec![value], channels(start, wide)));
    match inner.op {
        Op::Slice => cut(inner.operands[0], start + inner.get(attribute::START)),
        Op::Concat => {
            let left = width(graph, inner.operands[0])?;
            if start + wide <= left {
                cut(inner.operands[0], start)
            } else if start >= left {
                cut(inner.operands[1], start - left)
            } else {
                None
            }
        }
        Op::Pad => {
            let (first, size) = (inner.get(attribute::START), width(graph, inner.operands[0])?);
            (start >= first && start + wide <= first + size).then(|| cut(inner.operands[0], start - first)).flatten()
        }
        _ => None,
    }
}

/// Neighbouring slices of one value side by side are one slice.
fn concat(graph: &Graph, node: &Node) -> Option<Rewrite> {
    let (a, b) = (made_by(graph, node.operands[0], Op::Slice)?, made_by(graph, node.operands[1], Op::Slice)?);
    let (start, left, right) = (a.get(attribute::START), a.get(attribute::WIDTH), b.get(attribute::WIDTH));
    let joined = a.operands == b.operands && start + left == b.get(attribute::START);
    joined.then(|| Rewrite::Node(Op::Slice, a.operands.clone(), channels(start, left + right)))
}

fn select(graph: &Graph, node: &Node) -> Option<Rewrite> {
    let (c, a, b) = (node.operands[0], node.operands[1], node.operands[2]);
    if a == b {
        return Some(Use(a));
    }
    let inside = |value: Value, when: bool| {
        let inner = made_by(graph, value, Op::MaskUnit)?;
        (inner.operands[1] == c && inner.get(attribute::WHEN) == when).then(|| inner.operands[0])
    };
    let kept = (inside(a, true), inside(b, false));
    match kept {
        (None, None) => None,
        (x, y) => Some(Rewrite::Node(Op::Select, vec![c, x.unwrap_or(a), y.unwrap_or(b)], Attrs::new())),
    }
}

fn mask_unit(graph: &Graph, node: &Node) -> Option<Rewrite> {
    let (x, c) = (node.operands[0], node.operands[1]);
    if is_full(graph, x, 0.0) {
        return Some(Use(x));
    }
    let inner = producer(graph, x)?;
    match inner.op {
        Op::MaskUnit if inner.operands[1] == c && inner.attrs == node.attrs => Some(Use(x)),
        Op::Select if inner.operands[0] == c => {
            let side = if node.get(attribute::WHEN) { inner.operands[1] } else { inner.operands[2] };
            Some(Rewrite::Node(Op::MaskUnit, vec![side, c], node.attrs.clone()))
        }
        _ => None,
    }
}

/// Rotary codes are orthogonal: the transposed map undoes them. The scaled `xpos` codes are not.
fn rotate(graph: &Graph, node: &Node) -> Option<Rewrite> {
    let inner = made_by(graph, node.operands[0], Op::Rotate)?;
    let turned = node.attrs.clone().with(attribute::TRANSPOSE, !node.get(attribute::TRANSPOSE));
    let back = inner.attrs.clone().with(attribute::TRANSPOSE, inner.get(attribute::TRANSPOSE));
    let same = turned == back && node.get(attribute::KIND) == PositionKind::Rope;
    same.then(|| Use(inner.operands[0]))
}
