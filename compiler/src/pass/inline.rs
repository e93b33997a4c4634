//! Inlining: the body of a depth recurrence that takes exactly one step stands in the place of the loop.
//!
//! All rows take that step, so the body runs once on the rows around: its carried values are their starts, and the results
//! of the loop are what it yields. The step is 0, which goes into the masks and biases that count it.
//!
//! A loop stays
//! - where a condition decides whether the step is accepted,
//! - where it saves on a tape, because the backward loop reads that tape step by step,
//! - where a node reads the step as a value, as `slot_get` does,
//! - where its body draws random numbers: a draw depends on the counters of the loops around it, so it would be another one.

use crate::ir::attribute::{self, Attrs, Mask};
use crate::ir::graph::{Graph, MAIN, NewNode, Node, NodeId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};
use crate::ir::types::Elem;

/// Inlines every loop that it can, inner loops first. True when there was one.
pub fn run(graph: &mut Graph) -> bool {
    inline_all(graph, false)
}

/// The same, also where bodies draw: other numbers then, of the same distribution. It is for comparing models, and no pass.
pub fn run_for_comparison(graph: &mut Graph) {
    inline_all(graph, true);
}

fn inline_all(graph: &mut Graph, draws: bool) -> bool {
    let loops: Vec<NodeId> = graph.walk(MAIN).into_iter().filter(|id| takes_one_step(graph, *id)).collect();
    let mut changed = false;
    for id in loops.into_iter().rev() {
        let fits = draws || !body(graph, id).into_iter().any(|node| is_drawn(graph.node(node)));
        if fits && let Some(readers) = without_step(graph, id) {
            inline(graph, id, readers);
            changed = true;
        }
    }
    changed
}

fn takes_one_step(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let once = node.op == Op::Recur && node.get(attribute::BOUND).steps() == Some(1);
    once && loops::layout(graph, id).go == 0 && loops::tape(graph, id).is_none()
}

/// The nodes of the body, with those of the loops inside.
fn body(graph: &Graph, id: NodeId) -> Vec<NodeId> {
    graph.node(id).body.map_or_else(Vec::new, |body| graph.walk(body))
}

/// Whether the node draws random numbers; a search draws where beams are aligned.
fn is_drawn(node: &Node) -> bool {
    let positive = |key| node.find(key).is_some_and(|p| p > 0.0);
    matches!(node.op, Op::Beam | Op::Normal | Op::Uniform)
        || (node.op.has(Flag::Random) && (positive(attribute::P) || positive(attribute::DROPOUT)))
}

/// The nodes that read the step, as they are without it; `None` where one can't do without.
fn without_step(graph: &Graph, id: NodeId) -> Option<Vec<(NodeId, NewNode)>> {
    let step = *graph.params(graph.node(id).body?).last()?;
    graph.users(step).into_iter().map(|reader| Some((reader, at_first_step(graph, reader, step)?))).collect()
}

/// A node that counts steps in its mask, bias or `stop` alone, in step 0.
fn at_first_step(graph: &Graph, reader: NodeId, step: Value) -> Option<NewNode> {
    /// The place of the step among the operands of `attention`.
    const STEP: usize = 3;
    let Node { op, operands, attrs, label, .. } = graph.node(reader).clone();
    let others = operands.iter().enumerate().filter(|(n, _)| *n != STEP).map(|(_, value)| *value);
    let operands: Vec<Value> = others.collect();
    if op != Op::Attention || operands.contains(&step) || graph.ty(step).elem() != Some(Elem::Index) {
        return None;
    }
    let new = NewNode { op, operands, attrs: first(attrs)?, types: vec![], body: None, label };
    graph.infer(&new).is_ok().then_some(new)
}

/// Mask, score and `stop` in step 0.
fn first(mut attrs: Attrs) -> Option<Attrs> {
    if let Some(rule) = attrs.get(attribute::MASK).rule() {
        let rule = rule.in_first_step()?;
        attrs.set(attribute::MASK, if rule.text() == Some("true") { Mask::All } else { Mask::Rule(&rule) });
    }
    if let Some(score) = attrs.find(attribute::SCORE) {
        let score = score.in_first_step()?;
        attrs.set(attribute::SCORE, &score);
    }
    if let Some(stop) = attrs.find(attribute::STOP) {
        let stop = stop.in_first_step()?;
        attrs.set(attribute::STOP, &stop);
    }
    Some(attrs)
}

fn inline(graph: &mut Graph, id: NodeId, readers: Vec<(NodeId, NewNode)>) {
    let Node { operands, results, body, .. } = graph.node(id).clone();
    let body = body.expect("a loop has a body");
    for (old, new) in readers {
        let new = graph.insert_before(old, new).expect("it was tried whether the node fits");
        let (old_value, value) = (graph.node(old).results[0], graph.node(new).results[0]);
        graph.hand_on_hint(old_value, value);
        graph.replace_uses(old_value, value);
        graph.remove(old);
    }
    for (param, start) in graph.params(body).to_vec().into_iter().zip(operands) {
        graph.replace_uses(param, start);
    }
    for (result, last) in results.into_iter().zip(loops::yielded(graph, id).to_vec()) {
        if graph.scope(last) == body {
            graph.hand_on_hint(result, last);
        }
        graph.replace_uses(result, last);
    }
    let end = graph.terminator(body);
    for node in graph.nodes(body).to_vec().into_iter().filter(|node| Some(*node) != end) {
        graph.move_before(node, id);
    }
    graph.remove(id);
}
