//! A model as a function from its parameters to its logits, for programs that differentiate what they make of the logits.

use super::{Forward, inference};
use crate::ir::graph::{Graph, InvalidNode};
use crate::lower::{Binding, forget};
use crate::pass;
use crate::plan::{Plan, plan};

/// The input of [`product`] that holds the cotangent of the logits.
pub const COTANGENT: &str = "logits.cotangent";

/// Whether a pass drops units and draws what a model draws in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// As evaluations do: nothing is dropped.
    Evaluation,
    /// As training steps do.
    Training,
}

/// The plan of the logits. That of an evaluation is the plan of every prediction.
///
/// # Errors
/// See [`super::inference`].
pub fn logits<M: Forward>(model: &M, binding: &Binding, mode: Mode) -> Result<Plan, InvalidNode> {
    if mode == Mode::Evaluation {
        return Ok(plan(inference(model, binding)?));
    }
    let mut graph = forward(model, binding, mode)?;
    pass::stops::run(&mut graph);
    pass::optimise(&mut graph);
    Ok(plan(graph))
}

/// The plan of the product of a cotangent of the logits, [`COTANGENT`], with their Jacobian: the gradients of all parameters.
///
/// # Errors
/// See [`pass::grad::pull_back`].
pub fn product<M: Forward>(model: &M, binding: &Binding, mode: Mode) -> Result<Plan, InvalidNode> {
    let mut graph = forward(model, binding, mode)?;
    pass::optimise(&mut graph);
    pass::grad::pull_back(&mut graph, "logits", COTANGENT)?;
    pass::optimise(&mut graph);
    pass::finish(&mut graph);
    Ok(plan(graph))
}

/// The forward graph without what a model pays: of its logits alone nobody pays.
fn forward<M: Forward>(model: &M, binding: &Binding, mode: Mode) -> Result<Graph, InvalidNode> {
    let mut graph = model.forward(binding)?;
    forget(&mut graph, &["answered", "penalty"]);
    pass::dce::run(&mut graph);
    if mode == Mode::Evaluation {
        pass::inference::run(&mut graph);
    }
    Ok(graph)
}
