//! Attention of the row to itself.

use super::{
    ATTENTION_DROPOUT, Around, BIAS, BIAS_INIT, HEAD_WIDTH, HEADS, MASK, PROJECTION_BIAS, TALKING, attended, bias,
    broken, modern, residual, rotation,
};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site, norm};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, Place};
use crate::schema::word;
use crate::spec::Block;

/// The feature.
pub(super) fn this() -> Feature {
    Feature {
        fields: [
            vec![
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
                TALKING,
                PROJECTION_BIAS,
                norm::PLACE,
                ATTENTION_DROPOUT,
            ],
            rotation(),
            modern(),
        ]
        .concat(),
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
    if let Some((field, message)) = broken(site.block) {
        let help = match field {
            "position" => "give an even `head_width`, or another number of heads",
            "key_heads" => "give a number that divides `heads`",
            _ => "give an even number of channels, with `position: rope` or `xpos`",
        };
        problems.report(Diagnostic::new(Kind::Indivisible, site.place(field), message).help(help));
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
    let out = attended(l, block, (x, y), Around::of(place))?;
    let sum = residual(l, place.state, out)?;
    if post { l.norm_with(sum, gain, bias) } else { Ok(sum) }
}
