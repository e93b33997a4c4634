//! Talking heads: the matrices that mix the scores and the probabilities of all heads.

use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::types::{Attr, Dim};
use crate::lower::Lower;
use crate::schema::{Default, FieldKind, StatementField, of_kind};
use crate::spec::Block;

/// Absent in all specs that do not write it: heads that know nothing of one another.
pub(super) const TALKING: StatementField = of_kind(
    "talking",
    FieldKind::Truth,
    Default::Absent,
    "whether the heads mix their scores before the softmax and their probabilities behind it, by two learned matrices that start as the \
     identity (talking heads, Shazeer et al. 2020, arXiv:2003.02436); `false` if left out",
);

/// Adds talking heads to an attention; gives the parameters `talking.scores` and `talking.probabilities`, [heads, heads].
pub(super) fn matrices(
    l: &mut Lower<'_>,
    block: &Block,
    heads: usize,
    attrs: &mut Attrs,
) -> Result<Vec<Value>, InvalidNode> {
    if block.truth("talking") != Some(true) {
        return Ok(vec![]);
    }
    attrs.set(attribute::TALKING, true);
    let matrix = |l: &mut Lower<'_>, name| {
        l.param(name, [Dim::Fixed(heads), Dim::Fixed(heads)], Attr::Word("identity".to_owned()))
    };
    l.scoped("talking", |l| Ok(vec![matrix(l, "scores")?, matrix(l, "probabilities")?]))
}
