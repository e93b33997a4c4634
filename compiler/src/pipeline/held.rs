//! Parameters that a training leaves as they are: nothing is differentiated by them.

use std::collections::BTreeSet;

use super::Forward;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{FIXED, Graph, InvalidNode, MAIN, NewNode};
use crate::ir::ops::Op;
use crate::lower::Binding;

/// A model of which some parameters are held in a training. Its forward graph is that of the model.
#[derive(Clone, Debug)]
pub struct Held<M> {
    /// The model.
    pub model: M,
    /// The names of these parameters.
    pub parameters: BTreeSet<String>,
}

impl<M: Forward> Forward for Held<M> {
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        self.model.forward(binding)
    }

    fn with_loss(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        let mut graph = self.model.with_loss(binding)?;
        for (place, id) in graph.nodes(MAIN).to_vec().into_iter().enumerate().rev() {
            let node = graph.node(id);
            let is_held = node.op == Op::Param && self.parameters.contains(node.get(attribute::NAME));
            if !is_held {
                continue;
            }
            let (value, label) = (node.results[0], node.label.clone());
            let (op, users) = (Op::Detach, graph.users(value));
            let new = NewNode { op, operands: vec![value], attrs: Attrs::new(), types: vec![], body: None, label };
            let detached = graph.insert_at(MAIN, place + 1, new)?;
            let detached = graph.node(detached).results[0];
            for user in users {
                let operands = graph.node(user).operands.iter();
                let operands = operands.map(|operand| if *operand == value { detached } else { *operand }).collect();
                graph.set_operands(user, operands);
            }
            graph.set_attr(id, attribute::GROUP, FIXED);
        }
        Ok(graph)
    }
}
