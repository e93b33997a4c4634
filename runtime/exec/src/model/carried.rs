//! What rows carry from one update to the next, where the training plan is that of one step of a loop.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::pipeline::each_step::{CARRIED, OVER, size};
use rtc_compiler::plan::Plan;

use crate::learner::{Carry, RemainingState};
use crate::machine::outputs::Outputs;
use crate::settings::ExecutionFault;
use crate::storage::Element;
use rtc_kernel::Real;

/// The values that a training plan takes of every row and gives back.
pub(super) fn carries(plan: &Plan) -> Vec<Carry> {
    let inputs = plan.graph.nodes(MAIN).iter().map(|id| plan.graph.node(*id)).filter(|node| node.op == Op::Input);
    let carried = inputs.filter(|node| node.get(attribute::NAME).starts_with(CARRIED));
    let mut found: Vec<Carry> = carried
        .map(|node| {
            let (around, width) = size(plan.graph.ty(node.results[0]));
            Carry { name: node.get(attribute::NAME).into(), around, width }
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The results of a step that leaves finite numbers, of which the next one can be made, and a decision about every row.
pub(super) fn finite<T: Element>(carries: &[Carry], outputs: Outputs<T>) -> Result<Outputs<T>, ExecutionFault> {
    let names = carries.iter().map(|carry| &*carry.name).chain([OVER]);
    let broken = |name: &&str| outputs.real(name).is_some_and(|x| !x.iter().all(|x| Real::is_finite(*x)));
    match names.into_iter().find(broken) {
        Some(name) => Err(ExecutionFault::NonFinite(format!("what rows carry as `{name}`"))),
        None => Ok(outputs),
    }
}

/// What a step has left of them.
pub(super) fn left<T: Element>(carries: &[Carry], outputs: &Outputs<T>) -> RemainingState {
    let numbers = |name: &str| outputs.real(name).unwrap_or_default().iter().map(|x| x.to_f64());
    RemainingState {
        values: carries.iter().map(|carry| numbers(&carry.name).collect()).collect(),
        over: numbers(OVER).map(|over| over > 0.5).collect(),
    }
}
