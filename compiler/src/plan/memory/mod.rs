//! How much memory a plan takes for a batch.
//!
//! The plan is walked as the executor walks it, with sizes in place of numbers: a value lives from its step to its
//! `frees`, a tape holds what every step saved, loops nest, an `unwind` holds its tape to the end, and an op works in
//! place where the plan says so and the buffer has no other handle. Values inside of a group of steps take nothing; what
//! the blocks of a group sum up does. Lists of rows and tapes count, too. Recurrences run to their bound unless
//! a mean depth is given, so the result is an upper bound for models that halt.
//!
//! Buffers come from an arena that joins what is free, as in the executor, so what counts is the most that is held at one
//! time.
//!
//! Not counted is the scratch of kernels, per thread: a few blocks, some 100 KiB, and copies of one head of the longest row.

mod distances;
mod lists;
mod loops;
mod pool;
mod rows;
mod searches;
mod walk;

use std::collections::BTreeSet;

use super::Plan;
use crate::ir::formula::Formula;
use crate::ir::graph::MAIN;
use crate::ir::ops::Op;
use crate::ir::types::Dim;
use distances::map_of_codes;
use pool::class;
use walk::MemoryWalk;

/// The processor or device of a plan, which decides what is held beside the values that the plan keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryTarget {
    /// The executor of the processor: one arena, groups of steps block by block, weights packed for their products.
    #[default]
    Processor,
    /// The executor of a device: blocks of a few sizes, and every value of a group whole.
    Device,
}

/// The batch for which memory is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchShape {
    /// Tokens of every row.
    pub lengths: Vec<usize>,
    /// Steps that rows take on the mean in a depth recurrence with halting, at most its bound; `None` for the bound itself.
    pub depth: Option<f64>,
}

/// Bytes that a training step takes, in `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Parameters, their gradients and the two moments of the optimiser.
    pub parameters: u64,
    /// Weights in the order of their products, which the executor keeps beside them.
    pub packed: u64,
    /// All values.
    pub activations: u64,
    /// The lists of beam searches, which lie outside of the arena; at most.
    pub lists: u64,
}

/// Numbers between whose multiples a device lays parameters, as in `runtime/cuda/src/exec.rs`.
const DEVICE_ALIGN: u64 = 64;

/// Value, gradient and the two moments of AdamW, in `f32`.
pub const BYTES_PER_PARAMETER: u64 = 16;

impl BatchShape {
    /// Rows of one length.
    pub fn even(rows: usize, length: usize) -> Self {
        Self { lengths: vec![length; rows], depth: None }
    }

    /// Tokens of all rows.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }
}

impl Estimate {
    /// All parts.
    pub fn total(&self) -> u64 {
        let parts = [self.parameters, self.packed, self.activations, self.lists];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// What a plan takes for a batch. Axes that only a task gives count as 1.
pub fn estimate(plan: &Plan, load: &BatchShape) -> Estimate {
    estimate_on(plan, load, MemoryTarget::Processor)
}

/// What a plan takes there for a batch.
pub fn estimate_on(plan: &Plan, load: &BatchShape, target: MemoryTarget) -> Estimate {
    let size = |dims: &[Dim]| product(dims.iter().map(|d| d.fixed().unwrap_or(1) as u64));
    let align = if target == MemoryTarget::Device { DEVICE_ALIGN } else { 1 };
    let room = |numbers: u64| numbers.checked_next_multiple_of(align).unwrap_or(numbers);
    let parameters = plan.parameters.iter().map(|p| room(size(p.ty.dims()))).fold(0, u64::saturating_add);
    let most = MemoryWalk::new(plan, load, target, false).most();
    Estimate {
        parameters: match target {
            MemoryTarget::Processor => parameters.saturating_mul(BYTES_PER_PARAMETER),
            MemoryTarget::Device => class(parameters.saturating_mul(BYTES_PER_PARAMETER / 4)).saturating_mul(4),
        },
        packed: packed(plan),
        activations: most.values.number,
        lists: most.lists.number,
    }
}

/// The bytes of all values as a formula in the rows, their length and the mean depth. It is that of the moment at which most
/// is held for `rows` rows of `length` tokens, and leaves out what fills blocks up.
pub fn formula(plan: &Plan, rows: usize, length: usize) -> Formula {
    MemoryWalk::new(plan, &BatchShape::even(rows, length), MemoryTarget::Processor, true)
        .most()
        .values
        .formula
        .unwrap_or_default()
}

/// Bytes of the packed weights: one for each weight and direction in which it is used.
fn packed(plan: &Plan) -> u64 {
    let nodes = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id));
    let weights = nodes.filter_map(|n| match n.op {
        Op::Linear | Op::LinearGradInput => Some((n.operands[1], n.op)),
        // In one direction, forward and backward.
        _ => map_of_codes(n).map(|map| (map, Op::Attention)),
    });
    let numbers = weights
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|(w, _)| product(plan.graph.ty(w).dims().iter().map(|d| d.fixed().unwrap_or(1) as u64)));
    numbers.fold(0, u64::saturating_add).saturating_mul(4)
}

fn product(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(1, u64::saturating_mul)
}
