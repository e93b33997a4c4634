//! Damped moving averages in several dimensions (MEGA, Ma et al. 2022).

use super::{BEFORE, BEHIND, DIRECTION, DROPPED, NORM, View, both, residual};
use crate::feature::{Feature, Lowering};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Dim};
use crate::lower::{Lower, Place, need};
use crate::schema::{Bounds, Default, int};
use crate::spec::Block;

/// The feature.
pub(super) fn ema() -> Feature {
    Feature {
        fields: vec![int("dim", Default::Int(16), DIMENSIONS, "averages per channel"), DIRECTION, DROPPED, NORM],
        ..Feature::row(
            "scan",
            "ema",
            "Damped moving averages: scan, SiLU, and a residual connection.",
            "Ma et al. 2022 (MEGA), Section 3.1, arXiv:2209.10655",
            Lowering::Layer(lower),
        )
    }
}

/// Numbers of averages per channel.
const DIMENSIONS: Bounds = Bounds::closed(1.0, 4096.0);

/// `x + tied(SiLU(average(x)))`.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let dim = need(block.int("dim"), block, "dim")?;
    let dropout = need(block.float("dropout"), block, "dropout")?;
    let both = both(block)?;
    residual(l, block, place, |l, x| {
        let y = average(l, x, dim, both)?;
        l.tied_dropout(y, dropout)
    })
}

/// `SiLU(forward average + backward average + omega x)`; both averages hold the own position.
pub(crate) fn average(l: &mut Lower<'_>, x: Value, dim: usize, both: bool) -> Result<Value, InvalidNode> {
    let width = Dim::Fixed(l.width);
    let mut y = l.scoped("forward", |l| one_side(l, x, dim, BEFORE))?;
    if both {
        let backward = l.scoped("backward", |l| one_side(l, x, dim, BEHIND))?;
        y = l.map(Pointwise::Add, &[y, backward])?;
    }
    let omega = l.param("omega", [width], Attr::call("normal", [1.0.into()]))?;
    let through = l.one(Op::Affine, &[x, omega], Attrs::new())?;
    let y = l.map(Pointwise::Add, &[y, through])?;
    l.silu(y)
}

fn one_side(l: &mut Lower<'_>, x: Value, dim: usize, view: View) -> Result<Value, InvalidNode> {
    let dims = [l.width, dim].map(Dim::Fixed);
    let normal = |std: f64| Attr::call("normal", [std.into()]);
    let delta = l.param("delta", dims.clone(), normal(0.2))?;
    let alpha = l.param("alpha", dims.clone(), normal(0.2))?;
    let beta = l.param("beta", dims.clone(), Attr::call("alternating", [0.02.into()]))?;
    let gamma = l.param("gamma", dims, normal(1.0))?;
    l.one(Op::Ema, &[x, delta, alpha, beta, gamma], view.attrs())
}
