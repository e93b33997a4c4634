//! How each op runs on a device: the one table that a new op must be entered in.

use rtc_compiler::ir::graph::{MAIN, Node};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Attr;
use rtc_compiler::plan::Plan;

/// How an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Arithmetic on one number of every operand, which neighbours share a kernel with: an expression for each result, over the
    /// operands `a`, `b`, `c`, `d` and the attribute `by`.
    Arithmetic(&'static [&'static str]),
    /// A kernel of its own, a loop, or nothing to do; with the attributes that it understands.
    Own(&'static [&'static str]),
    /// Not at all: a model with it is refused. No op is so at present.
    #[allow(dead_code, reason = "the answer for a new op that no kernel does yet")]
    None,
}

/// The way of an op.
pub(super) fn way(op: Op) -> Way {
    match op {
        Op::Gelu => Way::Arithmetic(&["gelu(a)"]),
        Op::GeluTanh => Way::Arithmetic(&["gelu_tanh(a)"]),
        Op::Relu => Way::Arithmetic(&["a < 0 ? (real)0 : a"]),
        Op::Sigmoid => Way::Arithmetic(&["sigmoid(a)"]),
        Op::Add => Way::Arithmetic(&["a + b"]),
        Op::Sub => Way::Arithmetic(&["a - b"]),
        Op::Mul => Way::Arithmetic(&["a * b"]),
        Op::Div => Way::Arithmetic(&["a / b"]),
        Op::Scale => Way::Arithmetic(&["by * a"]),
        Op::Offset => Way::Arithmetic(&["a + by"]),
        Op::Lerp => Way::Arithmetic(&["a * b + ((real)1 - a) * c"]),
        Op::Gate => Way::Arithmetic(&["sigmoid(a) * b + ((real)1 - sigmoid(a)) * c"]),
        Op::GeluGrad => Way::Arithmetic(&["b * gelu_slope(a)"]),
        Op::GeluTanhGrad => Way::Arithmetic(&["b * gelu_tanh_slope(a)"]),
        Op::ReluGrad => Way::Arithmetic(&["a > 0 ? b : (real)0"]),
        Op::SigmoidGrad => Way::Arithmetic(&["b * a * ((real)1 - a)"]),
        Op::LerpGrad => Way::Arithmetic(&["d * (b - c)", "d * a", "d * ((real)1 - a)"]),
        Op::GateGrad => Way::Arithmetic(&[
            "d * (b - c) * (sigmoid(a) * ((real)1 - sigmoid(a)))",
            "d * sigmoid(a)",
            "d * ((real)1 - sigmoid(a))",
        ]),
        // Gain and bias are numbers per channel, which the kernel reads as such.
        Op::Affine => Way::Arithmetic(&["b * a + c"]),

        Op::Param => Way::Own(&["name", "init", "group"]),
        Op::Input => Way::Own(&["name"]),
        Op::Full => Way::Own(&["value", "rank"]),
        Op::True | Op::DotUnit => Way::Own(&["rank"]),
        Op::Return => Way::Own(&["names"]),
        Op::Yield | Op::Save | Op::Squeeze | Op::Unsqueeze | Op::Detach => Way::Own(&[]),
        Op::Embed | Op::AddPosition | Op::Frame | Op::Expand | Op::Concat | Op::Pair => Way::Own(&[]),
        Op::Mean | Op::Sum | Op::Spread | Op::CumulativeMean | Op::Max => Way::Own(&[]),
        Op::Position | Op::PositionGrad => Way::Own(&["at"]),
        Op::Fill => Way::Own(&["axis"]),
        Op::Slice | Op::Pad => Way::Own(&["start", "width"]),
        Op::Linear | Op::Select | Op::MulUnit | Op::AddScaled => Way::Own(&[]),
        Op::LayerNorm | Op::LayerNormGrad => Way::Own(&["eps"]),
        Op::Dropout => Way::Own(&["p", "stream", "tied"]),
        Op::Rotate => Way::Own(&["kind", "heads", "transpose", "origin"]),
        Op::Keep => Way::Own(&["when"]),
        Op::Attention | Op::AttentionGrad => Way::Own(&["heads", "mask", "bias", "position", "dropout", "stream"]),
        Op::OffsetAttention | Op::OffsetAttentionGrad => Way::Own(&["mask"]),
        Op::S4d | Op::S4dGrad => Way::Own(&["side", "lag", "discretisation"]),
        Op::Ema | Op::EmaGrad => Way::Own(&["side", "lag"]),
        Op::HaltTest => Way::Own(&["threshold", "cap"]),
        Op::And | Op::Any | Op::Several => Way::Own(&[]),
        Op::CrossEntropy | Op::BinaryCrossEntropy | Op::Average => Way::Own(&[]),
        Op::Recur => Way::Own(&["bound"]),
        Op::Chunks => Way::Own(&["carried", "size", "count", "cut", "over", "axis"]),
        Op::Fold => {
            Way::Own(&["arity", "last", "plan", "short", "single", "padding", "flat", "over", "axis", "filled"])
        }
        Op::Unwind => Way::Own(&[
            "carried", "outputs", "slices", "axis", "over", "bound", "size", "count", "arity", "last", "plan", "short",
            "single", "padding", "filled", "beams", "role",
        ]),
        Op::LinearGradInput | Op::LinearGradWeight | Op::ColumnSum => Way::Own(&[]),
        Op::EmbedGrad | Op::AddPositionGrad | Op::FrameGrad | Op::FillGrad | Op::SumBatch | Op::PairGrad => {
            Way::Own(&[])
        }
        Op::MeanGrad | Op::CumulativeMeanGrad | Op::MaxGrad => Way::Own(&[]),
        Op::CrossEntropyGrad | Op::BinaryCrossEntropyGrad | Op::AverageGrad => Way::Own(&[]),
        Op::Accumulate => Way::Own(&["param"]),
        Op::Repeat => Way::Own(&["count"]),
        Op::Pick | Op::Put | Op::Allot | Op::AllotGrad | Op::Unfinished => Way::Own(&[]),
        Op::Neighbours | Op::NeighboursGrad => Way::Own(&["side"]),
        Op::Vanishing | Op::VanishingGrad => Way::Own(&[]),
        Op::Part => Way::Own(&["role"]),
        Op::Beam => Way::Own(&[
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
    let known: &[&str] = match way(node.op) {
        Way::Arithmetic(_) => &["by"],
        Way::Own(known) => known,
        Way::None => return Some(format!("`{}`", node.op)),
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

/// The attribute `by` of a node as the source of a kernel has it.
pub(super) fn literal(node: &Node) -> String {
    format!("(real){:?}", node.attrs.get("by").and_then(Attr::float).unwrap_or(0.0))
}
