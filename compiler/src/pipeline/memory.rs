//! The plans of a model under a memory limit: more is computed again until the estimate is below it.

use super::{Forward, inference, optimised};
use crate::ir::cost::Sizes;
use crate::ir::graph::{Graph, InvalidNode};
use crate::lower::Binding;
use crate::pass::recompute::RecomputeChoice;
use crate::plan::memory::{BatchShape, Estimate, MemoryTarget, estimate_on};
use crate::plan::{Plan, plan};

/// The largest batches that a run meets.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestBatches {
    /// Of the training; its rows decide what is computed again.
    pub training: BatchShape,
    /// Of the evaluations in between; nothing where there are none.
    pub evaluation: Option<BatchShape>,
    /// Bytes that are held all the time: data, checkpoints, the program itself; of a device what its libraries take.
    pub fixed_bytes: u64,
    /// Where it runs.
    pub target: MemoryTarget,
}

/// An upper bound on the bytes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The training step.
    pub training: Estimate,
    /// A forward pass of an evaluation.
    pub evaluation: Estimate,
    /// See [`LargestBatches::fixed_bytes`].
    pub fixed_bytes: u64,
    /// See [`LargestBatches::target`].
    pub target: MemoryTarget,
}

impl Need {
    /// The values of both, which run in turn: in one arena those of the larger. A device has blocks of a few sizes, of which one finds
    /// few of the other's.
    pub fn values(&self) -> u64 {
        let [training, evaluation] = [self.training.activations, self.evaluation.activations];
        match self.target {
            MemoryTarget::Processor => training.max(evaluation),
            MemoryTarget::Device => training.saturating_add(evaluation),
        }
    }

    /// The lists of searches, on the host: each of the two executors keeps its own.
    pub fn lists(&self) -> u64 {
        self.training.lists.saturating_add(self.evaluation.lists)
    }

    /// The weights that are held again: packed for their products; on a device those of the forward pass, with an array for gradients,
    /// and the block in which they came.
    pub fn weights(&self) -> u64 {
        match self.target {
            MemoryTarget::Processor => self.training.packed.saturating_add(self.evaluation.packed),
            MemoryTarget::Device => (self.training.parameters / 4).saturating_mul(3),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let lists = if self.target == MemoryTarget::Processor { self.lists() } else { 0 };
        let parts = [self.training.parameters, self.weights(), self.values(), lists, self.fixed_bytes];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// The plans of a model with what they need.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// One training step.
    pub training: Plan,
    /// One forward pass.
    pub inference: Plan,
    /// The limit that was asked for.
    pub limit: Option<u64>,
    /// What the plans need.
    pub need: Need,
    /// What they would need with every value kept that the backward run reads.
    pub all_kept: Need,
    /// What they would need without a limit.
    pub without_limit: Need,
    /// What is kept for the backward run, one text per value.
    pub kept: Vec<String>,
    /// What the backward run computes again.
    pub again: Vec<String>,
    /// Whether the limit is kept. If not, these plans need the least that any choice needs.
    pub fits: bool,
}

/// The plans of a model for batches up to those of `work`, within `limit` bytes if that can be done.
///
/// Without a limit, and where there is room, the training plan is that of [`super::training`]. Beyond that, values are
/// computed again in the order of bytes saved per operation, each only if the peak then is lower.
///
/// # Errors
/// See [`super::training`].
pub fn plans_within<M: Forward>(
    model: &M,
    binding: &Binding,
    work: &LargestBatches,
    limit: Option<u64>,
) -> Result<Fitted, InvalidNode> {
    let &LargestBatches { target, fixed_bytes, .. } = work;
    let estimate = |plan: &Plan, load: &BatchShape| estimate_on(plan, load, target);
    let inference = plan(inference(model, binding)?);
    let graph = optimised(model, binding)?;
    let evaluation = work.evaluation.as_ref().map_or(Estimate::default(), |load| estimate(&inference, load));
    let needs = |training: Estimate| Need { training, evaluation, fixed_bytes, target };
    let all_kept = needs(estimate(&plan(graph.clone()), &work.training));
    let mut choice = RecomputeChoice::of_pass(&graph);
    let mut training = plan(choice.rewritten().unwrap_or_else(|| graph.clone()));
    let without_limit = needs(estimate(&training, &work.training));
    let mut need = without_limit;
    let fits = |need: &Need| limit.is_none_or(|limit| need.total() <= limit);
    if !fits(&need) {
        choice.weigh(sizes(&work.training));
        while !fits(&need) {
            let Some((better, planned)) = step(&graph, &choice, need.training.activations, work) else { break };
            need.training = estimate(&planned, &work.training);
            (choice, training) = (better, planned);
        }
    }
    let (kept, again) = choice.lists();
    Ok(Fitted { training, inference, limit, need, all_kept, without_limit, kept, again, fits: fits(&need) })
}

/// The next choice whose peak is lower, with its plan.
fn step<'g>(
    graph: &Graph,
    choice: &RecomputeChoice<'g>,
    peak: u64,
    work: &LargestBatches,
) -> Option<(RecomputeChoice<'g>, Plan)> {
    let mut from = choice.clone();
    while let Some(next) = from.next() {
        let mut tried = from.clone();
        tried.take(&next);
        let planned = plan(tried.rewritten().unwrap_or_else(|| graph.clone()));
        if estimate_on(&planned, &work.training, work.target).activations < peak {
            return Some((tried, planned));
        }
        from.refuse(&next);
    }
    None
}

/// The mean row stands for all: values are weighed against each other.
fn sizes(load: &BatchShape) -> Sizes {
    let rows = load.lengths.len() as f64;
    Sizes::rows(rows, load.tokens() as f64 / rows.max(1.0))
}
