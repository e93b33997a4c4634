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
    /// A kernel of its own, a loop, or nothing to do.
    Own,
    /// Not at all.
    None,
}

/// The way of an op.
pub(super) fn way(op: Op) -> Way {
    match op {
        Op::Gelu => Way::Arithmetic(&["gelu(a)"]),
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

        Op::Param | Op::Input | Op::Full | Op::True | Op::Yield | Op::Save | Op::Return => Way::Own,
        Op::Squeeze | Op::Unsqueeze | Op::Detach => Way::Own,
        Op::Embed | Op::Frame | Op::Expand | Op::Concat | Op::Slice | Op::Pad | Op::Pair => Way::Own,
        Op::Mean | Op::Sum | Op::Spread | Op::CumulativeMean | Op::Position | Op::Max => Way::Own,
        Op::Linear | Op::LayerNorm | Op::Dropout | Op::Rotate => Way::Own,
        Op::Select | Op::Keep | Op::MulUnit | Op::DotUnit | Op::AddScaled => Way::Own,
        Op::Attention | Op::OffsetAttention | Op::S4d | Op::Ema => Way::Own,
        Op::HaltTest | Op::And | Op::Any | Op::Several => Way::Own,
        Op::CrossEntropy | Op::BinaryCrossEntropy | Op::Average => Way::Own,
        Op::Recur | Op::Chunks | Op::Fold | Op::Unwind => Way::Own,
        Op::LinearGradInput | Op::LinearGradWeight | Op::ColumnSum | Op::LayerNormGrad => Way::Own,
        Op::AttentionGrad | Op::OffsetAttentionGrad | Op::S4dGrad | Op::EmaGrad => Way::Own,
        Op::EmbedGrad | Op::FrameGrad | Op::SumBatch | Op::PairGrad => Way::Own,
        Op::MeanGrad | Op::CumulativeMeanGrad | Op::PositionGrad | Op::MaxGrad => Way::Own,
        Op::CrossEntropyGrad | Op::BinaryCrossEntropyGrad | Op::AverageGrad | Op::Accumulate => Way::Own,
    }
}

/// Whether a device can run all of a plan.
///
/// # Errors
/// One sentence with the first op that it can't run.
pub fn check(plan: &Plan) -> Result<(), String> {
    let nodes = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id));
    match nodes.into_iter().find(|node| way(node.op) == Way::None) {
        Some(node) => Err(format!("{} uses `{}`, which `--device cuda` can't run yet", place(node), node.op)),
        None => Ok(()),
    }
}

fn place(node: &Node) -> String {
    if node.label.is_empty() { "the model".to_owned() } else { format!("`{}`", node.label) }
}

/// The attribute `by` of a node as the source of a kernel has it.
pub(super) fn literal(node: &Node) -> String {
    format!("(real){:?}", node.attrs.get("by").and_then(Attr::float).unwrap_or(0.0))
}
