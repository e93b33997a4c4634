//! The layer of MEGA (Ma et al. 2022): moving averages, gated attention with one head, and a feed-forward network.

use super::scan::{DIRECTION, average};
use super::{Feature, Lowering, Slot};
use crate::ir::attribute::{self, Attrs, Sight};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LinearInit, Lower, Place, need};
use crate::schema::{Bounds, DROPOUT, Default, Derived, SIZE, float, int};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) fn slot() -> Slot {
    Slot::new("mega", "The layer of MEGA: moving averages, then gated attention with one head.", vec![mega()])
}

fn mega() -> Feature {
    Feature {
        fields: vec![
            int("shared", Default::Required, SIZE, "width of the queries and keys, which share one projection"),
            int("hidden", Default::Required, SIZE, "width of the values"),
            int("feedforward", Default::Required, SIZE, "width between the two layers of the feed-forward network"),
            int("dim", Default::Int(16), super::scan::DIMENSIONS, "averages per channel"),
            int(
                "reach",
                Default::Int(5000),
                REACH,
                "number of distances with a learned bias; longer distances share the last",
            ),
            DIRECTION,
            float(
                "dropout",
                Default::Derived(Derived::ModelDropout),
                DROPOUT,
                "dropout after averages, attention and network",
            ),
        ],
        ..Feature::row(
            "mega",
            "",
            "Moving averages of the row, attention with one head over them, gates around it, and a feed-forward network; \
          each with a residual connection and a layer norm on the sum.",
            "Ma et al. 2022 (MEGA), Section 3, arXiv:2209.10655",
            Lowering::Layer(lower),
        )
    }
}

/// Numbers of distances.
const REACH: Bounds = Bounds::closed(1.0, 1_000_000.0);

/// Standard deviation of all weights.
const STD: f64 = 0.02;

/// `x' = LN(x + u (o - x))` and `LN(x' + FF(x'))`: u is a gate, o what attention and averages propose.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let dropout = need(block.float("dropout"), block, "dropout")?;
    let x = place.state;
    let mixed = mix(l, block, x, dropout)?;
    let x = l.norm(mixed, "norm")?;
    let inner = Dim::Fixed(need(block.int("feedforward"), block, "feedforward")?);
    let y = l.linear(x, "up", inner, &LinearInit::Normal(STD))?;
    let y = l.silu(y)?;
    let width = Dim::Fixed(l.width);
    let y = l.linear(y, "down", width, &LinearInit::Normal(STD))?;
    let y = l.dropout(y, dropout)?;
    let sum = l.map(Pointwise::Add, &[x, y])?;
    l.norm(sum, "feedforward_norm")
}

/// `u o + (1 - u) x` with `o = drop(SiLU(base + W (attention r)))`.
///
/// One projection of the averages gives u, the shared part z and the reset gate r, and base, in this order.
fn mix(l: &mut Lower<'_>, block: &Block, x: Value, dropout: f64) -> Result<Value, InvalidNode> {
    let (shared, hidden) = (need(block.int("shared"), block, "shared")?, need(block.int("hidden"), block, "hidden")?);
    let dim = need(block.int("dim"), block, "dim")?;
    let both = need(block.word("direction"), block, "direction")? == "both";
    let init = LinearInit::Normal(STD);
    let width = l.width;
    let values = l.linear(x, "value", Dim::Fixed(hidden), &init)?;
    let values = l.silu(values)?;
    let averages = l.scoped("ema", |l| average(l, x, dim, both))?;
    let averages = l.dropout(averages, dropout)?;
    let all = l.linear(averages, "project", Dim::Fixed(2 * width + shared + hidden), &init)?;
    let update = l.channels(all, 0, width)?;
    let both_parts = l.channels(all, width, shared + hidden)?;
    let base = l.channels(all, width + shared + hidden, width)?;
    let both_parts = l.silu(both_parts)?;
    let (z, reset) = (l.channels(both_parts, 0, shared)?, l.channels(both_parts, shared, hidden)?);
    let attended = attend(l, block, z, values, both)?;
    let kept = l.map(Pointwise::Mul, &[attended, reset])?;
    let proposed = l.linear(kept, "output", Dim::Fixed(width), &init)?;
    let proposed = l.map(Pointwise::Add, &[base, proposed])?;
    let proposed = l.silu(proposed)?;
    let proposed = l.dropout(proposed, dropout)?;
    let update = l.map(Pointwise::Sigmoid, &[update])?;
    l.map(Pointwise::Lerp, &[update, proposed, x])
}

/// Attention of `gain z + bias` to itself, with a learned number per distance.
fn attend(l: &mut Lower<'_>, block: &Block, z: Value, values: Value, both: bool) -> Result<Value, InvalidNode> {
    let reach = need(block.int("reach"), block, "reach")?;
    let width = l.last(z)?;
    let scaled = |l: &mut Lower<'_>, name: &str| {
        l.scoped(name, |l| {
            let gain = l.param("gain", [width.clone()], Attr::call("normal", [STD.into()]))?;
            let bias = l.param("bias", [width.clone()], "zeros".into())?;
            l.one(Op::Affine, &[z, gain, bias], Attrs::new())
        })
    };
    let (queries, keys) = (scaled(l, "query")?, scaled(l, "key")?);
    let offsets = l.param("offsets", [Dim::Fixed(2 * reach - 1)], Attr::call("normal", [STD.into()]))?;
    let sight = if both { Sight::All } else { Sight::Causal };
    l.one(Op::OffsetAttention, &[queries, keys, values, offsets], Attrs::of(attribute::SIGHT, sight))
}
