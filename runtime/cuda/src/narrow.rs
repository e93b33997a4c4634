//! Values in 16 bits: which of a plan are kept so on a device that multiplies bf16, and how steps read and write them.
//!
//! What is wide and made by a step that can write 16 bits is kept so: states, what maps and norms make of them, queries, keys and values, and
//! the gradients of all these. Weights, moments and gradients of weights stay in single precision, and so do logits, losses, halting,
//! probabilities, and every sum while it is made. A step without a kernel for 16 bits reads its operands widened.

use std::collections::BTreeSet;

use rtc_compiler::ir::graph::{MAIN, Node, Value};
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::plan::Plan;

use super::device::KernelTarget;
use rtc_exec::mask::is_attention;
use rtc_kernel::Precision;

/// Channels of a value that is worth it; halting and shares have one.
const WIDE: usize = 16;

/// Whether each value of a plan is kept in 16 bits, where the step that makes it can.
pub(super) fn values(plan: &Plan, target: KernelTarget) -> Vec<bool> {
    let mut narrow = vec![false; plan.graph.value_count()];
    if target.precision != Precision::Bf16 {
        return narrow;
    }
    let nodes: Vec<_> = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id)).collect();
    let exact = nodes.iter().filter(|node| node.op.has(Flag::Exact)).flat_map(|node| node.operands.iter().copied());
    // What masks and biases compare is exact, too.
    let attends = |node: &&&Node| is_attention(node.op);
    let read = nodes.iter().filter(attends).flat_map(|node| node.operands[node.behind().reads].iter().copied());
    let exact = exact.chain(read);
    let exact: BTreeSet<Value> = exact.chain(plan.regions[MAIN.index()].yields.iter().copied()).collect();
    for node in nodes {
        // What a weight has for a step is a part of it.
        let part = node.op == Op::Embed && plan.graph.ty(node.operands[0]).dims().is_empty();
        for value in node.results.iter().take(if part { 0 } else { node.op.def().narrow }) {
            let ty = plan.graph.ty(*value);
            let wide = ty.dims().last().and_then(Dim::fixed).is_some_and(|width| width >= WIDE);
            narrow[value.index()] = ty.is_real() && wide && !exact.contains(value);
        }
    }
    narrow
}

/// The name of a kernel for numbers in 16 bits, if they are narrow.
pub(super) fn named(kernel: &str, narrow: bool) -> String {
    if narrow { format!("{kernel}_narrow") } else { kernel.to_owned() }
}
