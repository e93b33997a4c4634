//! Selection: the partial trees that a search keeps.

use super::{Feature, Lowering, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{Field, word};

/// The keyword and its variants.
pub(super) const SLOT: Slot =
    Slot { name: "select", doc: "Which partial trees a search keeps.", features: &[TOP_K, ONE_SOFT], planned: &[] };

const NOISE: Field = word(
    "noise",
    &["gumbel", "none"],
    "gumbel",
    "`gumbel`: in training, draws from the softmax of the scores; `none`: always the best",
);

const TOP_K: Feature = Feature {
    slot: "select",
    variant: "top_k",
    doc: "The best by the sum of log-probabilities.",
    source: "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999",
    fields: &[NOISE],
    ..Feature::plain(Lowering::Setting)
};

const ONE_SOFT: Feature = Feature {
    slot: "select",
    variant: "one_soft",
    doc: "As `top_k`, but the last beam is the weighted mean of all candidates without a beam. Needs `score \
        parent`.",
    source: "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999",
    fields: &[NOISE],
    children: &[],
    check: check_soft,
    lower: Lowering::Setting,
};

/// A mean of beams needs all their parents.
fn check_soft(site: &Site<'_>, problems: &mut Problems) {
    let Some(score) = site.parent().and_then(|search| search.child("score")) else { return };
    if score.variant == "parent" {
        return;
    }
    problems.report(
        Diagnostic::new(
            Kind::SoftNeedsParents,
            site.block.span,
            "`select one_soft` mixes what all pairs are joined to",
        )
        .note(score.span, "this joins only what is chosen")
        .help("use `score parent`, or `select top_k`"),
    );
}
