//! The stages after `check`, each a function from one printable value to the next.

pub mod asked;
pub mod class_weights;
pub mod cost;
pub mod each_step;
pub mod given;
pub mod held;
pub mod jacobian;
pub mod memory;

use crate::ir::attribute;
use crate::ir::graph::{Graph, InvalidNode, MAIN, Parameter};
use crate::ir::ops::Op;
pub use crate::lower::lower as forward;
use crate::lower::{Binding, attach_loss, forget, lower};
use crate::pass;
use crate::plan::{Plan, plan};
use crate::spec::Spec;

/// What has a forward graph.
pub trait Forward {
    /// The forward graph for a task.
    ///
    /// # Errors
    /// See [`lower`].
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode>;

    /// What is trained: the forward graph with its loss.
    ///
    /// # Errors
    /// See [`lower`].
    fn with_loss(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        let mut graph = self.forward(binding)?;
        attach_loss(&mut graph, binding)?;
        Ok(graph)
    }
}

/// A form of training that is chosen at run time.
impl<F: Forward + ?Sized> Forward for Box<F> {
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        (**self).forward(binding)
    }

    fn with_loss(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        (**self).with_loss(binding)
    }
}

/// A spec is lowered.
impl Forward for Spec {
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        lower(self, binding)
    }
}

/// A forward graph is its own; the task was known when it was made.
impl Forward for Graph {
    fn forward(&self, _: &Binding) -> Result<Graph, InvalidNode> {
        Ok(self.clone())
    }
}

/// The differentiated graph before optimisation: loss and gradients of all parameters.
///
/// # Errors
/// See [`lower`] and [`pass::grad::run`].
pub fn differentiated<M: Forward>(model: &M, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = model.with_loss(binding)?;
    pass::grad::run(&mut graph)?;
    pass::dce::run(&mut graph);
    Ok(graph)
}

/// The parameters of the models that a forward graph makes: those on which a result depends.
pub fn parameters(graph: &Graph) -> Vec<Parameter> {
    let mut graph = graph.clone();
    pass::optimise(&mut graph);
    graph.parameters()
}

/// The optimised graph of a training step.
///
/// # Errors
/// See [`differentiated`].
pub fn training<M: Forward>(model: &M, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = optimised(model, binding)?;
    pass::finish(&mut graph);
    Ok(graph)
}

/// The graph of a training step before the passes that run once: nothing is computed again.
///
/// # Errors
/// See [`differentiated`].
pub fn optimised<M: Forward>(model: &M, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = model.with_loss(binding)?;
    pass::optimise(&mut graph);
    pass::grad::run(&mut graph)?;
    pass::optimise(&mut graph);
    Ok(graph)
}

/// A forward graph without the losses that its model makes of labels, or of the tokens that have one.
pub fn unlabelled(mut graph: Graph) -> Graph {
    for loss in ["answered", "penalty"] {
        let given = |id| graph.node(id).op == Op::Input && graph.node(id).get(attribute::NAME) != "tokens";
        if (loss == "answered" || graph.walk(MAIN).into_iter().any(given)) && forget(&mut graph, &[loss]) {
            pass::dce::run(&mut graph);
        }
    }
    graph
}

/// The optimised graph of a forward pass without dropout.
///
/// # Errors
/// See [`lower`].
pub fn inference<M: Forward>(model: &M, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = model.forward(binding)?;
    // Nothing is paid for an answer.
    forget(&mut graph, &["answered", "penalty"]);
    pass::stops::run(&mut graph);
    pass::inference::run(&mut graph);
    pass::optimise(&mut graph);
    Ok(graph)
}

/// The plan of the gradients of a trained model: a training step without dropout.
///
/// # Errors
/// See [`differentiated`].
pub fn slopes<M: Forward>(model: &M, binding: &Binding) -> Result<Plan, InvalidNode> {
    let mut graph = model.forward(binding)?;
    pass::inference::run(&mut graph);
    attach_loss(&mut graph, binding)?;
    pass::optimise(&mut graph);
    pass::grad::run(&mut graph)?;
    pass::optimise(&mut graph);
    pass::finish(&mut graph);
    Ok(plan(graph))
}

/// The plans of a model: one training step, one forward pass.
///
/// # Errors
/// See [`training`] and [`inference`].
pub fn plans<M: Forward>(model: &M, binding: &Binding) -> Result<(Plan, Plan), InvalidNode> {
    Ok((plan(training(model, binding)?), plan(inference(model, binding)?)))
}
