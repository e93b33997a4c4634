//! Roles of parameters: which weights are vectors of tokens, and which make the answers.
//!
//! A role is set where the parameter is made. Optimisers, costs and analyses read it, so that the name of a binding decides nothing.

use std::collections::BTreeSet;

use super::attribute::{self, ParameterRole};
use super::graph::{Graph, INPUTS, MAIN, Node, NodeId, Value};
use super::ops::{Flag, Op};
use super::shape::single_logits;

/// Marks the parameters of the last maps before the answers, unless they have a role already: the weight, its bias, and everything learned
/// between them and `logits`. The value that the head reads is where they end.
pub fn mark_output(graph: &mut Graph, logits: Value, read: Value) {
    let (mut open, mut met) = (vec![logits], BTreeSet::from([read]));
    while let Some(value) = open.pop() {
        let Some(id) = graph.producer(value).filter(|_| met.insert(value)) else { continue };
        let node = graph.node(id);
        if node.op == Op::Param {
            if !node.has(attribute::PARAMETER_ROLE) {
                graph.set_attr(id, attribute::PARAMETER_ROLE, ParameterRole::Output);
            }
        } else if node.body.is_none() {
            // What depends on the batch lies before the map.
            let maps = node.op.has(Flag::Heavy) || node.op == Op::Matmul;
            open.extend(node.operands.iter().filter(|value| !maps || !graph.ty(**value).is_batched()));
        }
    }
}

/// The input of a name that every batch has.
fn input<'g>(graph: &'g Graph, name: &str) -> Option<&'g Node> {
    debug_assert!(INPUTS.contains(&name), "`{name}` is no input of every batch");
    let mut inputs = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Input);
    inputs.find(|node| node.get(attribute::NAME) == name)
}

/// The nodes that read an input that every batch has.
fn readers<'g>(graph: &'g Graph, name: &str) -> impl Iterator<Item = &'g Node> + use<'g> {
    let value = input(graph, name).map(|node| node.results[0]);
    value.into_iter().flat_map(|value| graph.users(value)).map(|id| graph.node(id))
}

/// Returns the smallest number of ids that what reads an input knows: rows of a table, or classes of a loss.
fn known_ids(graph: &Graph, name: &str) -> Option<usize> {
    let known = readers(graph, name).filter_map(|node| match node.op {
        Op::Embed => graph.ty(node.operands[1]).dims().iter().rev().nth(1)?.fixed(),
        Op::CrossEntropyEach => {
            let [logits, labels] = [0, 1].map(|n| graph.ty(node.operands[n]));
            logits.dims().last().filter(|_| !single_logits(logits, labels))?.fixed()
        }
        _ => None,
    });
    known.min()
}

/// Returns the smallest number of tokens that a table has vectors for, or a loss that reads the tokens has classes for; `None` if none reads them.
pub fn vocabulary(graph: &Graph) -> Option<usize> {
    known_ids(graph, "tokens")
}

/// Returns the number of classes that labels choose among: those of the answers, or of what reads the labels.
pub fn classes(graph: &Graph) -> Option<usize> {
    let answers = graph.output("logits").and_then(|logits| graph.ty(logits).dims().last()?.fixed());
    known_ids(graph, "labels").into_iter().chain(answers.map(|outputs| outputs.max(2))).min()
}

/// Returns the parameters whose rows are the vectors of tokens, by their names. `None` if a table is missing, or serves something else, too,
/// as one that makes the answers.
pub fn token_tables(graph: &Graph) -> Option<Vec<&str>> {
    let tokens = input(graph, "tokens")?.results[0];
    let reads = |id: &NodeId| graph.node(*id).operands.first() == Some(&tokens);
    let tables: BTreeSet<Value> =
        readers(graph, "tokens").filter(|node| node.op == Op::Embed).map(|node| node.operands[1]).collect();
    let name = |table: &Value| {
        let param = graph.node(graph.producer(*table).filter(|id| graph.node(*id).op == Op::Param)?);
        graph.users(*table).iter().all(reads).then(|| param.get(attribute::NAME))
    };
    tables.iter().map(name).collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
}
