//! The stages after `check`, each a function from one printable value to the next.

pub mod cost;
pub mod memory;

use crate::ir::graph::{Graph, InvalidNode};
pub use crate::lower::lower as forward;
use crate::lower::{Binding, attach_loss, forget_labels, lower};
use crate::pass;
use crate::plan::{Plan, plan};
use crate::spec::Spec;

/// The differentiated graph before optimisation: loss and gradients of all parameters.
///
/// # Errors
/// See [`lower`] and [`pass::grad::run`].
pub fn differentiated(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = lower(spec, binding)?;
    attach_loss(&mut graph, binding)?;
    pass::grad::run(&mut graph)?;
    pass::dce::run(&mut graph);
    Ok(graph)
}

/// The optimised graph of a training step.
///
/// # Errors
/// See [`differentiated`].
pub fn training(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = optimised(spec, binding)?;
    pass::finish(&mut graph);
    Ok(graph)
}

/// The graph of a training step before the passes that run once: nothing is computed again.
///
/// # Errors
/// See [`differentiated`].
pub fn optimised(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = lower(spec, binding)?;
    attach_loss(&mut graph, binding)?;
    pass::optimise(&mut graph);
    pass::grad::run(&mut graph)?;
    pass::optimise(&mut graph);
    Ok(graph)
}

/// The forward graph without the losses that a spec makes of labels.
///
/// # Errors
/// See [`lower`].
pub fn answers(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = lower(spec, binding)?;
    if graph.output("answered").is_some() {
        forget_labels(&mut graph);
        pass::dce::run(&mut graph);
    }
    Ok(graph)
}

/// The optimised graph of a forward pass without dropout.
///
/// # Errors
/// See [`lower`].
pub fn inference(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    let mut graph = answers(spec, binding)?;
    pass::inference::run(&mut graph);
    pass::optimise(&mut graph);
    Ok(graph)
}

/// The plan of the gradients of a trained model: a training step without dropout.
///
/// # Errors
/// See [`differentiated`].
pub fn slopes(spec: &Spec, binding: &Binding) -> Result<Plan, InvalidNode> {
    let mut graph = lower(spec, binding)?;
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
pub fn plans(spec: &Spec, binding: &Binding) -> Result<(Plan, Plan), InvalidNode> {
    Ok((plan(training(spec, binding)?), plan(inference(spec, binding)?)))
}
