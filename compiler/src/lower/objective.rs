//! The loss on top of a forward graph.

use super::builder::Binding;
use crate::ir::graph::{Graph, MAIN, Misfit, NewNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, BATCH, Dim, Elem, LENGTH, PAIRS, Type};
use crate::schema::Objective;

/// Ends the main region with named results.
pub(crate) fn return_named(graph: &mut Graph, results: &[(&str, Value)]) -> Result<(), Misfit> {
    let names: Vec<&str> = results.iter().map(|(name, _)| *name).collect();
    let attrs = Attrs::from([("names", Attr::Text(names.join(", ")))]);
    let operands = results.iter().map(|(_, value)| *value).collect();
    let new = NewNode { op: Op::Return, operands, attrs, types: vec![], body: None, label: String::new() };
    graph.push(MAIN, new).map(|_| ())
}

/// Adds the loss to a forward graph: inputs `labels` (and `weights` when every token answers), results `task_loss` and
/// `loss = task_loss + penalty`.
///
/// # Errors
/// A graph that `lower` did not make.
pub fn attach_loss(graph: &mut Graph, binding: &Binding) -> Result<(), Misfit> {
    let end = graph.terminator(MAIN).ok_or_else(|| Misfit("the graph returns nothing".to_owned()))?;
    let logits = graph.output("logits").ok_or_else(|| Misfit("the graph has no logits".to_owned()))?;
    let penalty = graph.output("penalty");
    let names = graph.node(end).attrs.get("names").and_then(Attr::text).unwrap_or_default().to_owned();
    let mut results: Vec<(String, Value)> =
        names.split(", ").map(str::to_owned).zip(graph.node(end).operands.clone()).collect();
    graph.remove(end);
    let axes = match binding.objective {
        Objective::Classify => vec![Dim::sym(BATCH)],
        Objective::Pair => vec![Dim::sym(PAIRS)],
        Objective::Each => vec![Dim::sym(BATCH), Dim::sym(LENGTH)],
    };
    let mut operands = vec![logits, input(graph, "labels", Type::Tensor(Elem::Index, axes.clone()))?];
    if binding.objective == Objective::Each {
        operands.push(input(graph, "weights", Type::real(axes))?);
    }
    let op = if binding.classes == Some(2) { Op::BinaryCrossEntropy } else { Op::CrossEntropy };
    let task_loss = emit(graph, op, operands)?;
    let loss = match penalty {
        Some(penalty) => emit(graph, Op::Add, vec![task_loss, penalty])?,
        None => task_loss,
    };
    results.extend([("task_loss".to_owned(), task_loss), ("loss".to_owned(), loss)]);
    let named: Vec<(&str, Value)> = results.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    return_named(graph, &named)
}

fn input(graph: &mut Graph, name: &str, ty: Type) -> Result<Value, Misfit> {
    let attrs = Attrs::from([("name", Attr::Text(name.to_owned()))]);
    let new = NewNode { op: Op::Input, operands: vec![], attrs, types: vec![ty], body: None, label: "loss".to_owned() };
    let node = match graph.nodes(MAIN).first() {
        Some(&first) => graph.insert_before(first, new)?,
        None => graph.push(MAIN, new)?,
    };
    let value = graph.node(node).results[0];
    graph.set_hint(value, name);
    Ok(value)
}

fn emit(graph: &mut Graph, op: Op, operands: Vec<Value>) -> Result<Value, Misfit> {
    let new = NewNode { op, operands, attrs: Attrs::new(), types: vec![], body: None, label: "loss".to_owned() };
    let node = graph.push(MAIN, new)?;
    Ok(graph.node(node).results[0])
}
