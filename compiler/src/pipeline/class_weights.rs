//! Weights of classes in the training loss: means of losses of answers become weighted means.
//!
//! An evaluation measures answers without weights: the forward graph is that of the model.

use super::Forward;
use crate::ir::attribute::Attrs;
use crate::ir::graph::{Graph, InvalidNode, NewNode, NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise};
use crate::ir::types::{BATCH, Dim, LENGTH, PAIRS, Type};
use crate::lower::{Binding, batch_input};
use crate::schema::Objective;

/// The input with the weight of every answer, scaled so that the mean over the answers of an update is 1. A name with a dot is none of an equation.
pub const CLASS_WEIGHTS: &str = "class.weights";

/// A model whose training loss is the weighted mean over its answers.
#[derive(Clone, Debug)]
pub struct Weighted<'m, M> {
    pub(super) model: &'m M,
    pub(super) training: Graph,
}

/// Why the answers of a model can't be weighted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightFault {
    /// The model pays by another number than one per answer.
    #[error("{0}")]
    Model(String),
    /// A fault of a lowering rule.
    #[error(transparent)]
    Graph(#[from] InvalidNode),
}

impl<'m, M: Forward> Weighted<'m, M> {
    /// The model, if the loss of its task is made of means over its answers.
    ///
    /// # Errors
    /// The loss that has no answer to weigh, and what to do.
    pub fn new(model: &'m M, binding: &Binding) -> Result<Self, WeightFault> {
        let mut training = model.with_loss(binding)?;
        let loss = training.output("task_loss");
        let loss = loss.ok_or_else(|| InvalidNode("the graph has no result `task_loss`".to_owned()))?;
        let answers = answers(&training, binding)?;
        for mean in means(&training, loss)? {
            weigh(&mut training, mean, &answers)?;
        }
        Ok(Self { model, training })
    }
}

impl<M: Forward> Forward for Weighted<'_, M> {
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        self.model.forward(binding)
    }

    fn with_loss(&self, _: &Binding) -> Result<Graph, InvalidNode> {
        Ok(self.training.clone())
    }
}

/// The axes of the answers.
fn answers(graph: &Graph, binding: &Binding) -> Result<Vec<Dim>, WeightFault> {
    let axes = |axes: &[&str]| Ok(axes.iter().map(|axis| Dim::sym(axis)).collect());
    match binding.objective {
        Objective::Classify => axes(&[BATCH]),
        Objective::Pair => axes(&[PAIRS]),
        Objective::Each => axes(&[BATCH, LENGTH]),
        Objective::Several => {
            let logits = graph.output("logits").ok_or_else(|| InvalidNode("the graph has no logits".to_owned()))?;
            Ok(graph.ty(logits).dims().to_vec())
        }
        Objective::Number => Err(WeightFault::Model("the answers are numbers, which have no classes".to_owned())),
    }
}

/// The means of which the loss of the task is the sum.
fn means(graph: &Graph, loss: Value) -> Result<Vec<NodeId>, WeightFault> {
    let (mut open, mut found) = (vec![loss], vec![]);
    while let Some(value) = open.pop() {
        let node = graph.producer(value).map(|id| (id, graph.node(id)));
        match node {
            Some((_, node)) if node.op == Op::Map => open.extend(&node.operands),
            Some((id, node)) if node.op == Op::Average => {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
            _ => {
                return Err(WeightFault::Model(
                    "the loss is no sum of means over answers: pay `average(answer(x))`".to_owned(),
                ));
            }
        }
    }
    Ok(found)
}

/// Makes a mean over the answers a weighted one: that by the weights, times the mean weight of the batch. A micro-batch so adds as
/// much as its answers weigh in the whole update, while its share of the update stays that of its answers.
fn weigh(graph: &mut Graph, mean: NodeId, answers: &[Dim]) -> Result<(), WeightFault> {
    let node = graph.node(mean).clone();
    let axes = graph.ty(node.operands[0]).dims();
    if axes != answers {
        let what = if axes.len() < answers.len() { "one number for several answers" } else { "no number of an answer" };
        return Err(WeightFault::Model(format!(
            "a loss of the model, or its `label_smoothing`, is {what}, and a weight belongs to one: leave one of the two out"
        )));
    }
    // The answers that count, where some do not.
    let counted = node.operands.get(1).copied();
    let weights = batch_input(graph, CLASS_WEIGHTS, Type::real(answers.to_vec()))?;
    let of_weights = [weights].into_iter().chain(counted).collect();
    let mut before = |op: Op, operands: Vec<Value>, attrs: Attrs| {
        let new = NewNode { op, operands, attrs, types: vec![], body: None, label: node.label.clone() };
        graph.insert_before(mean, new).map(|id| graph.node(id).results[0])
    };
    let share = before(Op::Average, of_weights, Attrs::new())?;
    let weighted = before(Op::Average, vec![node.operands[0], weights], Attrs::new())?;
    let (operands, attrs) = pointwise::map(&[Pointwise::Mul.of_operands()], &[weighted, share]);
    let product = before(Op::Map, operands, attrs)?;
    graph.replace_uses(node.results[0], product);
    graph.hand_on_hint(node.results[0], product);
    graph.remove(mean);
    Ok(())
}
