//! What a model costs: parameters, operations, sequential depth and memory, as formulas and as numbers.

use super::{forward, inference, optimised, training};
use crate::ir::chain::sequential_depth;
use crate::ir::cost::{Extent, Sizes};
use crate::ir::formula::Formula;
use crate::ir::graph::{Graph, MAIN, Misfit};
use crate::ir::number::Number;
use crate::ir::search::Beams;
use crate::lower::Binding;
use crate::plan::cost::flops;
use crate::plan::memory::{self, Estimate, Load, estimate};
use crate::plan::{Plan, plan};
use crate::spec::Spec;

/// What parameters of the embedding are named after.
const EMBEDDING: &str = "embed.";

/// The costs of a model for batches of `B` rows of `n` tokens whose halting recurrences take `depth` steps on the mean.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Trainable numbers besides the embedding; what is shared counts once.
    pub parameters: Formula,
    /// Trainable numbers of the embedding.
    pub embedding: Formula,
    /// Operations of a forward pass.
    pub forward: Formula,
    /// Operations of a training step, if nothing were computed again.
    pub training: Formula,
    /// Operations that a training step repeats in its backward run to save memory.
    pub again: Formula,
    /// The largest number of layers that must run one after the other in a forward pass.
    pub depth: Formula,
    /// Bytes of all values of a forward pass, see [`memory::formula`].
    pub forward_memory: Formula,
    /// Bytes of all values of a training step.
    pub training_memory: Formula,
    /// Whether operations and memory are at most these: beams of a search that are alike share what they join.
    pub at_most: bool,
    graph: Graph,
    inference: Plan,
    step: Plan,
    /// The training step that keeps everything.
    keeping: Plan,
}

/// The costs for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// See [`Cost::parameters`].
    pub parameters: f64,
    /// See [`Cost::embedding`].
    pub embedding: f64,
    /// See [`Cost::forward`].
    pub forward: f64,
    /// See [`Cost::training`].
    pub training: f64,
    /// See [`Cost::again`].
    pub again: f64,
    /// See [`Cost::depth`].
    pub depth: f64,
    /// Memory of a forward pass.
    pub forward_memory: Estimate,
    /// Memory of a training step.
    pub training_memory: Estimate,
}

impl Cost {
    /// The costs of a model. The formulas of memory are those for batches around `rows` rows of `length` tokens.
    ///
    /// # Errors
    /// See [`super::plans`].
    pub fn of(spec: &Spec, binding: &Binding, rows: usize, length: usize) -> Result<Self, Misfit> {
        let sizes = Sizes::symbols();
        let graph = forward(spec, binding)?;
        let (mut parameters, mut embedding) = (Formula::default(), Formula::default());
        for parameter in graph.parameters() {
            let sum = if parameter.name.starts_with(EMBEDDING) { &mut embedding } else { &mut parameters };
            *sum = sum.plus(&sizes.elements(&parameter.ty));
        }
        let (inference, step) = (plan(inference(spec, binding)?), plan(training(spec, binding)?));
        let keeping = plan(optimised(spec, binding)?);
        let training = flops(&keeping, &sizes);
        let searches = |id| Beams::of(graph.node(id)).is_some_and(|beams| beams.size > 1);
        Ok(Self {
            at_most: graph.walk(MAIN).into_iter().any(searches),
            parameters,
            embedding,
            forward: flops(&inference, &sizes),
            again: flops(&step, &sizes).minus(&training),
            training,
            depth: sequential_depth(&graph, &sizes),
            forward_memory: memory::formula(&inference, rows, length),
            training_memory: memory::formula(&step, rows, length),
            graph,
            inference,
            step,
            keeping,
        })
    }

    /// The costs for `rows` rows of `length` tokens. Where the formulas of a fold know no more than means over its chunks, these
    /// figures are exact; recurrences that halt take `depth` steps on the mean, at most and
    /// without a depth their bound. Sizes that only a task gives count as 1.
    pub fn at(&self, rows: usize, length: usize, depth: Option<f64>) -> Figures {
        let sizes = Sizes { depth, ..Sizes::rows(rows as f64, length as f64) };
        let given = |_: &str| Some(1.0);
        let load = Load { depth, ..Load::even(rows, length) };
        let training = flops(&self.keeping, &sizes);
        Figures {
            parameters: self.parameters.value(&given),
            embedding: self.embedding.value(&given),
            forward: flops(&self.inference, &sizes),
            training,
            again: flops(&self.step, &sizes) - training,
            depth: sequential_depth(&self.graph, &sizes),
            forward_memory: estimate(&self.inference, &load),
            training_memory: estimate(&self.step, &load),
        }
    }
}
