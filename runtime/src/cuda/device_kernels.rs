//! The kernel of each op on a device: the one table in which a new op must be entered.

use rtc_compiler::ir::graph::{MAIN, Node};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Attr;
use rtc_compiler::plan::Plan;

/// How an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelKind {
    /// Arithmetic on one number of every operand, which neighbours share a kernel with; with the attributes that it understands.
    Arithmetic(&'static [&'static str]),
    /// A kernel of its own, a loop, or nothing to do; with the attributes that it understands.
    Own(&'static [&'static str]),
    /// Not at all: a model with it is refused. No op is so at present.
    #[allow(dead_code, reason = "the answer for a new op that no kernel does yet")]
    None,
}

/// The way of an op.
pub(super) fn kernel_kind(op: Op) -> KernelKind {
    match op {
        Op::Map => KernelKind::Arithmetic(&["f"]),
        Op::Affine => KernelKind::Arithmetic(&[]),

        Op::Param => KernelKind::Own(&["name", "init", "group"]),
        Op::Input => KernelKind::Own(&["name"]),
        Op::Full => KernelKind::Own(&["value", "rank"]),
        Op::True | Op::DotUnit => KernelKind::Own(&["rank"]),
        Op::Return => KernelKind::Own(&["names"]),
        Op::Yield | Op::Save | Op::Squeeze | Op::Unsqueeze | Op::Detach => KernelKind::Own(&[]),
        Op::Embed | Op::AddPosition | Op::Frame | Op::BroadcastBatch | Op::Concat | Op::Pair => KernelKind::Own(&[]),
        Op::Mean | Op::Sum | Op::BroadcastRows | Op::CumulativeMean | Op::Max => KernelKind::Own(&[]),
        Op::Position | Op::PositionGrad => KernelKind::Own(&["at"]),
        Op::PadRagged => KernelKind::Own(&["axis"]),
        Op::Slice | Op::Pad => KernelKind::Own(&["start", "width"]),
        Op::Linear | Op::Select | Op::MulUnit | Op::AddScaled => KernelKind::Own(&[]),
        Op::LayerNorm | Op::LayerNormGrad => KernelKind::Own(&["eps"]),
        Op::Dropout => KernelKind::Own(&["p", "stream", "tied"]),
        Op::Rotate => KernelKind::Own(&["kind", "heads", "transpose", "origin"]),
        Op::MaskUnit => KernelKind::Own(&["when"]),
        Op::Attention | Op::AttentionGrad => {
            KernelKind::Own(&["heads", "mask", "bias", "position", "dropout", "stream"])
        }
        Op::OffsetAttention | Op::OffsetAttentionGrad => KernelKind::Own(&["mask"]),
        Op::S4d | Op::S4dGrad => KernelKind::Own(&["side", "lag", "discretisation"]),
        Op::Ema | Op::EmaGrad => KernelKind::Own(&["side", "lag"]),
        Op::HaltTest => KernelKind::Own(&["threshold", "cap"]),
        Op::And | Op::Any | Op::LongerThanOne => KernelKind::Own(&[]),
        Op::CrossEntropy | Op::BinaryCrossEntropy | Op::Average => KernelKind::Own(&[]),
        Op::Recur => KernelKind::Own(&["bound"]),
        Op::Chunks => KernelKind::Own(&["carried", "size", "count", "cut", "over", "axis"]),
        Op::Fold => {
            KernelKind::Own(&["arity", "last", "plan", "short", "single", "padding", "flat", "over", "axis", "filled"])
        }
        Op::Unwind => KernelKind::Own(&[
            "carried", "outputs", "slices", "axis", "over", "bound", "size", "count", "arity", "last", "plan", "short",
            "single", "padding", "filled", "beams", "role",
        ]),
        Op::LinearGradInput | Op::LinearGradWeight | Op::ColumnSum => KernelKind::Own(&[]),
        Op::EmbedGrad | Op::AddPositionGrad | Op::FrameGrad | Op::PadRaggedGrad | Op::SumBatch | Op::PairGrad => {
            KernelKind::Own(&[])
        }
        Op::MeanGrad | Op::CumulativeMeanGrad | Op::MaxGrad => KernelKind::Own(&[]),
        Op::CrossEntropyGrad | Op::BinaryCrossEntropyGrad | Op::AverageGrad => KernelKind::Own(&[]),
        Op::Accumulate => KernelKind::Own(&["param"]),
        Op::Repeat => KernelKind::Own(&["count"]),
        Op::SlotGet | Op::SlotSet | Op::SlotSoftmax | Op::SlotSoftmaxGrad | Op::AnyUnmerged => KernelKind::Own(&[]),
        Op::Neighbours | Op::NeighboursGrad => KernelKind::Own(&["side"]),
        Op::MergeProbability | Op::MergeProbabilityGrad => KernelKind::Own(&[]),
        Op::Part => KernelKind::Own(&["role"]),
        Op::Beam => KernelKind::Own(&[
            "beams",
            "compose",
            "overflow",
            "noise",
            "draws",
            "align",
            "keep_best",
            "arity",
            "last",
            "plan",
            "flat",
            "over",
            "axis",
        ]),
    }
}

