//! The costs of a model: parameters, operations, sequential depth and memory, as formulas and as numbers.

use super::{Forward, inference, optimised, training};
use crate::ir::attribute::ParameterRole;
use crate::ir::cost::{Extent, Sizes};
use crate::ir::critical_path::sequential_depth;
use crate::ir::formula::Formula;
use crate::ir::graph::{Graph, InvalidNode, MAIN};
use crate::ir::loops::Cut;
use crate::ir::number::Number;
use crate::ir::schedule::beam::BeamRules;
use crate::lower::Binding;
use crate::plan::cost::flops;
use crate::plan::memory::{self, BatchShape, Estimate, estimate};
use crate::plan::{Plan, plan};

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
    /// The longest rows whose memory is worked out step by step.
    pub walked: usize,
    /// The searches of the model.
    searches: Vec<BeamRules>,
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
    /// Whether the memory is that of shorter rows, extended to these.
    pub extended: bool,
}

impl Cost {
    /// The costs of a model. The formulas of memory are those for batches around `rows` rows of `length` tokens.
    ///
    /// # Errors
    /// See [`super::plans`].
    pub fn of<M: Forward>(model: &M, binding: &Binding, rows: usize, length: usize) -> Result<Self, InvalidNode> {
        let sizes = Sizes::symbols();
        let graph = model.forward(binding)?;
        let (mut parameters, mut embedding) = (Formula::default(), Formula::default());
        for parameter in super::parameters(&graph) {
            let sum = if parameter.role == Some(ParameterRole::Embedding) { &mut embedding } else { &mut parameters };
            *sum = sum.plus(&sizes.elements(&parameter.ty));
        }
        let (inference, step) = (plan(inference(model, binding)?), plan(training(model, binding)?));
        let keeping = plan(optimised(model, binding)?);
        let training = flops(&keeping, &sizes);
        let searches: Vec<BeamRules> =
            graph.walk(MAIN).into_iter().filter_map(|id| BeamRules::of(graph.node(id))).collect();
        let cuts = graph.walk(MAIN).into_iter().any(|id| Cut::of(graph.node(id)).is_some());
        let walked = walked(&searches, cuts);
        let length = length.min(walked);
        Ok(Self {
            at_most: searches.iter().any(|beams| beams.size > 1),
            parameters,
            embedding,
            forward: flops(&inference, &sizes),
            again: flops(&step, &sizes).minus(&training),
            training,
            depth: sequential_depth(&graph, &sizes),
            forward_memory: memory::formula(&inference, rows, length),
            training_memory: memory::formula(&step, rows, length),
            walked,
            searches,
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
        let memory = |plan, degree| self.memory(plan, (rows, length, depth), degree);
        let training = flops(&self.keeping, &sizes);
        Figures {
            parameters: self.parameters.value(&given),
            embedding: self.embedding.value(&given),
            forward: flops(&self.inference, &sizes),
            training,
            again: flops(&self.step, &sizes) - training,
            depth: sequential_depth(&self.graph, &sizes),
            forward_memory: memory(&self.inference, 1),
            training_memory: memory(&self.step, 2),
            extended: length > self.walked,
        }
    }

    /// The memory of a plan. Searches and balanced folds are walked step by step or chunk by chunk, which takes too long for very long
    /// rows: what they take is extended from shorter ones. Values grow with the length, or, where a search over whole rows mixes beams and scores all pairs anew in
    /// every step, with its square. So do lists, by the given degree: a search over whole rows that is recorded holds a list of nodes
    /// for every step.
    fn memory(&self, plan: &Plan, (rows, length, depth): (usize, usize, Option<f64>), degree: usize) -> Estimate {
        let at = |length| estimate(plan, &BatchShape { depth, ..BatchShape::even(rows, length) });
        let most = self.walked;
        if length <= most {
            return at(length);
        }
        let shorter = [most / 4, most / 2, most];
        let points = shorter.map(at);
        let whole = |beams: &&BeamRules| beams.cut == Cut::whole();
        let degrees = self.searches.iter().filter(whole).map(|beams| if beams.soft { (2, 2) } else { (1, degree) });
        let (values, lists) = degrees.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap_or((1, 1));
        let extended = |of: fn(&Estimate) -> u64, degree: usize| {
            let known = shorter.iter().zip(&points).map(|(n, point)| (*n as f64, of(point) as f64));
            through(&known.skip(2 - degree).collect::<Vec<_>>(), length as f64) as u64
        };
        let activations = extended(|point| point.activations, values);
        Estimate { activations, lists: extended(|point| point.lists, lists), ..points[2] }
    }
}

/// The longest rows whose memory is worked out step by step, or chunk by chunk where a fold `cuts` rows. Where a search over whole
/// rows mixes beams, every step differs.
fn walked(searches: &[BeamRules], cuts: bool) -> usize {
    match searches {
        [] if cuts => 1 << 16,
        [] => usize::MAX,
        _ if searches.iter().any(|beams| beams.soft && beams.cut == Cut::whole()) => 256,
        _ => 4096,
    }
}

/// The value at `x` of the polynomial through some points, in Lagrange's form.
fn through(points: &[(f64, f64)], x: f64) -> f64 {
    let weight =
        |own: f64| points.iter().filter(|(at, _)| *at != own).map(|(at, _)| (x - at) / (own - at)).product::<f64>();
    points.iter().map(|(at, value)| value * weight(*at)).sum()
}
