//! The loss on top of a forward graph.

use super::builder::{Binding, Lower};
use crate::define;
use crate::feature::Lowering;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{Graph, InvalidNode, MAIN, NewNode, NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise};
use crate::ir::roles;
use crate::ir::types::{BATCH, Dim, Elem, LENGTH, PAIRS, Type};
use crate::schema::Objective;
use crate::spec::Block;

/// Ends the main region with named results.
pub(crate) fn return_named(graph: &mut Graph, results: &[(&str, Value)]) -> Result<(), InvalidNode> {
    let names: Vec<&str> = results.iter().map(|(name, _)| *name).collect();
    let attrs = Attrs::of(attribute::NAMES, &names.join(", "));
    let operands = results.iter().map(|(_, value)| *value).collect();
    let new = NewNode { op: Op::Return, operands, attrs, types: vec![], body: None, label: String::new() };
    graph.push(MAIN, new).map(|_| ())
}

/// What the head reads of the final states.
pub(crate) fn read(l: &mut Lower<'_>, readout: &Block, states: Value) -> Result<Value, InvalidNode> {
    match &readout.feature.lower {
        Lowering::Readout(read) => read(l, readout, states),
        _ => define::call(l, readout, &[states]),
    }
}

/// What is classified: the vector that was read out, for pairs `[u; v; u v; |u - v|]`.
fn features(l: &mut Lower<'_>, read: Value) -> Result<Value, InvalidNode> {
    match l.binding().objective {
        Objective::Pair => l.one(Op::Pair, &[read], Attrs::new()),
        Objective::Classify | Objective::Each | Objective::Number | Objective::Several => Ok(read),
    }
}

/// What the head makes of the vector that was read out: the logits, whose last maps are the outputs of the model.
pub(crate) fn answer(l: &mut Lower<'_>, head: &Block, read: Value) -> Result<Value, InvalidNode> {
    l.scoped("head", |l| {
        let read = features(l, read)?;
        let logits = define::call(l, head, &[read])?;
        roles::mark_output(l.graph(), logits, read);
        Ok(logits)
    })
}

/// Adds the loss to a forward graph: inputs `labels` (and `weights` when every token answers), results `task_loss` and
/// `loss = task_loss + penalty`. The task loss is a mean over rows, pairs or tokens that count: of the cross entropy of a
/// class, of the squared error of a number, of the mean over labels of the binary cross entropy of each. A spec whose own
/// losses hold the labels says it itself.
///
/// # Errors
/// A graph that `lower` did not make.
pub fn attach_loss(graph: &mut Graph, binding: &Binding) -> Result<(), InvalidNode> {
    let end = graph.terminator(MAIN).ok_or_else(|| InvalidNode("the graph returns nothing".to_owned()))?;
    let logits = graph.output("logits").ok_or_else(|| InvalidNode("the graph has no logits".to_owned()))?;
    let penalty = graph.output("penalty");
    let names = graph.node(end).get(attribute::NAMES).to_owned();
    let mut results: Vec<(String, Value)> =
        names.split(", ").map(str::to_owned).zip(graph.node(end).operands.clone()).collect();
    graph.remove(end);
    let own = results.iter().position(|(name, _)| name == "answered").map(|at| results.remove(at).1);
    let task_loss = own.map_or_else(|| task_loss(graph, binding, logits), Ok)?;
    let loss = match penalty {
        Some(penalty) => map(graph, Pointwise::Add, [task_loss, penalty])?,
        None => task_loss,
    };
    results.extend([("task_loss".to_owned(), task_loss), ("loss".to_owned(), loss)]);
    let named: Vec<(&str, Value)> = results.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    return_named(graph, &named)
}

/// Takes results of these names out; true when there are some. `dce` then removes what they were made of.
pub(crate) fn forget(graph: &mut Graph, unwanted: &[&str]) -> bool {
    let Some(end) = graph.terminator(MAIN) else { return false };
    let names: Vec<String> = graph.node(end).get(attribute::NAMES).split(", ").map(str::to_owned).collect();
    let results = names.iter().zip(graph.node(end).operands.clone());
    let wanted = results.filter(|(name, _)| !unwanted.contains(&name.as_str()));
    let (kept, operands): (Vec<&str>, Vec<Value>) = wanted.map(|(name, value)| (name.as_str(), value)).unzip();
    if kept.len() == names.len() {
        return false;
    }
    graph.set_operands(end, operands);
    graph.set_attr(end, attribute::NAMES, &kept.join(", "));
    true
}

fn task_loss(graph: &mut Graph, binding: &Binding, logits: Value) -> Result<Value, InvalidNode> {
    let [batch, length, pairs] = [BATCH, LENGTH, PAIRS].map(Dim::sym);
    let index = |axes: &[Dim]| Type::Tensor(Elem::Index, axes.to_vec());
    let labels = match binding.objective {
        Objective::Classify => index(std::slice::from_ref(&batch)),
        Objective::Pair => index(&[pairs]),
        Objective::Each => index(&[batch.clone(), length.clone()]),
        Objective::Several => index(graph.ty(logits).dims()),
        Objective::Number => return squared_error(graph, logits),
    };
    let labels = batch_input(graph, "labels", labels)?;
    let mut averaged = vec![emit(graph, Op::CrossEntropyEach, vec![logits, labels], Attrs::new())?];
    if binding.objective == Objective::Each {
        averaged.push(batch_input(graph, "weights", Type::real([batch, length]))?);
    }
    emit(graph, Op::Average, averaged, Attrs::new())
}

/// The mean of `(number - label)^2`.
fn squared_error(graph: &mut Graph, numbers: Value) -> Result<Value, InvalidNode> {
    let ty = graph.ty(numbers).clone();
    let labels = batch_input(graph, "labels", ty)?;
    let error = map(graph, Pointwise::Sub, [numbers, labels])?;
    let square = map(graph, Pointwise::Mul, [error, error])?;
    emit(graph, Op::Average, vec![square], Attrs::new())
}

/// The input of a name, which a loss of the model may read already.
pub(crate) fn batch_input(graph: &mut Graph, name: &str, ty: Type) -> Result<Value, InvalidNode> {
    let known = |id: &NodeId| graph.node(*id).op == Op::Input && graph.node(*id).get(attribute::NAME) == name;
    if let Some(id) = graph.nodes(MAIN).iter().copied().find(known) {
        return Ok(graph.node(id).results[0]);
    }
    let attrs = Attrs::of(attribute::NAME, name);
    let new = NewNode { op: Op::Input, operands: vec![], attrs, types: vec![ty], body: None, label: "loss".to_owned() };
    let node = match graph.nodes(MAIN).first() {
        Some(&first) => graph.insert_before(first, new)?,
        None => graph.push(MAIN, new)?,
    };
    let value = graph.node(node).results[0];
    graph.set_hint(value, name);
    Ok(value)
}

fn map(graph: &mut Graph, func: Pointwise, operands: [Value; 2]) -> Result<Value, InvalidNode> {
    let (operands, attrs) = pointwise::map(&[func.of_operands()], &operands);
    emit(graph, Op::Map, operands, attrs)
}

fn emit(graph: &mut Graph, op: Op, operands: Vec<Value>, attrs: Attrs) -> Result<Value, InvalidNode> {
    let new = NewNode { op, operands, attrs, types: vec![], body: None, label: "loss".to_owned() };
    let node = graph.push(MAIN, new)?;
    Ok(graph.node(node).results[0])
}
