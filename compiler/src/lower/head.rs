//! From the last state to the logits, and the results of the graph.

use super::builder::{LinearInit, Lower, need};
use crate::ir::graph::{Misfit, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, CLASSES, Dim};
use crate::schema::Objective;
use crate::spec::Block;

/// The vector (or, for `each`, the sequence) that the head reads.
pub(super) fn readout(l: &mut Lower<'_>, block: &Block, state: Value) -> Result<Value, Misfit> {
    let position = |at: &str| Attrs::from([("at", Attr::from(at))]);
    match block.variant {
        "each" => Ok(state),
        "first" => l.one(Op::Position, &[state], position("first")),
        "end" => l.one(Op::Position, &[state], position("last")),
        "max" => l.one(Op::Max, &[state], Attrs::new()),
        "memory" => {
            let memory = need(l.memory, block, "memory")?;
            let normed = l.norm(memory, "norm")?;
            if block.word("pool") == Some("last") {
                l.one(Op::Position, &[normed], position("last"))
            } else {
                l.one(Op::Mean, &[normed], Attrs::new())
            }
        }
        _ => l.one(Op::Mean, &[state], Attrs::new()),
    }
}

/// Linear, activation, linear; for pairs on `[u; v; u v; |u - v|]` (notes 1.2). Two classes take one output.
pub(super) fn classifier(l: &mut Lower<'_>, block: Option<&Block>, pooled: Value) -> Result<Value, Misfit> {
    let x = match l.binding().objective {
        Objective::Pair => l.one(Op::Pair, &[pooled], Attrs::new())?,
        Objective::Classify | Objective::Each => pooled,
    };
    let hidden = block.and_then(|b| b.int("hidden")).unwrap_or(l.width);
    let x = l.linear(x, "hidden", Dim::Fixed(hidden), &LinearInit::FanIn)?;
    let act = if block.and_then(|b| b.word("activation")) == Some("gelu") { Op::Gelu } else { Op::Relu };
    let x = l.one(act, &[x], Attrs::new())?;
    let outputs = match l.binding().classes {
        None => Dim::sym(CLASSES),
        Some(2) => Dim::Fixed(1),
        Some(n) => Dim::Fixed(n),
    };
    l.linear(x, "output", outputs, &LinearInit::FanIn)
}

/// The results: logits and, where something halts, the weighted penalty, cost and depth per row.
pub(super) fn finish(l: &mut Lower<'_>, logits: Value) -> Result<(), Misfit> {
    let halted = std::mem::take(&mut l.halted);
    let mut results = vec![("logits", logits)];
    let mut totals: Option<[Value; 3]> = None;
    for one in &halted {
        let mean = l.one(Op::Average, &[one.cost], Attrs::new())?;
        let penalty = l.one(Op::Scale, &[mean], Attrs::from([("by", one.weight.into())]))?;
        let parts = [penalty, one.cost, one.depth];
        totals = Some(match totals {
            None => parts,
            Some(sums) => {
                let mut next = sums;
                for (sum, part) in next.iter_mut().zip(parts) {
                    *sum = l.one(Op::Add, &[*sum, part], Attrs::new())?;
                }
                next
            }
        });
    }
    if let Some([penalty, cost, depth]) = totals {
        results.extend([("penalty", penalty), ("halting_cost", cost), ("depth", depth)]);
    }
    super::objective::return_named(l.graph(), &results)
}
