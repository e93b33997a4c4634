//! From a spec to a forward graph.
//!
//! What each statement becomes stands in its feature file; here are the context that features emit into (`builder`),
//! groups of layers, and the loss. Every parameter is named after its place in the spec
//! (`depthwise.self.query.weight`); every node carries that place as its label, which is what `rtc diff` speaks in.

mod builder;
mod group;
mod objective;
mod recurrence;
mod starts;

pub use crate::define::BindingType;
pub use crate::schema::Objective;
pub use builder::Binding;
pub(crate) use builder::{Halted, LayerInputs, Loss, Lower, choice, need};
pub use group::statements;
pub(crate) use group::{group, layers};
pub use objective::attach_loss;
pub(crate) use objective::{answer, batch_input, forget, read, return_named};
pub(crate) use recurrence::{BodyAdditions, CarriedValues, pay, remember, report};
pub(crate) use starts::{LinearInit, Maps, Starts};

use std::collections::BTreeSet;

use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Lowering, misplaced};
use crate::ir::graph::{Graph, InvalidNode};
use crate::ir::verify::verify;
use crate::spec::Spec;

/// The forward graph of a spec. Inputs: `tokens: u32[batch, length]`. Results, by name: `logits` and, for a model that
/// halts, `penalty` (weighted cost), `halting_cost` and `depth` (both per row); for one whose loops are left by conditions alone, `depth`.
///
/// # Errors
/// A spec that `check` accepted lowers without errors; a `InvalidNode` is a fault of a lowering rule.
pub fn lower(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    lowered(spec, binding, false).1
}

/// The same with the equations of atomic definitions in the place of their ops: what the tests compare the ops with.
///
/// # Errors
/// See [`lower`].
pub fn lower_by_equations(spec: &Spec, binding: &Binding) -> Result<Graph, InvalidNode> {
    lowered(spec, binding, true).1
}

/// What is wrong with the equations of the definitions that a spec uses: they are worked out where they are used.
pub(crate) fn check(spec: &Spec, binding: &Binding) -> Problems {
    let (mut problems, graph) = lowered(spec, binding, false);
    if problems.has_errors() {
        return problems;
    }
    // No rule may make a graph that means nothing: what its own check has missed is found here.
    let wrong = match graph {
        Err(InvalidNode(why)) => Some((String::new(), why)),
        Ok(graph) => verify(&graph).err().and_then(|violations| {
            let first = violations.into_iter().next()?;
            Some((first.id.map(|id| graph.node(id).label.clone()).unwrap_or_default(), first.message))
        }),
    };
    if let Some((label, why)) = wrong {
        let place = statements(&spec.root, &label).last().map_or(spec.root.span, |statement| statement.span);
        let message = format!("values don't fit each other: {why}");
        problems.report(Diagnostic::new(Kind::WrongType, place, message));
    }
    problems
}

fn lowered(spec: &Spec, binding: &Binding, by_equations: bool) -> (Problems, Result<Graph, InvalidNode>) {
    let mut l = Lower::new(spec, binding);
    l.by_equations = by_equations;
    let result = match spec.root.feature.lower {
        Lowering::Model(model) => model(&mut l, &spec.root),
        _ => Err(misplaced(&spec.root)),
    };
    (std::mem::take(&mut l.problems), result.map(|()| l.into_graph()))
}

/// The type of every name of a model, in the order of the text, with the weights below it; of the copies of a stack those of the first.
///
/// # Errors
/// See [`lower`].
pub fn types(spec: &Spec, binding: &Binding) -> Result<Vec<BindingType>, InvalidNode> {
    let mut l = Lower::new(spec, binding);
    let Lowering::Model(model) = spec.root.feature.lower else { return Err(misplaced(&spec.root)) };
    model(&mut l, &spec.root)?;
    let mut bound = std::mem::take(&mut l.bound);
    let is_copy = |part: &str| part.parse::<usize>().is_ok_and(|n| n > 0);
    bound.retain(|one| !one.ty.is_empty() && !one.path.split('.').any(is_copy));
    // A function is worked out wherever it is applied, and the steps of a loop more than once.
    let mut seen = BTreeSet::new();
    bound.retain(|one| seen.insert((one.path.clone(), one.ty.clone())));
    let parameters = l.into_graph().parameters();
    for one in &mut bound {
        let below = parameters.iter().filter(|parameter| {
            parameter.name.strip_prefix(&one.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        one.weights = below.map(|parameter| parameter.ty.dims().to_vec()).collect();
    }
    Ok(bound)
}
