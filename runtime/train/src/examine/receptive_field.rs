//! The receptive field of the states of a depth recurrence, step by step: the positions that the masks of its attention let through.

use rtc_compiler::ir::attribute::{self, Mask};
use std::ops::Range;

use rtc_compiler::expr::{Env, Expr, ScalarValue, Var, eval};
use rtc_compiler::ir::dependence::Dependence;
use rtc_compiler::ir::graph::{Graph, MAIN, Node, NodeId};
use rtc_compiler::ir::ops::Op;

/// For every position of a row, the range of positions that its state depends on.
pub type ReceptiveField = Vec<Range<usize>>;

/// The receptive field of the states of a row of `length` positions after each of `steps` steps of the recurrence at `place`. It is
/// the whole row where an op is not known to keep to its position or to a mask.
pub fn receptive_field(graph: &Graph, place: &str, length: usize, steps: usize) -> Vec<ReceptiveField> {
    let recurs = |id: &NodeId| graph.node(*id).op == Op::Recur && graph.node(*id).label == place;
    let whole = || vec![0..length; length];
    let before = graph.nodes(MAIN);
    let Some(at) = before.iter().position(recurs) else { return vec![whole(); steps] };
    let mut now: ReceptiveField = (0..length).map(|position| position..position + 1).collect();
    for id in &before[..at] {
        now = after(graph.node(*id), 0, &now).unwrap_or_else(whole);
    }
    let body = graph.node(before[at]).body.map_or(&[][..], |body| graph.nodes(body));
    let mut step = |n: usize| {
        for id in body {
            now = after(graph.node(*id), n, &now).unwrap_or_else(whole);
        }
        now.clone()
    };
    (0..steps).map(&mut step).collect()
}

/// The receptive field of the results of a node; nothing where it is not known.
fn after(node: &Node, step: usize, now: &ReceptiveField) -> Option<ReceptiveField> {
    match node.op.def().dependence {
        Dependence::Nothing
        | Dependence::Input
        | Dependence::Units
        | Dependence::First
        | Dependence::Channels
        | Dependence::HaltTest
        // START and END see nothing, and the positions are those with them from the start.
        | Dependence::Frame
        | Dependence::Effect => Some(now.clone()),
        Dependence::Attention => through(node, step, now),
        _ => None,
    }
}

/// The receptive field behind an attention.
fn through(node: &Node, step: usize, now: &ReceptiveField) -> Option<ReceptiveField> {
    let (causal, expr) = match node.get(attribute::MASK) {
        Mask::All => return None,
        Mask::Causal => (true, None),
        Mask::Rule(rule) => (false, Expr::try_from(rule).ok()),
    };
    let heads = match &expr {
        Some(expr) if expr.uses(Var::Head) => i64::try_from(node.get(attribute::HEADS)).ok()?,
        _ => 1,
    };
    let length = now.len();
    let seen = |i: usize| -> Option<Range<usize>> {
        let mut seen: Option<Range<usize>> = None;
        let mut see = |j: usize| {
            let other = &now[j];
            seen =
                Some(seen.as_ref().map_or_else(|| other.clone(), |s| s.start.min(other.start)..s.end.max(other.end)));
        };
        if causal {
            (0..=i).for_each(&mut see);
            return seen;
        }
        let expr = expr.as_ref()?;
        for head in 0..heads {
            let env = Env { i: i as i64, j: 0, step: step as i64, length: length as i64, head, given: None };
            (0..length)
                .filter(|j| eval(expr, &Env { j: *j as i64, ..env }) == Ok(ScalarValue::Bool(true)))
                .for_each(&mut see);
        }
        // A query that sees nothing keeps what it had through the residual path.
        Some(seen.unwrap_or_else(|| now[i].clone()))
    };
    (0..length)
        .map(|i| {
            let found = seen(i)?;
            let own = &now[i];
            Some(found.start.min(own.start)..found.end.max(own.end))
        })
        .collect()
}
