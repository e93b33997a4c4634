//! The floating-point operations of a plan, as it is executed.
//!
//! Rows that halt leave (`--halting compact`), and a row that stops before the bound has tried a step that it rejects:
//! that step is counted as far as the plan lets it run.

use super::Plan;
use crate::ir::cost::{Algebra, Sizes, node_cost, turns};
use crate::ir::graph::{MAIN, RegionId};
use crate::ir::ops::Op;

/// The operations of one run of the plan. What the optimiser does with the gradients is no part of it.
pub fn flops<N: Algebra>(plan: &Plan, sizes: &Sizes<N>) -> N {
    region(plan, MAIN, sizes).0
}

/// The operations of one run of a region: of all its steps, and of those up to the point at which it is decided which rows
/// go on.
fn region<N: Algebra>(plan: &Plan, region_id: RegionId, sizes: &Sizes<N>) -> (N, N) {
    let own = &plan.regions[region_id.index()];
    let (mut all, mut early_exit) = (N::of(0.0), None);
    for (n, step) in own.steps.iter().enumerate() {
        if own.early_exit == Some(n) {
            early_exit = Some(all.clone());
        }
        all = all.plus(&node_cost(&plan.graph, step.node, sizes));
        let node = plan.graph.node(step.node);
        let Some(body) = node.body else { continue };
        for turns in turns(&plan.graph, step.node, sizes) {
            let (whole, tried) = region(plan, body, &turns.sizes);
            all = all.plus(&turns.steps.times(&whole));
            if node.op == Op::Recur {
                all = all.plus(&turns.rejected.times(&tried));
            }
        }
    }
    let tried = early_exit.unwrap_or_else(|| all.clone());
    (all, tried)
}