/// The words that an attribute may be, where the kernels tell them apart.
fn words(op: Op, attribute: &str) -> Option<&'static [&'static str]> {
    match (op, attribute) {
        (Op::Position | Op::PositionGrad, "at") => Some(&["first", "last", "before_last"]),
        (Op::Rotate, "kind") => Some(&["rope", "xpos_query", "xpos_key"]),
        (Op::Attention | Op::AttentionGrad, "position") => Some(&["relative_xl"]),
        (Op::OffsetAttention | Op::OffsetAttentionGrad, "mask") => Some(&["all", "causal"]),
        (Op::S4d | Op::Ema | Op::S4dGrad | Op::EmaGrad | Op::Neighbours | Op::NeighboursGrad, "side") => {
            Some(&["left", "right"])
        }
        (Op::S4d | Op::S4dGrad, "discretisation") => Some(&["bilinear", "zoh"]),
        (Op::Chunks, "cut") => Some(&["position", "balanced"]),
        (Op::Fold | Op::Unwind, "last") => Some(&["merge", "strict"]),
        (Op::Fold | Op::Unwind, "plan") => Some(&["row", "batch"]),
        (Op::Fold | Op::Unwind, "short") => Some(&["first", "last"]),
        (Op::Fold | Op::Unwind, "single") => Some(&["fold", "pass"]),
        _ => None,
    }
}

/// Whether a device can run all of a plan.
///
/// # Errors
/// One sentence with the first op that it can't run, or can't run as it is asked for.
pub fn check(plan: &Plan) -> Result<(), String> {
    let nodes = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id));
    match nodes.into_iter().find_map(|node| refused(node).map(|what| (node, what))) {
        Some((node, what)) => Err(format!("{} uses {what}, which `--device cuda` can't run", place(node))),
        None => Ok(()),
    }
}

/// What of a node a device can't run.
fn refused(node: &Node) -> Option<String> {
    let known: &[&str] = match kernel_kind(node.op) {
        KernelKind::Arithmetic(known) | KernelKind::Own(known) => known,
        KernelKind::None => return Some(format!("`{}`", node.op)),
    };
    let strange = |(name, value): &(&&'static str, &Attr)| {
        let other = || words(node.op, name).zip(value.text()).is_some_and(|(words, text)| !words.contains(&text));
        !known.contains(name) || other()
    };
    node.attrs.iter().find(strange).map(|(name, value)| format!("`{}` with `{name}: {value}`", node.op))
}

fn place(node: &Node) -> String {
    if node.label.is_empty() { "the model".to_owned() } else { format!("`{}`", node.label) }
}
