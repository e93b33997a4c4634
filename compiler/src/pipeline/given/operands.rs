//! What shape rules leave open of operands, because lowering never does otherwise: the kinds of their elements, and sizes that
//! kernels take for granted.

use crate::ir::graph::{Graph, Node};
use crate::ir::ops::{Flag, Op};
use crate::ir::types::{Dim, Elem, Type};

/// Whether the operands of a node are what its op computes with.
pub(super) fn fit(graph: &Graph, node: &Node) -> bool {
    let types: Vec<&Type> = node.operands.iter().map(|value| graph.ty(*value)).collect();
    types.iter().enumerate().all(|(n, ty)| is_of_kind(node.op, n, ty)) && sizes_fit(node.op, &types)
}

/// Whether an operand has elements of the kind that the op reads: numbers, where nothing else is said.
fn is_of_kind(op: Op, n: usize, ty: &Type) -> bool {
    if op.has(Flag::Loop) || op.has(Flag::Terminator) {
        return true;
    }
    match (op, n) {
        // It gives its axes alone.
        (Op::Full | Op::True | Op::LongerThanOne, 0)
        | (Op::BroadcastBatch | Op::BroadcastRows | Op::TransposeBack, 1) => true,
        (Op::DepthOf | Op::Normal | Op::Uniform, 0) | (Op::StepNumber, 1) => true,
        (Op::Top, 1 | 2) => [Some(Elem::Index), Some(Elem::Real)].contains(&ty.elem()),
        // A counter of steps, or the first of what follows it.
        (Op::Attention, 3) => [Some(Elem::Index), Some(Elem::Real)].contains(&ty.elem()),
        (Op::Embed | Op::StepNumber, 0) | (Op::SlotGet | Op::HaltTest | Op::StepSlice, 1) | (Op::SlotSet, 2) => {
            ty.elem() == Some(Elem::Index)
        }
        (Op::CrossEntropyEach | Op::BinaryCrossEntropyEach | Op::Right, 1) => ty.elem() == Some(Elem::Index),
        (Op::Select, 1 | 2) => ty.is_real() || ty.elem() == Some(Elem::Bool),
        (Op::Select | Op::Any, 0) | (Op::MaskUnit, 1) | (Op::And, _) => ty.elem() == Some(Elem::Bool),
        _ => ty.is_real(),
    }
}

/// Whether sizes agree that the rule of the op does not compare.
fn sizes_fit(op: Op, types: &[&Type]) -> bool {
    let is_prefix = |of: &Type, whole: &Type| whole.dims().starts_with(of.dims());
    // Where each position of a row has a part of its own, it is one of channels.
    let by_position = |ty: &Type| ty.ragged().is_none() || ty.dims().len() <= 3;
    let has_channels = |ty: &Type| ty.dims().last().is_some_and(|last| last.fixed().is_some());
    match (op, types) {
        (Op::Frame, [x, ends @ ..]) => {
            ends.iter().all(|end| x.dims().last().map(std::slice::from_ref) == Some(end.dims()))
        }
        (Op::MaskUnit | Op::MulUnit, [x, unit]) => is_prefix(unit, x),
        (Op::AddScaled, [q, h, s]) => q == h && is_prefix(s, q),
        (Op::DotUnit, [a, b]) => a == b,
        (Op::Embed, [ids, table]) => ids.is_batched() && ids.dims().len() <= 2 && has_channels(table),
        (Op::Mean | Op::Sum | Op::Max | Op::Position, [x]) => x.is_batched() && x.dims().len() >= 2,
        (Op::CumulativeMean, [x]) => x.ragged().is_some(),
        (Op::Any | Op::LongerThanOne, [x]) => x.is_batched() && x.dims().len() >= 2,
        (Op::HaltTest, [t, step]) => t.is_batched() && t.dims().len() <= 2 && step.dims().is_empty(),
        (Op::BroadcastBatch, [x, like]) => like.is_batched() && !x.is_batched(),
        (Op::BroadcastRows, [_, like]) => like.is_batched(),
        (Op::Rotate, [x]) => has_channels(x) && by_position(x),
        (Op::Linear | Op::LayerNorm | Op::RmsNorm | Op::Affine, [x, ..]) => has_channels(x),
        (Op::Attention | Op::OffsetAttention, [q, k, v, ..]) => {
            // Keys and values may have a slot for every step.
            let slots = usize::from(op == Op::Attention && k.dims().len() == 4);
            let rows = [(q, 3), (k, 3 + slots), (v, 3 + slots)];
            let rows = rows.iter().all(|(x, rank)| x.is_batched() && x.dims().len() == *rank);
            rows && k.dims()[..2] == v.dims()[..2]
        }
        (Op::Pair, [x]) => x.is_batched(),
        (Op::Dropout, [x]) => {
            by_position(x) && (x.is_batched() || x.dims().iter().all(|dim| matches!(dim, Dim::Fixed(_))))
        }
        _ => true,
    }
}
