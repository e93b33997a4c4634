//! Selection: the partial trees that a search keeps.

use super::{Feature, Lowering, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{Field, word};

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new("select", "Which partial trees a search keeps.", vec![top_k(), one_soft()])
}

const NOISE: Field = word(
    "noise",
    &["gumbel", "none"],
    "gumbel",
    "`gumbel`: in training, draws from the softmax of the scores; `none`: always the best",
);

fn top_k() -> Feature {
    Feature {
        fields: vec![NOISE],
        ..Feature::row(
            "select",
            "top_k",
            "The best by the sum of log-probabilities.",
            "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999",
            Lowering::Setting,
        )
    }
}

fn one_soft() -> Feature {
    Feature {
        fields: vec![NOISE],
        check: check_soft,
        ..Feature::row(
            "select",
            "one_soft",
            "As `top_k`, but the last beam is the weighted mean of all candidates without a beam. Needs `score \
        parent`.",
            "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999",
            Lowering::Setting,
        )
    }
}

/// A mean of beams needs all their parents.
fn check_soft(site: &Site<'_>, problems: &mut Problems) {
    let Some(score) = site.parent().and_then(|search| search.child("score")) else { return };
    if score.feature.values.len() == 1 {
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
