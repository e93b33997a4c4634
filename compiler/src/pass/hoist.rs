//! Hoisting: loop-invariant nodes move in front of the loop.
//!
//! - A node whose operands are all defined outside the loop (the keys and values of a memory inside a depth loop). It
//!   is then computed for all rows, also for those that have left the loop; so ops that mix rows stay, for which the
//!   rows of the loop are part of the meaning. Effects, random ops and loops stay too.
//! - A carried value that every step hands on unchanged is its start.
//! - A value from outside that a loop saves on its tape: the backward loop sees it without the tape, or the loop around
//!   saves it, once.
//! - An array that a recurrence hands on, each step filling its own slot: the slots of the steps so far are also in the array that the
//!   recurrence leaves, so where the backward loop reads no others, it reads that one, and no step saves its own.

use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};

/// Moves what does not change out of loops, inner loops first. True when something moved.
pub fn run(graph: &mut Graph) -> bool {
    let owners: Vec<NodeId> = graph.walk(MAIN).into_iter().filter(|n| graph.node(*n).body.is_some()).collect();
    let mut changed = false;
    for owner in owners.into_iter().rev() {
        let Some(body) = graph.node(owner).body else { continue };
        changed |= constants(graph, owner, body);
        for node in graph.nodes(body).to_vec() {
            if is_invariant(graph, node, body) {
                graph.move_before(node, owner);
                changed = true;
            }
        }
        changed |= untape(graph, owner, body);
    }
    changed
}

fn is_outside(graph: &Graph, value: Value, body: RegionId) -> bool {
    !graph.encloses(body, graph.scope(value))
}

fn is_invariant(graph: &Graph, id: NodeId, body: RegionId) -> bool {
    let node = graph.node(id);
    let fixed = [Flag::Effect, Flag::Random, Flag::Loop, Flag::Leaf].into_iter().any(|f| node.op.has(f));
    !fixed && !graph.mixes_rows(id) && node.operands.iter().all(|v| is_outside(graph, *v, body))
}

/// Replaces carried values that no step changes by their starts.
fn constants(graph: &mut Graph, owner: NodeId, body: RegionId) -> bool {
    let parts = loops::layout(graph, owner);
    let mut changed = false;
    for n in 0..parts.carried {
        let start = graph.node(owner).operands[parts.tape + n];
        let (param, result) = (graph.params(body)[n], graph.node(owner).results[n]);
        let next = loops::yielded(graph, owner)[n];
        let end = graph.terminator(body);
        let used = graph.users(param).into_iter().any(|u| Some(u) != end) || !graph.is_unused(result);
        if (next == param || next == start) && used {
            graph.replace_uses(param, start);
            graph.replace_uses(result, start);
            changed = true;
        }
    }
    changed
}

/// Lets the backward loop use values without its tape that the forward loop only saved.
fn untape(graph: &mut Graph, owner: NodeId, body: RegionId) -> bool {
    if graph.node(owner).op != Op::Unwind {
        return false;
    }
    let Some(forward) = loops::forward(graph, graph.node(owner).operands[0]) else { return false };
    let Some(forward_body) = graph.node(forward).body else { return false };
    let mut changed = false;
    for (n, param) in graph.params(body).to_vec().into_iter().enumerate() {
        let Some(source) = loops::saved_source(graph, body, n) else { continue };
        if graph.is_unused(param) {
            continue;
        }
        let source = match is_outside(graph, source, forward_body) {
            true => source,
            false => match left_behind(graph, forward, source).filter(|_| reads_filled(graph, forward, body, param)) {
                Some(left) => left,
                None => continue,
            },
        };
        let visible = graph.encloses(graph.scope(source), graph.node(owner).region);
        let direct = if visible { Some(source) } else { save_around(graph, owner, forward, source) };
        if let Some(direct) = direct {
            graph.replace_uses(param, direct);
            changed = true;
        }
    }
    changed
}

/// What a recurrence leaves of a carried array in which every step does no more than fill the slot of its number, from the array as it is
/// after a step. A row that rejects a step keeps what it had, and takes no part in the backward run of that step.
fn left_behind(graph: &Graph, forward: NodeId, filled: Value) -> Option<Value> {
    let (node, body) = (graph.node(forward), graph.node(forward).body.filter(|_| graph.node(forward).op == Op::Recur)?);
    let carried = loops::layout(graph, forward).carried;
    let place = loops::yielded(graph, forward).iter().take(carried).position(|v| *v == filled)?;
    let set = graph.producer(filled).map(|id| graph.node(id)).filter(|set| set.op == Op::SlotSet)?;
    let params = graph.params(body);
    (set.operands[0] == params[place] && Some(&set.operands[2]) == params.last()).then(|| node.results[place])
}

/// Whether all that a backward loop does with an array is to attend to the slots that were filled up to its step.
fn reads_filled(graph: &Graph, forward: NodeId, body: RegionId, array: Value) -> bool {
    let counter = graph.node(forward).body.and_then(|own| graph.params(own).last().copied());
    let counts = |v: &Value| {
        let place = graph.params(body).iter().position(|param| param == v);
        counter.is_some() && place.and_then(|n| loops::saved_source(graph, body, n)) == counter
    };
    graph.users(array).into_iter().all(|user| {
        let node = graph.node(user);
        let before = match node.op {
            Op::Attention => 3,
            Op::AttentionGrad => 4,
            _ => return false,
        };
        let read = node.operands.iter().enumerate().all(|(n, v)| *v != array || n == 1 || n == 2);
        read && graph.ty(array).dims().len() == 4 && node.operands.get(before).is_some_and(counts)
    })
}

/// Saves a value once in the loop around instead of in every step of the inner one; gives it as seen by the backward
/// loop around.
fn save_around(graph: &mut Graph, unwind: NodeId, forward: NodeId, source: Value) -> Option<Value> {
    let (region, outer_body) = (graph.node(unwind).region, graph.node(forward).region);
    let outer = graph.owner(region).filter(|o| graph.node(*o).op == Op::Unwind)?;
    let outer_forward = loops::forward(graph, *graph.node(outer).operands.first()?)?;
    if graph.node(outer_forward).body != Some(outer_body) || graph.scope(source) != outer_body {
        return None;
    }
    let save = loops::save(graph, outer_body)?;
    let mut saved = graph.node(save).operands.clone();
    let parts = loops::layout(graph, outer);
    let place = match saved.iter().position(|v| *v == source) {
        Some(place) => place,
        None => {
            saved.push(source);
            graph.set_operands(save, saved.clone());
            let (ty, hint) = (graph.ty(source).clone(), graph.hint(source).to_owned());
            graph.add_param(region, ty, &hint);
            saved.len() - 1
        }
    };
    graph.params(region).get(parts.carried + parts.sliced + place).copied()
}
