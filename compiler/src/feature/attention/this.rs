//! Attention of the row to itself.

use super::{
    ATTENTION_DROPOUT, BIAS, BIAS_INIT, HEAD_WIDTH, HEADS, MASK, PROJECTION_BIAS, Projected, attention, bias, project,
};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site, norm};
use crate::ir::attribute::{self, Attrs, Origin, PositionKind};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LinearInit, Lower, Place};
use crate::schema::word;
use crate::spec::Block;

/// The feature.
pub(super) fn this() -> Feature {
    Feature {
        fields: vec![
            HEADS,
            HEAD_WIDTH,
            word(
                "position",
                &["none", "xpos", "rope", "relative_xl"],
                "none",
                "`rope` rotates queries and keys by their positions; `xpos` also decays scores with the distance; \
                `relative_xl` adds learned products with sines and cosines of the distance (Transformer-XL)",
            ),
            MASK,
            BIAS,
            BIAS_INIT,
            PROJECTION_BIAS,
            norm::PLACE,
            ATTENTION_DROPOUT,
        ],
        check,
        ..Feature::row(
            "attend",
            "self",
            "Tokens attend to the tokens of their row, inside a chunk-wise recurrence to those of their chunk.",
            "Vaswani et al. 2017, Section 3.2, arXiv:1706.03762; pre-norm: Xiong et al. 2020, arXiv:2002.04745; `rope`: Su et al. 2021, arXiv:2104.09864; `xpos`: Sun et al. 2022, arXiv:2212.10554; `relative_xl`: Dai et al. 2019, Section 3.3, arXiv:1901.02860",
            Lowering::Layer(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    bias::check(site, problems);
    let Some(position) = site.block.word("position").filter(|p| ["xpos", "rope"].contains(p)) else { return };
    if let Some(width) = site.block.int("head_width").filter(|w| w % 2 == 1) {
        problems.report(
            Diagnostic::new(
                Kind::Indivisible,
                site.place("position"),
                format!("`{position}` turns pairs of channels, but each head has {width}"),
            )
            .help("give an even `head_width`, or another number of heads"),
        );
    }
}

/// `h + drop(MHA(LN h, LN s))` with one norm for queries and keys; s is h unless the place says otherwise. Post-norm,
/// `LN(h + drop(MHA(h, s)))`.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let (gain, bias) = l.norm_params("norm")?;
    let post = block.word("norm") == Some("post");
    let normed = |l: &mut Lower<'_>, x: Value| if post { Ok(x) } else { l.norm_with(x, gain, bias) };
    let x = normed(l, place.state)?;
    let y = place.source.map_or(Ok(x), |source| normed(l, source))?;
    let mut p = project(l, block, x, y)?;
    match block.word("position") {
        Some("xpos") => turn(l, place, &mut p, [PositionKind::XposQuery, PositionKind::XposKey])?,
        Some("rope") => turn(l, place, &mut p, [PositionKind::Rope, PositionKind::Rope])?,
        _ => {}
    }
    let relative = match block.word("position") {
        Some("relative_xl") => Some(relative(l, p.queries)?),
        _ => None,
    };
    let sum = attention(l, block, place, p, relative)?;
    if post { l.norm_with(sum, gain, bias) } else { Ok(sum) }
}

/// `u`, `v` and the map of the codes of distances.
fn relative(l: &mut Lower<'_>, queries: Value) -> Result<[Value; 3], InvalidNode> {
    let (width, channels) = (l.last(queries)?, Dim::Fixed(l.width));
    let normal = || Attr::call("normal", [0.02.into()]);
    l.scoped("relative", |l| {
        let content = l.param("content", [width.clone()], normal())?;
        let position = l.param("position", [width.clone()], normal())?;
        let init = LinearInit::Projection(std::f64::consts::FRAC_1_SQRT_2).weight(&channels);
        Ok([content, position, l.param("weight", [width, channels], init)?])
    })
}

/// Turns the channel pairs of queries and keys by angles that grow with the position, so that scores depend on
/// distances; xPos also scales them by `zeta^(p/512)` and `zeta^(-p/512)`.
fn turn(l: &mut Lower<'_>, place: &Place, p: &mut Projected, kinds: [PositionKind; 2]) -> Result<(), InvalidNode> {
    let origin = if place.global_positions { Origin::Row } else { Origin::Axis };
    for (x, kind) in [&mut p.queries, &mut p.keys].into_iter().zip(kinds) {
        let attrs = Attrs::of(attribute::KIND, kind).with(attribute::HEADS, p.heads);
        let attrs = attrs.with(attribute::TRANSPOSE, false).with(attribute::ORIGIN, origin);
        *x = l.one(Op::Rotate, &[*x], attrs)?;
    }
    Ok(())
}
